"""Results printed one below the other: lines of "name: figure unit" that belong to one run.

Owns putting such lines together, with the title above them and the section that a bare statistic stands in.
Must not know any tool, and must not read tables or lines that hold a whole result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ingest.bench.places import place
from ingest.bench.quantities import RESULTS, understand, words_of
from ingest.bench.spread_tables import is_statistic

_VALUE = r"[~≈]?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][+-]?\d+)?"
_LINE = re.compile(
    r"^[\s>*•+-]*[\"'`]?(?P<key>[A-Za-z][^:=\"'|]{0,60}?)[\"'`]?(?:\*\*)?\s*[:=]\s*(?:\*\*)?\s*"
    rf"(?P<value>\d+/\d+|{_VALUE})(?P<unit>\s*(?:%|[A-Za-zµ][\w/µ]{{0,12}}(?:\(s\))?(?:\s?(?:/|per)\s?[a-z]+)?))?"
    r"(?:\s*\([^()]{1,60}\))?\s*[,;]?\s*$"
)
_STATISTICS = re.compile(
    rf"(?P<key>[A-Za-z][\w%]{{0,9}})\s*[=:]\s*(?P<value>{_VALUE})\s*(?P<unit>ms|s|us|%)?(?=[\s,;)]|$)"
)
_PREFIX = re.compile(  # of a logger
    r"^\[?\d{4}-\d\d-\d\d[T ][\d:.,]+Z?\]?(?: - [\w.]+)*\s+-?\s*(?:INFO|DEBUG|WARNING)\s*-?\s*(?:[\w.]+:\s)?"
)
_TITLE = re.compile(r"^[\s=#*_>+-]*(?P<title>[A-Za-z\[][^|]{1,90}?)[\s=#*_:-]*$")
_MARKED = re.compile(r"^\s*(?:={2,}|#{1,4} |-{3,}|\*{2,})")
_LOGGED = re.compile(r"\b(?:INFO|WARNING|DEBUG|ERROR)\b|it/s\]|\{$")  # no title, though it stand above
_FEWEST = 3  # lines: fewer are found one by one
_LONGEST = 240


@dataclass(slots=True)
class Stanza:
    """Labels with their values, the lines they stand on, and the title above them."""

    record: dict[str, str] = field(default_factory=dict)
    lines: list[int] = field(default_factory=list)
    title: str = ""


def stanzas(lines: Iterable[tuple[int, str]]) -> Iterator[Stanza]:
    """Every run of such lines that tells a result and something beside it."""
    now, title, section, blank = Stanza(), "", "", 0
    for number, text in lines:
        told = _told(text, section)
        if told and not _repeats(told, now.record):
            now.title = now.title if now.lines else title
            now.record |= told
            now.lines.append(number)
            blank = 0
            continue
        if told or blank > 1 or (now.lines and _is_title(text) and not _is_section(text)):
            yield from [now] if _is_result(now) else []
            now = Stanza(told, [number], title) if told else Stanza()
        blank = 0 if text.strip() else blank + 1
        if not told and text.strip():
            section = _bare(text) if _is_section(text) else ""
            title = title if _is_section(text) else _bare(text) if _is_title(text) else ""
    yield from [now] if _is_result(now) else []


def _told(text: str, section: str) -> dict[str, str]:
    """What a line tells under labels with their units, where their meaning is known."""
    text = _PREFIX.sub("", text[: _LONGEST + 1])
    if len(text) > _LONGEST or ("=" not in text and ":" not in text):
        return {}
    found = _LINE.match(text)
    if found is None:
        return _spread(text)
    key, unit = found["key"].strip(), (found["unit"] or "").strip()
    if section and is_statistic(key):
        key = f"{key} {section}"
    label = f"{key} ({unit})" if unit and unit not in key else key
    known = label if understand(label) or place(label) else key if place(key) else ""
    return {known: found["value"]} if known else {}


def _spread(text: str) -> dict[str, str]:
    """Statistics of one measure on a line: "TTFT  mean= 96ms  p99= 120ms"."""
    pairs = [one for one in _STATISTICS.finditer(text) if is_statistic(one["key"])]
    if len(pairs) < 2:
        return {}
    measure = text[: pairs[0].start()].strip(" \t:-|*>([")
    told = understand(f"mean {measure}") if len(measure) < 50 else None
    if told is None or not told.name.startswith(RESULTS):
        return {}
    return {f"{one['key']} {measure} {one['unit'] or ''}".strip(): one["value"] for one in pairs}


_OF_EACH = re.compile(
    r"^\s*(?P<who>per[ -](?:stream|user|client|request))s?\s*:?\s+(?:mean|avg)\s*[=:]\s*"
    rf"(?P<value>{_VALUE})(?=\s|$)"
)


def of_each(text: str) -> dict[str, str]:
    """The rate of one client on a line below that of all: "per-stream  mean=57.86  CV=19.2%"."""
    found = _OF_EACH.match(text)
    return {f"{found['who']} tok/s": found["value"]} if found else {}


def _repeats(told: dict[str, str], record: dict[str, str]) -> bool:
    named = {_meaning(label) for label in record}
    return any(_meaning(label) in named for label in told)


def _meaning(label: str) -> str:
    told, where = understand(label), place(label)
    return told.name if told is not None else where[1] if where is not None else words_of(label)


def _is_result(one: Stanza) -> bool:
    told = [quantity.name for label in one.record if (quantity := understand(label))]
    enough = len(one.lines) >= _FEWEST or (len(one.lines) > 1 and len(told) > _FEWEST)  # of several each
    return enough and len(told) > 1 and any(name.startswith(RESULTS) for name in told)


def _bare(text: str) -> str:
    found = _TITLE.match(text)
    return found["title"].strip() if found else ""


def _is_title(text: str) -> bool:
    if len(text) > _LONGEST or not _bare(text) or _LOGGED.search(text):
        return False
    return bool(_MARKED.match(text)) or not re.search(r"[:=]\s*\S+$", text.strip("=#*_- "))


def _is_section(text: str) -> bool:
    """Whether a line names a measure whose statistics follow."""
    title = _bare(text)
    told = understand(f"mean {title}") if title and len(title) < _LONGEST else None
    return told is not None and told.name.startswith(RESULTS)
