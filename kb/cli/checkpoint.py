"""What a checkpoint on this disk says of itself: ``config.json``, ModelOpt's file, the index of its weights.

Owns the reading of those files for ``check``. Must not count anything and must not open weights.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb.errors import KbctlError

if TYPE_CHECKING:
    from recommend.question import Checkpoint

_LARGEST = 64 << 20
_INDEX = "model.safetensors.index.json"


def read_checkpoint(config: Path) -> Checkpoint:
    """The checkpoint that a ``config.json`` belongs to. Raises KbctlError where that file is no object."""
    from recommend.question import Checkpoint

    told = _object(config)
    if told is None:
        raise KbctlError("it holds no JSON object", where=str(config), tip="give a checkpoint's config.json")
    extra = _object(config.with_name("hf_quant_config.json")) or {}
    if isinstance(group := extra.get("quantization"), dict) and "quantization_config" not in told:
        told["quantization_config"] = group
    index = (_object(config.with_name(_INDEX)) or {}).get("metadata")
    size = index.get("total_size") if isinstance(index, dict) else None
    return Checkpoint(told, int(size) if isinstance(size, int | float) and 0 < size < 1 << 50 else None)


def sized(path: Path) -> bool:
    """Whether a file is a ``config.json`` that gives a model's sizes."""
    from recommend.weights import modules

    return path.name == "config.json" and bool(modules(_object(path) or {}))


def checkpoint_among(words: Iterable[str]) -> Checkpoint | None:
    """The checkpoint in the first word that is a folder with a ``config.json``, or None."""
    for word in words:
        name = word.partition("=")[2] if word.startswith("--") else word
        if "/" in name or "\\" in name:
            with suppress(OSError, ValueError):
                config = Path(name) / "config.json"
                if config.is_file():
                    return read_checkpoint(config)
    return None


def _object(path: Path) -> dict[str, Any] | None:
    with suppress(OSError, ValueError, RecursionError):
        if path.stat().st_size <= _LARGEST:
            found = json.loads(path.read_text(encoding="utf-8-sig"))
            return found if isinstance(found, dict) else None
    return None
