"""What ``auto`` picks: hand-read architecture gates of engine releases, and leads for people.

Owns ``gates/*.json``: ``curated.json`` (read and worded by hand), ``defaults.json`` (rules that decide, each
citing its gates) and ``leads-<engine>.json`` (extracted automatically; loaded only when asked for), and how
the conditions of rules are read; which gates refuse is for ``kb.vocab.refusals``. Must not decide from leads.
A release between two read ones is decided only where both neighbours agree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kb.vocab import options
from kb.vocab.dialects import canonical_settings, kv_dtype_of, setting, truth
from kb.vocab.gpus import arch_number
from kb.vocab.models import ModelEntry, quantization_groups, quantization_of

_FOLDER = Path(__file__).with_name("gates")
_UNSET = ("auto", "none", "false")
_METHOD_KEYS = ("quantization", "quantize", "model_format")  # what engines call the method of the weights


class Gate(NamedTuple):
    """One architecture decision in an engine's source. ``versions`` are the releases in which it was read.

    ``topic``: attention, moe, gemm/quantization, communication, predicate, build … ``condition`` in words,
    with
    ``sm in {…}`` where it is about architectures. ``origin``: ``curated`` (hand-read) or ``lead`` (extracted;
    conditions around it are not included).
    """

    id: str
    engine: str
    versions: tuple[str, ...]
    file: str
    symbol: str
    topic: str
    condition: str
    decision: str
    otherwise: str | None = None
    note: str | None = None
    options: tuple[str, ...] = ()
    origin: str = "curated"


def gates_for(
    engine: str, version: str | None = None, arch: str | None = None, *, leads: bool = False
) -> tuple[Gate, ...]:
    """Gates read in a release (or its catalogued neighbours) that may concern an architecture; leads on
    request."""
    releases = set(_deciding(engine, version)) - {"*"} if version else None
    found = [*_curated(), *(_leads(engine) if leads else ())]
    return tuple(
        gate
        for gate in found
        if gate.engine == engine
        and (
            releases is None
            or not options.releases(engine)
            or releases & set(gate.versions)
            or _is_unversioned(gate)
        )
        and _concerns(gate, arch)
    )


def gate(gate_id: str) -> Gate | None:
    """The hand-read gate of an id, or ``None``."""
    return next((one for one in _curated() if one.id == gate_id), None)


def default_roles(  # noqa: PLR0913, PLR0917 - one question has as many sides
    engine: str,
    version: str | None,
    arch: str | None,
    model: ModelEntry | None = None,
    quantization: str | None = None,
    settings: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    whole: bool = False,
) -> dict[str, tuple[str, str]]:
    """Role → (kernel, gate id): what ``auto`` picks, as far as hand-read gates decide it.

    ``quantization`` is the canonical weight method or the engine's own value; ``settings`` by dest. A role
    that
    depends on something the question does not say is left out. ``whole``: the settings are those of a whole
    launch, so that a flag which is not among them was not given.
    """
    facts = facts_of(engine, arch, model, quantization, settings or {})
    facts |= {"environment": environment or {}, "whole": whole}
    answers = [_decide(_rules("engines", engine, one, arch), facts) for one in _deciding(engine, version)]
    return _agreed(answers) if arch else {}


def forced_roles(  # noqa: PLR0913, PLR0917 - one question has as many sides
    engine: str,
    version: str | None,
    arch: str | None,
    model: ModelEntry | None = None,
    quantization: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> dict[str, tuple[str, str]]:
    """Role → (kernel, gate id): what the release runs whatever was asked for, where a gate says so."""
    rules = [_rules("forced", engine, one, arch) for one in _deciding(engine, version)]
    if not all(rules):
        return {}
    facts = facts_of(engine, arch, model, quantization, settings or {}) | {"environment": {}, "whole": False}
    answers = [_decide(one, facts) for one in rules]
    return _agreed(answers) if arch else {}


def _agreed(answers: list[dict[str, tuple[str, str]]]) -> dict[str, tuple[str, str]]:
    """What every release that stands for the version picks alike, with the newest one's gate."""
    if not answers:
        return {}
    kernels = [{role: kernel for role, (kernel, _) in one.items()} for one in answers]
    return {
        role: pick for role, pick in answers[-1].items() if all(one.get(role) == pick[0] for one in kernels)
    }


@cache
def _deciding(engine: str, version: str | None) -> tuple[str, ...]:
    """The read releases that stand for a version: itself or its base, or both neighbours; none beyond the
    newest.

    Rules that hold for every release answer also where no release can be named.
    """
    known: tuple[str, ...] = tuple(_read("defaults")["read"].get(engine, ()))
    if version is None:
        return known[-1:] or ("*",)
    if version in known:
        return (version,)
    base = re.match(r"v?(\d+(?:\.\d+)*)(?:\.?post\d+)?(?:\+.*)?\Z", version)
    if base and base[1] in known:
        return (base[1],)
    lower, upper = options.between(engine, version, known)
    return tuple(dict.fromkeys((lower, upper))) if lower and upper else ("*",)


def facts_of(
    engine: str,
    arch: str | None,
    model: ModelEntry | None,
    quantization: str | None,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """A question as the conditions of rules read it."""
    given = canonical_settings(engine, settings)
    flag = next((said for key in _METHOD_KEYS if (said := setting(given, key))), None)
    asked = quantization or flag or (model.base_precision if model else None)
    method = quantization_of(str(asked)) if asked else None
    kv_dtype = kv_dtype_of(str(given.get("kv_cache_dtype", "auto")))
    return {
        "arch": arch,
        "quantization": None if method is None else _methods(method, model),
        "layout": str(flag or asked or "").lower() or None,
        "model": model,
        "kv_dtype": kv_dtype or "auto",
        "settings": given,
    }


def _methods(method: str, model: ModelEntry | None) -> list[str]:
    """A method and what it counts as; a plain FP8 checkpoint of some families is scaled in blocks."""
    found = list(quantization_groups(method))
    if method == "fp8" and model and model.family.startswith(tuple(_read("defaults")["block_fp8_families"])):
        found.append("fp8-block")
    return found


def _decide(rules: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    blocked: set[str] = set()
    for rule in rules:
        roles = [role for role in rule["roles"] if role not in found and role not in blocked]
        if not roles:
            continue
        answer = holds(rule.get("when", {}), facts)
        if answer is None:
            blocked.update(roles)
        elif answer:
            found |= {role: (kernel, rule["gate"]) for role in roles if (kernel := rule["roles"][role])}
            blocked.update(role for role in roles if not rule["roles"][role])
    return found


def holds(when: Mapping[str, Any], facts: Mapping[str, Any]) -> bool | None:
    """Whether all conditions of a rule hold; ``None`` where the question leaves one open."""
    sure = True
    for name, wanted in when.items():
        answer = _check(name, wanted, facts)
        if answer is False:
            return False
        sure = sure and answer is not None
    return True if sure else None


def _check(name: str, wanted: Any, facts: Mapping[str, Any]) -> bool | None:
    if name in ("arch", "kv_dtype"):
        return facts[name] in wanted
    if name == "below":
        number = arch_number(facts["arch"])
        return number is not None and number < int(wanted)
    if name in ("quantization", "not_quantization", "layout"):
        return _check_weights(name, wanted, facts)
    if name.startswith("env_"):
        return _check_environment(name, wanted, facts["environment"])
    return _check_choice(name, wanted, facts)


def _check_weights(name: str, wanted: Any, facts: Mapping[str, Any]) -> bool | None:
    if name == "layout":
        return None if facts[name] is None else facts[name] in wanted
    if facts["quantization"] is None:
        return None
    return (not set(wanted) & set(facts["quantization"])) == (name == "not_quantization")


def _check_choice(name: str, wanted: Any, facts: Mapping[str, Any]) -> bool | None:
    if name == "roles":
        return all(facts["roles"].get(role) in kernels for role, kernels in wanted.items())
    if name == "either":
        return any(_has(setting(facts["settings"], key), values) for key, values in wanted.items())
    if name == "free":
        return not any(role in facts["roles"] for role in wanted)
    if name in ("settings", "unset", "not_given"):
        holds = _check_settings(name, wanted, facts["settings"])
        return holds and (facts["whole"] or None) if name == "not_given" else holds
    return _check_model(name, wanted, facts["model"])


def _check_settings(name: str, wanted: Any, settings: Mapping[str, Any]) -> bool:
    if name in ("unset", "not_given"):
        return all(
            str(setting(settings, key) or "auto").lower() in ("auto", "none", "false") for key in wanted
        )
    return all(_has(setting(settings, key), values) for key, values in wanted.items())


def _check_environment(name: str, wanted: Any, environment: Mapping[str, str]) -> bool:
    if name == "env_is":
        return all(environment.get(key) in values for key, values in wanted.items())
    given = [truth(environment[one]) for one in wanted if one in environment]
    state = {"env_on": any(given), "env_not_on": not any(given), "env_not_off": all(given)}
    return state.get(name, not all(given))


def _has(value: Any, allowed: list[Any] | Mapping[str, Any]) -> bool:
    """Whether a given value is one of a list, or in bounds (``min``) and none of ``not``."""
    if isinstance(allowed, Mapping):
        return _is_given(value) and _in_bounds(value, allowed) and not _has(value, allowed.get("not", []))
    word = value.lower() if isinstance(value, str) else value
    return value in allowed or word in allowed or (True in allowed and truth(value))


def _is_given(value: Any) -> bool:
    return str(value).lower() not in (*_UNSET, "null")


def _in_bounds(value: Any, bounds: Mapping[str, Any]) -> bool:
    return "min" not in bounds or (str(value).isdecimal() and int(value) >= bounds["min"])


def _check_model(name: str, wanted: Any, model: ModelEntry | None) -> bool | None:
    if model is None:
        return None
    if name == "features":
        return set(wanted) <= set(model.features)
    if name == "not_features":
        return not set(wanted) & set(model.features)
    if name == "head_dim":
        return None if model.head_dim is None else wanted[0] <= model.head_dim <= wanted[1]
    value = {"family": model.family, "architecture": model.architecture}[name]
    return None if value is None else any(re.match(one, value) for one in wanted)


def _concerns(gate: Gate, arch: str | None) -> bool:
    number = arch_number(arch)
    named = re.findall(r"sm in \{([\d,\s]+)\}", gate.condition)
    if number is None or not named:
        return True
    return any(str(number) in re.split(r"\D+", one) for one in named) or gate.otherwise is not None


def _is_unversioned(gate: Gate) -> bool:
    return any("snapshot" in one or "vendored" in one for one in gate.versions)


@cache
def _curated() -> tuple[Gate, ...]:
    lines = [
        line for path in sorted(_FOLDER.glob("refusals-*")) for line in path.read_text("utf-8").splitlines()
    ]
    return tuple(as_gate(row, "curated") for row in (*_read("curated"), *map(json.loads, lines)))


@cache
def _leads(engine: str) -> tuple[Gate, ...]:
    path = _FOLDER / f"leads-{engine}.json"
    return (
        tuple(as_gate(row, "lead") for row in json.loads(path.read_text(encoding="utf-8")))
        if path.exists()
        else ()
    )


@cache
def _rules(kind: str, engine: str, release: str, arch: str | None) -> list[dict[str, Any]]:
    """The rules of an engine that may hold for one of its read releases (``*``: all) on an architecture."""
    return [
        rule
        for rule in _read("defaults")[kind].get(engine, [])
        if {release, "*"} & set(rule["versions"]) and arch in rule.get("when", {}).get("arch", (arch,))
    ]


@cache
def _read(name: str) -> Any:
    return json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def as_gate(row: Mapping[str, Any], origin: str) -> Gate:
    """A row of a gate file; what it holds besides a gate's fields is for those who decide by it."""
    fields: dict[str, Any] = {key: row[key] for key in Gate._fields if key in row}
    for key in ("versions", "options"):
        fields[key] = tuple(fields.get(key, ()))
    return Gate(**fields | {"origin": origin})
