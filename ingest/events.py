"""What a line of a server log can tell: rules that engines bring, events that come out.

Owns the vocabulary between engine modules and assembly. Must not know any engine, must not judge an outcome.

Event kinds
    start       a server begins (its banner or its arguments); values as for ``facts``
    stage       a step of the life cycle is reached; values: stage, step (an engine's own order), pending
                (what it now waits for: distributed, capture), end (whether the wait is over)
    facts       values to keep: engine_version, model, architecture, quantization, gpu, gpu_count, driver,
                cuda, memory_gib, port, settings {}, environment {}, dependencies {}, and free ones (kept)
    choice      a kernel for a role: role, label, how (auto | asked | fallback | runs), version
    ready       the server takes requests
    served      a request was answered
    taken       a request was taken up
    waiting     one process says that it waits for another
    stopped     an orderly stop was asked for (SIGTERM, Ctrl+C)
    sample      one measured window: metrics {}, workload {}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

from ingest.logline import Line

Values = dict[str, Any]
_compiled = cache(re.compile)  # on first use: a file is of one engine, and there are many rules


@dataclass(slots=True)
class Event:
    """Something that a line told. ``text`` is the message it was read from."""

    kind: str
    line: int
    process: str
    values: Values
    text: str = ""
    time: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """When ``literal`` stands in a message (and ``pattern`` is found), an event of ``kind``.

    The pattern's named groups become values beside ``values``; ``read`` may turn the match into values itself
    (None: no event after all).
    """

    literal: str
    kind: str
    pattern: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    read: Callable[[re.Match[str]], Values | None] | None = None


def rule(
    literal: str,
    kind: str,
    pattern: str | None = None,
    read: Callable[[re.Match[str]], Values | None] | None = None,
    **values: Any,
) -> Rule:
    """A rule; without a pattern its literal is enough."""
    return Rule(literal=literal, kind=kind, pattern=pattern, read=read, values=values)


def step(literal: str, stage: str, order: int, pattern: str | None = None, **values: Any) -> Rule:
    """A rule for a step of the life cycle."""
    return rule(literal, "stage", pattern, stage=stage, step=order, **values)


class Reader(Protocol):
    """Reads values that span several lines; ``active`` while it is inside of such."""

    active: bool

    def feed(self, line: Line) -> list[tuple[str, Values]]:
        """Take a line; (kind, values) of what it completed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """Lines that make up most of a long log: never taken apart one by one.

    ``read`` turns a sampled line into a sample's values. A line proves that requests are served when it holds
    all of ``busy`` (None: never) and not ``idle``. ``taken``: it says at least that a request was taken up.
    """

    marker: bytes
    read: Callable[[str], Values | None] | None = None
    busy: tuple[bytes, ...] | None = ()
    idle: bytes | None = None
    taken: bool = False

    def is_progress(self, raw: bytes) -> bool:
        """Whether this line proves that requests are being served."""
        if self.busy is None or (self.idle is not None and self.idle in raw):
            return False
        return all(one in raw for one in self.busy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """How one engine's logs read: its rules, its bulk lines, and readers of what spans several lines.

    ``carries``: what was said before the first start of a log (version, GPU) holds for every start in it.
    """

    engine: str
    rules: Sequence[Rule]
    bulk: Sequence[Bulk] = ()
    readers: Sequence[Callable[[], Reader]] = ()
    carries: bool = False


def apply(rules: Sequence[Rule], text: str) -> list[tuple[str, Values]]:
    """(kind, values) of every rule that the message satisfies."""
    told: list[tuple[str, Values]] = []
    for one in rules:
        if one.literal not in text:
            continue
        values = _values(one, text)
        if values is not None:
            told.append((one.kind, values))
    return told


def _values(one: Rule, text: str) -> Values | None:
    if one.pattern is None:
        return dict(one.values)
    found = _compiled(one.pattern).search(text)
    if found is None:
        return None
    if one.read is None:
        return {**one.values, **{key: value for key, value in found.groupdict().items() if value is not None}}
    read = one.read(found)
    return None if read is None else {**one.values, **read}


def number(text: str | None) -> float | int | None:
    """The number that a log prints (thousands commas, decimal comma of a locale), or None."""
    if not text:
        return None
    plain = text.strip().rstrip(".")
    if re.fullmatch(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?", plain):
        plain = plain.replace(",", "")
    try:
        value = float(plain.replace(",", "."))
    except ValueError:
        return None
    return int(value) if value.is_integer() and "." not in plain and "," not in plain else value
