"""Sum up a table of GPU samples: per card, apart for samples under load, how often each value came.

Owns that SQL, over slices of a file and over stored samples alike. Must not know where the samples come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

HUGE = 2147483632.0  # from here on, numbers that tools print for "no value"
# What is kept of a value for its median: parts of our unit. Ends and sums are exact.
_PARTS = (("_w", 2), ("_pct", 10), ("_c", 10))
Run = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
Key = tuple[str | int | None, bool, str]


class Sums(NamedTuple):
    """One metric (or ``throttle``) of one card under load or not: all its samples, and those with a value."""

    rows: int
    n: int
    total: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """``sums`` of one metric (or ``throttle``), and how often (``times``) each of ``values`` came."""

    card: str | int | None
    busy: bool
    metric: str
    sums: Sums
    values: Sequence[float]
    times: Sequence[int]


def sums_of(run: Run, table: str, parameters: Sequence[Any], metrics: Iterable[str]) -> dict[Key, Sums]:
    """(card, busy, metric) -> sums, of a relation with the columns ``card``, ``busy`` and the metrics."""
    names = list(metrics)
    columns = ", ".join(f"count({one}), coalesce(sum({one}), 0), min({one}), max({one})" for one in names)
    found = run(f"SELECT card, busy, count(*), {columns} FROM {table} GROUP BY card, busy", parameters)  # noqa: S608
    return {
        (row[0], row[1], metric): Sums(row[2], *row[3 + 4 * at : 7 + 4 * at])
        for row in found
        for at, metric in enumerate(names)
    }


def tallies_of(
    found: Mapping[Key, Sums], run: Run, table: str, parameters: Sequence[Any] = (), share: int = 1
) -> list[Tally]:
    """The tallies of these sums, with counts from a relation that holds every ``share``-th of the samples."""
    moving = dict.fromkeys(metric for (*_, metric), one in found.items() if one.n and one.low < one.high)
    counts = _counts(run, table, parameters, list(moving), share)
    return [_tally(key, one, counts.get(key)) for key, one in found.items()]


def _tally(key: Key, sums: Sums, counted: tuple[Sequence[float], Sequence[int]] | None) -> Tally:
    values, times = counted or (((sums.low,), (sums.n,)) if sums.n else ((), ()))
    return Tally(card=key[0], busy=key[1], metric=key[2], sums=sums, values=values, times=times)


def _counts(
    run: Run, table: str, parameters: Sequence[Any], metrics: Sequence[str], share: int
) -> dict[Key, tuple[Sequence[float], Sequence[int]]]:
    if not metrics:
        return {}
    parts = {one: next((some for end, some in _PARTS if one.endswith(end)), 1) for one in metrics}
    each = " UNION ALL ".join(
        f"SELECT card, busy, '{one}' AS metric, ({one} * {parts[one]})::INTEGER AS v, "  # noqa: S608
        f"count(*) * {share} AS n FROM counted WHERE {one} IS NOT NULL GROUP BY card, busy, v"
        for one in metrics
    )
    counted = f"SELECT card, busy, {', '.join(metrics)} FROM {table}"  # noqa: S608
    kept = "NOT MATERIALIZED" if share == 1 else "MATERIALIZED"  # a part of the samples is looked for once
    rows = run(
        f"WITH counted AS {kept} ({counted}) "  # noqa: S608
        f"SELECT card, busy, metric, list(v), list(n) FROM ({each}) GROUP BY card, busy, metric",
        parameters,
    )
    return {
        (card, busy, metric): ([one / parts[metric] for one in values], times)
        for card, busy, metric, values, times in rows
    }
