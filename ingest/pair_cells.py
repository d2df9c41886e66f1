"""Columns that their cells show to be other than the header says: pairs of figures, a load named ``GPU``.

Owns looking at them before a trace is counted: ``10240 / 81559 MiB`` becomes two columns, use and whole (draw
and limit likewise). Must not decide what other columns mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ingest.gpu_columns import Column, is_unit_of, unit_factor
from ingest.gpu_csv import TraceLayout, split_cells

_PAIR = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*/\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")
_MEMORY = re.compile(r"(?i)(?:^|[^a-z])(?:gpu)?(?:mem|memory|vram|fb)(?:[^a-z]|$|usage|use)")
_WHOLE = {"memory_used_mib": "memory_total_mib", "power_w": "power_limit_w"}
_LOOKED_AT = 20
_MOST_CARDS = 32


def apart(found: TraceLayout, lines: Iterator[str], head: str) -> tuple[TraceLayout, Iterator[str]]:
    """A layout and its blocks of lines, with every column of pairs as two where no other tells the second."""
    if not found.delimiter:
        return found, lines
    rows = [split_cells(line, found.delimiter) for line in head.split("\n")[found.skip :][:_LOOKED_AT]]
    rows = [row for row in rows if len(row) == len(found.columns)]
    told = ((at, _role_of_pairs(one, at, rows)) for at, one in enumerate(found.columns))
    pairs = {at: role for at, role in told if role and found.position(_WHOLE[role]) is None}
    if not pairs:
        return found, lines
    columns: list[Column] = []
    for at, one in enumerate(found.columns):
        columns += _two(one, pairs[at], rows[0][at]) if at in pairs else [one]
    header = _split(found.header, found, pairs)
    return replace(found, columns=tuple(columns), header=header), _lines(lines, found, pairs)


def as_meant(found: TraceLayout, head: str) -> TraceLayout:
    """A layout whose column ``GPU`` is its load where its figures can be no numbers of cards."""
    at = found.position("index")
    if at is None or found.columns[at].name.strip(' "#').lower() != "gpu" or not found.delimiter:
        return found
    rows = (split_cells(line, found.delimiter) for line in head.split("\n")[found.skip :])
    told = [row[at].strip(' "') for row in rows if len(row) == len(found.columns)]
    figures = [float(cell) for cell in told if re.fullmatch(r"\d+(?:\.\d+)?", cell)]
    if not figures or (max(figures) < _MOST_CARDS and all(one.is_integer() for one in figures)):
        return found
    role = "other" if found.position("utilization_pct") is not None else "utilization_pct"
    meant = replace(found.columns[at], role=role, exact=False)
    return replace(found, columns=(*found.columns[:at], meant, *found.columns[at + 1 :]))


def _role_of_pairs(column: Column, at: int, rows: Sequence[list[str]]) -> str | None:
    cells = [row[at] for row in rows if row[at].strip()]
    if not cells or not all(_PAIR.fullmatch(cell) for cell in cells):
        return None
    if column.role == "other" and _MEMORY.search(column.name):
        return "memory_used_mib"
    return column.role if column.role in _WHOLE else None


def _two(column: Column, role: str, cell: str) -> list[Column]:
    found = _PAIR.fullmatch(cell)
    told = (found[4] or found[2]) if found else ""
    unit = told if is_unit_of(role, told) else column.unit if is_unit_of(role, column.unit) else ""
    first = replace(column, role=role, unit=unit, factor=unit_factor(role, unit))
    return [first, replace(first, name=f"{column.name} (whole)", role=_WHOLE[role])]


def _lines(texts: Iterator[str], found: TraceLayout, pairs: dict[int, str]) -> Iterator[str]:
    for text in texts:
        yield "\n".join(_split(line, found, pairs) for line in text.split("\n"))


def _split(line: str, found: TraceLayout, pairs: dict[int, str]) -> str:
    """A line with each pair as two cells; one that is no row, or holds no pair there, keeps what it has."""
    cells = split_cells(line, found.delimiter)
    if len(cells) != len(found.columns):
        return line
    told = [_figures(cell) if at in pairs else [cell] for at, cell in enumerate(cells)]
    return found.delimiter.join(cell.replace(found.delimiter, " ") for some in told for cell in some)


def _figures(cell: str) -> list[str]:
    pair = _PAIR.fullmatch(cell)
    return [f"{pair[1]} {pair[2] or pair[4]}", f"{pair[3]} {pair[4] or pair[2]}"] if pair else [cell, ""]
