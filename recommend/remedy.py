"""What to do instead, in the words of the engine that was asked about.

Owns the rendering of ``[[instead]]``: roles become the release's own flags. Must not decide which remedy is
right.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from kb import versions
from kb.knowledge import whole
from kb.vocab import engines, options
from recommend.match import match
from recommend.query import resolve
from recommend.question import Query, Resolution

Json = Mapping[str, Any]
NONE_KNOWN: dict[str, Any] = {"none": "none known"}


def remedies(record: Json, query: Query, fixed_in: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every remedy of a record for this query: what can be pasted first, an upgrade where a fix is known."""
    rows = [one for one in record["instead"] if one.get("engine") in (None, query.engine)]
    found = [row for one in rows if (row := rendered(one, query))]
    found.sort(key=lambda row: not (row.get("flags") or row.get("environment")))
    if fixed_in and not any(set(one) <= {"requires", "text", "cites"} for one in found):
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
    """One remedy with the settings, environment and flags that say it; empty where none can."""
    roles = dict(one.get("roles") or {})
    settings, environment, unsaid = spelled(roles, query)
    own, foreign = _own_settings(one.get("settings") or {}, query)
    settings |= own
    environment |= one.get("env") or {}
    if foreign and not (settings or environment or roles or one.get("text")):
        return {}
    row: dict[str, Any] = {
        "roles": roles,
        "settings": settings,
        "environment": environment,
        "requires": _unmet(one.get("requires") or {}, query),
        "flags": flags(query, settings),
        "text": "; ".join(filter(None, [one.get("text"), _unsaid(unsaid, query)])),
        "cites": list(one.get("cites") or ()),
    }
    return {key: value for key, value in row.items() if value}


def _own_settings(settings: Mapping[str, Any], query: Query) -> tuple[dict[str, Any], list[str]]:
    """Settings under the asked engine's names, and those that only another engine knows."""
    if query.engine not in engines.ENGINES:
        return dict(settings), []
    own: dict[str, Any] = {}
    foreign: list[str] = []
    for key, value in settings.items():
        dest = engines.canonical_dest(query.engine, key, query.engine_version)
        found = options.option(query.engine, query.engine_version, dest.partition(".")[0])
        values = [str(choice).lower() for choice in found.choices] if found and not found.open else []
        if found is None or ("." not in dest and values and str(value).lower() not in values):
            foreign.append(key)
        else:
            own[dest] = value
    return own, foreign


def _unmet(requires: Mapping[str, str], query: Query) -> dict[str, str]:
    """Required versions that the question's own are not known to meet."""
    found = {}
    for name, specifier in requires.items():
        version = query.components.get(name)
        low = version[0] if isinstance(version, tuple) else version
        if versions.satisfies(low, specifier, name) is not True:
            found[name] = specifier
    return found


def spelled(roles: Mapping[str, str], query: Query) -> tuple[dict[str, Any], dict[str, str], dict[str, str]]:
    """Settings and environment that ask for kernels, and the roles that this release cannot be asked for."""
    settings: dict[str, Any] = {}
    environment: dict[str, str] = {}
    unsaid: dict[str, str] = {}
    for role, kernel in roles.items():
        said = _said(query, query.engine_version, role, kernel)
        if not said:
            unsaid[role] = kernel
        for key, value in (said or {}).items():
            if key.isupper():
                environment[key] = str(value)
            else:
                settings[key] = value
    return settings, environment, unsaid


def _said(query: Query, version: str | None, role: str, kernel: str) -> dict[str, Any] | None:
    if query.engine not in engines.ENGINES:
        return None
    return engines.spell(query.engine, version, role, kernel, query.arch, query.quantization)


def _unsaid(unsaid: Mapping[str, str], query: Query) -> str | None:
    """What to say of kernels that have no flag here: the first later release that has one."""
    if not unsaid or query.engine not in engines.ENGINES:
        return None
    later = options.releases(query.engine)
    later = later[later.index(query.engine_version) + 1 :] if query.engine_version in later else ()
    release = next((one for one in later if all(_said(query, one, *pair) for pair in unsaid.items())), None)
    here = f"{query.engine} {query.engine_version or ''}".strip()
    return f"{here} has no flag for it" + (f"; {query.engine} {release} has" if release else "")


def flags(query: Query, settings: Mapping[str, Any]) -> str:
    """Settings as the release's flags, ready to paste; a dest without a flag is spelled from its name."""
    words: list[str] = []
    for dest, value in settings.items():
        found = _option(query, dest)
        if found and found.yaml:
            words.append(f"{dest}: {value if isinstance(value, str) else json.dumps(value)}")
            continue
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


def tested(found: list[dict[str, Any]], query: Query, records: Iterable[Json]) -> list[dict[str, Any]]:
    """The remedies with those last that records speak against, each with a ``but`` that names the record."""
    bad = [record for record in records if not record["good"]]
    marked = [one | ({"but": against} if (against := _against(one, query, bad)) else {}) for one in found]
    return sorted(marked, key=lambda one: "but" in one)


def _against(one: Json, query: Query, bad: Iterable[Json]) -> str | None:
    roles = {name for role in one.get("roles") or {} for name in engines.role_names(role)}
    changed = {"roles": roles, "settings": set(one.get("settings") or {})}
    if not any(changed.values()):
        return None
    then = applied(one, query)
    for record in bad:
        mentions = any(
            name in changed and key in changed[name]
            for block in record["matches"]
            for name, key, _ in block["when"]
        )
        if mentions and (hit := match(record, then)) and hit.sure:
            return f"{record['id']} speaks against it: {whole(record)['title']}"
    return None


def applied(one: Json, query: Query) -> Query:
    """The question as it would be with a remedy."""
    settings = {**query.settings, **(one.get("settings") or {})}
    changed = query._replace(
        settings=settings,
        environment={**query.environment, **(one.get("environment") or {})},
        common=engines.common_settings(query.engine, settings),
    )
    roles = {
        name: kernel for role, kernel in (one.get("roles") or {}).items() for name in engines.role_names(role)
    }
    said = {role: found for role, found in query.resolved.items() if found.by == "said"}
    resolved = {**resolve(changed).resolved, **said}
    resolved |= {role: Resolution(kernel, "setting") for role, kernel in roles.items()}
    return changed._replace(resolved=resolved)
