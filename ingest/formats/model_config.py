"""Files of a checkpoint: ``config.json``, ``hf_quant_config.json``, ``generation_config.json``.

Owns what they say about architecture and quantization. Sizes that the model catalog knows are not copied.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ingest.formats import Format, Unreadable
from ingest.sources import Source
from ingest.traces import line_count
from kb.model import Experiment, Model, Reading
from kb.vocab.models import find_by_architecture, find_model, quantization_of

_LARGEST = 8 << 20
_SIZES = (
    "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim",
    "intermediate_size", "moe_intermediate_size", "num_experts", "n_routed_experts", "num_local_experts",
    "num_experts_per_tok", "max_position_embeddings", "vocab_size", "kv_lora_rank",
    "qk_rope_head_dim", "sliding_window", "index_topk",
    "num_nextn_predict_layers", "torch_dtype", "dtype", "model_type",
)  # fmt: skip


def sniff(source: Source) -> float:
    """Keys that only these files have."""
    head = source.head.lstrip("\ufeff \t\r\n")
    if not head.startswith("{"):
        return 0.0
    if '"architectures"' in head and '"model_type"' in head:
        return 0.95
    if '"producer"' in head and '"quant_algo"' in head:
        return 0.97
    generation = '"eos_token_id"' in head and ('"transformers_version"' in head or '"do_sample"' in head)
    return 0.85 if generation and '"architectures"' not in head and len(head) < 4000 else 0.0


def read(source: Source) -> Reading:
    """Architecture, quantization with its layout, and the sizes."""
    try:
        raw = json.loads(source.text[:_LARGEST].lstrip("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"the JSON is damaged or cut: {error}") from None
    if not isinstance(raw, dict):
        raise Unreadable("the JSON holds no object at its top")
    model, extra = _model(raw)
    return Reading(
        path=str(source.path),
        format="model_config",
        kind="config",
        experiments=(Experiment(model=model),) if model != Model() else (),
        lines=line_count(source.text.count("\n") + 1),
        extra=extra,
    )


def _model(raw: Mapping[str, Any]) -> tuple[Model, dict[str, Any]]:
    architectures = raw.get("architectures")
    architecture = architectures[0] if isinstance(architectures, list) and architectures else None
    text = raw.get("text_config")
    sizes = {**raw, **text} if isinstance(text, dict) else raw
    name = raw.get("_name_or_path") if isinstance(raw.get("_name_or_path"), str) else None
    entry = (find_model(name) if name else None) or _entry(architecture, sizes)
    quantization = quantization_in(raw)
    model = Model(
        name=name or None,
        id=entry.id if entry else None,
        family=entry.family if entry else None,
        architecture=architecture if isinstance(architecture, str) else None,
        quantization=quantization.get("method"),
    )
    kept = {key: sizes[key] for key in _SIZES if isinstance(sizes.get(key), int | float | str)}
    extra: dict[str, Any] = {"sizes": kept} if kept else {}
    return model, extra | ({"quantization": quantization} if quantization else {})


def _entry(architecture: object, sizes: Mapping[str, Any]) -> Any:
    if not isinstance(architecture, str):
        return None
    layers, hidden = sizes.get("num_hidden_layers"), sizes.get("hidden_size")
    if not isinstance(layers, int) or not isinstance(hidden, int):
        return None
    try:
        return find_by_architecture(architecture, layers, hidden)
    except (TypeError, ValueError):
        return None


def quantization_in(raw: Mapping[str, Any]) -> dict[str, Any]:
    """``method`` (canonical), ``layout`` (as the file names it), ``kv_dtype``, ``group_size``, ``block``.

    Reads ``quantization_config`` of a config and the ``quantization`` group of ModelOpt's own file.
    """
    told = raw.get("quantization_config") or raw.get("quantization")
    if not isinstance(told, dict):
        return {}
    algorithm = told.get("quant_algo") or told.get("quant_method") or told.get("fmt")
    words = [told.get("quant_algo"), _weights(told), told.get("format"), told.get("quant_method")]
    method = next(
        (found for word in words if isinstance(word, str) and (found := quantization_of(word))), None
    )
    bits = told.get("bits") or told.get("w_bit")
    kept = {
        "method": method or (str(algorithm).lower() if algorithm else None),
        "layout": told.get("quant_method") or algorithm,
        "kv_dtype": told.get("kv_cache_quant_algo") or told.get("kv_cache_scheme"),
        "group_size": told.get("group_size"),
        "bits": bits if isinstance(bits, int) else None,
        "block": told.get("weight_block_size"),
        "ignored": _count(
            told.get("exclude_modules") or told.get("ignore") or told.get("modules_to_not_convert")
        ),
    }
    return {key: value for key, value in kept.items() if value is not None}


def _weights(told: Mapping[str, Any]) -> str | None:
    """Of compressed-tensors: number and type of bits of the weights, in the words of quantization methods."""
    groups = told.get("config_groups")
    group = next(iter(groups.values()), None) if isinstance(groups, dict) else None
    weights = group.get("weights") if isinstance(group, dict) else None
    if not isinstance(weights, dict):
        return None
    bits, kind, size = weights.get("num_bits"), weights.get("type"), weights.get("group_size")
    if kind == "float" and bits == 4:
        return "nvfp4" if size == 16 else "mxfp4" if size == 32 else "fp4"
    if kind == "float" and bits == 8:
        return "fp8"
    return f"w{bits}a16" if bits else None


def _count(value: object) -> int | None:
    return len(value) if isinstance(value, list) else None


FORMAT = Format(
    name="model_config",
    kind="config",
    sniff=sniff,
    read=read,
    docs="Files of a checkpoint (`config.json`, `hf_quant_config.json`, `generation_config.json`): "
    "architecture, sizes, and the quantization with its layout.",
)
