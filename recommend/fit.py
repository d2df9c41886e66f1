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
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

from recommend.replay import Context, Key, Trial
from recommend.samples import Sample, contradictions
from recommend.score import METRICS, NOVELTY
from recommend.table import feature_names

Array = NDArray[np.float64]
Model = dict[str, Any]
Widths = dict[str, float]
LEVEL = 0.9
# Rows below which no tree is grown.
FEW = 24
# Rows, and cells of them, that trees are grown on at most.
NAIVE_ROWS, MOST_CELLS, FEWEST_ROWS = 20_000, 2_000_000, 2_500
# What ships, as ``benchmarks/choose_forms.py`` chose it; the mixture is kept to be held against it.
MIX = {"linear": 1.0}
EVEN_MIX = {"linear": 0.5, "trees": 0.5}
# Names that ``features`` gives; columns of a table carry a sign (``isl#``, ``engine=vllm``).
PLAIN = re.compile(r"[a-z0-9_-]+")
# Groups of other GPUs that weigh as much as one GPU's own (chosen on the half ``choose``).
ALIKE_GROUPS = 4.0
# Deviations of a normal error that hold nine of ten.
NINE_OF_TEN = 1.645
UNIT_LOG = {"output_tok_s": 0.0, "ttft_ms": math.log(1000), "tpot_ms": math.log(1000)}


class Linear:
    """Ridge on standardised features, held within three deviations (the form ``score.linear`` reads)."""

    def __init__(self, alpha: float = 1000.0) -> None:
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
        self.mean = float(np.mean(y)) if len(y) < FEW else None
        if self.mean is None:
            self.model.set_params(min_samples_leaf=_leaf_size(len(y)))
            self.model.fit(_some(x), y, sample_weight=_telling(weights))
        return self

    def predict(self, x: Array) -> Array:
        """Log residuals; their mean where there was too little to grow a tree."""
        return np.full(len(x), self.mean) if self.mean is not None else np.asarray(self.model.predict(x))

    def export(self) -> Model:
        """Each tree as parallel arrays: feature (-1 for a leaf), threshold, left, right, value."""
        grown = [_tree(stage[0].nodes) for stage in self.model._predictors]
        return {"base": _short(float(self.model._baseline_prediction.item())), "trees": grown}


def _telling(weights: Array | None) -> Array | None:
    """Weights, unless all are alike: weighted bins take ten times as long to find."""
    return None if weights is None or np.ptp(weights) < 1e-12 else weights


def _some(x: Array) -> Array:
    """The features; a column of which nothing is known is one of zeros, as no bins can be found in it."""
    return np.where(np.isnan(x).all(axis=0), 0.0, x)


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
    """A weighted mean of forms; with the weights of ``MIX`` it is what ships."""

    def __init__(self, weights: Mapping[str, float] = MIX) -> None:
        made: dict[str, Callable[[], Linear | Trees]] = {"linear": Linear, "trees": Trees}
        self.weights = weights
        self.parts = {name: made[name]() for name in weights}

    def fit(self, x: Array, y: Array) -> Mixed:
        """Fit every part on the same samples."""
        for part in self.parts.values():
            part.fit(x, y)
        return self

    def predict(self, x: Array) -> Array:
        """Weighted log residuals."""
        return np.asarray(sum(self.weights[name] * part.predict(x) for name, part in self.parts.items()))

    def export(self) -> Model:
        """The parts and their weights."""
        return {"mix": dict(self.weights), **{name: part.export() for name, part in self.parts.items()}}


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

    def __init__(self, trees: int = 60, least: int = 3, share: float = 0.4) -> None:
        self.model = ExtraTreesRegressor(trees, min_samples_leaf=least, max_features=share, random_state=0)

    def fit(self, x: Array, y: Array, weights: Array | None = None) -> Forest:
        """Grow the forest."""
        self.model.fit(x, y, sample_weight=_telling(weights))
        return self

    def predict(self, x: Array) -> Array:
        """Log residuals."""
        return np.asarray(self.model.predict(x))


FORMS: dict[str, Callable[[], Any]] = {
    "physics": Nothing,
    "physics + ridge": Linear,
    "physics + boosted trees": Trees,
    "physics + extra trees": Forest,
    "physics + ridge and boosted trees": lambda: Mixed(EVEN_MIX),
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
        interval, of_gpu = half_widths(measured, x, y)
        metrics[metric] = {
            "names": names,
            "unit_log": UNIT_LOG[metric],
            "interval": interval,
            "interval_of_gpu": of_gpu,
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


def half_widths(samples: Sequence[Sample], x: Array, y: Array) -> tuple[Widths, dict[str, Widths]]:
    """Half-widths in log units that held ``LEVEL`` of the left-out points, by what was left out with them.

    Second, those of each GPU's own groups, drawn to those of all by ``ALIKE_GROUPS`` groups and widened by
    what its batches contradict themselves.
    """
    widths: dict[str, float] = {}
    of_gpu: dict[str, dict[str, float]] = {}
    off = {gpu: NINE_OF_TEN * rms for gpu, (_, rms) in contradictions(samples).items()}
    for novelty in NOVELTY:
        found = [
            (group, np.abs(y[test] - Mixed().fit(x[known], y[known]).predict(x[test])))
            for group, test, known in folds(samples, novelty)
        ]
        widths[novelty] = conformal([errors for _, errors in found])
        if novelty in ("same", "new-model"):
            for gpu, half in _of_gpus(found, widths[novelty]):
                of_gpu.setdefault(gpu, {})[novelty] = _short(math.hypot(half, off.get(gpu, 0.0)), 4)
    # Seeing less never makes a forecast surer.
    for harder in NOVELTY[1:]:
        widths[harder] = max(widths[harder], widths["same"])
    widths["new-both"] = max(widths.values())
    return {name: _short(half, 4) for name, half in widths.items()}, of_gpu


def _of_gpus(found: Sequence[tuple[tuple[str, str], Array]], whole: float) -> Iterator[tuple[str, float]]:
    """Each GPU's own half-width, drawn to that of all: few groups tell little."""
    for gpu in sorted({gpu for (gpu, _), _ in found}):
        errors = [one for (other, _), one in found if other == gpu]
        models = len({group for group, _ in found if group[0] == gpu})
        yield gpu, (models * conformal(errors) + ALIKE_GROUPS * whole) / (models + ALIKE_GROUPS)


def conformal(by_group: Sequence[Array], level: float = LEVEL) -> float:
    """The quantile over points in which a group weighs by the root of its size."""
    errors = np.concatenate(by_group)
    weights = np.concatenate([np.full(len(one), len(one) ** -0.5) for one in by_group])
    order = np.argsort(errors)
    cumulated = np.cumsum(weights[order]) / weights.sum()
    return float(errors[order][min(int(np.searchsorted(cumulated, level)), len(errors) - 1)])


def folds(samples: Sequence[Sample], novelty: str) -> Iterator[tuple[tuple[str, str], Array, Array]]:
    """(group, test, train) masks: one per group left out, with what ``novelty`` says left out beside it."""
    gpus = np.array([one.group[0] for one in samples])
    shapes = np.array([one.group[1] for one in samples])
    lengths = np.array([(one.load[0] // 7 + one.load[1] // 11) % 5 for one in samples])
    for gpu, shape in sorted({one.group for one in samples}):
        here = (gpus == gpu) & (shapes == shape)
        if novelty == "same":
            yield from (
                ((gpu, shape), (here & (lengths == fold)), ~(here & (lengths == fold)))
                for fold in np.unique(lengths[here])
            )
            continue
        train_on = ~here
        if novelty in ("new-gpu", "new-both"):
            train_on &= gpus != gpu
        if novelty in ("new-model", "new-both"):
            train_on &= shapes != shape
        if train_on.any():
            yield (gpu, shape), here, train_on


def shares(columns: Array, target: Array, weights: Array, prior: Array, strength: float) -> Array:
    """Non-negative shares of ``columns`` that explain ``target``, drawn to ``prior`` by ``strength``."""
    pull = strength * math.sqrt(float(weights.sum()))
    root = np.sqrt(weights)
    x = np.vstack([columns * root[:, None], pull * np.eye(len(prior))])
    y = np.concatenate([target * root, pull * prior])
    return np.asarray(LinearRegression(positive=True, fit_intercept=False).fit(x, y).coef_)


def chance_model(x: Array, worked: NDArray[np.bool_]) -> Callable[[Array], Array]:
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
    model.fit(_some(x), worked)
    return lambda rows: np.asarray(model.predict_proba(rows)[:, 1])


def naive_trees(known: Sequence[Context], asked: Sequence[Context]) -> dict[Key, list[float]]:
    """What a data scientist would try first: extra trees on the table's columns, no physics, no memory."""
    rows = [trial for context in known for trial in context.trials if trial.log_value is not None]
    names = [name for name in feature_names(rows) if not _is_physics(name)]
    model = ExtraTreesRegressor(100, random_state=0)
    learned = [rows[at] for at in drawn(len(rows), affordable(NAIVE_ROWS, len(names)))]
    model.fit(_columns(learned, names), [trial.log_value for trial in learned])
    guesses = iter(model.predict(_columns([trial for one in asked for trial in one.trials], names)))
    return {one.key: [float(next(guesses)) for _ in one.trials] for one in asked}


def affordable(rows: int, columns: int) -> int:
    """Rows to grow trees on at most: fewer where each has many columns."""
    return min(rows, max(MOST_CELLS // max(columns, 1), FEWEST_ROWS))


def drawn(count: int, most: int) -> NDArray[np.int64]:
    """Places of all rows, or of a seeded draw where there are too many."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, most, replace=False))


def _columns(trials: Sequence[Trial], names: Sequence[str]) -> Array:
    return np.array([[trial.features.get(name, 0.0) for name in names] for trial in trials])


def _is_physics(name: str) -> bool:
    return name.startswith(("log_physics", "share_", "weights_of_memory"))


def logistic(
    x: Array, chance: Array, weights: Array, sides: NDArray[np.int_], strength: float
) -> tuple[float, Array]:
    """Intercept and coefficients of a penalised logistic regression on rows that pass with ``chance``.

    ``sides`` holds the sign that a coefficient may have (0: either). A feature that turns out on the wrong
    side is left out and the rest learned again.
    """
    both, passed = np.vstack([x, x]), np.repeat([1.0, 0.0], len(x))
    counted = np.concatenate([weights * chance, weights * (1 - chance)])
    heard, kept = counted > 0, np.ones(x.shape[1], bool)
    while True:
        model = LogisticRegression(C=strength, max_iter=3000)
        model.fit(both[heard][:, kept], passed[heard], sample_weight=counted[heard])
        found = np.zeros(x.shape[1])
        found[kept] = model.coef_[0]
        wrong = found * sides < 0
        if not wrong.any():
            return float(model.intercept_[0]), found
        kept &= ~wrong
