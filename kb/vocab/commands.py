"""Command lines to settings and back, for every engine and release.

Owns the reading of launch commands (wrappers, containers, environment, abbreviations, JSON values) and their
writing in the spelling of one release. Must not run anything and must not open files that a command names:
what
cannot be read is returned as an unknown flag, never raised.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kb import EMPTY
from kb.vocab import options
from kb.vocab.dialects import canonical_dest, dialect, store
from kb.vocab.options import Catalog, Option, normal_flag
from kb.vocab.starts import (
    SHELLS,
    assignments,
    expand,
    exports,
    find_engine,
    numbered_commands,
    unwrap_shell,
    with_arrays,
    without_assignments,
)

_NUMBER = re.compile(r"-?(?:\d++(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?\Z")
_FLAG = re.compile(r"--?[A-Za-z]")
_OPERATORS = ("&", "&&", "||", ";", "|", ">", ">>", "2>&1", "2>", "&>", "<")


class Launch(NamedTuple):
    """What a command starts. ``settings`` by canonical dest; ``flags`` as typed, in order.

    ``unknown_flags`` are flags that no catalogued release has. ``arguments`` are positional words that are
    not the model. ``engine`` is ``None`` when the command starts none that is known. ``line`` (from 1) is
    where it begins in the text that holds it.
    """

    engine: str | None = None
    version: str | None = None
    model: str | None = None
    settings: Mapping[str, Any] = EMPTY
    environment: Mapping[str, str] = EMPTY
    flags: tuple[str, ...] = ()
    unknown_flags: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    line: int | None = None


def parse_command(
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    *,
    version: str | None = None,
    engine: str | None = None,
) -> Launch:
    """The launch that a command line describes. Never raises on what it does not understand.

    ``argv`` is split words, wrappers and containers included; ``env`` is the environment it runs in;
    ``version``
    and ``engine`` are used where the command itself does not say.
    """
    words = unwrap_shell([str(word) for word in argv])
    start = find_engine(words)
    environment = dict(env or {}) | assignments(words[: start.at])
    named = start.version or version
    if start.engine is None and engine is None:
        return Launch(environment=environment, version=version, arguments=tuple(words[start.at :]))
    reader = _Reader(start.engine or engine or "", named)
    reader.read(words[start.at :] if start.engine else without_assignments(words))
    return Launch(
        engine=reader.engine,
        version=named,
        model=reader.model(),
        settings=reader.settings,
        environment=environment,
        flags=tuple(reader.flags),
        unknown_flags=tuple(reader.unknown),
        arguments=tuple(reader.arguments),
    )


def parse_shell(
    text: str, env: Mapping[str, str] | None = None, *, version: str | None = None
) -> tuple[Launch, ...]:
    """Every server launch in a piece of shell: several lines, continuations, comments, ``export`` and
    variables.

    Text that is no shell gives no launch.
    """
    exported: dict[str, str] = dict(env or {})
    variables: dict[str, str] = {}
    launches = []
    held: list[tuple[int, str]] = []
    for line, words in numbered_commands(with_arrays(text)):
        expanded = [expand(word, variables | exported) for word in words]
        assigned = exports(expanded)
        if assigned is not None:
            (exported if expanded[0] in ("export", "ENV") else variables).update(assigned)
            held += [(line, value) for value in assigned.values() if " " in value]
            continue
        launch = parse_command(expanded, exported, version=version)
        if launch.engine:
            launches.append(launch._replace(line=line))
    return tuple(launches) or _held_launches(held, exported, version)


def _held_launches(
    held: Sequence[tuple[int, str]], environment: Mapping[str, str], version: str | None
) -> tuple[Launch, ...]:
    """The last command that a script keeps in a variable (``CMD="vllm serve …"``) and that starts one."""
    for line, value in reversed(held):
        words = [word for _, words in numbered_commands(value) for word in words]
        launch = parse_command(words, environment, version=version)
        if launch.engine:
            return (launch._replace(line=line),)
    return ()


_MOST_WORDS = 10_000
_MOST_UNKNOWN = 100  # flags looked for in every release; more of them are no engine's


class _Reader:
    """Reads the words after the program by a release's catalog, and by the others' where that one is
    silent."""

    def __init__(self, engine: str, version: str | None) -> None:
        self.engine, self.version = engine, version
        self.settings: dict[str, Any] = {}
        self.flags: list[str] = []
        self.unknown: list[str] = []
        self.arguments: list[str] = []

    def read(self, words: Sequence[str]) -> None:
        rest = list(words[:_MOST_WORDS])
        while rest:
            word = rest.pop(0)
            if word in _OPERATORS:
                return
            if word == "--":
                continue
            if _FLAG.match(word):
                self._read_flag(word, rest)
            elif not re.match(r"\d?>|&>", word):
                self.arguments.append(word)

    def model(self) -> str | None:
        """The model, from its flags or from the first positional word."""
        keys = dialect(self.engine).get("model_keys", ())
        named = next((str(self.settings[key]) for key in keys if self.settings.get(key)), None)
        if named is None and self.arguments and self.engine != "llama.cpp":
            named = self.arguments.pop(0)
        for key in keys:
            self.settings.pop(key, None)
        return None if named in SHELLS else named

    def _read_flag(self, word: str, rest: list[str]) -> None:
        flag, equals, attached = word.partition("=")
        if self._read_level(word, rest):
            return
        self.flags.append(flag)
        option, nested, negated = self._option(flag)
        if option is None:
            self.unknown.append(flag)
            value = attached if equals else self._next(rest)
            self._keep(_unknown_dest(flag), True if value is None else _literal(value))
            return
        if option.constant is not None:
            self._keep(_unknown_dest(flag), True)
            return
        dest = option.dest + (f".{nested}" if nested else "")
        if option.is_switch and not nested:
            self._read_switch(option, dest, negated, attached if equals else None, rest)
            return
        values = [attached] if equals else self._values_of(option, rest)
        self._keep(dest, _value_of(option, values, nested=bool(nested)))

    def _read_level(self, word: str, rest: list[str]) -> bool:
        """vLLM's -O3, -O 3, -O.mode=3."""
        if self.engine != "vllm" or not re.match(r"-O(?:\d|\.|=|\Z)", word):
            return False
        self.flags.append("-O")
        if word.startswith("-O."):
            key, _, value = word[3:].partition("=")
            self._keep(f"compilation_config.{key}", _literal(value or self._next(rest) or ""))
        else:
            self._keep("optimization_level", _literal(word[2:].lstrip("=") or self._next(rest) or ""))
        return True

    def _read_switch(
        self, option: Option, dest: str, negated: bool, attached: str | None, rest: list[str]
    ) -> None:
        if attached is None and rest and rest[0].lower() in ("true", "false"):
            attached = rest.pop(0)
        if attached is not None and "$" in attached:
            self._keep(dest, attached)  # a variable decides
            return
        value = not negated if attached is None else (attached.lower() in ("true", "1", "yes")) != negated
        if option.action == "store_false":
            value = not value
        self._keep(dest, value)

    def _option(self, flag: str) -> tuple[Option | None, str, bool]:
        """The option behind a flag, the nested key after it, and whether the flag negates it."""
        for known in self._catalogs(flag):
            found = _find(known, flag)
            if found[0]:
                return found
        return None, "", False

    def _catalogs(self, flag: str) -> Iterator[Catalog]:
        first = options.reference(self.engine, self.version)
        if first is None:
            return
        yield first
        if len(self.unknown) > _MOST_UNKNOWN:
            return
        for release in reversed(options.releases(self.engine)):
            if release != first.version and options.mentions(self.engine, release, flag):
                yield options.catalog(self.engine, release)

    def _values_of(self, option: Option, rest: list[str]) -> list[str]:
        values: list[str] = []
        many = option.nargs in ("+", "*") or (option.nargs is None and option.is_list)
        while rest and not _is_flag(rest[0]) and (many or not values):
            if many and values and self._ends_list(option, rest[0]):
                break
            values.append(rest.pop(0))
        return values

    @staticmethod
    def _ends_list(option: Option, word: str) -> bool:
        return word in ("&", "&&", "||", ";", "|", ">") or (
            "int" in (option.type or "") and not _NUMBER.match(word)
        )

    @staticmethod
    def _next(rest: list[str]) -> str | None:
        return rest.pop(0) if rest and not _is_flag(rest[0]) else None

    def _keep(self, dest: str, value: Any) -> None:
        store(self.engine, self.settings, canonical_dest(self.engine, dest, self.version), value)


def _find(known: Catalog, flag: str) -> tuple[Option | None, str, bool]:
    option = known.find(flag)
    if option:
        return option, "", normal_flag(flag) in [normal_flag(one) for one in option.negations]
    head, dot, rest = flag.partition(".")
    if dot and (found := known.find(head)):
        return found, rest, False
    name = normal_flag(flag)
    if name.startswith("--no-") and (found := known.find("--" + name[5:])) and found.type == "bool":
        return found, "", True
    return None, "", False


def _is_flag(word: str) -> bool:
    return bool(_FLAG.match(word)) and not _NUMBER.match(word)


def _unknown_dest(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_") if flag.startswith("--") else flag.lstrip("-")


def _value_of(option: Option, values: Sequence[str], *, nested: bool) -> Any:
    if not values:
        return True if nested or option.nargs in ("?", "*") or option.is_switch else None
    if option.nargs in ("+", "*") or (len(values) > 1):
        return [_typed(option, value) for value in values]
    if nested:
        return _literal(values[0])
    one = _typed(option, values[0])
    return [one] if option.is_list and not isinstance(one, list | dict) else one


def _typed(option: Option, text: str) -> Any:
    kind = (option.type or "").lower()
    if text[:1] in "{[" and (parsed := _json(text)) is not None:
        return parsed
    if "bool" in kind and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if _NUMBER.match(text) and ("int" in kind or "float" in kind or not kind):
        return _number(text, whole="float" not in kind)
    return text


def _number(text: str, *, whole: bool) -> Any:
    if whole and re.fullmatch(r"-?\d{1,40}", text):
        return int(text)
    return value if math.isfinite(value := float(text)) else text


def _literal(text: str) -> Any:
    if text[:1] in "{[":
        parsed = _json(text)
        return text if parsed is None else parsed
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return _number(text, whole=True) if _NUMBER.match(text) else text


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
