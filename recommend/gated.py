"""What an engine's own source turns down: hand-read gates that refuse, as findings.

Owns findings of the kind ``gate``. Weaker than any record that condemns the same question; an explicit
refusal is known-bad (disputed where something like it is known to work), what was only concluded from source
and a release that was not read are suspect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kb.vocab import gates, options, refusals
from kb.vocab.engines import role_names
from kb.vocab.repositories import repository, url_of
from recommend import remedy
from recommend.findings import Finding, how
from recommend.question import Query


def refused(query: Query, others: Sequence[Finding] = ()) -> Iterator[Finding]:
    """A finding for each gate of the engine's source that refuses the question; ``others`` are known."""
    if query.engine is None or query.arch is None:
        return
    chosen = {role: one.kernel for role, one in query.resolved.items() if one.by != "auto"}
    facts = gates.facts_of(query.engine, query.arch, query.entry, query.quantization, query.settings)
    facts |= {"environment": query.environment, "whole": False, "roles": chosen}
    for one in refusals.refusals(query.engine, query.engine_version, facts):
        yield _finding(one, query, [found for found in others if _contradicts(found, one)])


def _contradicts(found: Finding, one: refusals.Refusal) -> bool:
    """Whether what is known to work is about the very choice that the gate refuses."""
    works = {role for name in found.applies_to.get("roles") or () for role in role_names(name)}
    return found.verdict == "known-good" and (found.kind == "own-run" or bool(works & set(one.roles)))


def _finding(one: refusals.Refusal, query: Query, works: Sequence[Finding]) -> Finding:
    sure = one.state == "affected"
    explicit = sure and one.effect == "refused"
    return Finding(
        record=one.gate.id,
        kind="gate",
        title=f"{query.engine} refuses this: {one.gate.condition}" if explicit else one.gate.condition,
        verdict="suspect" if not explicit else "disputed" if works else "known-bad",
        effect=one.effect,
        stage=one.stage,
        cause=one.gate.decision,
        signature=one.signature,
        applies_to={
            "arch": query.arch,
            "inherited": False,
            "because": [f"roles.{role}" for role in one.roles] or ["settings"],
            "roles": {
                role: f"{query.resolved[role].kernel} ({how(query.resolved[role])})" for role in one.roles
            },
            "engine": " ".join(filter(None, (query.engine, query.engine_version))),
        },
        instead=_instead(one.instead, query),
        evidence=(_row(one.gate),),
        conflicts=tuple(row for found in works for row in found.evidence),
        trust="confirmed" if explicit else "inferred",
        missing=() if sure else (f"{query.engine} version",),
        weight=(3, 1),
    )


def _instead(text: str | None, query: Query) -> Mapping[str, Any]:
    """The remedy; a setting that the release has is said as its flag."""
    dest, _, value = (text or "").partition(" ")
    if text and " " not in value and options.option(query.engine or "", query.engine_version, dest):
        return {"settings": {dest: value}, "flags": remedy.flags(query, {dest: value})}
    return {"text": text} if text else remedy.NONE_KNOWN


def _row(gate: gates.Gate) -> dict[str, str | None]:
    ref = f"{repository(gate.engine) or gate.engine}:{gate.file}"
    return {
        "ref": ref,
        "kind": "source",
        "side": "against",
        "date": None,
        "conditions": f"{gate.symbol}, read in {', '.join(gate.versions)}",
        "url": url_of(ref),
    }
