"""Custom resources of operators that start a server by themselves: NIM, KAITO, KServe's models, and others.

Owns which of their fields name the model, the engine, its options and its GPUs. Must not read containers.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ingest.yaml_text import documents
from kb.vocab.engines import canonical_engine
from kb.vocab.gpus import find_gpu

KIND = re.compile(
    r"^kind:\s*['\"]?(?:NIMService|NIMCache|Workspace|InferenceSet|InferenceService|Model)\b", re.MULTILINE
)
OWNER = re.compile(
    r"^apiVersion:\s*['\"]?(?:apps\.nvidia\.com|kaito\.sh|kubeai\.org|serving\.kserve\.io)/", re.MULTILINE
)
_ANY_MODEL = re.compile(r"^(?:nvidia/)?(?:llm-nim|multi-llm)$")  # an image that serves whatever it is given
_WORDS = ("vllm", "sglang", "tensorrt", "trtllm", "tgi")
_WIDTHS = (("tensor", "tensor_parallel_size"), ("pipeline", "pipeline_parallel_size"))


class Operated(NamedTuple):
    """A server that an operator starts: what its resource says of it, and the node that asks for GPUs."""

    engine: str | None
    model: str | None
    settings: dict[str, Any]
    words: list[str]
    environment: Any
    node: Mapping[str, Any]
    product: str | None = None
    nodes: int = 1


def operated(found: Sequence[Any]) -> Iterator[Operated]:
    """Every server that the documents of one file describe for an operator."""
    known = [one for one in found if isinstance(one, Mapping)]
    for document in known:
        spec, kind = _inner(document, "spec"), document.get("kind")
        if kind == "NIMService":
            yield _nim(spec, [one for one in known if one.get("kind") == "NIMCache"])
        elif kind in ("Workspace", "InferenceSet") and "kaito" in str(document.get("apiVersion")):
            yield from _kaito(document, known)
        elif kind == "Model" and "kubeai" in str(document.get("apiVersion")):
            yield _kubeai(spec)
        elif kind == "InferenceService" and "predictor" in spec:
            yield from _kserve(_inner(_inner(spec, "predictor"), "model"))
        elif "containers" not in str(document.get("spec"))[:100_000]:
            yield from _custom(spec)


def _nim(spec: Mapping[str, Any], caches: Sequence[Mapping[str, Any]]) -> Operated:
    storage = _inner(_inner(spec, "storage"), "nimCache") or _inner(spec, "nimCache")
    cache = next((one for one in caches if _name(one) == storage.get("name")), {})
    source = _inner(_inner(cache, "spec"), "source")
    image = str(_inner(spec, "image").get("repository", "")).rpartition("/")[2]
    hub = [_inner(source, key).get("modelName") for key in ("hf", "dataStore")]
    told = next((str(one) for one in hub if one), None)
    texts = [str(storage.get("profile", "")), str(_inner(_inner(source, "ngc"), "model").get("engine", ""))]
    variables = [str(one.get("name")) for one in spec.get("env") or () if isinstance(one, Mapping)]
    engine = _engine_in([*(one for one in variables if one.startswith("NIM_USE_")), *texts])
    widths = _inner(_inner(spec, "multiNode"), "parallelism")
    service = _inner(_inner(spec, "expose"), "service")
    settings = {dest: widths[key] for key, dest in _WIDTHS if isinstance(widths.get(key), int)}
    port = service.get("openaiPort") or service.get("port")
    settings |= {"port": port} if isinstance(port, int) else {}
    model = told if told or _ANY_MODEL.match(image) else image or None
    nodes = widths.get("pipeline")
    return Operated(
        engine, model, settings, [], spec.get("env"), spec, nodes=nodes if isinstance(nodes, int) else 1
    )


def _kaito(document: Mapping[str, Any], known: Sequence[Mapping[str, Any]]) -> Iterator[Operated]:
    spec = _inner(_inner(_inner(document, "spec"), "template"), "spec") or document
    inference = _inner(document, "inference") or _inner(spec, "inference")
    resource = _inner(document, "resource") or _inner(spec, "resource")
    model = _inner(inference, "preset").get("name")
    if not isinstance(model, str):
        return
    config = next(
        (one for one in known if one.get("kind") == "ConfigMap" and _name(one) == inference.get("config")), {}
    )
    engine, settings = None, dict[str, Any]()
    for text in _inner(config, "data").values():
        for told in documents(str(text))[0]:
            group = _inner(told, "vllm")
            if group:
                engine, settings = "vllm", {str(key): value for key, value in group.items()}
    parts = str(resource.get("instanceType") or "").split("_")
    card = next((part for part in parts[1:] if find_gpu(part)), None)
    yield Operated(engine, model, settings, [], None, {}, card)


def _kserve(model: Mapping[str, Any]) -> Iterator[Operated]:
    engine = _engine_in([str(model.get("runtime", "")), str(_inner(model, "modelFormat").get("name", ""))])
    address = str(model.get("storageUri") or "")
    words = [str(one) for one in model.get("args") or () if isinstance(one, str | int | float)]
    for one in model.get("env") or ():
        if isinstance(one, Mapping) and re.fullmatch(
            r"(?:VLLM|SGLANG)_(?:ADDITIONAL_)?ARGS", str(one.get("name"))
        ):
            words += _split(str(one.get("value") or ""))
    named = (re.match(r"--model[_-](?:id|path)=(\S+)", one) for one in words)
    told = next((one[1] for one in named if one), None)
    name = told or (address.removeprefix("hf://") if address.startswith("hf://") else None)
    if engine or name:
        yield Operated(engine, name, {}, words, model.get("env"), model)


def _kubeai(spec: Mapping[str, Any]) -> Operated:
    address, profile = str(spec.get("url") or ""), str(spec.get("resourceProfile") or "")
    words = [str(one) for one in spec.get("args") or ()]
    card, _, count = profile.partition(":")
    kind = next((one for one in re.split(r"[-_.]", card) if find_gpu(one)), None)
    gpus = {"resources": {"limits": {"gpu": count}}} if kind and count.isdecimal() else {}
    engine = canonical_engine(str(spec.get("engine") or "").lower())
    model = re.sub(r"^\w+://", "", address) or None
    return Operated(engine, model, {}, words, spec.get("env"), gpus, kind)


def _custom(spec: Mapping[str, Any]) -> Iterator[Operated]:
    """A resource whose ``spec`` names a model of a hub and, beside it, arguments of a known engine."""
    model = spec.get("model") or spec.get("modelName") or spec.get("modelId")
    named = canonical_engine(str(spec.get("engine") or spec.get("backend") or spec.get("runtime") or ""))
    name = model.get("name") or model.get("id") if isinstance(model, Mapping) else model
    parts = [one for one in spec.values() if isinstance(one, Mapping)]
    given = [
        (str(key), value)
        for part in (spec, *parts)
        for key, value in part.items()
        if isinstance(value, list) and re.fullmatch(r"(?:vllm|sglang|trtllm)_?[aA]rgs", str(key))
    ]
    if isinstance(name, str) and "/" in name and named and not given:
        yield Operated(named, name, {}, [], spec.get("env"), spec)
    elif isinstance(name, str) and "/" in name and given:
        key, value = given[0]
        serving = next(part for part in (spec, *parts) if key in part)
        width = serving.get("tensorParallelism") or serving.get("tensorParallelSize")
        settings = {"tensor_parallel_size": width} if isinstance(width, int) else {}
        words = [str(one) for one in value]
        yield Operated(_engine_in([key]), name, settings, words, serving.get("env"), {**spec, **serving})


def _engine_in(texts: Sequence[str]) -> str | None:
    found = {word for text in texts for word in _WORDS if word in text.lower()}
    word = found.pop() if len(found) == 1 else ""
    return canonical_engine("tensorrt-llm" if word in ("tensorrt", "trtllm") else word) if word else None


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _name(document: Mapping[str, Any]) -> Any:
    return _inner(document, "metadata").get("name")


def _inner(node: Any, key: str) -> Mapping[str, Any]:
    found = node.get(key) if isinstance(node, Mapping) else None
    return found if isinstance(found, Mapping) else {}
