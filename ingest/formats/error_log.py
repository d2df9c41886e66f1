"""Text with tracebacks or GPU errors that no engine's format knows: a pasted excerpt, a client's log.

Owns only that an error can be read without knowing the program. It makes no run: nothing says that a server
was started.
"""

from __future__ import annotations

from ingest.assemble import read_log
from ingest.events import Grammar
from ingest.formats import Format
from ingest.serverlog import COMMON_RULES
from ingest.sources import Source
from kb.model import Reading
from kb.wire import experiment_to_wire

GRAMMAR = Grammar(engine="", rules=COMMON_RULES)
MARKERS = (
    "Traceback (most recent call last)",
    "CUDA error:",
    "CUDA out of memory",
    "ProcessGroupNCCL.cpp",
    "NCCL WARN",
    "no kernel image is available",
    "RuntimeError: ",
    "error: unrecognized arguments",
    "Segmentation fault",
    "_init failed for some reason; your parallel process",
)


def sniff(source: Source) -> float:
    """Just above nothing: every format that knows the program comes first."""
    return 0.31 if any(marker in source.head for marker in MARKERS) else 0.0


def read(source: Source) -> Reading:
    """No experiments; what happened stands in ``extra`` for ``diagnose``."""
    reading = read_log(source, GRAMMAR, "error_log")
    happened = [experiment_to_wire(one) for one in reading.experiments]
    return Reading(
        path=reading.path,
        format="error_log",
        kind="unknown",
        status=reading.status,
        lines=reading.lines,
        problems=reading.problems,
        extra={**reading.extra, "happened": happened},
    )


FORMAT = Format(
    name="error_log",
    kind="unknown",
    sniff=sniff,
    read=read,
    docs="Text with tracebacks or GPU errors of an unknown program: read for `diagnose`, no run of its own.",
)
