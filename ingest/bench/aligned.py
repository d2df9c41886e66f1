"""Tables drawn with blanks alone: columns parted by two or more blanks, perhaps a rule under the header.

Owns finding such tables in plain text. Must not know what a column means beyond whether it names a result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from ingest.bench import cells
from ingest.bench.tables import Table

_RULE = re.compile(r"^[\s=_─━-]{3,}$")
_GAP = re.compile(r"\s{2,}|\t")
_MOST_COLUMNS = 40
_UNITS = ("x", "×", "%")  # set apart from the last figure, to stand in line
_WIDEST = 400


def aligned_tables(lines: Iterable[tuple[int, str]], is_header: Callable[[list[str]], bool]) -> list[Table]:
    """Tables whose header ``is_header`` takes and whose rows have as many cells, numbers among them."""
    found: list[Table] = []
    table: Table | None = None
    named = 0  # where the last row's own first cell ends
    for number, text in lines:
        if len(text) > _WIDEST or not text.strip():
            table = None if table is not None and table.rows else table
            continue
        if table is not None and _RULE.match(text):
            continue
        parts = split_blanks(text)
        indent = _indent(text)
        if table is not None and table.rows and indent >= named and len(parts) == len(table.header) - 1:
            parts = [table.rows[-1][1][0], *parts]  # it continues the one above
        else:
            named = indent + len(parts[0])
        if table is not None and len(parts) == len(table.header) + 1 and parts[-1] in _UNITS:
            parts = [*parts[:-2], f"{parts[-2]} {parts[-1]}"]
        if table is not None and _is_row(parts, table):
            table.rows.append((number, parts))
        elif (
            2 < len(parts) <= _MOST_COLUMNS
            and not any(_is_figure(part) for part in parts)
            and is_header(parts)
        ):
            table = Table(parts, number)
            found.append(table)
        elif table is not None and (row := _by_words(text, table)):
            table.rows.append((number, row))
        else:
            table = None
    return [one for one in found if one.rows]


def _indent(text: str) -> int:
    wide = text.expandtabs()
    return len(wide) - len(wide.lstrip())


def split_blanks(text: str) -> list[str]:
    """Cells of a line whose columns two or more blanks (or a tab) part."""
    return [part.strip() for part in _GAP.split(text.strip())]


def _is_row(parts: list[str], table: Table) -> bool:
    return len(parts) == len(table.header) and sum(map(_is_figure, parts)) * 2 >= len(parts) - 1


def _by_words(text: str, table: Table) -> list[str]:
    """A row whose columns a single blank parts, where that gives the header's number of cells."""
    words = text.split()
    return words if _is_row(words, table) else []


def _is_figure(part: str) -> bool:
    return cells.number(part) is not None or cells.is_nothing(part)
