"""What each choice did in other contexts, weighed by how alike they are: the transfer between siblings.

Owns the memory of relative outcomes and failures per choice and group. Plain Python; learns nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recommend.features import HARDWARE_FEATURES, MODEL_FEATURES
from recommend.replay import Context, Key

TRAITS = frozenset(HARDWARE_FEATURES) | frozenset(MODEL_FEATURES)
UNKNOWN_CLOSENESS = 0.3
# Log units by which two groups may differ before what one did says little about the other.
SCALE = 0.5
PRIOR_WEIGHT = 0.5


@dataclass(slots=True)
class Sum:
    """Outcomes of one choice in one group: values relative to their contexts' means, and failures."""

    total: float = 0.0
    worked: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Recalled:
    """What is remembered of a choice: mean relative log value, weight behind it, share of failures."""

    value: float
    weight: float
    failed: float


class Memory:
    """Relative outcomes of choices by group, recalled for another group by closeness."""

    def __init__(self, contexts: Sequence[Context]) -> None:
        self.sums: dict[Key, dict[Key, Sum]] = {}
        self.traits: dict[Key, Mapping[str, float]] = {}
        for context in contexts:
            self.traits.setdefault(context.group, traits_of(context))
            self._add(context)
        self.closeness: dict[tuple[Key, Key], float] = {}

    def _add(self, context: Context) -> None:
        middle = mean_of(context)
        for trial in context.trials:
            row = self.sums.setdefault(trial.key, {}).setdefault(context.group, Sum())
            if trial.log_value is None:
                row.failed += 1
            else:
                row.total += trial.log_value - middle
                row.worked += 1

    def recall(self, key: Key, context: Context) -> Recalled:
        """What the other groups say of a choice in this context."""
        total = weight = failed = seen = 0.0
        for group, row in self.sums.get(key, {}).items():
            if group == context.group:
                continue
            close = self._close(context, group)
            # Many contexts of one group repeat each other: their number counts by its root.
            share = close * math.sqrt(row.worked + row.failed) / (row.worked + row.failed)
            total += share * row.total
            weight += share * row.worked
            failed += share * row.failed
            seen += share * (row.worked + row.failed)
        return Recalled(
            value=total / (weight + PRIOR_WEIGHT),
            weight=weight,
            failed=failed / seen if seen else math.nan,
        )

    def _close(self, context: Context, group: Key) -> float:
        pair = (context.group, group)
        if pair not in self.closeness:
            mine = self.traits.get(context.group) or traits_of(context)
            self.closeness[pair] = closeness(mine, self.traits[group])
        return self.closeness[pair]


def mean_of(context: Context) -> float:
    """The mean log value of what worked."""
    values = [one.log_value for one in context.trials if one.log_value is not None]
    return sum(values) / len(values) if values else 0.0


def traits_of(context: Context) -> Mapping[str, float]:
    """The catalog facts of a context's GPU and model (from its first trial's features)."""
    return {name: value for name, value in context.trials[0].features.items() if name in TRAITS}


def closeness(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """1 for equal traits, less by their mean difference; a fixed little where nothing is known."""
    shared = one.keys() & other.keys()
    if not shared:
        return UNKNOWN_CLOSENESS
    apart = sum(abs(one[name] - other[name]) for name in shared) / len(shared)
    return math.exp(-apart / SCALE)
