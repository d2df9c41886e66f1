"""Train the regression that corrects the physics, and compare the forms it could take.

Owns everything that needs scikit-learn; the result is plain JSON that ``score`` reads. Several forms are held
against each other by leaving whole (GPU, model shape) groups out; intervals are conformal, per novelty.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

# The tables are small: threads that wait for each other cost more than they save.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.linear_model import Ridge

from recommend.policy import Prior
from recommend.recall import Memory, closeness, levels, traits_of
from recommend.replay import Context, Trial
from recommend.samples import IMPLAUSIBLE, Sample
from recommend.score import METRICS, NOVELTY

Array = NDArray[np.float64]
Model = dict[str, Any]
LEVEL = 0.9
MIX = {"linear": 0.5, "trees": 0.5}
# Names that ``features`` gives; columns of a table carry a sign (``isl#``, ``engine=vllm``).
PLAIN = re.compile(r"[a-z0-9_-]+")
UNSEEN = 0.6
UNIT_LOG = {"output_tok_s": 0.0, "ttft_ms": math.log(1000), "tpot_ms": math.log(1000)}


class Linear:
    """Ridge on standardised features, held within three deviations (the form ``score.linear`` reads)."""

    def __init__(self, alpha: float = 300.0) -> None:
        self.alpha = alpha

    def fit(self, x: Array, y: Array) -> Linear:
        """Learn coefficients of ``x`` (samples × features) for ``y`` (log residuals)."""
        self.mean, self.scale = x.mean(axis=0), x.std(axis=0)
        self.scale[self.scale < 1e-9] = 1.0
        self.ridge = Ridge(self.alpha).fit(self._standard(x), y)
        return self

    def predict(self, x: Array) -> Array:
        """Log residuals."""
        return np.asarray(self.ridge.predict(self._standard(x)))

    def _standard(self, x: Array) -> Array:
        return np.asarray(np.clip((x - self.mean) / self.scale, -3.0, 3.0))

    def export(self) -> Model:
        """The numbers that ``score.linear`` needs."""
        return {
            "intercept": _short(self.ridge.intercept_),
            "coef": _list(self.ridge.coef_),
            "mean": _list(self.mean),
            "scale": _list(self.scale),
        }


class Trees:
    """Gradient-boosted trees (the form ``score.trees`` reads)."""

    def __init__(self, rounds: int = 90) -> None:
        self.model = HistGradientBoostingRegressor(
            max_iter=rounds, learning_rate=0.08, max_leaf_nodes=12, min_samples_leaf=20, random_state=0
        )

    def fit(self, x: Array, y: Array, weights: Array | None = None) -> Trees:
        """Learn trees of ``x`` (samples × features) for ``y`` (log residuals)."""
        self.model.set_params(min_samples_leaf=_leaf_size(len(y)))
        self.model.fit(x, y, sample_weight=weights)
        return self

    def predict(self, x: Array) -> Array:
        """Log residuals."""
        return np.asarray(self.model.predict(x))

    def export(self) -> Model:
        """Each tree as parallel arrays: feature (-1 for a leaf), threshold, left, right, value."""
        grown = [_tree(stage[0].nodes) for stage in self.model._predictors]
        return {"base": _short(float(self.model._baseline_prediction.item())), "trees": grown}


def _leaf_size(samples: int) -> int:
    """Fewest samples in a leaf: twenty, or a fiftieth of a small table."""
    return min(20, max(2, samples // 50))


def _tree(nodes: Any) -> list[list[float]]:
    leaf = nodes["is_leaf"].astype(bool)
    return [
        [
            -1 if is_leaf else int(feature)
            for feature, is_leaf in zip(nodes["feature_idx"], leaf, strict=True)
        ],
        _list(np.where(leaf, 0.0, nodes["num_threshold"]), 12),
        [int(one) for one in nodes["left"]],
        [int(one) for one in nodes["right"]],
        _list(nodes["value"]),
    ]


def _short(value: float, digits: int = 5) -> float:
    return float(f"{value:.{digits}g}")


def _list(values: Any, digits: int = 5) -> list[float]:
    return [_short(float(value), digits) for value in values]


class Mixed:
    """The weighted mean of the forms in ``MIX``: what ships."""

    def __init__(self) -> None:
        self.parts: dict[str, Linear | Trees] = {"linear": Linear(), "trees": Trees()}

    def fit(self, x: Array, y: Array) -> Mixed:
        """Fit every part on the same samples."""
        for part in self.parts.values():
            part.fit(x, y)
        return self

    def predict(self, x: Array) -> Array:
        """Weighted log residuals."""
        return np.asarray(sum(MIX[name] * part.predict(x) for name, part in self.parts.items()))

    def export(self) -> Model:
        """The parts and their weights."""
        return {"mix": dict(MIX), **{name: part.export() for name, part in self.parts.items()}}


class Nothing:
    """Physics alone, shifted by its mean error: the form to beat."""

    def fit(self, x: Array, y: Array) -> Nothing:  # noqa: ARG002 - the forms share one shape
        """Remember the mean residual."""
        self.shift = float(np.mean(y))
        return self

    def predict(self, x: Array) -> Array:
        """The same residual everywhere."""
        return np.full(len(x), self.shift)


class Forest:
    """Extra trees on the residual."""

    def __init__(self) -> None:
        self.model = ExtraTreesRegressor(60, min_samples_leaf=3, max_features=0.4, random_state=0)

    def fit(self, x: Array, y: Array) -> Forest:
        """Grow the forest."""
        self.model.fit(x, y)
        return self

    def predict(self, x: Array) -> Array:
        """Log residuals."""
        return np.asarray(self.model.predict(x))


FORMS: dict[str, Callable[[], Any]] = {
    "physics": Nothing,
    "physics + ridge": Linear,
    "physics + boosted trees": Trees,
    "physics + extra trees": Forest,
    "physics + ridge and boosted trees": Mixed,
}


def matrix(samples: Sequence[Sample]) -> tuple[list[str], Array]:
    """Feature names (sorted) and the samples × features matrix."""
    names = sorted(samples[0].features)
    return names, np.array([[sample.features[name] for name in names] for sample in samples])


def target(samples: Sequence[Sample], metric: str) -> Array:
    """Log of the measured metric over its physical estimate, per sample."""
    feature, unit = METRICS[metric], UNIT_LOG[metric]
    return np.array([math.log(one.metrics[metric]) - unit - one.features[feature] for one in samples])


def train(
    samples: Sequence[Sample],
    releases: Mapping[str, Sequence[str]],
    stamp: str,
    noise: Mapping[str, float] | None = None,
) -> Model:
    """The whole model as JSON: one corrected physics per metric, with conformal half-widths per novelty.

    Raises ``ValueError`` with fewer than 50 samples or fewer than 3 groups.
    """
    if len(samples) < 50 or len({sample.group for sample in samples}) < 3:
        raise ValueError(
            "fewer than 50 measured points in 3 (GPU, model) groups: nothing can be learned from them"
        )
    metrics = {}
    for metric in METRICS:
        measured = [sample for sample in samples if metric in sample.metrics]
        names, x = matrix(measured)
        y = target(measured, metric)
        interval = half_widths(measured, x, y)
        metrics[metric] = {
            "names": names,
            "unit_log": UNIT_LOG[metric],
            "interval": interval,
            **Mixed().fit(x, y).export(),
        }
    return {
        "schema": "kbctl.model/1",
        "level": LEVEL,
        "samples": len(samples),
        "made_from": stamp,
        "noise": dict(noise or {}),
        "releases": {engine: list(known) for engine, known in releases.items()},
        "seen": sorted([*group] for group in {sample.group for sample in samples}),
        "metrics": metrics,
    }


def half_widths(samples: Sequence[Sample], x: Array, y: Array) -> dict[str, float]:
    """Half-width in log units that held ``LEVEL`` of the left-out points, by what was left out with them."""
    widths = {}
    for novelty in NOVELTY:
        by_group = [
            np.abs(y[test] - Linear().fit(x[train_on], y[train_on]).predict(x[test]))
            for test, train_on in folds(samples, novelty)
        ]
        widths[novelty] = _short(_conformal(by_group), 4)
    # Seeing less never makes a forecast surer.
    for harder in NOVELTY[1:]:
        widths[harder] = max(widths[harder], widths["same"])
    widths["new-both"] = max(widths.values())
    return widths


def _conformal(by_group: Sequence[Array]) -> float:
    """The quantile over points in which a group weighs by the root of its size."""
    errors = np.concatenate(by_group)
    weights = np.concatenate([np.full(len(one), len(one) ** -0.5) for one in by_group])
    order = np.argsort(errors)
    cumulated = np.cumsum(weights[order]) / weights.sum()
    return float(errors[order][min(int(np.searchsorted(cumulated, LEVEL)), len(errors) - 1)])


def folds(samples: Sequence[Sample], novelty: str) -> Iterator[tuple[Array, Array]]:
    """(test, train) masks: one per group left out, with what ``novelty`` says left out beside it."""
    gpus = np.array([one.group[0] for one in samples])
    shapes = np.array([one.group[1] for one in samples])
    lengths = np.array([(one.load[0] // 7 + one.load[1] // 11) % 5 for one in samples])
    for gpu, shape in sorted({one.group for one in samples}):
        here = (gpus == gpu) & (shapes == shape)
        if novelty == "same":
            yield from (
                ((here & (lengths == fold)), ~(here & (lengths == fold))) for fold in np.unique(lengths[here])
            )
            continue
        train_on = ~here
        if novelty in ("new-gpu", "new-both"):
            train_on &= gpus != gpu
        if novelty in ("new-model", "new-both"):
            train_on &= shapes != shape
        if train_on.any():
            yield here, train_on


class Ranker:
    """What a choice is worth in a context never seen, learned from other groups of contexts.

    Where a table tells enough for physics, the regression corrects it; elsewhere values relative to the
    context's level are learned from words, numbers, catalog facts and the memory of alike contexts. ``near``
    is a context to be asked about: what resembles its GPU and model counts more.
    """

    def __init__(self, contexts: Sequence[Context], near: Context | None = None) -> None:
        self.memory = Memory(contexts)
        self.levels = levels(contexts)
        rows = [(context, trial) for context in contexts for trial in context.trials]
        self.physical = all("log_physics_tok_s" in trial.features for _, trial in rows)
        known = {name for _, trial in rows for name in trial.features}
        self.names = sorted(name for name in known if not self.physical or PLAIN.fullmatch(name))
        x = np.array([self._row(context, trial) for context, trial in rows])
        y = np.array([self._target(context, trial) for context, trial in rows])
        worked = np.array([trial.log_value is not None for _, trial in rows])
        plausible = worked & (y <= IMPLAUSIBLE) if self.physical else worked
        self.works = _chance_model(x, worked)
        groups = np.array([self.memory.groups[context.group] for context, _ in rows])
        weights = self._closeness(rows, near)
        self.model = self._fit(x[plausible], y[plausible], weights[plausible])
        self.deviation = self._deviation(x[plausible], y[plausible], groups[plausible])

    def _closeness(self, rows: Sequence[tuple[Context, Trial]], near: Context | None) -> Array:
        if near is None:
            return np.ones(len(rows))
        mine = traits_of(near)
        close = {group: closeness(mine, traits) for group, traits in self.memory.traits.items()}
        return np.array([close[context.group] for context, _ in rows])

    def _fit(self, x: Array, y: Array, weights: Array | None = None) -> Any:
        if self.physical:
            return Mixed().fit(np.nan_to_num(x), y)
        return Trees(200 if len(y) > 2000 else 60).fit(x, y, weights)

    def _deviation(self, x: Array, y: Array, groups: Array) -> float:
        """The error of the forecast on groups left out, from three folds."""
        labels = np.unique(groups)
        errors = []
        for fold in range(min(3, len(labels))):
            test = np.isin(groups, labels[fold::3])
            if test.any() and not test.all():
                errors.append(
                    y[test]
                    - self._fit(x[~test], y[~test]).predict(
                        np.nan_to_num(x[test]) if self.physical else x[test]
                    )
                )
        return float(np.std(np.concatenate(errors))) if errors else 0.3

    def _target(self, context: Context, trial: Trial) -> float:
        if trial.log_value is None:
            return 0.0
        return trial.log_value - (
            trial.features["log_physics_tok_s"] if self.physical else self.levels[context.key]
        )

    def _row(self, context: Context, trial: Trial) -> list[float]:
        named = [trial.features.get(name, math.nan if name.endswith("#") else 0.0) for name in self.names]
        if self.physical:
            return named
        recalled = self.memory.recall(trial.key, context)
        return [recalled.value, recalled.weight, recalled.failed, *named]

    def priors(self, context: Context) -> list[Prior]:
        """Expected log value (up to a constant of the context), its deviation and the chance, per trial."""
        x = np.array([self._row(context, trial) for trial in context.trials])
        mean = self.model.predict(np.nan_to_num(x) if self.physical else x)
        if self.physical:
            mean = mean + np.array([trial.features["log_physics_tok_s"] for trial in context.trials])
        # A choice never seen anywhere is a gamble, whatever its name promises.
        unseen = np.array([trial.key not in self.memory.place for trial in context.trials])
        chance = self.works(x) * np.where(unseen, UNSEEN, 1.0)
        return [
            Prior(mean=float(value), deviation=self.deviation, works=float(one))
            for value, one in zip(mean, chance, strict=True)
        ]


def _chance_model(x: Array, worked: Array) -> Callable[[Array], Array]:
    """The chance that a choice works, from the same features; 1 where no failure was ever seen."""
    if worked.all() or not worked.any():
        return lambda rows: np.full(len(rows), 1.0 if worked.any() else 0.5)
    model = HistGradientBoostingClassifier(
        max_iter=100,
        learning_rate=0.1,
        max_leaf_nodes=15,
        min_samples_leaf=_leaf_size(len(x)),
        random_state=0,
    )
    model.fit(x, worked)
    return lambda rows: np.asarray(model.predict_proba(rows)[:, 1])


def naive_trees(known: Sequence[Context]) -> Callable[[Context], list[float]]:
    """What a data scientist would try first: extra trees on the table's columns, no physics, no memory."""
    rows = [trial for context in known for trial in context.trials if trial.log_value is not None]
    names = sorted({name for trial in rows for name in trial.features if not _is_physics(name)})
    x = np.array([[trial.features.get(name, 0.0) for name in names] for trial in rows])
    model = ExtraTreesRegressor(100, random_state=0).fit(x, [trial.log_value for trial in rows])

    def scores(context: Context) -> list[float]:
        asked = [[trial.features.get(name, 0.0) for name in names] for trial in context.trials]
        return [float(value) for value in model.predict(np.array(asked))]

    return scores


def _is_physics(name: str) -> bool:
    return name.startswith(("log_physics", "share_", "weights_of_memory"))
