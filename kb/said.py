"""What the user says of sources that do not say it themselves, in catalog words.

Owns what the fields of ``ingest --gpu …`` and of a folder's kbctl.toml mean. Unknown names are kept as given.
"""

from __future__ import annotations

import re
from typing import Any

from kb.vocab.engines import canonical_engine
from kb.vocab.gpus import arch_of, find_gpu
from kb.vocab.models import find_model

_COUNTED = re.compile(r"\s*(\d{1,3})\s*[x×]\s*[A-Za-z]")  # "8x H200"


def said_fields(
    *,
    gpu: str | None = None,
    gpus: int | None = None,
    engine: str | None = None,
    model: str | None = None,
    quantization: str | None = None,
) -> dict[str, Any]:
    """The fields of a run that a user names, in the words of the catalogs where these know them."""
    found: dict[str, Any] = {"gpu_count": gpus, "quantization": quantization}
    if gpu:
        counted = _COUNTED.match(gpu)
        found |= {"gpu_count": gpus if gpus is not None or counted is None else int(counted[1])} | _gpu(gpu)
    if engine:
        name, _, version = engine.partition("==")
        found |= {"engine": _engine(name), "engine_version": version or None}
    if model:
        found |= _model(model)
    return {name: value for name, value in found.items() if value is not None}


def _gpu(text: str) -> dict[str, Any]:
    entry = find_gpu(text)
    if entry is not None:
        return {"gpu": entry.name, "arch": entry.arch}
    arch = arch_of(text)
    return {"arch": arch} if arch else {"gpu": text}


def _engine(text: str) -> str:
    return canonical_engine(text) or text


def _model(text: str) -> dict[str, Any]:
    entry = find_model(text)
    return {"model": text, **({} if entry is None else {"model_id": entry.id, "family": entry.family})}
