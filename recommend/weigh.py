"""How likely a configuration is to work, and how far that is proven.

Owns status and chance of one judged candidate, from its findings, own runs, published runs and gates. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kb import EMPTY
from kb.measurements import ServingPoint
from kb.model import Tried
from kb.vocab.gpus import arch_of, sibling_of
from recommend import alike, chance
from recommend.advice import Status
from recommend.alike import Setup
from recommend.candidates import Candidate
from recommend.question import Query
from recommend.veto import Finding, Verdict

DOUBTS = ("disputed", "suspect")


class Judged(NamedTuple):
    """A candidate with its verdict, chance, and the own and published evidence that carries its status."""

    candidate: Candidate
    verdict: Verdict
    status: Status
    p_works: float
    features: Mapping[str, float] = EMPTY
    runs: tuple[Tried, ...] = ()
    points: tuple[ServingPoint, ...] = ()
    writeups: tuple[Mapping[str, Any], ...] = ()
    good: tuple[Finding, ...] = ()


class Ground(NamedTuple):
    """What all candidates of one engine share: its base, the roles in use, and who ran this model on it.

    ``trapped`` are roles of which some kernel is known bad here; ``points`` and ``writeups`` are of
    this model, engine and architecture. ``model`` holds the coefficients of the chance, ``surroundings`` and
    ``near`` what all candidates share of what they are applied to.
    """

    base: Query
    roles: Sequence[str]
    trapped: Sequence[str] = ()
    setups: Sequence[Setup] = ()
    points: Sequence[ServingPoint] = ()
    writeups: Sequence[Mapping[str, Any]] = ()
    model: Mapping[str, Any] | None = None
    surroundings: Mapping[str, float] = EMPTY
    near: chance.Near = chance.Near()


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
    proof = {
        "ran-here": float(here),
        "ran-otherwise": float(bool(runs)),
        "published": float(bool(points)),
        "written-up": float(bool(writeups)),
        "kernels-work": float(_covered(candidate, ground, good)),
        "works-firmly": float(any(one.trust in ("confirmed", "own") for one in good)),
        **_of_choice(candidate.query, len(by_hand), ground),
        "served-near": chance.capped(sum(one.works for one in ground.setups)),
        "failed-near": chance.capped(sum(one.faulty and not one.works for one in ground.setups)),
        "tight": float(verdict.fit is not None and verdict.fit["fits"] is None),
    }
    findings = verdict.findings
    doubts = [one for one in findings if one.verdict in DOUBTS and not answered(one, findings)]
    found = chance.features(candidate.query, proof, doubts, ground.near, ground.surroundings)
    return Judged(
        candidate=candidate,
        verdict=verdict,
        status=_status(proof),
        p_works=chance.works(ground.model, found),
        features=found,
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


def _of_choice(query: Query, by_hand: int, ground: Ground) -> dict[str, float]:
    """Whose choice the kernels are, and whether they are known at all."""
    left_open = sum(role not in query.resolved for role in ground.roles)
    return {
        "by-hand": float(min(by_hand, 3)),
        "left-open": float(min(left_open, 3)),
        "trapped": float(min(sum(role not in query.resolved for role in ground.trapped), 3)),
        "own-choice": float(not by_hand and not left_open),
    }


_ELSEWHERE = ("ran-otherwise", "published", "written-up", "kernels-work")


def _status(proof: Mapping[str, float]) -> Status:
    if proof["ran-here"]:
        return "proven-here"
    if any(proof[name] for name in _ELSEWHERE):
        return "proven-elsewhere"
    return "expected" if proof["own-choice"] else "untested"


def _covered(candidate: Candidate, ground: Ground, good: Sequence[Finding]) -> bool:
    """Whether all kernels that were chosen, and that of the first role, are known to work."""
    known = [role for role in ground.roles if role in candidate.query.resolved]
    wanted = {*known[:1], *candidate.changed}
    return bool(known) and all(any(about(found, role) for found in good) for role in wanted)


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
