"""Columns of bare numbers of a GPU trace, without header and units, as far as only one reading fits them.

Owns those constraints: memory's whole stands still beside its use, load falls to where no temperature is,
power has decimals. Must not read cells with units (ingest/bare_rows.py does).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from kb.vocab.gpus import memory_sizes_mib

_SMALLEST = 3900  # MiB: what a card has at least
_CLOCK_STEP = 15  # MHz: clocks of cores go in such steps, and stand beside a clock of memory that is still
_COLDEST, _HOTTEST = 16, 110
_MOST_CARDS = 16
_LEAST_W, _MOST_W = 2.0, 1500.0
_NEARLY_ALL = 0.95
_PAIR = 2

Numbers = Mapping[int, Sequence[float]]


def roles_of(whole: Numbers, decimals: Numbers) -> dict[int, str]:
    """Column -> what it is; empty where memory's use and whole are not told. ``whole``: those of integers."""
    memory = _memory(whole)
    if not memory:
        return {}
    left = {at: one for at, one in whole.items() if at not in memory}
    cards = [at for at, one in left.items() if at < min(memory) and max(one) < _MOST_CARDS and _counts(one)]
    told = {cards[-1]: "index"} if cards else {}
    rest = {at: one for at, one in left.items() if at not in cards and max(one) <= _HOTTEST}
    return {**memory, **told, **_load(rest), **_power(decimals)}


def _memory(whole: Numbers) -> dict[int, str]:
    """The one column that stands still at the size of a card's memory, and the one beside it that fits in."""
    sizes = memory_sizes_mib()
    still = [
        at
        for at, one in whole.items()
        if min(one) == max(one) >= _SMALLEST and any(0.93 * size <= one[0] <= size for size in sizes)
    ]
    pairs = [
        (use, at)
        for at in still
        for use in (at - 1, at + 1)
        if use in whole
        and use not in still
        and max(whole[use]) <= whole[at][0]
        and not _are_clocks(whole[use])
        and max(whole[use]) > _HOTTEST
    ]
    return {pairs[0][0]: "memory_used_mib", pairs[0][1]: "memory_total_mib"} if len(pairs) == 1 else {}


def _are_clocks(numbers: Sequence[float]) -> bool:
    return all(one % _CLOCK_STEP == 0 for one in numbers)


def _counts(numbers: Sequence[float]) -> bool:
    """Whether a column is of cards' numbers: it stands still, or counts on and begins anew."""
    steps = {(after - before) for before, after in pairwise(numbers)}
    return steps <= {0.0} or (1.0 in steps and all(one == 1.0 or one < 0 for one in steps))


def _load(rest: Numbers) -> dict[int, str]:
    """Load, where a column falls to what no temperature is; beside it, use of memory's bandwidth is less."""
    cold = [at for at, one in rest.items() if min(one) < _COLDEST and max(one) <= 100]
    warm = [at for at, one in rest.items() if at not in cold and min(one) >= _COLDEST]
    told: dict[int, str] = {}
    if len(cold) == 1:
        told = {cold[0]: "utilization_pct"}
    elif len(cold) == _PAIR and cold[1] == cold[0] + 1 and _is_below(rest[cold[1]], rest[cold[0]]):
        told = {cold[0]: "utilization_pct", cold[1]: "memory_utilization_pct"}
    return told | ({warm[0]: "temperature_c"} if len(warm) == 1 and cold else {})


def _is_below(lower: Sequence[float], upper: Sequence[float]) -> bool:
    below = sum(low <= high for low, high in zip(lower, upper, strict=True))
    return below >= _NEARLY_ALL * len(upper) and max(upper) > 0


def _power(decimals: Numbers) -> dict[int, str]:
    """Draw, where it is the one column with decimals that moves; a limit beside it stands still."""
    fit = {at: one for at, one in decimals.items() if min(one) >= _LEAST_W and max(one) <= _MOST_W}
    moving = [at for at, one in fit.items() if min(one) < max(one)]
    still = [
        at for at in fit if at not in moving and len(moving) == 1 and fit[at][0] >= max(fit[moving[0]]) * 0.8
    ]
    if len(moving) != 1 or len(decimals) > _PAIR:
        return {}
    return {moving[0]: "power_w"} | ({still[0]: "power_limit_w"} if len(still) == 1 else {})
