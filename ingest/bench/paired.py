"""Columns that hold several statistics in a cell: "TTFT p50/p95 (ms)" over "60 / 190".

Owns splitting such a column into one for each statistic. Must not read cells.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ingest.bench import cells
from ingest.bench.quantities import understand
from ingest.bench.tables import Table

_STAT = r"(?:p\d{1,2}(?:\.\d)?|mean|avg|average|median|min|max)"
_LISTED = re.compile(rf"\b(?:(?:n|count)\s*/\s*{_STAT}|{_STAT})(?:\s*/\s*{_STAT})+\b", re.IGNORECASE)
_COUNTS = ("n", "count")
_ALONE = re.compile(_STAT, re.IGNORECASE)
_STATED = re.compile(
    rf"(?P<before>[A-Za-z][\w -]*?) {_STAT}|{_STAT} (?P<after>[A-Za-z][\w -]*)", re.IGNORECASE
)
_PARTING = re.compile(r"\s*/\s*")
_UNIT = re.compile(r"(?i)\bin (milliseconds|seconds|ms|s)\b")


_OWN = re.compile(  # "120 ms (p50)", "p99: 300 ms"
    rf"(?P<value>[~≈]?\d[\d.,]*(?: ?[a-zµ/]{{1,7}})?) ?\((?P<stat>{_STAT})\)"
    rf"|(?P<named>{_STAT})[:=] ?(?P<figure>[~≈]?\d[\d.,]*(?: ?[a-zµ/]{{1,7}})?)",
    re.IGNORECASE,
)


def _by_own_names(table: Table) -> Table:
    """The table with a column for each statistic that the cells of one name: "120 ms (p50), 300 ms (p99)"."""
    header, columns = list[str](), list[list[str]]()
    for at, label in enumerate(table.header):
        column = [row[at] if len(row) > at else "" for _, row in table.rows]
        told = [_named_in(raw) for raw in column]
        stats = {tuple(one) for one, raw in zip(told, column, strict=True) if not cells.is_nothing(raw)}
        if len(stats) == 1 and any(stats) and understand(cells.plain(label)):
            for stat in stats.pop():
                header.append(f"{stat} {label}")
                columns.append([one.get(stat, "") for one in told])
        else:
            header.append(label)
            columns.append(column)
    if len(header) == len(table.header) and header == list(table.header):
        return table
    rows = [(line, [column[at] for column in columns]) for at, (line, _) in enumerate(table.rows)]
    return replace(table, header=header, rows=rows)


def _named_in(raw: str) -> dict[str, str]:
    """Figures by the statistics that a cell names, nothing else in it."""
    parts = re.split(r"\s*[,;/·]\s+", cells.plain(raw))
    found = [one for part in parts if (one := _OWN.fullmatch(part))]
    told = {(one["stat"] or one["named"]).lower(): one["value"] or one["figure"] for one in found}
    return told if len(told) == len(parts) else {}


_BOTH = re.compile(r"\((?P<one>[^()·|]{3,30}?)\s+[·|/]\s+(?P<other>[^()·|]{3,30}?)\)")
_BESIDE = re.compile(r"\s+[·|/]\s+")


def _by_two_measures(table: Table) -> Table:
    """The table with two columns for each of its own, where the heading names both measures of a cell."""
    found = _BOTH.search(table.heading.rsplit(" / ", 1)[-1]) or _BOTH.search(table.caption[:_LONGEST])
    if found is None or not (understand(found["one"]) and understand(found["other"])):
        return table
    inner = [cell for _, row in table.rows for cell in row[1:] if not cells.is_nothing(cell)]
    if not inner or any(len(_BESIDE.split(cells.plain(cell))) != 2 for cell in inner):
        return table
    measures = (found["one"].strip(), found["other"].strip())
    header = [f"{cells.plain(label)} {measure}" for label in table.header[1:] for measure in measures]
    rows = [
        (line, [*row[:1], *(part for cell in row[1:] for part in _halves(cell))]) for line, row in table.rows
    ]
    return replace(table, header=[table.header[0], *header], rows=rows)


_LONGEST = 300  # of a caption


def _halves(cell: str) -> list[str]:
    parts = _BESIDE.split(cells.plain(cell))
    return parts if len(parts) == 2 else ["", ""]


def split(table: Table) -> Table:
    """The table with a column for each statistic, where labels, cells or the line before it list them."""
    table = _by_own_names(_by_two_measures(replace(table, header=_continued(table.header))))
    said = _LISTED.search(cells.plain(table.caption)) if len(table.caption) < 300 else None
    unit = _UNIT.search(table.caption)
    columns: list[tuple[int, int | None, str]] = []  # (column, part, label)
    for at, label in enumerate(table.header):
        listed = _LISTED.search(label) or (said if understand(cells.plain(label)) else None)
        stats = _PARTING.split(listed[0]) if listed else []
        if stats and _holds(table, at, len(stats)):
            rest = label.replace(listed[0], "") if listed and listed[0] in label else label
            spoken = f"{rest.strip()} ({unit[1]})" if unit and listed is said else rest.strip()
            kept = [(part, stat) for part, stat in enumerate(stats) if stat.lower() not in _COUNTS]
            columns += [(at, part, f"{stat} {spoken}") for part, stat in kept]
        else:
            columns.append((at, None, label))
    if all(part is None for _, part, _ in columns):
        return table
    rows = [(line, [_part(row, at, part) for at, part, _ in columns]) for line, row in table.rows]
    return replace(table, header=[label for *_, label in columns], rows=rows)


def _continued(header: list[str]) -> list[str]:
    """Labels with statistics alone after one of a latency that states its own: "Lat mean | P50 | P95"."""
    told, before = list(header), ""
    for at, label in enumerate(map(cells.plain, header)):
        if before and _ALONE.fullmatch(label):
            told[at] = f"{label} {before}"
            continue
        stated = _STATED.fullmatch(label)
        measure = (stated["before"] or stated["after"] or "") if stated else ""
        known = understand(label) if measure else None
        before = measure if known and known.name.startswith(("ttft", "tpot", "itl", "e2e")) else ""
    return told


def _holds(table: Table, at: int, count: int) -> bool:
    filled = [row[at] for _, row in table.rows if len(row) > at and not cells.is_nothing(row[at])]
    return bool(filled) and all(len(_PARTING.split(cells.plain(one))) == count for one in filled)


def _part(row: list[str], at: int, part: int | None) -> str:
    cell = row[at] if len(row) > at else ""
    parts = _PARTING.split(cells.plain(cell)) if part is not None else [cell]
    return parts[part or 0] if len(parts) > (part or 0) else ""
