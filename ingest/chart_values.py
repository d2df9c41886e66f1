"""Charts and custom resources that name a model instead of a command: ``modelURL`` with an image beside it.

Owns turning their camel-case fields into the words of a launch command. Must not read files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kb.vocab import options

_MODEL_KEYS = ("modelURL", "modelUri", "modelURI", "modelId", "modelID")


class Served(NamedTuple):
    """A model that a chart serves: the image, the words of its command, how many GPUs, its name."""

    image: str
    words: list[str]
    gpus: int | None
    name: str
    environment: Any = None


def served_models(node: Any, depth: int = 0) -> Iterator[Served]:
    """Every mapping that names a model and, in itself or beside it, an image."""
    if depth > 10:
        return
    if isinstance(node, list):
        for one in node:
            yield from served_models(one, depth + 1)
    if not isinstance(node, Mapping):
        return
    url = _model(node)
    image = _image(node)
    if url and image:
        words = ["--model", url, *_flags(node)]
        yield Served(image, words, _gpus(node), str(node.get("name", "")), node.get("env"))
        return
    for one in node.values():
        yield from served_models(one, depth + 1)


def _model(node: Mapping[str, Any]) -> str | None:
    inner = node.get("model")
    places = [node, inner] if isinstance(inner, Mapping) else [node]
    found = (place[key] for place in places for key in _MODEL_KEYS if isinstance(place.get(key), str))
    return next(found, None) or _of_engine(node)


def _of_engine(node: Mapping[str, Any]) -> str | None:
    """The model of a part that is named as an engine: "vllm: {model: …}"."""
    parts = (node.get(name) for name in ("vllm", "sglang", "trtllm", "tgi"))
    named = (part.get("model") for part in parts if isinstance(part, Mapping))
    return next((one for one in named if isinstance(one, str) and "{{" not in one), None)


def _image(node: Mapping[str, Any]) -> str | None:
    image = node.get("image", node)
    if isinstance(image, str):
        return image
    if not isinstance(image, Mapping):
        return None
    name = image.get("repository") or (image.get("name") if image is not node else None)
    tag = image.get("tag")
    return f"{name}:{tag}" if isinstance(name, str) and tag is not None else name


def _flags(node: Mapping[str, Any], depth: int = 0) -> list[str]:
    """Scalar fields that are options of vLLM, under its own names, and the extra arguments as they stand."""
    words: list[str] = []
    for key, value in node.items():
        if isinstance(value, Mapping) and depth < 2:
            words += _flags(value, depth + 1)
        elif key in ("extraArgs", "extra_args", "args") and isinstance(value, list):
            words += [str(one) for one in value if "{{" not in str(one)]
        elif isinstance(value, str | int | float) and value is not False:
            flag = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", str(key)).lower()
            if "-" in flag and options.option("vllm", None, flag.replace("-", "_")) is not None:
                words += [f"--{flag}"] if value is True else [f"--{flag}", str(value)]
            elif key == "dtype":
                words += ["--dtype", str(value)]
    return words


def _gpus(node: Mapping[str, Any]) -> int | None:
    resources = node.get("resources")
    told = node.get("requestGPU") or (resources.get("gpu") if isinstance(resources, Mapping) else None)
    return int(str(told)) if str(told).isdecimal() else None
