"""Rows and cards in JSON of people's own loops: lines, lists, one object around them, a list per column.

Owns finding them, whatever the nesting. What a key means is ingest.gpu_columns'.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ingest.gpu_columns import Column, recognise_column
from ingest.sources import Source
from ingest.trace_marks import TIMES, is_trace

_RESULT_KEY = re.compile(
    r'(?i)"[^"\n]{0,60}(?:throughput|ttft|tpot|latency|tok(?:en)?s?_?(?:/|per)_?s|accuracy)[^"\n]{0,60}"\s*:'
)
_STATE_KEY = re.compile(
    r'(?i)"[^"\n]{0,60}(?:util|power|watt|load|busy|usage)[^"\n]{0,60}"\s*:'
)  # before all is parsed
_LARGEST_OBJECT = 16 << 20
_DEEPEST = 3
_CARD_KEY = re.compile(r"(?:gpu|card|device)?[_ :-]?(\d{1,2})", re.IGNORECASE)
_BETWEEN = re.compile(r"[\s,]*")
_NESTED = ("gpus", "devices", "cards", "gpu", "samples", "gpu_stats", "gpu_metrics")
_LISTED = re.compile(
    r"(?:\w+_)?(?:gpus?|devices|cards)(?:_(?:devices|list|info|details|data|per_gpu|all))?", re.IGNORECASE
)


def rows_of_source(source: Source) -> Iterator[tuple[int, Any]]:
    """(line or place in the list, what it holds); None for what is no JSON."""
    if within := rows_within(source):
        yield from enumerate(within, 1)
        return
    if source.head.lstrip("\ufeff \t\r\n")[:1] == "[":
        yield from enumerate(_items(source.text), 1)
        return
    for number, line in source.lines():
        if line.strip():
            row = _parsed(line)
            inner = by_time(row) or timed_list(row) if isinstance(row, dict) else []
            yield from ((number, one) for one in inner or [row])


def rows_within(source: Source) -> list[Any]:
    """The rows in a file that is one object over many lines: a list in it, or the object itself."""
    whole = re.match(r"\s*\{\s*\n", source.head) and source.size <= _LARGEST_OBJECT
    hopeful = whole and _STATE_KEY.search(source.head) and not _RESULT_KEY.search(source.head)
    return _rows_of(_parsed(source.text)) if hopeful else []


def _rows_of(raw: Any, depth: int = 0) -> list[Any]:
    if isinstance(raw, list):
        return raw if raw and is_trace(columns_of(raw[0])) else []
    if not isinstance(raw, dict) or depth > _DEEPEST:
        return []
    if rows := by_time(raw) or timed_list(raw):
        return rows
    columns = columns_of(raw)
    own = [raw] if is_trace(columns) else []
    if own and not any(one.role in TIMES for one in columns):
        return own
    inner = (rows for value in raw.values() if (rows := _rows_of(value, depth + 1)) and len(rows) > 1)
    return next(inner, own)


def by_time(raw: Mapping[str, Any]) -> list[Any]:
    """The rows of an object that holds a list per column, its times among them."""
    lists = {str(key): value for key, value in raw.items() if isinstance(value, list) and value}
    times = [key for key in lists if _is_time(key)]
    if not times:
        return []
    size = len(lists[times[0]])
    same = {key: value for key, value in lists.items() if len(value) == size and key not in times}
    rows = [
        {"time": time, **{key: value[at] for key, value in same.items()}}
        for at, time in enumerate(lists[times[0]])
    ]
    return rows if is_trace(columns_of(rows[0])) else []


def timed_list(raw: Mapping[str, Any]) -> list[Any]:
    """The rows of an object without a time of its own that holds a list of rows with one each."""
    if any(_is_time(key) for key in raw):
        return []
    for value in raw.values():
        if isinstance(value, list) and len(value) > 1 and all(isinstance(one, dict) for one in value):
            first = value[0]
            if any(_is_time(key) for key in first) and is_trace(columns_of(first)):
                return value
    return []


def _is_time(key: Any) -> bool:
    return any(recognise_column(name).role in TIMES for name in (str(key), str(key).removesuffix("s")))


def columns_of(row: Any) -> tuple[Column, ...]:
    """What the keys of a row's cards mean."""
    cards = cards_of(row) if isinstance(row, dict) else []
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


def objects(lines: list[str]) -> Iterator[dict[str, Any]]:
    """The objects among some first lines."""
    return (row for line in lines[:20] if isinstance(row := _parsed(line), dict))


def first_of_list(head: str) -> dict[str, Any] | None:
    """The first object of a document that is a list."""
    start = re.match(r"\[\s*(?=\{)", head)
    try:
        row, _ = json.JSONDecoder().raw_decode(head, start.end()) if start else (None, 0)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def is_listing(columns: tuple[Column, ...]) -> bool:
    """Whether a list's rows are cards, one each: by name, without a number and without a time."""
    roles = {one.role for one in columns}
    return "name" in roles and not roles & {*TIMES, "index", "uuid", "bus"}


def cards_of(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The mappings of a row that each describe one card: a nested list or mapping, or the row itself."""
    for key in (*_NESTED, *(key for key in row if _LISTED.fullmatch(str(key)))):
        inner = row.get(key)
        if isinstance(inner, list) and inner and all(isinstance(one, dict) for one in inner):
            return [dict(_flat(_numbered(one))) for one in inner]
        if key in _NESTED and isinstance(inner, dict) and inner:
            return _keyed(inner) or [dict(_flat(inner))]
    return _keyed(row) or _by_place(row) or [dict(_flat(row))]


def _by_place(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The cards of a row whose figures are lists, a place for each card; none where they are not."""
    lists = {key: value for key, value in row.items() if isinstance(value, list) and value}
    told = {key for key in lists if recognise_column(str(key)).is_metric}
    sizes = {len(lists[key]) for key in told}
    if len(told) < 2 or len(sizes) != 1 or any(_is_time(key) for key in lists):
        return []
    return [{"index": at, **{key: lists[key][at] for key in told}} for at in range(sizes.pop())]


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
