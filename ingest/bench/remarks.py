"""Remarks above the header of a delimited file: "# model: NAME", "# Licensed under …".

Owns telling them from the header, and the fields that they hold. Must not read the table.
"""

from __future__ import annotations

import re

from ingest.bench import front, tables
from ingest.bench.quantities import understand

_REMARKS = re.compile(r"(?:#(?:[ \t#!-].*)?\n|[ \t]*\n)*#(?:[ \t#!-].*)?\n[ \t\n]*(?=[^#\s])")
_FEWEST = 3  # columns of a table


def without(text: str) -> str:
    """The text without its remarks, whose lines stay empty; a last one that is the header stays as such."""
    text = text.lstrip("\ufeff")
    found = _REMARKS.match(text)
    if found is None:
        return text
    above, below = found[0].rstrip(), text[found.end() :]
    last = above.rpartition("\n")[2]
    if _heads(last[1:], below.split("\n", 1)[0]):
        return "\n" * above.count("\n") + last[1:].lstrip() + "\n" + below
    return "\n" * found[0].count("\n") + below


def fields(text: str) -> list[tuple[str, str]]:
    """What the remarks say of what was measured."""
    found = _REMARKS.match(text.lstrip("\ufeff"))
    return front.pairs_in(line.lstrip("# ") for line in found[0].split("\n")) if found else []


def _heads(remark: str, row: str) -> bool:
    """Whether a remark is the header of the row below it ("# concurrency,ttft_ms")."""
    labels, values = (next(iter(tables.delimited(one)), []) for one in (remark, row))
    if len(labels) < _FEWEST or len(labels) != len(values):
        return False
    return any(map(understand, labels)) and not any(map(understand, values))
