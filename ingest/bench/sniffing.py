"""Cheap recognition: literals before patterns, and pages before the tables in them.

Owns wrappers of sniff functions. Must not know any format.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from ingest.sources import Source

Sniff = Callable[[Source], float]
_SUFFIXES = (".md", ".markdown", ".mdx")


def is_page(source: Source) -> bool:
    """Whether a file is a Markdown page, which is read as a whole rather than for one table in it."""
    return source.name.lower().removesuffix(".gz").endswith(_SUFFIXES)


def needing(*literals: str) -> Callable[[Sniff], Sniff]:
    """A sniff that runs only where the head holds one of some literals (a search is far cheaper)."""

    def wrap(sniff: Sniff) -> Sniff:
        @wraps(sniff)
        def needed(source: Source) -> float:
            head = source.head
            return sniff(source) if any(literal in head for literal in literals) else 0.0

        return needed

    return wrap


def below_pages(sniff: Sniff) -> Sniff:
    """A sniff that leaves Markdown pages to the page reader, which hands quoted output on."""

    @wraps(sniff)
    def below(source: Source) -> float:
        sure = sniff(source)
        return min(sure, 0.5) if sure > 0.5 and is_page(source) else sure

    return below
