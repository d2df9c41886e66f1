"""Contexts as arrays: one row per trial, with what other groups remember of its choice.

Owns the matrices that the ranker learns from, and what may speak for which row. Needs numpy; learns nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from recommend.likeness import Likeness
from recommend.recall import Memory, levels
from recommend.replay import Context, Key
from recommend.table import feature_names

Array = NDArray[np.float64]
PHYSICS = "log_physics_tok_s"
# Log units, words and deviations by which contexts differ before one says little of the other (their sum).
REACH = 1.5
# Choices × contexts above which contexts are not compared one by one.
MOST_CELLS = 2e7
# Log units of physics by which choices of one context must differ to count as told apart.
APART = 1e-6


@dataclass(frozen=True)
class Rows:
    """Some trials as arrays, all of one length: features, what is remembered, outcomes, membership.

    ``recalled`` holds what is known of the choice from other groups: value, weight, share of failures, share
    of wins, value in alike contexts; ``value`` is the log outcome (0 where it failed, see ``worked``),
    ``adds`` the same over its context's level.
    """

    plain: Array
    recalled: Array
    physics: Array
    value: Array
    adds: Array
    worked: NDArray[np.bool_]
    context: NDArray[np.int64]
    group: NDArray[np.int64]

    def where(self, mask: NDArray[np.bool_] | NDArray[np.int64]) -> Rows:
        """The rows that a mask (or an array of places) picks."""
        return Rows(*(getattr(self, name)[mask] for name in self.__dataclass_fields__))

    @cached_property
    def full(self) -> Array:
        """What is remembered and the features, side by side."""
        return np.hstack([self.recalled, self.plain])


class Frame:
    """The known contexts as rows, and how a further context becomes rows of the same columns."""

    def __init__(self, contexts: Sequence[Context]) -> None:
        self.memory = Memory(contexts)
        self.wins = Wins(contexts, self.memory)
        level = levels(contexts)
        self.alike = Alike(contexts, self.memory, level)
        names = feature_names(trial for one in contexts for trial in one.trials)
        self.column = {name: at for at, name in enumerate(names)}
        self.blank = np.array([math.nan if name.endswith("#") else 0.0 for name in names])
        self.rows = self._joined(contexts, level)

    def of(self, contexts: Sequence[Context]) -> Rows:
        """The rows of contexts, known or not; what their own group did is not remembered."""
        return self._joined(contexts, {})

    def _joined(self, contexts: Sequence[Context], level: Mapping[Key, float]) -> Rows:
        parts = [self._of(one, at, level.get(one.key, 0.0)) for at, one in enumerate(contexts)]
        return Rows(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in Rows.__dataclass_fields__)
        )

    def _of(self, context: Context, at: int, level: float) -> Rows:
        trials = context.trials
        plain = np.tile(self.blank, (len(trials), 1))
        for row, trial in enumerate(trials):
            for name, value in trial.features.items():
                column = self.column.get(name)
                if column is not None:
                    plain[row, column] = value
        recalled = np.array([(*self.memory.recall(one.key, context), 0.0, 0.0) for one in trials])
        recalled[:, 3] = self.wins.shares(context)
        recalled[:, 4] = self.alike.values(context, recalled[:, 0])
        values = np.array([one.log_value or 0.0 for one in trials])
        group = self.memory.groups.get(context.group, -1)
        return Rows(
            plain=plain,
            recalled=recalled,
            physics=np.array([one.features.get(PHYSICS, math.nan) for one in trials]),
            value=values,
            adds=values - level,
            worked=np.array([one.log_value is not None for one in trials]),
            context=np.full(len(trials), at),
            group=np.full(len(trials), group),
        )


class Wins:
    """How often each choice was best where it was on offer, own group left out; drawn to even odds."""

    def __init__(self, contexts: Sequence[Context], memory: Memory) -> None:
        self.place = memory.place
        self.won, self.offered = np.zeros(len(memory.place)), np.zeros(len(memory.place))
        self.of_group: dict[tuple[int, Key], tuple[int, int]] = {}
        for context in contexts:
            best = max((one.log_value for one in context.trials if one.log_value is not None), default=None)
            for trial in context.trials:
                at, first = memory.place[trial.key], int(best is not None and trial.log_value == best)
                self.won[at] += first
                self.offered[at] += 1
                won, offered = self.of_group.get((at, context.group), (0, 0))
                self.of_group[at, context.group] = won + first, offered + 1

    def shares(self, context: Context) -> Array:
        """Per trial; a choice that was never on offer has not won."""
        at = [self.place.get(one.key, -1) for one in context.trials]
        own = np.array([self.of_group.get((one, context.group), (0, 0)) for one in at])
        won, offered = self.won[at] - own[:, 0], self.offered[at] - own[:, 1]
        known = np.array([place >= 0 for place in at])
        return np.asarray(np.where(known, won / (offered + 1.0), -0.1))


class Alike:
    """What each choice added in the contexts most alike, own group left out."""

    def __init__(self, contexts: Sequence[Context], memory: Memory, level: Mapping[Key, float]) -> None:
        self.memory = memory
        self.usable = len(memory.place) * len(contexts) <= MOST_CELLS
        if not self.usable:
            return
        self.likeness = Likeness(contexts)
        self.group = np.array([memory.groups[one.group] for one in contexts])
        self.adds = np.zeros((len(contexts), len(memory.place)))
        self.told = np.zeros_like(self.adds)
        for at, one in enumerate(contexts):
            for trial in one.trials:
                if trial.log_value is not None:
                    self.adds[at, memory.place[trial.key]] = trial.log_value - level[one.key]
                    self.told[at, memory.place[trial.key]] = 1.0

    def values(self, context: Context, base: Array) -> Array:
        """Per trial; drawn to ``base`` where little alike is known."""
        if not self.usable:
            return base
        at = np.array([self.memory.place.get(one.key, -1) for one in context.trials])
        weight = np.exp(-self.likeness.apart(context) / REACH)
        weight[self.group == self.memory.groups.get(context.group, -1)] = 0.0
        total = weight @ self.told[:, at]
        summed = weight @ self.adds[:, at]
        return np.asarray(np.where(at >= 0, (summed + 0.1 * base) / (total + 0.1), base))


def told_apart(rows: Rows) -> bool:
    """Whether physics is known of every row and says different things of the choices of a context."""
    if not len(rows.physics) or np.isnan(rows.physics).any():
        return False
    return bool(np.abs(rows.physics - mean_by(rows.physics, rows.context)).max() > APART)


def mean_by(values: Array, of: NDArray[np.int64]) -> Array:
    """Each row's mean over the rows of the same place."""
    _, place = np.unique(of, return_inverse=True)
    counts = np.bincount(place)
    return np.asarray((np.bincount(place, values) / counts)[place])
