"""What one engine offers for a question: every kernel of every role judged, and the configurations left.

Owns the veto: what is known to be bad, failed here by its own fault, or does not fit is dropped. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kb.model import Tried
from recommend import alike, candidates, chance, own
from recommend.advice import Reason
from recommend.alike import Setup
from recommend.candidates import Candidate
from recommend.expect import Known, writeups_on
from recommend.match import about_engine, settled
from recommend.query import Query
from recommend.veto import Evidence, Finding, Verdict, findings_on, judge
from recommend.weigh import Ground, Judged, about, answered, published_here, weigh

BAD = ("known-bad",)
MOST_REPAIRS = 4
# Kernels of a role that no record speaks of: how many are worth proposing.
MOST_SILENT = 3
MOST_SPEAKING = 40
# What is not worth a pick of its own: the chance is worse than of leaving the role alone.
NEVER_ALONE = ("known-bad", "suspect")
DOUBTFUL = ("known-bad", "disputed", "suspect")


class Option(NamedTuple):
    """One kernel for one role, judged: what the engine would be asked and what is known of that."""

    role: str
    kernel: str
    query: Query
    findings: tuple[Finding, ...]
    evidence: Evidence


class Explored(NamedTuple):
    """What one engine offers: judged candidates, every option of every role, its roles.

    ``settable`` are the roles that the model is known to have.
    """

    engine: str
    base: Query
    composed: Candidate
    judged: tuple[Judged, ...]
    options: tuple[Option, ...]
    roles: tuple[str, ...]
    settable: tuple[str, ...]
    evidence: Evidence
    ground: Ground


def explore(base: Query, evidence: Evidence, known: Known) -> Explored:
    """Judge what one engine does by itself, its best composition and what ran here; drop the known bad."""
    roles = candidates.roles_in_use(base, evidence.tried)
    own_runs = evidence.tried
    setups = alike.setups(base, own_runs)
    evidence = speaking(_of_engine(evidence, base, roles))
    options = tuple(_options(base, roles, evidence))
    ground = _ground(base, roles, options, setups, known)._replace(
        near=chance.Near(hazards(known), base.arch, own_runs)
    )
    light = Judge(unremedied(evidence))
    mended, because = repaired(base, evidence, light)
    settable = candidates.roles_to_set(base, roles, own_runs)
    composed = compose(base, settable, options, evidence, light)
    found = [Candidate(query=mended, idea="auto", because=because), composed]
    found += [composed._replace(query=query, idea=idea) for idea, query in candidates.layouts(composed.query)]
    found += candidates.own(base, setups)
    return Explored(
        engine=base.engine or "",
        base=base,
        composed=composed,
        judged=tuple(_judged(found, light, ground)),
        options=options,
        roles=roles,
        settable=settable,
        evidence=evidence,
        ground=ground,
    )


def variants(explored: Explored, per_role: int) -> tuple[Judged, ...]:
    """The composition of one engine with one other kernel each, judged."""
    options = [one for one in explored.options if one.role in explored.settable]
    found = _one_changed(explored.composed, options, per_role)
    return tuple(_judged(found, Judge(unremedied(explored.evidence)), explored.ground))


class Bearing(NamedTuple):
    """Evidence without the records that can say nothing about any candidate of one engine."""

    records: Sequence[Mapping[str, Any]]
    tried: Sequence[Tried]


def _of_engine(evidence: Evidence, base: Query, roles: Sequence[str]) -> Evidence:
    """The records that some candidate of this engine can meet, each with the alternatives that it can meet.

    Versions, hardware and model are the same for all of them, and so are the roles that there is work for.
    """
    named = {*roles, *base.resolved}
    named |= {role.partition(".")[0] for role in named}
    kept = []
    for record in evidence.records:
        if not about_engine(record, base.engine):
            continue
        matches = [one for one in record["matches"] if _roles_of(one) <= named]
        if matches and (found := settled({**record, "matches": matches}, base)):
            kept.append(found)
    return Bearing(kept, evidence.tried)


def _roles_of(alternative: Mapping[str, Any]) -> set[str]:
    return {key for name, key, _ in alternative["when"] if name == "roles"}


def speaking(evidence: Evidence) -> Evidence:
    """Of the own runs those that say something beyond their own configuration.

    Failures of a kernel-level class, and for each set of kernels one run that served. Whether this very
    configuration ran is answered by ``alike``.
    """
    kept: list[Tried] = []
    met: set[str] = set()
    for one in evidence.tried:
        backend = one.backend
        served = any(own.successes(one))
        said = any(ending.signature in own.KERNEL_LEVEL for ending in own.failures(one))
        kernels = repr(
            (served, backend.engine, sorted(backend.requested.items()), sorted(backend.resolved.items()))
        )
        if (served or said) and kernels not in met:
            met.add(kernels)
            kept.append(one)
    return Bearing(evidence.records, kept[:MOST_SPEAKING])


class Judge:
    """Verdicts from one engine's evidence, each made once: the base is asked about again and again."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._made: dict[int, tuple[Query, Verdict]] = {}

    def __call__(self, query: Query) -> Verdict:
        """The verdict on a query."""
        if id(query) not in self._made:  # its query is kept with it, so that the id stays its own
            self._made[id(query)] = query, judge(query, self._evidence)
        return self._made[id(query)][1]


def unremedied(evidence: Evidence) -> Evidence:
    """Evidence whose findings name no remedies: to be rendered and tested only for what is shown."""
    return Bearing([{**record, "instead": ()} for record in evidence.records], evidence.tried)


def _options(base: Query, roles: Sequence[str], evidence: Evidence) -> Iterator[Option]:
    """Every kernel that a record speaks of, and the first few that none does, per role."""
    failed = [one for one in evidence.tried if any(own.failures(one))]
    for role in roles:
        records = [record for record in evidence.records if _names(record, role)]
        spoken = {kernel for record in records for kernel in kernels_named(record, role)}
        light = unremedied(Bearing(records, failed))
        for kernel in _worth_asking(role, spoken):
            query = candidates.asking(base, role, kernel)
            if query is not None:
                said = tuple(found for found in findings_on(query, light) if about(found, role))
                yield Option(role, kernel, query, said, Bearing(records, failed))


def _worth_asking(role: str, spoken: set[str]) -> Iterator[str]:
    silent = 0
    for kernel in candidates.kernels_of(role):
        silent += kernel not in spoken
        if kernel in spoken or silent <= MOST_SILENT:
            yield kernel


def remedied(option: Option, found: Finding) -> Finding:
    """A finding about an option with its remedies."""
    source = [record for record in option.evidence.records if record["id"] == found.record]
    full = findings_on(option.query, Bearing(source, ())) if source else ()
    instead = next((one.instead for one in full if one.record == found.record), found.instead)
    return found._replace(instead=instead)


def _names(record: Mapping[str, Any], role: str) -> bool:
    return any(True for _ in _role_rows(record, role))


def kernels_named(record: Mapping[str, Any], role: str) -> Iterator[str]:
    """The kernels that a record names in a role."""
    for condition in _role_rows(record, role):
        yield from condition.get("any") or ()


def _role_rows(record: Mapping[str, Any], role: str) -> Iterator[Mapping[str, Any]]:
    for one in record["matches"]:
        for name, key, condition in one["when"]:
            if name == "roles" and key in (role, role.partition(".")[0]):
                yield condition


def word_of(findings: Sequence[Finding]) -> str:
    """The strongest verdict of findings about one role; answered suspicions do not count."""
    words = {found.verdict for found in findings if not answered(found, findings)}
    return next((word for word in (*DOUBTFUL, "known-good") if word in words), "no-known-problem")


_PREFERENCE = ("known-good", "no-known-problem", "suspect", "disputed", "known-bad")


def compose(
    base: Query, roles: Sequence[str], options: Sequence[Option], evidence: Evidence, light: Judge
) -> Candidate:
    """The base with kernels set by hand where the engine's own choice is worse, unknown or fragile."""
    query = base
    changed: dict[str, str] = {}
    by_itself = light(base).findings
    for role in roles:
        offered = [one for one in options if one.role == role]
        kernel = _pinned(base.kernel(role), [found for found in by_itself if about(found, role)], offered)
        step = candidates.with_kernel(query, role, kernel) if kernel else None
        if step is not None and kernel is not None:
            query, changed = step, {**changed, role: kernel}
    query, because = repaired(query, evidence, light)
    return Candidate(query=query, idea="composed", changed=changed, because=because)


def repaired(query: Query, evidence: Evidence, light: Judge) -> tuple[Query, tuple[Reason, ...]]:
    """The query with the remedies of what is known bad about it, and why each was put in."""
    because: list[Reason] = []
    for _ in range(MOST_REPAIRS):
        if not _bad_records(query, light):
            break
        bad = [found for found in findings_on(query, evidence) if found.verdict in BAD]
        for found in bad:
            step = _remedied(query, found)
            if step is not None and found.record not in _bad_records(step, light):
                because.append(
                    Reason(f"{_difference(query, step)}: {found.title.rstrip('.')}.", (found.record,))
                )
                query = step
                break
        else:
            break
    return query, tuple(because)


def _difference(before: Query, after: Query) -> str:
    settings = [
        f"{key} = {value}" for key, value in after.settings.items() if before.settings.get(key) != value
    ]
    added = [
        f"{key}={value}" for key, value in after.environment.items() if before.environment.get(key) != value
    ]
    return ", ".join([*settings, *added])


def _remedied(query: Query, found: Finding) -> Query | None:
    for one in (found.instead, *(found.instead.get("others") or ())):
        if one.get("settings") or one.get("environment"):
            return candidates.vary(query, one.get("settings") or {}, one.get("environment") or {})
    return None


def _bad_records(query: Query, light: Judge) -> set[str]:
    return {found.record for found in light(query).findings if found.verdict in BAD}


def _pinned(current: str | None, now: Sequence[Finding], offered: Sequence[Option]) -> str | None:
    """The kernel to set by hand, or ``None`` to leave the role to the engine."""
    if not offered:
        return None
    words = {one.kernel: word_of(one.findings) for one in offered}
    best = min(words, key=lambda kernel: (_PREFERENCE.index(words[kernel]), kernel != current))
    if _PREFERENCE.index(words[best]) < _PREFERENCE.index(word_of(now)) or (
        current is None and words[best] == "known-good"
    ):
        return best
    # What is bad here is one default away in another release: say the good one out loud.
    traps = any(word == "known-bad" for kernel, word in words.items() if kernel != current)
    return current if traps and current in words and words[current] == "known-good" else None


def _one_changed(composed: Candidate, options: Sequence[Option], per_role: int) -> Iterator[Candidate]:
    """The composition with one other kernel: per role those that most is known for."""
    others = [one for one in options if composed.query.kernel(one.role) != one.kernel]
    others = [one for one in others if word_of(one.findings) not in NEVER_ALONE]
    for role in dict.fromkeys(one.role for one in others):
        ranked = sorted(
            (one for one in others if one.role == role),
            key=lambda one: _PREFERENCE.index(word_of(one.findings)),
        )
        for option in ranked[:per_role]:
            query = candidates.with_kernel(composed.query, option.role, option.kernel)
            if query is None:
                continue
            yield Candidate(
                query=query,
                idea="kernel",
                changed={**composed.changed, option.role: option.kernel},
                because=composed.because,
            )


def _ground(
    base: Query, roles: Sequence[str], options: Sequence[Option], setups: Sequence[Setup], known: Known
) -> Ground:
    return Ground(
        base=base,
        roles=roles,
        trapped=tuple(dict.fromkeys(one.role for one in options if word_of(one.findings) in BAD)),
        setups=setups,
        points=tuple(published_here(base, known.serving)),
        writeups=tuple(one for one in writeups_on(base, known.writeups) if one.get("engine") == base.engine),
        model=hazards(known),
        surroundings=chance.surroundings(base),
    )


def hazards(known: Known) -> Mapping[str, Any] | None:
    """The fitted coefficients of the chance, if there is a model."""
    return (known.model or {}).get("chance")


def _judged(found: Iterable[Candidate], light: Judge, ground: Ground) -> Iterator[Judged]:
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
        verdict = light(one.query)
        if (
            verdict.verdict in BAD
            or candidates.fits(one.query.gpu_facts, one.query.entry, one.query) is False
        ):
            continue
        if not alike.only_failed(one.query, ground.setups):
            yield weigh(one, verdict, ground)
