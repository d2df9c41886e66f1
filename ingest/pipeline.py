"""From paths to readings: find sources, read each by its format, redact what it tells.

Owns the order of these steps and their spread over processes. Must not know any format, nor the store.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from ingest.formats import read_source
from ingest.redact import redact_reading
from ingest.sources import Source, find_sources
from kb.model import Problem, Reading

MANY_FILES = 300
MANY_BYTES = 64 << 20
J = TypeVar("J")
L = TypeVar("L")


def read(source: Source, columns: Sequence[str] = ()) -> Reading:
    """What one source tells, without secrets. A source that breaks its parser is a refused reading.

    ``columns`` names the columns of a table without a header, in order.
    """
    try:
        return redact_reading(read_source(source, columns))
    except Exception as error:
        what = f"the parser failed on this file ({type(error).__name__}: {error}); please report it"
        return Reading(
            path=str(source.path),
            format="unknown",
            status="refused",
            problems=(Problem(line=None, what=what),),
        )


def read_paths(paths: Iterable[Path], columns: Sequence[str] = ()) -> Iterator[Reading]:
    """A reading for every source under the given paths, in a stable order."""
    for source in find_sources(list(paths)):
        yield read(source, columns)


def in_order(look: Callable[[J], L], jobs: Iterable[J], count: int, size: int) -> Iterator[L]:
    """``look`` of every job, in the jobs' order; over processes where that pays.

    ``count`` and ``size`` (bytes) are those of all jobs together.
    """
    workers = min(available_cores(), 8)
    if workers < 2 or (count < MANY_FILES and size < MANY_BYTES) or count < 2:
        yield from map(look, jobs)
        return
    import multiprocessing  # noqa: PLC0415 - costs start-up time, and one process is the rule
    from concurrent.futures import Future, ProcessPoolExecutor  # noqa: PLC0415

    def result(one: Future[L] | L) -> L:
        return one.result() if isinstance(one, Future) else one

    context = multiprocessing.get_context("forkserver")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        waiting: deque[Future[L] | L] = deque()
        for job in jobs:
            waiting.append(pool.submit(look, job) if _travels(job) else look(job))
            while len(waiting) > workers * 4:
                yield result(waiting.popleft())
        while waiting:
            yield result(waiting.popleft())


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _travels(job: object) -> bool:
    """Whether another process can open the job's source: a plain file, not a pipe or an archive's member."""
    source = getattr(job, "source", None)
    return source is not None and source.path.is_file()
