"""Package names, as pip and tools list them, to the component names that records and catalogs use.

Owns that mapping (``packages.json``) and the rule for NVIDIA's wheels. Must not read files of users.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from kb.vocab.engines import ENGINES, canonical_engine
from kb.words import components

_DATA = Path(__file__).with_name("packages.json")
_WHEEL = re.compile(r"^nvidia-(cudnn|nccl|nvshmem|cublas|cuda-runtime|cusparselt|cufile)(?:-cu\d+)?$")


def component(name: str) -> str | None:
    """The component that a package is, or None for the many that no record speaks of."""
    word = re.sub(r"[-_. ]+", "-", name.strip().lower())
    wheel = _WHEEL.match(word)
    word = wheel[1] if wheel else word
    word = _names().get(word, word)
    return word if word in _components() else None


def engine_package(name: str) -> str | None:
    """The engine whose package this is, or None."""
    word = re.sub(r"[-_. ]+", "-", name.strip().lower())
    engine = canonical_engine(word)
    return engine if engine in ENGINES and word.replace("-", "") == engine.replace("-", "") else None


def split_packages(packages: Mapping[str, str]) -> tuple[dict[str, str], str | None, str | None]:
    """Component -> version, and (engine, version) when exactly one engine is among the packages."""
    found = {known: version for name, version in packages.items() if (known := component(name))}
    engines = {engine: version for name, version in packages.items() if (engine := engine_package(name))}
    if len(engines) == 1:
        return found, *next(iter(engines.items()))
    return found | engines, None, None


@cache
def _names() -> Mapping[str, str]:
    names: dict[str, str] = json.loads(_DATA.read_text(encoding="utf-8"))["names"]
    return names


def _components() -> frozenset[str]:
    return components()
