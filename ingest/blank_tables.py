"""GPU traces as tables whose columns are set apart by blanks: a header of words, and rows as wide.

Owns finding such a header. What a word means is ingest.gpu_columns'.
"""

from __future__ import annotations

import re

from ingest.gpu_columns import Column, recognise_column
from ingest.gpu_csv import TraceLayout

_SEARCHED = 20
_FEWEST = 4
_ROWS = 20
_STAMP = re.compile(r"\d{4}[-/]\d\d[-/]\d\d \d\d:\d\d:\d\d")


def find_layout(head: str) -> TraceLayout | None:
    """The layout of a table set apart by blanks; None where the first lines hold none of a GPU's state."""
    lines = head.split("\n")
    for number, line in enumerate(lines[:_SEARCHED]):
        words = line.strip("\r #\ufeff").split()
        if len(words) < _FEWEST or any(re.match(r"[-\d]", word) for word in words):
            continue
        columns = tuple(recognise_column(word) for word in words)
        known = [one for one in columns if one.role != "other"]
        if 2 * len(known) <= len(words) or sum(one.is_metric for one in known) < 2:
            continue
        rows = [row for row in lines[number + 1 : -1] if re.search(r"\d", row)][:_ROWS]
        found = _as_wide(columns, rows)
        return TraceLayout(found, "", ".", line.strip("\r \ufeff"), number + 1) if found else None
    return None


def _as_wide(columns: tuple[Column, ...], rows: list[str]) -> tuple[Column, ...]:
    """The columns that rows have: a time with its day takes two."""
    widths = {len(row.split()) for row in rows}
    if not rows or len(widths) > 1:
        return ()
    width = widths.pop()
    at = next((at for at, one in enumerate(columns) if one.role == "time"), None)
    if width == len(columns):
        return columns
    if at is not None and width == len(columns) + 1 and all(_STAMP.search(row) for row in rows):
        return (*columns[:at], Column("day", "date"), *columns[at:])
    return ()
