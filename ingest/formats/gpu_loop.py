"""GPU traces of people's own loops: CSV and JSON lines whose columns say what they hold.

Owns deciding that a table is a GPU trace at all: it must hold at least two quantities of a GPU, one of them
load or power, and nothing of a benchmark's results.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from ingest.formats import Format, Unreadable
from ingest.gpu_columns import Column, is_tool_name, recognise_column
from ingest.gpu_count import summarise
from ingest.gpu_csv import TraceLayout, find_table, layout, table_in, to_number
from ingest.pair_cells import apart
from ingest.sources import Source
from ingest.tally import Cards, vague_roles
from ingest.traces import hardware_of, line_count, summary_reading, telemetry_of, trace_reading
from kb.model import Problem, Reading

if TYPE_CHECKING:
    from ingest.samples import Samples

_RESULT = re.compile(
    r"(?i)throughput|ttft|tpot|\bitl\b|latency|tok(?:ens?)?[_/]|tps\b|request|accuracy|speedup|kernel|batch|prompt|"
    r"concurren"
)
_RESULT_KEY = re.compile(
    r'(?i)"[^"\n]{0,60}(?:throughput|ttft|tpot|latency|tok(?:en)?s?_?(?:/|per)_?s|accuracy)[^"\n]{0,60}"\s*:'
)
_STATE_KEY = re.compile(
    r'(?i)"[^"\n]{0,60}(?:util|power|watt|load|busy|usage)[^"\n]{0,60}"\s*:'
)  # before all is parsed
_LARGEST_OBJECT = 16 << 20
_DEEPEST = 3
_LOOKED_AT = 200
_NEEDED = {"utilization_pct", "power_w"}
_CARD_KEY = re.compile(r"(?:gpu|card|device)?[_ :-]?(\d{1,2})", re.IGNORECASE)
_BETWEEN = re.compile(r"[\s,]*")
_TIMES = ("time", "epoch", "elapsed")
_PLACES = {*_TIMES, "date", "index", "uuid", "bus", "name"}
_NESTED = ("gpus", "devices", "cards", "gpu", "samples", "gpu_stats", "gpu_metrics")


def sniff_csv(source: Source) -> float:
    """Enough columns of a GPU's state and none of a result."""
    found = table_in(source)
    if found is None or not _is_trace(found.columns, _names_gpu(source.path.name)):
        return 0.0
    if sum(1 for one in found.columns if is_tool_name(one.name) and "." in one.name) >= 2:
        return 0.0
    return 0.85 if any(found.position(role) is not None for role in _TIMES) else 0.6


def read_csv(source: Source) -> Reading:
    """Samples of every GPU."""
    table = find_table(source, layout)
    if table is None:
        raise Unreadable("no header line of GPU columns was found")
    found, lines = apart(*table, source.raw_head)
    summary = summarise(lines, found, source.samples)
    reading = summary_reading(str(source.path), "gpu_loop_csv", "own loop", summary, _names(found))
    if not summary.rows:
        raise Unreadable("a header of GPU columns, but no row of samples")
    return reading


def sniff_jsonl(source: Source) -> float:
    """Objects, one a line or in a list, with enough keys of a GPU's state."""
    head = source.head.lstrip("\ufeff \t\r\n")
    first = next(_objects(head.split("\n")), None) if head[:1] == "{" else _first_of_list(head)
    if first is None:
        return 0.7 if _rows_within(source) else 0.0
    columns = _columns(first)
    timed = any(recognise_column(str(key)).role in _TIMES for key in first)
    listed = any(one.role in ("index", "uuid") for one in columns)
    return 0.85 if _is_trace(columns) and (timed or listed or head[:1] == "{") else 0.0


def read_jsonl(source: Source) -> Reading:
    """Samples of every GPU; keys may name the card, or lists of cards be nested."""
    reader = _Lines(source.samples, _shares_of_one(source))
    total = 0
    for number, row in _rows(source):
        total += 1
        reader.take(number, row)
    if not reader.rows:
        raise Unreadable("no JSON line with a GPU's state was found")
    for tally in reader.cards.by_key.values():
        tally.vague = reader.vague
    found = telemetry_of(
        reader.cards.by_key.values(),
        rows=reader.rows,
        first=reader.first,
        last=reader.last,
        extra={"columns": reader.keys[:64]},
    )
    return trace_reading(
        str(source.path),
        "gpu_loop_jsonl",
        found,
        hardware_of(found, **reader.facts),
        tool="own loop",
        lines=line_count(total, total - reader.rows),
        problems=reader.problems[:20],
        status="partial" if reader.problems else "parsed",
    )


class _Lines:
    """What JSON lines told so far."""

    def __init__(self, keep: Samples | None, shares_of_one: bool = False) -> None:
        self.cards = Cards(keep)
        self.shares_of_one = shares_of_one
        self.rows = 0
        self.first = self.last = ""
        self.keys: list[str] = []
        self.facts: dict[str, str | None] = {}
        self.vague: set[str] = set()
        self.problems: list[Problem] = []

    def take(self, number: int, row: Any) -> None:
        """One row: what a line, or an item of the list, holds."""
        if not isinstance(row, dict):
            self.problems.append(Problem(line=number, what="is no JSON object, or is cut"))
            return
        self.rows += 1
        self.keys = self.keys or [str(key) for key in row]
        self._around(row)
        for at, card in enumerate(_cards(row)):
            self._add(at, card)

    def _around(self, row: Mapping[str, Any]) -> None:
        """When a row was taken, and what it says of the machine."""
        told: dict[str, str] = {}
        for key, value in row.items():
            if isinstance(value, str | int | float):
                told.setdefault(recognise_column(str(key)).role, str(value))
        self.last = next((told[role] for role in _TIMES if role in told), self.last)
        self.first = self.first or self.last
        self.facts |= {role: told[role] for role in ("driver", "cuda") if role in told}

    def _add(self, at: int, card: Mapping[str, Any]) -> None:
        samples: dict[int | None, dict[str, float | None]] = {}
        who: dict[str, Any] = {"index": None, "name": None, "uuid": None}
        for key, value in card.items():
            column = recognise_column(str(key))
            if column.is_metric and not isinstance(value, bool):
                column = _as_share(column) if self.shares_of_one else column
                samples.setdefault(column.gpu, {}).setdefault(column.role, _number(value, column))
                self.vague |= vague_roles([column])
            elif column.role in who and column.gpu is None and isinstance(value, str | int):
                who[column.role] = value
        index = who["index"] if isinstance(who["index"], int) else None
        for gpu, sample in samples.items():
            place = gpu if gpu is not None else index
            key = str(place) if place is not None else str(who["uuid"] or at)
            self.cards.add(key, sample, at=self.last, index=place, name=who["name"], uuid=who["uuid"])


def _rows(source: Source) -> Iterator[tuple[int, Any]]:
    """(line or place in the list, what it holds); None for what is no JSON."""
    if within := _rows_within(source):
        yield from enumerate(within, 1)
        return
    if source.head.lstrip("\ufeff \t\r\n")[:1] == "[":
        yield from enumerate(_items(source.text), 1)
        return
    yield from ((number, _parsed(line)) for number, line in source.lines() if line.strip())


def _shares_of_one(source: Source) -> bool:
    """Whether load is a share of one, as the first rows show it where no key names a unit."""
    values: list[float] = []
    for _, row in islice(_rows(source), _LOOKED_AT):
        for card in _cards(row) if isinstance(row, dict) else ():
            told = ((recognise_column(str(key)), value) for key, value in card.items())
            loads = (value for column, value in told if column.role == "utilization_pct" and not column.unit)
            values += [value for value in loads if isinstance(value, int | float)]
    return max(values, default=0.0) <= 1.0 and any(0 < value < 1 for value in values)


def _as_share(column: Column) -> Column:
    return replace(column, factor=100.0) if column.role == "utilization_pct" and not column.unit else column


def _rows_within(source: Source) -> list[Any]:
    """The rows in a file that is one object over many lines: a list in it, or the object itself."""
    whole = re.match(r"\s*\{\s*\n", source.head) and source.size <= _LARGEST_OBJECT
    hopeful = whole and _STATE_KEY.search(source.head) and not _RESULT_KEY.search(source.head)
    return _rows_of(_parsed(source.text)) if hopeful else []


def _rows_of(raw: Any, depth: int = 0) -> list[Any]:
    if isinstance(raw, list):
        return raw if raw and _is_trace(_columns(raw[0])) else []
    if not isinstance(raw, dict) or depth > _DEEPEST:
        return []
    columns = _columns(raw)
    own = [raw] if _is_trace(columns) else []
    if own and not any(one.role in _TIMES for one in columns):
        return own
    inner = (rows for value in raw.values() if (rows := _rows_of(value, depth + 1)) and len(rows) > 1)
    return next(inner, own)


def _columns(row: Any) -> tuple[Column, ...]:
    cards = _cards(row) if isinstance(row, dict) else []
    return tuple(recognise_column(str(key)) for card in cards for key in card)


def _items(text: str) -> Iterator[Any]:
    """What a list holds, one by one, up to where it is damaged or cut: then None."""
    decoder, at = json.JSONDecoder(), text.index("[") + 1
    while (at := _BETWEEN.match(text, at).end()) < len(text) and text[at] != "]":  # type: ignore[union-attr]
        try:
            item, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            yield None
            return
        yield item


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _objects(lines: list[str]) -> Iterator[dict[str, Any]]:
    return (row for line in lines[:20] if isinstance(row := _parsed(line), dict))


def _first_of_list(head: str) -> dict[str, Any] | None:
    start = re.match(r"\[\s*(?=\{)", head)
    try:
        row, _ = json.JSONDecoder().raw_decode(head, start.end()) if start else (None, 0)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _cards(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The mappings of a row that each describe one card: a nested list or mapping, or the row itself."""
    for key in _NESTED:
        inner = row.get(key)
        if isinstance(inner, list) and inner and all(isinstance(one, dict) for one in inner):
            return [dict(_flat(_numbered(one))) for one in inner]
        if isinstance(inner, dict) and inner:
            return _keyed(inner) or [dict(_flat(inner))]
    return _keyed(row) or [dict(_flat(row))]


def _numbered(card: Mapping[str, Any]) -> Mapping[str, Any]:
    """A card of a list of cards: there, a bare ``id`` is its number."""
    number = card.get("id")
    told = isinstance(number, int) and not any(recognise_column(str(key)).role == "index" for key in card)
    return {"index": number, **card} if told else card


def _keyed(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The cards of a mapping whose keys number them (``gpu_0``, ``0``)."""
    told = ((_CARD_KEY.fullmatch(str(key)), value) for key, value in row.items())
    return [
        {"index": int(key[1])} | dict(_flat(value)) for key, value in told if key and isinstance(value, dict)
    ]


def _flat(card: Mapping[str, Any], path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Keys and values, groups within joined by a point; a value beside its unit gives that to its key."""
    for key, value in card.items():
        name = f"{path}.{key}" if path else str(key)
        if not isinstance(value, dict):
            yield name, value
        elif "value" in value:
            yield f"{name} [{value['unit']}]" if value.get("unit") else name, value["value"]
        elif depth < _DEEPEST:
            yield from _flat(value, name, depth + 1)


def _is_trace(columns: tuple[Column, ...], of_gpus: bool = False) -> bool:
    """Whether columns are those of a trace; ``of_gpus`` is whether the file's name says GPU."""
    metrics = {one.role for one in columns if one.is_metric}
    roles = {one.role for one in columns}
    results = any(_RESULT.search(one.name) for one in columns if not one.is_metric)
    if _is_of_cards(columns, of_gpus) and not results:
        return True
    held = {"memory_used_mib", "memory_total_mib"} <= metrics and bool(roles & {"uuid", "driver"})
    if len(metrics) < 2 or not (metrics & _NEEDED or held) or ("other" in roles and not roles & _PLACES):
        return False
    return not results


def _is_of_cards(columns: tuple[Column, ...], of_gpus: bool) -> bool:
    """A time, a card, and nothing else but a card's state: then one quantity is enough.

    Where both the file's name and its quantities say GPU, columns of other things may stand between them.
    """
    roles = {one.role for one in columns}
    metrics = [one for one in columns if one.is_metric]
    rest = roles - {one.role for one in metrics} - {*_TIMES, "index", "uuid", "name", "bus"}
    if of_gpus and all(_names_gpu(one.name) for one in metrics):
        rest -= {"other"}
    named = bool(roles & {"index", "uuid", "bus"}) or all(of_gpus or _is_named(one) for one in metrics)
    return bool(metrics) and not rest and named and bool(roles & {*_TIMES})


def _is_named(column: Column) -> bool:
    """Whether a quantity says itself that it is a GPU's."""
    return column.gpu is not None or _names_gpu(column.name) or is_tool_name(column.name)


def _names_gpu(name: str) -> bool:
    return any(word in name.lower() for word in ("gpu", "nvidia", "rocm"))


def _names(found: TraceLayout) -> list[str]:
    return [one.name for one in found.columns]


def _number(value: Any, column: Column) -> float | None:
    return to_number(str(value), column.role, column.factor)


FORMATS = [
    Format(
        name="gpu_loop_csv",
        kind="trace",
        version=6,
        sniff=sniff_csv,
        read=read_csv,
        docs="CSV of people's own loops around nvidia-smi, NVML or rocm-smi: columns are recognised by name "
        "and unit (`power_w`, `gpu_util`, `mem_used_mb`, `GPU0 Temp (C)`), long or wide, with times or "
        "seconds.",
    ),
    Format(
        name="gpu_loop_jsonl",
        kind="trace",
        version=5,
        sniff=sniff_jsonl,
        read=read_jsonl,
        docs="JSON of people's own loops, an object a line, all in one list, or one object around them: "
        "flat, with the card in the key (`gpu_usage:0`), or with a list of cards in each.",
    ),
]
