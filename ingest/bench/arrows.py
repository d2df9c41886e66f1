"""Columns that hold a figure before and after a change: "TTFT off → on" over "0.54 → 0.06 s".

Owns laying such rows out, one for each side of the arrow. Must not decide what a label measures.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ingest.bench import cells
from ingest.bench.quantities import understand
from ingest.bench.tables import Table

_ARROW = r"\s*(?:→|->|⟶)\s*"
_LABEL = re.compile(
    rf"(?P<measure>.+?)\s*\((?P<one>[^()→]+?){_ARROW}(?P<other>[^()→]+?)\)"
    rf"|(?P<named>.+?) (?P<before>[\w.-]+){_ARROW}(?P<after>[\w.-]+)"
)
_FIGURE = r"[~≈]?\d[\d.,]*"
_UNIT = r"[A-Za-zµ][A-Za-zµ/]*"
_CELL = re.compile(
    rf"(?P<one>{_FIGURE})\s*(?P<own>{_UNIT})?{_ARROW}(?P<other>{_FIGURE})\s*(?P<unit>{_UNIT})?\s*(?:\([^()]*\))?"
)


def split(table: Table) -> Table:
    """The table with a row for each side of its arrows, where all columns that have one name the same two."""
    told = {at: one for at, label in enumerate(table.header) if (one := _sides(cells.plain(label)))}
    sides = {one[1:] for one in told.values()}
    if len(sides) != 1:
        return table
    header = [told[at][0] if at in told else label for at, label in enumerate(table.header)]
    rows = [
        (line, [*_of_side(row, told, side), name])
        for line, row in table.rows
        for side, name in enumerate(next(iter(sides)))
    ]
    return replace(table, header=[*header, "variant"], rows=rows)


def _sides(label: str) -> tuple[str, str, str] | None:
    """(measure, before, after) of a label."""
    found = _LABEL.fullmatch(label)
    if found is None:
        return None
    measure = found["measure"] or found["named"]
    names = (found["one"] or found["before"]).strip(), (found["other"] or found["after"]).strip()
    return (measure, *names) if understand(measure) is not None else None


def _of_side(row: list[str], told: dict[int, tuple[str, str, str]], side: int) -> list[str]:
    parts = list(row)
    for at in told:
        found = _CELL.fullmatch(cells.plain(row[at])) if at < len(row) else None
        if at < len(row):
            unit = (found["own"] or found["unit"] or "") if found and not side else ""
            unit = found["unit"] or "" if found and side else unit
            parts[at] = f"{found['other' if side else 'one']} {unit}".strip() if found else ""
    return parts
