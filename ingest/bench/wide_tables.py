"""Tables of one measure whose last columns are setups: who was measured stands in the first ones.

Owns telling such tables and laying their cells one below the other. Must not read what a cell measures.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

from ingest.bench import cells, variants
from ingest.bench.around import label_of
from ingest.bench.places import place
from ingest.bench.quantities import Quantity, understand
from ingest.bench.tables import Table

_FEWEST = 2  # setups beside each other


def laid_out(table: Table, quantity: Quantity | None) -> Table | None:
    """The table with a row for each setup, or ``None`` where its last columns are no setups of a measure."""
    if quantity is None:
        return None
    columns = range(len(table.header) - 1, 0, -1)
    setups = sorted(takewhile(lambda at: _is_setup(table, at), columns))
    first = table.header[: setups[0]] if setups else []
    about = [place(cells.plain(label)) for label in first]
    if len(setups) < _FEWEST or not any(one and one[0] == "identity" for one in about):
        return None
    served = all(variants.engine_in(cells.plain(table.header[at])) for at in setups)
    rows = [
        (line, [*row[: setups[0]], cells.plain(table.header[at]), row[at]])
        for line, row in table.rows
        for at in setups
        if at < len(row) and not cells.is_nothing(row[at])
    ]
    return replace(table, header=[*first, "engine" if served else "test", label_of(quantity)], rows=rows)


def _is_setup(table: Table, at: int) -> bool:
    """Whether a column holds figures without a unit, under a label that names neither measure nor load."""
    label = cells.plain(table.header[at])
    if understand(label) is not None or place(label) is not None:
        return False
    told = [row[at] for _, row in table.rows if at < len(row) and not cells.is_nothing(row[at])]
    figures = [one for raw in told if (one := cells.read_cell(raw)) is not None and not one.rest]
    return bool(told) and len(figures) == len(told)
