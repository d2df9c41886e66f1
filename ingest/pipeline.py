"""From paths to readings: find sources, read each by its format, redact what it tells.

Owns the order of these steps and their spread over processes. Must not know any format, nor the store.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import cast

from ingest.formats import read_source
from ingest.sources import Source, find_sources
from kb.model import Problem, Reading


def read(source: Source) -> Reading:
    """What one source tells, without secrets. A source that breaks its parser is a refused reading."""
    try:
        return _redaction()(read_source(source))
    except Exception as error:
        what = f"the parser failed on this file ({type(error).__name__}: {error}); please report it"
        return Reading(
            path=str(source.path),
            format="unknown",
            status="refused",
            problems=(Problem(line=None, what=what),),
        )


def read_paths(paths: Iterable[Path]) -> Iterator[Reading]:
    """A reading for every source under the given paths, in a stable order."""
    for source in find_sources(list(paths)):
        yield read(source)


@cache
def _redaction() -> Callable[[Reading], Reading]:
    try:
        module = importlib.import_module("ingest.redact")
    except ModuleNotFoundError:
        return replace
    return cast(Callable[[Reading], Reading], getattr(module, "redact_reading", replace))
