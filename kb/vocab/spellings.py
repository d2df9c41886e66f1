"""Spellings to kernels and back: what a setting or an environment variable asks for, per role.

Owns the rules of ``engines/<engine>.json`` and the closed list of ``kernels.json``. Must not resolve ``auto``
(``kb.vocab.gates``): only what was asked for in words is answered, and a rule whose condition is unknown
gives no answer instead of a guess.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from kb import versions
from kb.vocab import options
from kb.vocab.dialects import canonical_settings, dialect, setting, truth
from kb.vocab.models import ModelEntry, quantization_groups, quantization_of

_KERNELS = Path(__file__).with_name("kernels.json")
_AUTO = ("auto", "default", "none", "")


@cache
def kernels() -> Mapping[str, Any]:
    """The closed list: ``roles`` (role → kernels), ``groups``, ``aliases``, ``scopes``."""
    table: dict[str, Any] = json.loads(_KERNELS.read_text(encoding="utf-8"))
    return table


def canonical_kernel(text: str) -> str:
    """A kernel's one name (``trtllm_gen`` → trtllm-gen); an unknown one comes back in lower case with
    hyphens."""
    word = text.strip().lower().replace("_", "-").replace(" ", "-")
    return str(kernels()["aliases"].get(word, word))


@cache
def role_names(text: str) -> tuple[str, ...]:
    """The roles a word stands for: ``attention`` → prefill and decode; a scope (``draft:``) is kept."""
    scope, colon, role = text.strip().lower().rpartition(":")
    return tuple(scope + colon + one for one in kernels()["groups"].get(role, [role]))


def is_known(role: str, kernel: str) -> bool:
    """Whether the closed list allows this kernel in this role (any of them, for a group of roles)."""
    roles = kernels()["groups"].get(role.rpartition(":")[2], [role.rpartition(":")[2]])
    return any(kernel in kernels()["roles"].get(one, ()) for one in roles)


def roles_of(  # noqa: PLR0913, PLR0917 - one question has as many sides
    engine: str | None,
    version: str | None,
    settings: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
    arch: str | None = None,
    quantization: str | None = None,
    model: ModelEntry | None = None,
) -> dict[str, str]:
    """Role → kernel as settings and environment ask for; ``auto`` and what cannot be decided are left out.

    ``arch`` such as ``sm120`` and the canonical ``quantization`` decide spellings that mean different
    kernels on
    different hardware. For a model with latent attention a general attention backend also names ``mla``.
    """
    given = canonical_settings(engine, settings)
    ask = Ask(engine or "", version, given, environment or {}, arch, quantization_of(quantization or ""))
    found: dict[str, str] = {}
    for entry in _naming(engine or "", {key.partition(".")[0] for key in given} | set(ask.environment)):
        value = ask.value_of(entry)
        if value is None or not ask.holds(entry, lenient=True):
            continue
        for role, kernel in ask.kernels(entry, value).items():
            found.setdefault(role, kernel)
    if model and "mla" in model.attention and "dsa" not in model.attention and "attention.decode" in found:
        found.setdefault("mla", found["attention.decode"])
    return found


def _naming(engine: str, words: Iterable[str]) -> list[Mapping[str, Any]]:
    """The entries of the table that one of these settings or variables may speak through, in its order."""
    table = _by_word(engine)
    return [
        entry for _, entry in sorted((pair for word in words for pair in table.get(word, ())), key=_place)
    ]


def _place(pair: tuple[int, Mapping[str, Any]]) -> int:
    return pair[0]


@cache
def _by_word(engine: str) -> dict[str, list[tuple[int, Mapping[str, Any]]]]:
    found: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for place, entry in enumerate(dialect(engine)["spellings"]):
        word = entry["env"] if "env" in entry else entry["key"].partition(".")[0]
        found.setdefault(word, []).append((place, entry))
    return found


@cache
def _may_name(engine: str, place: int) -> frozenset[str]:
    """The roles that an entry of the table could name, under whatever conditions."""
    entry = dialect(engine)["spellings"][place]
    named = {one for role in entry["roles"] for one in role_names(role)}
    rules = [rule for meaning in values(engine, entry).values() for rule in _rules(meaning)]
    scope = next((role.rpartition(":")[0] + ":" for role in named if ":" in role), "")
    return frozenset(named | {scope + role for rule in rules for role in rule.get("roles", ())})


def _rules(meaning: Any) -> list[Mapping[str, Any]]:
    if meaning is None or isinstance(meaning, str):
        return []
    return [meaning] if isinstance(meaning, Mapping) else list(meaning)


def spell(  # noqa: PLR0913, PLR0917 - one question has as many sides
    engine: str,
    version: str | None,
    role: str,
    kernel: str,
    arch: str | None = None,
    quantization: str | None = None,
) -> dict[str, Any] | None:
    """Settings (by dest) and environment (upper-case names) that ask for this kernel in this role, or
    ``None``.

    Only values that the release offers; the first in the table is the usual one.
    """
    found = _spelled(engine, version, role, kernel, arch, quantization)
    return None if found is None else dict(found)


@cache
def _text_of(engine: str, place: int, value: str) -> str:
    """What a value of an entry means, as text in which the names of its kernels stand."""
    return str(values(engine, dialect(engine)["spellings"][place])[value])


@lru_cache(maxsize=1024)
def _spelled(  # noqa: PLR0913, PLR0917 - one question has as many sides
    engine: str, version: str | None, role: str, kernel: str, arch: str | None, quantization: str | None
) -> tuple[tuple[str, Any], ...] | None:
    wanted = canonical_kernel(kernel)
    targets = set(role_names(role))
    for place, entry in enumerate(dialect(engine)["spellings"]):
        if not targets & _may_name(engine, place):
            continue
        name = entry.get("key") or entry["env"]
        for value in values(engine, entry):
            if wanted not in _text_of(engine, place, value) or not _offered(engine, version, entry, value):
                continue
            request: dict[str, Any] = {name: _typed(_as_offered(engine, version, entry, value))}
            settings = request if "key" in entry else {}
            environment = _environment(entry, _as_offered(engine, version, entry, value))
            asked = roles_of(engine, version, settings, environment, arch, quantization)
            if targets <= {one for one, found in asked.items() if found == wanted}:
                return tuple((settings or environment).items())
    return _spelled(engine, version, "attention", kernel, arch, quantization) if role == "mla" else None


class Ask(NamedTuple):
    """One question to the table: the engine's version, what was set, and the hardware it runs on."""

    engine: str
    version: str | None
    settings: Mapping[str, Any]
    environment: Mapping[str, str]
    arch: str | None
    quantization: str | None

    def value_of(self, entry: Mapping[str, Any]) -> str | None:
        """What was set for this entry, in lower case ("1" for switches), or ``None`` for nothing or
        ``auto``."""
        value = self.environment.get(entry["env"]) if "env" in entry else setting(self.settings, entry["key"])
        if value is None or isinstance(value, Mapping):
            return None
        word = str(value).strip().lower()
        word = {"true": "1", "yes": "1", "false": "0", "no": "0"}.get(word, word)
        return None if word in _AUTO and not (entry.get("auto_is_choice") and word == "auto") else word

    def holds(self, conditions: Mapping[str, Any], *, lenient: bool = False) -> bool | None:
        """Whether all conditions of an entry or rule hold; ``None`` where something needed is unknown.

        ``lenient``: without a version, an old spelling is taken at its word instead of as the newest release.
        """
        answers = (
            True if lenient and self.version is None else self._in_versions(conditions),
            self._is_one_of(self.arch, conditions.get("arch")),
            self._of_vendor(conditions.get("vendor")),
            self._has_quantization(conditions.get("quantization")),
            self._has_settings(conditions.get("settings")),
            self._has_environment(conditions.get("with_env")),
        )
        return False if False in answers else None if None in answers else True

    def kernels(
        self, entry: Mapping[str, Any], value: str, table: Mapping[str, Any] | None = None
    ) -> dict[str, str]:
        """Role → kernel of one value of an entry."""
        meaning = (table or values(self.engine, entry)).get(value)
        roles = entry["roles"]
        if entry.get("by_quantization"):
            roles = _roles_by_quantization(roles, self.quantization)
        scope = next((role.rpartition(":")[0] + ":" for role in roles if ":" in role), "")
        rule = self._rule(meaning)
        if rule is None:
            return {}
        if "roles" in rule:
            return {
                scope + role: kernel for role, kernel in rule["roles"].items() if _wanted(role, scope, roles)
            }
        return {role: kernel for role in roles if (kernel := rule.get("kernel")) and is_known(role, kernel)}

    def _rule(self, meaning: Any) -> Mapping[str, Any] | None:
        if meaning is None or isinstance(meaning, str):
            return {"kernel": meaning}
        rules = [meaning] if isinstance(meaning, Mapping) else meaning
        unsure: list[Mapping[str, Any]] = []
        for rule in rules:
            holds = self.holds(rule)
            if holds is None:
                unsure.append(rule)
            elif holds:
                return rule if all(_says_the_same(rule, other) for other in unsure) else None
        return None

    def _in_versions(self, conditions: Mapping[str, Any]) -> bool | None:
        answers = []
        if "since" in conditions:
            answers.append(self._compare(conditions["since"], 0))
        if "until" in conditions:
            earlier = self._compare(conditions["until"], 0)
            answers.append(None if earlier is None else not earlier)
        return False if False in answers else None if None in answers else True

    def _compare(self, bound: str, least: int) -> bool | None:
        version = self.version or options.newest(self.engine)
        order = versions.compare(version, bound, self.engine) if version else None
        return None if order is None else order >= least

    @staticmethod
    def _is_one_of(value: str | None, allowed: Sequence[str] | None) -> bool | None:
        if allowed is None:
            return True
        return None if value is None else value in allowed

    def _of_vendor(self, vendor: str | None) -> bool | None:
        if vendor is None:
            return True
        return None if self.arch is None else self.arch.startswith("gfx") == (vendor == "amd")

    def _has_quantization(self, allowed: Sequence[str] | None) -> bool | None:
        if allowed is None:
            return True
        if self.quantization is None:
            return None
        return any(one in allowed for one in quantization_groups(self.quantization))

    def _has_settings(self, wanted: Mapping[str, Sequence[Any]] | None) -> bool:
        return all(setting(self.settings, key) in values for key, values in (wanted or {}).items())

    def _has_environment(self, names: Sequence[str] | None) -> bool:
        return names is None or any(truth(self.environment.get(name)) for name in names)


def _says_the_same(rule: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return rule.get("kernel") == other.get("kernel") and rule.get("roles") == other.get("roles")


def _wanted(role: str, scope: str, roles: Sequence[str]) -> bool:
    """A half of attention belongs only to the flag of that half; other roles (mla, dsa) come with any."""
    halves = [one for one in roles if one.startswith(f"{scope}attention.")]
    return not role.startswith("attention.") or f"{scope}{role}" in halves


def _roles_by_quantization(roles: Sequence[str], quantization: str | None) -> list[str]:
    if quantization is None:
        return list(roles)
    wider = quantization_groups(quantization)
    words = {"gemm.fp4": ("nvfp4", "mxfp4"), "gemm.fp8": ("fp8", "mxfp8"), "gemm.int4": ("int4",)}
    return [role for role, methods in words.items() if any(one in methods for one in wider)]


def values(engine: str, entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """What each value of an entry of the table means: a kernel, a rule, or rules."""
    if "same_as" not in entry:
        own: Mapping[str, Any] = entry.get("values", {})
        return own
    return next(
        values(engine, one) for one in dialect(engine)["spellings"] if one.get("key") == entry["same_as"]
    )


def _offered(engine: str, version: str | None, entry: Mapping[str, Any], value: str) -> bool:
    known = options.reference(engine, version)
    if known is None:
        return False
    if "env" in entry:
        return entry["env"] in known.environment
    option = _find_option(engine, known, entry["key"])
    if option is None:
        return "." in entry["key"] and known.find(entry["key"].partition(".")[0]) is not None
    return not option.deprecated and (
        not option.choices or value.lower() in [str(one).lower() for one in option.choices]
    )


@cache
def _find_option(engine: str, known: options.Catalog, key: str) -> options.Option | None:
    older = [old for old, new in dialect(engine)["renamed"].items() if new == key]
    return next((found for name in (key, *older) if (found := known.find(name))), None)


def _as_offered(engine: str, version: str | None, entry: Mapping[str, Any], value: str) -> str:
    """A value in the letters that the engine prints it in."""
    known = options.reference(engine, version)
    name = entry.get("key") or entry.get("same_as")
    option = _find_option(engine, known, name) if known and name else None
    if option is None and entry.get("env") == "VLLM_ATTENTION_BACKEND":
        return value.upper()
    return next((str(one) for one in (option.choices if option else ()) if str(one).lower() == value), value)


def _environment(entry: Mapping[str, Any], value: str) -> dict[str, str]:
    if "env" not in entry:
        return {}
    return {entry["env"]: value, **dict.fromkeys(entry.get("with_env", ())[:1], "1")}


def _typed(value: str) -> Any:
    return {"1": True, "0": False}.get(value, value)
