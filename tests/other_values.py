"""JSON documents with a value of another kind at one place: what a parser must stand without an exception.

Owns the kinds and how a place is chosen. Must not know any format.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

KINDS: tuple[Any, ...] = (1.5, -1, True, None, "", "x", [], [1], [[1]], {}, {"a": {}}, 10**400)
_LARGEST = 200_000


def documents(data: bytes) -> list[Any]:
    """The JSON document in these bytes, or one a line; none where it is neither."""
    text = data[:_LARGEST].decode("utf-8", "replace").lstrip("\ufeff")
    try:
        return [json.loads(text)]
    except (ValueError, RecursionError):
        pass
    try:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError):
        return []


def with_another_value(found: list[Any], chance: random.Random) -> bytes:
    """The same documents, one value somewhere in one of them replaced."""
    changed = copy.deepcopy(found)
    at = chance.randrange(len(changed))
    places = list(_places(changed[at]))
    kind = chance.choice(KINDS)
    if not places:
        changed[at] = kind
    else:
        holder, key = chance.choice(places)
        holder[key] = kind
    return "\n".join(json.dumps(one) for one in changed).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value[:40])
    for key, inner in list(pairs) if isinstance(value, dict | list) else ():
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)
