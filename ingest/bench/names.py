"""The vocabulary as benchmarks need it: GPUs, models, engines, and settings under their common names.

Owns the bridge to ``kb.vocab``. Must not hold knowledge of its own
beyond spellings that only benchmark files use.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ingest.bench.quantities import labels
from kb.vocab.gpus import Gpu, arch_of, find_gpu

_ENGINES: dict[str, str] = labels("engines")
_DESTS: dict[str, dict[str, str]] = labels("dests")
_QUANTIZATIONS = re.compile(
    r"(?<![a-z0-9])(nvfp4|mxfp4|mxfp8|fp4|fp8|int4|int8|awq|gptq|bf16|fp16|w4a16|w8a8|w4a8|w4afp8)(?![a-z0-9])",
    re.IGNORECASE,
)


@lru_cache(maxsize=512)
def gpu(printed: str) -> Gpu | None:
    """The catalogued product of a printed name."""
    return find_gpu(printed) or find_gpu(re.sub(r"(?i)[\s_-]*(?:gpus?|accelerators?)$", "", printed))


@lru_cache(maxsize=512)
def arch(printed: str) -> str | None:
    """The architecture that a printed name tells."""
    return arch_of(printed)


@lru_cache(maxsize=512)
def model(printed: str | None) -> Any:
    """The catalogued model of a printed name."""
    told = getattr(_vocab("models"), "find_model", None)
    return told(printed) if told and printed else None


@lru_cache(maxsize=512)
def quantization(text: str | None) -> str | None:
    """The weight quantization that a name tells (``…-NVFP4``, ``fp8``), canonical."""
    if not text:
        return None
    known = getattr(_vocab("models"), "quantization_of", None)
    told = known(text) if known else None
    if told:
        return str(told)
    found = _QUANTIZATIONS.search(text.replace("_", " "))
    return found[1].lower() if found else None


@lru_cache(maxsize=512)
def engine(printed: str | None) -> str | None:
    """The canonical engine of a printed name; an unknown one as printed; ``None`` for an empty one."""
    if not printed or not printed.strip():
        return None
    text = printed.strip()
    told = getattr(_vocab("engines"), "canonical_engine", None)
    known = told(text) if told else None
    if known:
        return str(known)
    word = text.lower().replace("_", "-")
    return _ENGINES.get(word) or _ENGINES.get(re.split(r"[\s=:]", word)[0]) or text


def is_engine(printed: str) -> bool:
    """Whether a text names an engine that is known."""
    return printed.strip().lower() in _ENGINES


def settings(engine_name: str | None, common: Mapping[str, Any]) -> dict[str, Any]:
    """Settings under the engine's own names; common names stay where the engine is unknown."""
    own = _DESTS.get(engine_name or "", {})
    return {own.get(key, key): value for key, value in common.items() if value is not None}


def _vocab(name: str) -> Any:
    try:
        return importlib.import_module(f"kb.vocab.{name}")
    except ImportError:
        return None
