"""Recipes of srt-slurm: a model, the GPUs of its workers, and the options of one engine for each role.

Owns these fields. Where prefill and decode run apart, the options told are those of prefill, and the GPUs are
counted together. Must not read files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingest.launches import engine_of_image, experiment_of
from ingest.machine import hardware
from kb.model import Experiment
from kb.vocab.engines import Launch, canonical_engine
from kb.vocab.models import quantization_of

_ROLES = ("aggregated", "prefill", "decode")
_SHORT = {"aggregated": "agg", "prefill": "prefill", "decode": "decode"}


def is_recipe(document: Any) -> bool:
    """Whether a document has the parts that make such a recipe (below ``base``, where it lists variants)."""
    recipe = _recipe(document)
    return "gpu_type" in _inner(recipe, "resources") and bool(_inner(recipe, "backend")) and "model" in recipe


def experiment_of_recipe(document: Mapping[str, Any]) -> Experiment:
    """The server of a recipe."""
    recipe = _recipe(document)
    backend, model = _inner(recipe, "backend"), _inner(recipe, "model")
    config = next((key for key in backend if key.endswith("_config") and _roles(backend[key])), "")
    engine, version = engine_of_image(str(model.get("container") or ""))
    if named := str(backend.get("type") or config.removesuffix("_config")):
        engine = canonical_engine(named)  # "mocker" is none
    role = next((one for one in _ROLES if _inner(backend.get(config), one)), "")
    settings = {str(key).replace("-", "_"): value for key, value in _inner(backend.get(config), role).items()}
    environment = {str(key): str(value) for key, value in _inner(backend, f"{role}_environment").items()}
    served = settings.get("served_model_name")
    name = served if isinstance(served, str) and "/" in served else str(model.get("path") or "") or None
    precision = str(model.get("precision") or "").lower()
    if quantization_of(precision) == precision and not quantization_of(name or ""):
        settings.setdefault("quantization", precision)  # "fp4" alone is no format of weights
    version = version if "dynamo" not in str(model.get("container")) else None
    launch = Launch(engine=engine, version=version, model=name, settings=settings, environment=environment)
    return experiment_of(
        launch, hardware([str(_inner(recipe, "resources").get("gpu_type"))], count=_cards(recipe))
    )


def _cards(recipe: Mapping[str, Any]) -> int | None:
    """GPUs of all workers: so many of each role's, or those of their nodes."""
    told = _inner(recipe, "resources")
    found = 0
    for short in _SHORT.values():
        workers, each = told.get(f"{short}_workers"), told.get(f"gpus_per_{short}")
        nodes, on_each = told.get(f"{short}_nodes"), told.get("gpus_per_node")
        for one, other in ((workers, each), (nodes, on_each)):
            if isinstance(one, int) and isinstance(other, int):
                found += one * other
                break
    return found or None


def _recipe(document: Any) -> Mapping[str, Any]:
    return _inner(document, "base") or (document if isinstance(document, Mapping) else {})


def _roles(config: Any) -> bool:
    return any(_inner(config, one) for one in _ROLES)


def _inner(node: Any, key: str) -> Mapping[str, Any]:
    found = node.get(key) if isinstance(node, Mapping) else None
    return found if isinstance(found, Mapping) else {}
