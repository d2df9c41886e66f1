"""Engines by any name, and their settings by any spelling: one canonical dest per setting.

Owns the reading of ``engines/<engine>.json`` and of the words that all engines share (tp, kv_dtype …). Must
not
decide kernels (``kb.vocab.spellings``) and must not read command lines (``kb.vocab.commands``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from kb.vocab import options

_FOLDER = Path(__file__).with_name("engines")
ENGINES: tuple[str, ...] = ("sglang", "vllm", "tensorrt-llm", "llama.cpp")
OTHER_ENGINES: Mapping[str, tuple[str, ...]] = {
    "tgi": ("tgi", "text-generation-inference", "text-generation-launcher", "huggingface tgi"),
    "lmdeploy": ("lmdeploy", "turbomind"),
    "ollama": ("ollama",),
    "exllamav2": ("exllamav2", "exllama", "exl2"),
    "exllamav3": ("exllamav3", "exl3", "tabbyapi"),
    "mlc-llm": ("mlc-llm", "mlc"),
    "ktransformers": ("ktransformers",),
    "lightllm": ("lightllm",),
    "transformers": ("transformers", "hf"),
    "flashinfer": ("flashinfer", "flashinfer-python"),
    "atom": ("atom",),
    "dynamo": ("dynamo", "nvidia dynamo"),
}
# What serves models: a range on such a component binds a record to it.
SERVERS = (*ENGINES, *(one for one in OTHER_ENGINES if one not in ("flashinfer", "transformers")))
# How the names of the environment variables begin that only one engine reads.
VARIABLES: Mapping[str, tuple[str, ...]] = {
    "sglang": ("SGLANG_", "SGL_"),
    "vllm": ("VLLM_",),
    "tensorrt-llm": ("TRTLLM_", "TLLM_", "TRT_LLM_"),
    "llama.cpp": ("LLAMA_", "GGML_"),
    "lmdeploy": ("LMDEPLOY_", "TM_"),
    "ollama": ("OLLAMA_",),
    "tgi": ("TGI_",),
}
_KV_DTYPES = (
    ("auto", None),
    ("fp8_e5m2", "fp8_e5m2"),
    ("e5m2", "fp8_e5m2"),
    ("mxfp8", "mxfp8"),
    ("nvfp4", "nvfp4"),
    ("mxfp4", "mxfp4"),
    ("fp4_mx", "mxfp4"),
    ("fp4", "fp4"),
    ("fp8", "fp8"),
    ("e4m3", "fp8"),
    ("bf16", "bf16"),
    ("bfloat16", "bf16"),
    ("fp16", "fp16"),
    ("float16", "fp16"),
    ("half", "fp16"),
    ("f16", "fp16"),
    ("f32", "fp32"),
    ("int8", "int8"),
    ("int4", "int4"),
)


def canonical_engine(text: str | None) -> str | None:
    """The engine a name means (``sgl`` → sglang, ``trtllm`` → tensorrt-llm), or ``None`` when unknown."""
    if not text:
        return None
    word = re.split(r"[=<>~! @]", text.strip().lower(), maxsplit=1)[0].removesuffix("[all]")
    for engine in ENGINES:
        if word == engine or word in dialect(engine)["names"]:
            return engine
    return next((engine for engine, names in OTHER_ENGINES.items() if word in names), None)


_COMMON_WORDS = {
    "tp": ["tensor_parallel_size", "tp_size"],
    "ep": ["ep_size"],
    "dp": ["data_parallel_size", "dp_size"],
    "pp": ["pipeline_parallel_size", "pp_size"],
    "kv_dtype": ["kv_cache_dtype"],
}
_BEYOND_KERNELS = {
    "speculation": ["speculation", "speculative"],
    "pipeline parallelism": ["pp", "pipeline_parallel_size"],
}


@cache
def dialect(engine: str) -> Mapping[str, Any]:
    """The engine's spelling table as data; an empty one for an engine without a table."""
    path = _FOLDER / f"{engine}.json"
    if engine not in ENGINES:
        return {
            "engine": engine,
            "names": [],
            "short": {},
            "renamed": {},
            "common": _COMMON_WORDS,
            "beyond_kernels": _BEYOND_KERNELS,
            "spellings": [],
            "labels": {},
        }
    table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return table


@cache
def beyond_kernels(engine: str | None) -> Mapping[str, tuple[str, ...]]:
    """What changes how kernels are used, and the beginnings of the settings that do it: what works without
    them is no proof for them."""
    return {name: tuple(keys) for name, keys in dialect(engine or "")["beyond_kernels"].items()}


def build_of(engine: str | None, devices: Any) -> str | None:
    """The kind of build that has the named devices (``Vulkan0`` → ``vulkan``), where their names tell."""
    kinds: Mapping[str, str] = dialect(engine or "").get("builds", {})
    return next((kind for start, kind in kinds.items() if str(devices).lower().startswith(start)), None)


@lru_cache(maxsize=4096)
def canonical_dest(engine: str | None, key: str, version: str | None = None) -> str:
    """The dest of a setting given as dest, flag, short name or older name; an unknown key comes back as a
    dest.

    ``tp`` → ``tp_size`` (SGLang) or ``tensor_parallel_size`` (vLLM); ``--nsa-prefill-backend`` →
    ``dsa_prefill_backend``; nested keys keep their dots, and ``attention_config.backend`` becomes the flag
    it sets.
    """
    table = dialect(engine or "")
    head, dot, rest = key.strip().partition(".")
    word = head.lstrip("-").replace("-", "_") if head.startswith("--") or not head.startswith("-") else head
    if dot:
        nested = f"{canonical_dest(engine, head, version)}.{rest}"
        return str(table.get("same_setting", {}).get(nested, table["short"].get(nested, nested)))
    if word in table["short"] and not _is_dest(engine, version, word):
        return str(table["short"][word])
    found = _option(engine, version, head, word)
    dest = found.dest if found else table["short"].get(word.lstrip("-"), word.lstrip("-").replace("-", "_"))
    return str(table["renamed"].get(dest, dest))


def picked_by_memory(engine: str | None, memory_gib: float) -> dict[str, Any]:
    """What an engine sets by itself by the memory of one GPU, where all its releases agree.

    An argument dump shows such a value as if it had been asked for.
    """
    found = {}
    for key, rows in dialect(engine or "").get("by_memory", {}).items():
        for least, below, value in rows:
            if least <= memory_gib < (below or float("inf")):
                found[key] = value
    return found


def setting(settings: Mapping[str, Any], key: str) -> Any:
    """A setting by dotted key: a flat key first, then inside a nested mapping; ``None`` where it is not
    set."""
    if key in settings:
        return settings[key]
    head, dot, rest = key.partition(".")
    inner = settings.get(head)
    return setting(inner, rest) if dot and isinstance(inner, Mapping) else None


def canonical_settings(engine: str | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings under their canonical dests; nested mappings are kept, and what they merely repeat is
    lifted."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        store(engine, found, canonical_dest(engine, key), value)
    same = dialect(engine or "").get("same_setting", {})
    for nested, dest in same.items():
        value = setting(found, nested)
        if value is not None:
            found.setdefault(dest, value)
    return found


def store(engine: str | None, settings: dict[str, Any], key: str, value: Any) -> None:
    """Put a value under a dotted key: nested where the engine takes JSON (vLLM), flat elsewhere.

    A mapping is merged into what is there.
    """
    head, dot, rest = key.partition(".")
    if dot and (dialect(engine or "").get("nested") or isinstance(settings.get(head), Mapping)):
        inner = settings.get(head)
        settings[head] = dict(inner) if isinstance(inner, Mapping) else {}
        store(engine, settings[head], rest, value)
        return
    before = settings.get(key)
    if isinstance(before, Mapping) and isinstance(value, Mapping):
        settings[key] = {**before, **value}
    else:
        settings[key] = value


def common_settings(engine: str | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What all engines have, in one vocabulary: tp, ep, dp, pp (numbers), kv_dtype, max_len, speculation,
    graphs.

    Only what the settings say: a key that is absent was not said. ``graphs`` is ``off``, ``full``,
    ``piecewise``,
    ``full_and_piecewise`` … ; ``speculation`` is ``mtp``, ``eagle``, ``eagle3``, ``ngram``, ``draft`` …
    """
    given = canonical_settings(engine, settings)
    found: dict[str, Any] = {}
    for word, keys in dialect(engine or "")["common"].items():
        value = next((one for key in keys if (one := setting(given, key)) is not None), None)
        if value is not None:
            found[word] = value
    for word in ("tp", "ep", "dp", "pp", "kv_dtype", "speculation", "graphs", "max_len"):
        if word in settings:
            found.setdefault(word, settings[word])
    _say_alike(engine, given, found)
    return {word: value for word, value in found.items() if value is not None}


def kv_dtype_of(text: str | None) -> str | None:
    """The KV cache's type in one word (fp8, fp8_e5m2, bf16, fp16, nvfp4, mxfp4, fp4, mxfp8, int8, q8_0 …)."""
    word = str(text or "").strip().lower()
    if re.fullmatch(r"i?q\d_\w+", word):
        return word
    return next((kind for part, kind in _KV_DTYPES if part in word), word or None)


def speculation_of(text: Any) -> str | None:
    """The way of speculating in one word: mtp, eagle, eagle3, ngram, draft, medusa, dflash …; ``None`` for
    none."""
    word = str(text or "").strip().lower().replace("-", "_")
    if word in ("", "none", "false", "off"):
        return None
    if word == "nextn" or word.endswith("mtp"):
        return "mtp"
    return {
        "standalone": "draft",
        "draft_model": "draft",
        "draft_target": "draft",
        "drafttarget": "draft",
    }.get(word, word)


def _say_alike(engine: str | None, given: Mapping[str, Any], found: dict[str, Any]) -> None:
    if "kv_dtype" in found:
        found["kv_dtype"] = kv_dtype_of(str(found["kv_dtype"]))
    if "speculation" in found:
        found["speculation"] = speculation_of(found["speculation"])
    expert = (
        given.get("enable_expert_parallel") or given.get("enable_ep_moe") or given.get("enable_deepep_moe")
    )
    if truth(expert) and "ep" not in found:
        found["ep"] = int(found.get("tp") or 1) * int(found.get("dp") or 1 if engine == "vllm" else 1)
    spread = setting(given, dialect(engine or "").get("spreads_experts_over_tp", ""))
    if str(spread or "none").lower() != "none" and "tp" in found:
        found["ep"] = found["tp"]  # whatever was said of it
    for word in ("tp", "ep", "dp", "pp", "max_len"):
        if isinstance(found.get(word), str) and found[word].isdigit():
            found[word] = int(found[word])
    graphs = _graphs(given)
    if graphs is not None:
        found["graphs"] = graphs


def _graphs(given: Mapping[str, Any]) -> str | None:
    if truth(given.get("disable_cuda_graph")) or truth(given.get("enforce_eager")):
        return "off"
    mode = setting(given, "compilation_config.cudagraph_mode") or given.get("cuda_graph_backend_decode")
    if mode is None:
        return None
    word = str(mode).rsplit(".", 1)[-1].lower()
    return {"none": "off", "0": "off", "disabled": "off", "tc_piecewise": "piecewise"}.get(word, word)


def truth(value: Any) -> bool:
    """Whether a setting or an environment value switches something on."""
    return str(value).strip().lower() in ("1", "true", "yes", "on")


def _is_dest(engine: str | None, version: str | None, word: str) -> bool:
    known = options.reference(engine, version) if engine else None
    return known is not None and word in known.by_dest


def _option(engine: str | None, version: str | None, head: str, word: str) -> options.Option | None:
    known = options.reference(engine, version) if engine else None
    if known is None:
        return None
    found = known.find(head) if head.startswith("-") else _by_name(known, word)
    return None if found is None or found.constant is not None else found


def _by_name(known: options.Catalog, word: str) -> options.Option | None:
    return known.by_dest.get(word) or known.by_flag.get("--" + word.replace("_", "-"))
