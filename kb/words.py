"""Which words records may use, asked of the vocabulary, the catalogs and the symptom table.

Owns only the questions that lint asks; the answers live in ``kb.vocab`` and ``kb.symptoms``.
"""

from __future__ import annotations

import difflib
import json
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

ENGINES = ("sglang", "vllm", "tensorrt-llm", "llama.cpp")
_SCOPED = re.compile(r"^(draft|vision|encoder):")


def _part(name: str) -> Any | None:
    try:
        return import_module(name)
    except ImportError:
        return None


@cache
def _table() -> dict[str, Any]:
    path = Path(__file__).parent / "vocab" / "kernels.json"
    table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return table


def roles() -> tuple[str, ...]:
    """Every role's name, groups (``attention``, ``dsa``) included."""
    return (*_table()["roles"], *_table()["groups"])


def phases(role: str) -> tuple[str, ...]:
    """The roles behind a group's name (``attention`` → prefill and decode); any other role as it is."""
    scope, colon, plain = role.rpartition(":")
    return tuple(f"{scope}{colon}{one}" for one in _table()["groups"].get(plain, (plain,)))


def canonical_kernel(name: str) -> str:
    """A kernel's name for any of its aliases (``trtllm`` → ``trtllm-gen``); unknown ones as they are."""
    return str(_table()["aliases"].get(name.strip().lower(), name.strip().lower()))


def kernels_of(role: str) -> frozenset[str] | None:
    """The kernels that can do a role (scopes such as ``draft:`` allowed), None for an unknown role."""
    rows = [_table()["roles"].get(_SCOPED.sub("", one)) for one in phases(role)]
    return None if None in rows else frozenset(kernel for row in rows for kernel in row)


def known_engine(name: str) -> bool:
    """Whether it is an engine's canonical name (servers built on these count under their own name)."""
    return name in ENGINES or name in ("tgi", "lmdeploy", "ollama", "ktransformers", "ik_llama.cpp")


def known_arch(name: str) -> bool:
    """Whether it is an architecture: ``sm…`` or ``gfx…``."""
    return bool(re.fullmatch(r"sm\d{2,3}|gfx[0-9a-f]{3,4}", name))


def known_signature(name: str) -> bool:
    """Whether the symptom table has this class (everything is known while there is no table)."""
    symptoms = _part("kb.symptoms")
    classes = getattr(symptoms, "classes", None)
    return classes is None or name in classes()


@cache
def components() -> frozenset[str]:
    """Libraries and drivers whose versions records may speak of."""
    path = Path(__file__).parent / "vocab" / "components.json"
    return frozenset(json.loads(path.read_text(encoding="utf-8"))["components"])


def known_component(name: str) -> bool:
    """Whether it is an engine or a library whose versions records may speak of."""
    return known_engine(name) or name in components()


def nearest_component(name: str) -> str | None:
    """A tip with the nearest known component, if one is near."""
    near = difflib.get_close_matches(name, [*components(), *ENGINES], 1)
    return f"did you mean {near[0]}?" if near else "engines and libraries only; see kb/vocab/components.json"


def compare(component: str, one: str, other: str) -> int:
    """-1, 0 or 1 as versions of that component compare; 0 where they cannot be compared."""
    versions = _part("kb.versions")
    if versions is None or not hasattr(versions, "compare"):
        return 0
    try:
        return int(versions.compare(one, other, component))
    except (TypeError, ValueError):
        return 0
