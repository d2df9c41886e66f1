"""YAML in which people describe a server in words of their own: recipes, ``serving.yaml``, a runner's record.

Owns finding in them an engine by its own name with its options, or a launch command. Files that are an
engine's own options, manifests and compose files are other formats'.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ingest.formats import Format, Unreadable
from ingest.formats.engine_yaml import knows
from ingest.known_charts import MARKS, accelerator_of, launch_of
from ingest.launches import command_words, engine_of_image, experiment_of
from ingest.machine import hardware, known
from ingest.sources import Source
from ingest.srt_recipes import experiment_of_recipe, is_recipe
from ingest.traces import line_count
from ingest.yaml_text import documents
from kb.model import Experiment, Hardware, Problem, Reading
from kb.vocab.engines import ENGINES, Launch, canonical_engine, parse_command, parse_shell
from kb.vocab.gpus import find_gpu

_NAMES = r"vllm|sglang|trtllm|tensorrt[_-]llm|llama[_-]?cpp"
_RECIPE = re.compile(r"^[ ]{0,4}gpu_type:[^\n]*$", re.MULTILINE)
_WORKERS = re.compile(r"^[ ]{0,4}(?:agg|prefill|decode)_(?:nodes|workers):", re.MULTILINE)
_GROUP = re.compile(
    rf"^[ ]{{0,4}}(?:{_NAMES})(?:_(?:config|args|options|settings|features))?:[ ]*(?:#.*)?\n", re.MULTILINE
)
_ENGINE = re.compile(
    rf"(?i)^(?:backend|engine|framework|serving_engine):[ ]*['\"]?(?:{_NAMES})['\"]?[ ]*(?:#.*)?$",
    re.MULTILINE,
)
_MODEL = re.compile(
    r"(?i)^[ ]{0,4}(?:model|model_id|model_name|model_path|hf_model)(?:_\w+)?:[ ]*\S", re.MULTILINE
)
_COMMAND = re.compile(r"^[ ]{0,4}(?:\w+_)?(?:command|cmd|argv):", re.MULTILINE)
_STARTED = re.compile(
    r"\bvllm serve\b|--entrypoint vllm|vllm/vllm-openai|lmsysorg/sglang|sglang\.launch_server|"
    r"trtllm-serve|llama-server"
)
_OTHERS = re.compile(r"^(?:services|apiVersion|jobs|on|steps|stages):", re.MULTILINE)
_MODEL_KEYS = ("model", "model_id", "model_name", "model_path", "hf_model")
_IMAGE_KEYS = ("image", "image_repo", "container_image", "docker_image")
_CARD_KEYS, _COUNT_KEYS = (
    ("accelerator", "gpu", "gpu_type", "gpu_name"),
    ("accelerator_count", "gpu_count", "num_gpus"),
)
_DEEPEST = 6
_SUFFIX = re.compile(r"_(?:config|args|options|settings|features)$")


def sniff(source: Source) -> float:
    """A mapping with an engine's name and a model, or with the command that starts one."""
    head = source.head
    if not source.name.lower().endswith((".yaml", ".yml")) or _OTHERS.search(head):
        return 0.0
    if (_RECIPE.search(head) and _WORKERS.search(head)) or MARKS.search(head):
        return 0.95
    if _COMMAND.search(head) and _STARTED.search(head):
        return 0.84
    named = _ENGINE.search(head) or _GROUP.search(head)
    return 0.83 if named and _MODEL.search(head) else 0.0


def read(source: Source) -> Reading:
    """The first server that a document describes."""
    found, damage = documents(source.text)
    described = next((told for one in found if (told := _described(one)) is not None), None)
    if described is None:
        raise Unreadable(damage or "it names no engine with a model or an option of it")
    return Reading(
        path=str(source.path),
        format="server_yaml",
        kind="config",
        experiments=(described,),
        lines=line_count(source.text.count("\n") + 1),
        problems=(Problem(line=None, what=damage),) if damage else (),
    )


def _described(document: Any) -> Experiment | None:
    if not isinstance(document, Mapping):
        return None
    if is_recipe(document):
        return experiment_of_recipe(document)
    nodes = list(_mappings(document, 0))
    if (stack := launch_of(nodes)) is not None:
        asked = accelerator_of(stack[1])
        return experiment_of(stack[0], hardware([asked.gpu], count=asked.count))
    launch = next((one for node in nodes if (one := _commanded(node)) is not None), None)
    launch = launch or _grouped(nodes) or _named(nodes)
    return experiment_of(launch, _hardware(nodes)) if launch else None


def _mappings(node: Any, depth: int) -> Iterator[Mapping[str, Any]]:
    if isinstance(node, list) and depth < _DEEPEST:
        for one in node:
            yield from _mappings(one, depth + 1)
    if isinstance(node, Mapping) and depth < _DEEPEST:
        yield node
        for one in node.values():
            yield from _mappings(one, depth + 1)


def _commanded(node: Mapping[str, Any]) -> Launch | None:
    """The start that a member called "…command" holds, as a text or as words behind an image."""
    for key, value in node.items():
        if not re.fullmatch(r"(?:\w+_)?(?:command|cmd|argv)", str(key)):
            continue
        text = re.sub(r"^command=", "", value) if isinstance(value, str) else ""
        launch = next(iter(parse_shell(text)), None) if text else None
        if launch is None and (words := command_words(value)):
            engine, version = engine_of_image(_first(node, _IMAGE_KEYS) or "")
            flags = engine if any(one.startswith("--") for one in words) else None
            launch = parse_command(words, version=version, engine=flags)
        if launch and launch.engine and (launch.model or launch.settings):
            return launch
    return None


def _grouped(nodes: list[Mapping[str, Any]]) -> Launch | None:
    """The options in a member that is called as an engine, with the model in it or beside it."""
    for node in nodes:
        for key, value in node.items():
            engine = canonical_engine(_SUFFIX.sub("", str(key)).replace("_", "-"))
            if engine not in ENGINES or not isinstance(value, Mapping):
                continue
            options = {
                str(name): one
                for name, one in value.items()
                if one is not None and name not in _MODEL_KEYS and knows(engine, str(name))
            }
            model = _first(value, _MODEL_KEYS) or _first(nodes[0], _MODEL_KEYS)
            if options or (model and any(key in value for key in _MODEL_KEYS)):
                ports = [one["port"] for one in nodes if isinstance(one.get("port"), int)]
                port = {"port": ports[0]} if len(ports) == 1 else {}
                return Launch(engine=engine, model=model, settings=port | options)
    return None


def _named(nodes: list[Mapping[str, Any]]) -> Launch | None:
    """The engine that a member names, with the options that stand beside it."""
    top = nodes[0]
    word = _first(top, ("backend", "engine", "framework", "serving_engine"))
    engine, model = canonical_engine(word) if word else None, _first(top, _MODEL_KEYS)
    if engine is None or model is None:
        return None
    skipped = {"model", "backend", "engine", "framework"}
    options = {key: one for key, one in top.items() if key not in skipped and knows(engine, str(key))}
    return Launch(
        engine=engine, model=model, settings={k: v for k, v in options.items() if not isinstance(v, Mapping)}
    )


def _hardware(nodes: list[Mapping[str, Any]]) -> Hardware:
    told = (one for node in nodes if (one := _first(node, _CARD_KEYS)))
    card = next((one for one in told if find_gpu(one)), None)
    counts = [node[key] for node in nodes for key in _COUNT_KEYS if isinstance(node.get(key), int)]
    return hardware([card] if card else [], count=counts[0] if counts and counts[0] > 0 else None)


def _first(node: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((text for key in keys if isinstance(text := node.get(key), str) and known(text)), None)


FORMAT = Format(
    name="server_yaml",
    kind="config",
    sniff=sniff,
    read=read,
    docs="YAML in which people describe a server in words of their own: recipes of srt-slurm, values of "
    "llm-d's charts, Ray Serve LLM's configuration, a `vllm:` or `sglang:` part with options, an engine "
    "named beside its model, a runner's record with the command line.",
)
