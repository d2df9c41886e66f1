"""A record in the plain form that the matcher reads: conditions flat, names canonical, references as URLs.

Owns the shape of a compiled record. Must not read files; runs only when records changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from kb.records import Condition, EvidenceOf, Instead, Match, Range, Record
from kb.vocab import models
from kb.vocab.dialects import SERVERS
from kb.vocab.repositories import url_of
from kb.words import canonical_kernel

Json = dict[str, Any]

_PLAIN = (
    "arch",
    "gpu",
    "count",
    "engine",
    "weight_quantization",
    "kv_dtype",
    "topology",
    "build",
    "driver",
    "cuda",
)
_KEYED = ("roles", "settings", "env", "workload", "dependencies")
_MODEL = ("id", "family", "architecture", "attention", "features", "head_dim")


def compiled(record: Record, *, shipped: bool) -> Json:
    """One record as JSON: id, path, good, matches, outcomes, ranges, instead, evidence …"""
    content = record.content
    matches = [_match(match) for match in content.match]
    return {
        "id": record.id,
        "path": str(record.path),
        "shipped": shipped,
        "title": content.title,
        "checked": content.checked,
        "cause": content.cause,
        "aliases": list(content.aliases),
        "good": record.good,
        "matches": matches,
        "engines": _engines(matches, content.range),
        "outcomes": [outcome.model_dump(exclude_none=True) for outcome in content.outcome],
        "ranges": ranges(content.range),
        "instead": [_instead(one) for one in content.instead],
        "evidence": [_evidence(one) for one in content.evidence],
    }


def _engines(matches: list[Json], rows: tuple[Range, ...]) -> list[str] | None:
    """The servers that a record can speak about, by its ranges and its alternatives; None for any of them."""
    bound = {row.component for row in rows} & set(SERVERS)
    named: set[str] = set()
    for alternative in matches:
        listed = [condition.get("any") for name, _, condition in alternative["when"] if name == "engine"]
        if not bound and not (listed and listed[0]):
            return None
        named.update(listed[0] or () if listed else ())
    return sorted(bound | named)


def ranges(rows: tuple[Range, ...]) -> dict[str, list[Json]]:
    """Component -> its OSV events, one row per block."""
    found: dict[str, list[Json]] = {}
    for row in rows:
        events = row.model_dump(exclude_none=True, exclude_defaults=True, exclude={"component"})
        found.setdefault(row.component, []).append(events)
    return found


def conditions(match: Match) -> Iterator[tuple[str, str | None, Condition]]:
    """(dimension, key or None, condition) of a match, ``divides`` excepted."""
    for name in _PLAIN:
        if (value := getattr(match, name)) is not None:
            yield name, None, value
    for name in _KEYED:
        for key, value in getattr(match, name).items():
            yield name, key, value
    for key in _MODEL:
        if match.model and (value := getattr(match.model, key)) is not None:
            yield "model", key, value


def _match(match: Match) -> Json:
    rows = [[name, key, _condition(name, key, one)] for name, key, one in conditions(match)]
    divides = {} if match.divides is None else {"divides": match.divides.model_dump()}
    return {"when": rows, "mirror": list(match.mirror)} | divides


def _condition(name: str, key: str | None, condition: Condition) -> Json:
    row = condition.model_dump(mode="json", exclude_none=True, by_alias=True)
    canonical = _CANONICAL.get((name, key)) or (_CANONICAL.get((name, None)) if name == "roles" else None)
    if canonical is None:
        return row
    return {
        how: [word for one in value for word in canonical(str(one))] if isinstance(value, list) else value
        for how, value in row.items()
    }


@cache
def _family(name: str) -> list[str]:
    found, bare = models.family_of(name), models.canonical_name(name)
    if found is None or found == bare or models.is_narrower(bare, found):
        return [bare]
    return [found, bare]


@cache
def _model_id(name: str) -> list[str]:
    entry, bare = models.find_model(name), models.canonical_name(name)
    if entry is None or entry.id == bare or models.is_narrower(bare, entry.id):
        return [name]
    return [entry.id, name]


_CANONICAL: dict[tuple[str, str | None], Callable[[str], list[str]]] = {
    ("roles", None): lambda name: [canonical_kernel(name)],
    ("model", "family"): _family,
    ("model", "id"): _model_id,
}


def _instead(one: Instead) -> Json:
    return {key: value for key, value in one.model_dump(mode="json", exclude_none=True).items() if value}


def _evidence(one: EvidenceOf) -> Json:
    row = {key: value for key, value in one.model_dump(exclude_none=True).items() if value}
    return row | {"url": one.url or url_of(one.ref)}
