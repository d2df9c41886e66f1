"""Does it fit: weights, KV cache, graphs and a second copy against memory, ranks against GPUs.

Owns the estimate that ``check`` shows, with its bounds, and the findings where even the lower bound does not
fit. Pure arithmetic on catalogued sizes: unknown sizes give no estimate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from kb.vocab import models
from kb.vocab.models import ModelEntry
from recommend.findings import Finding
from recommend.question import Query

GIB = 2**30
CONTEXT_GIB = (0.6, 2.0)  # CUDA context, NCCL buffers
GRAPHS_GIB = (0.3, 4.0)  # captured graphs and their workspaces
FORMULA = (
    "per GPU: parameters x bits / 8 / GPUs + context + graphs; KV per token: layers x KV heads x head size "
    "x 2 x bytes, shared by tp (latent attention: layers x (rank + rope) x bytes, on every GPU)"
)
_OFFLOAD = ("cpu_offload_gb", "n_gpu_layers", "kt_num_gpu_experts", "offload", "swap_space_offload")
_NODES = ("nnodes", "distributed_executor_backend", "data_parallel_address", "dist_init_addr", "master_addr")
_PARTIAL = ("llama.cpp", "ktransformers", "ollama", "ik_llama.cpp")
_KV_BYTES = {"fp8": 1.0, "fp8_e4m3": 1.0, "fp8_e5m2": 1.0, "nvfp4": 0.5625, "fp4": 0.5625}
# Families whose published "fp8" checkpoints hold the experts in four bits.
_FOUR_BIT_EXPERTS = {"deepseek-v4": 4}
_HIGH_BITS = {
    "nvfp4": 6.5,
    "mxfp4": 6.5,
    "int4": 6.0,
    "awq": 6.0,
    "gptq": 6.0,
    "w4a16": 6.0,
    "fp8-block": 8.6,
}


def fit(query: Query) -> dict[str, Any] | None:
    """The estimate with its formula and bounds (GiB per GPU), or None where a size is unknown."""
    entry, memory, count = query.entry, query.hardware.memory_gib, query.hardware.count
    bits = weight_bits(query)
    if not (entry and entry.params_total_b and memory and count and bits):
        return None
    replicas = max(int(query.common.get("dp") or 1), 1) if query.engine == "vllm" and not entry.experts else 1
    held = entry.params_total_b * 1e9 / 8 / max(count // replicas, 1) / GIB
    low, high = held * bits[0], held * bits[1]
    most = memory - low - CONTEXT_GIB[0] - GRAPHS_GIB[0]
    least = memory - high - CONTEXT_GIB[1] - GRAPHS_GIB[1]
    kv = kv_gib_per_1k(entry, query)
    return {
        "gpus": count,
        "memory_gib": memory,
        "weights_gib": _bounds(low, high),
        "context_gib": _bounds(*CONTEXT_GIB),
        "graphs_gib": _bounds(*GRAPHS_GIB),
        "second_copy_gib": _bounds(0.0, second_copy_gib(query, high)),
        "kv_gib_per_1k_tokens": None if kv is None else round(kv, 4),
        "left_gib": _bounds(least, most),
        "tokens": None if not kv else _bounds(max(least, 0) / kv * 1000, max(most, 0) / kv * 1000, 0),
        "fits": True if least > 0 else False if most < 0 else None,
        "formula": FORMULA,
    }


def weight_bits(query: Query) -> tuple[float, float] | None:
    """The fewest and most bits per weight, or None where unknown.

    Checkpoints mix precisions, and what is published in fewer bits is not widened by asking for more.
    """
    entry, asked = query.entry, models.weight_bits(query.quantization)
    if entry is None or asked is None:
        return None
    published = models.weight_bits(entry.base_precision)
    low = min(asked, published or asked, _FOUR_BIT_EXPERTS.get(entry.family, asked))
    return float(low), max(_HIGH_BITS.get(query.quantization or "", asked * 1.05), low)


def _bounds(low: float, high: float, digits: int = 1) -> dict[str, float]:
    return {"low": round(low, digits), "high": round(high, digits)}


def second_copy_gib(query: Query, weights_gib: float) -> float:
    """What a kernel that reorders weights at load may need on top: at most another copy of the experts."""
    shuffles = query.kernel("moe") in ("trtllm-gen", "cutlass", "marlin", "cutedsl", "b12x")
    return weights_gib if shuffles else 0.0


def kv_gib_per_1k(entry: ModelEntry, query: Query) -> float | None:
    """GiB of KV cache that a thousand tokens take on one GPU."""
    tp = max(int(query.common.get("tp") or query.hardware.count or 1), 1)
    size = {"fp8": 1.0, "fp8_e4m3": 1.0, "fp8_e5m2": 1.0, "nvfp4": 0.5625, "fp4": 0.5625}.get(
        query.kv_dtype or "", 2.0
    )
    layers = entry.layer_mix.get("full", entry.layers or 0) if entry.layer_mix else entry.layers or 0
    if entry.kv_lora_rank:
        return layers * (entry.kv_lora_rank + (entry.rope_head_dim or 64)) * size * 1000 / GIB
    head_dim = entry.head_dim or ((entry.hidden or 0) // entry.heads if entry.heads else 0)
    if not (layers and entry.kv_heads and head_dim):
        return None
    return 2 * layers * entry.kv_heads * head_dim * size * 1000 / min(tp, entry.kv_heads) / GIB


def too_many_ranks(query: Query) -> Iterator[Finding]:
    """A finding where the parallel sizes need more GPUs than the question names, on one node."""
    sizes = [int(query.common[key]) for key in ("tp", "pp") if isinstance(query.common.get(key), int)]
    ranks = math.prod(sizes)
    count = query.hardware.count
    if count is None or ranks <= count or any(query.settings.get(key) for key in _NODES):
        return
    named = ", ".join(f"{key} {query.common[key]}" for key in ("tp", "pp") if key in query.common)
    yield Finding(
        record="arithmetic:ranks",
        kind="arithmetic",
        title=f"{named} needs {ranks} GPUs; {count} are named",
        verdict="known-bad",
        effect="refused",
        stage="init",
        cause="Every rank takes a GPU of its own; the engine stops when there are fewer.",
        signature="world-size",
        applies_to={"arch": query.arch, "inherited": False, "because": ["count"], "roles": {}},
        instead={"text": f"parallel sizes whose product is at most {count}"},
        evidence=(_computed(f"{' x '.join(map(str, sizes))} = {ranks}"),),
        trust="confirmed",
        weight=(2, 1),
    )


def _computed(how: str) -> dict[str, Any]:
    return {
        "ref": "arithmetic",
        "kind": "source",
        "side": "against",
        "date": None,
        "conditions": how,
        "url": None,
    }


def too_large(query: Query, estimate: dict[str, Any] | None) -> Iterator[Finding]:
    """A finding where even the lower bound of the weights exceeds the memory of the GPUs named.

    Not where a model is named without its publisher or its quantization: it may be served in fewer bits.
    """
    if (
        estimate is None
        or query.entry is None
        or ("quantization" in query.assumed and "/" not in (query.model.name or ""))
        or query.engine in _PARTIAL
        or any(query.settings.get(key) for key in _OFFLOAD)
    ):
        return
    low, memory = estimate["weights_gib"]["low"], estimate["memory_gib"]
    if low < memory:
        return
    total = low * estimate["gpus"]
    needed = int(total // (memory * 0.85)) + 1
    yield Finding(
        record="arithmetic:memory",
        kind="arithmetic",
        title=f"{query.model.id} in {query.quantization} does not fit {estimate['gpus']} x {memory:g} GiB",
        verdict="known-bad",
        effect="oom",
        stage="load",
        cause=f"Its weights alone take at least {total:.0f} GiB: {low:.0f} GiB on each GPU.",
        signature="oom-weights",
        applies_to={"arch": query.arch, "inherited": False, "because": ["count"], "roles": {}},
        instead={
            "text": f"at least {needed} such GPUs, a smaller quantization, or offloading to the host's memory"
        },
        evidence=(_computed(f"{query.entry.params_total_b:g} billion parameters; {FORMULA}"),),
        trust="confirmed",
        weight=(2, 1),
    )
