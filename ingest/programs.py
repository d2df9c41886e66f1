"""Texts that are no outcome of a run: source code, scripts, patches, and what builds an image.

Owns telling them from their head. They quote lines of logs and labels of results to search for them, so that
only what they start may be taken from them.
"""

from __future__ import annotations

import re
from functools import lru_cache

_START = re.compile(r"\ufeff?\s*(?:#!|diff --git |From [0-9a-f]{40} |--- \S[^\n]*\n\+\+\+ )")
_IMAGE_BUILD = re.compile(r"#0 building with |#1 \[internal\] load ", re.MULTILINE)
_CODE = re.compile(
    r"^(?:import [\w.]+(?: as \w+)?$|from [\w.]+ import [\w(]|(?:async )?def \w+\(|class \w+[(:]|"
    r"package [\w.]+;?$|#include [<\"]|(?:export )?(?:const|function) \w+|use [\w:]+;$)",
    re.MULTILINE,
)
_FENCED = re.compile(r"^ {0,3}```.*?(?:^ {0,3}```|\Z)", re.MULTILINE | re.DOTALL)  # what a page quotes
_ENOUGH, _READ = 3, 20_000


@lru_cache(maxsize=8)
def is_program(head: str) -> bool:
    """Whether a text is a program or a patch; a log in which some code stands is none."""
    start = head[:_READ]
    if _START.match(start) or _IMAGE_BUILD.match(start):
        return True
    own = _FENCED.sub("", start) if "```" in start else start
    return len(_CODE.findall(own)) >= _ENOUGH and not _looks_timed(start)


def _looks_timed(start: str) -> bool:
    """Whether lines begin with a time or a level, as a log's do."""
    return (
        re.search(r"^\W{0,3}(?:\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|(?:INFO|WARNING|ERROR)\b)", start, re.MULTILINE)
        is not None
    )
