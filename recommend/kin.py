"""Which known contexts fail as this one does: the chance that a choice works here, moved by each try.

Owns the hypotheses: here fails what failed in one known context, or what the learned chances say. What is
seen here speaks for some and against others. Choices alike by their parts are left to ``recommend.policy``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recommend.frame import REACH
from recommend.likeness import Likeness
from recommend.policy import Seen
from recommend.replay import Context

Array = NDArray[np.float64]
# Chance of a failure, by a hypothesis, where its context failed and where it worked: repeats seldom differ.
FAILS_AGAIN, FAILS_ANEW = 0.95, 0.01
# Known contexts asked at most, the most alike.
MOST_KIN = 100
# A try that some hypothesis calls impossible may still be an accident.
FLOOR = 1e-3


class Kin:
    """What failed and what worked in each known context that saw a failure or could have."""

    def __init__(self, known: Sequence[Context]) -> None:
        self.known = known if any(_failed(one) for one in known) else ()
        self.likeness = Likeness(known) if self.known else None

    def of(self, context: Context, chances: Sequence[float]) -> Failing | None:
        """The hypotheses for one context, own group left out; ``None`` where no context could speak."""
        if self.likeness is None:
            return None
        apart = self.likeness.apart(context)
        place = {one.key: at for at, one in enumerate(context.trials)}
        learned = 1 - np.array(chances)
        rows, weights = [learned], [1.0]
        for at in np.argsort(apart, kind="stable"):
            other = self.known[int(at)]
            if other.group != context.group and len(rows) <= MOST_KIN:
                told = [(place[one.key], one.log_value is None) for one in other.trials if one.key in place]
                if told:
                    rows.append(_as_there(learned, told))
                    weights.append(math.exp(-float(apart[at]) / REACH))
        return Failing(np.stack(rows), np.array(weights)) if len(rows) > 1 else None


class Failing:
    """Hypotheses about one context: chances to fail (hypotheses × choices), and what each counts at first.

    The first is what was learned; it counts as much as all others together.
    """

    def __init__(self, fails: Array, weights: Array) -> None:
        weights[1:] /= weights[1:].sum()
        self.fails, self.start = fails, np.log(np.maximum(weights, 1e-12))

    def works(self, seen: Sequence[Seen]) -> Array:
        """The chance of each choice to work, after what was seen."""
        at = [one.at for one in seen]
        failed = np.array([one.log_value is None for one in seen], dtype=bool)
        told = np.where(failed, self.fails[:, at], 1 - self.fails[:, at])
        log = self.start + np.log(np.maximum(told, FLOOR)).sum(axis=1)
        weights = np.exp(log - log.max())
        return np.asarray(1 - weights @ self.fails / weights.sum())


def _failed(context: Context) -> bool:
    return any(one.log_value is None for one in context.trials)


def _as_there(learned: Array, told: Sequence[tuple[int, bool]]) -> Array:
    """What was learned, but for the choices that were tried there."""
    fails = learned.copy()
    for at, failed in told:
        fails[at] = FAILS_AGAIN if failed else FAILS_ANEW
    return fails
