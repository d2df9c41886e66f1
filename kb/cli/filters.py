"""Filters on runs, as the commands spell them, to a condition on the store's table.

Owns the meaning of --gpu, --engine, --model and so on. Values never become SQL text.
"""

from __future__ import annotations

from collections.abc import Sequence

from kb.errors import KbctlError
from kb.model import BLAMES, EFFECTS
from kb.said import said_fields


def run_condition(
    *,
    gpu: str | None = None,
    engine: str | None = None,
    model: str | None = None,
    effect: str | None = None,
    blame: str | None = None,
) -> tuple[str, list[str]]:
    """(SQL condition, its values) for the table ``run``.

    Raises KbctlError for an ending or a blame that no run can have.
    """
    parts: list[str] = []
    values: list[str] = []
    said = said_fields(gpu=gpu, engine=engine)
    column = "gpu" if "gpu" in said else "arch"
    for name in (column, "engine", "engine_version"):
        if said.get(name):
            parts.append(f"{name} = ?")
            values.append(str(said[name]))
    for name, value, words in (("effect", effect, EFFECTS), ("blame", blame, BLAMES)):
        if value:
            _closed(name, value, words)
            parts.append(f"{name} = ?")
            values.append(value)
    if model:
        parts.append(
            "(contains(lower(coalesce(model, '') || ' ' || coalesce(model_id, '')), ?) OR lower(family) = ?)"
        )
        values += [model.lower(), model.lower()]
    return " AND ".join(parts) or "true", values


def _closed(name: str, value: str, words: Sequence[str]) -> None:
    if value not in words:
        raise KbctlError(
            f"no run has the {name} {value!r}", where=f"--{name}", tip=f"one of {', '.join(words)}"
        )
