"""Spans of time that sources tell, with and without a zone, and whether two of them overlap.

Owns that comparison. Must not guess a zone: what cannot be compared is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from kb.model import Experiment

SLACK = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Window:
    """From ``start`` to ``end``; an open end is the start itself."""

    start: datetime
    end: datetime

    @property
    def zoned(self) -> bool:
        """Whether the clock's zone is known."""
        return self.start.tzinfo is not None


def window(started: str | None, ended: str | None) -> Window | None:
    """The span of two ISO 8601 times, as printed; None where neither can be read.

    An end before its start is of another clock, and nothing tells which of the two is right.
    """
    start, end = moment(started), moment(ended)
    if start is None and end is None:
        return None
    start, end = start or end, end or start
    if start is None or end is None or (start.tzinfo is None) != (end.tzinfo is None):
        return None
    return Window(start, end) if start <= end else None


def moment(text: str | None) -> datetime | None:
    """One ISO 8601 time; None where it cannot be read."""
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None


def overlap(a: Window | None, b: Window | None) -> bool | None:
    """Whether two spans meet; None where their clocks cannot be compared.

    A clock without zone is compared with another without zone, or taken as UTC beside one with a zone; then
    only a meeting counts, since any whole number of hours may lie between them.
    """
    if a is None or b is None:
        return None
    meets = _utc(a.start) <= _utc(b.end) + SLACK and _utc(b.start) <= _utc(a.end) + SLACK
    return meets if meets or (a.zoned and b.zoned) else None


def _utc(one: datetime) -> datetime:
    return one.replace(tzinfo=UTC) if one.tzinfo is None else one


def longest(a: Experiment, b: Experiment) -> tuple[str | None, str | None]:
    """From the earlier start to the later end of two."""
    starts = sorted(one.started for one in (a, b) if one.started)
    ends = sorted(end for one in (a, b) if (end := one.ended or one.started))
    return (starts[0] if starts else None), (ends[-1] if ends else None)
