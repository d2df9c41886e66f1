"""Learn the chance that a configuration works: one logistic regression per step, on tries of several kinds.

Owns how tries become rows, and how much each kind and each feature counts. Must not import scikit-learn
(``fit`` does): the result is plain JSON that ``chance`` reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recommend.chance import STEPS
from recommend.fit import logistic
from recommend.tries import Try

Array = NDArray[np.float64]
Model = dict[str, Any]
# More of these never lowers a chance; more of the others never raises it.
PROOF = (
    "ran-here",
    "ran-otherwise",
    "published",
    "written-up",
    "kernels-work",
    "works-firmly",
    "own-choice",
    "served-near",
)
FOR = (*PROOF, "near-trust", "far-trust")
NEARBY = ("failed-near", "near-doubt", "far-doubt", "trapped", "left-open")
AGAINST = (*NEARBY, "emulated", "tight")
DOUBTS = ("disputed", "suspect", "no-code")
# How far a feature may move a chance before the penalty holds it: proof far, what merely describes less.
EASE = dict.fromkeys(PROOF, 3.0)
EVIDENCE = ("near-trust", "far-trust", *NEARBY, "by-hand")
DESCRIPTION = 0.7
# What only examples of records have; learned, so that their base rate is not taken for that of tries.
NUISANCE = "as-reported"
NUISANCE_EASE = 3.0


class Settings(NamedTuple):
    """Chosen on one half of the groups: the inverse of the penalty, and what a row counts by kind."""

    strength: float = 0.3
    counts: Mapping[str, float] = MappingProxyType({"recorded": 3.0})
    ease: Mapping[str, float] = EASE
    description: float = DESCRIPTION


class Rows:
    """Tries as arrays: per step a matrix (tries × features), and what each try tells of the step."""

    def __init__(self, tries: Sequence[Try]) -> None:
        seen = {step: [at(one.features, step) for one in tries] for step in STEPS}
        self.names = sorted({name for rows in seen.values() for one in rows for name in one})
        self.x = {step: _matrix(rows, self.names) for step, rows in seen.items()}
        self.last = np.array([STEPS.index(one.step) for one in tries])
        self.worked = np.array([one.worked for one in tries])
        self.weight = np.array([one.weight for one in tries])
        self.source = np.array([one.source for one in tries])
        failed = (self.worked == 0) & (self.source != "prior")
        lost = np.array([self.weight[failed & (self.last == place)].sum() for place in range(len(STEPS))])
        self.share = lost / lost.sum() if lost.sum() else np.full(len(STEPS), 1 / len(STEPS))

    def passed(self, place: int) -> Array:
        """The chance that a try passed a step that it reached; a prior's is spread as failures are."""
        known = np.where(self.last == place, self.worked, 1.0)
        return np.where(self.source == "prior", self.worked ** self.share[place], known)


def _matrix(rows: Sequence[Mapping[str, float]], names: Sequence[str]) -> Array:
    return np.array([[row.get(name, 0.0) for name in names] for row in rows])


def at(features: Mapping[str, float], step: str) -> dict[str, float]:
    """The features as one step sees them: a doubt is of this step or of another."""
    found: dict[str, float] = {}
    for name, value in features.items():
        word, colon, where = name.partition(":")
        key = f"{word}:{'here' if where == step else 'elsewhere'}" if colon else word
        found[key] = found.get(key, 0.0) + value
    return found


def learn(
    tries: Sequence[Try],
    near: Mapping[str, Any],
    settings: Settings = Settings(),  # noqa: B008 - immutable
    used: NDArray[np.bool_] | None = None,
    rows: Rows | None = None,
) -> Model:
    """The model's part ``chance``: per step an intercept and coefficients by feature; and reports.

    ``used`` leaves tries out. Raises ``ValueError`` where no try failed or none worked.
    """
    rows = rows or Rows(tries)
    kept = np.ones(len(tries), bool) if used is None else used
    counted = rows.weight * np.array([settings.counts.get(one, 1.0) for one in rows.source])
    told = {step: _step(rows, place, kept, counted, settings) for place, step in enumerate(STEPS)}
    return {"steps": told, "near": dict(near), "tries": int(kept.sum())}


def _step(rows: Rows, place: int, kept: NDArray[np.bool_], counted: Array, settings: Settings) -> Model:
    step = STEPS[place]
    reached = np.flatnonzero(kept & (rows.last >= place))
    ease = np.array([_ease(name, settings) for name in rows.names])
    x, passed, weight = rows.x[step][reached] * ease, rows.passed(place)[reached], counted[reached]
    if not 0 < passed.sum() < len(passed):
        raise ValueError(f"every try that reached the step {step!r} ended alike: nothing can be learned")
    sides = np.array([_side(name) for name in rows.names])
    intercept, found = logistic(x, passed, weight, sides, settings.strength)
    coef = dict(zip(rows.names, found * ease, strict=True))
    return {"intercept": round(intercept, 4), "coef": dict(_exported(coef, step))}


def _ease(name: str, settings: Settings) -> float:
    if name.startswith(NUISANCE):
        return NUISANCE_EASE
    evidence = name in EVIDENCE or name.partition(":")[0] in DOUBTS
    return settings.ease.get(name, 1.0 if evidence else settings.description)


def _side(name: str) -> int:
    """1 where a coefficient must not be negative, -1 where it must not be positive."""
    if name in AGAINST or name.partition(":")[0] in DOUBTS:
        return -1
    return int(name in FOR)


def _exported(coef: Mapping[str, float], step: str) -> Iterable[tuple[str, float]]:
    """Coefficients by the names that ``chance.features`` gives; what only records have is left out."""
    for name, value in coef.items():
        word, colon, where = name.partition(":")
        if name.startswith(NUISANCE) or abs(value) < 5e-4:
            continue
        places = [one for one in STEPS if (one == step) == (where == "here")] if colon else [""]
        for place in places:
            yield f"{word}{colon}{place}", round(float(value), 4)
