"""Tables whose head has several rows, each with its own name: "GPU" over cards, "TP Size" over widths.

Owns putting such a head into one row for each cell. Must not read cells.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingest.bench import cells
from ingest.bench.places import place
from ingest.bench.tables import Table

Layer = tuple[str, Sequence[str]]
_FEWEST = 2  # rows of a head: one alone is a header
_MOST = 6


def flattened(table: Table, measure: str | None) -> Table | None:
    """A row for each cell under the names of all layers; ``None`` where the head is but a header."""
    head = [table.header, *(row for _, row in table.rows[:_MOST])]
    layers = [told for row in head if (told := _layer(row))]
    if measure is None or len(layers) < _FEWEST or _layer(table.header) is None:
        return None
    body = [(line, row) for line, row in table.rows if _layer(row) is None]
    corner = next((cells.plain(row[0]) for _, row in body if _names_rows(row)), "")
    rows = []
    for line, row in body:
        for at in range(2, len(row)):
            if not _names_rows(row) and not cells.is_nothing(row[at]):
                own = {label: values[at] for label, values in layers if len(values) > at and values[at]}
                rows.append(
                    (line, own | ({corner: row[0]} if corner else {"test": row[0]}) | {measure: row[at]})
                )
    header = list(dict.fromkeys(label for _, record in rows for label in record))
    filled = [(line, [record.get(label, "") for label in header]) for line, record in rows]
    return (
        Table(header, table.line, rows=filled, heading=table.heading, caption=table.caption) if rows else None
    )


def _layer(row: Sequence[str]) -> Layer | None:
    """(name, values) of a row of the head; a card stands for the empty cells right of it too."""
    names = [cells.plain(cell) for cell in row]
    if len(names) < 3 or names[0] or not any(names[2:]):
        return None
    where = place(names[1])
    if where is None or (where[0] == "workload" and where[1] == "test"):
        return None
    if where[0] == "identity":
        for at in range(3, len(names)):
            names[at] = names[at] or names[at - 1]
    return names[1], names


def _names_rows(row: Sequence[str]) -> bool:
    """Whether a row says only what the first cells of those below it are."""
    return (
        bool(row[0].strip())
        and not any(cell.strip() for cell in row[1:])
        and place(cells.plain(row[0])) is not None
    )
