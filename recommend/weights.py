"""How many bytes a checkpoint's weights take, module by module, from its own ``config.json``.

Owns counting parameters per kind of module and the bits that each is stored in: what the quantization leaves
out stays in 16 bits. Pure; the configuration is untrusted data, and what it does not say is not counted.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kb.vocab.models import quantization_of, weight_bits

Json = Mapping[str, Any]
PLAIN_BITS = 16.0
_STORED = {"nvfp4": 4.5, "mxfp4": 4.25, "int4": 4.25, "awq": 4.25, "gptq": 4.25, "w4a16": 4.25}
_MOST_PATTERNS = 4000


class Module(NamedTuple):
    """A kind of module: parameters in billions, and the mean bits that each is stored in."""

    name: str
    params_b: float
    bits: float

    @property
    def gib(self) -> float:
        """Bytes of the kind in GiB."""
        return self.params_b * 1e9 * self.bits / 8 / 2**30


def modules(config: Json) -> list[Module]:
    """Kinds of modules of a language model, largest first; empty where the sizes are not given."""
    sizes = _sizes(config)
    if not all(_number(sizes, key) for key in ("hidden_size", "num_hidden_layers")):
        return []
    quantization = config.get("quantization_config") or sizes.get("quantization_config")
    told = quantization if isinstance(quantization, Mapping) else {}
    layers = int(_number(sizes, "num_hidden_layers"))
    covered = _covered(told, layers)
    base = _bits(told, sizes)
    found = [
        Module(name, params / 1e9, base * covered(name) + PLAIN_BITS * (1 - covered(name)))
        for name, params in _parameters(sizes, layers)
        if params
    ]
    return sorted(found, key=lambda one: -one.gib)


def method_of(config: Json) -> str | None:
    """The canonical quantization that a configuration names, or None where it names none."""
    told = config.get("quantization_config") or _sizes(config).get("quantization_config")
    if not isinstance(told, Mapping):
        return None
    words = [told.get(key) for key in ("quant_algo", "format", "quant_method", "fmt")]
    method = next((one for word in words if isinstance(word, str) and (one := quantization_of(word))), None)
    return "fp8-block" if method == "fp8" and told.get("weight_block_size") else method


def cached(config: Json) -> tuple[int, int, int, int]:
    """(layers with a full KV cache, latent width, KV heads, head size), 0 where it does not say."""
    sizes = _sizes(config)
    kinds = sizes.get("layer_types")
    layers = int(_number(sizes, "num_hidden_layers"))
    if isinstance(kinds, list) and "full_attention" in kinds:
        layers = kinds.count("full_attention")
    rank = int(_number(sizes, "kv_lora_rank"))
    latent = rank + int(_number(sizes, "qk_rope_head_dim")) if rank else 0
    heads = _number(sizes, "num_attention_heads")
    groups = int(_number(sizes, "num_key_value_heads") or heads)
    size = _number(sizes, "head_dim") or (_number(sizes, "hidden_size") / heads if heads else 0)
    return layers, latent, groups, int(size)


def _sizes(config: Json) -> Json:
    text = config.get("text_config")
    return {**config, **text} if isinstance(text, Mapping) else config


def _number(sizes: Json, *keys: str) -> float:
    """The first of these sizes that is a sane number, else 0."""
    values = (sizes.get(key) for key in keys)
    sane = (one for one in values if isinstance(one, int | float) and not isinstance(one, bool))
    return float(next((one for one in sane if 0 < one < 1e9), 0))


def _bits(told: Json, sizes: Json) -> float:
    """Bits of a quantized weight, the scales of its blocks included."""
    method = method_of({"quantization_config": told}) if told else None
    if method:
        return _STORED.get(method, float(weight_bits(method) or PLAIN_BITS))
    given = told.get("bits") or told.get("w_bit")
    if isinstance(given, int) and 1 < given <= PLAIN_BITS:
        return given + 0.25
    return 32.0 if sizes.get("torch_dtype", sizes.get("dtype")) == "float32" else PLAIN_BITS


def _parameters(sizes: Json, layers: int) -> Iterator[tuple[str, float]]:
    hidden, vocabulary = _number(sizes, "hidden_size"), _number(sizes, "vocab_size")
    experts = _number(sizes, "n_routed_experts", "num_experts", "num_local_experts")
    dense = min(_number(sizes, "first_k_dense_replace"), layers) if experts else layers
    inner = _number(sizes, "moe_intermediate_size", "intermediate_size") if experts else 0.0
    shared = _number(sizes, "shared_expert_intermediate_size") or inner * _number(sizes, "n_shared_experts")
    yield "routed experts", (layers - dense) * experts * 3 * hidden * inner
    yield "shared experts", (layers - dense) * 3 * hidden * shared
    yield "router", (layers - dense) * hidden * experts
    yield "dense layers", dense * 3 * hidden * _number(sizes, "intermediate_size")
    yield "attention", layers * _attention(sizes, hidden)
    yield "embedding", hidden * vocabulary
    yield "output head", 0.0 if sizes.get("tie_word_embeddings") is True else hidden * vocabulary


def _attention(sizes: Json, hidden: float) -> float:
    """Parameters of one layer's attention: latent where a rank is given, else grouped."""
    heads = _number(sizes, "num_attention_heads")
    rank = _number(sizes, "kv_lora_rank")
    if not rank:
        groups = _number(sizes, "num_key_value_heads") or heads
        size = _number(sizes, "head_dim") or (hidden / heads if heads else 0)
        gate = heads if sizes.get("attn_output_gate") is True else 0
        return hidden * size * (2 * heads + 2 * groups + gate)
    rope, plain = _number(sizes, "qk_rope_head_dim"), _number(sizes, "qk_nope_head_dim")
    value, low = _number(sizes, "v_head_dim"), _number(sizes, "q_lora_rank")
    query = low * (hidden + heads * (plain + rope)) if low else hidden * heads * (plain + rope)
    return query + hidden * (rank + rope) + rank * heads * (plain + value) + heads * value * hidden


_PATHS = {
    "routed experts": (
        "model.layers.{}.mlp.experts.0.up_proj",
        "model.layers.{}.block_sparse_moe.experts.0.w1",
    ),
    "shared experts": (
        "model.layers.{}.mlp.shared_experts.up_proj",
        "model.layers.{}.mlp.shared_expert.up_proj",
    ),
    "dense layers": ("model.layers.{}.mlp.up_proj",),
    "attention": ("model.layers.{}.self_attn.q_proj", "model.layers.{}.self_attn.q_b_proj"),
}
_ALWAYS_PLAIN = ("router", "embedding", "output head")


def _covered(told: Json, layers: int) -> Any:
    """A function from a kind to the share of its layers that the quantization covers."""
    listed = told.get("ignore") or told.get("exclude_modules") or told.get("modules_to_not_convert") or ()
    texts = (
        [one for one in listed if isinstance(one, str)][:_MOST_PATTERNS] if isinstance(listed, list) else []
    )
    left_out = _matcher(texts)

    def share(kind: str) -> float:
        if not told:
            return 1.0
        if kind in _ALWAYS_PLAIN:
            return 0.0
        out = sum(any(left_out(path.format(at)) for path in _PATHS[kind]) for at in range(layers))
        return 1.0 - out / layers

    shares = {kind: share(kind) for kind in (*_PATHS, *_ALWAYS_PLAIN)}
    return shares.__getitem__


def _matcher(texts: list[str]) -> Any:
    """Whether a module's path is named: as it stands, as a prefix of it, or by a pattern with ``*``."""
    globs = {_as_glob(text) for text in texts}
    plain = tuple(one for one in globs if "*" not in one)
    patterns = [fnmatch.translate(one) for one in globs if "*" in one]
    pattern = re.compile("|".join(patterns)) if patterns else None

    def named(path: str) -> bool:
        forms = (path, path.replace("model.", "model.language_model.", 1), path.replace("model.", "", 1))
        prefixed = any(form == one or form.startswith(one + ".") for form in forms for one in plain)
        return prefixed or bool(pattern and any(pattern.match(form) for form in forms))

    return named


def _as_glob(text: str) -> str:
    """``re:.*self_attn.*`` as ``*self_attn*``: module lists use no more of regular expressions than that."""
    word = text.removeprefix("re:").removeprefix("^").removesuffix("$").replace("\\", "")
    word = re.sub(r"\*+", "*", word.replace(".*", "*")).replace("[0-9]+", "*").replace("d+", "*")
    return f"*{word}*" if re.fullmatch(r"\w+", word) and word != "model" else word
