"""Which release has code for which architecture: the timeline that the sources of engines and libraries tell.

Owns ``requirements.json`` (what a row means stands in its ``about``) and its dates. Must not judge.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from kb import versions
from kb.vocab.spellings import role_names

Json = Mapping[str, Any]
# Compiled code runs on later parts of the same generation, unless it was built for one part alone: then the
# table gives the later part a word of its own.
_RUNS_CODE_OF = {"sm103": "sm100", "sm121": "sm120", "sm86": "sm80", "sm87": "sm80", "sm89": "sm86"}


class Absence(NamedTuple):
    """Code that a release lacks: the first release with it, where there is one, or the one that dropped it.

    ``sure`` is False for a version that has no place on the line, while the newest release still lacks it.
    """

    since: str | None = None
    dropped: str | None = None
    sure: bool = True


@cache
def _table() -> Json:
    path = Path(__file__).with_name("requirements.json")
    found: Json = json.loads(path.read_text(encoding="utf-8"))
    return found


def rows() -> Sequence[Json]:
    """The table's rows."""
    found: Sequence[Json] = _table()["rows"]
    return found


def of_kernel(role: str, kernel: str) -> Sequence[int]:
    """The numbers of the rows about a kernel in a role."""
    plain = role.rpartition(":")[2]
    return [number for number in _by_kernel().get(kernel, ()) if plain in roles_of(number)]


def of_component(component: str) -> Sequence[int]:
    """The numbers of the rows about a component as a whole, or about a kind of weights or caches in it."""
    return _by_component().get(component, ())


@cache
def roles_of(number: int) -> frozenset[str]:
    """The roles that a row is about, groups taken apart."""
    return frozenset(one for name in rows()[number].get("roles", ()) for one in role_names(name))


@cache
def _by_kernel() -> Mapping[str, list[int]]:
    found: dict[str, list[int]] = {}
    for number, row in enumerate(rows()):
        if "kernel" in row:
            found.setdefault(row["kernel"], []).append(number)
    return found


@cache
def _by_component() -> Mapping[str, list[int]]:
    found: dict[str, list[int]] = {}
    for number, row in enumerate(rows()):
        if "kernel" not in row or row.get("whole"):
            found.setdefault(row["component"], []).append(number)
    return found


@lru_cache(maxsize=4096)
def absence(number: int, arch: str, version: str | versions.Span | None) -> Absence | None:
    """What a version of a row's component lacks for an architecture; None where it has it or nobody knows.

    Without a version: only what no release has.
    """
    row = rows()[number]
    component = row.get("component")
    since, dropped = _looked(row["since"], arch), _looked(row.get("until", {}), arch)
    if version is None:
        return Absence() if since is None else None
    ranges = _ranges(since, dropped, _table()["read"].get(component))
    state = versions.state(version, ranges, component) if ranges else "not-affected"
    if state == "affected":
        low = version if isinstance(version, str) else version[0]
        gone = bool(dropped) and versions.satisfies(low, f">={dropped}", component)
        return Absence(None, dropped) if gone else Absence(_begin(since))
    undated = (
        isinstance(version, str) and versions.version_key(version, versions.scheme_of(component)) is None
    )
    if state == "unknown" and undated and _lasts(ranges, component):
        return Absence(_begin(since), sure=False)
    return None


def about_vendor(row: Json, vendor: str) -> bool:
    """Whether a row is about GPUs of a vendor."""
    return "vendor" in row or any(name.startswith("gfx") == (vendor == "amd") for name in row["since"])


def _looked(table: Mapping[str, Any], arch: str | None) -> Any:
    """What a table says of an architecture, or of the one whose compiled code it runs."""
    while arch is not None:
        if arch in table:
            return table[arch]
        arch = _RUNS_CODE_OF.get(arch)
    return None


def _ranges(since: Any, dropped: str | None, read: str | None) -> list[dict[str, Any]]:
    """Where code is absent, as ranges of versions; after the last release that was read nobody knows."""
    if isinstance(since, list):
        return since
    if since is None:
        return [{"last_seen": read} if read else {}]
    before = [] if since == "0" else [{"fixed": since}]
    return before + ([{"introduced": dropped}] if dropped else [])


def _begin(since: Any) -> str | None:
    """The first release with code, where one is known."""
    if isinstance(since, list):
        ends = [row.get("fixed") or row.get("fixed_between", (None, None))[1] for row in since]
        return ends[-1] if all(ends) else None
    return None if since is None else str(since)


def _lasts(ranges: Sequence[Mapping[str, Any]], component: str | None) -> bool:
    """Whether the newest release that was read still lacks the code."""
    return any(versions.breakpoints(row, component)[-1][1] != "not-affected" for row in ranges)
