"""Measurements as the regression's samples: published points and own runs in one form.

Owns what a published precision means in bits and which points are implausible. No files, no learning.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from kb.measurements import ServingPoint
from kb.model import Point, Tried
from kb.vocab import engines
from kb.vocab.gpus import Gpu, find_gpu
from kb.vocab.models import ModelEntry, find_model, kv_bytes, weight_bits
from recommend.features import Situation, features, position
from recommend.physics import Layout, Load

# A point this far above the roofline (e^0.6) counts its requests in another way than it says.
IMPLAUSIBLE = 0.6
COPY, HIDDEN = 0.001, 0.25
PRECISION_METHOD = {"fp8": "fp8", "fp4": "nvfp4", "int4": "w4a16", "bf16": "bf16", "": "bf16"}
# Quantized checkpoints keep attention, embeddings and norms wider; the average over those that publish sizes.
DENSE_BITS = {"nvfp4": 8.0, "mxfp4": 16.0, "fp8": 8.0, "w4a16": 16.0, "awq": 5.0, "gptq": 5.0}


class Sample(NamedTuple):
    """One measured point with its features; ``group`` is (GPU, model shape), ``choice`` what was chosen."""

    group: tuple[str, str]
    load: tuple[int, int, int]
    gpus: int
    choice: tuple[str, ...]
    features: Mapping[str, float]
    metrics: Mapping[str, float]
    date: str | None = None
    n: int = 1


def published(points: Iterable[ServingPoint], releases: Mapping[str, Sequence[str]]) -> Iterator[Sample]:
    """Samples of aggregated serving points whose GPU count is known; implausible points are left out.

    ``releases`` lists each engine's releases, oldest first.
    """
    for point in points:
        situation = situation_of(point, releases) if point.mode == "agg" and point.gpus else None
        named = features(situation) if situation else None
        if situation is None or named is None:
            continue
        if math.log(point.output_tok_s) - named["log_physics_tok_s"] <= IMPLAUSIBLE:
            yield _sample(point, situation, named)


def situation_of(point: ServingPoint, releases: Mapping[str, Sequence[str]]) -> Situation | None:
    """What a published point was measured on, or ``None`` where its GPU or model is not in the catalog."""
    gpu, entry = find_gpu(point.gpu), find_model(point.model)
    if gpu is None or entry is None:
        return None
    layout = layout_of(
        entry,
        PRECISION_METHOD.get(point.precision, point.precision),
        tp=point.tp,
        pp=point.pp,
        dp=max(point.gpus // (point.tp * point.pp), 1),
        ep=point.ep,
    )
    load = Load(input_len=point.input_len, output_len=point.output_len, concurrency=point.concurrency)
    return Situation(
        gpu=gpu,
        entry=entry,
        layout=layout,
        load=load,
        engine=point.engine,
        release=position(point.version, releases.get(point.engine, ())),
    )


def layout_of(  # noqa: PLR0913 - five sizes and two widths make a layout
    entry: ModelEntry,
    method: str | None,
    *,
    tp: int = 1,
    pp: int = 1,
    dp: int = 1,
    ep: int = 1,
    kv_bytes: float = 2,
) -> Layout:
    """Parallel sizes and weight widths of a checkpoint under a quantization method (canonical word)."""
    if entry.base_precision == "mxfp4" and method in (None, "nvfp4", "bf16"):
        method = "mxfp4"
    bits = float(weight_bits(method) or 16)
    dense = DENSE_BITS.get(method or "", bits)
    compute = {4.0: "fp4" if method == "nvfp4" else "bf16", 8.0: "fp8"}.get(bits, "bf16")
    scaled = bits + 0.5 if bits == 4 else bits
    return Layout(
        tp=tp, pp=pp, dp=dp, ep=ep, expert_bits=scaled, dense_bits=dense, kv_bytes=kv_bytes, compute=compute
    )


def layout_of_common(
    entry: ModelEntry, method: str | None, common: Mapping[str, Any], count: int | None
) -> Layout:
    """The layout of settings in the common vocabulary (tp, pp, dp, ep, kv_dtype) on ``count`` GPUs."""
    size = {key: common[key] if isinstance(common.get(key), int) else 1 for key in ("tp", "pp", "dp", "ep")}
    gpus = count or size["tp"] * size["pp"]
    # SGLang counts attention replicas inside the tensor ranks; only what exceeds the ranks adds GPUs.
    inside = size["dp"] if size["tp"] * size["pp"] * size["dp"] > gpus else 1
    return layout_of(
        entry,
        method,
        tp=max(size["tp"] // inside, 1),
        pp=size["pp"],
        dp=size["dp"],
        ep=min(size["ep"], gpus),
        kv_bytes=kv_bytes(common.get("kv_dtype")),
    )


def own(tried: Iterable[Tried], releases: Mapping[str, Sequence[str]]) -> Iterator[Sample]:
    """Samples of own runs whose GPU, model, load and throughput are known."""
    for one in tried:
        gpu = find_gpu(one.hardware.gpu or "")
        entry = find_model(one.model.id or one.model.name or "")
        if gpu is None or entry is None or one.backend.engine is None:
            continue
        for point in one.points:
            situation = _own_situation(one, point, gpu, entry, releases)
            named = features(situation) if situation else None
            if situation is not None and named is not None:
                yield _own_sample(one, point, situation, named)


def _own_situation(
    one: Tried, point: Point, gpu: Gpu, entry: ModelEntry, releases: Mapping[str, Sequence[str]]
) -> Situation | None:
    sizes = [point.workload.get(key) for key in ("input_len", "output_len", "concurrency")]
    known = all(isinstance(size, int | float) and size >= 1 for size in sizes)
    if not known or not all(point.metrics.get(name) for name in ("output_tok_s",)):
        return None
    engine = one.backend.engine or ""
    common = engines.common_settings(engine, one.backend.settings)
    input_len, output_len, concurrency = (int(size or 1) for size in sizes)
    return Situation(
        gpu=gpu,
        entry=entry,
        layout=layout_of_common(entry, one.model.quantization, common, one.hardware.count),
        load=Load(input_len=input_len, output_len=output_len, concurrency=concurrency),
        engine=engine,
        release=position(one.backend.engine_version, releases.get(engine, ())),
        speculation=bool(common.get("speculation")),
    )


def _own_sample(one: Tried, point: Point, situation: Situation, named: Mapping[str, float]) -> Sample:
    layout, load = situation.layout, situation.load
    sizes = (layout.tp, layout.pp, layout.dp, layout.ep)
    metrics = {"output_tok_s": point.metrics["output_tok_s"]}
    for name in ("ttft_ms", "tpot_ms"):
        value = next(
            (point.metrics[key] for key in (f"{name}_mean", f"{name}_p50", name) if point.metrics.get(key)),
            None,
        )
        if value:
            metrics[name] = value
    return Sample(
        group=(situation.gpu.name, shape_of(situation.entry)),
        load=(load.input_len, load.output_len, load.concurrency),
        gpus=layout.gpus,
        choice=(situation.engine, one.model.quantization or "", *map(str, sizes)),
        features=named,
        metrics=metrics,
        date=point.date,
        n=point.n,
    )


def noise_of(points: Iterable[ServingPoint]) -> dict[str, float]:
    """How far repeated measurements of one configuration differ: median and 90th percentile, as fractions.

    Equal numbers are copies. Pairs further apart than ``HIDDEN`` are two configurations under one description
    (same day, apart at every load: speculation on and off).
    """
    repeated = (point.high / point.low - 1 for point in points if point.n > 1 and point.mode == "agg")
    spreads = sorted(spread for spread in repeated if COPY < spread < HIDDEN)
    if not spreads:
        return {}
    return {"p50": round(spreads[len(spreads) // 2], 4), "p90": round(spreads[len(spreads) * 9 // 10], 4)}


def contradictions(samples: Iterable[Sample]) -> dict[str, tuple[int, float]]:
    """Per GPU: steps to more requests in flight within one batch, and by how much a token got *faster* then.

    The second is the root mean square of the falls in log time per token, which cannot fall: what a batch is
    off by at least, however well it is described.
    """
    curves: dict[tuple[object, ...], list[tuple[int, float]]] = {}
    for one in samples:
        if one.metrics.get("tpot_ms"):
            key = (one.group, one.choice, one.gpus, one.load[:2], one.date)
            curves.setdefault(key, []).append((one.load[2], math.log(one.metrics["tpot_ms"])))
    falls: dict[str, list[float]] = {}
    for (group, *_), points in curves.items():
        for (few, before), (more, after) in pairwise(sorted(points)):
            if more > few:
                falls.setdefault(group[0], []).append(max(before - after, 0.0))  # type: ignore[index]
    return {
        gpu: (len(found), math.sqrt(sum(one * one for one in found) / len(found)))
        for gpu, found in falls.items()
    }


def shape_of(entry: ModelEntry) -> str:
    """What checkpoints that compute alike share: DeepSeek-R1, V3 and V3.1 are one shape."""
    return f"{entry.architecture}-{entry.layers}x{entry.hidden}x{entry.experts or 1}"


def _sample(point: ServingPoint, situation: Situation, named: Mapping[str, float]) -> Sample:
    sizes = (point.tp, point.pp, situation.layout.dp, point.ep)
    return Sample(
        group=(point.gpu, shape_of(situation.entry)),
        load=(point.input_len, point.output_len, point.concurrency),
        gpus=point.gpus,
        choice=(point.engine, point.precision, *map(str, sizes)),
        features=named,
        metrics={"output_tok_s": point.output_tok_s, "ttft_ms": point.ttft_ms, "tpot_ms": point.tpot_ms},
        date=point.date,
        n=point.n,
    )
