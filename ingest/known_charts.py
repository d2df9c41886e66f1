"""Values and configurations of known stacks that start vLLM: Ray Serve LLM, llm-d's charts.

Owns which of their fields name the model, the options and the variables. Must not read files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kb.model import Hardware
from kb.vocab.engines import Launch, parse_command

ENGINE = "vllm"  # what both of them run
MARKS = re.compile(r"^[ \t]*(?:- )?(?:model_loading_config|modelArtifacts|sampleApplication):", re.MULTILINE)
_HUB = re.compile(r"^hf://[\"']?")
_PRODUCTS = re.compile(r"(?i)gpu[-_.]?(?:name|product|model)|gke-accelerator")


def launch_of(nodes: Sequence[Mapping[str, Any]]) -> tuple[Launch, Mapping[str, Any]] | None:
    """(start, the part that it stands in) of a document's mappings, outer ones first."""
    for node in nodes:
        if "model_loading_config" in node:
            return _of_ray(node, nodes), node
        if "modelArtifacts" in node:
            return _of_llmd(_inner(node, "modelArtifacts"), node), node
        if "sampleApplication" in node:
            part = _inner(node, "sampleApplication")
            return _of_llmd(_inner(part, "model"), part), part
    return None


def _of_ray(node: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]) -> Launch:
    model = _inner(node, "model_loading_config")
    told = [model.get(key) for key in ("model_source", "model_id")]
    name = next((one for one in told if isinstance(one, str)), None)
    around = [one for one in nodes if one is node or node in _inner(one, "args").values()]
    variables = [_inner(_inner(one, "runtime_env"), "env_vars") for one in (node, *around, *nodes)]
    environment = next((dict(one) for one in variables if one), {})
    settings = {str(key): one for key, one in _inner(node, "engine_kwargs").items()}
    return Launch(ENGINE, None, name, settings, {str(key): str(one) for key, one in environment.items()})


def _of_llmd(model: Mapping[str, Any], node: Mapping[str, Any]) -> Launch:
    names = [model.get(key) for key in ("modelName", "name", "uri", "modelArtifactURI")]
    name = next((_HUB.sub("", one) for one in names if isinstance(one, str) and "{{" not in one), None)
    part = next((one for key in ("decode", "prefill") if (one := _inner(node, key))), {})
    listed = part.get("containers")
    container = next((one for one in listed or () if isinstance(one, Mapping)), {})
    words = [str(one) for one in (*(container.get("args") or ()), *(part.get("extraArgs") or ()))]
    variables = {
        str(one["name"]): str(one["value"])
        for one in container.get("env") or ()
        if isinstance(one, Mapping) and "name" in one and one.get("value") is not None
    }
    launch = parse_command([one for one in words if "{{" not in one], variables, engine=ENGINE)
    return launch._replace(model=name)


def accelerator_of(node: Mapping[str, Any]) -> Hardware:
    """GPUs that a part asks for by its own words ("accelerator_type", limits)."""
    limits = _inner(_inner(node, "resources"), "limits")
    told = str(limits.get("nvidia.com/gpu") or limits.get("amd.com/gpu"))
    count = int(told) if told.isdecimal() else None
    card = node.get("accelerator_type")
    return Hardware(gpu=card if isinstance(card, str) else None, count=count)


def affine(node: Any, depth: int = 0) -> Iterator[str]:
    """Products that a pod's affinity to nodes asks for."""
    if isinstance(node, list):
        for one in node:
            yield from affine(one, depth + 1)
    if not isinstance(node, Mapping) or depth > 10:
        return
    key, values = node.get("key"), node.get("values")
    if isinstance(key, str) and _PRODUCTS.search(key) and isinstance(values, list) and len(values) == 1:
        yield str(values[0])
    for one in node.values():
        yield from affine(one, depth + 1)


def _inner(node: Any, key: str) -> Mapping[str, Any]:
    found = node.get(key) if isinstance(node, Mapping) else None
    return found if isinstance(found, Mapping) else {}
