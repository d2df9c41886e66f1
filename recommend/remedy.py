"""What to do instead, in the words of the engine that was asked about.

Owns the rendering of ``[[instead]]``: roles become the release's own flags. Must not decide which remedy is
right.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from kb.vocab import engines, options
from recommend.question import Query

Json = Mapping[str, Any]
NONE_KNOWN: dict[str, Any] = {"none": "none known"}


def remedies(record: Json, query: Query, fixed_in: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every remedy of a record that can be said for this query, best first; an upgrade where a fix is known."""
    rows = [one for one in record["instead"] if one.get("engine") in (None, query.engine)]
    found = [rendered(one, query) for one in rows]
    if fixed_in and not any(
        "requires" in one and not (one.get("flags") or one.get("environment")) for one in found
    ):
        found.append(upgrade(fixed_in))
    return found


def instead(found: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The first remedy as the object that JSON shows, with the others in ``others``."""
    first, *others = [*found] or [NONE_KNOWN]
    return {**first, "others": others} if others else dict(first)


def upgrade(fixed_in: Mapping[str, str]) -> dict[str, Any]:
    """The remedy of installing a release that has the fix."""
    text = "; ".join(f"upgrade {component} to {version} or later" for component, version in fixed_in.items())
    return {"requires": {name: f">={version}" for name, version in fixed_in.items()}, "text": text}


def rendered(one: Json, query: Query) -> dict[str, Any]:
    """One remedy with the settings, environment and flags that say it."""
    roles = dict(one.get("roles") or {})
    settings, environment, unsaid = spelled(roles, query)
    for key, value in (one.get("settings") or {}).items():
        dest = (engines.canonical_dest(query.engine, key) if query.engine in engines.ENGINES else None) or key
        settings[dest] = value
    environment |= one.get("env") or {}
    row: dict[str, Any] = {
        "roles": roles,
        "settings": settings,
        "environment": environment,
        "requires": dict(one.get("requires") or {}),
        "flags": flags(query, settings),
        "text": one.get("text") or _unsaid(unsaid, query),
        "cites": list(one.get("cites") or ()),
    }
    return {key: value for key, value in row.items() if value}


def spelled(roles: Mapping[str, str], query: Query) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """Settings and environment that ask for kernels, and the roles that this release cannot be asked for."""
    settings: dict[str, Any] = {}
    environment: dict[str, str] = {}
    unsaid: list[str] = []
    for role, kernel in roles.items():
        said = (
            engines.spell(query.engine, query.engine_version, role, kernel, query.arch, query.quantization)
            if query.engine in engines.ENGINES
            else None
        )
        if not said:
            unsaid.append(f"{role} = {kernel}")
        for key, value in (said or {}).items():
            if key.isupper():
                environment[key] = str(value)
            else:
                settings[key] = value
    return settings, environment, unsaid


def _unsaid(unsaid: list[str], query: Query) -> str | None:
    if not unsaid:
        return None
    release = f"{query.engine} {query.engine_version or ''}".strip() if query.engine else "the engine"
    return f"use {', '.join(unsaid)} ({release} has no flag for it in the catalog)" if query.engine else None


def flags(query: Query, settings: Mapping[str, Any]) -> str:
    """Settings as the release's flags, ready to paste; a dest without a known flag is spelled from its name."""
    words: list[str] = []
    for dest, value in settings.items():
        found = (
            options.option(query.engine, query.engine_version, dest)
            if query.engine in engines.ENGINES
            else None
        )
        flag = found.flag if found else "--" + dest.replace("_", "-")
        if isinstance(value, bool):
            words += _switch(flag, value, found)
        else:
            words += [flag, shlex.quote(value if isinstance(value, str) else json.dumps(value))]
    return " ".join(words)


def _option(query: Query, dest: str) -> options.Option | None:
    if query.engine not in engines.ENGINES:
        return None
    return options.option(query.engine, query.engine_version, dest)


def _switch(flag: str, value: bool, option: options.Option | None) -> list[str]:
    if value:
        return [flag]
    negations = option.negations if option else ()
    return [negations[0]] if negations else [f"(leave out {flag})"]
