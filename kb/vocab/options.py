"""What each catalogued release of an engine accepts: flags, values, environment names, pinned dependencies.

Owns the reading of ``catalogs/<engine>-<version>.json``; one release is loaded at a time. Must not know
what a
flag means for kernels (``kb.vocab.engines``). A release that was not read is answered from its two
neighbours:
only what both agree on is certain.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kb import versions

_FOLDER = Path(__file__).with_name("catalogs")


class Option(NamedTuple):
    """One flag of one release. ``dest`` is the name in the engine's own argument dump.

    ``type`` as the engine's source spells it (``bool`` for switches); ``choices`` empty when free; ``open``
    when
    choices are only known values; ``yaml`` for keys of a configuration file; ``negations`` turn the switch
    off.
    """

    flag: str
    dest: str
    aliases: tuple[str, ...] = ()
    type: str | None = None
    default: Any = None
    choices: tuple[Any, ...] = ()
    open: bool = False
    required: bool = False
    deprecated: bool = False
    replacement: str | None = None
    action: str | None = None
    nargs: str | None = None
    negations: tuple[str, ...] = ()
    config: str | None = None
    role: str | None = None
    about: str | None = None
    yaml: bool = False
    hint: str | None = None

    @property
    def is_switch(self) -> bool:
        """Whether the flag stands alone, without a value."""
        return self.type == "bool" and self.action not in _ACTIONS_WITH_VALUE and not self.yaml

    @property
    def is_list(self) -> bool:
        """Whether one use of the flag takes several values."""
        kind = (self.type or "").lower()
        return "list[" in kind and "json" not in kind and "str, " not in kind and "dict" not in kind

    @property
    def constant(self) -> str | None:
        """The value that a deprecated switch stores under another flag's dest, or ``None``.

        Such a switch keeps its own name as a setting: older releases know it as one.
        """
        if self.action != "DeprecatedStoreConstAction" or "=" not in (self.replacement or ""):
            return None
        return str(self.replacement).partition("=")[2]


_ACTIONS_WITH_VALUE = ("DeprecatedAliasStoreAction", "LoRAPathAction")


class Index(Mapping[str, Option]):
    """Options by a spelling or a dest; each is built from its row when it is first asked for."""

    def __init__(self, rows: list[dict[str, Any]], places: dict[str, int], built: dict[int, Option]) -> None:
        self._rows, self._places, self._built = rows, places, built

    def __getitem__(self, key: str) -> Option:
        place = self._places[key]
        if place not in self._built:
            self._built[place] = _option(self._rows[place])
        return self._built[place]

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class Catalog:
    """One release's flags, by every spelling and by ``dest``; environment names; pinned dependencies.

    ``fields`` maps a nested configuration class to its fields and their choices; ``source`` says what was
    read.
    """

    def __init__(self, raw: dict[str, Any]) -> None:
        self.engine: str = raw["engine"]
        self.version: str = raw["version"]
        self.source: str = raw["source"]
        self.pins: Mapping[str, str] = raw["pinned"]
        self.environment = frozenset(raw["env"])
        self.fields: Mapping[str, Mapping[str, list[Any] | None]] = raw.get("fields", {})
        flags, dests = _places(raw["flags"])
        built: dict[int, Option] = {}
        self.by_flag: Mapping[str, Option] = Index(raw["flags"], flags, built)
        self.by_dest: Mapping[str, Option] = Index(raw["flags"], dests, built)

    @property
    def options(self) -> tuple[Option, ...]:
        """Every option of the release, deprecated ones included."""
        return tuple({id(one): one for one in self.by_flag.values()}.values())

    def find(self, key: str) -> Option | None:
        """The option of a flag (any alias, underscores for hyphens, unique abbreviation) or of a dest."""
        if key in self.by_flag:
            return self.by_flag[key]
        if not key.startswith("-"):
            return self.by_dest.get(key.replace("-", "_"), self.by_dest.get(key))
        name = normal_flag(key)
        return self.by_flag.get(name) or self._abbreviated(name)

    def _abbreviated(self, name: str) -> Option | None:
        if not name.startswith("--") or self.engine not in _ENGINES_WITH_ABBREVIATIONS:
            return None
        found = {
            self.by_flag[flag].dest: self.by_flag[flag] for flag in self.by_flag if flag.startswith(name)
        }
        return next(iter(found.values())) if len(found) == 1 else None


_ENGINES_WITH_ABBREVIATIONS = ("sglang", "vllm")


def normal_flag(flag: str) -> str:
    """A long flag with hyphens for underscores and without its value; nested keys keep their names."""
    name = flag.partition("=")[0]
    if not name.startswith("--"):
        return name
    head, dot, rest = name.partition(".")
    return head.replace("_", "-") + dot + rest


def releases(engine: str) -> tuple[str, ...]:
    """Catalogued releases of an engine, oldest first; empty for an engine without a catalog."""
    return _releases().get(engine, ())


def newest(engine: str) -> str | None:
    """The newest catalogued release, or ``None``."""
    known = releases(engine)
    return known[-1] if known else None


@cache
def between(
    engine: str, version: str | None, among: tuple[str, ...] | None = None
) -> tuple[str | None, str | None]:
    """The catalogued neighbours of a version: equal when it is catalogued itself, ``None`` where there is
    none.

    A version that cannot be ordered has neither neighbour. ``among`` narrows the releases that count.
    """
    known = releases(engine) if among is None else among
    key = versions.version_key(version) if version else None
    if key is None:
        exact = version if version in known else None
        return exact, exact
    lower = upper = None
    for one in known:
        here = versions.version_key(one)
        if here is None:
            continue
        if here <= key:
            lower = one
        if here >= key and upper is None:
            upper = one
    return lower, upper


@cache
def neighbours(engine: str, version: str | None) -> tuple[str, ...]:
    """The releases that answer for a version: itself, or both neighbours, or the newest when none is
    named."""
    if version is None:
        return tuple(filter(None, [newest(engine)]))
    return tuple(dict.fromkeys(one for one in between(engine, version) if one))


def reference(engine: str, version: str | None) -> Catalog | None:
    """The catalog to read a command by: the newest neighbour of the version, else the newest release."""
    known = neighbours(engine, version) or releases(engine)
    return catalog(engine, known[-1]) if known else None


@cache
def catalog(engine: str, version: str) -> Catalog:
    """The catalog of one catalogued release. Raises ``KeyError`` for any other."""
    if version not in releases(engine):
        raise KeyError(f"{engine} {version} is not catalogued")
    return Catalog(json.loads(_text(engine, version)))


def mentions(engine: str, version: str, flag: str) -> bool:
    """Whether a release's catalog holds a flag by name, told without loading it."""
    head = normal_flag(flag).partition(".")[0]
    names = {flag.partition("=")[0], head, "--" + head.removeprefix("--no-")}
    return any(f'"{name}"' in _text(engine, version) for name in names)


@cache
def _text(engine: str, version: str) -> str:
    return (_FOLDER / f"{engine}-{version}.json").read_text(encoding="utf-8")


def option(engine: str, version: str | None, key: str) -> Option | None:
    """The option behind a flag or a dest in a release (the newest for ``None``), or in one of its
    neighbours."""
    for release in reversed(neighbours(engine, version)):
        found = catalog(engine, release).find(key)
        if found:
            return found
    return None


def unknown_flags(
    engine: str, version: str | None, flags: Iterable[str]
) -> list[tuple[str, str | None, str | None]]:
    """Of these flags, those that the release does not have: (flag, release with it or None, nearest flag).

    That release is the first later one, else the last earlier one. A version between two catalogued ones is
    given the benefit of the doubt: a flag of either is known.
    """
    asked = neighbours(engine, version)
    if not asked:
        return []
    missing = [flag for flag in flags if not any(_accepts(engine, one, flag) for one in asked)]
    return [
        (flag, _release_with(engine, flag, asked[-1]), _nearest_flag(engine, asked[-1], flag))
        for flag in missing
    ]


def unknown_values(
    engine: str, version: str | None, settings: Mapping[str, Any]
) -> list[tuple[str, Any, tuple[Any, ...]]]:
    """Settings (by dest) whose value no asked release offers: (dest, value, values of the newest asked)."""
    found = []
    for dest, value in settings.items():
        options = [catalog(engine, one).find(dest) for one in neighbours(engine, version)]
        closed = [one for one in options if one and one.choices and not one.open]
        if closed and len(closed) == len(options) and not any(_offers(one, value) for one in closed):
            found.append((dest, value, closed[-1].choices))
    return found


def _offers(option: Option, value: Any) -> bool:
    spoken = [str(one).lower() for one in option.choices]
    values = value if isinstance(value, list | tuple) else [value]
    return all(one is None or str(one).lower() in spoken for one in values)


def _accepts(engine: str, release: str, flag: str) -> bool:
    loaded = catalog(engine, release)
    name = normal_flag(flag)
    if loaded.find(name):
        return True
    head, dot, rest = name.partition(".")
    if dot:
        return loaded.find(head) is not None or loaded.find(f"{head}.{rest}") is not None
    if name.startswith("--no-"):
        positive = loaded.find("--" + name[5:])
        return positive is not None and (engine == "vllm" or "BooleanOptional" in (positive.action or ""))
    return False


def _release_with(engine: str, flag: str, asked: str) -> str | None:
    """The first release after the asked one that has a flag, else the last before it, else ``None``."""
    known = releases(engine)
    at = known.index(asked)
    nearest_first = (*known[at + 1 :], *reversed(known[:at]))
    told = (one for one in nearest_first if mentions(engine, one, flag))
    return next((one for one in told if _accepts(engine, one, flag)), None)


def _nearest_flag(engine: str, release: str, flag: str) -> str | None:
    import difflib  # noqa: PLC0415 - only needed after a miss

    found = difflib.get_close_matches(normal_flag(flag), catalog(engine, release).by_flag, n=1, cutoff=0.75)
    return found[0] if found else None


@cache
def _releases() -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for path in _FOLDER.glob("*.json"):
        engine, version = re.match(r"(tensorrt-llm|[a-z.]+)-(.+)", path.stem).groups()  # type: ignore[union-attr]
        found.setdefault(engine, []).append(version)
    return {engine: tuple(sorted(known, key=_order)) for engine, known in found.items()}


def _order(version: str) -> tuple[bool, Any]:
    key = versions.version_key(version)
    return (key is not None, key or version)


def _places(rows: list[dict[str, Any]]) -> tuple[dict[str, int], dict[str, int]]:
    """Where the row of each spelling and of each dest stands; a deprecated flag yields its dest to a
    current one."""
    flags: dict[str, int] = {}
    dests: dict[str, int] = {}
    for place, row in enumerate(rows):
        for name in (row["flag"], *row.get("aliases", ()), *row.get("negations", ())):
            flags.setdefault(name, place)
            if "_" in name:
                flags.setdefault(normal_flag(name), place)
        if row["dest"] not in dests or rows[dests[row["dest"]]].get("deprecated"):
            dests[row["dest"]] = place
    return flags, dests


def _option(row: dict[str, Any]) -> Option:
    fields: dict[str, Any] = {key: row[key] for key in Option._fields if key in row}
    for key in ("aliases", "choices", "negations"):
        fields[key] = tuple(fields.get(key, ()))
    return Option(**fields)
