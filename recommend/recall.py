"""What each choice did in other contexts, weighed by how alike they are: the transfer between siblings.

Owns the memory of outcomes per choice. A value is taken as a sum of what the context gives and what the
choice adds (both solved for together), so that contexts with different choices can be compared. Needs numpy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recommend.features import HARDWARE_FEATURES, MODEL_FEATURES
from recommend.replay import Context, Key

Array = NDArray[np.float64]
TRAITS = frozenset(HARDWARE_FEATURES) | frozenset(MODEL_FEATURES)
UNKNOWN_CLOSENESS = 0.3
# Log units by which two groups may differ before what one did says little about the other.
SCALE = 0.5
ROUNDS = 12
# Memories to solve for at most where groups are all alike: each leaves its share of the groups out.
MOST_MEMORIES = 64
SHRINK = 0.5


class Recalled(NamedTuple):
    """What is remembered of a choice: what it adds in log units, weight behind it, share of failures."""

    value: float
    weight: float
    failed: float


class Memory:
    """Outcomes of choices, recalled for a group from all other groups by their closeness."""

    def __init__(self, contexts: Sequence[Context]) -> None:
        keys = sorted({trial.key for context in contexts for trial in context.trials})
        groups = sorted({context.group for context in contexts})
        self.place = {key: index for index, key in enumerate(keys)}
        self.groups = {group: index for index, group in enumerate(groups)}
        self.traits: dict[Key, Mapping[str, float]] = {}
        for context in contexts:
            self.traits.setdefault(context.group, traits_of(context))
        rows = [(c, context, trial) for c, context in enumerate(contexts) for trial in context.trials]
        self.context = np.array([c for c, _, _ in rows])
        self.key = np.array([self.place[trial.key] for _, _, trial in rows])
        self.group = np.array([self.groups[context.group] for _, context, _ in rows])
        self.failed = np.array([trial.log_value is None for _, _, trial in rows])
        self.value = np.array([trial.log_value or 0.0 for _, _, trial in rows])
        self.known: dict[Key | int, tuple[Array, Array, Array]] = {}
        self.close: dict[Key, Array] = {}
        self.alike = not any(self.traits.values())

    def recall(self, key: Key, context: Context) -> Recalled:
        """What the other groups say of a choice in this context."""
        added, weight, failed = self._for(context)
        index = self.place.get(key)
        if index is None:
            return Recalled(0.0, 0.0, math.nan)
        return Recalled(float(added[index]), float(weight[index]), float(failed[index]))

    def _for(self, context: Context) -> tuple[Array, Array, Array]:
        own = self.groups.get(context.group, -1)
        # Where nothing tells groups apart, some of many share a memory that leaves all of them out.
        share = own % MOST_MEMORIES if self.alike and own >= 0 else own
        label = share if self.alike else context.group
        if label not in self.known:
            close = self.closeness_of(context).copy()
            if own >= 0:
                close[share :: MOST_MEMORIES if self.alike else len(close)] = 0.0
            # Many contexts of one group repeat each other: their number counts by its root.
            sizes = np.bincount(self.group, minlength=len(close)).astype(float)
            weights = (close / np.sqrt(np.maximum(sizes, 1.0)))[self.group]
            self.known[label] = self._solved(weights)
        return self.known[label]

    def closeness_of(self, context: Context) -> Array:
        """How alike each known group's GPU and model are to those of a context's group."""
        if context.group not in self.close:
            mine = self.traits.get(context.group) or traits_of(context)
            self.close[context.group] = np.array(
                [closeness(mine, self.traits[group]) for group in self.groups]
            )
        return self.close[context.group]

    def _solved(self, weights: Array) -> tuple[Array, Array, Array]:
        """What each choice adds, by turns with what each context gives; its weight; its share of failures."""
        good = np.where(self.failed, 0.0, weights)
        added = additive(self.context, self.key, self.value, good, len(self.place))
        total = np.asarray(np.bincount(self.key, good, len(self.place)), dtype=np.float64)
        tried = np.bincount(self.key, weights, len(self.place))
        bad = np.bincount(self.key, weights * self.failed, len(self.place))
        share = np.divide(bad, tried, out=np.full(len(tried), math.nan), where=tried > 0)
        return added, total, share


def additive(context: Array, key: Array, value: Array, weights: Array, keys: int) -> Array:
    """What each key adds when value = context + key, by weighted alternating means."""
    count = int(context.max()) + 1
    per_context = np.maximum(np.bincount(context, weights, count), 1e-12)
    per_key = np.bincount(key, weights, keys)
    added = np.zeros(keys)
    for _ in range(ROUNDS):
        given = np.bincount(context, weights * (value - added[key]), count) / per_context
        added = np.bincount(key, weights * (value - given[context]), keys) / (per_key + SHRINK * 1e-3)
    return np.asarray(added)


def levels(contexts: Sequence[Context]) -> dict[Key, float]:
    """What each context gives (log units), all groups alike: the level that its choices add to."""
    memory = Memory(contexts)
    weights = np.where(memory.failed, 0.0, 1.0)
    added = additive(memory.context, memory.key, memory.value, weights, len(memory.place))
    per_context = np.maximum(np.bincount(memory.context, weights, len(contexts)), 1e-12)
    given = (
        np.bincount(memory.context, weights * (memory.value - added[memory.key]), len(contexts)) / per_context
    )
    return {context.key: float(level) for context, level in zip(contexts, given, strict=True)}


def traits_of(context: Context) -> Mapping[str, float]:
    """The catalog facts of a context's GPU and model (from its first trial's features)."""
    told = context.trials[0].features if context.trials else {}
    return {name: value for name, value in told.items() if name in TRAITS}


def closeness(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """1 for equal traits, less by their mean difference; a fixed little where nothing is known."""
    shared = one.keys() & other.keys()
    if not shared:
        return UNKNOWN_CLOSENESS
    apart = sum(abs(one[name] - other[name]) for name in shared) / len(shared)
    return math.exp(-apart / SCALE)
