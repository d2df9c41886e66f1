"""Versions and the line they stand on: order per scheme, ranges, and the introduced/fixed timeline.

Owns comparison. Must not know which release pins what (``kb.vocab.options``). What cannot be ordered (a
branch, a commit, an image tag, a nightly of the release in question) is unknown, never smaller or larger.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

State = Literal["affected", "not-affected", "unknown"]
Scheme = Literal["pep440", "build", "dotted"]
Key = tuple[Any, ...]
Span = tuple[str | None, str | None]

_PEP440 = re.compile(
    r"v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<pre>a|alpha|b|beta|c|rc|pre|preview)[-_.]?(?P<pre_n>\d*))?"
    r"(?:(?:[-_.]?(?:post|rev|r)[-_.]?(?P<post>\d*))|-(?P<post_bare>\d+))?"
    r"(?:[-_.]?dev[-_.]?(?P<dev>\d*))?"
    r"(?:\+[a-z0-9._-]*)?\Z",
    re.IGNORECASE,
)
_BUILD = re.compile(r"(?:version:? ?)?b?(\d{3,6})(?:[ -].*)?\Z")
_DOTTED = re.compile(r"v?(\d+(?:\.\d+)*)(?:[-+ ].*)?\Z", re.IGNORECASE)
_PRE_ORDER = {"a": 0, "alpha": 0, "b": 1, "beta": 1, "c": 2, "rc": 2, "pre": 2, "preview": 2}
_SCHEMES: dict[str, Scheme] = {
    "llama.cpp": "build",
    "driver": "dotted",
    "cuda": "dotted",
    "rocm": "dotted",
    "nccl": "dotted",
    "kernel": "dotted",
    "glibc": "dotted",
}
_LOWEST: Key = ()


def scheme_of(component: str | None) -> Scheme:
    """How versions of a component are written: ``pep440`` unless known otherwise."""
    return _SCHEMES.get((component or "").lower(), "pep440")


@lru_cache(maxsize=4096)
def version_key(text: str, scheme: Scheme = "pep440") -> Key | None:
    """A key that orders versions of one scheme, or ``None`` for what has no place on the line.

    Pre-releases come before their release, development builds before both; a local part (``+cu129``) is
    left out.
    """
    word = text.strip()
    if scheme == "build":
        build = _BUILD.match(word)
        return (int(build[1]),) if build else None
    if scheme == "dotted":
        dotted = _DOTTED.match(word)
        return _release(dotted[1]) if dotted else None
    found = _PEP440.match(word)
    return _pep440_key(found) if found else None


def compare(left: str, right: str, component: str | None = None) -> int | None:
    """-1, 0 or 1 as ``left`` is before, equal to or after ``right``; ``None`` where one has no order."""
    scheme = scheme_of(component)
    one, other = version_key(left, scheme), version_key(right, scheme)
    if one is None or other is None:
        return None
    return (one > other) - (one < other)


def satisfies(version: str | None, specifier: str, component: str | None = None) -> bool | None:
    """Whether a version meets ``>=0.6.8,<0.7`` (also ``==0.5.*``, ``!=``, ``~=``; bare means equal).

    ``None`` where the version or a bound is unknown.
    """
    answers = [
        _meets(version, clause.strip(), component) for clause in specifier.split(",") if clause.strip()
    ]
    if False in answers:
        return False
    return None if None in answers else True


def newest(versions: Iterable[str], component: str | None = None) -> str | None:
    """The highest of the versions that can be ordered, or ``None``."""
    scheme = scheme_of(component)
    keyed = [(key, text) for text in versions if (key := version_key(text, scheme)) is not None]
    return max(keyed)[1] if keyed else None


def state(
    version: str | Span | None,
    ranges: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    component: str | None = None,
) -> State:
    """Whether a version is affected by what the ranges describe.

    ``version``: a version, or a span ``(low, high)`` when it is only known to lie between two (ends included,
    ``None`` is open), or ``None``. Each range maps ``introduced`` ("0": since ever, the default),
    ``introduced_between`` (a, b: not at a, certainly at b), ``fixed``, ``fixed_between`` (a, b: still at a,
    fixed at b), ``last_affected`` (the last one affected), ``last_seen`` (seen up to here, later unknown),
    ``limit`` (nothing is said from here on: not affected) and ``reintroduced``; an event may also be a list.
    Several ranges are alternatives. No range at all means that every version is affected.
    """
    rows = [ranges] if isinstance(ranges, Mapping) else list(ranges)
    if not rows:
        return "affected"
    states = [_state_in(version, row, scheme_of(component or row.get("component"))) for row in rows]
    return _any_of(states)


def breakpoints(ranges: Mapping[str, Any], component: str | None = None) -> list[tuple[str, State]]:
    """A range as its timeline: (version from which it holds, state), lowest first, starting at "0"."""
    scheme = scheme_of(component or ranges.get("component"))
    first, points = _timeline(ranges, scheme)
    return [("0", first), *((text, what) for _, text, what, _ in points)]


def _release(text: str) -> Key:
    numbers = [int(part[:18]) for part in text.split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _pep440_key(found: re.Match[str]) -> Key:
    dev = None if found["dev"] is None else int(found["dev"] or 0)
    post = found["post"] if found["post"] is not None else found["post_bare"]
    post_key = -1 if post is None else int(post or 0)
    pre = found["pre"]
    if pre:
        pre_key: Key = (_PRE_ORDER[pre.lower()], int(found["pre_n"] or 0))
    else:
        pre_key = (-1, 0) if dev is not None and post is None else (3, 0)
    dev_key = (1, 0) if dev is None else (0, dev)
    return (int(found["epoch"] or 0), _release(found["release"]), pre_key, post_key, dev_key)


def _meets(version: str | None, clause: str, component: str | None) -> bool | None:
    operator, bound = re.match(r"(~=|===?|!=|<=|>=|<|>)?\s*(.*)", clause, re.DOTALL).groups()  # type: ignore[union-attr]
    operator = operator or "=="
    if version is None:
        return None
    if operator == "~=":
        prefix = ".".join(bound.split(".")[:-1]) + ".*"
        return satisfies(version, f">={bound},=={prefix}", component)
    if bound.endswith(".*"):
        inside = _within(version, bound[:-2], scheme_of(component))
        return inside if operator != "!=" or inside is None else not inside
    order = compare(version, bound, component)
    return None if order is None else _OPERATORS[operator](order)


_OPERATORS = {
    "==": lambda order: order == 0,
    "===": lambda order: order == 0,
    "!=": lambda order: order != 0,
    "<=": lambda order: order <= 0,
    ">=": lambda order: order >= 0,
    "<": lambda order: order < 0,
    ">": lambda order: order > 0,
}


def _within(version: str, prefix: str, scheme: Scheme) -> bool | None:
    if version_key(version, scheme) is None:
        return None
    digits = re.match(r"v?(\d+(?:\.\d+)*)", version.strip(), re.IGNORECASE)
    parts = digits[1].split(".") if digits else []
    wanted = prefix.split(".")
    return (parts + ["0"] * len(wanted))[: len(wanted)] == wanted


def _any_of(states: Sequence[State]) -> State:
    order: tuple[State, State] = ("affected", "unknown")
    for answer in order:
        if answer in states:
            return answer
    return "not-affected"


_Point = tuple[Key, str, State, bool]


def _timeline(row: Mapping[str, Any], scheme: Scheme) -> tuple[State, list[_Point]]:
    """The state before every point, and points (key, text, state from there, whether only after it)."""
    points: list[_Point] = []
    first: State = "affected"
    for text in _listed(row.get("introduced")):
        if text == "0":
            continue
        first = "not-affected"
        points += _point(text, "affected", scheme)
    if row.get("introduced_between"):
        low, high = row["introduced_between"]
        first = "not-affected"
        points += _point(low, "unknown", scheme, after=True) + _point(high, "affected", scheme)
    if row.get("fixed_between"):
        low, high = row["fixed_between"]
        points += _point(low, "unknown", scheme, after=True) + _point(high, "not-affected", scheme)
    for name, what, after in _ENDS:
        for text in _listed(row.get(name)):
            points += _point(text, what, scheme, after=after)
    return first, sorted(points, key=lambda point: (point[0], point[3]))


_ENDS: tuple[tuple[str, State, bool], ...] = (
    ("last_affected", "not-affected", True),
    ("last_seen", "unknown", True),
    ("fixed", "not-affected", False),
    ("limit", "not-affected", False),
    ("reintroduced", "affected", False),
)


def _listed(value: Any) -> list[str]:
    if value is None:
        return []
    return [str(one) for one in value] if isinstance(value, list | tuple) else [str(value)]


def _point(text: Any, what: State, scheme: Scheme, *, after: bool = False) -> list[_Point]:
    key = _LOWEST if str(text) == "0" else version_key(str(text), scheme)
    if key is None:
        raise ValueError(f"{text!r} is no version of the {scheme} scheme")
    return [(key, str(text), what, after)]


def _state_in(version: str | Span | None, row: Mapping[str, Any], scheme: Scheme) -> State:
    first, points = _timeline(row, scheme)
    if version is None or isinstance(version, tuple):
        low, high = version or (None, None)
        return _state_of_span(first, points, low, high, scheme)
    key = version_key(version, scheme)
    if key is None:
        return _agreed([first, *(what for _, _, what, _ in points)])
    if scheme == "pep440" and _is_build_of_a_boundary(key, points):
        return "unknown"
    return _state_at(first, points, key)


def _state_at(first: State, points: Sequence[_Point], key: Key) -> State:
    current = first
    for bound, _, what, after in points:
        if key > bound or (key == bound and not after):
            current = what
    return current


def _state_of_span(
    first: State, points: Sequence[_Point], low: str | None, high: str | None, scheme: Scheme
) -> State:
    floor = version_key(low, scheme) if low else None
    ceiling = version_key(high, scheme) if high else None
    states = [first if floor is None else _state_at(first, points, floor)]
    for bound, after, what in _last_of_each(points):
        reaches = floor is None or bound > floor or (bound == floor and after)
        inside = ceiling is None or bound < ceiling or (bound == ceiling and not after)
        if reaches and inside:
            states.append(what)
    return _agreed(states)


def _last_of_each(points: Sequence[_Point]) -> list[tuple[Key, bool, State]]:
    """Points without those that another one at the very same place replaces."""
    return [(bound, after, what) for (bound, after), what in {(p[0], p[3]): p[2] for p in points}.items()]


def _agreed(states: Sequence[State]) -> State:
    return states[0] if len(set(states)) == 1 else "unknown"


def _is_build_of_a_boundary(key: Key, points: Sequence[_Point]) -> bool:
    """A development build of the release where something changed may be from before or after it."""
    return key[-1][0] == 0 and any(
        bound != _LOWEST and bound[:2] == key[:2] and bound[-1][0] == 1 for bound, _, _, _ in points
    )
