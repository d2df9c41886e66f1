"""Compose files and Kubernetes manifests: containers with an image, a command and an environment.

Owns finding containers in YAML of any kind of object. The command's words are kb.vocab's.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ingest.chart_values import served_models
from ingest.formats import Format, Unreadable
from ingest.formats.engine_yaml import engine_of_keys
from ingest.known_charts import affine
from ingest.launches import engine_of_image, experiment_of
from ingest.llm_services import ENGINE as SERVED_BY
from ingest.llm_services import group_size, llm_service, more_words, server_of_values
from ingest.machine import hardware
from ingest.operators import KIND as OPERATED_KIND
from ingest.operators import OWNER, Operated, operated
from ingest.sources import Source
from ingest.traces import line_count
from ingest.yaml_text import documents
from kb.model import Experiment, Hardware, Problem, Reading
from kb.vocab.engines import ENGINES, Launch, parse_command, parse_shell

_COMPOSE = re.compile(r"^services:\s*(?:#.*)?$", re.MULTILINE)
_MANIFEST = re.compile(r"^apiVersion:\s*\S+", re.MULTILINE)
_CHART = re.compile(
    r"^[ \t]+(?:- )?modelURL:\s*\S|^(?:vllm|sglang|trtllm|tgi):\s*\n(?:\s*#.*\n)*\s+model:\s*\S", re.MULTILINE
)
_VALUES = re.compile(
    r"^[ \t]*(?:framework|engine):\s*['\"]?(?:vllm|sglang|trtllm|tensorrt-llm|tgi)\b|"
    r"^(?:vllm|sglang|trtllm|tgi):\s*$",
    re.MULTILINE,
)
_NAMED_MODEL = re.compile(r"^[ \t]*model:[ \t]*\n(?:\s*#.*\n)*\s+name:\s*\S+/\S", re.MULTILINE)
_SERVICE = re.compile(r"^kind:\s*LLMInferenceService\b", re.MULTILINE)
_KIND = re.compile(r"^kind:\s*\S+", re.MULTILINE)
_SERVER = re.compile(
    r"(?i)vllm|sglang|tensorrt-?llm|trtllm|llama[._-]?(?:cpp|server)|text-generation|lmdeploy|ollama"
)
_IMAGE = re.compile(r"^[ \t]*(?:- )?(?:image\w*|repository|tag):", re.MULTILINE | re.IGNORECASE)
_GPU_KEYS = ("nvidia.com/gpu", "amd.com/gpu", "gpu")
_PRODUCTS = ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "gpu.nvidia.com/model")


@dataclass(slots=True)
class _Container:
    image: str = ""
    words: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    gpus: int | None = None
    product: str | None = None
    name: str = ""


def sniff(source: Source) -> float:
    """The fixed first keys of these files, and an engine's name in them."""
    head = source.head
    if head.lstrip()[:1] in ("{", "[") or "== Serving Benchmark Result ==" in head:
        return 0.0
    is_spec = _COMPOSE.search(head) or (_MANIFEST.search(head) and _KIND.search(head))
    if _CHART.search(head) and not is_spec:
        return 0.9 if _SERVER.search(head) and _IMAGE.search(head) else 0.0
    if not is_spec and _VALUES.search(head) and _NAMED_MODEL.search(head):
        return 0.9
    named = _SERVER.search(head) or _SERVICE.search(head)
    named = named or (OPERATED_KIND.search(head) and OWNER.search(head))
    return (0.975 if named else 0.4) if is_spec else 0.0


def read(source: Source) -> Reading:
    """The first container that starts a server; others are listed."""
    found, damage = documents(source.text)
    containers = [one for document in found for one in _in_document(document)]
    told = [(one, launch) for one in containers if (launch := _launch(one))]
    told += [_of_operator(one) for one in operated(found)] if not told else []
    told.sort(key=lambda pair: pair[1].engine not in ENGINES or not pair[1].model)
    if not told:
        raise Unreadable(damage or "no container in it starts a known server")
    problems = [Problem(line=None, what=damage)] if damage else []
    if len(told) > 1:
        what = f"{len(told)} containers start a server: the first is told, the rest are listed only"
        problems.append(Problem(line=None, what=what))
    is_compose = bool(_COMPOSE.search(source.head))
    return Reading(
        path=str(source.path),
        format="container_specs",
        kind="config",
        tool="docker compose" if is_compose else "kubernetes",
        experiments=(_experiment(*told[0]),),
        lines=line_count(source.text.count("\n") + 1),
        problems=tuple(problems),
        extra={"containers": [{"name": one.name, "image": one.image} for one in containers][:20]},
    )


def _experiment(container: _Container, launch: Launch) -> Experiment:
    return experiment_of(launch, _hardware(container))


def _hardware(container: _Container) -> Hardware:
    return hardware([container.product], count=container.gpus)


def _of_operator(one: Operated) -> tuple[_Container, Launch]:
    environment = _environment(one.environment)
    launch = parse_command(one.words, environment, engine=one.engine) if one.engine else Launch()
    gpus = _gpus(one.node)
    container = _Container(gpus=gpus * one.nodes if gpus else None, product=one.product or _product(one.node))
    settings = {**one.settings, **launch.settings}
    return container, Launch(one.engine, None, one.model or launch.model, settings, environment)


def launches(text: str) -> Iterator[tuple[Launch, Hardware]]:
    """Every server start of a compose file or manifest, in order, with the line of its image."""
    found, _ = documents(text)
    lines = text.split("\n")
    at = 0
    for container in (one for document in found for one in _in_document(document)):
        launch = _launch(container)
        if launch is None:
            continue
        line = _line_of(container.image, lines, at)
        at = line or at
        yield launch._replace(line=line), _hardware(container)


def _line_of(image: str, lines: Sequence[str], after: int) -> int | None:
    """The line (from 1) of the first ``image:`` after a line that names this image, or None."""
    name = image.rpartition("/")[2].partition(":")[0]
    for number, line in enumerate(lines[after:], after + 1):
        if name and name in line and line.strip(" -").startswith("image:"):
            return number
    return None


def _in_document(document: Any) -> Iterator[_Container]:
    service = llm_service(document)
    if service is not None:
        found = _of_container({"image": "", **service.container}, None)
        more = more_words(found.environment)
        yield replace(found, image=SERVED_BY, words=[*service.words, *found.words, *more])
        return
    yield from _containers(document, 0)
    for one in served_models(document):
        environment = _environment(one.environment)
        yield _Container(
            image=one.image, words=one.words, environment=environment, gpus=one.gpus, name=one.name
        )
    if (values := server_of_values(document)) is not None:
        environment = _environment(values.environment)
        yield _Container(image=values.engine, words=values.words, environment=environment, gpus=values.gpus)


_PROGRAM = re.compile(
    r"(?:.*/)?(?:sleep|tail|cat|echo|true|(?:ba|z|da)?sh|python3?|tini|ray|nginx|curl|env|exec|entrypoint\S*)"
)


def _launch(container: _Container) -> Launch | None:
    engine, version = engine_of_image(container.image)
    version = None if "dynamo" in container.image.lower() else version  # its own, not the engine's
    words, environment = container.words, container.environment
    # A shell between (``bash -c "export …; vllm serve …"``) may set variables before the start.
    texts = [_with_arguments(word, words[at + 1 :]) for at, word in enumerate(words) if " " in word.strip()]
    launches = [one for text in texts for one in parse_shell(text, environment, version=version)]
    launch = launches[0] if launches else parse_command(words, environment, version=version)
    if launch.engine:
        return launch
    if not engine and len([word for word in words if word.startswith("--")]) > 2:
        engine, _ = engine_of_keys({_key_of(word) for word in words if word.startswith("--")})
    if not engine or (engine not in ENGINES and words):
        return None
    starts_program = bool(words) and _PROGRAM.fullmatch(words[0]) is not None
    if starts_program:  # it runs something else in the engine's image (``sleep infinity``)
        return Launch(engine=engine, version=version, environment=environment)
    return parse_command(words, environment, version=version, engine=engine)


_ARGUMENTS = re.compile(r"[\"']?\$?\$(?:@|\{@\}|\*)[\"']?")


def _with_arguments(text: str, words: list[str]) -> str:
    """A shell's text with the arguments that follow it, where it passes them on (``serve "$@"``)."""
    given = words[1:] if words and (words[0] == "--" or not words[0].startswith("--")) else words
    return _ARGUMENTS.sub(lambda _: shlex.join(given), text)


def _key_of(flag: str) -> str:
    return flag.partition("=")[0].lstrip("-").replace("-", "_")


def _containers(node: Any, depth: int) -> Iterator[_Container]:
    if depth > 12:
        return
    if isinstance(node, list):
        for one in node:
            yield from _containers(one, depth + 1)
    if not isinstance(node, Mapping):
        return
    services = node.get("services")
    if isinstance(services, Mapping) and depth == 0:
        for name, service in services.items():
            if isinstance(service, Mapping):
                yield _of_service(str(name), service)
        return
    if isinstance(node.get("image"), str) and ("name" in node or "command" in node or "args" in node):
        yield _of_container(node, None)
    elif depth and "image" not in node and "name" in node and isinstance(node.get("args"), list):
        yield _of_container({**node, "image": ""}, None)  # a patch of a container that another file has
    product, gpus, pods = _product(node), _gpus(node), group_size(node)
    for key, inner in node.items():
        for found in _containers(inner, depth + 1) if key != "initContainers" else ():
            found.product = found.product or product
            found.gpus = found.gpus or gpus
            found.gpus = found.gpus * pods if found.gpus else None
            yield found


def _product(node: Mapping[str, Any]) -> str | None:
    selector = node.get("nodeSelector")
    told = (selector.get(key) for key in _PRODUCTS) if isinstance(selector, Mapping) else ()
    product = next((one for one in told if isinstance(one, str)), None)
    product = product or next(affine(node.get("affinity")), None)
    return re.sub(r"[-_]", " ", product) if isinstance(product, str) else None


def _of_container(node: Mapping[str, Any], product: str | None) -> _Container:
    return _Container(
        image=str(node["image"]),
        words=_words(node.get("command")) + _words(node.get("args")),
        environment=_environment(node.get("env")),
        gpus=_gpus(node),
        product=product,
        name=str(node.get("name", "")),
    )


def _gpus(node: Mapping[str, Any]) -> int | None:
    """GPUs that a container, or an operator's service around it, asks for."""
    resources = node.get("resources")
    if not isinstance(resources, Mapping):
        return None
    limits = resources.get("limits") or resources.get("requests")
    limits = limits if isinstance(limits, Mapping) else {}
    card = resources.get("gpu")
    told = card.get("count") if isinstance(card, Mapping) else None
    number = str(next((limits[key] for key in _GPU_KEYS if key in limits), told))
    return int(number) if number.isdecimal() and len(number) < 6 else None


def _of_service(name: str, service: Mapping[str, Any]) -> _Container:
    return _Container(
        image=_expanded(str(service.get("image", ""))),
        words=_words(service.get("entrypoint")) + _words(service.get("command")),
        environment=_environment(service.get("environment")),
        gpus=_reserved(service),
        name=name,
    )


def _reserved(service: Mapping[str, Any]) -> int | None:
    node: Any = service
    for key in ("deploy", "resources", "reservations", "devices"):
        node = node.get(key) if isinstance(node, Mapping) else None
    for device in node if isinstance(node, list) else ():
        if isinstance(device, Mapping):
            ids, count = device.get("device_ids"), device.get("count")
            if isinstance(ids, list):
                return len(ids)
            if isinstance(count, int) and not isinstance(count, bool):
                return count
    return None


def _words(value: Any) -> list[str]:
    if isinstance(value, list):
        return [_expanded(str(one)) for one in value if one is not None]
    if not isinstance(value, str):
        return []
    text = _expanded(value.replace("\\\n", " "))
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _expanded(text: str) -> str:
    """Compose's ``${NAME:-default}`` as its default; a variable without one stays as written."""
    return re.sub(r"\$\{\w+:?-([^}]*)\}", r"\1", text)


def _environment(value: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    if isinstance(value, Mapping):
        found = {str(key): _expanded(str(one)) for key, one in value.items() if one is not None}
    for one in value if isinstance(value, list) else ():
        if isinstance(one, Mapping) and "name" in one and one.get("value") is not None:
            found[str(one["name"])] = str(one["value"])
        elif isinstance(one, str) and "=" in one:
            name, _, text = one.partition("=")
            found[name] = _expanded(text)
    return found


FORMAT = Format(
    name="container_specs",
    kind="config",
    sniff=sniff,
    read=read,
    version=2,
    docs="Compose files, Kubernetes manifests of any kind (those of operators such as Dynamo included) and "
    "chart values that name a model: image (engine and version), command and arguments, environment, number "
    "and product of GPUs. A compose override without an image is told by its options; a container that runs "
    "something else in an engine's image gives the engine alone.",
)
