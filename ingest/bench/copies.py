"""Points of a file that say again what others say: a summary beside its rows, a row listed twice.

Owns leaving them out. Must not know where a point stood.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def without_copies(rows: list[tuple[Mapping[str, float | None], Any]]) -> list[Any]:
    """The second members of (metrics, thing) pairs whose metrics are no part of another pair's."""
    sets = [frozenset((key, value) for key, value in metrics.items()) for metrics, _ in rows]
    if len(sets) > 600:
        return [thing for _, thing in rows]
    kept = []
    for index, one in enumerate(sets):
        copied = any(
            one < other or (one == other and at < index) for at, other in enumerate(sets) if at != index
        )
        if not (copied and len(one) > 1):
            kept.append(rows[index][1])
    return kept
