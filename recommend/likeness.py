"""How alike contexts are: by what the catalogs know of their GPU and model, by their numbers and their words.

Owns the distance that baselines and memory share. Needs numpy; learns nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from recommend.policy import Value
from recommend.recall import closeness, traits_of
from recommend.replay import Context, Key
from recommend.table import GPU, MODEL

Array = NDArray[np.float64]
# Far from every number, so that what is not said is unlike what is.
NO_NUMBER = -99.0
FARTHEST = 3.0


class Likeness:
    """Distances from known contexts: 0 is alike; each differing word adds one, a number by its deviations."""

    def __init__(self, contexts: Sequence[Context]) -> None:
        told = [_facts(one) for one in contexts]
        names = sorted({name for one in told for name in one})
        self.words = [name for name in names if any(isinstance(one.get(name), str) for one in told)]
        self.sizes = [name for name in names if name not in set(self.words)]
        self.code: dict[tuple[str, Value | None], int] = {}
        self.word_at = np.array([self._codes(one) for one in told]).reshape(len(told), -1)
        self.size_at = np.array([self._sizes(one) for one in told]).reshape(len(told), -1)
        self.scale = np.array([_spread(column) for column in self.size_at.T])
        self.groups: dict[Key, int] = {}
        self.group_at = np.array([self.groups.setdefault(one.group, len(self.groups)) for one in contexts])
        self.traits = {one.group: traits_of(one) for one in reversed(contexts)}
        self.far: dict[Key, Array] = {}

    def apart(self, context: Context) -> Array:
        """How far each known context is from this one."""
        facts = _facts(context)
        words = (self.word_at != np.array(self._codes(facts))).sum(axis=1)
        mine = np.array(self._sizes(facts))
        sizes = np.minimum(np.abs(self.size_at - mine) / self.scale, FARTHEST).sum(axis=1)
        return np.asarray(words + sizes + self._traits_apart(context)[self.group_at], dtype=np.float64)

    def _traits_apart(self, context: Context) -> Array:
        if context.group not in self.far:
            mine = self.traits.get(context.group) or traits_of(context)
            self.far[context.group] = np.array(
                [-math.log(closeness(mine, self.traits[group])) for group in self.groups]
            )
        return self.far[context.group]

    def _codes(self, facts: Mapping[str, Value]) -> list[int]:
        return [self.code.setdefault((name, facts.get(name)), len(self.code)) for name in self.words]

    def _sizes(self, facts: Mapping[str, Value]) -> list[float]:
        values = [facts.get(name) for name in self.sizes]
        return [
            math.copysign(math.log2(1 + abs(one)), one) if isinstance(one, float) else NO_NUMBER
            for one in values
        ]


def _facts(context: Context) -> Mapping[str, Value]:
    """What a context says of itself; a GPU or model that the catalogs know counts by its traits instead."""
    named = (*GPU, *MODEL) if traits_of(context) else ()
    return {name: one for name, one in context.facts.items() if name not in named}


def _spread(column: Array) -> float:
    known = column[column != NO_NUMBER]
    return max(float(np.std(known)), 1e-9) if len(known) else 1.0
