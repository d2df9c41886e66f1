"""Columns (and rows) of rates whose label leaves the unit to the cells: "Median decode" over "168.6 tok/s".

Owns putting the unit into the label. Must not decide what a label measures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from ingest.bench import cells
from ingest.bench.places import place
from ingest.bench.quantities import understand, words_of
from ingest.bench.spread_tables import is_derived
from ingest.bench.tables import Table

_RATE = re.compile(
    r"(?:(?:output|input|total|gen(?:erated)?|decode|prefill|prompt|agg(?:regate)?) )?"
    r"(?:(?:tok(?:en)?s?|t|req(?:uest)?s?)/(?:s|sec|second)(?:/(?:user|gpu|req))?|tps|rps)\b",
    re.IGNORECASE,
)
_STATED_RATE = re.compile(r"/s|per s|[rq]ps", re.IGNORECASE)
_SCOPE = re.compile(r"(?:per|each) (?:stream|user|request|req|seq|sequence|client)")  # beside the rate of all
_WHOLE = ("aggregate", "agg", "total", "combined", "overall", "system")  # the rate of all
_NEAR = 0.15
_UNIT = re.compile(r"(?P<name>[A-Za-z][\w -]*?)\s*\((?P<unit>tok(?:en)?s?/s(?:/user|/gpu)?)\)")
_TAKEN = ("measured", "actual", "achieved", "observed", "real")
_ALIKE = 10  # setups that are compared differ by less
_NO_FIGURE = re.compile(r"\b(?:notes?|remarks?|comments?|use|interpretation|verdict|command|reason)\b")


def with_units(table: Table) -> Table:
    """The table with rates named as such in its header."""
    columns = [[row[at] for _, row in table.rows if len(row) > at] for at in range(len(table.header))]
    header = [_named(label, column) for label, column in zip(table.header, columns, strict=True)]
    header = _compared(table.header, _siblings(header), columns)
    rates = any("tok_s" in told.name for label in header if (told := understand(cells.plain(label))))
    if rates or (whole := _shared_out(header, columns)) is not None:
        header = (
            header if rates else [f"{one} tok/s" if at == whole else one for at, one in enumerate(header)]
        )
        header = [f"{label} tok/s" if _SCOPE.fullmatch(words_of(label)) else label for label in header]
        header = _with_whole(header, columns)
    return replace(table, header=header)


def _with_whole(header: list[str], columns: list[list[str]]) -> list[str]:
    """The rate of all beside that of one, whose unit it shares: "per stream (tok/s)", "aggregate"."""
    shares = any(
        told.name.endswith("tok_s_per_user") and told.unit_stated
        for label in header
        if (told := understand(cells.plain(label)))
    )
    named = any(told.name.endswith("tok_s") for label in header if (told := understand(cells.plain(label))))
    return [
        f"{label} tok/s"
        if shares and not named and words_of(label) in _WHOLE and all(map(_is_bare, columns[at]))
        else label
        for at, label in enumerate(header)
    ]


def _is_bare(raw: str) -> bool:
    cell = cells.read_cell(raw)
    return cell is not None and not cell.rest


def _siblings(header: list[str]) -> list[str]:
    """The labels with the unit of a column beside theirs: "Decode target (tok/s)", "Decode measured"."""
    units = {
        words_of(one["name"]).split()[0]: one["unit"] for label in header if (one := _UNIT.fullmatch(label))
    }
    told = [words_of(cells.plain(label)).split() for label in header]
    return [
        f"{cells.plain(label)} ({units[words[0]]})"
        if len(words) == 2 and words[1] in _TAKEN and words[0] in units
        else label
        for label, words in zip(header, told, strict=True)
    ]


def _compared(before: list[str], header: list[str], columns: list[list[str]]) -> list[str]:
    """The labels with the unit of the first setup's cells, where a column states how the setups compare."""
    at = next((at for at, label in enumerate(header) if label != before[at]), None)
    if at is None or not any(is_derived(label) for label in header):
        return header
    unit = header[at].removeprefix(cells.plain(before[at])).strip()
    return [
        f"{cells.plain(label)} {unit}"
        if label == before[index] and _is_beside(label, columns[index], columns[at])
        else label
        for index, label in enumerate(header)
    ]


def _is_beside(label: str, column: list[str], first: list[str]) -> bool:
    """Whether a column that names nothing known holds bare figures of the first one's size."""
    words = words_of(label)
    if not words or understand(cells.plain(label)) or place(words) or is_derived(label):
        return False
    told = [
        (one, other)
        for one, other in zip(map(cells.read_cell, column), map(cells.read_cell, first), strict=False)
        if one is not None and other is not None
    ]
    if all(_is_size(one.value) for one, _ in told):
        return False  # "ub" over 512 and 2048
    return bool(told) and all(
        not one.rest and other.value / _ALIKE < one.value < other.value * _ALIKE for one, other in told
    )


def _is_size(value: float) -> bool:
    return value >= 1 and value.is_integer() and int(value) & (int(value) - 1) == 0


def _shared_out(header: list[str], columns: list[list[str]]) -> int | None:
    """The column of the rate of all, without a unit, where that of one times their number is the same."""
    at = {words_of(label): index for index, label in enumerate(header)}
    whole = next((index for words, index in at.items() if words in _WHOLE), None)
    one = next((index for words, index in at.items() if _SCOPE.fullmatch(words)), None)
    width = next((index for words, index in at.items() if words == "n" or _counts(words)), None)
    if whole is None or one is None or width is None:
        return None
    rows = zip(
        *([cells.number(raw) for raw in columns[index]] for index in (width, one, whole)), strict=False
    )
    told = [abs(n * each - every) < _NEAR * every for n, each, every in rows if n and each and every]
    return whole if len(told) > 1 and sum(told) * 3 >= len(told) * 2 else None


def _counts(words: str) -> bool:
    return place(words) == ("workload", "concurrency")


def with_units_down(table: Table) -> Table:
    """The same for a table whose first column names the measures."""
    rows = [(line, [_named(row[0], row[1:]), *row[1:]] if row else row) for line, row in table.rows]
    return replace(table, rows=rows)


def _named(label: str, figures: Iterable[str]) -> str:
    """The label with the unit of its cells, where these are rates in one unit and it names none itself."""
    text = cells.plain(label)
    known = understand(text)
    counted = known is not None and _STATED_RATE.search(text) is None and known.name in ("request_s", "tok_s")
    if (known is not None and not counted) or place(text) is not None or _NO_FIGURE.search(words_of(text)):
        return label
    told = [one for raw in figures if (one := cells.read_cell(raw))]
    units = {one.rest for one in told if one.rest[:1].isalpha()}
    rates = {found[0] for unit in units if (found := _RATE.match(unit))}
    bare = {re.sub(r"\s*\(.*", "", unit) for unit in units}
    spoken = f"{text} ({min(rates)})" if len(rates) == 1 and rates == bare else ""
    return spoken if spoken and understand(spoken) is not None else label
