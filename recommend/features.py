"""One configuration at one load as named numbers: physics, parallel layout, engine, model and hardware.

Owns the feature names that ``fit`` learns on and ``score`` reads. Nothing here may tell the outcome or the
identity of a context (no GPU name, no model name, no date of measurement).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from kb import versions
from kb.vocab.gpus import Gpu, arch_number
from kb.vocab.models import ModelEntry
from recommend.physics import Layout, Load, estimate, expert_params_b

ENGINES = ("sglang", "vllm", "tensorrt-llm")


class Situation(NamedTuple):
    """What the model is asked about: hardware, model, layout, engine release and load.

    ``release`` places an engine release in its own series, 0 (oldest catalogued) to 1 (newest), or ``None``.
    """

    gpu: Gpu
    entry: ModelEntry
    layout: Layout
    load: Load
    engine: str
    release: float | None = None
    speculation: bool = False


def position(version: str | None, releases: Sequence[str]) -> float | None:
    """Where a release lies among the known, 0 (oldest) to 1 (newest); ``None`` where that is unclear."""
    if not version or not releases or versions.version_key(version) is None:
        return None
    older = sum((versions.compare(one, version) or 0) <= 0 for one in releases)
    return min(max((older - 1) / max(len(releases) - 1, 1), 0.0), 1.0)


def features(situation: Situation) -> dict[str, float] | None:
    """Feature name to value, or ``None`` where the physics cannot be computed. All are finite."""
    roofline = estimate(situation.gpu, situation.entry, situation.layout, situation.load)
    if roofline is None:
        return None
    step = max(roofline.step_s, 1e-9)
    return {
        "log_physics_tok_s": math.log(roofline.output_tok_s),
        "log_physics_ttft": math.log(max(roofline.ttft_s, 1e-6)),
        "log_physics_step": math.log(step),
        "share_weights": roofline.parts["weights"] / step,
        "share_compute": roofline.parts["compute"] / step,
        "share_kv": roofline.parts["kv"] / step,
        "share_links": roofline.parts["links"] / step,
        "share_overhead": roofline.parts["overhead"] / step,
        "weights_of_memory": roofline.weight_gib_per_gpu / (situation.gpu.memory_gib or 80),
        **_load(situation),
        **_layout(situation.layout),
        **_engine(situation),
        **model_features(situation.entry),
        **hardware_features(situation.gpu),
    }


def _load(situation: Situation) -> dict[str, float]:
    load, layout = situation.load, situation.layout
    return {
        "log_concurrency": math.log2(load.concurrency),
        "log_batch_per_gpu": math.log2(load.concurrency / layout.gpus),
        "log_input": math.log2(load.input_len),
        "log_output": math.log2(load.output_len),
        "log_input_output": math.log2(load.input_len / load.output_len),
    }


def _layout(layout: Layout) -> dict[str, float]:
    return {
        "log_gpus": math.log2(layout.gpus),
        "log_tp": math.log2(layout.tp),
        "log_ep": math.log2(layout.ep),
        "log_dp": math.log2(layout.dp),
        "log_pp": math.log2(layout.pp),
        "expert_bits": layout.expert_bits,
        "dense_bits": layout.dense_bits,
        "kv_bytes": layout.kv_bytes,
        "compute_bits": {"fp4": 4.0, "fp8": 8.0}.get(layout.compute, 16.0),
    }


def _engine(situation: Situation) -> dict[str, float]:
    return {
        **{f"engine_{name}": float(situation.engine == name) for name in ENGINES},
        "release": -0.1 if situation.release is None else situation.release,
        "speculation": float(situation.speculation),
    }


def model_features(entry: ModelEntry) -> dict[str, float]:
    """A model's sizes and kinds."""
    total = entry.params_total_b or 1.0
    active = entry.params_active_b or total
    return {
        "log_total_b": math.log2(total),
        "log_active_b": math.log2(active),
        "sparsity": active / total,
        "log_hidden": math.log2(entry.hidden or 4096),
        "log_layers": math.log2(entry.layers or 40),
        "log_experts": math.log2(entry.experts or 1),
        "top_k": float(entry.top_k or 0),
        "log_expert_width": math.log2(entry.expert_intermediate or 1),
        "expert_share": expert_params_b(entry) / total,
        "latent_kv": float(bool(entry.kv_lora_rank)),
        "sparse_attention": float(bool(entry.index_topk)),
        "linear_attention": float(any("linear" in kind for kind in entry.attention)),
        "log_kv_heads": math.log2(entry.kv_heads or 1),
    }


def hardware_features(gpu: Gpu) -> dict[str, float]:
    """A GPU's generation, memory, bandwidth and peak."""
    number = arch_number(gpu.arch) or 0
    return {
        "hopper": float(number == 90),
        "blackwell_dc": float(number in (100, 103)),
        "blackwell_rtx": float(number in (120, 121)),
        "log_bandwidth": math.log2(gpu.bandwidth_gb_s or 1000),
        "log_memory": math.log2(gpu.memory_gib or 80),
        "log_bf16": math.log2(gpu.tflops.get("bf16") or gpu.tflops.get("fp16") or 100),
        "nvlink": float(bool(gpu.nvlink)),
    }


HARDWARE_FEATURES = (
    "hopper",
    "blackwell_dc",
    "blackwell_rtx",
    "log_bandwidth",
    "log_memory",
    "log_bf16",
    "nvlink",
)
MODEL_FEATURES = (
    "log_total_b",
    "log_active_b",
    "sparsity",
    "log_hidden",
    "log_layers",
    "log_experts",
    "top_k",
    "log_expert_width",
    "expert_share",
    "latent_kv",
    "sparse_attention",
    "linear_attention",
    "log_kv_heads",
)
