"""Kernels by what logs print: backend names, kernel classes, FlashAttention's generations.

Owns the way from a label to a kernel and to the roles that a class serves. Must not decide what a setting
asks for (``kb.vocab.spellings``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kb.vocab.dialects import ENGINES, dialect
from kb.vocab.spellings import Ask, canonical_kernel, kernels, role_names, values

_CLASS_WORDS = (
    ("flashinfercutedsl", "cutedsl"),
    ("humming", "humming"),
    ("marlin", "marlin"),
    ("machete", "machete"),
    ("b12x", "b12x"),
    ("flydsl", "aiter"),
    ("aiter", "aiter"),
    ("trtllm", "trtllm-gen"),
    ("cutedsl", "cutedsl"),
    ("cudnn", "cudnn"),
    ("deepgemm", "deepgemm"),
    ("cutlass", "cutlass"),
    ("tritonkernel", "triton-kernels"),
    ("triton", "triton"),
    ("fbgemm", "fbgemm"),
    ("conch", "conch"),
    ("exllama", "exllama"),
    ("emulation", "emulation"),
    ("hpc", "hpc"),
    ("torch", "torch"),
    ("rocm", "aiter"),
)


def kernel_of_label(
    engine: str | None, role: str, label: str, arch: str | None = None, version: str | None = None
) -> str | None:
    """The kernel behind a label as logs print it, or ``None``.

    Takes backend names (``FLASHINFER_CUTLASS``, ``FLASH_ATTN`` …) and kernel classes
    (``MarlinNvFp4LinearKernel``). A FlashAttention generation may stand in the label (``FLASH_ATTN 3``) or
    be given
    as ``version`` ("2", "3", "4"), which otherwise is the engine's version.
    """
    word = _plain(label)
    generation = _flash_generation(word, version)
    if generation:
        return f"fa{generation}"
    release = None if version in ("2", "3", "4") else version
    scope_free = role.rpartition(":")[2]
    for table in _label_tables(engine, scope_free):
        if word in table:
            ask = Ask(engine or "", release, {}, {}, arch, None)
            return _one(ask.kernels({"roles": list(role_names(scope_free))}, word, table), scope_free)
    return _kernel_in_name(word)


def roles_of_label(label: str) -> tuple[str, ...]:
    """The roles that a kernel class of a log serves by its name: NvFp4 → gemm.fp4, Fp8 → gemm.fp8, MoE →
    moe."""
    word = re.sub(r"[^a-z0-9]", "", label.lower())
    if "moe" in word or "experts" in word:
        return ("moe",)
    if "nvfp4" in word or "mxfp4" in word or "fp4" in word:
        return ("gemm.fp4",)
    if "fp8" in word:
        return ("gemm.fp8",)
    if "int8" in word:
        return ("gemm.int8",)
    return ("gemm.int4",) if "linearkernel" in word or "wna16" in word or "w4a" in word else ()


def _plain(label: str) -> str:
    word = label.strip().strip("'\"`.").lower()
    word = re.sub(r"^attentionbackendenum\.|^\w*backend\.", "", word)
    return re.sub(r"\s+backend$", "", word).strip()


def _flash_generation(word: str, version: str | None) -> str | None:
    named = re.fullmatch(r"(?:flash[ _-]?att(?:ention|n)|fa)(?:[ _-]?(?:v|version)? ?)(\d)", word)
    if named:
        return named[1]
    return (
        version if version in ("2", "3", "4") and word.startswith(("flash_attn", "flashattention")) else None
    )


def _label_tables(engine: str | None, role: str) -> Iterator[Mapping[str, Any]]:
    names = [engine] if engine in ENGINES else list(ENGINES)
    for name in names:
        table = dialect(name or "")
        for one in role_names(role):
            yield _spaced(table["labels"].get(one, {}))
        for entry in table["spellings"]:
            if set(role_names(role)) & set(entry["roles"]) or role in ("mla", "dsa.prefill", "dsa.decode"):
                yield _spaced(values(name or "", entry))


def _spaced(table: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**{key.replace("_", " "): value for key, value in table.items()}, **table}


def _one(found: Mapping[str, str], role: str) -> str | None:
    if role in found:
        return found[role]
    named = set(found.values())
    return named.pop() if len(named) == 1 else None


def _kernel_in_name(word: str) -> str | None:
    if canonical_kernel(word) in {one for names in kernels()["roles"].values() for one in names}:
        return canonical_kernel(word)
    joined = re.sub(r"[^a-z0-9]", "", word)
    return next((kernel for part, kernel in _CLASS_WORDS if part in joined), None)
