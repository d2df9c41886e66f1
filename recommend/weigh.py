"""How likely a configuration is to work, and how far that is proven.

Owns status and chance of one judged candidate, from its findings, own runs, published runs and gates. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kb.measurements import ServingPoint
from kb.model import Tried
from kb.vocab.gpus import arch_of, sibling_of
from recommend import own
from recommend.advice import Status
from recommend.candidates import Candidate
from recommend.veto import Finding, Verdict

# Chance that a configuration serves right answers, by how far it is proven. Set from the recorded runs: of
# untested kernel choices on a new card about half fail, of an engine's own defaults about a fifth.
CHANCE: Mapping[Status, float] = {
    "proven-here": 0.97,
    "proven-elsewhere": 0.85,
    "expected": 0.75,
    "untested": 0.5,
}
DOUBT = {"disputed": 0.65, "suspect": 0.8}
LEAST = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A candidate with its verdict, chance, and the own and published evidence that carries its status."""

    candidate: Candidate
    verdict: Verdict
    status: Status
    p_works: float
    runs: tuple[Tried, ...] = ()
    points: tuple[ServingPoint, ...] = ()
    good: tuple[Finding, ...] = field(default_factory=tuple)


def weigh(
    candidate: Candidate,
    verdict: Verdict,
    tried: Iterable[Tried],
    serving: Sequence[ServingPoint],
    roles: Sequence[str],
) -> Judged:
    """Status and chance of one candidate. ``serving`` are published points of this model and engine."""
    runs = tuple(served_here(candidate, tried))
    points = tuple(published_here(candidate, serving))
    good = tuple(found for found in verdict.findings if found.verdict == "known-good")
    status = _status(candidate, runs, points, good, roles)
    chance = CHANCE[status]
    for found in verdict.findings:
        chance *= DOUBT.get(found.verdict, 1.0)
    return Judged(
        candidate=candidate,
        verdict=verdict,
        status=status,
        p_works=max(chance, LEAST),
        runs=runs,
        points=points,
        good=good,
    )


def _status(
    candidate: Candidate,
    runs: Sequence[Tried],
    points: Sequence[ServingPoint],
    good: Sequence[Finding],
    roles: Sequence[str],
) -> Status:
    if runs:
        return "proven-here"
    # A published run of the engine's own choice proves nothing about a kernel set by hand.
    if (points and not candidate.changed) or _covers(good, candidate, roles):
        return "proven-elsewhere"
    resolved = candidate.query.resolved
    if all(role in resolved and resolved[role].by == "auto" for role in roles) or (not candidate.changed):
        return "expected"
    return "untested"


def _covers(good: Iterable[Finding], candidate: Candidate, roles: Sequence[str]) -> bool:
    """Whether good findings speak for every kernel that was set by hand (else for the first role)."""
    spoken = {role for found in good for role in (found.applies_to.get("roles") or {})}
    wanted = set(candidate.changed) or set(roles[:1])
    return bool(wanted) and all(_spoken_for(role, spoken) for role in wanted)


def _spoken_for(role: str, spoken: set[str]) -> bool:
    return role in spoken or role.partition(".")[0] in spoken


def served_here(candidate: Candidate, tried: Iterable[Tried]) -> Iterator[Tried]:
    """Own runs of this model, GPU and engine that served with the same kernels."""
    query = candidate.query
    for one in tried:
        here = one.hardware.arch == query.arch and one.backend.engine == query.engine
        served = here and own.same_model(one, query) and next(own.successes(one), None) is not None
        if served and _same_kernels(one, candidate):
            yield one


def _same_kernels(one: Tried, candidate: Candidate) -> bool:
    ran = {**one.backend.requested, **one.backend.resolved}
    wanted = {role: found.kernel for role, found in candidate.query.resolved.items()}
    agree = all(ran[role] == kernel for role, kernel in wanted.items() if role in ran)
    return agree and set(candidate.changed) <= set(ran)


def published_here(candidate: Candidate, serving: Iterable[ServingPoint]) -> Iterator[ServingPoint]:
    """Published points of this engine on this GPU architecture (or its sibling)."""
    query = candidate.query
    for point in serving:
        arch = arch_of(point.gpu)
        if point.engine == query.engine and arch and query.arch in (arch, sibling_of(arch)):
            yield point
