"""Rows of a GPU trace without a header, where units and shapes say what each cell holds.

Owns that reading of ``0, NVIDIA L4, 45 %, 1024 MiB, 61, 70.5 W`` in loops that stamp their rounds, and what
columns other rows seem to have. What two columns could both be, neither is: a figure is left out rather than
guessed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice

from ingest.bare_numbers import roles_of
from ingest.gpu_columns import Column, recognise_column
from ingest.gpu_csv import TraceLayout
from ingest.rounds import TIME, has_stamps, with_times

_STAMP = re.compile(TIME)
_KINDS = (
    ("time", _STAMP),
    ("uuid", re.compile(r"(?:GPU|MIG)-[0-9a-f-]{36}")),
    ("bus", re.compile(r"[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d")),
    ("pstate", re.compile(r"P\d\d?")),
    ("name", re.compile(r"(?:NVIDIA|Tesla|GeForce|Quadro|GRID|TITAN|AMD|Radeon)\b.*")),
    ("share", re.compile(r"\d+(?:\.\d+)? ?%")),
    ("memory", re.compile(r"\d+ ?Mi?B")),
    ("power", re.compile(r"\d+(?:\.\d+)? ?W")),
    ("clock", re.compile(r"\d+ ?MHz")),
    ("number", re.compile(r"\d+")),
    ("decimal", re.compile(r"\d+\.\d+")),
)
_MISSING = re.compile(r"\[.{0,40}\]|N/A|-|")
_NAMES = {
    "utilization_pct": "utilization.gpu [%]",
    "memory_utilization_pct": "utilization.memory [%]",
    "memory_used_mib": "memory.used [MiB]",
    "memory_total_mib": "memory.total [MiB]",
    "power_w": "power.draw [W]",
    "power_limit_w": "power.limit [W]",
    "temperature_c": "temperature.gpu",
    "time": "timestamp",
    "bus": "pci.bus_id",
}
_WORDS = ("time", "uuid", "bus", "name")
_BARE = ("number", "decimal")
_UNITS = ("share", "memory", "power", "clock")
_LOOKED_AT = 400
_MOST_STRANGE = 2
_FEWEST = 2
_MOST_CARDS = 16
_COLDEST, _HOTTEST = 16, 120
_EMPTY_SHARE = 0.1  # a card that is not used yet has less of its memory taken

Columns = list[tuple[str, ...]]


def find_layout(text: str) -> TraceLayout | None:
    """The layout of the rows at the start of a stamped loop without header; None where units do not tell."""
    lines = _lines(text)
    return _of_units(lines) if has_stamps(lines) else None


def likely_columns(text: str) -> list[str]:
    """Names for ``--columns`` of rows without header, as their cells look; ``?`` where that is open."""
    found = _of_units(_lines(text), numbers=True)
    return [one.name.partition(" [")[0] or "?" for one in found.columns] if found else []


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n")[: 2 * _LOOKED_AT] if line.strip()]


def _of_units(lines: Sequence[str], *, numbers: bool = False) -> TraceLayout | None:
    every = [line.split(",") for line in islice(with_times(lines), _LOOKED_AT)]
    width = Counter(len(row) for row in every).most_common(1)
    rows = [row for row in every if len(row) == width[0][0]]
    if len(rows) < _FEWEST or 2 * len(rows) < len(every):
        return None
    columns = [tuple(cell.strip() for cell in column) for column in zip(*rows, strict=True)]
    kinds = [_kind(column) for column in columns]
    units = [kind for kind in kinds if kind in _UNITS]
    if not units:
        return _of_numbers(columns, kinds) if numbers else None
    if kinds.count(None) > _MOST_STRANGE or len(units) + len({"time", "name", "uuid"} & set(kinds)) < _FEWEST:
        return None
    roles = _roles(columns, kinds)
    return _layout(roles) if {"utilization_pct", "power_w"} & set(roles) else None


def _of_numbers(columns: Columns, kinds: Sequence[str | None]) -> TraceLayout | None:
    """The layout of rows of bare numbers behind a time."""
    some = {
        kind: {at: _figures(columns[at]) for at, one in enumerate(kinds) if one == kind} for kind in _BARE
    }
    told = roles_of(*some.values()) if "time" in kinds and None not in kinds else {}
    roles = [role if role in _WORDS else told.get(at, "") for at, role in enumerate(kinds)]
    return _layout(_once(roles)) if told else None


def _once(roles: Sequence[str | None]) -> list[str]:
    return [role if role and role not in roles[:at] else "" for at, role in enumerate(roles)]


def _layout(roles: Sequence[str]) -> TraceLayout:
    named = (recognise_column(_NAMES.get(role, role)) if role else Column("", "other") for role in roles)
    return TraceLayout(tuple(named), ",", ".", "", 0)


def _kind(column: Sequence[str]) -> str | None:
    """What all cells of a column look like; "" for an empty one, None where they differ or say nothing."""
    told = {cell for cell in column if not _MISSING.fullmatch(cell)}
    return (
        next((kind for kind, form in _KINDS if all(form.fullmatch(cell) for cell in told)), None)
        if told
        else ""
    )


def _roles(columns: Columns, kinds: Sequence[str | None]) -> list[str]:
    roles = ["" for _ in kinds]
    for kind in _WORDS:
        if kind in kinds:
            roles[kinds.index(kind)] = kind
    for kind, tell in (("share", _shares), ("memory", _memory), ("power", _power)):
        places = [at for at, one in enumerate(kinds) if one == kind]
        for at, role in zip(places, tell([columns[at] for at in places]), strict=True):
            roles[at] = role
    return _with_numbers(columns, kinds, roles)


def _shares(columns: Columns) -> list[str]:
    names = ("utilization_pct", "memory_utilization_pct")
    return [*names[: len(columns)]] if len(columns) <= len(names) else ["" for _ in columns]


def _memory(columns: Columns) -> list[str]:
    """Use and whole: the whole stands still and is the largest; of two others, use begins near nothing."""
    if len(columns) == 1:
        return ["memory_used_mib"]
    numbers = [_figures(one) for one in columns]
    still = [at for at, one in enumerate(numbers) if min(one) == max(one) >= max(map(max, numbers))]
    if len(still) != 1:
        return ["" for _ in columns]
    whole = numbers[still[0]][0]
    rest = [at for at in range(len(columns)) if at != still[0]]
    empty = [at for at in rest if min(numbers[at]) < _EMPTY_SHARE * whole]
    first = len(columns) == len(still) + 1 and rest[0] < still[0]
    use = rest[0] if first else empty[0] if len(empty) == 1 else None
    told = {still[0]: "memory_total_mib"} | ({use: "memory_used_mib"} if use is not None else {})
    return [told.get(at, "") for at in range(len(columns))]


def _power(columns: Columns) -> list[str]:
    """Draw and limit: the limit stands still."""
    if len(columns) == 1:
        return ["power_w"]
    moving = [len(set(one)) > 1 for one in columns]
    if len(columns) > _FEWEST or sum(moving) != 1:
        return ["" for _ in columns]
    return ["power_w" if one else "power_limit_w" for one in moving]


def _with_numbers(columns: Columns, kinds: Sequence[str | None], roles: list[str]) -> list[str]:
    """With a card's number, a small one before all figures; and a temperature, where one column can be it."""
    numbers = {at: _figures(columns[at]) for at, kind in enumerate(kinds) if kind == "number"}
    first = next((at for at, kind in enumerate(kinds) if kind in _UNITS), len(kinds))
    cards = [at for at, one in numbers.items() if at < first and max(one) < _MOST_CARDS]
    warm = [at for at, one in numbers.items() if min(one) >= _COLDEST and max(one) <= _HOTTEST]
    told = {cards[-1]: "index"} if cards else {}
    told |= {warm[0]: "temperature_c"} if len(warm) == 1 else {}
    return [told.get(at, role) for at, role in enumerate(roles)]


def _figures(column: Sequence[str]) -> list[float]:
    found = (re.match(r"\d+(?:\.\d+)?", cell) for cell in column)
    return [float(one[0]) for one in found if one] or [0.0]
