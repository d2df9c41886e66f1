"""Replay: hide what is known of a context, let a policy choose, reveal, count.

Owns the protocol: contexts, tries, regret, bootstrap over groups. Must not learn: policies are arguments.
Values are log outcomes, larger is better; a failed try has none.
"""

from __future__ import annotations

import hashlib
import math
import random
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Protocol

from recommend.policy import Seen, Value

WITHIN = 0.05
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One choice in one context: key, parts, features, and the log outcome (``None``: it failed)."""

    key: Key
    parts: Mapping[str, Value]
    features: Mapping[str, float]
    log_value: float | None
    date: str | None = None


@dataclass(frozen=True, kw_only=True)
class Context:
    """What one user has and cannot choose, and all measured there; ``group`` is left out together."""

    key: Key
    group: Key
    trials: tuple[Trial, ...]
    facts: Mapping[str, Value] = field(default_factory=dict)

    @cached_property
    def best(self) -> float:
        """The best log value; there is always one."""
        return max(one.log_value for one in self.trials if one.log_value is not None)

    @property
    def half(self) -> str:
        """``choose`` or ``report``: which half of the contexts it belongs to, by a hash of its key."""
        return ("choose", "report")[hashlib.blake2b(repr(self.key).encode(), digest_size=1).digest()[0] % 2]


class Chooser(Protocol):
    """A policy in one context: the index of the next trial, given what was seen; never one already seen."""

    def __call__(self, context: Context, seen: Sequence[Seen]) -> int: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What came of one context: regret after each try, tries until within 5 %, and failures met on the way.

    Regret is best / best seen − 1; ``None`` while nothing has worked. ``tries`` counts all, ``valid`` those
    that worked, both up to and with the first within 5 %; ``order`` are the choices tried (indexes).
    """

    context: Context
    regret: tuple[float | None, ...]
    tries: int
    valid: int
    order: tuple[int, ...] = ()

    @property
    def failures(self) -> int:
        """Failed tries before the first within 5 %."""
        return self.tries - self.valid


def playable(contexts: Iterable[Context]) -> list[Context]:
    """Contexts with at least two choices of which one works."""
    return [
        one
        for one in contexts
        if len(one.trials) > 1 and any(trial.log_value is not None for trial in one.trials)
    ]


def play(context: Context, choose: Chooser, given: int = 0, most: int | None = None) -> Played:
    """Let a policy choose until within 5 % (or all, or ``most``, were tried); ``given`` are free reveals."""
    seen = given_tries(context, given)
    regret: list[float | None] = []
    tries = valid = reached = 0
    limit = min(len(context.trials) - len(seen), most or len(context.trials))
    while len(regret) < limit and not (reached and len(regret) >= 3):
        index = choose(context, seen)
        value = context.trials[index].log_value
        seen.append(Seen(at=index, log_value=value))
        regret.append(_regret(context, seen))
        if not reached:
            tries, valid = tries + 1, valid + (value is not None)
        reached = reached or int(regret[-1] is not None and regret[-1] <= WITHIN)
    order = tuple(one.at for one in seen[len(seen) - len(regret) :])
    return Played(context=context, regret=tuple(regret), tries=tries, valid=valid, order=order)


def given_tries(context: Context, count: int) -> list[Seen]:
    """Trials known from the start: a seeded draw among those that are not within 5 % of the best."""
    if not count:
        return []
    worse = [
        index
        for index, one in enumerate(context.trials)
        if one.log_value is None or context.best - one.log_value > math.log(1 + WITHIN)
    ]
    drawn = random.Random(repr(context.key)).sample(worse, min(count, len(worse)))  # noqa: S311 - a reproducible draw
    return [Seen(at=index, log_value=context.trials[index].log_value) for index in drawn]


def _regret(context: Context, seen: Sequence[Seen]) -> float | None:
    values = [one.log_value for one in seen if one.log_value is not None]
    return math.exp(context.best - max(values)) - 1 if values else None


def by_order(rank: Callable[[Context], Sequence[float]]) -> Chooser:
    """A policy that tries in the order of fixed scores, the highest first."""

    orders: dict[Key, list[int]] = {}

    def choose(context: Context, seen: Sequence[Seen]) -> int:
        if context.key not in orders:
            scores = rank(context)
            orders[context.key] = sorted(range(len(scores)), key=lambda index: (-scores[index], index))
        tried = {one.at for one in seen}
        return next(index for index in orders[context.key] if index not in tried)

    return choose


def at_random(context: Context, seed: int) -> list[float]:
    """Scores of a random order that depends on nothing but the context and the seed."""
    draw = random.Random(f"{seed}|{context.key!r}")  # noqa: S311 - a reproducible draw
    return [draw.random() for _ in context.trials]


@dataclass(frozen=True, slots=True)
class Figure:
    """A mean over contexts, with its 95 % bootstrap interval over groups."""

    mean: float
    low: float
    high: float


def figure(played: Sequence[Played], measure: Callable[[Played], float], draws: int = 1000) -> Figure:
    """The mean of a measure; groups, not contexts, are drawn again."""
    return mean_by_group([(one.context.group, measure(one)) for one in played], draws)


def mean_by_group(values: Sequence[tuple[Key, float]], draws: int = 1000) -> Figure:
    """The mean of (group, value) pairs with its bootstrap interval over groups."""
    groups: dict[Key, list[float]] = {}
    for group, value in values:
        groups.setdefault(group, []).append(value)
    sums = [(sum(found), len(found)) for found in groups.values()]
    mean = sum(total for total, _ in sums) / sum(count for _, count in sums)
    means = [
        sum(sums[at][0] for at in sample) / sum(sums[at][1] for at in sample)
        for sample in _draws(len(sums), draws)
    ]
    means.sort()
    return Figure(mean, means[int(0.025 * draws)], means[int(0.975 * draws) - 1])


@lru_cache(maxsize=4)
def _draws(groups: int, draws: int) -> list[array[int]]:
    """Groups drawn again, so many times; each figure of a report asks for the same."""
    draw = random.Random(7)  # noqa: S311 - a reproducible draw
    return [array("L", (draw.randrange(groups) for _ in range(groups))) for _ in range(draws)]


def regret_after(tries: int) -> Callable[[Played], float]:
    """The measure "regret after k tries"; while nothing worked it is that of the worst that works."""

    def measure(one: Played) -> float:
        known = [value for value in one.regret[:tries] if value is not None]
        if known:
            return min(known)
        values = [trial.log_value for trial in one.context.trials if trial.log_value is not None]
        return math.exp(one.context.best - min(values)) - 1

    return measure


def summary(played: Sequence[Played]) -> dict[str, dict[str, float]]:
    """The usual figures, as JSON."""
    measures: dict[str, Callable[[Played], float]] = {
        "regret_after_1": regret_after(1),
        "regret_after_2": regret_after(2),
        "regret_after_3": regret_after(3),
        "tries_to_within_5_pct": lambda one: float(one.tries),
        "valid_tries_to_within_5_pct": lambda one: float(one.valid),
        "failed_tries_to_within_5_pct": lambda one: float(one.failures),
        "hit_at_1": lambda one: float(regret_after(1)(one) <= WITHIN),
    }
    found = {}
    for name, measure in measures.items():
        got = figure(played, measure)
        found[name] = {"mean": round(got.mean, 4), "low": round(got.low, 4), "high": round(got.high, 4)}
    return found


def wilcoxon(one: Sequence[float], other: Sequence[float]) -> float:
    """Two-sided p of the paired signed-rank test (normal form with ties); 1 where nothing differs."""
    differences = [a - b for a, b in zip(one, other, strict=True) if a != b]
    count = len(differences)
    if count == 0:
        return 1.0
    ranks = _ranks([abs(value) for value in differences])
    positive = sum(rank for rank, value in zip(ranks, differences, strict=True) if value > 0)
    ties = Counter(ranks).values()
    variance = count * (count + 1) * (2 * count + 1) / 24 - sum(size**3 - size for size in ties) / 48
    if variance <= 0:
        return 1.0
    z = (positive - count * (count + 1) / 4) / math.sqrt(variance)
    return math.erfc(abs(z) / math.sqrt(2))


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for place in range(start, end + 1):
            ranks[order[place]] = (start + end) / 2 + 1
        start = end + 1
    return ranks
