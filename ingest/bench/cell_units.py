"""Columns (and rows) of rates whose label leaves the unit to the cells: "Median decode" over "168.6 tok/s".

Owns putting the unit into the label. Must not decide what a label measures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from ingest.bench import cells
from ingest.bench.quantities import understand, words_of
from ingest.bench.rows import place
from ingest.bench.tables import Table

_RATE = re.compile(r"(?:(?:tok(?:en)?s?|t|req(?:uest)?s?)/(?:s|sec|second)|tps)\b", re.IGNORECASE)
_SCOPE = re.compile(r"(?:per|each) (?:stream|user|request|req|seq|sequence|client)")  # beside the rate of all
_SPEED = re.compile(  # what is no name of a setup
    r"\b(?:decod(?:e|ing)|generation|gen|output|prefill|prompt|input|speed|agg(?:regate)?|rate|per stream)\b"
)


def with_units(table: Table) -> Table:
    """The table with rates named as such in its header."""
    columns = [[row[at] for _, row in table.rows if len(row) > at] for at in range(len(table.header))]
    header = [_named(label, column) for label, column in zip(table.header, columns, strict=True)]
    if any("tok_s" in told.name for label in header if (told := understand(cells.plain(label)))):
        header = [f"{label} tok/s" if _SCOPE.fullmatch(words_of(label)) else label for label in header]
    return replace(table, header=header)


def with_units_down(table: Table) -> Table:
    """The same for a table whose first column names the measures."""
    rows = [(line, [_named(row[0], row[1:]), *row[1:]] if row else row) for line, row in table.rows]
    return replace(table, rows=rows)


def _named(label: str, figures: Iterable[str]) -> str:
    text = cells.plain(label)
    if not _SPEED.search(words_of(text)) or understand(text) is not None or place(text) is not None:
        return label
    units = {one.rest for raw in figures if (one := cells.read_cell(raw)) and one.rest[:1].isalpha()}
    rates = {found[0] for unit in units if (found := _RATE.match(unit))}
    spoken = f"{text} ({min(rates)})" if len(rates) == len(units) > 0 else ""
    return spoken if spoken and understand(spoken) is not None else label
