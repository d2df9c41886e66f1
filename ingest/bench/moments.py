"""Lists of what was seen at each moment of a run: samples over time, which are no results.

Owns telling such lists by a clock that only rises. Must not know what the samples hold.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

_CLOCK = re.compile(r"(?:t|ts|time|elapsed|seconds?|timestamp|epoch)(?:_?(?:s|sec|secs|ms|seconds))?")
_LEAST = 60  # a sweep over durations or dates has fewer rows


def are_moments(rows: Sequence[Any]) -> bool:
    """Whether rows are samples of one run: many, with a number that names the time and never falls."""
    if len(rows) < _LEAST or not all(isinstance(row, Mapping) for row in rows):
        return False
    clocks = [key for key in rows[0] if _CLOCK.fullmatch(str(key).lower())]
    return any(_rises([row.get(key) for row in rows]) for key in clocks)


def _rises(values: Sequence[Any]) -> bool:
    numbers = [one for one in values if isinstance(one, int | float) and not isinstance(one, bool)]
    rising = all(one <= other for one, other in pairwise(numbers))
    return len(numbers) == len(values) and rising and numbers[0] < numbers[-1]
