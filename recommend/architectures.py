"""Releases that do not know the model's architecture, as the engine's own list of models says.

Owns findings of the kind ``architecture``. Says nothing of builds between the last release without and the
first with it (images made for a new model are such), nor of a release that nobody named. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kb.vocab import architectures
from kb.vocab.repositories import url_of
from recommend import remedy
from recommend.findings import Finding
from recommend.question import Query

_CAUSE = "Its list of models has no such architecture, and no fallback of the release can serve it."


def unknown(query: Query, others: Sequence[Finding] = ()) -> Iterator[Finding]:
    """A finding where the named release lacks the model's architecture; ``others`` are known."""
    name = query.entry.architecture if query.entry else None
    if not (name and query.engine and query.arch) or "engine_version" in query.assumed:
        return
    step = architectures.step(query.engine, name)
    if step and step.lacked_by(query.engine_version) == "affected":
        served = [one for one in others if (one.kind, one.verdict) == ("own-run", "known-good")]
        yield _finding(step, query, served)


def upgrade_for(text: str, query: Query) -> str | None:
    """The remedy for a log's complaint about an architecture: the release that has what it names first."""
    engine, entry = query.engine or "", query.entry
    said = [*re.findall(r"\w+", text), *filter(None, [entry.architecture if entry else None])]
    step = next((one for name in said if (one := architectures.step(engine, name))), None)
    if step is None or step.since is None or step.lacked_by(query.engine_version) == "not-affected":
        return None
    return f"{remedy.upgrade({engine: step.since})['text']}: it is the first with {step.architecture}"


def _finding(step: architectures.Step, query: Query, served: Sequence[Finding]) -> Finding:
    release = f"{query.engine} {query.engine_version}"
    fixed = {step.engine: step.since} if step.since else {}
    return Finding(
        record=name_of(step),
        kind="architecture",
        title=f"{release} does not know {step.architecture}",
        verdict="disputed" if served else "known-bad",
        effect="refused",
        stage="load",
        status="disputed" if served else "fixed" if fixed else "open",
        cause=_CAUSE,
        signature="unknown-architecture",
        applies_to={
            "arch": query.arch,
            "inherited": False,
            "because": ["engine", "model.architecture"],
            "roles": {},
            "engine": release,
        },
        fixed_in=fixed,
        instead=remedy.upgrade(fixed)
        if fixed
        else {"text": "another engine, or a build of this one that was made for the model"},
        evidence=(evidence(step),),
        conflicts=tuple(row for one in served for row in one.evidence),
        trust="confirmed",
        weight=(2, 2),
    )


def name_of(step: architectures.Step) -> str:
    """The id that ``kbctl explain`` takes."""
    return f"architecture:{step.engine}:{step.architecture}"


def evidence(step: architectures.Step) -> dict[str, str | None]:
    """The engine's list of models as a row of evidence."""
    since = f"{step.since} has it" if step.since else "no later release was read"
    return {
        "ref": step.source,
        "kind": "source",
        "side": "against",
        "date": None,
        "conditions": f"{step.without} lacks it, {since}",
        "url": url_of(step.source),
    }
