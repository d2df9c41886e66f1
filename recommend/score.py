"""Score a fitted model in plain Python: expected metrics, their intervals, and what each feature adds.

Owns reading the numbers that ``fit`` wrote (a JSON object, schema ``kbctl.model/1``). Must not import numpy
or scikit-learn: this runs in every ``recommend``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

METRICS = {
    # metric -> the feature that holds the logarithm of its physical estimate
    "output_tok_s": "log_physics_tok_s",
    "ttft_ms": "log_physics_ttft",
    "tpot_ms": "log_physics_step",
}
NOVELTY = ("same", "new-gpu", "new-model", "new-both")


class Prediction(NamedTuple):
    """An expected value with its interval: ``level`` of the truth lies between ``low`` and ``high``.

    ``novelty`` tells what the model had seen: this GPU with this model (``same``), or one or neither of them.
    """

    metric: str
    value: float
    low: float
    high: float
    level: float
    novelty: str


def predict(
    model: Mapping[str, Any],
    metric: str,
    features: Mapping[str, float],
    novelty: str = "new-both",
    gpu: str | None = None,
) -> Prediction | None:
    """The expected value of one metric, or ``None`` if the model does not know it.

    A ``gpu`` that was trained on has half-widths of its own.
    """
    part = model["metrics"].get(metric)
    if part is None:
        return None
    log_value = features[METRICS[metric]] + residual(part, features) + part.get("unit_log", 0.0)
    half = half_width(part["interval"], part.get("interval_of_gpu", {}), novelty, gpu)
    value = math.exp(log_value)
    return Prediction(
        metric=metric,
        value=value,
        low=value * math.exp(-half),
        high=value * math.exp(half),
        level=model["level"],
        novelty=novelty,
    )


def half_width(
    interval: Mapping[str, float], of_gpu: Mapping[str, Mapping[str, float]], novelty: str, gpu: str | None
) -> float:
    """The half-width in log units for a novelty: of this GPU where it has one, else of all."""
    return of_gpu.get(gpu or "", {}).get(novelty, interval[novelty])


def residual(part: Mapping[str, Any], features: Mapping[str, float]) -> float:
    """What the regression adds to the logarithm of the physical estimate."""
    values = [features[name] for name in part["names"]]
    return float(sum(weight * FORMS[name](part[name], values) for name, weight in part["mix"].items()))


def linear(form: Mapping[str, Any], values: Sequence[float]) -> float:
    """Intercept plus coefficients on standardised values, each held within its range in training."""
    terms = zip(values, form["mean"], form["scale"], form["coef"], strict=True)
    steps = (coef * min(max((value - mean) / scale, -3.0), 3.0) for value, mean, scale, coef in terms)
    return float(form["intercept"] + sum(steps))


def trees(form: Mapping[str, Any], values: Sequence[float]) -> float:
    """The sum of the trees' leaves; a tree is parallel arrays feature, threshold, left, right, value."""
    return float(form["base"] + sum(_leaf(tree, values) for tree in form["trees"]))


def _leaf(tree: Sequence[Sequence[float]], values: Sequence[float]) -> float:
    feature, threshold, left, right, value = tree
    node = 0
    while feature[node] >= 0:
        node = int(left[node] if values[int(feature[node])] <= threshold[node] else right[node])
    return value[node]


FORMS = {"linear": linear, "trees": trees}


def parts(model: Mapping[str, Any], metric: str, features: Mapping[str, float]) -> dict[str, float]:
    """A forecast's logarithm taken apart; the parts add up to it.

    ``physics``; ``usual``: how far measurements stay from physics everywhere; then what each feature adds,
    the largest first.
    """
    part = model["metrics"][metric]
    weight, form = part["mix"].get("linear", 0.0), part.get("linear") or {}
    steps = zip(*(form.get(name, ()) for name in ("mean", "scale", "coef")), strict=True)
    terms = {
        name: weight * coef * min(max((features[name] - mean) / scale, -3.0), 3.0)
        for name, (mean, scale, coef) in zip(part["names"], steps, strict=False)
    }
    usual = residual(part, features) + part.get("unit_log", 0.0) - sum(terms.values())
    first = {"physics": features[METRICS[metric]], "usual": usual}
    return first | dict(sorted(terms.items(), key=lambda item: -abs(item[1])))


def novelty_of(model: Mapping[str, Any], gpu: str, family: str) -> str:
    """Which of hardware and model family the training data held."""
    if [gpu, family] in model["seen"]:
        return "same"
    known_gpu = any(seen_gpu == gpu for seen_gpu, _ in model["seen"])
    known_family = any(seen_family == family for _, seen_family in model["seen"])
    if known_gpu:
        return "new-model"
    return "new-gpu" if known_family else "new-both"
