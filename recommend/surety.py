"""How sure a first choice is: the chance that it is within 5 %, learned where groups were left out.

Owns what speaks for it: the lead over the second, the number of choices, and how often such a choice was
right in alike contexts. Needs numpy; learning is left to ``recommend.fit``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recommend import fit
from recommend.frame import REACH, Rows
from recommend.likeness import Likeness
from recommend.policy import Prior, worth
from recommend.replay import WITHIN, Context, Key

Array = NDArray[np.float64]
# Leads beyond so many deviations are as good as any; contexts alike that count as one more of the usual kind.
FARTHEST = 3.0
USUAL = 1.0
STRENGTH = 1.0
# A lead and being right in alike contexts never speak against a first choice; many choices may do either.
SIDES = np.array([1, 0, 1])


class Surety:
    """Learned from known contexts, each first choice made without its group; asked of beliefs."""

    def __init__(self, contexts: Sequence[Context], scores: Array, good: Rows, deviation: float) -> None:
        at, told = _first_choices(scores, good, deviation)
        self.known = [contexts[one] for one in at]
        self.hits = told[:, 2]
        self.deviation = deviation
        self.learned: tuple[float, Array] | None = None
        if len(at) >= fit.FEW and 0 < self.hits.sum() < len(at):
            self.likeness = Likeness(self.known)
            self.usual = float(self.hits.mean())
            self.code: dict[Key, int] = {}
            self.group = np.array([self.code.setdefault(one.group, len(self.code)) for one in self.known])
            x = np.column_stack([told[:, :2], [self._alike(one) for one in self.known]])
            self.middle, self.spread = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-9)
            standard = (x - self.middle) / self.spread
            self.learned = fit.logistic(standard, self.hits, np.ones(len(x)), SIDES, STRENGTH)

    def __call__(self, context: Context, priors: Sequence[Prior]) -> float | None:
        """The chance that the choice of most worth works and is within 5 %; ``None`` if none was learned."""
        if self.learned is None:
            return None
        order = sorted(priors, key=worth, reverse=True)
        lead = (order[0].mean - order[1].mean) / self.deviation if len(order) > 1 else FARTHEST
        x = [min(max(lead, 0.0), FARTHEST), math.log(len(order)), self._alike(context)]
        intercept, weights = self.learned
        score = intercept + float(((np.array(x) - self.middle) / self.spread) @ weights)
        return order[0].works / (1 + math.exp(-score))

    def _alike(self, context: Context) -> float:
        """How often the first choice was right in alike contexts of other groups, drawn to the usual."""
        weight = np.exp(-self.likeness.apart(context) / REACH)
        weight[self.group == self.code.get(context.group, -1)] = 0.0
        return float((weight @ self.hits + USUAL * self.usual) / (weight.sum() + USUAL))


def _first_choices(scores: Array, good: Rows, deviation: float) -> tuple[list[int], Array]:
    """(places of the contexts with a choice; lead, log of the number of choices and hit of each)."""
    order = np.lexsort((-scores, good.context))
    start = np.flatnonzero(np.r_[True, np.diff(good.context[order]) != 0])
    at, told = [], []
    for here in np.split(order, start[1:]):
        if len(here) > 1:
            lead = float(scores[here[0]] - scores[here[1]]) / deviation
            hit = good.value[here].max() - good.value[here[0]] <= math.log(1 + WITHIN)
            at.append(int(good.context[here[0]]))
            told.append((min(lead, FARTHEST), math.log(len(here)), float(hit)))
    return at, np.array(told).reshape(-1, 3)
