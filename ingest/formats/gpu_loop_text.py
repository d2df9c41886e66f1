"""GPU traces of people's own loops as lines of words: ``12:00:01 temp=62C busy=91% power=111W``.

Owns taking such lines apart. A figure counts only with its unit, in the cell or in the name: without columns,
nothing else tells what it is. Lines are read as they stand: their time is not an outer prefix here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ingest.formats import Format, Unreadable
from ingest.gpu_columns import Column, recognise_column
from ingest.gpu_csv import blocks, to_number
from ingest.sources import Source
from ingest.tally import Cards
from ingest.traces import hardware_of, line_count, telemetry_of, trace_reading
from kb.model import Reading

_FIGURE = r"(\d+(?:\.\d+)?)\s*(%|°?[A-Za-z]+)?"
# A clock may stand behind the level it belongs to, as the tools print it (``sclk=1: 2455Mhz``).
_PAIR = re.compile(
    rf"([A-Za-z][A-Za-z_%. ]{{0,60}}?)\s{{0,9}}[=:]\s*(?:\d+:\s+)?{_FIGURE}(?:\s*/\s*{_FIGURE})?(?![\w:])"
)
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d+)?"
_STAMP = re.compile(rf"\d{{4}}[-/]\d\d[-/]\d\d[ T]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?|(?<![\d:]){_CLOCK}")
_CARD = re.compile(r"\bGPU\s*[#\[]?\s*(\d{1,2})\b(?!\s*%)", re.IGNORECASE)
_RESULT = re.compile(r"(?i)throughput|ttft|tpot|latency|tok(?:en)?s?\s?/|loss|accuracy|request")
_NEEDED = {"utilization_pct", "power_w"}
_WHOLE = {"memory_used_mib": "memory_total_mib", "power_w": "power_limit_w"}
_LOOKED_AT = 60
_LONGEST = 400


class _Row(NamedTuple):
    time: str
    card: int | None
    values: dict[str, float]


def sniff(source: Source) -> float:
    """Most of the first lines say when, or of which card, and at least two figures of its state."""
    lines = [line for line in source.raw_head.split("\n")[: 2 * _LOOKED_AT] if line.strip()][:_LOOKED_AT]
    rows = sum(1 for line in lines if _row(line))
    return 0.65 if rows >= 2 and 2 * rows >= len(lines) else 0.0


def read(source: Source) -> Reading:
    """A sample per line."""
    cards, lines, odd, times = Cards(source.samples), 0, 0, list[str]()
    for line in (line for text in blocks(source) for line in text.split("\n")):
        lines += bool(line.strip())
        row = _row(line)
        if row is None:
            odd += bool(line.strip())
            continue
        times = [*times[:1], row.time] if row.time else times
        cards.add(str(row.card), row.values, at=row.time, index=row.card)
    if not cards.rows:
        raise Unreadable("no line with a GPU's state was found")
    found = telemetry_of(cards.by_key.values(), first=(times or [""])[0], last=(times or [""])[-1])
    return trace_reading(
        str(source.path),
        "gpu_loop_text",
        found,
        hardware_of(found),
        tool="own loop",
        lines=line_count(lines, odd),
        status="partial" if odd else "parsed",
    )


def _row(line: str) -> _Row | None:
    """What a line says of a card; None where it is no such line."""
    if len(line) > _LONGEST or _RESULT.search(line):
        return None
    stamp, card = _STAMP.search(line), _CARD.search(line)
    values = dict(reversed(list(_figures(line))))
    if len(values) < 2 or not values.keys() & _NEEDED or not (stamp or card):
        return None
    return _Row(stamp[0] if stamp else "", int(card[1]) if card else None, values)


def _figures(line: str) -> Iterator[tuple[str, float]]:
    for name, first, unit, second, unit_of_second in _PAIR.findall(line):
        column = recognise_column(f"{name} [{unit or unit_of_second}]" if unit or unit_of_second else name)
        if not column.is_metric or not column.unit:
            continue
        yield from _one(first, column, column.role)
        if second and column.role in _WHOLE:
            yield from _one(second, column, _WHOLE[column.role])


def _one(figure: str, column: Column, role: str) -> Iterator[tuple[str, float]]:
    value = to_number(figure, role, column.factor)
    if value is not None:
        yield role, value


FORMAT = Format(
    name="gpu_loop_text",
    kind="trace",
    sniff=sniff,
    read=read,
    docs="Lines of people's own loops in words (`12:00:01 GPU0 temp=62C busy=91% mem: 3 / 24 GiB`): figures "
    "with their units, a sample a line, behind a time or a card's number.",
)
