"""Models by any name: hub id, served name, local path, nickname; and the quantization a name tells.

Owns the lookup over ``models.json``. Must not read checkpoints. A size or a kind that no source states is
``None``; a name that no entry covers gives ``None``, and ``nearest`` tells what was probably meant.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kb import EMPTY

LONGEST_NAME = 400  # longer text names no model, and patterns over it would take long
_DATA = Path(__file__).with_name("models.json")
_KV_WORDS = re.compile(
    r"(?:[a-z0-9_]+/)*[a-z0-9_]+[ _-]+kv(?:[ _-]?cache)?\b|kv[ _-]?(?:cache[ _-]?)?(?:nv)?fp[48]\w*"
)
_PART = re.compile(r"\s*[,;/+|]\s*|\s+(?:and|or)\s+")


class ModelEntry(NamedTuple):
    """One model, whatever its quantization. Widths in elements, sizes in billions of parameters.

    ``attention`` names the kinds present: mha, gqa, mla, dsa, sparse, linear-hybrid, sliding, sinks.
    ``expert_intermediate`` is the width of one expert, ``shared_intermediate`` that of the shared ones
    together (0: none). ``mtp``: has layers that predict further tokens.
    ``max_context`` in tokens, without rope scaling. ``quantized`` maps a hub id to its canonical method;
    ``fp8_layout`` is the kind of fp8 meant where a model is published in that one alone.
    """

    id: str
    family: str
    aliases: tuple[str, ...] = ()
    hub_ids: tuple[str, ...] = ()
    architecture: str | None = None
    attention: tuple[str, ...] = ()
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    kv_lora_rank: int | None = None
    rope_head_dim: int | None = None
    index_topk: int | None = None
    sliding_window: int | None = None
    layer_mix: Mapping[str, int] = EMPTY
    experts: int | None = None
    shared_experts: int | None = None
    top_k: int | None = None
    expert_intermediate: int | None = None
    shared_intermediate: int | None = None
    first_dense_layers: int | None = None
    dense_intermediate: int | None = None
    vocab_size: int | None = None
    params_total_b: float | None = None
    params_active_b: float | None = None
    mtp: bool | None = None
    max_context: int | None = None
    released: str | None = None
    base_precision: str | None = None
    fp8_layout: str | None = None
    quantized: Mapping[str, str] = EMPTY
    from_config: bool = False
    source: str | None = None

    @property
    def features(self) -> tuple[str, ...]:
        """What records match on: kinds of attention (mla, dsa, linear-attention …), moe or dense, mtp."""
        found = ["linear-attention" if kind == "linear-hybrid" else kind for kind in self.attention]
        if self.has_experts is not None:
            found.append("moe" if self.has_experts else "dense")
        if self.mtp:
            found.append("mtp")
        return tuple(dict.fromkeys(found))

    @property
    def has_experts(self) -> bool | None:
        """Whether it is a mixture of experts, also where their number is unknown; ``None``: nothing tells."""
        sparse = self.params_active_b is not None and self.params_active_b < (self.params_total_b or 0)
        if self.experts or sparse or "moe" in (self.architecture or "").lower():
            return True
        return False if self.architecture and self.layers else None


def find_model(text: str) -> ModelEntry | None:
    """The model that a hub id, served name, local path or nickname names, or ``None``.

    A text that lists several models gives the first one known.
    """
    for name in _spellings(text):
        for index, row in enumerate(_catalog()["models"]):
            if _hits(row, name):
                return _entry(index)
    return None


def fp8_layout_of(name: str | None, entry: ModelEntry | None) -> str | None:
    """The kind of fp8 meant: where a model is published in one alone, or by the hub id of its makers."""
    if entry and entry.fp8_layout:
        return entry.fp8_layout
    word = (name or "")[:LONGEST_NAME].strip().lower()
    for row in _catalog()["fp8_hub_ids"]:
        if re.fullmatch(row["match"], word):
            return str(row["layout"])
    return None


def family_of(text: str) -> str | None:
    """The family a name belongs to, also where only that is known (``DeepSeek-V4`` → deepseek-v4)."""
    model = find_model(text)
    if model:
        return model.family
    for name in _spellings(text):
        for row in _catalog()["families"]:
            if _hits(row, name):
                return str(row["family"])
    return None


def families_of(family: str, *names: str | None) -> tuple[str, ...]:
    """A family and the narrower ones that names spell: ``kimi-k2``, and for Kimi-K2.5-NVFP4 ``kimi-k2.5``."""
    found = [family]
    for name in names:
        parts = canonical_name(name or "").split("-")
        starts = ["-".join(parts[: end + 1]) for end in range(len(parts))]
        found += [start for start in starts if is_narrower(start, family)]
    return tuple(dict.fromkeys(found))


def is_narrower(name: str, family: str) -> bool:
    """Whether a name says more than a family's: ``kimi-k2.5`` and ``deepseek-v4-pro`` do, ``glm5`` not."""
    return name.startswith(family) and name != family


def find_by_architecture(
    architecture: str, layers: int | None = None, hidden: int | None = None
) -> ModelEntry | None:
    """The one model of an architecture class with these sizes, or ``None`` if none or several fit."""
    rows = [
        index
        for index, row in enumerate(_catalog()["models"])
        if row.get("architecture") == architecture
        and layers in (None, row.get("layers"))
        and hidden in (None, row.get("hidden"))
    ]
    return _entry(rows[0]) if len(rows) == 1 else None


def quantization_of(text: str) -> str | None:
    """The weight quantization a name or an engine's value tells, in canonical words, or ``None``.

    Words: nvfp4, nvfp4-mixed, mxfp4, mxfp6, mxfp8, fp8, fp8-block, w4a8, awq, gptq, gptq-int8, autoround,
    w4a16, w8a16, w8a8-int8, int4, int8, bitsandbytes, exl, mlx, ``gguf`` with its type (``gguf q4_k_m``),
    bf16, fp16, fp32. What is said of the KV cache is left out; of several methods the first counts.
    """
    found = quantizations_of(text)
    return found[0] if found else None


@cache
def quantizations_of(text: str) -> tuple[str, ...]:
    """Every weight quantization a text lists (``nvfp4, fp8`` → both), in the order it lists them."""
    text = text[:LONGEST_NAME]
    word = _KV_WORDS.sub(" ", text.lower())
    whole = _named_by_hub_id(text)
    parts = [word] if "/" in word and _looks_like_path(word) else _PART.split(word)
    found = [method for method in map(_method, parts) if method]
    return tuple(dict.fromkeys(([whole] if whole else []) + found))


def quantization_groups(method: str) -> tuple[str, ...]:
    """A method and what it also counts as: ``fp8-block`` → (fp8-block, fp8)."""
    wider = _catalog()["groups"].get(method, ["gguf"] if method.startswith("gguf ") else [])
    return (method, *wider)


def weight_bits(method: str | None) -> int | None:
    """Bits per weight of a canonical method, or ``None`` where it varies or is unknown."""
    if not method:
        return None
    for row in _catalog()["quantizations"]:
        if row["method"] == method:
            return int(row["bits"]) if row.get("bits") else None
    digits = re.search(r"gguf i?q(\d)", method)
    return int(digits[1]) if digits else None


def kv_bytes(dtype: str | None) -> float:
    """Bytes per number in a KV cache of a type, with its scales; two where the type is the model's own."""
    word = (dtype or "").lower()
    return 1.0 if word.startswith("fp8") else 0.5625 if word in ("nvfp4", "fp4", "mxfp4") else 2.0


def nearest(text: str) -> str | None:
    """The known model id closest to an unknown name, or ``None`` when nothing is close."""
    import difflib  # noqa: PLC0415 - only needed after a miss

    names: dict[str, str] = {}
    for row in _catalog()["models"]:
        names |= {alias.lower(): row["id"] for alias in (row["id"], *row.get("aliases", ()))}
    found = difflib.get_close_matches(canonical_name(text[:LONGEST_NAME]), names, n=1, cutoff=0.6)
    return names[found[0]] if found else None


def canonical_name(text: str) -> str:
    """A name as the patterns expect it: lower case, last path part, hyphens for spaces and underscores."""
    word = text.strip().lower().rstrip("/")
    if "/" in word and not re.search(r"\s[^/]*/", word):
        word = word.rsplit("/", 1)[-1]
    return re.sub(r"[\s_]+", "-", word)


def _spellings(text: str) -> list[str]:
    """Names to try: of each listed one the last part, then (for cache folders) the parts before it."""
    listed = [part for part in re.split(r"\s*[,;]\s*", text[:LONGEST_NAME]) if part]
    return list(dict.fromkeys(name for part in listed for name in _spellings_of_one(part)))


def _spellings_of_one(text: str) -> list[str]:
    names = [canonical_name(text)]
    parts = [part for part in re.split(r"[/\\]", text.strip().lower()) if part]
    if len(parts) > 2:
        names += [re.sub(r"[\s_]+", "-", part.rsplit("--", 1)[-1]) for part in reversed(parts[:-1])]
    elif "--" in text:
        names.append(canonical_name(text.rsplit("--", 1)[-1]))
    return list(dict.fromkeys(names))


def _hits(row: Mapping[str, Any], name: str) -> bool:
    hint = row.get("hint")
    if hint and not any(literal in name for literal in hint):
        return False
    return re.search(row["match"], name) is not None


def _method(text: str) -> str | None:
    for row in _catalog()["quantizations"]:
        hint = row.get("hint")
        if hint and not any(literal in text for literal in hint):
            continue
        hit = re.search(row["match"], text)
        if hit:
            return _spelled(row["method"], hit[0], text)
    return None


def _spelled(method: str, hit: str, text: str) -> str:
    if method == "gguf":
        kind = hit.replace("-", "_")
        return "gguf" if kind == "gguf" else f"gguf {kind}"
    if method == "fp4":
        return "mxfp4" if text.startswith("amd/") else "nvfp4"
    return method


def _named_by_hub_id(text: str) -> str | None:
    for row in _catalog()["models"]:
        for hub_id, method in row.get("quantized", {}).items():
            if hub_id == text:
                return str(method)
    return None


def _looks_like_path(word: str) -> bool:
    return word.startswith(("/", "~", ".", "amd/")) or re.fullmatch(r"[\w.-]+/[\w.-]{8,}", word) is not None


@cache
def _entry(index: int) -> ModelEntry:
    row = _catalog()["models"][index]
    fields = {key: row[key] for key in ModelEntry._fields if key in row}
    lists = {key: tuple(fields[key]) for key in ("aliases", "hub_ids", "attention") if key in fields}
    source = _catalog()["sources"][row["source"]] if "source" in row else None
    fields.setdefault("shared_intermediate", _shared_width(row))
    return ModelEntry(**fields | lists | {"source": source})


def _shared_width(row: Mapping[str, Any]) -> int:
    """The width of all shared experts together, where the catalog does not state it; 0: there are none."""
    return int(row.get("shared_experts") or 0) * int(row.get("expert_intermediate") or 0)


@cache
def _catalog() -> dict[str, Any]:
    catalog: dict[str, Any] = json.loads(_DATA.read_text(encoding="utf-8"))
    return catalog
