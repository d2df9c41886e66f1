"""What a release brings along: the versions of its dependencies, and what those bring in turn.

Owns ``implied.json``, ``released.json`` (pins of releases without a catalog) and the reading of version
specifiers into spans; the pins of the others stand in their catalogs (``kb.vocab.options``). Must not say
what a dependency can do.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

from kb import versions
from kb.vocab.options import between, catalog, newest

_IMPLIED = Path(__file__).with_name("implied.json")
_RELEASED = Path(__file__).with_name("released.json")
_EXACT = r"==\s*([^,*]+)\Z"
_LOWEST = r"(?:>=|~=)\s*([^,]+)"
_HIGHEST = r"<=?\s*([^,=]+)"


def canonical_component(text: str) -> str:
    """A dependency's one name (``flashinfer-python`` → flashinfer, ``deep_gemm`` → deepgemm), else as
    given."""
    word = re.split(r"[=<>~! \[]", text.strip().lower(), maxsplit=1)[0].replace("_", "-")
    return _COMPONENTS.get(word, word)


_COMPONENTS = {
    "flashinfer-python": "flashinfer",
    "sglang-kernel": "sgl-kernel",
    "sglkernel": "sgl-kernel",
    "nvidia-cutlass-dsl": "cutlass-dsl",
    "cutedsl": "cutlass-dsl",
    "sgl-deep-gemm": "deepgemm",
    "deep-gemm": "deepgemm",
    "deep-ep": "deepep",
    "nvidia-nccl-cu12": "nccl",
    "nvidia-nccl-cu13": "nccl",
    "nvidia-cudnn-cu12": "cudnn",
    "nvidia-cudnn-cu13": "cudnn",
    "pytorch": "torch",
    "pytorch-triton": "triton",
    "nvidia-driver": "driver",
    "cudatoolkit": "cuda",
    "ik-llama.cpp": "ik_llama.cpp",
}


def pinned(engine: str, version: str | None) -> dict[str, str]:
    """Dependencies a release pins exactly, by canonical component name (flashinfer, sgl-kernel, torch …).

    What a pinned dependency pins itself is included (torch brings its triton). For a release whose package
    was not read, between two catalogued ones: only what both pin alike.
    """
    found = {name: low for name, (low, high) in pinned_spans(engine, version).items() if low and low == high}
    for name, brings in _implied().items():
        found = {**brings.get(found.get(name, ""), {}), **found}
    return found


def pinned_spans(engine: str, version: str | None) -> dict[str, versions.Span]:
    """The span (lowest, highest) in which each dependency of a release must lie; ``None`` is an open end."""
    read = _released().get(engine, {}).get(version or "")
    if read is not None:
        return {name: _span(specifier) for name, specifier in read.items()}
    lower, upper = between(engine, version or newest(engine))
    if lower is None or upper is None:
        return {}
    first, second = catalog(engine, lower).pins, catalog(engine, upper).pins
    spans = {name: (_span(first[name])[0], _span(second[name])[1]) for name in first if name in second}
    return {name: span for name, span in spans.items() if span != (None, None)}


@cache
def _implied() -> dict[str, dict[str, dict[str, str]]]:
    raw = json.loads(_IMPLIED.read_text(encoding="utf-8"))
    rows = {name: raw[name] for name in raw.keys() - {"about", "read", "left_out"}}
    return {name: {release: row["brings"] for release, row in of.items()} for name, of in rows.items()}


@cache
def _released() -> dict[str, dict[str, dict[str, str]]]:
    raw = json.loads(_RELEASED.read_text(encoding="utf-8"))
    rows = {engine: raw[engine] for engine in raw.keys() - {"about", "read"}}
    return {engine: {release: row["pinned"] for release, row in of.items()} for engine, of in rows.items()}


def _span(specifier: str) -> versions.Span:
    exact = re.match(_EXACT, specifier)
    if exact:
        return exact[1], exact[1]
    low, high = re.search(_LOWEST, specifier), re.search(_HIGHEST, specifier)
    return (low[1] if low else None), (high[1] if high else None)
