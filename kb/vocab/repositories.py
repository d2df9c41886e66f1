"""Where the source of engines and libraries stands: ``repositories.json``, name → owner/name on GitHub."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path


def repository(name: str) -> str | None:
    """The repository of an engine or a library (``sglang`` → sgl-project/sglang), or ``None``."""
    return _known().get(name.lower())


@cache
def _known() -> dict[str, str]:
    known: dict[str, str] = json.loads(Path(__file__).with_name("repositories.json").read_text("utf-8"))
    return known
