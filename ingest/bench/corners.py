"""Tables that name their measure in the corner: "TPOT p50, ms" over the loads, setups down the side.

Owns spreading such a table over one row for each cell. Must not read cells.
"""

from __future__ import annotations

import re

from ingest.bench import cells, loads, variants
from ingest.bench.places import place
from ingest.bench.quantities import RESULTS, understand, words_of
from ingest.bench.spread_tables import is_derived
from ingest.bench.tables import Table

_AXES = (  # what columns of bare numbers count, by the words around the table
    ("concurrency", re.compile(r"concurren|users?\b|clients?\b|streams?\b|parallel")),
    ("batch size", re.compile(r"\bbatch|\bbs\b")),
    ("input len", re.compile(r"context|prompt (?:len|size)|\bctx\b|\bisl\b|input len|depth")),
)
_BREAK = re.compile(r"<br ?/?>|;\s")
_LABELLED = re.compile(
    r"(?P<label>[A-Za-z][^:<>]{1,40}?)\s*[:=]\s*(?P<value>[~≈]?\d[\d.,]*(?: ?[a-z/%]{1,8}\b)?)"
)
_NUMBER = re.compile(r"\d[\d,]*k?", re.IGNORECASE)
_TOKENS = re.compile(r"(\d[\d,]*k?)[ -]?(?:tok(?:en)?s?|ctx|context)", re.IGNORECASE)


def spread(table: Table) -> Table | None:
    """A row for each cell of a table whose corner says what all cells measure; ``None`` for other tables."""
    corner = cells.plain(table.header[0])
    named = [*table.header[1:], *(row[0] for _, row in table.rows if row)]
    if not _names_measure(corner) or any(understand(cells.plain(label)) for label in named):
        return None
    columns = [at for at, label in enumerate(table.header) if at and not is_derived(label)]
    axis = _axis(f"{corner} {table.caption} {table.heading}".lower())
    if not axis and all(_NUMBER.fullmatch(cells.plain(row[0])) for _, row in table.rows if row):
        return None  # the corner names these numbers
    across = [_setup(cells.plain(table.header[at]), axis) for at in columns]
    rows = []
    for line, row in table.rows:
        down = _setup(cells.plain(row[0]), axis)
        for at, told in zip(columns, across, strict=True):
            if len(row) > at and told.keys() & down.keys() <= {"test"}:
                rows.append((line, _joined(down, told) | _loads_in(corner) | {corner: row[at]}))
    header = list(dict.fromkeys(label for _, record in rows for label in record))
    filled = [(line, [record.get(label, "") for label in header]) for line, record in rows]
    return Table(header, table.line, rows=filled, heading=table.heading, caption=table.caption)


def labelled(table: Table) -> Table | None:
    """A row for each cell of a table whose cells label their figures: "Total TPS: 9743<br>TPOT (ms): 48"."""
    inner = [[_pairs(cell) for cell in row[1:]] for _, row in table.rows]
    filled = [pairs for row in inner for pairs in row]
    if not filled or not all(filled) or max(map(len, filled)) < 2:
        return None
    rows = []
    for (line, row), told in zip(table.rows, inner, strict=True):
        down = _setup(cells.plain(row[0]), "")
        for label, pairs in zip(table.header[1:], told, strict=False):
            across = _setup(cells.plain(label), "")
            if across.keys() & down.keys() <= {"test"}:
                rows.append((line, _joined(down, across) | pairs))
    header = list(dict.fromkeys(label for _, record in rows for label in record))
    spread_rows = [(line, [record.get(label, "") for label in header]) for line, record in rows]
    return Table(header, table.line, rows=spread_rows, heading=table.heading)


def _pairs(cell: str) -> dict[str, str]:
    """The figures of a cell by the labels that it gives them; empty where it holds anything else."""
    parts = [one.strip() for one in _BREAK.split(cell) if one.strip()]
    found = [_LABELLED.match(one) for one in parts]
    told = {one["label"]: one["value"] for one in found if one and understand(one["label"])}
    return told if len(told) == len(parts) else {}


def _names_measure(corner: str) -> bool:
    told = understand(corner)
    return told is not None and told.name.startswith(RESULTS) and (told.unit_stated or not told.loose)


def _axis(around: str) -> str:
    told = [name for name, pattern in _AXES if pattern.search(around)]
    return told[0] if len(told) == 1 else ""


def _setup(name: str, axis: str) -> dict[str, str]:
    """What a name at the side says: a load, lengths, an engine, or a test by that name."""
    if axis and _NUMBER.fullmatch(name):
        return {axis: name}
    if lengths := loads.lengths(name):
        return {key.replace("_", " "): str(one) for key, one in lengths.items()}
    if found := _TOKENS.fullmatch(name):
        return {"input len": found[1]}
    key, value = variants.named(name)
    rest = key == "engine" and words_of(name) != words_of(value)
    return {key: value} | ({"test": name} if rest else {})


def _joined(down: dict[str, str], across: dict[str, str]) -> dict[str, str]:
    both = "test" in down and "test" in across
    return down | across | ({"test": f"{down['test']} / {across['test']}"} if both else {})


def _loads_in(corner: str) -> dict[str, str]:
    """The load that a corner names beside its measure: "TTFT p50, concurrency 1"."""
    found = re.search(r"\b(concurrency|batch size|bs|c)[ =:]+(\d{1,5})\b", corner, re.IGNORECASE)
    return {found[1].lower(): found[2]} if found and place(found[1]) else {}
