"""Rounds of a loop: a stamp, or the header again, and then a row of each card.

Owns giving such rows what stands before them: their time, and their place in the round, which is the card's
where no column names it. Must not decide what columns mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from ingest.gpu_columns import Column
from ingest.gpu_csv import TraceLayout

_CLOCK = r"\d\d?:\d\d:\d\d(?:\.\d+)?"
_DAY = r"\d{4}[-/]\d\d[-/]\d\d"
_CTIME = r"[A-Z][a-z]{2} [A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d (?:[A-Z]{2,5} )?\d{4}"
TIME = rf"(?:{_DAY}[ T]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?|{_CTIME}|{_CLOCK})"
_ALONE = re.compile(
    rf"[\W_]*(?:(?:date|time|timestamp)\W*)?({TIME})[\W_]*(?:[A-Za-z]{{2,12}} ?){{0,3}}[\W_]*", re.IGNORECASE
)
_BEFORE = re.compile(rf"\[?({TIME})\]?[ :|-]+(?=[^\s,])")
_CARDS = ("index", "uuid", "bus")
_TIMES = ("time", "epoch", "elapsed")
_FEWEST = 2


def has_stamps(lines: Iterable[str]) -> bool:
    """Whether a loop wrote the time before its rows, or on lines of their own."""
    return any(_ALONE.fullmatch(line.strip()) or _BEFORE.match(line) for line in lines if len(line) <= 400)


def with_times(lines: Iterable[str], header: str = "") -> Iterator[str]:
    """Rows with the time that stands before them, on the same line or on one of its own, as their first cell.

    Where such a line or the header parts the rows of one round, their place in it becomes the next cell.
    With a header, lines of another width are no rows, nor is the command that asks for them.
    """
    commas = header.count(",")
    stamp, place, parted = "", 0, bool(header)
    for line in lines:
        text = line.strip("\r \ufeff")
        alone = _ALONE.fullmatch(text) if len(text) <= 80 else None
        if alone or (header and text == header):
            stamp, place = alone[1] if alone else stamp, 0
            parted = True
        elif header and (text.count(",") != commas or "--query" in text):
            if text.strip():
                yield text
        elif text.strip("-=_*# "):
            before = _BEFORE.match(text)
            row = f"{before[1]},{text[before.end() :]}" if before and not parted else text
            yield f"{stamp},{place},{row}" if parted else row
            place += 1


def in_rounds(found: TraceLayout, head: str) -> TraceLayout | None:
    """The layout of the rows that ``with_times`` gives, where a file repeats its header before every round.

    None where no stamp stands before a round and its rows say which card they are of, or it holds one row.
    """
    lines = [text for line in head.split("\n")[:-1] if (text := line.strip("\r \ufeff"))]
    if found.delimiter != "," or lines.count(found.header) < _FEWEST:
        return None
    start = lines.index(found.header)
    before = any(_ALONE.fullmatch(line) for line in lines[:start])
    commas = found.header.count(",")
    some = [
        line
        for line in lines[start:]
        if _ALONE.fullmatch(line) or (line.count(",") == commas and "--query" not in line)
    ]
    kinds = [(line != found.header and not _ALONE.fullmatch(line), line) for line in some]
    sizes = [len(list(group)) for is_row, group in groupby(kinds, key=lambda one: one[0]) if is_row]
    whole = set(sizes[:-1] if len(sizes) > 1 else sizes)
    stamped = before or any(not row and line != found.header for row, line in kinds)
    timed, named = _names(found, _TIMES), _names(found, _CARDS)
    if (len(whole) != 1 and not named) or ((named or whole == {1}) and (not stamped or timed)):
        return None
    place = Column("place in the round", "other" if named or whole == {1} else "index")
    time = Column("stamp of the round", "other" if timed else "time")
    return replace(found, columns=(time, place, *found.columns), header="", skip=0)


def _names(found: TraceLayout, roles: Iterable[str]) -> bool:
    return any(found.position(role) is not None for role in roles)
