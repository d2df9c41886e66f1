"""What one engine offers for a question: every kernel of every role judged, and the configurations left.

Owns the veto: what is known to be bad, failed here by its own fault, or does not fit is dropped. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from recommend import candidates, own
from recommend.candidates import Candidate
from recommend.expect import Known
from recommend.query import Query
from recommend.veto import Evidence, Finding, Verdict, judge
from recommend.weigh import Judged, weigh

BAD = ("known-bad",)
DOUBTFUL = ("known-bad", "disputed", "suspect")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One kernel for one role, judged: what the engine would be asked and what is known of that."""

    role: str
    kernel: str
    query: Query
    verdict: Verdict
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """What one engine offers: judged candidates, every option of every role, its roles."""

    engine: str
    base: Query
    composed: Query
    judged: tuple[Judged, ...]
    options: tuple[Option, ...]
    roles: tuple[str, ...]


def explore(base: Query, evidence: Evidence, known: Known) -> Explored:
    """Judge what one engine can be asked to do, and drop what is known to be bad or does not fit."""
    roles = candidates.roles_in_use(base)
    options = tuple(_options(base, roles, evidence))
    found: list[Candidate] = [Candidate(query=base, idea="auto")]
    composed = compose(base, roles, options, evidence)
    found.append(composed)
    found += _one_changed(composed, options)
    found += [
        Candidate(query=query, idea=idea, changed=composed.changed)
        for idea, query in candidates.layouts(composed.query)
    ]
    found += candidates.own(base, evidence.tried)
    judged = tuple(_judged(found, evidence, known, roles))
    return Explored(
        engine=base.engine or "",
        base=base,
        composed=composed.query,
        judged=judged,
        options=options,
        roles=roles,
    )


def _options(base: Query, roles: Sequence[str], evidence: Evidence) -> Iterator[Option]:
    for role, kernel, query in candidates.kernel_options(base, roles):
        verdict = judge(query, evidence)
        about = tuple(found for found in verdict.findings if about_role(found, role))
        yield Option(role=role, kernel=kernel, query=query, verdict=verdict, findings=about)


def about_role(found: Finding, role: str) -> bool:
    """Whether a finding speaks of this role."""
    spoken = found.applies_to.get("roles") or {}
    return role in spoken or role.partition(".")[0] in spoken


def word_of(findings: Sequence[Finding]) -> str:
    """The strongest verdict of findings about one role."""
    words = {found.verdict for found in findings}
    return next((word for word in (*DOUBTFUL, "known-good") if word in words), "no-known-problem")


_PREFERENCE = ("known-good", "no-known-problem", "suspect", "disputed", "known-bad")


def compose(base: Query, roles: Sequence[str], options: Sequence[Option], evidence: Evidence) -> Candidate:
    """The base with each role's kernel set where something is known for or against one of its kernels."""
    query = base
    changed: dict[str, str] = {}
    own_words = judge(base, evidence).findings
    for role in roles:
        offered = [one for one in options if one.role == role]
        if not offered or not any(one.findings for one in offered):
            continue
        current = base.kernel(role)
        now = word_of([found for found in own_words if about_role(found, role)])
        best = min(offered, key=lambda one: (_PREFERENCE.index(word_of(one.findings)), one.kernel != current))
        better = _PREFERENCE.index(word_of(best.findings)) < _PREFERENCE.index(now)
        pin = current if current and not better else best.kernel if better or current is None else None
        step = candidates.with_kernel(query, role, pin) if pin else None
        if step is not None and pin is not None:
            query, changed = step, {**changed, role: pin}
    return Candidate(query=query, idea="composed", changed=changed)


def _one_changed(composed: Candidate, options: Sequence[Option]) -> Iterator[Candidate]:
    for option in options:
        if word_of(option.findings) in BAD or composed.query.kernel(option.role) == option.kernel:
            continue
        query = candidates.with_kernel(composed.query, option.role, option.kernel)
        if query is not None:
            yield Candidate(
                query=query, idea="kernel", changed={**composed.changed, option.role: option.kernel}
            )


def _judged(
    found: Sequence[Candidate], evidence: Evidence, known: Known, roles: Sequence[str]
) -> Iterator[Judged]:
    met = set()
    for one in found:
        key = (
            one.query.engine_version,
            repr(sorted(one.query.settings.items(), key=str)),
            repr(sorted(one.query.environment.items())),
        )
        if key in met:
            continue
        met.add(key)
        verdict = judge(one.query, evidence)
        if (
            verdict.verdict in BAD
            or candidates.fits(one.query.gpu_facts, one.query.entry, one.query) is False
        ):
            continue
        if not any(own.same(tried, one.query) and _only_failed(tried) for tried in evidence.tried):
            yield weigh(one, verdict, evidence.tried, known.serving, roles)


def _only_failed(tried: Any) -> bool:
    return any(own.failures(tried)) and not any(own.successes(tried))
