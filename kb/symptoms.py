"""The symptom table: what a line of a log means, as data (records/symptoms.toml).

Owns loading that table and matching one line of text against it. Must not know engines, stages of a run, or
how several lines relate: that is the reader's business. Standard library only.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from kb.errors import KbctlError
from kb.knowledge import shipped_folder

Kind = Literal["cause", "echo", "noise", "notice"]
UNKNOWN = "unknown"
MAX_GAP = 400

_HOLE = re.compile(r"\.\.\.|<([a-z]\w*)>")


@dataclass(frozen=True, slots=True)
class Pattern:
    """One text: ``literal`` is its longest fixed part (a cheap test), ``regex`` the whole if it has holes."""

    literal: str
    regex: re.Pattern[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """One row of the table. ``meaning`` and ``advice`` may hold {names} of the texts' holes."""

    name: str
    kind: Kind
    anywhere: bool
    effect: str | None
    blame: str | None
    stage: str | None
    by_stage: Mapping[str, str]
    meaning: str
    advice: str | None
    patterns: tuple[Pattern, ...]

    def find(self, text: str) -> dict[str, str] | None:
        """What stands in the holes of the first text of this row that the line holds; None if none."""
        for pattern in self.patterns:
            if pattern.literal not in text:
                continue
            if pattern.regex is None:
                return {}
            if found := pattern.regex.search(text):
                return {key: _tidy(value) for key, value in found.groupdict().items() if value}
        return None


@dataclass(frozen=True, slots=True)
class Match:
    """A row that a line matched, with what stood in its holes."""

    symptom: Symptom
    holes: Mapping[str, str] = field(default_factory=dict)

    @property
    def meaning(self) -> str:
        """The sentence for people, with the holes filled in."""
        return fill(self.symptom.meaning, self.holes)


@dataclass(frozen=True, slots=True)
class Table:
    """Every row, in order; ``anywhere`` those that count wherever they stand; ``noise`` of no account."""

    rows: tuple[Symptom, ...]
    anywhere: tuple[Symptom, ...]
    noise: tuple[Symptom, ...]

    def match(self, text: str, *, is_error: bool) -> Match | None:
        """The first row that a line matches. Rows for error lines count only where ``is_error``."""
        for row in self.rows if is_error else self.anywhere:
            holes = row.find(text)
            if holes is not None:
                return Match(row, holes)
        return None

    def is_before(self, one: Symptom, other: Symptom) -> bool:
        """Whether a row stands before another: special ones do."""
        return self.rows.index(one) < self.rows.index(other)

    def is_noise(self, text: str) -> bool:
        """Whether a line is of no account. Asked of each line: rows of noise go first."""
        if all(row.find(text) is None for row in self.noise):
            return False
        found = self.match(text, is_error=False)
        return found is not None and found.symptom.kind == "noise"

    def named(self, name: str) -> Symptom | None:
        """The first row of a class (``oom-capture`` falls back to ``oom``)."""
        for row in self.rows:
            if row.name == name:
                return row
        for row in self.rows:
            if name in row.by_stage.values():
                return row
        return None


def _tidy(value: str) -> str:
    """A hole's text without quotes and without what a validator appends to it."""
    return value.partition(" [type=")[0].strip(" '\"")[:160]


def fill(sentence: str, holes: Mapping[str, str]) -> str:
    """The sentence with {names} replaced; a name without a value reads "it"."""
    return re.sub(r"\{(\w+)\}", lambda one: holes.get(one[1], "it"), sentence)


@cache
def table(path: Path | None = None) -> Table:
    """The table that ships, or that of a file. Raises KbctlError where the file is not readable as one."""
    source = path or shipped_folder() / "symptoms.toml"
    try:
        rows = tomllib.loads(source.read_text(encoding="utf-8"))["symptom"]
    except (OSError, tomllib.TOMLDecodeError, KeyError) as error:
        tip = "reinstall kbctl, or repair the file"
        raise KbctlError(f"the symptom table cannot be read: {error}", where=str(source), tip=tip) from error
    said: dict[str, Mapping[str, Any]] = {}
    symptoms = tuple(_symptom(row, said.setdefault(row["class"], row)) for row in rows)
    anywhere = tuple(one for one in symptoms if one.anywhere)
    return Table(symptoms, anywhere, tuple(one for one in anywhere if one.kind == "noise"))


def classes() -> frozenset[str]:
    """Every class name that a record may use as a signature."""
    rows = table().rows
    names = {row.name for row in rows} | {name for row in rows for name in row.by_stage.values()}
    return frozenset(names | {UNKNOWN, "hang-distributed", "hang-capture", "killed", "log-ends"})


def _symptom(row: Mapping[str, Any], first: Mapping[str, Any]) -> Symptom:
    def said(key: str) -> Any:
        return row.get(key, first.get(key))

    return Symptom(
        name=row["class"],
        kind=row["kind"],
        anywhere=row.get("where", "error") == "any",
        effect=said("effect"),
        blame=said("blame"),
        stage=row.get("stage"),
        by_stage=said("by_stage") or {},
        meaning=said("meaning") or "",
        advice=said("advice"),
        patterns=tuple(compile_texts(row["texts"])),
    )


def compile_texts(texts: Iterable[str]) -> Iterable[Pattern]:
    """Patterns of the table's texts: literal, ``...`` for anything within the line, ``<name>`` for a hole."""
    for text in texts:
        fixed = [part for part in _HOLE.split(text)[::2] if part]
        literal = max(fixed, key=len)
        if literal == text:
            yield Pattern(literal, None)
        else:
            yield Pattern(literal, re.compile(_regex_of(text)))


def _regex_of(text: str) -> str:
    """A regular expression without nested repeats: every gap is bounded and lazy; the last hole is greedy."""
    parts: list[str] = []
    seen: set[str] = set()
    at = 0
    for hole in _HOLE.finditer(text):
        parts.append(re.escape(text[at : hole.start()]))
        parts.append(_hole(hole[1], hole.end() == len(text), seen))
        at = hole.end()
    return "".join([*parts, re.escape(text[at:])])


def _hole(name: str | None, is_last: bool, seen: set[str]) -> str:
    if name is None:
        return rf".{{0,{MAX_GAP}}}?"
    body = r"-?[\d.,]{1,24}" if name == "n" else rf".{{1,{MAX_GAP}}}" + ("" if is_last else "?")
    if name in seen:
        return body
    seen.add(name)
    return f"(?P<{name}>{body})"
