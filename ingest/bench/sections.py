"""Rows that name what the rows below them are of: a card, a data set, how setups compare.

Owns putting such a name into a column of its own. Must not read what a cell measures.
"""

from __future__ import annotations

from dataclasses import replace

from ingest.bench import cells, names
from ingest.bench.spread_tables import is_derived
from ingest.bench.tables import Table

_FEWEST = 2  # sections: one row with a lone cell may be cut


def sectioned(table: Table) -> Table:
    """The table without such rows, their name in each row below; what compares other rows is left out."""
    named = {line: cells.plain(row[0]) for line, row in table.rows if _is_name(row)}
    if len(named) < _FEWEST or not table.rows or table.rows[0][0] not in named:
        return table
    cards = all(names.gpu(name) for name in named.values() if not is_derived(name))
    rows, section = list[tuple[int, list[str]]](), ""
    for line, row in table.rows:
        section = named.get(line, section)
        if line not in named and not is_derived(section):
            rows.append((line, [*row, *[""] * (len(table.header) - len(row)), section]))
    return replace(table, header=[*table.header, "gpu" if cards else "dataset"], rows=rows)


def _is_name(row: list[str]) -> bool:
    """Whether only the first cell says something, and it is no figure."""
    first = row[0].strip() if row else ""
    alone = bool(first) and not any(cell.strip() for cell in row[1:])
    return alone and cells.read_cell(first) is None
