"""A question as a value: hardware, model, engine, settings, and which kernel does each role.

Owns how the words of a question are understood: names become catalog entries, flags become roles, a missing
version becomes the newest catalogued release (told in ``assumed``), what no catalog knows is kept as given
(told in ``unknown``). Pure: no clock, no machine, no files but the vocabulary.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kb import versions
from kb.errors import KbctlError
from kb.model import Hardware, Model
from kb.vocab import engines, gates, gpus, models, options
from recommend.question import Asked, Query, Resolution, Version

__all__ = ["Asked", "Query", "Resolution", "Version", "ask", "both", "pairs", "resolve", "value_of"]

_SPELLINGS = {
    "deep_gemm": "deepgemm",
    "deep-gemm": "deepgemm",
    "flashinfer-python": "flashinfer",
    "nvidia-cutlass-dsl": "cutlass-dsl",
    "pytorch": "torch",
    "sglang-kernel": "sgl-kernel",
    "trtllm": "tensorrt-llm",
    "nvidia-nccl": "nccl",
}


@dataclass(slots=True)
class _Draft:
    """What is known while a question is being read."""

    assumed: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)


def ask(asked: Asked) -> Query:
    """Understand a question. Raises KbctlError for text that is none (``--set`` without ``=``)."""
    draft = _Draft()
    launch = _launch(asked)
    dependencies = _canonical(pairs(asked.dependencies, "--with"))
    engine, version = _engine(asked, launch, dependencies, draft)
    settings = _settings(engine, launch, asked)
    environment = {**(launch.environment if launch else {}), **pairs(asked.environment, "--env")}
    version = _version(engine, version, dependencies, draft)
    name = asked.model or (launch.model if launch else None) or _model_setting(settings)
    entry = models.find_model(name) if name else None
    quantization = _quantization(asked, settings, name, entry, draft)
    common = _common(engine, settings)
    hardware, facts = _hardware(asked, dependencies, common, draft)
    declared = {key: dependencies.pop(key, None) for key in ("topology", "build")}
    query = Query(
        hardware=hardware,
        gpu_facts=facts,
        model=_model(name, entry, quantization, draft),
        entry=entry,
        engine=engine,
        engine_version=version,
        dependencies=dependencies,
        components=_components(engine, version, dependencies),
        settings=settings,
        environment=environment,
        common=common,
        kv_dtype=_kv_dtype(common),
        quantization=quantization,
        workload=asked.workload,
        goal=asked.goal,
        limits=asked.limits,
        assumed=draft.assumed,
        unknown=tuple(draft.unknown),
        unknown_flags=tuple(_unknown_flags(engine, version, launch)),
        **declared,
    )
    return resolve(query, pairs(asked.roles, "--role"))


def resolve(query: Query, said: Mapping[str, str] | None = None) -> Query:
    """The query with its roles: what gates pick, overruled by its settings, overruled by what is said."""
    requested: dict[str, str] = {}
    resolved: dict[str, Resolution] = {}
    version, arch, settings = query.engine_version, query.arch, query.settings
    if query.engine in engines.ENGINES:
        automatic = gates.default_roles(
            query.engine, version, arch, query.entry, query.quantization, settings
        )
        resolved.update(
            {role: Resolution(kernel, "auto", gate) for role, (kernel, gate) in automatic.items()}
        )
        requested = engines.roles_of(
            query.engine, version, settings, query.environment, arch, query.quantization
        )
        resolved.update({role: Resolution(kernel, "setting") for role, kernel in requested.items()})
    for role, label in (said or {}).items():
        for one in both(role):
            resolved[one] = Resolution(_kernel(query, one, label), "said")
    return replace(query, requested=requested, resolved=resolved)


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """``key=value`` texts as a mapping. Raises KbctlError naming the option for one without ``=``."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise KbctlError(
                f"{option} takes key=value, not {text!r}", where=option, tip=f"{option} name=value"
            )
        found[key.strip()] = value.strip()
    return found


def value_of(text: str) -> Any:
    """A setting's text as its value: JSON where it is JSON, else the text itself."""
    lowered = text.strip().lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    try:
        return json.loads(text)
    except ValueError:
        return text


def _launch(asked: Asked) -> engines.Launch | None:
    words = list(asked.command)
    if len(words) == 1 and " " in words[0]:
        words = shlex.split(words[0], comments=True)
    return engines.parse_command(words, {}) if words else None


def _canonical(dependencies: Mapping[str, str]) -> dict[str, str]:
    return {_SPELLINGS.get(key.lower(), key.lower()): value for key, value in dependencies.items()}


def _engine(
    asked: Asked, launch: engines.Launch | None, dependencies: Mapping[str, str], draft: _Draft
) -> tuple[str | None, str | None]:
    name, _, version = (asked.engine or "").partition("==")
    if not name and launch:
        name, version = launch.engine or "", version or launch.version or ""
    if not name:
        named = [one for one in engines.ENGINES if one in dependencies]
        if len(named) == 1:
            name, version = named[0], dependencies[named[0]]
    if not name:
        return None, None
    known = engines.canonical_engine(name)
    if known is None:
        draft.unknown.append(f"engine {name!r} is not catalogued; its settings are compared as written")
    return known or name.strip().lower(), version.strip() or None


def _version(
    engine: str | None, version: str | None, dependencies: Mapping[str, str], draft: _Draft
) -> str | None:
    if engine is None or version:
        if engine and version and versions.version_key(version, versions.scheme_of(engine)) is None:
            draft.unknown.append(f"{engine} version {version!r} has no place on the version line")
        return version
    newest = _newest_with(engine, dependencies) or options.newest(engine)
    if newest:
        draft.assumed["engine_version"] = (
            f"{newest} (the newest catalogued release of {engine}{_agreeing(dependencies)})"
        )
    return newest


def _agreeing(dependencies: Mapping[str, str]) -> str:
    return " that fits what --with names" if dependencies else ""


def _newest_with(engine: str, dependencies: Mapping[str, str]) -> str | None:
    """The newest release whose pins are not newer than the components named."""
    for release in reversed(options.releases(engine)):
        pins = options.pinned(engine, release)
        orders = [
            versions.compare(pins[name], version, name)
            for name, version in dependencies.items()
            if name in pins
        ]
        if all(order is None or order <= 0 for order in orders):
            return release
    return None


def _settings(engine: str | None, launch: engines.Launch | None, asked: Asked) -> dict[str, Any]:
    settings = dict(launch.settings) if launch else {}
    for key, text in pairs(asked.settings, "--set").items():
        settings[_dest(engine, key)] = value_of(text)
    return settings


def _dest(engine: str | None, key: str) -> str:
    plain = key.lstrip("-").replace("-", "_") if key.startswith("-") else key
    return (engines.canonical_dest(engine, key) if engine in engines.ENGINES else None) or plain


def _model_setting(settings: Mapping[str, Any]) -> str | None:
    return next(
        (str(settings[key]) for key in ("model_path", "model", "model_tag") if settings.get(key)), None
    )


def _common(engine: str | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in engines.common_settings(engine or "", settings).items()
        if value is not None
    }


def _quantization(
    asked: Asked,
    settings: Mapping[str, Any],
    name: str | None,
    entry: models.ModelEntry | None,
    draft: _Draft,
) -> str | None:
    if asked.quantization:
        found = models.quantization_of(asked.quantization)
        if found is None:
            draft.unknown.append(f"quantization {asked.quantization!r} is not known; compared as written")
        return found or asked.quantization.strip().lower()
    for text in (settings.get("quantization"), name):
        if text and (found := models.quantization_of(str(text))):
            return found
    if entry and entry.base_precision and (found := models.quantization_of(entry.base_precision)):
        draft.assumed["quantization"] = f"{found} (as {entry.id} is published)"
        return found
    return None


def _hardware(
    asked: Asked, dependencies: dict[str, str], common: Mapping[str, Any], draft: _Draft
) -> tuple[Hardware, gpus.Gpu | None]:
    text = (asked.gpu or "").strip()
    facts = gpus.find_gpu(text) if text else None
    arch = facts.arch if facts else gpus.arch_of(text) if text else None
    if text and arch is None:
        near = gpus.nearest(text)
        draft.unknown.append(
            f"GPU {text!r} is not catalogued" + (f"; did you mean {near!r}?" if near else "")
        )
    plain_arch = bool(text) and facts is None and gpus.arch_code(text) is not None
    return (
        Hardware(
            gpu=facts.name if facts else None if plain_arch else text or None,
            arch=arch,
            count=_count(asked, common),
            memory_gib=facts.memory_gib if facts else None,
            power_limit_w=facts.power_w if facts else None,
            cuda=dependencies.get("cuda"),
            driver=dependencies.get("driver"),
            topology=dependencies.get("topology"),
        ),
        facts,
    )


def _count(asked: Asked, common: Mapping[str, Any]) -> int | None:
    if asked.gpus:
        return asked.gpus
    sizes = [common.get(key) for key in ("tp", "pp")]
    if not any(isinstance(size, int) for size in sizes):
        return None
    product = 1
    for size in sizes:
        product *= size if isinstance(size, int) and size > 0 else 1
    return product


def _model(
    name: str | None, entry: models.ModelEntry | None, quantization: str | None, draft: _Draft
) -> Model:
    if name and entry is None:
        near = models.nearest(name)
        draft.unknown.append(f"model {name!r} is not catalogued" + (f"; nearest is {near!r}" if near else ""))
    return Model(
        name=name,
        id=entry.id if entry else None,
        family=entry.family if entry else models.family_of(name) if name else None,
        architecture=entry.architecture if entry else None,
        quantization=quantization,
    )


def _components(
    engine: str | None, version: str | None, dependencies: Mapping[str, str]
) -> dict[str, Version]:
    found: dict[str, Version] = {}
    if engine and version:
        found.update(options.pinned_spans(engine, version))
        found.update(options.pinned(engine, version))
        found[engine] = version
    return found | dict(dependencies)


def _kv_dtype(common: Mapping[str, Any]) -> str | None:
    value = common.get("kv_dtype")
    return str(value).lower() if value not in (None, "auto") else None


def _kernel(query: Query, role: str, label: str) -> str:
    if query.engine in engines.ENGINES:
        found = engines.kernel_of_label(query.engine, role, label, query.arch, query.engine_version)
        return found or label
    return label


def both(role: str) -> tuple[str, ...]:
    """A bare ``attention`` as its two phases; any other role as it is."""
    scope, colon, plain = role.rpartition(":")
    phases = ("attention.prefill", "attention.decode") if plain == "attention" else (plain,)
    return tuple(f"{scope}{colon}{one}" for one in phases)


def _unknown_flags(
    engine: str | None, version: str | None, launch: engines.Launch | None
) -> list[tuple[str, str | None, str | None]]:
    if launch is None or engine not in engines.ENGINES:
        return []
    flags = [re.split(r"[= ]", flag)[0] for flag in launch.unknown_flags]
    return options.unknown_flags(engine, version, flags)
