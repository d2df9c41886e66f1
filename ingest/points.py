"""Whether two measurements are one point described twice, and what they tell together.

Owns comparing and merging workload points. Must not read files.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from kb.model import Measurement

TOLERANCE = 6e-3  # tables and console output round to two or three digits
EXACT, _TELLING_DIGITS = 2e-4, 5  # repeats of one load agree within a percent, too
WORKLOAD_KEYS = ("concurrency", "request_rate", "batch_size", "depth", "test")
COUNTS = frozenset({"completed", "failed", "input_tokens", "output_tokens", "duration_s"})
_MANY = 60  # points from which a sieve costs less than comparing each with each
_EITHER = frozenset({"output_tok_s"})  # a bare rate, which may be of all tokens


def is_same_point(a: Measurement, b: Measurement) -> bool:
    """Whether two descriptions speak of one measurement: nothing differs, and enough is the same."""
    if any(_differ(a.workload.get(key), b.workload.get(key)) for key in WORKLOAD_KEYS):
        return False
    common = [key for key, value in a.metrics.items() if value is not None and b.metrics.get(key) is not None]
    telling = [key for key in common if key not in COUNTS]
    enough = len(telling) >= 2 or (len(telling) == 1 and bool(a.metrics[telling[0]]))
    return enough and all(_alike(a.metrics, b.metrics, key) for key in common)


def _alike(a: Mapping[str, float | None], b: Mapping[str, float | None], key: str) -> bool:
    """Whether both tell one value; a table's bare rate may be of all tokens, where the other tells both."""
    if _close(a[key], b[key]):
        return True
    return key in _EITHER and any(
        _close(one[key], other.get("total_tok_s"))
        for one, other in ((a, b), (b, a))
        if "total_tok_s" not in one
    )


def merged(points: Iterable[Measurement]) -> list[Measurement]:
    """Points without repetitions, in the order of their first description."""
    points = list(points)
    index = _Index() if len(points) > _MANY else None
    found: list[Measurement] = []
    for point in points:
        places = range(len(found)) if index is None else index.like(point)
        at = next((i for i in places if is_same_point(found[i], point)), None)
        if at is None:
            at = len(found)
            found.append(point)
        else:
            found[at] = merge(found[at], point)
        if index is not None:
            index.add(at, found[at])
    return found


class _Index:
    """Which points have a figure, and which of them about where: sets of points as the bits of a number.

    Only a sieve before ``is_same_point``, so that thousands of points are not compared each with each.
    """

    def __init__(self) -> None:
        self._having: dict[str, int] = {}
        self._near: dict[tuple[str, int], int] = {}

    def add(self, at: int, point: Measurement) -> None:
        """Enter a point, or what it was merged to."""
        for key, value in _figures(point):
            self._having[key] = self._having.get(key, 0) | 1 << at
            place = (key, _step(value))
            self._near[place] = self._near.get(place, 0) | 1 << at

    def like(self, point: Measurement) -> Iterator[int]:
        """Places of points that have a figure of this one, and no figure that is far from its own."""
        some = far = 0
        for key, value in _figures(point):
            step = _step(value)
            near = 0
            for one in (step - 1, step, step + 1):
                near |= self._near.get((key, one), 0)
            having = self._having.get(key, 0)
            some |= having
            far |= 0 if key in _EITHER else having & ~near
        left = some & ~far
        while left:
            lowest = left & -left
            yield lowest.bit_length() - 1
            left ^= lowest


def _figures(point: Measurement) -> Iterator[tuple[str, float]]:
    return ((key, value) for key, value in point.metrics.items() if value is not None)


def _step(value: float) -> int:
    """A number's step on a scale on which close ones are at most one step apart."""
    return (
        round(math.copysign(math.log1p(abs(value)), value) / (2 * TOLERANCE)) if math.isfinite(value) else 0
    )


def merge(a: Measurement, b: Measurement) -> Measurement:
    """One point of two descriptions: the fuller one speaks, the other fills its gaps."""
    main, other = (b, a) if _fullness(b.metrics) > _fullness(a.metrics) else (a, b)
    return replace(
        main,
        workload=_filled(main.workload, other.workload),
        metrics=_filled(main.metrics, other.metrics),
        client=main.client or other.client,
        source_names=_filled(main.source_names, other.source_names),
    )


def _filled(main: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    known = {key: value for key, value in main.items() if value is not None}
    return {**main, **{key: value for key, value in other.items() if key not in known}, **known}


def _fullness(metrics: Mapping[str, float | None]) -> tuple[int, int]:
    """How much a description tells: first how many figures, then in how many digits."""
    known = [value for value in metrics.values() if value is not None]
    return len(known), sum(map(_digits, known))


def _differ(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return False
    try:
        return not _close(float(a), float(b))
    except (TypeError, ValueError):
        return str(a) != str(b)


def _close(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return False
    if a == b:
        return True
    if _digits(a) >= _TELLING_DIGITS <= _digits(b):
        return abs(a - b) <= EXACT * max(abs(a), abs(b))
    return abs(a - b) <= max(TOLERANCE * max(abs(a), abs(b)), 6e-3)


def _digits(value: float) -> int:
    """How many digits a number is given with."""
    return len(repr(value).split("e")[0].replace(".", "").strip("-").strip("0"))
