"""Tables whose columns are named by several header rows: groups above, statistics and units below.

Owns putting the rows of such a header together. Must not know any tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ingest.bench.tables import Table

_RULE = re.compile(r"^[|\s=+-]{8,}$")


def joined_labels(header: Sequence[Sequence[str]]) -> list[str]:
    """One label per column: the last header row, then the groups; a blank cell continues its left group."""
    width = max((len(row) for row in header), default=0)
    rows = [_filled(list(row) + [""] * (width - len(row)), last=row is header[-1]) for row in header]
    labels = []
    for index in range(width):
        parts = [row[index].strip() for row in (rows[-1], *rows[:-1])]
        labels.append(" ".join(dict.fromkeys(part for part in parts if part)))
    return labels


def _filled(row: list[str], *, last: bool) -> list[str]:
    if last:
        return row
    for index in range(1, len(row)):
        row[index] = row[index] if row[index].strip() else row[index - 1]
    return row


def stacked_tables(lines: Iterable[tuple[int, str]]) -> list[Table]:
    """Tables between rules of ``=``; a rule of ``-`` parts header rows from values, bars part cells."""
    found: list[Table] = []
    header: list[list[str]] = []
    table: Table | None = None
    first = 0
    for number, line in lines:
        text = line.strip()
        if _RULE.match(text) and len(text) > 8:
            if "=" in text:
                header, table, first = [], None, number
            elif header and table is None:
                table = Table(joined_labels(header), first + 1)
                found.append(table)
        elif text.count("|") >= 2 and table is not None:
            table.rows.append((number, _cells(text)))
        elif text.count("|") >= 2 and first:
            header.append(_cells(text))
        else:
            header, table, first = [], None, 0
    return [one for one in found if one.rows]


def _cells(text: str) -> list[str]:
    """Cells of a row, with or without bars at its ends; blank cells inside stay."""
    parts = text.split("|")
    if text.startswith("|"):
        parts = parts[1:]
        parts = parts[:-1] if text.endswith("|") else parts
    return [part.strip() for part in parts]
