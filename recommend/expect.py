"""What number to expect: own measurements first, then published ones and the regression.

Owns how measurements and the model become one expected value, and when to abstain. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kb import EMPTY
from kb.measurements import KernelTimes, ServingPoint
from kb.model import Point, Tried
from kb.vocab import gpus, models
from kb.vocab.gpus import Gpu
from kb.vocab.models import ModelEntry
from recommend import kernel_times
from recommend.advice import Expected
from recommend.candidates import layout_for
from recommend.features import Situation, features, position
from recommend.physics import Load
from recommend.question import Query
from recommend.samples import shape_of, situation_of
from recommend.score import METRICS, novelty_of, parts, predict, residual

Json = Mapping[str, Any]
# How far a single reported number may be off.
ANCHOR_MARGIN = 1.2
# How far releases of one engine differ at the 90th percentile.
DRIFT = 0.62


class Known(NamedTuple):
    """What is given to the recommender besides records and own runs: the fitted model and public tables."""

    model: Json | None = None
    serving: Sequence[ServingPoint] = ()
    kernels: Sequence[KernelTimes] = ()
    writeups: Sequence[Json] = ()
    interventions: Json = EMPTY
    proofs: Json = EMPTY


class Outlook(NamedTuple):
    """Expected metrics of one candidate: log values (to rank by) and what to show.

    ``features`` are what the regression saw of it; ``forecast`` the metrics that rest on them.
    """

    log_values: Mapping[str, float]
    shown: Mapping[str, Expected]
    novelty: str = "new-both"
    kernels: tuple[kernel_times.Gap, ...] = ()
    features: Mapping[str, float] = EMPTY
    forecast: frozenset[str] = frozenset()


def outlook(
    query: Query, load: Load, known: Known, runs: Sequence[Tried], near: Sequence[Near] = ()
) -> Outlook:
    """What to expect of a configuration at a load; empty where there is no basis at all."""
    metrics: dict[str, Expected] = {}
    logs: dict[str, float] = {}
    seen: Mapping[str, float] = EMPTY
    modelled = _modelled(query, load, known, near)
    if modelled is not None:
        metrics, seen = modelled
        metrics = {metric: _anchored(one, query, load, known) for metric, one in metrics.items()}
        logs = {metric: math.log(one.value) for metric, one in metrics.items()}
    forecast = set(metrics)
    for metric in METRICS:
        if (own := measured_here(runs, load, metric, noise(known), query.engine_version)) is not None:
            metrics[metric] = own
            logs[metric] = math.log(own.value)
            forecast.discard(metric)
    compared = kernel_times.gaps(query, load, known.kernels)
    shift = kernel_times.shift(query, compared)
    if shift and not runs:
        logs = {
            metric: value + (shift if metric == "output_tok_s" else -shift) for metric, value in logs.items()
        }
    return Outlook(logs, metrics, _novelty(query, known), compared, seen, frozenset(forecast))


def apart(one: Expected, seen: Outlook, model: Json | None) -> Expected:
    """A forecast with the factors that it is made of; what is measured comes back as it is."""
    if model is None or one.metric not in seen.forecast:
        return one
    told = parts(model, one.metric, seen.features)
    told["measured near it"] = math.log(one.value) - sum(told.values())
    return one._replace(made_of=tuple((what, math.exp(value)) for what, value in told.items()))


def _novelty(query: Query, known: Known) -> str:
    if known.model is None or query.gpu_facts is None or query.entry is None:
        return "new-both"
    return novelty_of(known.model, query.gpu_facts.name, shape_of(query.entry))


def noise(known: Known) -> tuple[float, float]:
    """(median, 90th percentile) of how far two runs of one configuration differ, as a fraction."""
    found = (known.model or {}).get("noise") or {}
    return float(found.get("p50", 0.03)), float(found.get("p90", 0.2))


def measured_here(
    runs: Sequence[Tried], load: Load, metric: str, spread: tuple[float, float], release: str | None
) -> Expected | None:
    """The newest own measurement at this number of requests in flight, with its own or the usual spread."""
    points = [
        (one, point)
        for one in runs
        for point in one.points
        if point.metrics.get(_name(metric, point))
        and point.workload.get("concurrency") in (load.concurrency, None)
    ]
    if not points:
        return None
    tried, point = max(points, key=lambda pair: (pair[1].date or "", pair[1].n))
    name = _name(metric, point)
    value = point.metrics[name]
    low, high = point.spread.get(name, (value, value))
    margin = margin_of(point, spread)
    low, high = min(low, value / (1 + margin)), max(high, value * (1 + margin))
    other = tried.backend.engine_version
    if other not in (release, None) and release is not None:
        low, high = low / (1 + DRIFT), high * (1 + DRIFT)
    count = f"{point.n} own measurement{'s' if point.n > 1 else ''}"
    short = f"; {_single(point)}: differences below {margin:.0%} tell nothing" if point.n == 1 else ""
    return Expected(
        metric=metric,
        value=value,
        low=low,
        high=high,
        level=0.9,
        basis=f"{count} here{_of_release(other, release)}{short}",
        evidence=(point.runs or tried.runs or (tried.key,))[:3],
        date=point.date,
    )


# How far one run may be off, by how long it was under load; repeats tell their spread themselves.
SHORT_S = 30.0
SHORT_MARGIN, LONG_MARGIN = 0.2, 0.1


def margin_of(point: Point, spread: tuple[float, float]) -> float:
    """How far a measured value may be off at least, as a fraction; ``spread`` is that of repeats in general.

    Two runs may agree by chance; from three on they tell their spread themselves.
    """
    if point.n > 1:
        return spread[0] if point.n > 2 else spread[1]
    return SHORT_MARGIN if is_short(point) else max(LONG_MARGIN, spread[1])


def is_short(point: Point) -> bool:
    """Whether a measurement is known to have lasted less than half a minute."""
    lasted = point.metrics.get("duration_s")
    return lasted is not None and lasted < SHORT_S


def _single(point: Point) -> str:
    lasted = point.metrics.get("duration_s")
    return f"a single run of {lasted:.0f} s" if lasted else "a single run of unknown length"


def _of_release(measured: str | None, asked: str | None) -> str:
    if measured is None or measured == asked:
        return ""
    return f" with release {measured} (engines drift: nine in ten stay within {DRIFT:.0%})"


def _name(metric: str, point: Point) -> str:
    names = (metric, f"{metric}_mean", f"{metric}_p50", f"{metric}_median")
    return next((name for name in names if point.metrics.get(name)), metric)


def _modelled(
    query: Query, load: Load, known: Known, near: Sequence[Near]
) -> tuple[dict[str, Expected], Mapping[str, float]] | None:
    gpu, model = query.gpu_facts, known.model
    situation = situation_for(query, load, gpu, model) if gpu and model else None
    named = features(situation) if situation else None
    if gpu is None or model is None or situation is None or named is None:
        return None
    novelty = novelty_of(model, gpu.name, shape_of(situation.entry))
    alike = sorted(((_likeness(situation, one), one) for one in near), key=lambda pair: -pair[0])[:12]
    ids = tuple(one.point.id for _, one in alike[:3])
    found = {}
    for metric in METRICS:
        guess = predict(model, metric, named, novelty, gpu.name)
        if guess is None:
            continue
        factor = math.exp(_correction(metric, alike))
        found[metric] = Expected(
            metric=metric,
            value=guess.value * factor,
            low=guess.low * factor,
            high=guess.high * factor,
            level=guess.level,
            basis=_basis(novelty, gpu, alike, model),
            evidence=ids or ("model:physics+regression",),
            date=max((one.point.date for _, one in alike[:3] if one.point.date), default=None),
        )
    return found, named


def _anchored(one: Expected, query: Query, load: Load, known: Known) -> Expected:
    """A forecast drawn half-way to what a write-up measured here, and widened to hold it.

    The level error of physics is the machine's and the model's, so it is shared by all engines.
    """
    for told in writeups_on(query, known.writeups):
        value = (told.get("metrics") or {}).get(one.metric)
        same = (told.get("workload") or {}).get("concurrency") == load.concurrency
        if value and same and told.get("count") == query.hardware.count:
            return one._replace(
                value=math.sqrt(one.value * value),
                low=min(one.low, value / ANCHOR_MARGIN),
                high=max(one.high, value * ANCHOR_MARGIN),
                basis=f"{one.basis}; drawn to a write-up's {value:g} (its release and lengths are unknown)",
                evidence=(told["id"], *one.evidence),
            )
    return one


def writeups_on(question: Query, writeups: Sequence[Json]) -> Iterator[Json]:
    """Write-ups of this model's family on this architecture or its sibling."""
    for one in writeups:
        here = one.get("arch") in (question.arch, gpus.sibling_of(question.arch or ""))
        if here and models.family_of(str(one.get("model"))) == question.model.family:
            yield one


def situation_for(query: Query, load: Load, gpu: Gpu, model: Json) -> Situation | None:
    """A candidate as the regression sees it."""
    if query.entry is None or query.engine is None:
        return None
    known = model.get("releases", {}).get(query.engine, ())
    return Situation(
        gpu=gpu,
        entry=query.entry,
        layout=layout_for(query, query.entry),
        load=load,
        engine=query.engine,
        release=position(query.engine_version, known),
        speculation=bool(query.common.get("speculation")),
    )


class Near(NamedTuple):
    """A published point of this model on this GPU: by metric, how far (log) it is from the regression."""

    point: ServingPoint
    situation: Situation
    errors: Mapping[str, float]


def neighbours(gpu: Gpu | None, entry: ModelEntry | None, load: Load, known: Known) -> tuple[Near, ...]:
    """The published points of this model on this GPU at the most alike loads (at most 24)."""
    if gpu is None or entry is None or known.model is None:
        return ()
    here = [point for point in known.serving if point.gpu == gpu.name and point.mode == "agg" and point.gpus]
    here.sort(key=lambda point: (_load_distance(point, load), point.id))
    found: list[Near] = []
    for point in here:
        situation = situation_of(point, known.model.get("releases", {}))
        named = features(situation) if situation and shape_of(situation.entry) == shape_of(entry) else None
        if situation is not None and named is not None:
            found.append(Near(point, situation, _errors(point, named, known.model)))
        if len(found) == 24:
            break
    return tuple(found)


def _load_distance(point: ServingPoint, load: Load) -> float:
    apart = abs(math.log2(load.concurrency / point.concurrency))
    apart += abs(math.log2(load.input_len / point.input_len)) / 2
    return apart + abs(math.log2(load.output_len / point.output_len)) / 2


def _likeness(one: Situation, near: Near) -> float:
    """1 for a point of this very layout, engine and load; less by what differs."""
    other = near.situation
    apart = _load_distance(near.point, one.load)
    apart += 2 * abs(math.log2(one.layout.gpus / other.layout.gpus))
    apart += 2 * abs(math.log2(one.layout.expert_bits / other.layout.expert_bits))
    apart += 0.5 * (one.layout.ep != other.layout.ep) + 1.0 * (one.engine != other.engine)
    return math.exp(-apart)


def _errors(point: ServingPoint, named: Mapping[str, float], model: Json) -> dict[str, float]:
    found = {}
    for metric, part in model["metrics"].items():
        expected = named[METRICS[metric]] + residual(part, named) + part["unit_log"]
        found[metric] = math.log(getattr(point, metric)) - expected
    return found


def _correction(metric: str, near: Sequence[tuple[float, Near]]) -> float:
    """What alike published points add to the regression: their mean error, shrunk by how alike they are."""
    total = sum(likeness * one.errors[metric] for likeness, one in near)
    return total / (sum(likeness for likeness, _ in near) + 0.5)


_BASIS = {
    "same": "physics and a regression on {count} published points, this model on {gpu} among them",
    "new-gpu": "physics and a regression on {count} published points, this model on other GPUs only",
    "new-model": "physics and a regression on {count} published points, {gpu} with other models only",
    "new-both": "physics only in effect: none of {count} published points is of {gpu} or of this model",
}


def _basis(novelty: str, gpu: Gpu, near: Sequence[tuple[float, Near]], model: Json) -> str:
    told = _BASIS[novelty].format(count=model.get("samples", 0), gpu=gpu.name)
    if not near:
        return told
    point = near[0][1].point
    release = point.version or "(release unknown)"
    layout = f"{point.gpus} GPUs, {point.precision or 'unknown precision'}, {point.concurrency} in flight"
    lengths = f"{point.input_len}/{point.output_len} tokens"
    return f"{told}; nearest: {point.engine} {release}, {layout}, {lengths}: {point.output_tok_s:.0f} tok/s"
