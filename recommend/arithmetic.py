"""Does it fit: weights, KV cache, graphs and a second copy against memory, ranks against GPUs.

Owns the estimate that ``check`` shows, with its bounds, and the findings where even the lower bound does not
fit. Pure arithmetic on catalogued sizes: unknown sizes give no estimate.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kb.vocab import models
from recommend.findings import Finding
from recommend.question import Query

if TYPE_CHECKING:
    from recommend.weights import Module

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
EXACT = (1.0, 1.03)  # of a checkpoint's own index: what is loaded, and what padding adds
COUNTED = (0.96, 1.1)  # of a count by config.json: norms, indexers, draft heads and vision are left out of it
_NAMED_SIZE = r"(?i)(?<![a-z0-9.])(\d{1,4}(?:\.\d+)?)b(?![a-z0-9])"
PRUNED = (0.25, 0.95)  # of the catalogued size: a name that tells so much is of a pruned checkpoint
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
    memory, count, held = query.hardware.memory_gib, query.hardware.count, held_gib(query)
    if not (memory and count and held):
        return None
    share = 1 / max(count // _replicas(query), 1)
    low, high = held[0] * share, held[1] * share
    most = memory - low - CONTEXT_GIB[0] - GRAPHS_GIB[0]
    least = memory - high - CONTEXT_GIB[1] - GRAPHS_GIB[1]
    kv = kv_gib_per_1k(query)
    return {
        "gpus": count,
        "memory_gib": memory,
        "weights_gib": _bounds(low, high),
        "weights_from": _source(query),
        "modules": [_module_row(one) for one in _modules(query)],
        "context_gib": _bounds(*CONTEXT_GIB),
        "graphs_gib": _bounds(*_graphs(query)),
        "second_copy_gib": _bounds(0.0, second_copy_gib(query, high)),
        "kv_gib_per_1k_tokens": None if kv is None else round(kv, 4),
        "kv_dtype": query.kv_dtype or "bf16",
        "left_gib": _bounds(least, most),
        "tokens": None if not kv else _bounds(max(least, 0) / kv * 1000, max(most, 0) / kv * 1000, 0),
        "fits": True if least > 0 else False if most < 0 else None,
        "formula": FORMULA,
    }


def _replicas(query: Query) -> int:
    """How many whole copies of the weights the GPUs hold: data parallelism of a dense model in vLLM."""
    dense = query.entry is not None and not query.entry.has_experts
    return max(int(query.common.get("dp") or 1), 1) if query.engine == "vllm" and dense else 1


def _graphs(query: Query) -> tuple[float, float]:
    off = query.common.get("graphs") in (False, "off", "none")
    return (0.0, 0.5) if off else GRAPHS_GIB


def held_gib(query: Query) -> tuple[float, float] | None:
    """The least and most GiB of the model's weights altogether, or None where unknown."""
    checkpoint = query.checkpoint
    if checkpoint and checkpoint.weight_bytes:
        size = checkpoint.weight_bytes / GIB
        return size * EXACT[0], size * EXACT[1]
    if size := sum(one.gib for one in _modules(query)):
        return size * COUNTED[0], size * COUNTED[1]
    bits = weight_bits(query)
    if bits is None or not (billions := params_b(query)):
        return None
    plain = billions * 1e9 / 8 / GIB
    return plain * bits[0], plain * bits[1]


def params_b(query: Query) -> float | None:
    """Billions of parameters: as catalogued, or as the name of a pruned checkpoint tells (``REAP-139B``)."""
    entry = query.entry
    if entry is None or not entry.params_total_b:
        return None
    least, most = (entry.params_total_b * part for part in PRUNED)
    told = [float(size) for size in re.findall(_NAMED_SIZE, query.model.name or "")]
    return next((size for size in told if least < size < most), entry.params_total_b)


def _modules(query: Query) -> list[Module]:
    if query.checkpoint is None:
        return []
    from recommend import weights  # noqa: PLC0415 - only where a config.json was given

    return weights.modules(query.checkpoint.config)


def _module_row(one: Module) -> dict[str, Any]:
    return {
        "name": one.name,
        "params_b": round(one.params_b, 3),
        "bits": round(one.bits, 2),
        "gib": round(one.gib, 2),
    }


def _source(query: Query) -> str:
    """What the weights were counted from."""
    if query.checkpoint and query.checkpoint.weight_bytes:
        return "the index of the checkpoint"
    if _modules(query):
        return "config.json"
    bits, entry = weight_bits(query), query.entry
    if bits is None or entry is None:
        return ""
    return f"{params_b(query):g} billion parameters at {bits[0]:g} to {bits[1]:.3g} bits"


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


def kv_gib_per_1k(query: Query) -> float | None:
    """GiB of KV cache that a thousand tokens take on one GPU."""
    size = models.kv_bytes(query.kv_dtype) * 1000 / GIB
    tp = max(int(query.common.get("tp") or query.hardware.count or 1), 1)
    layers, rank, heads, head_size = _cached(query)
    if not layers:
        return None
    if rank:
        return layers * rank * size
    return 2 * layers * heads * head_size * size / min(tp, heads) if heads and head_size else None


def _cached(query: Query) -> tuple[int, int, int, int]:
    """(layers with a full cache, latent width, KV heads, head size); 0 where nothing says."""
    if query.checkpoint:
        from recommend import weights  # noqa: PLC0415 - only where a config.json was given

        if (told := weights.cached(query.checkpoint.config))[0]:
            return told
    entry = query.entry
    if entry is None:
        return 0, 0, 0, 0
    layers = entry.layer_mix.get("full", entry.layers or 0) if entry.layer_mix else entry.layers or 0
    rank = entry.kv_lora_rank + (entry.rope_head_dim or 64) if entry.kv_lora_rank else 0
    head_size = entry.head_dim or ((entry.hidden or 0) // entry.heads if entry.heads else 0)
    return layers, rank, entry.kv_heads or 0, head_size


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

    Only for a question about serving the whole model: who names a kernel with ``--role`` and no launch may
    have measured that kernel alone. Nor where a model is named without its publisher or its quantization: it
    may be served in fewer bits.
    """
    bare = (
        "quantization" in query.assumed and query.checkpoint is None and "/" not in (query.model.name or "")
    )
    if (
        estimate is None
        or bare
        or not _serves(query)
        or query.engine in _PARTIAL
        or any(query.settings.get(key) for key in _OFFLOAD)
    ):
        return
    low, memory = estimate["weights_gib"]["low"], estimate["memory_gib"]
    if low < memory:
        return
    total = low * estimate["gpus"]
    needed = int(total // (memory * 0.85)) + 1
    name = query.model.id or query.model.name
    yield Finding(
        record="arithmetic:memory",
        kind="arithmetic",
        title=f"{name} in {query.quantization} does not fit {estimate['gpus']} x {memory:g} GiB",
        verdict="known-bad",
        effect="oom",
        stage="load",
        cause=f"Its weights alone take at least {total:.0f} GiB: {low:.0f} GiB on each GPU.",
        signature="oom-weights",
        applies_to={"arch": query.arch, "inherited": False, "because": ["count"], "roles": {}},
        instead={
            "text": f"at least {needed} such GPUs, a smaller quantization, or offloading to the host's memory"
        },
        evidence=(_computed(f"{estimate['weights_from']}; {FORMULA}"),),
        trust="confirmed",
        weight=(2, 1),
    )


def _serves(query: Query) -> bool:
    """Whether a whole model is to be served, and not one of its kernels looked at."""
    sized = query.launched or any(key in query.common for key in ("tp", "pp", "ep"))
    return sized or not any(found.by == "said" for found in query.resolved.values())
