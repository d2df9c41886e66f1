"""What users said: append-only rows that survive every rebuild.

Owns claims about runs and sources. Must not change or delete one: a later claim about the same target wins.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kb.store.database import Store, now


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """``kind``: invalidate | restore | forget | note | link | unlink | said.

    ``target`` is a run id, or the identity of a source (link, unlink, said); ``value`` the other end of a
    link, the text of a note, or JSON of the fields said; ``reason`` why.
    """

    kind: str
    target: str
    value: str = ""
    reason: str | None = None


def add_claims(store: Store, claims: Iterable[Claim]) -> int:
    """Append claims, inside the caller's transaction; one that repeats the latest of its kind is left out.

    Returns how many were new.
    """
    added = 0
    for claim in claims:
        sql = "SELECT kind, value, claim, ordinal FROM claim WHERE target = ? ORDER BY ordinal DESC"
        earlier = store.rows(sql, [claim.target])
        if _repeats(claim, earlier):
            continue
        store.load("claim", [_row(claim, earlier)])
        added += 1
    return added


def claims_by_target(store: Store, kinds: Iterable[str]) -> dict[str, list[Claim]]:
    """target -> its claims of these kinds, oldest first."""
    sql = "SELECT target, kind, value, reason FROM claim WHERE kind IN (SELECT unnest(?))"
    found: dict[str, list[Claim]] = {}
    for target, kind, value, reason in store.rows(f"{sql} ORDER BY target, ordinal", [list(kinds)]):
        found.setdefault(target, []).append(Claim(kind=kind, target=target, value=value, reason=reason))
    return found


def said_of_sources(store: Store) -> dict[str, dict[str, Any]]:
    """identity of a source -> the fields that the user supplied with it, newest word."""
    claims = claims_by_target(store, ("said",))
    return {target: json.loads(found[-1].value) for target, found in claims.items()}


def _repeats(claim: Claim, earlier: list[tuple[Any, ...]]) -> bool:
    opposite = {"invalidate": "restore", "restore": "invalidate", "link": "unlink", "unlink": "link"}
    relevant = [
        (kind, value) for kind, value, *_ in earlier if kind in (claim.kind, opposite.get(claim.kind))
    ]
    return bool(relevant) and relevant[0] == (claim.kind, claim.value)


def _row(claim: Claim, earlier: list[tuple[Any, ...]]) -> dict[str, Any]:
    before, ordinal = (earlier[0][2], earlier[0][3] + 1) if earlier else ("", 0)
    told = "\0".join((claim.kind, claim.target, claim.value, claim.reason or "", before))
    return {
        "claim": hashlib.blake2b(told.encode(), digest_size=16).hexdigest(),
        "kind": claim.kind,
        "target": claim.target,
        "value": claim.value,
        "reason": claim.reason,
        "ordinal": ordinal,
        "claimed_at": now(),
    }
