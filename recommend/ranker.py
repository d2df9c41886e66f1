"""What a choice is worth in a context never seen, learned from other groups of contexts.

Owns the blend: several simple forecasters, and how much each counts, found by leaving groups of the known
contexts out. Nothing here knows a table's columns. Learning is left to ``recommend.fit``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from recommend import fit
from recommend.belief import Forecast
from recommend.fit import Array
from recommend.frame import Frame, Rows, mean_by, told_apart
from recommend.kin import Kin
from recommend.policy import Prior
from recommend.recall import closeness, traits_of
from recommend.replay import WITHIN, Context
from recommend.samples import IMPLAUSIBLE
from recommend.surety import Surety

FOLDS = 3
# Samples that an inner fold, and the final fit, learn from at most.
INNER_ROWS, FINAL_ROWS = 2500, 20000
# How far shares of the mixture are drawn to even ones; standard errors by which another has to be better.
SHRINK, SURE = 0.3, 3.0
# Deviation of scores inside contexts above which they tell choices apart.
TELLS_APART = 1e-6
FARTHEST = 3.0
# A gap counts at most this much, and a little more where it is beyond the 5 % that count as found.
WORST = math.log(2)
MISS = 0.05
LEVEL = 0.9
# A choice never seen anywhere is a gamble: log units that it loses, by physics (and the number of rows that
# this guess counts for), and where nothing but its name speaks for it.
GAMBLE, GAMBLE_ROWS = -0.1, 10.0
UNKNOWN_NAME, MOSTLY_NEW = -1.0, 4.0

T = TypeVar("T")
Fitted = Callable[[Rows], Array]
Maker = Callable[[Rows, Array], Fitted]


def _memory(known: Rows, weights: Array) -> Fitted:  # noqa: ARG001 - the forecasters share one shape
    return lambda rows: rows.recalled[:, 0]


def _alike(known: Rows, weights: Array) -> Fitted:  # noqa: ARG001
    return lambda rows: rows.recalled[:, 4]


def _wins(known: Rows, weights: Array) -> Fitted:  # noqa: ARG001
    return lambda rows: rows.recalled[:, 3]


def _boosted(known: Rows, weights: Array) -> Fitted:
    model = fit.Trees(200 if len(known.adds) > INNER_ROWS else 60).fit(known.full, known.adds, weights)
    return lambda rows: model.predict(rows.full)


def _forest_of_gains(known: Rows, weights: Array) -> Fitted:
    model = fit.Forest(30).fit(np.nan_to_num(known.full), known.adds, weights)
    return lambda rows: model.predict(np.nan_to_num(rows.full))


def _forest_of_values(known: Rows, weights: Array) -> Fitted:
    model = fit.Forest(30, least=2, share=0.7).fit(np.nan_to_num(known.plain), known.value, weights)
    return lambda rows: model.predict(np.nan_to_num(rows.plain))


MEMORIES: Mapping[str, Maker] = {"memory": _memory, "alike contexts": _alike, "most frequent best": _wins}
LEARNERS: Mapping[str, Maker] = {
    "boosted trees": _boosted,
    "forest of gains": _forest_of_gains,
    "forest of values": _forest_of_values,
}


# What the mixture is drawn to: learners and plain memories alike, physics for two.
EVEN = {
    **dict.fromkeys(LEARNERS, 1.0),
    "physics": 2.0,
    "memory": 1.0,
    "most frequent best": 1.0,
    "alike contexts": 0.0,
}


class Ranker:
    """Forecasters and their weights, fitted on known contexts; asked for priors of another context's choices.

    ``near`` is a context to be asked about: what resembles its GPU and model counts more.
    """

    def __init__(self, contexts: Sequence[Context], near: Context | None = None) -> None:
        contexts = set_apart(contexts)
        self.frame = Frame(contexts)
        self.kin = Kin(contexts)
        rows = self.frame.rows
        self.weights = self._closeness(near)[rows.group]
        self.works = _chance(rows)
        good = rows.where(rows.worked)
        weights = self.weights[rows.worked]
        self.makers = {**MEMORIES, **LEARNERS, **self._physics(good)}
        guesses, values = self._left_out(good)
        self.blend = choose_blend(guesses, good)
        mixed = _mixed(self.blend, guesses)
        self.lead = lead_over_chance(mixed, good)
        self.slope, self.deviation, self.gamble = self._scale(mixed, good)
        self.surety = Surety(contexts, self.slope * mixed, good, self.deviation)
        self.absolute, self.half = _best_absolute(values, good)
        final = fit.drawn(len(good.value), fit.affordable(FINAL_ROWS, good.full.shape[1]))
        wanted = {*self.blend, self.absolute}
        self.fitted = {
            name: make(good.where(final), weights[final])
            for name, make in self.makers.items()
            if name in wanted
        }

    def _scale(self, mixed: Array, good: Rows) -> tuple[float, float, float]:
        """(slope of the scores in log units, deviation of what is left, cost of a choice never seen).

        An order that did no better than chance on the groups left out is not followed: all choices are then
        alike, as far apart as they were there, and the search spreads out.
        """
        if self.lead >= 0:
            return 0.0, _calibrated(np.zeros_like(mixed), good)[1], 0.0
        slope, deviation = _calibrated(mixed, good)
        return slope, deviation, _gamble(slope * mixed, good, physical="physics" in self.blend)

    def _closeness(self, near: Context | None) -> Array:
        memory = self.frame.memory
        if near is None:
            return np.ones(len(memory.groups))
        mine = traits_of(near)
        return np.array([closeness(mine, memory.traits[group]) for group in memory.groups])

    def _physics(self, good: Rows) -> Mapping[str, Maker]:
        """Corrected physics, where a table tells enough for it."""
        if not told_apart(good):
            return {}
        plain = [at for name, at in self.frame.column.items() if fit.PLAIN.fullmatch(name)]

        def make(known: Rows, weights: Array) -> Fitted:  # noqa: ARG001
            plausible = known.value - known.physics <= IMPLAUSIBLE
            learned = known.where(plausible) if plausible.sum() > 50 else known
            model = fit.Mixed().fit(np.nan_to_num(learned.plain[:, plain]), learned.value - learned.physics)
            return lambda rows: model.predict(np.nan_to_num(rows.plain[:, plain])) + rows.physics

        return {"physics": make}

    def _left_out(self, good: Rows) -> tuple[dict[str, Array], dict[str, Array]]:
        """Each forecaster's guess of every row, its group unseen; of those that guess a level, twice."""
        guesses = {name: make(good, np.ones(1))(good) for name, make in MEMORIES.items()}
        learners = {name: make for name, make in self.makers.items() if name not in MEMORIES}
        for name in learners:
            guesses[name] = np.zeros(len(good.value))
        for test in folds(good.group):
            known = np.flatnonzero(~test)
            known = known[fit.drawn(len(known), INNER_ROWS)]
            for name, make in learners.items():
                guesses[name][test] = make(good.where(known), np.ones(len(known)))(good.where(test))
        return guesses, {name: guesses[name] for name in ("physics", "forest of values") if name in guesses}

    def _scores(self, rows: Rows) -> Array:
        guesses = {name: make(rows) for name, make in self.fitted.items()}
        score = self.slope * _mixed(self.blend, guesses)
        return np.asarray(score + np.where(_unseen(rows), self.gamble, 0.0))

    def priors(self, contexts: Sequence[Context]) -> list[list[Prior]]:
        """Per context and trial: expected log value (up to a constant of the context), deviation, chance."""
        rows = self.frame.of(contexts)
        told = zip(self._scores(rows), self.works(rows), strict=True)
        flat = [Prior(mean=float(mean), deviation=self.deviation, works=float(one)) for mean, one in told]
        return _split(flat, contexts)

    def forecasts(self, contexts: Sequence[Context]) -> list[list[Forecast]]:
        """Per context and trial: the log outcome with its 90 % interval."""
        values = self.fitted[self.absolute](self.frame.of(contexts))
        return _split([Forecast(float(value), self.half) for value in values], contexts)


def _split(flat: Sequence[T], contexts: Sequence[Context]) -> list[list[T]]:
    """One list per context, of the length of its trials."""
    each = iter(flat)
    return [list(islice(each, len(one.trials))) for one in contexts]


def _chance(known: Rows) -> Fitted:
    """The chance that a choice works: learned where there is enough, else its share of failures elsewhere."""
    if len(known.worked) >= fit.FEW:
        model = fit.chance_model(known.full, known.worked)
        return lambda rows: model(rows.full)
    usual = float(known.worked.mean())

    def chance(rows: Rows) -> Array:
        failed = np.where(np.isnan(rows.recalled[:, 2]), 1 - usual, rows.recalled[:, 2])
        return np.asarray(0.8 * (1 - failed) + 0.2 * usual)

    return chance


def set_apart(contexts: Sequence[Context]) -> Sequence[Context]:
    """The contexts; each a group of its own where only one group is known, or nothing could be left out."""
    if len({one.group for one in contexts}) > 1:
        return contexts
    return [replace(one, group=one.key) for one in contexts]


def folds(group: NDArray[np.int64]) -> list[NDArray[np.bool_]]:
    """Masks of the rows left out together: whole groups, in at most three folds of alike size."""
    labels, sizes = np.unique(group, return_counts=True)
    filled = np.zeros(min(FOLDS, len(labels)))
    fold_of = np.zeros(int(labels.max()) + 1, dtype=np.int64)
    for at in np.argsort(-sizes, kind="stable"):
        fold_of[labels[at]] = int(np.argmin(filled))
        filled[fold_of[labels[at]]] += sizes[at]
    return [np.asarray(fold_of[group] == at) for at in range(len(filled))] if len(labels) > 1 else []


def choose_blend(guesses: Mapping[str, Array], rows: Rows) -> dict[str, float]:
    """How much each forecaster counts: physics where it is known, else a mixture drawn to even shares.

    Another takes its place only where it loses less by more than three errors of that difference.
    """
    candidates = {"mixture": mixture(guesses, rows)}
    if "physics" in guesses:
        candidates = {"physics": {"physics": 1.0}, **candidates}
    candidates |= {name: {name: 1.0} for name in guesses}
    losses = {name: group_losses(_mixed(one, guesses), rows) for name, one in candidates.items()}
    first = next(iter(candidates))
    best = min(losses, key=lambda name: float(losses[name] @ weights_of(rows)))
    lead = losses[first] - losses[best]
    weights = weights_of(rows)
    mean = float(lead @ weights)
    error = math.sqrt(float(weights**2 @ (lead - mean) ** 2))
    return candidates[best if mean > SURE * error else first]


def mixture(guesses: Mapping[str, Array], rows: Rows) -> dict[str, float]:
    """Shares that explain best how the choices of a context differ, drawn to even ones.

    A forecaster that told no choices apart has no say: nothing is known of the unit of its scores.
    """
    names = list(guesses)
    columns = np.stack([_scaled(guesses[name], rows) for name in names], axis=1)
    target = np.clip(_scaled(rows.value, rows), -FARTHEST, FARTHEST)
    sizes = np.bincount(rows.group)[rows.group]
    even = np.array([EVEN[name] for name in names])
    shares = fit.shares(columns, target, np.asarray(sizes**-0.5), even / even.sum(), SHRINK)
    units = {name: _unit(guesses[name], rows) for name in names}
    return {
        name: share / units[name]
        for name, share in zip(names, shares, strict=True)
        if share and units[name] > TELLS_APART
    }


def group_losses(scores: Array, rows: Rows) -> Array:
    """Mean loss of the first choice per group: the gap to the best, and a little for more than 5 %."""
    order = np.lexsort((-scores, rows.context))
    ranked = rows.context[order]
    start = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
    best = np.maximum.reduceat(rows.value[order], start)
    gap = np.minimum(best - rows.value[order][start], WORST)
    told = np.diff(np.r_[start, len(ranked)]) > 1
    group = np.unique(rows.group, return_inverse=True)[1][order][start][told]
    loss = (gap + MISS * (gap > MISS))[told]
    counts = np.bincount(group, minlength=len(np.unique(rows.group)))
    return np.asarray(np.bincount(group, loss, len(counts)) / np.maximum(counts, 1))


def lead_over_chance(scores: Array, rows: Rows) -> float:
    """Mean log of the tries that an order needs to within 5 % over those of chance: negative is better.

    Contexts count within their group, groups alike; -1 where no context offers a choice.
    """
    order = np.lexsort((-scores, rows.context))
    start = np.flatnonzero(np.r_[True, np.diff(rows.context[order]) != 0])
    found: dict[int, list[float]] = {}
    for here in np.split(order, start[1:]):
        values = rows.value[here]
        good = np.flatnonzero(values >= values.max() - math.log(1 + WITHIN))
        by_chance = (len(here) + 1) / (len(good) + 1)
        if len(good) < len(here):
            found.setdefault(int(rows.group[here[0]]), []).append(math.log((good[0] + 1) / by_chance))
    return float(np.mean([np.mean(one) for one in found.values()])) if found else -1.0


def weights_of(rows: Rows) -> Array:
    """What each group counts: the root of its contexts that offer a choice."""
    _, first, sizes = np.unique(rows.context, return_index=True, return_counts=True)
    place = np.unique(rows.group, return_inverse=True)[1][first]
    counts = np.bincount(place, sizes > 1, len(np.unique(rows.group)))
    return np.asarray(np.sqrt(counts) / max(float(np.sqrt(counts).sum()), 1e-9))


def _centred(values: Array, rows: Rows) -> Array:
    return values - mean_by(values, rows.context)


def _unit(values: Array, rows: Rows) -> float:
    return max(float(np.std(_centred(values, rows))), 1e-9)


def _scaled(values: Array, rows: Rows) -> Array:
    """Centred in each context and of one spread, so that forecasters of any unit can be added."""
    return _centred(values, rows) / _unit(values, rows)


def _mixed(blend: Mapping[str, float], guesses: Mapping[str, Array]) -> Array:
    """The forecasters of a blend, added; nothing told apart where it is empty."""
    nothing = np.zeros_like(next(iter(guesses.values())))
    return np.asarray(sum((weight * guesses[name] for name, weight in blend.items()), nothing))


def _calibrated(mixed: Array, rows: Rows) -> tuple[float, float]:
    """(slope that turns scores into log units, deviation of what is left) inside the contexts."""
    score, truth = _centred(mixed, rows), _centred(rows.value, rows)
    slope = float(score @ truth) / max(float(score @ score), 1e-12)
    slope = max(slope, 1e-3)
    counts = np.bincount(rows.context)[rows.context]
    inside = counts > 1
    left = (truth - slope * score)[inside] * np.sqrt(counts[inside] / (counts[inside] - 1))
    return slope, max(float(np.sqrt(np.mean(left**2))), 0.02) if len(left) else 0.3


def _unseen(rows: Rows) -> NDArray[np.bool_]:
    """Rows whose choice no other group ever tried (its remembered weight is nothing)."""
    return np.asarray(rows.recalled[:, 1] <= 0)


def _gamble(scores: Array, rows: Rows, *, physical: bool) -> float:
    """What a choice that no other group tried costs, in log units.

    Physics knows why a choice is fast: then it is what such choices lost on the groups left out. Names do
    not: where most choices are known, a new one comes last; where many are new, being new says little.
    """
    unseen = _unseen(rows)
    if not physical:
        return UNKNOWN_NAME * max(1 - MOSTLY_NEW * float(unseen.mean()), 0.0)
    share = mean_by(unseen.astype(float), rows.context)
    left = _centred(rows.value, rows) - _centred(scores, rows)
    # Centring spreads a loss over the context: what is left of it shows the part that is not shared.
    told = unseen & (share < 1)
    total = float(np.sum(left[told] / (1 - share[told])))
    return (total + GAMBLE * GAMBLE_ROWS) / (int(told.sum()) + GAMBLE_ROWS)


def _best_absolute(values: Mapping[str, Array], rows: Rows) -> tuple[str, float]:
    """The forecaster of whole values that errs least on groups left out, and its conformal half-width."""
    errors = {name: np.abs(rows.value - guess) for name, guess in values.items()}
    medians = {name: float(np.median(error)) for name, error in errors.items()}
    name = min(medians, key=lambda one: medians[one])
    groups = [np.asarray(errors[name][rows.group == label]) for label in np.unique(rows.group)]
    return name, fit.conformal(groups, LEVEL)
