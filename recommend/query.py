"""A question as a value: hardware, model, engine, settings, and which kernel does each role.

Owns how the words of a question are understood: names become catalog entries, flags become roles, a missing
version becomes the newest catalogued release (told in ``assumed``), what no catalog knows is kept as given
(told in ``unknown``). Pure: no clock, no machine, no files but the vocabulary.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kb import versions
from kb.errors import KbctlError
from kb.model import Hardware, Model
from kb.vocab import engines, gates, gpus, models, options, pins
from kb.vocab.dialects import SERVERS
from recommend.question import Asked, Checkpoint, Query, Resolution, Version

__all__ = ["Asked", "Query", "Resolution", "Version", "ask", "kernel_named", "pairs", "resolve", "value_of"]

_SPELLINGS = {
    "deep_gemm": "deepgemm",
    "deep-gemm": "deepgemm",
    "flashinfer-python": "flashinfer",
    "nvidia-cutlass-dsl": "cutlass-dsl",
    "pytorch": "torch",
    "sglang-kernel": "sgl-kernel",
    "sgl_kernel": "sgl-kernel",
    "trtllm": "tensorrt-llm",
    "tensorrt_llm": "tensorrt-llm",
    "nvidia-nccl": "nccl",
}
_ANY_FP4 = ("fp4", "4-bit float")
LONGEST = 160  # characters of a name in a sentence
_UNPINNED = {"driver", "topology", "build"}
_MODEL_KEYS = ("model_path", "model", "model_tag")


class _Draft(NamedTuple):
    """What comes to light while a question is being read; filled in place."""

    assumed: dict[str, str]
    unknown: list[str]


def ask(asked: Asked) -> Query:
    """Understand a question. Raises KbctlError for text that is none (``--set`` without ``=``)."""
    draft = _Draft({}, [])
    dependencies = _canonical(pairs(asked.dependencies, "--with"))
    launch = _launch(asked)
    engine, version = _engine(asked, launch, dependencies, draft)
    version = _version(engine, version, dependencies, draft)
    settings = _settings(engine, launch, asked)
    common = engines.common_settings(engine, settings)
    name = asked.model or (launch.model if launch else None) or _model_setting(settings)
    entry = (models.find_model(name) if name else None) or _by_config(asked.checkpoint)
    quantization = _quantization(asked, settings, name, entry, draft)
    hardware, facts = _hardware(asked, dependencies, common, draft)
    topology, build = dependencies.pop("topology", None), dependencies.pop("build", None)
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
        environment={**(launch.environment if launch else {}), **pairs(asked.environment, "--env")},
        common=common,
        kv_dtype=_kv_dtype(common),
        quantization=quantization,
        workload=asked.workload,
        goal=asked.goal,
        limits=asked.limits,
        assumed=draft.assumed,
        unknown=tuple(draft.unknown),
        unknown_flags=_unknown_flags(engine, version, launch),
        topology=topology,
        build=build,
        checkpoint=asked.checkpoint,
        launched=launch is not None,
        asked=asked,
    )
    return resolve(query, pairs(asked.roles, "--role"))


def resolve(query: Query, said: Mapping[str, str] | None = None) -> Query:
    """The query with its roles: what gates pick, then settings, then what is forced, then what is said."""
    requested: dict[str, str] = {}
    resolved: dict[str, Resolution] = {}
    if query.engine in engines.ENGINES:
        requested = engines.roles_of(
            query.engine,
            query.engine_version,
            query.settings,
            query.environment,
            query.arch,
            query.quantization,
            query.entry,
        )
        resolved = _picked(query, requested)
    for role, label in (said or {}).items():
        for one in engines.role_names(role):
            resolved[one] = Resolution(kernel_named(query, one, label), "said")
    return query._replace(requested=requested, resolved=resolved)


def _picked(query: Query, requested: Mapping[str, str]) -> dict[str, Resolution]:
    """Roles by settings and by the hand-read gates of the release."""
    asked = (
        query.engine or "",
        query.engine_version,
        query.arch,
        query.entry,
        query.quantization,
        query.settings,
    )
    automatic = gates.default_roles(*asked, query.environment, whole=query.launched)
    if _chose_attention(requested):
        automatic = {role: pick for role, pick in automatic.items() if not role.startswith("dsa.")}
    picked = {role: Resolution(kernel, "auto", gate) for role, (kernel, gate) in automatic.items()}
    picked |= {role: Resolution(kernel, "setting") for role, kernel in requested.items()}
    return picked | {
        role: Resolution(kernel, "forced", gate)
        for role, (kernel, gate) in gates.forced_roles(*asked).items()
    }


def _chose_attention(requested: Mapping[str, str]) -> bool:
    """Whether settings choose a general attention kernel, and so leave the sparse one of the model aside."""
    general = any(role == "mla" or role.startswith("attention.") for role in requested)
    return general and not any(role.startswith("dsa.") for role in requested)


def kernel_named(query: Query, role: str, label: str) -> str:
    """The kernel that a label names; a kernel's own name stays what it is."""
    plain = engines.canonical_kernel(label)
    if engines.is_known(role, plain):
        return plain
    found = engines.kernel_of_label(query.engine, role, label, query.arch, query.engine_version)
    return found or plain


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
    if asked.launch is not None:
        return asked.launch
    words = list(asked.command)
    if len(words) == 1 and " " in words[0]:
        words = shlex.split(words[0], comments=True)
    engine, _, version = (asked.engine or "").partition("==")
    named = engines.canonical_engine(engine) if engine else None
    return engines.parse_command(words, {}, version=version or None, engine=named) if words else None


def _canonical(dependencies: Mapping[str, str]) -> dict[str, str]:
    return {_SPELLINGS.get(key.lower(), key.lower()): value for key, value in dependencies.items()}


def _engine(
    asked: Asked, launch: engines.Launch | None, dependencies: Mapping[str, str], draft: _Draft
) -> tuple[str | None, str | None]:
    name, _, version = (asked.engine or "").partition("==")
    if not name and launch:
        name, version = launch.engine or "", launch.version or ""
    if not name:
        named = [one for one in SERVERS if one in dependencies]
        if len(named) == 1:
            name, version = named[0], dependencies[named[0]]
    if not name:
        return None, None
    known = engines.canonical_engine(name)
    if known not in engines.ENGINES:
        from difflib import get_close_matches  # noqa: PLC0415 - only for unknown names

        names = SERVERS
        near = [] if known in names else get_close_matches(name.lower(), names, n=1)
        nearest = f"; the nearest known is {near[0]!r}" if near else ""
        told = f"engine {_shown(name)} is not catalogued; its settings are compared as written{nearest}"
        draft.unknown.append(told)
    return known or name.strip().lower(), version.strip() or None


def _version(
    engine: str | None, version: str | None, dependencies: Mapping[str, str], draft: _Draft
) -> str | None:
    if engine is None:
        return None
    if version:
        if versions.version_key(version, versions.scheme_of(engine)) is None:
            draft.unknown.append(f"{engine} version {_shown(version)} has no place on the version line")
        return version
    fitting = _newest_with(engine, dependencies)
    release = fitting or options.newest(engine)
    if release:
        fit = " that fits what --with names" if fitting and fitting != options.newest(engine) else ""
        draft.assumed["engine_version"] = f"{release} (the newest catalogued release of {engine}{fit})"
    return release


def _newest_with(engine: str, dependencies: Mapping[str, str]) -> str | None:
    """The first release whose pins are at least what is named, and the newest of those that pin the same."""
    if not set(dependencies) - _UNPINNED:  # every release's catalog would be loaded to learn nothing
        return None
    found: str | None = None
    for release in reversed(options.releases(engine)):
        brought = pins.pinned(engine, release)
        named = {name: version for name, version in dependencies.items() if name in brought}
        orders = [versions.compare(brought[name], version, name) for name, version in named.items()]
        if orders and not any(orders):
            return release
        if any(order is not None and order < 0 for order in orders):
            return found
        if orders or found is None:
            found = release
    return found


def _settings(engine: str | None, launch: engines.Launch | None, asked: Asked) -> dict[str, Any]:
    settings = dict(launch.settings) if launch else {}
    said = {key: value_of(text) for key, text in pairs(asked.settings, "--set").items()}
    return engines.canonical_settings(engine, settings | said)


def _model_setting(settings: Mapping[str, Any]) -> str | None:
    return next((str(settings[key]) for key in _MODEL_KEYS if settings.get(key)), None)


def _written(checkpoint: Checkpoint | None) -> str | None:
    """The quantization that a checkpoint's own files name."""
    if checkpoint is None:
        return None
    from recommend import weights  # noqa: PLC0415 - only where a config.json was given

    return weights.method_of(checkpoint.config)


def _by_config(checkpoint: Checkpoint | None) -> models.ModelEntry | None:
    """The catalogued model of a checkpoint's architecture and sizes."""
    if checkpoint is None:
        return None
    text = checkpoint.config.get("text_config")
    sizes = {**checkpoint.config, **text} if isinstance(text, Mapping) else checkpoint.config
    named = sizes.get("architectures")
    layers, hidden = sizes.get("num_hidden_layers"), sizes.get("hidden_size")
    if not (isinstance(named, list) and named and isinstance(layers, int) and isinstance(hidden, int)):
        return None
    return models.find_by_architecture(str(named[0]), layers, hidden)


def _quantization(
    asked: Asked,
    settings: Mapping[str, Any],
    name: str | None,
    entry: models.ModelEntry | None,
    draft: _Draft,
) -> str | None:
    if asked.quantization:
        if asked.quantization.strip().lower() in _ANY_FP4 and entry and entry.base_precision == "mxfp4":
            draft.assumed["quantization"] = f"mxfp4 (the FP4 that {entry.id} is published in)"
            return "mxfp4"
        found = models.quantization_of(asked.quantization)
        if found is None:
            draft.unknown.append(
                f"quantization {_shown(asked.quantization)} is not known; compared as written"
            )
        return found or asked.quantization.strip().lower()
    written = _written(asked.checkpoint)
    for text in (settings.get("quantization"), written, name):
        if text and (found := models.quantization_of(str(text))):
            if text is written:
                draft.assumed["quantization"] = f"{found} (as the checkpoint's config.json says)"
            return found
    if entry and entry.base_precision and (found := models.quantization_of(entry.base_precision)):
        draft.assumed["quantization"] = f"{found} (as {entry.id} is published)"
        return found
    return None


def _hardware(
    asked: Asked, dependencies: Mapping[str, str], common: Mapping[str, Any], draft: _Draft
) -> tuple[Hardware, gpus.Gpu | None]:
    text = (asked.gpu or "").strip()
    facts = gpus.find_gpu(text) if text else None
    arch = facts.arch if facts else gpus.arch_of(text) if text else None
    plain_arch = bool(text) and facts is None and gpus.arch_code(text) is not None
    if text and facts is None and not plain_arch:
        draft.unknown.append(_not_catalogued("GPU", text, arch, gpus.nearest(text)))
    return (
        Hardware(
            gpu=facts.name if facts else None if plain_arch else text or None,
            arch=arch,
            count=asked.gpus or _count(common),
            memory_gib=facts.memory_gib if facts else None,
            power_limit_w=facts.power_w if facts else None,
            cuda=dependencies.get("cuda"),
            driver=dependencies.get("driver"),
            topology=dependencies.get("topology"),
        ),
        facts,
    )


def _not_catalogued(what: str, name: str, taken: str | None, near: str | None) -> str:
    taken_as = f", taken as {taken}" if taken else ""
    nearest = f"; the nearest known is {near!r}" if near else ""
    return f"{what} {_shown(name)} is not catalogued{taken_as}{nearest}"


def _shown(name: str) -> str:
    """A name in quotes, the middle of a very long one left out; the question itself keeps it whole."""
    return repr(name if len(name) <= LONGEST else f"{name[: LONGEST // 2]}…{name[-LONGEST // 2 :]}")


def _count(common: Mapping[str, Any]) -> int | None:
    """GPUs that tensor and pipeline parallelism need, or None where neither is given."""
    sizes = [common[key] for key in ("tp", "pp") if isinstance(common.get(key), int)]
    product = 1
    for size in sizes:
        product *= max(size, 1)
    return product if sizes else None


def _model(
    name: str | None, entry: models.ModelEntry | None, quantization: str | None, draft: _Draft
) -> Model:
    family = entry.family if entry else models.family_of(name) if name else None
    if name and entry is None:
        draft.unknown.append(_not_catalogued("model", name, family, models.nearest(name)))
    return Model(
        name=name,
        id=entry.id if entry else None,
        family=family,
        architecture=entry.architecture if entry else None,
        quantization=quantization,
    )


def _components(
    engine: str | None, version: str | None, dependencies: Mapping[str, str]
) -> dict[str, Version]:
    found: dict[str, Version] = {}
    if engine and version:
        found.update(pins.pinned_spans(engine, version))
        found.update(pins.pinned(engine, version))
        found[engine] = version
    return found | dict(dependencies)


def _kv_dtype(common: Mapping[str, Any]) -> str | None:
    value = common.get("kv_dtype")
    return str(value).lower() if value not in (None, "auto") else None


def _unknown_flags(
    engine: str | None, version: str | None, launch: engines.Launch | None
) -> tuple[tuple[str, str | None, str | None], ...]:
    if launch is None or engine not in engines.ENGINES:
        return ()
    return tuple(options.unknown_flags(engine, version, launch.flags))
