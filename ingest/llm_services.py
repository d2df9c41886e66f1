"""Custom resources that describe a server around its pods: KServe's LLMInferenceService, LeaderWorkerSet.

Owns which of their fields name the model, the widths and the number of pods that one server spans. Must not
read containers.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from kb.vocab import options

ENGINE = "vllm"  # what KServe runs for this kind of resource
_MORE = "VLLM_ADDITIONAL_ARGS"  # which KServe's own start command appends
_WIDTHS = {
    "tensor": "--tensor-parallel-size",
    "pipeline": "--pipeline-parallel-size",
    "data": "--data-parallel-size",
}


class Service(NamedTuple):
    """A server that a resource describes: its model, options of its command, and its container's fields."""

    words: list[str]
    container: Mapping[str, Any]


def llm_service(document: Any) -> Service | None:
    """The server of an LLMInferenceService, or None for anything else."""
    spec = document.get("spec") if isinstance(document, Mapping) else None
    if not isinstance(spec, Mapping) or document.get("kind") != "LLMInferenceService":
        return None
    model = _model(spec.get("model"))
    return Service(["--model", model, *_widths(spec.get("parallelism"))], _container(spec)) if model else None


def more_words(environment: dict[str, str]) -> list[str]:
    """The options that a variable of the container adds to the command; the variable is used up."""
    try:
        return shlex.split(environment.pop(_MORE, ""))
    except ValueError:
        return []


def group_size(node: Mapping[str, Any]) -> int:
    """How many pods one server of a LeaderWorkerSet, or of a role of AIBrix's, spans."""
    group = node.get("leaderWorkerTemplate")
    size = group.get("size") if isinstance(group, Mapping) else node.get("podGroupSize")
    return size if isinstance(size, int) and not isinstance(size, bool) and 0 < size < 1000 else 1


class Values(NamedTuple):
    """A server that a chart's values describe: engine, options, GPUs, variables."""

    engine: str
    words: list[str]
    gpus: int | None
    environment: Any


_ENGINES = ("vllm", "sglang", "trtllm", "tensorrt-llm", "tgi")


def server_of_values(document: Any) -> Values | None:
    """The server of values that name an engine ("framework: vllm", or a part of its name) and a model."""
    if not isinstance(document, Mapping) or "apiVersion" in document or "services" in document:
        return None
    for node in (document, *(one for one in document.values() if isinstance(one, Mapping))):
        engine, model = _engine(node), node.get("model")
        name = model.get("name") if isinstance(model, Mapping) else None
        if engine and isinstance(name, str) and "/" in name:
            part = node.get(engine)
            words = ["--model", name, *_options(engine, model), *_options(engine, part)]
            environment = node.get("envs") or node.get("env")
            return Values(engine, words, _cards(node), environment)
    return None


def _engine(node: Mapping[str, Any]) -> str | None:
    named = node.get("framework") or node.get("engine")
    if isinstance(named, str):
        return named.lower() if named.lower() in _ENGINES else None
    parts = [one for one in _ENGINES if isinstance(node.get(one), Mapping)]
    return parts[0] if len(parts) == 1 else None


def _options(engine: str, node: Any) -> list[str]:
    """Fields that are options of the engine, in a mapping and in its ``serverArgs``, as words."""
    if not isinstance(node, Mapping):
        return []
    words: list[str] = []
    for key, value in node.items():
        if key in ("serverArgs", "engineArgs", "args") and isinstance(value, Mapping):
            words += _options(engine, value)
        dest = {"tp_size": "tensor_parallel_size", "pp_size": "pipeline_parallel_size"}.get(
            str(key), str(key).replace("-", "_")
        )
        known = options.option(engine, None, dest) is not None
        if known and isinstance(value, str | int | float) and not isinstance(value, bool):
            words += [f"--{dest.replace('_', '-')}", str(value)]
    return words


def _cards(node: Mapping[str, Any]) -> int | None:
    job = node.get("job")
    told = node.get("gpus") or (job.get("gpus") if isinstance(job, Mapping) else None)
    return told if isinstance(told, int) and not isinstance(told, bool) else None


def _model(told: Any) -> str | None:
    """The checkpoint: a hub id out of its address, else its name."""
    if not isinstance(told, Mapping):
        return None
    uri, name = told.get("uri"), told.get("name")
    if isinstance(uri, str) and uri.startswith("hf://"):
        return uri.removeprefix("hf://")
    return name if isinstance(name, str) else uri if isinstance(uri, str) else None


def _widths(told: Any) -> list[str]:
    if not isinstance(told, Mapping):
        return []
    words = [
        word
        for key, flag in _WIDTHS.items()
        if isinstance(told.get(key), int)
        for word in (flag, str(told[key]))
    ]
    return [*words, "--enable-expert-parallel"] if told.get("expert") is True else words


def _container(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    template = spec.get("template")
    listed = template.get("containers") if isinstance(template, Mapping) else None
    found = [one for one in listed or () if isinstance(one, Mapping)] if isinstance(listed, list) else []
    return next((one for one in found if one.get("name") == "main"), found[0] if found else {})
