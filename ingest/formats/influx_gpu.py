"""GPU metrics in InfluxDB's line protocol, as Telegraf writes them (``nvidia_smi``, ``amd_rocm_smi``).

Owns that line. What a field means is ingest.gpu_columns'.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ingest.formats import Format, Unreadable
from ingest.gpu_columns import recognise_column
from ingest.sources import Source
from ingest.tally import Cards
from ingest.traces import hardware_of, line_count, telemetry_of, trace_reading
from kb.model import Reading

_LINE = re.compile(
    r"(?P<tags>\w+(?:,(?:\\.|[^\s\\])+)?) (?P<fields>\w+=(?:\\.|\"[^\"]*\"|[^\s\\])+)"
    r"(?: (?P<at>\d{10,19}))?"
)
_CUT = re.compile(r"(?<!\\),")
_FIELD_CUT = re.compile(r",(?=\w+=)")  # a text may hold commas
_MEASURES = re.compile(r"^\w*(?:nvidia_smi|rocm_smi|amd_smi|gpu)\w*$")
_IN_BYTES = re.compile(r"rocm_smi")  # the inputs whose memory is in bytes
_CARD = re.compile(r"card(\d+)")
_LONGEST = 8000
_FEWEST = 2


def sniff(source: Source) -> float:
    """Most of the first lines are of this protocol and hold a GPU's state."""
    lines = [line for line in source.raw_head.split("\n")[:-1][:20] if line.strip() and line[:1] != "#"]
    told = sum(1 for line in lines if (one := _parsed(line)) and len(_state(*one[:2])) >= _FEWEST)
    return 0.93 if told and 2 * told >= len(lines) else 0.0


def read(source: Source) -> Reading:
    """A sample per line."""
    cards, lines, odd, times = Cards(source.samples), 0, 0, list[str]()
    for _, line in source.lines():
        if not line.strip() or line[:1] == "#":
            continue
        lines += 1
        one = _parsed(line)
        state = _state(*one[:2]) if one else {}
        if one is None or not state or (times and not one[3]):  # without its time, a line is cut
            odd += 1
            continue
        _, fields, tags, at = one
        times = [*times[:1], at] if at else times
        index, name = _who(tags, fields)
        who: dict[str, Any] = {"index": int(index) if index.isdecimal() else None, "name": name}
        key = "/".join((tags.get("host", ""), index or tags.get("uuid") or name or ""))
        cards.add(key, state, at=at, **who, uuid=tags.get("uuid"))
    if not cards.rows:
        raise Unreadable("no line with a GPU's state was found")
    found = telemetry_of(cards.by_key.values(), first=(times or [""])[0], last=(times or [""])[-1])
    count, machine = line_count(lines, odd), hardware_of(found)
    return trace_reading(str(source.path), "influx_gpu", found, machine, tool="telegraf", lines=count)


def _who(tags: Mapping[str, str], fields: Mapping[str, str]) -> tuple[str, str | None]:
    """(index, product) of a card; "card0" is its number and no product."""
    index, name = tags.get("index", tags.get("gpu", "")), tags.get("name")
    if card := _CARD.fullmatch(name or ""):
        return index or card[1], fields.get("card_series")
    return index, name


def _parsed(line: str) -> tuple[str, dict[str, str], dict[str, str], str] | None:
    """(measurement, fields, tags, time in nanoseconds or "") of a line; None for any other line."""
    found = _LINE.fullmatch(line.strip()) if len(line) <= _LONGEST else None
    if not found:
        return None
    measure, *tags = _CUT.split(found["tags"])
    if not _MEASURES.match(measure):
        return None
    return measure, dict(_pairs(_FIELD_CUT.split(found["fields"]))), dict(_pairs(tags)), found["at"] or ""


def _pairs(parts: list[str]) -> Iterator[tuple[str, str]]:
    for part in parts:
        key, _, value = part.partition("=")
        yield key, re.sub(r"\\(.)", r"\1", value).strip('"')


def _state(measure: str, fields: Mapping[str, str]) -> dict[str, float]:
    """Metric -> value of the fields that are of a GPU's state."""
    told: dict[str, float] = {}
    in_bytes = _IN_BYTES.search(measure) is not None
    for key, text in fields.items():
        column = recognise_column(f"{key} [bytes]" if in_bytes and key.startswith("memory_") else key)
        figure = re.fullmatch(r"(-?\d+(?:\.\d+)?)[iu]?", text) if column.is_metric else None
        if figure:
            told.setdefault(column.role, float(figure[1]) * column.factor)
    return told


FORMAT = Format(
    name="influx_gpu",
    kind="trace",
    version=2,
    sniff=sniff,
    read=read,
    docs="InfluxDB line protocol of Telegraf's inputs for GPUs: cards by their tags, state by its fields.",
)
