"""Whether two measurements are one point described twice, and what they tell together.

Owns comparing and merging workload points. Must not read files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from kb.model import Measurement

TOLERANCE = 6e-3  # tables and console output round to two or three digits
EXACT, _TELLING_DIGITS = 2e-4, 5  # repeats of one load agree within a percent, too
WORKLOAD_KEYS = ("concurrency", "request_rate", "batch_size", "depth", "test")
COUNTS = frozenset({"completed", "failed", "input_tokens", "output_tokens", "duration_s"})


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
    return key == "output_tok_s" and any(
        _close(one[key], other.get("total_tok_s"))
        for one, other in ((a, b), (b, a))
        if "total_tok_s" not in one
    )


def merged(points: Iterable[Measurement]) -> list[Measurement]:
    """Points without repetitions, in the order of their first description."""
    found: list[Measurement] = []
    for point in points:
        at = next((i for i, one in enumerate(found) if is_same_point(one, point)), None)
        if at is None:
            found.append(point)
        else:
            found[at] = merge(found[at], point)
    return found


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
