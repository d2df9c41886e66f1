"""From a launch command, settings or names to the typed values that an experiment holds.

Owns how what a file says about a server becomes ``Model``, ``Backend`` and an ``Experiment`` that supplies
fields. Must not read files.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ingest.machine import known
from kb.model import Backend, Experiment, Hardware, Model
from kb.vocab.engines import Launch, canonical_engine, canonical_settings, roles_of
from kb.vocab.models import find_model, quantization_of
from kb.vocab.starts import is_own_image

_VERSION = re.compile(r"v?(\d+(?:\.\d+)+(?:[.-]?(?:rc|post|dev|a|b)\d*)*(?:\+[\w.]+)?)")
_IMAGE_TAG = re.compile(r"^(?:[\w.-]+(?::\d+)?/)*([\w.-]+):([\w.-]+)(?:@sha256:\w+)?$")
_MONTHLY = re.compile(r"\d\d\.(?:0\d|1[0-2])(?:\.\d+)?-py\d")  # of a vendor's images, whatever is inside
_VERSION_OF_TAG = re.compile(r"^v?(\d+(?:\.\d+)+(?:(?:rc|post|dev)\d+)*(?:\.?(?:rc|post|dev)\d+)*)")


def model_of(name: object, quantization: object = None) -> Model:
    """The model that a name means; a quantization said beside it beats the one that the name implies."""
    word = known(name)
    if word is None:
        said = known(quantization)
        return Model(quantization=(quantization_of(said) or said.lower()) if said else None)
    entry, said = find_model(word), known(quantization)
    # A container of several methods (compressed-tensors, modelopt) says less than the model's name.
    method = (
        (quantization_of(said) if said else None) or quantization_of(word) or (said.lower() if said else None)
    )
    return Model(
        name=word,
        id=entry.id if entry else None,
        family=entry.family if entry else None,
        architecture=entry.architecture if entry else None,
        quantization=method,
    )


def backend_of(launch: Launch, arch: str | None = None, quantization: str | None = None) -> Backend:
    """An engine with its settings by dest, and the kernels that they ask for on this arch."""
    word = known(launch.engine)
    name = canonical_engine(word) or word if word else None
    given = canonical_settings(name, launch.settings) if name else dict(launch.settings)
    version = known(launch.version)
    asked = roles_of(name, version, given, launch.environment, arch, quantization) if name else {}
    return Backend(
        engine=name,
        engine_version=plain_version(version),
        settings=given,
        environment=dict(launch.environment),
        requested=asked,
    )


def experiment_of(launch: Launch, hardware: Hardware | None = None, **rest: Any) -> Experiment:
    """The experiment that a launch supplies; ``rest`` are further fields (started, ended …)."""
    launch = _told(launch)
    quantization = launch.settings.get("quantization")
    model = model_of(launch.model, quantization)
    where = hardware or Hardware()
    backend = backend_of(launch, where.arch, model.quantization)
    return Experiment(model=model, backend=backend, hardware=where, port=port_of(launch.settings), **rest)


_VARIABLE = re.compile(r"\$\{?[\w.]+\}?|\$\(.*\)|<[A-Za-z][\w ./-]*>")
_ANY_PLACE = re.compile(
    r"/(?:(?:mnt|data|app|workspace|opt|repository)/)?(?:models?|model-store|checkpoints?)/?"
)
_HOLE = re.compile(r"\$(?:[{(]|\w|$)")


def _told(launch: Launch) -> Launch:
    """The launch without what its text leaves to a variable that it does not set ("$MODEL", "${TP}")."""
    settings = {key: value for key, value in launch.settings.items() if not _has_hole(value)}
    environment = {key: value for key, value in launch.environment.items() if not _is_variable(value)}
    model = None if _has_hole(launch.model) else launch.model
    served = settings.get("served_model_name")
    served = served[0] if isinstance(served, list) and served else served
    if model and _ANY_PLACE.fullmatch(model):  # where a container finds whatever model it is given
        model = str(served or "") or None
    elif launch.model and not model and "/" in str(served):  # a variable names the place, the name is a hub's
        model = str(served)
    return launch._replace(settings=settings, environment=environment, model=model)


def _has_hole(value: Any) -> bool:
    """Whether a part of a value is left open: "/models/$NAME.gguf" names no model."""
    return _is_variable(value) or (isinstance(value, str) and _HOLE.search(value) is not None)


def _is_variable(value: Any) -> bool:
    return isinstance(value, str) and _VARIABLE.fullmatch(value) is not None


def port_of(settings: Mapping[str, Any]) -> int | None:
    """The port in settings, when it is one."""
    port = str(settings.get("port"))
    return int(port) if port.isdecimal() and 0 < int(port) < 65536 else None


def plain_version(text: object) -> str | None:
    """The version in a text such as ``v0.21.0`` or ``vLLM 0.5.2``; the text itself when it holds none."""
    word = known(text)
    if word is None:
        return None
    found = _VERSION.search(word)
    return found[1] if found else word


def engine_of_image(image: str) -> tuple[str | None, str | None]:
    """(engine, version) of a container image such as ``vllm/vllm-openai:v0.26.0-cu129``."""
    named = _IMAGE_TAG.match(image.strip())
    path = image.strip().rpartition(":")[0] or image.strip()
    engine = next((name for part in path.split("/")[::-1] if (name := _engine_in(part))), None)
    if named is None or engine is None or _MONTHLY.match(named[2]):
        return engine, None
    own = re.search(rf"(?:^|[_-]){engine}[_-]v?(\d+(?:\.\d+)+(?:(?:rc|post|dev)\d+)*)", named[2])
    if own:
        return engine, own[1]
    tag = _VERSION_OF_TAG.match(named[2]) if is_own_image(image.strip()) else None
    return engine, tag[1] if tag else None


def engine_in_text(text: str) -> tuple[str | None, str | None]:
    """(engine, version) named in a free text such as ``vLLM 0.5.2, CUDA 12.4``."""
    for part in re.split(r"[,;]", text):
        words = part.split()
        for at, word in enumerate(words):
            engine = canonical_engine(word)
            if engine:
                rest = " ".join(words[at + 1 : at + 3])
                found = _VERSION.search(rest)
                return engine, found[1] if found else None
    return None, None


def assignments_in(text: str) -> dict[str, str]:
    """``A=b C="d e"`` as a mapping; words without ``=`` are left out."""
    found = re.findall(r"""([A-Za-z_]\w*)=("[^"]*"|'[^']*'|\S*)""", text)
    return {name: value.strip("\"'") for name, value in found}


def merged(first: Experiment, others: Iterable[Experiment]) -> Experiment:
    """One experiment of several that speak of the same start: earlier ones win, settings add up."""
    for other in others:
        mine, theirs = first.backend, other.backend
        backend = Backend(
            engine=mine.engine or theirs.engine,
            engine_version=mine.engine_version or theirs.engine_version,
            dependencies={**theirs.dependencies, **mine.dependencies},
            settings={**theirs.settings, **mine.settings},
            environment={**theirs.environment, **mine.environment},
            requested={**theirs.requested, **mine.requested},
        )
        model = first.model if first.model.name else other.model
        first = replace(first, backend=backend, model=model, port=first.port or other.port)
    return first


def _engine_in(part: str) -> str | None:
    stem = part.lower().split(":")[0]
    for word in (stem, *re.split(r"[-_.]", stem)):
        engine = canonical_engine(word)
        if engine:
            return engine
    return None


def common_launch(launches: list[Launch]) -> Launch:
    """What several starts of one run book have in common."""
    if not launches:
        return Launch()
    first, rest = launches[0], launches[1:]
    shared = {
        key: value
        for key, value in first.settings.items()
        if all(one.settings.get(key) == value for one in rest)
    }
    return Launch(engine=first.engine, version=first.version, model=first.model, settings=shared)


def command_words(value: object) -> list[str]:
    """The words of a command that metadata hold as a list or as a line."""
    if isinstance(value, list):
        return [str(one) for one in value if isinstance(one, str | int | float)]
    if not isinstance(value, str):
        return []
    try:
        return shlex.split(value.replace("\\\n", " "))
    except ValueError:
        return value.split()
