"""Sum up a table of GPU samples: per card, apart for samples under load, how often each value came.

Owns that SQL, over slices of a file and over stored samples alike. Must not know where the samples come from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

HUGE = 2147483632.0  # from here on, numbers that tools print for "no value"
# What is kept of a value for its median: parts of our unit. Ends and sums are exact.
_PARTS = (("_w", 2), ("_pct", 10), ("_c", 10))
Run = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """One metric (or ``throttle``) of one card's samples, under load or not.

    ``rows`` are all its samples, ``n`` those with a value, ``times`` how often each of ``values`` came.
    """

    card: str | int
    busy: bool
    metric: str
    rows: int
    n: int
    total: float
    low: float
    high: float
    values: Sequence[float]
    times: Sequence[int]


def tallies(run: Run, table: str, parameters: Sequence[Any], metrics: Sequence[str]) -> list[Tally] | None:
    """The tallies of a relation with the columns ``card``, ``busy`` and one for each metric.

    None where a sample names no card, or a value cannot be one.
    """
    columns = ", ".join(f"count({one}), sum({one}), min({one}), max({one})" for one in metrics)
    sums = run(f"SELECT card, busy, count(*), {columns} FROM {table} GROUP BY card, busy", parameters)  # noqa: S608
    found = {
        (row[0], row[1], metric): (row[2], *row[3 + 4 * at : 7 + 4 * at])
        for row in sums
        for at, metric in enumerate(metrics)
    }
    if any(card is None for card, *_ in found) or any(
        one[1] and max(-one[3], one[4]) >= HUGE for one in found.values()
    ):
        return None
    moving = [
        one for one in metrics if any(key[2] == one and v[1] and v[3] < v[4] for key, v in found.items())
    ]
    counts = _counts(run, table, parameters, moving)
    return [
        Tally(
            card=key[0],
            busy=key[1],
            metric=key[2],
            rows=rows,
            n=n,
            total=total or 0.0,
            low=low or 0.0,
            high=high or 0.0,
            values=counts[key][0] if key in counts else [low],
            times=counts[key][1] if key in counts else [n],
        )
        for key, (rows, n, total, low, high) in found.items()
    ]


def _counts(
    run: Run, table: str, parameters: Sequence[Any], metrics: Sequence[str]
) -> dict[tuple[str | int, bool, str], tuple[list[float], list[int]]]:
    if not metrics:
        return {}
    each = " UNION ALL ".join(
        f"SELECT card, busy, '{one}' AS metric, ({one} * {_parts(one)})::INTEGER AS v, count(*) AS n "  # noqa: S608
        f"FROM {table} WHERE {one} IS NOT NULL GROUP BY card, busy, v"
        for one in metrics
    )
    rows = run(
        f"SELECT card, busy, metric, list(v), list(n) FROM ({each}) GROUP BY card, busy, metric",  # noqa: S608
        [*parameters] * len(metrics),
    )
    parts = {one: _parts(one) for one in metrics}
    return {
        (card, busy, metric): ([one / parts[metric] for one in values], times)
        for card, busy, metric, values, times in rows
    }


def _parts(metric: str) -> int:
    return next((parts for ending, parts in _PARTS if metric.endswith(ending)), 1)
