"""The folder of a benchmark without a server: its own, without what only says which files or load lie in it.

Owns these words: ``run/raw``, ``run/logs`` and ``run/rate_5`` are at home in ``run``. Must not look at files.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import PurePosixPath

LOAD = (
    r"(c|cc|con|conc|concurrency|bs|batch|n|np|qps|rate|rr|rps|mc|users?)[-_=]?(?:\d+(?:\.\d+)?|inf)(?![a-z])"
)
_KIND = re.compile(
    r"raw|logs?|jsonl?|csv|std(?:out|err)|client|derived|gpus?|telemetry|traces?|metrics|monitor(?:ing)?|"
    r"guidellm|aiperf|genai[-_]?perf|llmperf|evalscope"
)
_LOAD = re.compile(LOAD)
_LEVELS = 2
NOBODYS = frozenset({"/", "/tmp", "/var/tmp", "/home", ".", "~"})  # noqa: S108 - neighbours there are strangers


@lru_cache(maxsize=16384)
def home(folder: str) -> str:
    """The folder to which what lies in this one belongs."""
    return _without(folder, (_KIND, _LOAD))


@lru_cache(maxsize=16384)
def of_loads(folder: str) -> str:
    """The folder in which the loads of one benchmark lie, each in a folder of its own."""
    return _without(folder, (_LOAD,))


def _without(folder: str, names: tuple[re.Pattern[str], ...]) -> str:
    path = PurePosixPath(folder)
    for _ in range(_LEVELS):
        if str(path.parent) in NOBODYS or not any(one.fullmatch(path.name.lower()) for one in names):
            break
        path = path.parent
    return str(path)
