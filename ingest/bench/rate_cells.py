"""Tables of cells that state their own rate: a workload in each row, a setup in each column, "32.8 tok/s".

Owns spreading such a table over one row for each rate. Must not take a cell without that unit.
"""

from __future__ import annotations

import re

from ingest.bench import cells, variants
from ingest.bench.places import place
from ingest.bench.quantities import understand, words_of
from ingest.bench.spread_tables import is_derived
from ingest.bench.tables import Table

_RATE = re.compile(r"(?:tok(?:en)?s?/s(?:ec)?|t/s)(?![\w/])(?:\s*\([^()]*\))?", re.IGNORECASE)
_FEWEST = 3  # cells of that unit: fewer are remarks
_REMARKS = re.compile(
    r"\b(?:notes?|remarks?|comments?|gain|verdict|reason|recommended|why|references?|floor|target|claim\w*)\b"
)


def spread(table: Table) -> Table | None:
    """The table with a row for each rate, or ``None`` where its labels name measures or its cells none."""
    columns = [at for at, label in enumerate(table.header) if at and not _is_other(label)]
    found = [
        (line, cells.plain(row[0]), cells.plain(table.header[at]), row[at])
        for line, row in table.rows
        for at in columns
        if len(row) > at and _is_rate(row[at])
    ]
    setups = {setup: variants.engine_in(setup) or "" for _, _, setup, _ in found}
    if len(found) < _FEWEST or len(setups) < 2 or any(_measures(one) for one in table.header):
        return None
    if any(_measures(name) for _, name, _, _ in found):
        return None
    down = cells.plain(table.header[0])
    loaded = (place(down) or ("", ""))[0] == "workload" and place(down) != ("workload", "test")
    served = any(setups.values())
    header = [*([down] if loaded else []), "test", *(["engine"] if served else []), "tok/s"]
    rows = [
        (
            line,
            [
                *([name, setup] if loaded else [f"{name} / {setup}"]),
                *([setups[setup]] if served else []),
                raw,
            ],
        )
        for line, name, setup, raw in found
    ]
    return Table(header, table.line, rows=rows, heading=table.heading, caption=table.caption)


def _is_rate(raw: str) -> bool:
    cell = cells.read_cell(raw)
    return cell is not None and _RATE.fullmatch(cell.rest) is not None


def _is_other(label: str) -> bool:
    return is_derived(label) or _REMARKS.search(words_of(label)) is not None


def _measures(label: str) -> bool:
    return understand(cells.plain(label)) is not None
