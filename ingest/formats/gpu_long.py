"""GPU traces in the long form: a row per figure, ``gpu,time,field,value``.

Owns turning such rows into samples. What a field means is ingest.gpu_columns' and the exporters'.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from ingest.formats import Format, Unreadable
from ingest.formats.prometheus_gpu import meaning
from ingest.gpu_columns import recognise_column
from ingest.gpu_csv import split_cells, to_number
from ingest.sources import Source
from ingest.tally import Cards
from ingest.traces import hardware_of, line_count, seconds_of, telemetry_of, trace_reading
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
_FIELD_IN_HEAD = re.compile(rf'"(?:{"|".join(sorted(_FIELDS))})"\s*:\s*"([^"\n]{{1,120}})"')
_DECIMAL_COMMA = re.compile(r"-?\d+,\d+")
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
    told, total, odd = _Told(), 0, 0
    for number, line in source.lines():
        if number <= found.skip or not line.strip():
            continue
        total += 1
        row = [cell.strip() for cell in split_cells(line, found.delimiter)]
        if len(row) != found.width:
            odd += 1
            continue
        place, figure = (_cell(row, found.time), _cell(row, found.card)), row[found.value]
        if found.delimiter != "," and _DECIMAL_COMMA.fullmatch(figure):
            figure = figure.replace(",", ".")
        told.take(place, row[found.field], figure, _cell(row, found.unit), _cell(row, found.name))
    return told.reading(source, "gpu_long_csv", (total + found.skip, odd))


def sniff_json(source: Source) -> float:
    """A list of objects with a field, a value and a time; fields that are a GPU's, at least two of them."""
    if source.head.lstrip("\ufeff \t\r\n")[:1] not in ("{", "[") or source.size > _LARGEST:
        return 0.0
    fields = set(_FIELD_IN_HEAD.findall(source.head))
    metrics = {metric for field in fields if (metric := _meaning(field, "")[0])}
    return 0.86 if len(metrics) >= _NEEDED and 2 * len(metrics) >= len(fields) else 0.0


def read_json(source: Source) -> Reading:
    """A sample per card and time."""
    told = _Told()
    rows = list(_rows(source))
    for row in rows:
        words = {
            str(key).lower(): str(value) for key, value in row.items() if isinstance(value, str | int | float)
        }
        field, value = (next((words[key] for key in keys if key in words), "") for keys in (_FIELDS, _VALUES))
        roles = {recognise_column(key).role: word for key, word in reversed(list(words.items()))}
        time, card = (next((roles[role] for role in some if role in roles), "") for some in (_TIMES, _CARDS))
        told.take((time, card), field, value, words.get("unit", ""), "")
    return told.reading(source, "gpu_long_json", (len(rows), 0))


def _rows(source: Source) -> Iterator[Mapping[str, Any]]:
    """The objects with a field and a value, wherever in a document or on which line they stand."""
    try:
        yield from _objects(json.loads(source.text))
    except (ValueError, RecursionError):
        for _, line in source.lines():
            with suppress(ValueError, RecursionError):
                yield from _objects(json.loads(line))


def _objects(document: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(document, dict) and _VALUES & {str(key).lower() for key in document}:
        yield document
    elif isinstance(document, dict | list):
        for value in document.values() if isinstance(document, dict) else document:
            yield from _objects(value)


class _Told:
    """Figures by time and card."""

    def __init__(self) -> None:
        self.samples: dict[tuple[str, str], dict[str, float]] = {}
        self.names: dict[str, str] = {}

    def take(self, place: tuple[str, str], field: str, figure: str, unit: str, name: str) -> None:
        """One figure of a card at a time; what is none of a GPU's is passed over."""
        metric, factor, card = _meaning(field, unit)
        value = to_number(figure, metric, factor) if metric else None
        if value is None:
            return
        time, key = place[0], place[1] or card
        self.samples.setdefault((time, key), {})[metric] = value
        if name:
            self.names.setdefault(key, name)

    def reading(self, source: Source, form: str, lines: tuple[int, int]) -> Reading:
        """What they tell. Raises Unreadable where there are none."""
        if not self.samples:
            raise Unreadable("fields and values, but no figure of a GPU")
        cards = Cards(source.samples)
        for (time, card), sample in self.samples.items():
            digits = card.lower().removeprefix("gpu").strip(" :_")
            index = int(digits) if digits.isdecimal() else None
            uuid = None if index is not None else card or None
            cards.add(card, sample, at=time, index=index, name=self.names.get(card), uuid=uuid)
        times = sorted({time for time, _ in self.samples}, key=lambda one: seconds_of(one) or 0.0)
        found = telemetry_of(cards.by_key.values(), first=times[0], last=times[-1])
        status = "partial" if lines[1] else "parsed"
        count, machine = line_count(*lines), hardware_of(found)
        return trace_reading(
            str(source.path), form, found, machine, tool="own loop", lines=count, status=status
        )


def _meaning(field: str, unit: str) -> tuple[str, float, str]:
    """(metric, factor, card) of a field's name; ("", 1.0, "") for what is no state of a GPU."""
    if told := meaning(field):
        return (*told, "")
    column = recognise_column(f"{field} [{unit}]" if unit else field)
    card = "" if column.gpu is None else str(column.gpu)
    return (column.role, column.factor, card) if column.is_metric else ("", 1.0, "")


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


FORMATS = [
    Format(
        name="gpu_long_csv",
        kind="trace",
        version=2,
        sniff=sniff,
        read=read,
        docs="CSV with a row per figure (`gpu,time,field,value`, with or without a unit): fields by names "
        "that tools, exporters and people's loops give them.",
    ),
    Format(
        name="gpu_long_json",
        kind="trace",
        version=2,
        sniff=sniff_json,
        read=read_json,
        docs='The same in JSON (`{"key": …, "value": …, "timestamp": …}`), as MLflow gives a run\'s metrics.',
    ),
]
