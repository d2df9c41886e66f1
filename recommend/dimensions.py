"""How a query answers each dimension of a record's ``[[match]]``: true, false, or unknown.

Owns the comparison of values: spellings, groups (``fp8`` holds for ``fp8-block``), defaults of settings that
the question does not give. Must not know records beyond one condition. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from kb import versions
from kb.vocab import engines, models, options
from recommend.question import Query, Version

Condition = Mapping[str, Any]
CHOICES = ("roles", "settings", "env", "kv_dtype", "divides", "dependencies", "workload")
_COMMON = ("tp", "ep", "dp", "pp", "kv_dtype", "speculation", "max_len", "graphs")
_NEWEST = "99999"
_ONE = ("tp", "ep", "dp", "pp")
_PLAIN_KV = frozenset({"auto", "bf16", "bfloat16", "fp16", "float16", "half", "f16"})


class Answer(NamedTuple):
    """``truth`` None means unknown and ``missing`` names what to say; ``chosen``: the question chose it.

    ``unlikely``: nobody named the version, and the newest one would answer no.
    """

    truth: bool | None
    missing: str = ""
    chosen: bool = False
    unlikely: bool = False


def holds(condition: Condition, values: Iterable[Any]) -> bool | None:
    """Whether a condition holds for a value under its several names (never empty); None: not comparable."""
    words = [plain(value) for value in values]
    if condition.get("set") is False:
        return False
    if condition.get("any") is not None and not _among(words, condition["any"]):
        return False
    if condition.get("not") is not None and _among(words, condition["not"]):
        return False
    return _in_bounds(condition, words[0]) if "min" in condition or "max" in condition else True


def _among(words: list[str], listed: Iterable[Any]) -> bool:
    return any(one in words or plain(one) in words for one in listed)


def _in_bounds(condition: Condition, word: str) -> bool | None:
    try:
        number = float(word)
        low, high = float(condition.get("min", "-inf")), float(condition.get("max", "inf"))
    except (TypeError, ValueError):
        return None
    return low <= number <= high


def plain(value: Any) -> str:
    """A value as compared text: lower case, ``true``/``false``, whole numbers without a point."""
    if isinstance(value, str):
        return value.strip().lower()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, list | dict):
        return json.dumps(value, sort_keys=True).lower()
    return str(value).strip().lower()


def _known(condition: Condition, value: Any, missing: str, *more: Any) -> Answer:
    if value is None:
        return Answer(None, missing)
    return Answer(holds(condition, (value, *more)), missing, chosen=True)


def _arch(query: Query, _: str | None, condition: Condition) -> Answer:
    return _known(condition, query.arch, "the GPU")


def _gpu(query: Query, _: str | None, condition: Condition) -> Answer:
    """Product names: a condition's words must all stand in the product's name."""
    name = query.hardware.gpu
    if name is None:
        return Answer(None, "the GPU's product name")
    words = set(re.findall(r"[a-z0-9]+", name.lower()))
    wanted = condition.get("any") or condition.get("not") or ()
    named = any(set(re.findall(r"[a-z0-9]+", str(one).lower())) <= words for one in wanted)
    return Answer(named != ("not" in condition))


def _count(query: Query, _: str | None, condition: Condition) -> Answer:
    return _known(condition, query.hardware.count, "the number of GPUs")


def _engine(query: Query, _: str | None, condition: Condition) -> Answer:
    if query.engine is None:
        return Answer(True if "any" not in condition else None, "the engine")
    return Answer(holds(condition, (query.engine,)))


def _quantization(query: Query, _: str | None, condition: Condition) -> Answer:
    """Weight quantization: the asked method and what it counts as; a wider asked word leaves it open."""
    asked = query.quantization
    if asked is None:
        return Answer(None, "the weight quantization")
    if asked == "fp8":
        asked = (
            models.fp8_layout_of(query.model.name, query.entry) or asked
        )  # the kind that its makers publish
    truth = holds(condition, models.quantization_groups(asked))
    if truth is False and any(
        asked in models.quantization_groups(plain(one))[1:] for one in condition.get("any") or ()
    ):
        return Answer(None, f"which kind of {asked}")
    return Answer(truth, chosen=True)


def _kv_dtype(query: Query, _: str | None, condition: Condition) -> Answer:
    return Answer(holds(condition, kv_words(query.kv_dtype)), chosen=query.kv_dtype is not None)


def kv_words(dtype: str | None) -> tuple[str, ...]:
    """The names that a KV cache type goes by; None and ``auto`` are the model's own 16-bit type."""
    if dtype is None or dtype in _PLAIN_KV:
        return tuple(_PLAIN_KV)
    if dtype == "fp8":
        return ("fp8", "fp8_e4m3")
    return (dtype, "fp8") if dtype.startswith("fp8") else (dtype,)


def _model(query: Query, key: str | None, condition: Condition) -> Answer:
    values = _MODEL[str(key)](query)
    if values is None:
        return Answer(None, f"the model's {key}" if query.model.name else "the model")
    if values:
        return Answer(_of_model(str(key), condition, values))
    return Answer("any" not in condition)


def _of_model(key: str, condition: Condition, values: tuple[Any, ...]) -> bool | None:
    if key == "id":
        return _named(condition, values)
    dashed = {
        name: [_dashed(one) for one in rows] if isinstance(rows, list) else rows
        for name, rows in condition.items()
    }
    return holds(dashed, [_dashed(value) for value in values])


def _dashed(value: Any) -> str:
    return plain(value).replace("_", "-")


def _named(condition: Condition, values: tuple[Any, ...]) -> bool:
    """A model's id: the catalog's, or any part of the name as asked."""
    wanted = condition.get("any") or condition.get("not") or ()
    hit = any(_same_model(str(one), values) for one in wanted)
    return hit != ("not" in condition)


def _same_model(wanted: str, values: tuple[Any, ...]) -> bool:
    bare = models.canonical_name(wanted)
    return wanted == values[0] or any(bare in models.canonical_name(str(one)) for one in values)


def _ids(query: Query) -> tuple[Any, ...] | None:
    return tuple(one for one in (query.model.id, query.model.name) if one) or None


def _family(query: Query) -> tuple[Any, ...] | None:
    family = query.model.family
    return models.families_of(family, query.model.id, query.model.name) if family else None


def _architecture(query: Query) -> tuple[Any, ...] | None:
    return (query.model.architecture,) if query.model.architecture else None


def _attention(query: Query) -> tuple[Any, ...] | None:
    return tuple(query.entry.attention) or None if query.entry else None


def _features(query: Query) -> tuple[Any, ...] | None:
    return tuple(query.entry.features) or None if query.entry else None


def _head_dim(query: Query) -> tuple[Any, ...] | None:
    value = query.settings.get("head_dim") or (query.entry.head_dim if query.entry else None)
    return (value,) if value else None


_MODEL: dict[str, Callable[[Query], tuple[Any, ...] | None]] = {
    "id": _ids,
    "family": _family,
    "architecture": _architecture,
    "attention": _attention,
    "features": _features,
    "head_dim": _head_dim,
}


def _roles(query: Query, key: str | None, condition: Condition) -> Answer:
    """A role's kernel. A role that nobody resolved is no match: a record speaks about a choice; but a record
    that only leaves kernels out speaks also where none is known."""
    found = [one for one in (query.resolved.get(role) for role in _phases(str(key))) if one]
    if not found:
        return Answer("any" not in condition and "not" in condition)
    truths = [holds(condition, (one.kernel,)) for one in found]
    chosen = any(one.by != "auto" for one, truth in zip(found, truths, strict=True) if truth)
    return Answer(any(truths), chosen=chosen)


def _phases(role: str) -> tuple[str, ...]:
    if role.endswith("attention"):
        return (role, f"{role}.prefill", f"{role}.decode") if not role.startswith("linear") else (role,)
    return (role,)


def _settings(query: Query, key: str | None, condition: Condition) -> Answer:
    value, given = setting(query, str(key))
    if condition.keys() == {"set"} or condition.get("set", given) != given:
        return Answer(given == condition["set"], chosen=given)
    if value is None and _defaults_unknown(query, str(key), condition):
        return Answer(None, f"the default of {key}")
    if value is None:
        return Answer(_unset(condition), chosen=False)
    values = value if isinstance(value, list) else [value]
    return Answer(
        any(holds(condition, (one,)) for one in values) if values else _unset(condition), chosen=given
    )


def _defaults_unknown(query: Query, key: str, condition: Condition) -> bool:
    """Whether a condition rules words out, and the release is none whose defaults are known."""
    words = {plain(one) for one in condition.get("not") or ()}
    if not words or words <= _SWITCH.keys() or key in _COMMON or query.engine not in engines.ENGINES:
        return False
    return not options.neighbours(query.engine, query.engine_version)


def _unset(condition: Condition) -> bool:
    """What a setting that has no value answers: it is false, automatic, nothing."""
    if condition.get("any") is not None:
        return any(plain(one) in ("false", "none", "auto", "unset", "") for one in condition["any"])
    return "min" not in condition and "max" not in condition


def setting(query: Query, key: str) -> tuple[Any, bool]:
    """A setting's value (given, else the release's default, else None) and whether the question gave it."""
    if key in _COMMON:
        value = query.common.get(key)
        return (1 if value is None and key in _ONE else value), value is not None
    for name in (key, engines.canonical_dest(query.engine, key)):
        value = engines.setting(query.settings, name)
        if value is not None:
            return value, True
    return _default(query.engine, query.engine_version, key), False


@lru_cache(maxsize=4096)
def _default(engine: str | None, version: str | None, key: str) -> Any:
    if engine not in engines.ENGINES:
        return None
    found = options.option(engine, version, key)
    default = found.default if found else None
    return None if isinstance(default, Mapping) else default


def _env(query: Query, key: str | None, condition: Condition) -> Answer:
    value = query.environment.get(str(key))
    given = value is not None
    if condition.keys() == {"set"} or condition.get("set", given) != given:
        return Answer(given == condition["set"], chosen=given)
    if value is None:
        return Answer("not" in condition and "any" not in condition)
    return Answer(holds(condition, (value, *_SWITCH.get(plain(value), ()))), chosen=True)


_SWITCH = {"1": ("true",), "true": ("1",), "0": ("false",), "false": ("0",)}


def _workload(query: Query, key: str | None, condition: Condition) -> Answer:
    return _known(condition, query.workload.get(str(key)), str(key))


def _topology(query: Query, _: str | None, condition: Condition) -> Answer:
    value = query.topology or _implied_topology(query)
    return _known(condition, value, "the topology of the GPUs (--with topology=…)")


def _implied_topology(query: Query) -> str | None:
    """``pcie`` for products without NVLink."""
    return "pcie" if query.gpu_facts and query.gpu_facts.nvlink is False else None


def _build(query: Query, _: str | None, condition: Condition) -> Answer:
    value = query.build or _implied_build(query)
    return _known(condition, value, "how it was built or installed (--with build=…)")


def _implied_build(query: Query) -> str | None:
    """By the devices that the question names."""
    return engines.build_of(query.engine, query.settings.get("device"))


def _driver(query: Query, _: str | None, condition: Condition) -> Answer:
    return _version("driver", query.hardware.driver, condition)


def _cuda(query: Query, _: str | None, condition: Condition) -> Answer:
    return _version("cuda", query.hardware.cuda or query.components.get("cuda"), condition)


def _dependencies(query: Query, key: str | None, condition: Condition) -> Answer:
    answer = _version(str(key), query.components.get(str(key)), condition)
    return answer._replace(chosen=str(key) in query.dependencies)


def _version(component: str, version: Version | None, condition: Condition) -> Answer:
    missing = f"{component} version"
    if version is None:
        newest = _version(component, _NEWEST, condition).truth
        return Answer(None, missing, unlikely=newest is False)
    if "spec" not in condition:
        if "min" in condition or "max" in condition:
            bounds = [f">={condition['min']}"] * ("min" in condition) + [f"<={condition['max']}"] * (
                "max" in condition
            )
            return _version(component, version, {"spec": ",".join(bounds)})
        return _known(condition, version if isinstance(version, str) else None, missing)
    if isinstance(version, tuple):
        truths = {versions.satisfies(end, condition["spec"], component) for end in version}
        return Answer(truths.pop() if len(truths) == 1 else None, missing)
    return Answer(versions.satisfies(version, condition["spec"], component), missing, chosen=True)


DIMENSIONS: dict[str, Callable[[Query, str | None, Condition], Answer]] = {
    "arch": _arch,
    "gpu": _gpu,
    "count": _count,
    "engine": _engine,
    "weight_quantization": _quantization,
    "kv_dtype": _kv_dtype,
    "topology": _topology,
    "build": _build,
    "driver": _driver,
    "cuda": _cuda,
    "roles": _roles,
    "settings": _settings,
    "env": _env,
    "workload": _workload,
    "dependencies": _dependencies,
    "model": _model,
}
