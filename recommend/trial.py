"""A record's own examples, and what becomes of them when one of its conditions is flipped.

Owns the answer that an example expects and the mutants of a compiled record. Pure.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from recommend.match import match
from recommend.question import Query

Json = Mapping[str, Any]


def answer(record: Json, query: Query) -> str:
    """``match``, ``suspect`` (something is missing) or ``no-match``: what a record says to a question."""
    found = match(record, query)
    if found is None:
        return "no-match"
    return "match" if found.sure else "suspect"


def mutants(record: Json) -> Iterator[tuple[str, dict[str, Any]]]:
    """(what was flipped, the record with that one condition or range flipped)."""
    for number, alternative in enumerate(record["matches"]):
        for place, (name, key, condition) in enumerate(alternative["when"]):
            changed = copy.deepcopy(dict(record))
            changed["matches"][number]["when"][place][2] = flipped(condition)
            yield f"match {number + 1}: {name}{'.' + key if key else ''}", changed
        if "divides" in alternative:
            changed = copy.deepcopy(dict(record))
            rule = changed["matches"][number]["divides"]
            rule["holds"] = not rule["holds"]
            yield f"match {number + 1}: divides", changed
    for component in record["ranges"]:
        changed = copy.deepcopy(dict(record))
        changed["ranges"][component] = [{"introduced": "999999"}]
        yield f"range: {component}", changed


def flipped(condition: Json) -> dict[str, Any]:
    """The condition that holds where this one does not."""
    if "any" in condition:
        return {"not": condition["any"]}
    if "not" in condition:
        return {"any": condition["not"]}
    if "set" in condition:
        return {"set": not condition["set"]}
    if "spec" in condition:
        return {"spec": "<0,>0"}
    return {"min": float("inf")}
