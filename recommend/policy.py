"""What to try next: expected improvement per expected cost, updated by what was seen.

Owns the search policy that ``recommend`` and ``replay`` share: a prior (predicted log value and chance of
each choice) and what similar choices did in this context. Plain Python, deterministic; the number of things
seen decides the cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

Value = str | float
Choice = Mapping[str, Value]


class Prior(NamedTuple):
    """What is expected of a choice before anything is seen here: mean and deviation of the log value."""

    mean: float
    deviation: float
    works: float = 1.0


class Seen(NamedTuple):
    """One try: which choice (by index) and its log value; ``None`` where it failed."""

    at: int
    log_value: float | None


# How alike two choices are, by their indexes.
Alike = Callable[[int, int], float]


def next_choice(choices: Sequence[Choice], priors: Sequence[Prior], seen: Sequence[Seen]) -> int | None:
    """The index of the choice most worth a try, or ``None`` when all were tried."""
    tried = {one.at for one in seen}
    left = [index for index in range(len(choices)) if index not in tried]
    return most_worth(posterior(choices, priors, seen, left), seen) if left else None


def most_worth(updated: Mapping[int, Prior], seen: Sequence[Seen]) -> int:
    """Of choices not yet tried, as they are thought of after what was seen: the index to try next.

    Before anything has worked: the highest value per cost. Afterwards: expected improvement per cost.
    """
    values = [one.log_value for one in seen if one.log_value is not None]
    if not values:
        return max(updated, key=lambda index: (worth(updated[index]), -index))
    best = max(values)
    return max(updated, key=lambda index: (gain(updated[index], best), updated[index].mean, -index))


# A failed try costs as much as so many that work: it takes as long, and says nothing of how fast anything is.
FAILURE = 3.0


def pays(works: float) -> float:
    """Tries that work per cost of a try: 1 where it is sure to work."""
    return works / (works + FAILURE * (1 - works))


def worth(prior: Prior) -> float:
    """Log of the value per cost of a try, where a failure yields a tenth of a percent."""
    return prior.mean + math.log(max(pays(prior.works), 1e-3))


def gain(prior: Prior, best: float) -> float:
    """Expected improvement over ``best`` (log values, so about a fraction) per expected cost of the try."""
    return pays(prior.works) * expected_improvement(prior.mean - best, prior.deviation)


def expected_improvement(lead: float, deviation: float) -> float:
    """E[max(X, 0)] for X normal with mean ``lead``."""
    if deviation < 1e-9:
        return max(lead, 0.0)
    z = lead / deviation
    density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return lead * (1 + math.erf(z / math.sqrt(2))) / 2 + deviation * density


def posterior(
    choices: Sequence[Choice],
    priors: Sequence[Prior],
    seen: Sequence[Seen],
    wanted: Sequence[int],
) -> dict[int, Prior]:
    """The priors of the ``wanted`` indexes after what was seen, by a Gaussian process over their errors."""

    def alike(one: int, other: int) -> float:
        return similarity(choices[one], choices[other])

    worked = [one for one in seen if one.log_value is not None]
    failed = [one for one in seen if one.log_value is None]
    weights = _weights(alike, priors, worked)
    return {
        index: Prior(
            mean=priors[index].mean + shift,
            deviation=spread,
            works=_chance(alike, priors[index].works, index, worked, failed),
        )
        for index in wanted
        for shift, spread in (_updated(alike, priors, worked, weights, index),)
    }


NOISE = 0.05
# A context shares most of the prior's error (the whole level may be off); the rest follows similarity.
SHARED = 0.5
# Tries of one very choice that a prior chance to work counts for.
STRENGTH = 2.0


def _covariance(alike: Alike, priors: Sequence[Prior], one: int, other: int) -> float:
    close = SHARED + (1 - SHARED) * alike(one, other)
    return priors[one].deviation * priors[other].deviation * close


def _weights(
    alike: Alike, priors: Sequence[Prior], worked: Sequence[Seen]
) -> tuple[list[float], list[list[float]]]:
    """Cholesky factor of the seen points' covariance and its solution for their errors."""
    rows = [
        [_covariance(alike, priors, a.at, b.at) + (NOISE**2 if i == j else 0.0) for j, b in enumerate(worked)]
        for i, a in enumerate(worked)
    ]
    factor = _cholesky(rows)
    errors = [(one.log_value or 0.0) - priors[one.at].mean for one in worked]
    return _solve_transposed(factor, _solve(factor, errors)), factor


def _updated(
    alike: Alike,
    priors: Sequence[Prior],
    worked: Sequence[Seen],
    weights: tuple[list[float], list[list[float]]],
    index: int,
) -> tuple[float, float]:
    solution, factor = weights
    across = [_covariance(alike, priors, index, one.at) for one in worked]
    explained = _solve(factor, across)
    variance = priors[index].deviation ** 2 - sum(value * value for value in explained)
    return sum(a * b for a, b in zip(across, solution, strict=True)), math.sqrt(max(variance, 1e-6))


def _cholesky(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    factor: list[list[float]] = []
    for i, row in enumerate(rows):
        line: list[float] = []
        for j in range(i + 1):
            rest = row[j] - sum(line[k] * (factor[j][k] if j < i else line[k]) for k in range(j))
            line.append(math.sqrt(max(rest, 1e-9)) if i == j else rest / factor[j][j])
        factor.append(line)
    return factor


def _solve(factor: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    out: list[float] = []
    for row, value in zip(factor, values, strict=True):
        out.append((value - sum(a * b for a, b in zip(row, out, strict=False))) / row[len(out)])
    return out


def _solve_transposed(factor: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    out = [0.0] * len(values)
    for i in reversed(range(len(values))):
        out[i] = (values[i] - sum(factor[k][i] * out[k] for k in range(i + 1, len(values)))) / factor[i][i]
    return out


def _chance(alike: Alike, prior: float, index: int, worked: Sequence[Seen], failed: Sequence[Seen]) -> float:
    """The prior chance, moved by what alike choices did: each counts as much as it is alike."""
    good = sum(alike(index, one.at) ** 2 for one in worked)
    bad = sum(alike(index, one.at) ** 2 for one in failed)
    return (prior * STRENGTH + good) / (STRENGTH + good + bad)


def similarity(one: Choice, other: Choice) -> float:
    """1 for equal choices, less by each part that differs: words by whether, numbers by ratio."""
    distance = 0.0
    for key in one.keys() | other.keys():
        distance += _apart(one.get(key), other.get(key))
    return math.exp(-distance / 2)


def _apart(one: Value | None, other: Value | None) -> float:
    if one == other:
        return 0.0
    if isinstance(one, int | float) and isinstance(other, int | float) and one >= 0 and other >= 0:
        return min(abs(math.log2((1 + one) / (1 + other))) / 2, 1.0)
    return 1.0
