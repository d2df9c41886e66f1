"""What the recommender thought before the first try against what came: intervals, doubt, known failures.

Owns the figures of honesty in ``kbctl replay``. Learns nothing, chooses nothing.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from recommend.policy import Prior, worth
from recommend.replay import (
    WITHIN,
    Context,
    Figure,
    Key,
    Played,
    mean_by_group,
    regret_after,
    wilcoxon,
)

SHARES = (1.0, 0.75, 0.5, 0.25)


class Forecast(NamedTuple):
    """Log outcome of a choice, and the half-width (log units) that should hold nine of ten."""

    log_value: float
    half: float


class Belief(NamedTuple):
    """Priors and forecasts of a context's choices, and what is known to fail elsewhere and work nowhere.

    ``sure`` is the learned chance that the first choice works and is within 5 %, where one was learned.
    """

    context: Context
    priors: Sequence[Prior]
    forecasts: Sequence[Forecast]
    known_bad: frozenset[Key] = frozenset()
    sure: float | None = None


def intervals(beliefs: Sequence[Belief]) -> dict[str, Any]:
    """Coverage of the 90 % intervals over outcomes that came (bootstrap over groups), and their width."""
    held: list[tuple[Key, float]] = []
    halves = []
    for one in beliefs:
        for forecast, trial in zip(one.forecasts, one.context.trials, strict=True):
            if trial.log_value is not None:
                inside = float(abs(trial.log_value - forecast.log_value) <= forecast.half)
                held.append((one.context.group, inside))
                halves.append(forecast.half)
    if not held:
        return {}
    groups: dict[str, list[float]] = {}
    for group, one_inside in held:
        groups.setdefault("|".join(group), []).append(one_inside)
    return {
        "level": 0.9,
        "points": len(held),
        "coverage": figure_json(mean_by_group(held)),
        "median_factor": round(math.exp(statistics.median(halves)), 3),
        "per_group": {name: round(statistics.fmean(found), 4) for name, found in sorted(groups.items())[:60]},
    }


def abstention(beliefs: Sequence[Belief], played: Mapping[Key, Played]) -> list[dict[str, float]]:
    """What the first try came to when only the surest share of the contexts is answered."""
    asked = [one for one in beliefs if one.context.key in played]
    asked.sort(key=lambda one: (-confidence(one), one.context.key))
    rows = []
    for share in SHARES:
        chosen = asked[: max(round(share * len(asked)), 1)]
        plays = [played[one.context.key] for one in chosen]
        regrets = [regret_after(1)(one) for one in plays]
        rows.append(
            {
                "answered": share,
                "said_within_5_pct": round(statistics.fmean(confidence(one) for one in chosen), 4),
                "regret_after_1": round(statistics.fmean(regrets), 4),
                "hit_at_1": round(statistics.fmean(float(one <= WITHIN) for one in regrets), 4),
                "failed": round(statistics.fmean(float(one.regret[0] is None) for one in plays), 4),
            }
        )
    return rows


def confidence(belief: Belief) -> float:
    """The chance that the first choice works and is within 5 %, as learned; else as were errors apart."""
    if belief.sure is not None:
        return belief.sure
    priors = belief.priors
    first = max(range(len(priors)), key=lambda at: (worth(priors[at]), -at))
    mine = priors[first]
    chance = mine.works
    for at, other in enumerate(priors):
        if at != first:
            lead = mine.mean + math.log(1 + WITHIN) - other.mean
            spread = math.sqrt(2) * mine.deviation
            beats = (1 - math.erf(lead / spread / math.sqrt(2))) / 2
            chance *= 1 - other.works * beats
    return chance


def known_bad_share(plays: Sequence[Played], bad: Mapping[Key, frozenset[Key]]) -> float:
    """Share of the tries until within 5 % that went to choices known to fail."""
    tried = [
        one.context.trials[at].key in bad.get(one.context.key, frozenset())
        for one in plays
        for at in one.order[: one.tries]
    ]
    return round(sum(tried) / max(len(tried), 1), 4)


def against(mine: Mapping[Key, Played], theirs: Sequence[Played]) -> dict[str, Any]:
    """Paired difference (recommender − other) of regret after one try and of tries, with p of Wilcoxon."""
    told: dict[str, Any] = {}
    by_context: dict[Key, list[Played]] = {}
    for one in theirs:
        by_context.setdefault(one.context.key, []).append(one)
    for name, measure in (("regret_after_1", regret_after(1)), ("tries", lambda one: float(one.tries))):
        ours = [measure(one) for one in mine.values()]
        other = [statistics.fmean(measure(one) for one in by_context[key]) for key in mine]
        pairs = zip(mine.values(), ours, other, strict=True)
        difference = mean_by_group([(one.context.group, a - b) for one, a, b in pairs])
        told[name] = {**figure_json(difference), "wilcoxon_p": wilcoxon(ours, other)}
    return told


def figure_json(figure: Figure) -> dict[str, float]:
    """A figure as JSON."""
    return {"mean": round(figure.mean, 4), "low": round(figure.low, 4), "high": round(figure.high, 4)}
