"""GPU traces in the long form: a row per figure, ``gpu,time,field,value``.

Owns turning such rows into samples. What a field means is ingest.gpu_columns' and the exporters'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ingest.formats import Format, Unreadable
from ingest.formats.prometheus_gpu import meaning
from ingest.gpu_columns import recognise_column
from ingest.gpu_csv import split_cells, to_number
from ingest.sources import Source
from ingest.tally import Cards
from ingest.traces import hardware_of, line_count, telemetry_of, trace_reading
from kb.model import Reading

_FIELDS = frozenset(
    ("field", "metric", "metric_name", "measure", "measurement", "counter", "property", "key", "sensor")
)
_VALUES = frozenset(("value", "val", "reading", "metric_value"))
_TIMES = ("time", "epoch", "elapsed")
_CARDS = ("index", "uuid", "bus")
_DELIMITERS = (",", ";", "\t")
_SEARCHED = 20
_NEEDED = 2
_LARGEST = 64 << 20


class _Table(NamedTuple):
    """Where the columns of a long table stand."""

    delimiter: str
    width: int
    skip: int
    field: int
    value: int
    time: int | None
    card: int | None
    name: int | None
    unit: int | None


def sniff(source: Source) -> float:
    """A header with a field, a value and a time or a card; fields that are a GPU's, at least two of them."""
    found = _find(source.head)
    if found is None or source.size > _LARGEST:
        return 0.0
    rows = (split_cells(line, found.delimiter) for line in source.head.split("\n")[found.skip :])
    told = {row[found.field].strip() for row in rows if len(row) == found.width}
    metrics = {metric for field in told if (metric := _meaning(field, "")[0])}
    return 0.86 if len(metrics) >= _NEEDED and 2 * len(metrics) >= len(told) else 0.0


def read(source: Source) -> Reading:
    """A sample per card and time."""
    found = _find(source.head)
    if found is None:
        raise Unreadable("no header with a field and a value was found")
    samples: dict[tuple[str, str], dict[str, float]] = {}
    names: dict[str, str] = {}
    total, odd = 0, 0
    for number, line in source.lines():
        if number <= found.skip or not line.strip():
            continue
        total += 1
        row = [cell.strip() for cell in split_cells(line, found.delimiter)]
        figure = _figure(row, found)
        if figure is None:
            odd += 1
            continue
        samples.setdefault((_cell(row, found.time), _cell(row, found.card)), {}).update(figure)
        if name := _cell(row, found.name):
            names.setdefault(_cell(row, found.card), name)
    if not any(samples.values()):
        raise Unreadable("a header of fields and values, but no figure of a GPU")
    return _reading(source, samples, names, (total + found.skip, odd))


def _reading(
    source: Source,
    samples: Mapping[tuple[str, str], Mapping[str, float]],
    names: Mapping[str, str],
    lines: tuple[int, int],
) -> Reading:
    cards = Cards(source.samples)
    told = [key for key, sample in samples.items() if sample]
    for time, card in told:
        digits = card.lower().removeprefix("gpu").strip(" :_")
        who: dict[str, Any] = {"index": int(digits) if digits.isdecimal() else None, "name": names.get(card)}
        cards.add(
            card, samples[time, card], at=time, **who, uuid=None if who["index"] is not None else card or None
        )
    found = telemetry_of(cards.by_key.values(), first=told[0][0], last=told[-1][0])
    return trace_reading(
        str(source.path),
        "gpu_long_csv",
        found,
        hardware_of(found),
        tool="own loop",
        lines=line_count(*lines),
        status="partial" if lines[1] else "parsed",
    )


def _figure(row: Sequence[str], found: _Table) -> dict[str, float] | None:
    """The figure of a row; an empty one for what is none of a GPU's, None for what is no row."""
    if len(row) != found.width:
        return None
    metric, factor = _meaning(row[found.field], _cell(row, found.unit))
    value = to_number(row[found.value], metric, factor) if metric else None
    return {metric: value} if value is not None else {}


def _meaning(field: str, unit: str) -> tuple[str, float]:
    """(metric, factor) of a field's name; ("", 1.0) for what is no state of a GPU."""
    if told := meaning(field):
        return told
    column = recognise_column(f"{field} [{unit}]" if unit else field)
    return (column.role, column.factor) if column.is_metric else ("", 1.0)


def _find(head: str) -> _Table | None:
    for number, line in enumerate(head.split("\n")[:_SEARCHED], 1):
        for delimiter in _DELIMITERS:
            cells = [cell.strip('\r \ufeff"').lower() for cell in split_cells(line, delimiter)]
            if _FIELDS & set(cells) and _VALUES & set(cells):
                return _table(cells, delimiter, number)
    return None


def _table(cells: list[str], delimiter: str, skip: int) -> _Table | None:
    field = next(at for at, cell in enumerate(cells) if cell in _FIELDS)
    value = next(at for at, cell in enumerate(cells) if cell in _VALUES)
    roles = ["" if at in (field, value) else recognise_column(cell).role for at, cell in enumerate(cells)]
    time, card, name = (_first(roles, some) for some in (_TIMES, _CARDS, ("name",)))
    unit = next((at for at, cell in enumerate(cells) if cell in ("unit", "units")), None)
    if time is None and card is None:
        return None
    return _Table(delimiter, len(cells), skip, field, value, time, card, name, unit)


def _first(roles: Sequence[str], wanted: Sequence[str]) -> int | None:
    return next((roles.index(role) for role in wanted if role in roles), None)


def _cell(row: Sequence[str], at: int | None) -> str:
    return row[at] if at is not None else ""


FORMAT = Format(
    name="gpu_long_csv",
    kind="trace",
    sniff=sniff,
    read=read,
    docs="CSV with a row per figure (`gpu,time,field,value`, with or without a unit): fields by the names "
    "that tools, exporters and people's loops give them.",
)
