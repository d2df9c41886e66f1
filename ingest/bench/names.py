"""The vocabulary as benchmarks need it: GPUs, models, engines, and settings under the engine's own names.

Owns the bridge to ``kb.vocab``. Must not hold knowledge of its own beyond spellings of benchmark files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any

from ingest.bench.quantities import labels
from kb.vocab import options
from kb.vocab.engines import ENGINES, canonical_dest, canonical_engine
from kb.vocab.gpus import Gpu, arch_of, find_gpu
from kb.vocab.models import ModelEntry, find_model, quantization_of

_MORE_ENGINES: dict[str, str] = labels("engines")
_OF_CLIENTS = frozenset(labels("of_clients"))  # options that a benchmark or a request has as well


@lru_cache(maxsize=512)
def gpu(printed: str) -> Gpu | None:
    """The catalogued product of a printed name."""
    return find_gpu(printed) or find_gpu(re.sub(r"(?i)[\s_-]*(?:gpus?|accelerators?)$", "", printed))


@lru_cache(maxsize=512)
def arch(printed: str) -> str | None:
    """The architecture that a printed name tells."""
    return arch_of(printed)


@lru_cache(maxsize=512)
def model(printed: str | None) -> ModelEntry | None:
    """The catalogued model of a printed name."""
    return find_model(printed) if printed else None


@lru_cache(maxsize=512)
def quantization(text: str | None) -> str | None:
    """The weight quantization that a name tells (``…-NVFP4``, ``fp8``), canonical."""
    return quantization_of(text) if text else None


@lru_cache(maxsize=512)
def engine(printed: str | None) -> str | None:
    """The canonical engine of a printed name; an unknown one as printed; ``None`` for an empty one."""
    text = (printed or "").strip()
    return known_engine(text) or text or None


def known_engine(text: str) -> str | None:
    """The canonical engine of a name, or ``None`` where it names none."""
    return canonical_engine(text) or _MORE_ENGINES.get(text.strip().lower().replace("_", "-"))


def release(text: str) -> str:
    """A version without the engine's own name before it ("vllm-v0.20.1", "SGLang 0.5.3")."""
    found = re.fullmatch(r"([A-Za-z][\w.-]*?)[\s:=_-]+v?(\d+\.\d[\w.+-]*)", text.strip())
    return found[2] if found and known_engine(found[1]) else text


def engine_within(text: str) -> str | None:
    """The one engine that a compound name holds ("qwen3_awq_sglang"); ``None`` where it is not one."""
    if known_engine(text):
        return known_engine(text)
    held = engines_among(re.split(r"[^A-Za-z0-9.]+", text))
    return held.pop() if len(held) == 1 else None


def engines_among(words: list[str]) -> set[str]:
    """Engines by one word or by two that stand together ("llama", "cpp"), of which none counts alone."""
    both = {at: found for at, pair in enumerate(pairwise(words)) if (found := known_engine("".join(pair)))}
    alone = {
        found
        for at, word in enumerate(words)
        if (found := known_engine(word)) and not {at, at - 1} & both.keys()
    }
    return alone | set(both.values())


SERVERS = frozenset((*ENGINES, *labels("servers")))  # a library such as FlashInfer serves nothing
_BUILD = r"[\s:=-]+(?:v|version )?(b\d{4,5}|\d+\.\d+[\w.+-]*)"


def server_in(text: str) -> tuple[str, str | None] | None:
    """The one server and its release among a cell's words ("Vulkan, llama.cpp b9049", "vllm-rocm 0.11")."""
    found: dict[str, str] = {}
    for word in re.split(r"[\s,;()/+|]+", text):
        for spoken in (word, word.split("-")[0], word.split("_")[0]):
            known = known_engine(spoken)
            if known in SERVERS and not (known == "tensorrt-llm" and "_" in word):  # "trtllm_mha" is a kernel
                found.setdefault(known, spoken)
                break
    if len(found) != 1:
        return None
    engine_name, spoken = found.popitem()
    release = re.search(re.escape(spoken) + _BUILD, text)
    return engine_name, release[1] if release else None


def settings(engine_name: str | None, common: Mapping[str, Any]) -> dict[str, Any]:
    """Settings under the engine's own names; common names stay where the engine is unknown."""
    found: dict[str, Any] = {}
    for key, value in common.items():
        dest = canonical_dest(engine_name, key)
        if value is not None:
            width = isinstance(value, int) and not isinstance(value, bool)
            found[dest] = value > 1 if width and dest.startswith("enable_") else value
    return found


@lru_cache(maxsize=1024)
def is_option(label: str, served_by: str | None = None) -> bool:
    """Whether the engine, or some engine where it is not known, has a launch option of this name."""
    known = known_engine(served_by) if served_by else None
    engines = (known,) if known in ENGINES else ENGINES
    key = label.strip().replace("-", "_").lower()
    return (
        key not in _OF_CLIENTS
        and bool(re.fullmatch(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+", key))
        and any(options.option(str(name), None, key) for name in engines)
    )
