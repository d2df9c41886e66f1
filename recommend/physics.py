"""What a serving configuration could do at best, from bytes, operations and links alone.

Owns the roofline estimate that the regression corrects. Pure arithmetic: no files, no clock, nothing learned.
Unknown sizes make the estimate ``None``, never a guess.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kb import EMPTY
from kb.vocab.gpus import Gpu
from kb.vocab.models import ModelEntry

MEMORY_EFFICIENCY = 0.75
COMPUTE_EFFICIENCY = 0.55
LINK_EFFICIENCY = 0.7
LAYER_OVERHEAD_S = 6e-6
NVLINK_LATENCY_S = 8e-6
PCIE_LATENCY_S = 30e-6
PCIE_GB_S = {3: 16.0, 4: 32.0, 5: 64.0, 6: 128.0}


class Load(NamedTuple):
    """The workload: tokens in and out per request, requests in flight."""

    input_len: int
    output_len: int
    concurrency: int


class Layout(NamedTuple):
    """How the model lies on the GPUs: parallel sizes, bits per weight (experts and the rest), KV bytes.

    ``compute`` names the tensor-core precision (``bf16``, ``fp8``, ``fp4``) of the large products.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    moe_tp: int | None = None
    expert_bits: float = 16
    dense_bits: float = 16
    kv_bytes: float = 2
    compute: str = "bf16"

    @property
    def gpus(self) -> int:
        """GPUs in use: tensor ranks times pipeline stages times attention replicas."""
        return self.tp * self.pp * self.dp


class Estimate(NamedTuple):
    """Seconds and tokens per second at the roofline; ``parts`` are one decode step's seconds by cause."""

    prefill_s: float
    step_s: float
    ttft_s: float
    output_tok_s: float
    parts: Mapping[str, float] = EMPTY
    weight_gib_per_gpu: float = 0.0
    kv_bytes_per_token: float = 0.0


def estimate(gpu: Gpu, entry: ModelEntry, layout: Layout, load: Load) -> Estimate | None:
    """The roofline of one configuration, or ``None`` where a size that it needs is unknown."""
    if not (gpu.bandwidth_gb_s and gpu.tflops and entry.params_total_b and entry.layers and entry.hidden):
        return None
    kv = kv_bytes_per_token(entry, layout)
    if kv is None:
        return None
    parts = step_parts(gpu, entry, layout, load, kv)
    step = sum(parts.values())
    prefill = load.input_len * prefill_s_per_token(gpu, entry, layout)
    # Requests in flight arrive together: on average half of them wait for the others' prefill.
    ttft = prefill * (1 + load.concurrency / layout.dp) / 2 + step
    output = load.concurrency * load.output_len
    busy = ttft + (load.output_len - 1) * step + prefill * load.concurrency / layout.dp / 2
    return Estimate(
        prefill_s=prefill,
        step_s=step,
        ttft_s=ttft,
        output_tok_s=output / busy,
        parts=parts,
        weight_gib_per_gpu=weight_bytes_per_gpu(entry, layout) / 2**30,
        kv_bytes_per_token=kv,
    )


def step_parts(gpu: Gpu, entry: ModelEntry, layout: Layout, load: Load, kv_bytes: float) -> dict[str, float]:
    """Seconds of one decode step by what they are spent on: weights, compute, kv, links, overhead."""
    bandwidth = (gpu.bandwidth_gb_s or 0) * 1e9 * MEMORY_EFFICIENCY
    batch = max(load.concurrency / layout.dp, 1)
    weights = weight_bytes_read(entry, layout, load.concurrency) / bandwidth
    compute = 2e9 * active_b(entry) * load.concurrency / layout.gpus / flops_per_s(gpu, layout)
    context = load.input_len + load.output_len / 2
    return {
        "weights": max(weights - compute, 0.0),
        "compute": compute,
        "kv": batch * seen_context(entry, context) * kv_bytes / bandwidth,
        "links": link_s(gpu, entry, layout, batch),
        "overhead": (entry.layers or 0) * LAYER_OVERHEAD_S,
    }


def prefill_s_per_token(gpu: Gpu, entry: ModelEntry, layout: Layout) -> float:
    """Seconds of prefill per input token: operations against peak, activations against the link."""
    compute = 2e9 * active_b(entry) / (layout.tp * layout.pp) / flops_per_s(gpu, layout)
    return compute + link_bytes_s(gpu, entry, layout, 1)


def flops_per_s(gpu: Gpu, layout: Layout) -> float:
    """Usable operations per second in the layout's precision, or the next wider one that the GPU has."""
    wider = {"fp4": ("fp4", "fp8", "bf16", "fp16"), "fp8": ("fp8", "bf16", "fp16")}.get(
        layout.compute, ("bf16", "fp16")
    )
    peak = next((gpu.tflops[name] for name in wider if name in gpu.tflops), max(gpu.tflops.values()))
    return float(peak) * 1e12 * COMPUTE_EFFICIENCY


def active_b(entry: ModelEntry) -> float:
    """Billions of parameters that one token meets."""
    return entry.params_active_b or entry.params_total_b or 0.0


def expert_params_b(entry: ModelEntry) -> float:
    """Billions of parameters in routed experts; 0 for a dense model."""
    if not (entry.experts and entry.expert_intermediate and entry.hidden and entry.layers):
        return 0.0
    layers = entry.layers - (entry.first_dense_layers or 0)
    counted = layers * entry.experts * 3 * entry.hidden * entry.expert_intermediate / 1e9
    return min(counted, 0.97 * (entry.params_total_b or counted))


def weight_bytes_per_gpu(entry: ModelEntry, layout: Layout) -> float:
    """Bytes of weights that one GPU holds."""
    experts = expert_params_b(entry)
    rest = (entry.params_total_b or 0.0) - experts
    return (
        1e9
        / 8
        * (
            experts * layout.expert_bits / expert_ranks(layout)
            + rest * layout.dense_bits / (layout.tp * layout.pp)
        )
    )


def expert_ranks(layout: Layout) -> int:
    """GPUs over which the experts are spread."""
    return (layout.moe_tp or layout.gpus // layout.ep or 1) * layout.ep if layout.ep > 1 else layout.gpus


def weight_bytes_read(entry: ModelEntry, layout: Layout, tokens: float) -> float:
    """Bytes of weights that one GPU reads for ``tokens`` tokens: only the experts that they touch."""
    experts = expert_params_b(entry)
    rest = (entry.params_total_b or 0.0) - experts
    touched = 1 - (1 - (entry.top_k or 0) / entry.experts) ** tokens if entry.experts else 0.0
    held = experts * touched * layout.expert_bits / expert_ranks(layout)
    return 1e9 / 8 * (held + rest * layout.dense_bits / (layout.tp * layout.pp))


def kv_bytes_per_token(entry: ModelEntry, layout: Layout) -> float | None:
    """Bytes of KV cache per token that one GPU holds; latent (MLA) caches are copied to every tensor rank."""
    layers = entry.layer_mix.get("full", entry.layers or 0) if entry.layer_mix else entry.layers or 0
    if entry.kv_lora_rank:
        return layers * (entry.kv_lora_rank + (entry.rope_head_dim or 64)) * layout.kv_bytes / layout.pp
    if not (entry.kv_heads and (entry.head_dim or (entry.hidden and entry.heads))):
        return None
    head_dim = entry.head_dim or (entry.hidden or 0) // (entry.heads or 1)
    return (
        2 * layers * entry.kv_heads * head_dim * layout.kv_bytes / min(layout.tp, entry.kv_heads) / layout.pp
    )


def seen_context(entry: ModelEntry, context: float) -> float:
    """Tokens that one decode step attends to: sparse attention stops at its top-k."""
    return min(context, entry.index_topk) if entry.index_topk else context


def link_s(gpu: Gpu, entry: ModelEntry, layout: Layout, batch: float) -> float:
    """Seconds per step in the two all-reduces of each layer."""
    if layout.tp == 1:
        return 0.0
    latency = NVLINK_LATENCY_S if gpu.nvlink_gb_s else PCIE_LATENCY_S
    return 2 * (entry.layers or 0) * latency + batch * link_bytes_s(gpu, entry, layout, 1)


def link_bytes_s(gpu: Gpu, entry: ModelEntry, layout: Layout, tokens: float) -> float:
    """Seconds that the bytes of the all-reduces of ``tokens`` tokens take, latency aside."""
    if layout.tp == 1:
        return 0.0
    link = (
        (gpu.nvlink_gb_s / 2 if gpu.nvlink_gb_s else PCIE_GB_S.get(gpu.pcie_gen or 4, 32.0))
        * 1e9
        * LINK_EFFICIENCY
    )
    sent = 2 * (entry.layers or 0) * (entry.hidden or 0) * 2 * 2 * (layout.tp - 1) / layout.tp
    return tokens * sent / link
