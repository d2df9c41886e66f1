"""What people would use instead of a recommender: chance, the most frequent best, the nearest sibling.

Owns the baselines of ``replay``: scores for a context from the contexts that may be known. No learning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from recommend.likeness import Likeness
from recommend.replay import Context, Key

Scores = Callable[[Context], list[float]]


def most_frequent_best(known: Sequence[Context]) -> Scores:
    """How often a choice was the best where it was on offer; never seen counts least."""
    won: dict[Key, int] = {}
    offered: dict[Key, int] = {}
    for context in known:
        for trial in context.trials:
            offered[trial.key] = offered.get(trial.key, 0) + 1
            if trial.log_value is not None and trial.log_value >= context.best:
                won[trial.key] = won.get(trial.key, 0) + 1

    def scores(context: Context) -> list[float]:
        return [
            won.get(one.key, 0) / offered[one.key] if one.key in offered else -1.0 for one in context.trials
        ]

    return scores


def nearest_sibling(known: Sequence[Context]) -> Scores:
    """The order of the known context most like this one that shares a choice; then the most frequent best."""
    frequent = most_frequent_best(known)
    likeness = Likeness(known)
    by_key: dict[Key, list[int]] = {}
    for at, context in enumerate(known):
        for trial in context.trials:
            by_key.setdefault(trial.key, []).append(at)

    def scores(context: Context) -> list[float]:
        near = sorted({at for trial in context.trials for at in by_key.get(trial.key, ())})
        base = frequent(context)
        if not near:
            return base
        best = known[near[int(np.argmin(likeness.apart(context)[near]))]]
        values = {trial.key: trial.log_value for trial in best.trials if trial.log_value is not None}
        # What the sibling never tried comes after what it tried.
        return [
            values[one.key] + 1e3 if one.key in values else base[index]
            for index, one in enumerate(context.trials)
        ]

    return scores
