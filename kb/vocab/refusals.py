"""What releases will not run: hand-read gates whose condition is also data.

Owns ``gates/refusals-<engine>.jsonl``, one gate a line: the fields of a gate, ``when`` (conditions as in
``defaults.json``), ``ranges`` (releases, as in records), ``signature``, and where they are not the usual ones
``effect``, ``stage`` and ``instead``. A line that cannot concern the question is not parsed. Must not judge.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kb import versions
from kb.vocab.gates import Gate, as_gate, holds

_FOLDER = Path(__file__).with_name("gates")


class Refusal(NamedTuple):
    """A hand-read gate that turns a question down.

    ``state``: ``affected``, or ``unknown`` for a release that was not read. ``roles``: whose kernel it is.
    """

    gate: Gate
    state: str
    roles: tuple[str, ...]
    effect: str
    stage: str
    signature: str
    instead: str | None


def refusals(engine: str, version: str | None, facts: Mapping[str, Any]) -> tuple[Refusal, ...]:
    """The gates that refuse a question, as far as it says all that they ask.

    ``facts`` as ``gates.facts_of`` gives them, with ``environment`` and ``roles`` (role → kernel chosen).
    """
    rows = _refusing(engine, facts["arch"])
    said = {"", facts["layout"], *(facts["quantization"] or ()), *facts["roles"]}
    said.update(key.partition(".")[0] for key in facts["settings"])
    held = [row for word in said & rows.keys() for row in rows[word] if holds(row["when"], facts)]
    found = [(row, _standing(row, version)) for row in {row["id"]: row for row in held}.values()]
    return tuple(_refusal(row, state) for row, state in found if state != "not-affected")


@cache
def _refusing(engine: str, arch: str | None) -> dict[str, list[dict[str, Any]]]:
    """The refusals of an engine that may concern an architecture, by a word that a question must say."""
    path = _FOLDER / f"refusals-{engine}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else ()
    found: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        if '"arch"' not in line or f'"{arch}"' in line:
            row = json.loads(line)
            for word in _needed(row["when"]):
                found.setdefault(word, []).append(row)
    return found


def _needed(when: Mapping[str, Any]) -> Sequence[str]:
    """Words of which a question says one, or a condition fails: a setting, a role, a kind of weights."""
    if choice := when.get("either") or when.get("settings"):
        return [key.partition(".")[0] for key in (choice if "either" in when else [*choice][:1])]
    words: Sequence[str] = (
        [*when.get("roles", ())][:1] or when.get("layout") or when.get("quantization") or [""]
    )
    return words


def _standing(row: Mapping[str, Any], version: str | None) -> str:
    """Whether a release has a gate: not known beyond the last release that was read."""
    last = {"last_seen": row["versions"][-1]}
    return versions.state(version, [one | last for one in row["ranges"]], row["engine"])


def _refusal(row: Mapping[str, Any], state: str) -> Refusal:
    when = row["when"]
    return Refusal(
        gate=as_gate(row, "curated"),
        state=state,
        roles=tuple(when.get("roles", ())),
        effect=row.get("effect", "refused"),
        stage=row.get("stage", "init"),
        signature=row["signature"],
        instead=row.get("instead"),
    )
