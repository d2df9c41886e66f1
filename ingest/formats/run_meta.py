"""Metadata that people's own runners write beside a run: ``run.json``, ``meta.json`` and the like.

Owns the words of such files (``ingest/meta_keys.json``): which key holds the command, the engine, the exit
status. A file is taken for metadata when several of them meet and none is a benchmark's result.

``extra["run"]`` holds what bears on the outcome, each key only where the file says it: ``exit_code`` (int;
negative: signal), ``stopped_by`` (text), ``killed_by`` (mapping with ``at``, ``signal``, ``who`` as far as
given), ``ready`` (bool), ``ready_after_s``, ``ready_at``, ``timed_out`` (bool), ``wall_s``, ``started``,
``ended`` and ``benches``: mappings of ``stdout`` (file name), ``rc`` (int), ``start``, ``end``, ``command``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from ingest import meta_values
from ingest.bench.names import is_option
from ingest.formats import Format, Unreadable
from ingest.launches import (
    assignments_in,
    backend_of,
    command_words,
    common_launch,
    engine_in_text,
    engine_of_image,
    model_of,
    plain_version,
    port_of,
)
from ingest.machine import known
from ingest.packages import split_packages
from ingest.sources import Source
from ingest.traces import iso_time, line_count
from kb.model import Experiment, Hardware, Problem, Reading
from kb.vocab.engines import ENGINES, Launch, canonical_engine, canonical_settings, parse_command, parse_shell
from kb.vocab.gpus import find_gpu

_KEY = re.compile(r'^[ \t{]{0,8}"([A-Za-z_]\w*)"\s*:', re.MULTILINE)
_ANY_KEY = re.compile(r'"([A-Za-z_][\w. %/-]*)"\s*:')
_RESULT = re.compile(
    r"(?i)throughput|ttft|tpot|\bitl|latency|tok_?s\b|tokens_per_s|tps\b|per_second|p9[059]|accuracy|\bresults?\b"
)
_NAMED = re.compile(r"meta(?:data)?\b|manifest|run_?info")
_OTHER_DEVICE = re.compile(r'"(?:smartctl|/dev/(?:nvme|sd)\w+)"')  # a disk
_TEXT = re.compile(r'"(?P<key>[A-Za-z_]\w{0,40})"\s*:\s*"(?P<value>[^"\n]{2,120})"')
_WHO = frozenset({"gpu", "engine", "model", "driver", "cuda"})
_WEAK = 0.35  # it says who was measured, with figures that nothing else reads
_LARGEST = 8 << 20
_NOT_LIBRARIES = ("driver", "cuda", "kernel", "glibc")


def sniff(source: Source) -> float:
    """Keys of several kinds, one of them a command, an engine's version or a server's settings."""
    head = source.head.lstrip("\ufeff \t\r\n")
    if not head.startswith("{") or _OTHER_DEVICE.search(head):
        return 0.0
    keys = {key.lower() for key in _ANY_KEY.findall(head)}
    kinds = {kind for key in keys if (kind := kind_of(key))}
    libraries = [key for key in keys if canonical_engine(key) in ENGINES] if "dependencies" in kinds else []
    kinds |= {"engine"} if libraries or any(map(_engine_of, keys)) else set()
    named = bool(_NAMED.search(source.name.lower())) and (
        {"engine", "model"} <= kinds or {"engine", "dependencies"} <= kinds
    )
    weak = _WEAK * (len(kinds & _WHO) > 1 and _names_card(head))
    return max(_sureness(keys, kinds), weak, 0.6 * (named and not any(_RESULT.search(key) for key in keys)))


def _engine_of(key: str) -> str | None:
    """The engine that a key of a version names ("vllm_version")."""
    named = re.fullmatch(r"(\w+?)_(?:version(?:_reported)?|(?:git_)?(?:commit|sha|build|tag))", key)
    engine = canonical_engine(named[1]) if named else None
    return engine if engine in ENGINES else None


def _names_card(head: str) -> bool:
    """Whether a key of the hardware holds the name of a card that the vocabulary knows."""
    told = (found["value"] for found in _TEXT.finditer(head) if kind_of(found["key"]) == "gpu")
    return any(find_gpu(re.sub(r"^\s*\d+\s*[x×]\s*", "", one)) for one in told)


def _sureness(keys: set[str], kinds: set[str]) -> float:
    described = {"engine", "dependencies"} <= kinds and kinds & {"gpu", "driver"}
    if len(kinds) < 3 or not (described or kinds & {"command", "settings", "version", "image"}):
        return 0.0
    if "model" not in kinds and "engine" not in kinds and "command" not in kinds:
        return 0.0
    if "command" in kinds and (kinds & {"stopped_by", "killed_by"} or {"exit_code", "ready"} <= kinds):
        return 0.92
    if any(_RESULT.search(key) for key in keys):
        return 0.0
    return min(0.5 + 0.06 * len(kinds), 0.85)


def read(source: Source) -> Reading:
    """The one start that the file describes."""
    text = source.text[:_LARGEST]
    try:
        raw = json.loads(text.lstrip("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"the JSON is damaged or cut: {error}") from None
    if not isinstance(raw, dict):
        raise Unreadable("the JSON holds no object at its top")
    reading = reading_of(source, raw, "run_meta")
    told = reading.experiments[0]
    if not (told.backend.engine or told.model.name or told.hardware != Hardware() or "run" in reading.extra):
        raise Unreadable("it names no model, no engine, no hardware, and no end of a run")
    return reading


def reading_of(source: Source, raw: Mapping[str, Any], form: str) -> Reading:
    """What a mapping of metadata tells of one start."""
    meta = _Meta(raw)
    experiment = meta.experiment()
    return Reading(
        path=str(source.path),
        format=form,
        kind="config",
        experiments=(experiment,),
        lines=line_count(source.text[:_LARGEST].count("\n") + 1),
        problems=tuple(Problem(line=None, what=what) for what in meta.problems),
        extra={name: found for name, found in (("run", meta.run()), ("meta", meta.rest())) if found},
    )


@lru_cache(maxsize=4096)
def kind_of(key: str) -> str | None:
    """What a key of metadata is about (``command``, ``engine``, ``exit_code`` …), or None."""
    word = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower()).strip("_")
    found = _kinds().get(word)
    if found:
        return found
    if _engine_of(word) and "version" in word:
        return "version"
    image = re.fullmatch(r"(\w+?)_image", word)
    if image and canonical_engine(image[1]) in ENGINES:
        return "image"
    return "settings" if re.fullmatch(r"(?:extra_)?\w*_args", word) else None


@cache
def _kinds() -> Mapping[str, str]:
    data = json.loads(Path(__file__).parents[1].joinpath("meta_keys.json").read_text(encoding="utf-8"))
    return {key: kind for kind, keys in data.items() for key in keys}


class _Meta:
    """An object of metadata, its values by kind; nested objects of unknown name are searched as well."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.found: dict[str, list[tuple[str, Any]]] = {}
        self.problems: list[str] = []
        self.raw = raw
        self.versions: dict[str, str] = {}
        self.options: dict[str, Any] = {}
        self.widths: dict[str, int] = {}
        self._collect(raw, 0)

    def experiment(self) -> Experiment:
        """Model, engine, settings, environment, hardware, times."""
        launch = self._launch()
        engine, version = self._engine(launch)
        settings = self._settings(engine) | dict(launch.settings)
        where = meta_values.hardware_of({kind: self._values(kind) for kind in meta_values.KINDS})
        quantization = settings.get("quantization") or self._quantization()
        model = model_of(self._text("model") or launch.model, quantization)
        environment = self._environment() | dict(launch.environment)
        told = Launch(engine=engine, version=version, settings=settings, environment=environment)
        backend = backend_of(told, where.arch, model.quantization)._replace(dependencies=self._dependencies())
        return Experiment(
            model=model,
            backend=backend,
            hardware=where,
            port=port_of(settings),
            started=self._time("started"),
            ended=self._time("ended"),
        )

    def run(self) -> dict[str, Any]:
        """What bears on the outcome."""
        found: dict[str, Any] = {}
        for kind in ("exit_code", "ready", "ready_after_s", "timed_out", "wall_s", "stopped_by", "ready_at"):
            value = self._first(kind)
            if value is not None:
                found[kind] = value
        killed = self._first("killed_by")
        if killed:
            found["killed_by"] = killed if isinstance(killed, dict) else {"who": str(killed)}
        for kind in ("started", "ended"):
            if time := self._time(kind):
                found[kind] = time
        benches = self._first("benches")
        if isinstance(benches, list):
            found["benches"] = [meta_values.client_of(one) for one in benches if isinstance(one, dict)]
        return found

    def rest(self) -> dict[str, Any]:
        """Top-level values that are short and of no known kind: identity, notes, other versions."""
        known_keys = {key for values in self.found.values() for key, _ in values}
        plain = {
            key: value
            for key, value in self.raw.items()
            if isinstance(value, str | int | float | bool) and key not in known_keys
        }
        return {key: value if not isinstance(value, str) else value[:300] for key, value in plain.items()}

    def _collect(self, raw: Mapping[str, Any], depth: int) -> None:
        for key, value in raw.items():
            kind = kind_of(str(key))
            library = re.fullmatch(r"(\w+?)_version", str(key).lower())
            if library and kind is None and isinstance(value, str) and known(value):
                self.versions.setdefault(library[1].replace("_", "-"), value.split()[0])
            if kind is None and isinstance(value, str | int | float) and is_option(str(key)):
                self.options[str(key)] = value
            elif str(key).lower() in _WIDTHS and isinstance(value, int):
                self.widths[str(key).lower()] = value
            elif kind is None and _is_release(str(key), value):
                self.found.setdefault("version", []).append((f"{key}_version", value))
            elif str(key) == "count" and any(kind_of(str(one)) == "gpu" for one in raw):
                self.found.setdefault("count", []).append((str(key), value))
            if kind:
                self.found.setdefault(kind, []).append((str(key), value))
            if isinstance(value, dict) and depth < 3 and not _is_closed(kind, value, str(key)):
                self._collect(value, depth + 1)

    def _first(self, kind: str) -> Any:
        return next((value for _, value in self.found.get(kind, ()) if value is not None), None)

    def _text(self, kind: str) -> str | None:
        return meta_values.first_text(self._values(kind))

    def _values(self, kind: str) -> list[Any]:
        return [value for _, value in self.found.get(kind, ())]

    def _time(self, kind: str) -> str | None:
        value = self._first(kind)
        if not isinstance(value, str | int | float):
            return None
        text = str(value)
        return text if re.match(r"\d{4}-\d\d-\d\dT", text) else iso_time(text)

    def _launch(self) -> Launch:
        environment, version = self._environment(), self._text("version")
        for _, value in self.found.get("command", ()):
            if isinstance(value, dict):
                texts = [one for one in value.values() if isinstance(one, str)]
                launch = common_launch([one for text in texts for one in parse_shell(text, environment)])
            else:
                words = command_words(value)
                launch = parse_command(words, environment, version=version) if words else Launch()
            if launch.engine:
                return launch
        return Launch()

    def _dependencies(self) -> dict[str, str]:
        """Libraries named with a version: ``<name>_version`` keys, and mappings of packages."""
        packages = {name: str(value) for name, value in self.versions.items()}
        for _, value in self.found.get("dependencies", ()):
            if isinstance(value, dict):
                packages |= {str(name): str(one) for name, one in value.items() if isinstance(one, str)}
            elif isinstance(value, list):
                packages |= dict(one.split("==", 1) for one in value if isinstance(one, str) and "==" in one)
        found, _, _ = split_packages(packages)
        return {name: version for name, version in found.items() if name not in _NOT_LIBRARIES}

    def _engine(self, launch: Launch) -> tuple[str | None, str | None]:
        engine, version = launch.engine, launch.version
        for value in self._values("engine"):
            if isinstance(value, dict) and (named := canonical_engine(str(value.get("name")))) in ENGINES:
                engine, version = engine or named, version or plain_version(str(value.get("version") or ""))
        for key, value in self.found.get("version", ()):
            named = canonical_engine(key.split("_version")[0].replace("engine", ""))
            if isinstance(value, str) and (named or not version):
                engine, version = engine or named, plain_version(value) if named or engine else version
        for _, value in (*self.found.get("engine", ()), *self.found.get("image", ())):
            if isinstance(value, str):
                told = engine_in_text(value)
                told = told if told[0] else (canonical_engine(value), None)
                named, tag = told if told[0] else engine_of_image(value)
                engine, version = engine or named, version or (tag if named else None)
        if engine is None:
            engine, version = self._among_libraries()
        engine = engine or next((found for key in self.raw if (found := _engine_of(str(key).lower()))), None)
        version = version or (plain_version(self._text("version")) if engine else None)
        return engine, version or self._packaged(engine)

    def _among_libraries(self) -> tuple[str | None, str | None]:
        """The one engine among versions by name ("runtime": {"torch": …, "vllm": "0.25.0"})."""
        told = [one for kind in ("engine", "dependencies") for _, one in self.found.get(kind, ())]
        versions = {
            found: plain_version(value)
            for one in told
            if isinstance(one, dict)
            for name, value in one.items()
            if isinstance(value, str) and (found := canonical_engine(str(name))) in ENGINES
        }
        return versions.popitem() if len(versions) == 1 else (None, None)

    def _packaged(self, engine: str | None) -> str | None:
        """The engine's version among the packages."""
        told = [value for _, value in self.found.get("dependencies", ()) if isinstance(value, dict)]
        pairs = [(name, one) for value in told for name, one in value.items() if isinstance(one, str)]
        return (
            next((plain_version(one) for name, one in pairs if canonical_engine(str(name)) == engine), None)
            if engine
            else None
        )

    def _settings(self, engine: str | None) -> dict[str, Any]:
        options = {key: value for key, value in self.options.items() if is_option(key, engine)}
        found: dict[str, Any] = canonical_settings(engine, self.widths | options)
        for _, value in self.found.get("settings", ()):
            if isinstance(value, dict):
                found |= self._of_mapping(value, engine)
            elif isinstance(value, list) or (isinstance(value, str) and "--" in value):
                found |= self._of_words(command_words(value), engine)
        return found

    def _of_mapping(self, value: Mapping[str, Any], engine: str | None) -> dict[str, Any]:
        plain, more = dict[str, Any](), dict[str, Any]()
        for key, inner in value.items():
            if kind_of(key) == "environment":
                self.found.setdefault("environment", []).append((key, inner))
            elif isinstance(inner, str) and inner.strip().startswith("--"):
                more |= self._of_words(command_words(inner), engine)
            elif inner is not None and not isinstance(inner, dict | list):
                plain[key] = inner
        return canonical_settings(engine, plain) | more

    def _of_words(self, words: list[str], engine: str | None) -> dict[str, Any]:
        if not engine or not words:
            return {}
        launch = parse_command(words, engine=engine, version=self._text("version"))
        return dict(launch.settings)

    def _environment(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for _, value in self.found.get("environment", ()):
            if isinstance(value, dict) and _is_closed("environment", value):
                found |= {key: str(one) for key, one in value.items() if isinstance(one, str | int | float)}
            elif isinstance(value, str):
                found |= assignments_in(value)
            elif isinstance(value, list):
                found |= assignments_in(" ".join(str(one) for one in value))
        return found

    def _quantization(self) -> str | None:
        from kb.vocab.models import quantization_of  # noqa: PLC0415 - loads the model catalog only when asked

        for key, value in self.found.get("quantization", ()):
            if isinstance(value, str) and (quantization_of(value) or key != "profile"):
                return value
        return None


_WIDTHS = ("tp", "pp", "dp", "ep")


def _is_release(key: str, value: Any) -> bool:
    """Whether a member is an engine's name with its release ("vllm": "0.22.0")."""
    named = isinstance(value, str) and canonical_engine(key) in ENGINES
    return named and re.match(r"v?\d+\.\d|b\d{4}", value) is not None


_PARTS = ("cpu", "processor", "os", "operating_system", "disk", "storage", "motherboard", "numa")


def _is_closed(kind: str | None, value: Mapping[str, Any], key: str = "") -> bool:
    """Whether the members of a mapping are no metadata of the run: settings, variables of an environment.

    Other parts of a machine have models and versions of their own.
    """
    return (
        kind in ("settings", "killed_by")
        or key.lower() in _PARTS
        or (kind == "environment" and any(map(str.isupper, map(str, value))))
    )


FORMAT = Format(
    name="run_meta",
    kind="config",
    sniff=sniff,
    read=read,
    version=3,
    docs="Metadata of a run as people's own runners write it (`run.json`, `meta.json`): command line, engine "
    "and version, model, hardware, environment, start and end, exit status, who stopped it, its clients.",
)
