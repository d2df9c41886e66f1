"""How likely a configuration is to work, and how far that is proven.

Owns status and chance of one judged candidate, from its findings, own runs, published runs and gates. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kb.measurements import ServingPoint
from kb.model import Tried
from kb.vocab.gpus import arch_of, sibling_of
from recommend import alike
from recommend.advice import Status
from recommend.alike import Setup
from recommend.candidates import Candidate
from recommend.question import Query
from recommend.veto import Finding, Verdict

# Chance that a configuration serves right answers, by how far it is proven. Set from the recorded runs: of
# untested kernel choices on a new card more than half fail, of an engine's own defaults about a fifth.
CHANCE: Mapping[Status, float] = {
    "proven-here": 0.97,
    "proven-elsewhere": 0.85,
    "expected": 0.75,
    "untested": 0.4,
}
DOUBT = {"disputed": 0.65, "suspect": 0.8}
# The kernels are known to work, this engine with this model is not.
ONLY_KERNELS = 0.78
# What the engine picks by itself is unknown.
UNKNOWN_DEFAULT = 0.6
# An unknown choice of the engine for a role of which some kernel is known bad here.
OPEN_TRAP = 0.8
# A parallel layout that nobody is known to have run with these kernels.
LAYOUT = 0.93
# The kernel's own sources have no code for this architecture.
NO_CODE = 0.3
LEAST = 0.03


class Judged(NamedTuple):
    """A candidate with its verdict, chance, and the own and published evidence that carries its status."""

    candidate: Candidate
    verdict: Verdict
    status: Status
    p_works: float
    runs: tuple[Tried, ...] = ()
    points: tuple[ServingPoint, ...] = ()
    writeups: tuple[Mapping[str, Any], ...] = ()
    good: tuple[Finding, ...] = ()


class Ground(NamedTuple):
    """What all candidates of one engine share: its base, the roles in use, and who ran this model on it.

    ``trapped`` are roles of which some kernel is known bad here; ``points`` and ``writeups`` are of
    this model, engine and architecture.
    """

    base: Query
    roles: Sequence[str]
    trapped: Sequence[str] = ()
    setups: Sequence[Setup] = ()
    points: Sequence[ServingPoint] = ()
    writeups: Sequence[Mapping[str, Any]] = ()


def weigh(candidate: Candidate, verdict: Verdict, ground: Ground) -> Judged:
    """Status and chance of one candidate."""
    runs = alike.served(candidate.query, ground.setups)
    good = tuple(found for found in verdict.findings if found.verdict == "known-good")
    by_hand = {role for role, kernel in candidate.changed.items() if ground.base.kernel(role) != kernel}
    unproven = {role for role in by_hand if not any(about(found, role) for found in good)}
    writeups = tuple(
        one for one in ground.writeups if _agrees(one.get("roles") or {}, candidate.query, unproven)
    )
    # A published run of the engine's own choice proves nothing about a kernel set by hand.
    points = () if unproven else tuple(ground.points)
    here = any(alike.same_release(one, candidate.query) for one in runs)
    status, chance = _status(here, bool(points or writeups or runs), good, candidate, ground)
    for found in verdict.findings:
        chance *= _doubt(found, verdict.findings)
    chance *= LAYOUT if candidate.idea == "layout" else 1.0
    chance *= OPEN_TRAP ** sum(role not in candidate.query.resolved for role in ground.trapped)
    return Judged(
        candidate=candidate,
        verdict=verdict,
        status=status,
        p_works=max(chance, LEAST),
        runs=runs,
        points=points,
        writeups=writeups,
        good=good,
    )


def is_suspect(judged: Judged) -> bool:
    """Whether something speaks against this candidate that neither an own run nor another record answers."""
    findings = judged.verdict.findings
    return not judged.runs and any(
        found.verdict == "suspect" and not answered(found, findings) for found in findings
    )


def _doubt(found: Finding, findings: Sequence[Finding]) -> float:
    if answered(found, findings):
        return 1.0
    return NO_CODE if found.kind == "requirement" else DOUBT.get(found.verdict, 1.0)


def _status(
    ran_here: bool, ran_elsewhere: bool, good: Sequence[Finding], candidate: Candidate, ground: Ground
) -> tuple[Status, float]:
    if ran_here:
        return "proven-here", CHANCE["proven-here"]
    if ran_elsewhere:
        return "proven-elsewhere", CHANCE["proven-elsewhere"]
    known = [role for role in ground.roles if role in candidate.query.resolved]
    wanted = {*known[:1], *candidate.changed}
    if known and all(any(about(found, role) for found in good) for role in wanted):
        return "proven-elsewhere", ONLY_KERNELS
    by_itself = all(ground.base.kernel(role) == kernel for role, kernel in candidate.changed.items())
    if by_itself and len(known) == len(ground.roles):
        return "expected", CHANCE["expected"]
    return "untested", UNKNOWN_DEFAULT if by_itself else CHANCE["untested"]


def _agrees(roles: Mapping[str, str], query: Query, unproven: set[str]) -> bool:
    """Whether a reported run used this candidate's kernel in the first role that both tell."""
    shared = [role for role in roles if query.kernel(role)]
    alike = bool(shared) and roles[shared[0]] == query.kernel(shared[0])
    return alike and all(roles.get(role) == query.kernel(role) for role in unproven)


def about(found: Finding, role: str) -> bool:
    """Whether a finding speaks of a role (``attention`` stands for both of its phases)."""
    spoken = found.applies_to.get("roles") or {}
    return role in spoken or role.partition(".")[0] in spoken


def answered(found: Finding, findings: Sequence[Finding]) -> bool:
    """Whether a finding is a mere suspicion about what another one says to work."""
    good = {other.record for other in findings if other.verdict == "known-good"}
    return found.verdict == "suspect" and any(one.get("ref") in good for one in found.conflicts)


def published_here(query: Query, serving: Sequence[ServingPoint]) -> Iterator[ServingPoint]:
    """Published points of this engine on this GPU architecture (or its sibling)."""
    archs = {gpu: arch_of(gpu) for gpu in {point.gpu for point in serving}}
    for point in serving:
        arch = archs[point.gpu]
        if (
            point.engine == query.engine
            and point.mode == "agg"
            and arch
            and query.arch in (arch, sibling_of(arch))
        ):
            yield point
