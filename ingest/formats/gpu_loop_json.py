"""GPU traces of people's own loops in JSON, whose keys say what they hold.

Owns turning rows of keys into samples; where rows and cards stand is ingest.json_rows'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from ingest.formats import Format, Unreadable
from ingest.gpu_columns import Column, recognise_column
from ingest.gpu_csv import to_number
from ingest.json_rows import (
    by_time,
    cards_of,
    columns_of,
    first_of_list,
    is_listing,
    objects,
    rows_of_source,
    rows_within,
    timed_list,
)
from ingest.sources import Source
from ingest.tally import Cards, vague_roles
from ingest.trace_marks import TIMES, is_trace
from ingest.traces import hardware_of, line_count, telemetry_of, trace_reading
from kb.model import Problem, Reading

if TYPE_CHECKING:
    from ingest.samples import Samples

_LOOKED_AT = 200


def sniff(source: Source) -> float:
    """Objects, one a line or in a list, with enough keys of a GPU's state."""
    head = source.head.lstrip("\ufeff \t\r\n")
    first = next(objects(head.split("\n")), None) if head[:1] == "{" else first_of_list(head)
    if first is None:
        return 0.7 if rows_within(source) else 0.0
    first = next(iter(by_time(first) or timed_list(first)), first)
    columns = columns_of(first)
    timed = any(recognise_column(str(key)).role in TIMES for key in first)
    listed = any(one.role in ("index", "uuid") for one in columns) or is_listing(columns)
    return 0.85 if is_trace(columns) and (timed or listed or head[:1] == "{") else 0.0


def read(source: Source) -> Reading:
    """Samples of every GPU; keys may name the card, or lists of cards be nested."""
    reader = _Lines(source.samples, _shares_of_one(source))
    reader.listing = source.head.lstrip("\ufeff \t\r\n")[:1] == "[" and is_listing(
        columns_of(first_of_list(source.head.lstrip("\ufeff \t\r\n")))
    )
    total = 0
    for number, row in rows_of_source(source):
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
        self.listing = False
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
        cards = cards_of(row)
        if self.listing and len(cards) == 1:
            cards = [{"index": number - 1, **cards[0]}]
        for at, card in enumerate(cards):
            self._add(at, card)

    def _around(self, row: Mapping[str, Any]) -> None:
        """When a row was taken, and what it says of the machine."""
        told: dict[str, str] = {}
        for key, value in row.items():
            if isinstance(value, str | int | float):
                told.setdefault(recognise_column(str(key)).role, str(value))
        self.last = next((told[role] for role in TIMES if role in told), self.last)
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
            elif column.role == "index" and column.gpu is None and isinstance(value, str | int):
                who["index"] = value
            elif column.role in who and column.gpu is None and isinstance(value, str):
                who[column.role] = value
        index = who["index"] if isinstance(who["index"], int) else None
        for gpu, sample in samples.items():
            place = gpu if gpu is not None else index
            key = str(place) if place is not None else str(who["uuid"] or at)
            self.cards.add(key, sample, at=self.last, index=place, name=who["name"], uuid=who["uuid"])


def _shares_of_one(source: Source) -> bool:
    """Whether load is a share of one, as the first rows show it where no key names a unit."""
    values: list[float] = []
    for _, row in islice(rows_of_source(source), _LOOKED_AT):
        for card in cards_of(row) if isinstance(row, dict) else ():
            told = ((recognise_column(str(key)), value) for key, value in card.items())
            loads = (value for column, value in told if column.role == "utilization_pct" and not column.unit)
            values += [value for value in loads if isinstance(value, int | float)]
    return max(values, default=0.0) <= 1.0 and any(0 < value < 1 for value in values)


def _as_share(column: Column) -> Column:
    return replace(column, factor=100.0) if column.role == "utilization_pct" and not column.unit else column


def _number(value: Any, column: Column) -> float | None:
    return to_number(str(value), column.role, column.factor)


FORMAT = Format(
    name="gpu_loop_jsonl",
    kind="trace",
    version=8,
    sniff=sniff,
    read=read,
    docs="JSON of people's own loops, an object a line, all in one list, or one object around them: "
    "flat, with the card in the key (`gpu_usage:0`), with a list of cards in each, or a list per column.",
)
