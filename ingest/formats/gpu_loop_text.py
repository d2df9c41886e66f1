"""GPU traces of people's own loops as lines of words: ``12:00:01 temp=62C busy=91% power=111W``.

Owns taking such lines apart. A figure counts only with its unit, in the cell or in the name: without columns,
nothing else tells what it is; but for ``key=value`` pairs, whose keys are columns. Where a line names its
card, units tell what stands without a word (``GPU 0: 45%, 10/24 GiB, 61C``). Lines are read as they stand:
their time is not an outer prefix here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
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
# A figure that stands for itself; not one in brackets, which tells something beside (``10/24 GB (42%)``).
_BARE = re.compile(
    r"(?<![\w.(/:#-])(\d+(?:\.\d+)?)\s?(%|MiB|MB|GiB|GB|W|°C|C|MHz)?"
    r"(?:\s?/\s?(\d+(?:\.\d+)?)\s?(MiB|MB|GiB|GB|W)?)?(?![\w%)/:.])"
)
_APART = re.compile(r"[,|;:=()\[\]]|\s-+\s")
_LOGFMT = re.compile(r"(?<!\S)([A-Za-z][\w.]{0,60})=(\d+(?:\.\d+)?)(?![\w.:/%-])")
_BY_UNIT = {
    "%": "utilization_pct", "MiB": "memory_used_mib", "MB": "memory_used_mib", "GiB": "memory_used_mib",
    "GB": "memory_used_mib", "W": "power_w", "°C": "temperature_c", "C": "temperature_c",
}  # fmt: skip
_FEWEST_KEYS = 3
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d+)?"
_STAMP = re.compile(rf"\d{{4}}[-/]\d\d[-/]\d\d[ T]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?|(?<![\d:]){_CLOCK}")
_CARD = re.compile(
    r"\b(?:GPU(?:\s*[#\[]?\s*|=)|cuda:)(\d{1,2})\b(?!\s*(?:%|°|[CW]\b|[MG]i?B\b|MHz))", re.IGNORECASE
)
_NAME = re.compile(
    r"(?<![\w-])(?:NVIDIA|Tesla|GeForce|Quadro|TITAN|AMD|Radeon)\b[\w ./-]{0,45}?"
    r"(?=\s*[|:,;()\[\]]|\s+\d+(?:\.\d+)?(?:\s?(?:%|/|[MG]iB|°|[CW]\b)|\s[MG]B)|\s+-\s|\s*$"
    r"|\s+(?!Ti|Super|Max|Laptop)[A-Za-z]?[a-z]\w*[=:])"
)
_NUMBER = re.compile(r"\s*\[?(\d{1,2})\]?\s*[:|]?\s*")  # before a card's name
_RESULT = re.compile(r"(?i)throughput|ttft|tpot|latency|tok(?:en)?s?\s?/|loss|accuracy|request")
_NEEDED = {"utilization_pct", "power_w"}
_WHOLE = {"memory_used_mib": "memory_total_mib", "power_w": "power_limit_w"}
_LOOKED_AT = 60
_LONGEST = 400


class _Row(NamedTuple):
    time: str
    card: int | None
    values: dict[str, float]
    name: str | None


def sniff(source: Source) -> float:
    """Most of the first lines say when, or of which card, and at least two figures of its state."""
    lines = [line for line in source.raw_head.split("\n")[: 2 * _LOOKED_AT] if line.strip()][:_LOOKED_AT]
    rows = sum(1 for line in lines if _rows(line))
    return 0.65 if rows >= 2 and 2 * rows >= len(lines) else 0.0


def read(source: Source) -> Reading:
    """A sample per line."""
    cards, lines, odd, times = Cards(source.samples), 0, 0, list[str]()
    for line in (line for text in blocks(source) for line in text.split("\n")):
        lines += bool(line.strip())
        rows = _rows(line)
        odd += bool(line.strip() and not rows)
        for row in rows:
            times = [*times[:1], row.time] if row.time else times
            cards.add(str(row.card), row.values, at=row.time, index=row.card, name=row.name)
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


def _rows(line: str) -> list[_Row]:
    """What a line says of each card that it names."""
    starts = [found.start() for found in _CARD.finditer(line)] if len(line) <= _LONGEST else []
    if len(starts) < 2:
        return [row] if (row := _row(line)) else []
    stamp = _STAMP.search(line[: starts[0]])
    parts = (line[start:end] for start, end in pairwise([*starts, len(line)]))
    told = [row._replace(time=stamp[0] if stamp else "") for part in parts if (row := _row(part))]
    return told if len(told) == len(starts) else []


def _row(line: str) -> _Row | None:
    """What a line says of a card; None where it is no such line."""
    if len(line) > _LONGEST or _RESULT.search(line):
        return None
    named = _NAME.search(line)
    number = _NUMBER.fullmatch(line[: named.start()]) if named else None
    line = line[: named.start()] + line[named.end() :] if named else line
    stamp, card = _STAMP.search(line), _CARD.search(line) or number
    values = dict(reversed(list(_figures(line))))
    if len(values) < 2 or not values.keys() & _NEEDED:
        values = _logfmt(line) or (_of_card(line[card.end() :]) if card else {}) or values
    if len(values) < 2 or not values.keys() & _NEEDED or not (stamp or card):
        return None
    return _Row(
        stamp[0] if stamp else "", int(card[1]) if card else None, values, named[0] if named else None
    )


def _figures(line: str) -> Iterator[tuple[str, float]]:
    for name, first, unit, second, unit_of_second in _PAIR.findall(line):
        column = recognise_column(f"{name} [{unit or unit_of_second}]" if unit or unit_of_second else name)
        if not column.is_metric or not column.unit:
            continue
        yield from _one(first, column, column.role)
        if second and column.role in _WHOLE:
            yield from _one(second, column, _WHOLE[column.role])


def _logfmt(line: str) -> dict[str, float]:
    """Figures of a line of ``key=value`` pairs whose keys are columns of a trace; {} for any other line."""
    pairs = [(recognise_column(key), figure) for key, figure in _LOGFMT.findall(line)]
    told = {
        one.role: value for one, figure in pairs if one.is_metric for _, value in _one(figure, one, one.role)
    }
    return told if len(told) >= _FEWEST_KEYS else {}


def _of_card(text: str) -> dict[str, float]:
    """Figures behind a card's number: by the word before or behind them, else by their unit alone."""
    told: dict[str, float] = {}
    found = list(_BARE.finditer(text))
    for at, one in enumerate(found):
        unit, whole = one[2] or one[4] or "", one[3]
        role, column = _role(_word_of(text, found, at), unit)
        if not unit or column is None or role in told:
            continue
        told |= dict(_one(one[1], column, role))
        if whole and role in _WHOLE:
            told |= dict(_one(whole, column, _WHOLE[role]))
    return told


def _role(word: str, unit: str) -> tuple[str, Column | None]:
    """(role, column) of a figure; its column is None where it is no state of a GPU's."""
    if not word:
        role = _BY_UNIT.get(unit, "")
        return role, recognise_column(f"{role} [{unit}]") if role else None
    column = recognise_column(f"{word} [{unit}]" if unit else word)
    return column.role, column if column.is_metric else None


def _word_of(text: str, found: list[re.Match[str]], at: int) -> str:
    """The words before a figure, back to the figure or the mark before it; else those up to the next mark."""
    start = found[at - 1].end() if at else 0
    before = _letters(_APART.split(text[start : found[at].start()].rstrip(" :="))[-1])
    if before:
        return before
    behind = text[found[at].end() : found[at + 1].start() if at + 1 < len(found) else len(text)]
    parts = _APART.split(behind)
    return _letters(parts[0]) if len(parts) > 1 or at + 1 == len(found) else ""


def _letters(text: str) -> str:
    return " ".join(re.findall(r"[A-Za-z_]+", text))


def _one(figure: str, column: Column, role: str) -> Iterator[tuple[str, float]]:
    value = to_number(figure, role, column.factor)
    if value is not None:
        yield role, value


FORMAT = Format(
    name="gpu_loop_text",
    kind="trace",
    version=2,
    sniff=sniff,
    read=read,
    docs="Lines of people's own loops in words (`12:00:01 GPU0 temp=62C busy=91% mem: 3 / 24 GiB`): figures "
    "with their units, a sample a line, behind a time or a card's number.",
)
