"""Output of ``docker inspect`` and ``podman inspect``: what a container was started with, and how it ended.

Owns these objects, of containers and of images. The command's words are kb.vocab's; variables that come from
an image and that no server reads are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ingest.formats import Format, Unreadable
from ingest.formats.env_file import is_read_by_a_server
from ingest.launches import engine_of_image, experiment_of
from ingest.sources import Source
from ingest.traces import line_count
from kb.model import Experiment, Hardware, Reading
from kb.vocab.engines import Launch, parse_command, parse_shell

_MARKS = ('"State"', '"HostConfig"', '"RepoTags"', '"GraphDriver"', '"Config"', '"RootFS"')
_NEVER = "0001-01-01"
_OF_THE_IMAGE = re.compile(r"_(?:VERSION|PATH|HOME|ROOT|DIR|LIST)$")  # where its builder put things


def sniff(source: Source) -> float:
    """Keys that docker's objects have."""
    head = source.head.lstrip("\ufeff \t\r\n")
    if head[:1] not in ("[", "{") or '"Id"' not in head:
        return 0.0
    return 0.97 if sum(mark in head for mark in _MARKS) > 1 else 0.0


def read(source: Source) -> Reading:
    """The first container or image that serves a model."""
    try:
        raw = json.loads(source.text.lstrip("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"the JSON is damaged or cut: {error}") from None
    objects = [one for one in (raw if isinstance(raw, list) else [raw]) if isinstance(one, Mapping)]
    told = [(one, found) for one in objects if (found := _experiment(one)) is not None]
    if not told:
        raise Unreadable("no container in it starts a known server")
    container, experiment = told[0]
    ended = _ending(container)
    return Reading(
        path=str(source.path),
        format="docker_inspect",
        kind="config",
        tool="docker",
        experiments=(experiment,),
        lines=line_count(source.text.count("\n") + 1),
        extra={"run": ended} if ended else {},
    )


def _experiment(container: Mapping[str, Any]) -> Experiment | None:
    config, state = _inner(container, "Config"), _inner(container, "State")
    launch = _launch(container, config)
    if launch.engine is None:
        return None
    count = _cards(_inner(container, "HostConfig"))
    times = {key: _time(state.get(name)) for key, name in (("started", "StartedAt"), ("ended", "FinishedAt"))}
    return experiment_of(launch, Hardware(count=count), **times)


def _launch(container: Mapping[str, Any], config: Mapping[str, Any]) -> Launch:
    tags = container.get("RepoTags")
    image = config.get("Image") or (tags[0] if isinstance(tags, list) and tags else "")
    engine, version = engine_of_image(str(image))
    environment = _environment(config.get("Env"))
    words = [str(one) for key in ("Entrypoint", "Cmd") for one in _listed(config.get(key))]
    inside = [one for word in words if " " in word for one in parse_shell(word, environment, version=version)]
    launch = inside[0] if inside else parse_command(words, environment, version=version)
    if launch.engine:
        return launch
    if engine and any(word.startswith("--") for word in words):
        return parse_command(words, environment, version=version, engine=engine)
    return Launch(engine=engine, version=version, environment=environment)


def _environment(told: Any) -> dict[str, str]:
    pairs = (str(one).partition("=") for one in _listed(told))
    return {
        name: value
        for name, _, value in pairs
        if value and is_read_by_a_server(name) and not _OF_THE_IMAGE.search(name)
    }


def _listed(told: Any) -> list[Any]:
    return told if isinstance(told, list) else []


def _cards(host: Mapping[str, Any]) -> int | None:
    """GPUs that the container asked for; ``--gpus all`` says no number."""
    asked = [one for one in _listed(host.get("DeviceRequests")) if isinstance(one, Mapping)]
    for one in asked:
        ids, count = one.get("DeviceIDs"), one.get("Count")
        if isinstance(ids, list) and ids:
            return len(ids)
        if isinstance(count, int) and count > 0:
            return count
    return None


def _ending(container: Mapping[str, Any]) -> dict[str, Any]:
    """How a container that has ended did: nothing of one that runs."""
    state = _inner(container, "State")
    if state.get("Running") or _time(state.get("FinishedAt")) is None:
        return {}
    killed = {"killed_by": {"who": "out of memory"}} if state.get("OOMKilled") else {}
    code = state.get("ExitCode")
    return ({"exit_code": code} if isinstance(code, int) else {}) | killed


def _time(text: Any) -> str | None:
    """A time as docker prints it, to the microsecond; None for its zero."""
    if not isinstance(text, str) or text.startswith(_NEVER) or "T" not in text:
        return None
    day, _, rest = text.rstrip("Z").partition(".")
    return f"{day}.{rest[:6]}+00:00" if rest[:6].isdecimal() else f"{day}+00:00"


def _inner(node: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = node.get(key)
    return found if isinstance(found, Mapping) else {}


FORMAT = Format(
    name="docker_inspect",
    kind="config",
    sniff=sniff,
    read=read,
    docs="`docker inspect` of a container or an image: image (engine and version), command, environment, "
    "GPUs asked for, start and end, exit code.",
)
