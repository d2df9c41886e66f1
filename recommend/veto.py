"""The verdict on a configuration: what is known against it, for it, and what would decide.

Owns how evidence is weighed: records, architecture requirements and own runs become findings; findings become
one verdict. Must not read files or ask the machine: evidence comes as a value. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from kb import EMPTY, versions
from kb.knowledge import whole
from kb.model import Tried
from kb.vocab.dialects import beyond_kernels
from kb.vocab.engines import ENGINES, role_names
from recommend import architectures, arithmetic, gated, own, remedy
from recommend.catalogued import refused
from recommend.findings import (
    TRUST,
    Finding,
    of_record,
    other_side,
    own_failure,
    own_success,
    run_row,
    trust_of,
)
from recommend.match import Matched, match, opens
from recommend.question import Query, Resolution
from recommend.requirements import unmet

__all__ = ["VERDICTS", "Evidence", "Finding", "Verdict", "judge"]

Json = Mapping[str, Any]
VERDICTS = ("known-bad", "disputed", "suspect", "known-good", "no-known-problem", "unknown")
_SEVERITY = (
    "crash",
    "refused",
    "oom",
    "hang",
    "wrong_output",
    "killed",
    "accuracy_loss",
    "slow",
    "unknown",
    "ok",
)


Pair = tuple[Json, Matched]


class Evidence(Protocol):
    """What a judgement needs of ``kb.evidence.Evidence``."""

    @property
    def records(self) -> Sequence[Json]: ...  # noqa: D102
    @property
    def tried(self) -> Sequence[Tried]: ...  # noqa: D102


class Verdict(NamedTuple):
    """The answer: one word, what it rests on (strongest first), what would decide, what was assumed.

    ``unproven`` names what goes beyond kernels (speculation …) and what works was not known to work with;
    ``unknown`` why there was nothing to judge.
    """

    verdict: str
    findings: tuple[Finding, ...] = ()
    missing: tuple[str, ...] = ()
    advice: tuple[Json, ...] = ()
    assumed: Mapping[str, str] = EMPTY
    resolved: Mapping[str, Resolution] = EMPTY
    unknown: tuple[str, ...] = ()
    unproven: tuple[str, ...] = ()
    fit: Json | None = None


def judge(query: Query, evidence: Evidence) -> Verdict:
    """Weigh everything that bears on a query."""
    estimate = arithmetic.fit(query)
    matched = _matched(query, evidence)
    findings = _findings(query, evidence, matched, estimate)
    verdict = _word(findings, query)
    missing = tuple(dict.fromkeys(one for found in findings for one in found.missing))
    return Verdict(
        verdict=verdict,
        findings=tuple(findings),
        missing=missing or _needed(query, verdict),
        advice=tuple(_advice(matched, query)),
        assumed=query.assumed,
        resolved=query.resolved,
        unproven=unproven(findings, query),
        fit=estimate,
    )


def findings_on(query: Query, evidence: Evidence) -> list[Finding]:
    """What is known about a query, strongest first, without what it adds up to."""
    return _findings(query, evidence, _matched(query, evidence), arithmetic.fit(query))


def _matched(query: Query, evidence: Evidence) -> list[Pair]:
    return [(whole(record), found) for record in evidence.records if (found := match(record, query))]


def _findings(
    query: Query, evidence: Evidence, matched: Sequence[Pair], estimate: dict[str, Any] | None
) -> list[Finding]:
    spoken = {
        name[6:] for _, found in matched if found.sure for name in found.met if name.startswith("roles.")
    }
    spoken |= {role for tried in evidence.tried for role in own.proven_roles(tried, query)}
    findings = [
        *_of_records(matched, query, evidence),
        *_of_runs(query, evidence),
        *refused(query),
        *arithmetic.too_large(query, estimate),
        *arithmetic.too_many_ranks(query),
    ]
    findings += architectures.unknown(query, findings)
    if all(found.verdict != "known-bad" for found in findings):
        findings += gated.refused(query, findings)
        findings += unmet(query, {one for role in spoken for one in role_names(role)}, findings)
    findings.sort(key=_strength)
    spoke = {record["id"] for record, _ in matched}
    others = [record for record in evidence.records if record["id"] not in spoke]
    return [_with_tested(found, query, others) for found in findings[:_TESTED]] + findings[_TESTED:]


def nothing_asked(why: str) -> Verdict:
    """The answer where there is no configuration to judge."""
    return Verdict(verdict="unknown", missing=("a launch command",), unknown=(why,))


def _with_tested(found: Finding, query: Query, others: Sequence[Json]) -> Finding:
    """The finding with remedies that are known-bad themselves put last and marked."""
    if found.verdict == "known-good" or "none" in found.instead:
        return found
    first = {key: value for key, value in found.instead.items() if key != "others"}
    options = [first, *(found.instead.get("others") or ())]
    return found._replace(instead=remedy.instead(remedy.tested(options, query, others)))


_TESTED = 3


def _strength(found: Finding) -> tuple[Any, ...]:
    return (
        VERDICTS.index(found.verdict),
        -TRUST.index(found.trust),
        _SEVERITY.index(found.effect) if found.effect in _SEVERITY else len(_SEVERITY),
        tuple(-one for one in found.weight),
        found.record,
    )


def _word(findings: Sequence[Finding], query: Query) -> str:
    words = {found.verdict for found in findings}
    word = next((one for one in VERDICTS if one in words), None)
    if word == "known-good" and not proven(findings, query):
        word = None
    sayable = query.arch and (query.engine or query.resolved or query.settings)
    return word or ("no-known-problem" if sayable else "unknown")


_OFF = (None, False, 1, "1", "", "none", "null", "false", "off")


def unproven(findings: Iterable[Finding], query: Query) -> tuple[str, ...]:
    """What goes beyond kernels in a question and is named by nothing that is known to work."""
    given = {key for key, value in {**query.settings, **query.common}.items() if value not in _OFF}
    good = [found for found in findings if found.verdict == "known-good"]
    told = {name.partition(".")[2] for found in good for name in found.applies_to.get("because") or ()}
    return tuple(
        name
        for name, keys in beyond_kernels(query.engine).items()
        if any(key.startswith(keys) for key in given) and not any(one.startswith(keys) for one in told)
    )


def proven(findings: Iterable[Finding], query: Query) -> bool:
    """Whether every kernel that the question chose is known to work, or this very configuration is."""
    good = [found for found in findings if found.verdict == "known-good"]
    named = {role for found in good for role in (found.applies_to.get("roles") or {})}
    works = {one for role in named for one in role_names(role)}
    chosen = {role for role, found in query.resolved.items() if found.by in ("said", "setting")}
    alike = chosen <= works and not unproven(good, query)
    return alike or any(found.kind == "own-run" for found in good)


def _needed(query: Query, verdict: str) -> tuple[str, ...]:
    """What an answer of "unknown" would need."""
    if verdict != "unknown":
        return ()
    wanted = (("the GPU (--gpu)", query.arch), ("the engine (--engine) or a role (--role)", query.engine))
    return tuple(name for name, known in wanted if not known)


def _of_records(matched: Sequence[Pair], query: Query, evidence: Evidence) -> Iterator[Finding]:
    good = [pair for pair in matched if pair[0]["good"] and pair[1].sure]
    for record, found in matched:
        if record["good"]:
            if found.sure:
                yield of_record(record, found, query, "known-good", other_side(record))
            continue
        if not _bears(record, found, query):
            continue
        trust = trust_of(record, inherited=found.inherited)
        conflicts = [
            *other_side(record),
            *_good_against((record, found), good, trust),
            *_own_against(record, query, evidence),
        ]
        word = _weigh(record, found, query, trust, disputed=bool(conflicts))
        yield of_record(record, found, query, word, conflicts)


def _weigh(record: Json, found: Matched, query: Query, trust: str, *, disputed: bool) -> str:
    """The word for a bad record that matches; one report about mere defaults does not condemn by itself."""
    if not found.sure:
        return "suspect"
    if disputed:
        return "disputed"
    weak = trust == "inferred" or (trust == "reported" and _by_default(record, found, query))
    return "suspect" if weak else "known-bad"


def _by_default(record: Json, found: Matched, query: Query) -> bool:
    """Whether the question neither chose a setting nor named a version that the record speaks of."""
    named = {*query.dependencies} | ({query.engine} if "engine_version" not in query.assumed else set())
    return not found.chosen and not named & set(record["ranges"])


def _bears(record: Json, found: Matched, query: Query) -> bool:
    """Whether a bad record that matches is a finding, and not only advice.

    Slowness of defaults is advice; so is one report whose trigger is a setting that everyone has by default.
    """
    if not found.sure:
        return _worth_suspecting(record, found)
    if not _by_default(record, found, query):
        return True
    if record["outcomes"][0]["effect"] == "slow":
        return False
    triggers = [name for name in found.met if name.partition(".")[0] in ("settings", "env")]
    return not triggers or trust_of(record, inherited=found.inherited) not in ("reported", "inferred")


def _worth_suspecting(record: Json, found: Matched) -> bool:
    """Whether an open match makes a question suspect.

    Not for a question that chose nothing the record speaks of, not for want of a word that would make it
    another question (which engine, which model), and not on weak evidence or for a version of a library that
    nobody named, when the newest one is free of it.
    """
    if (
        not found.chosen
        or len(found.missing) > 2
        or trust_of(record, inherited=found.inherited) == "inferred"
    ):
        return False
    libraries = {f"{name} version" for name in record["ranges"] if name not in ENGINES}
    effect = record["outcomes"][0]["effect"]
    if effect == "slow" and set(found.missing) <= libraries:
        return False  # a library that may be slower is no reason to turn a launch down
    unknown = any(one.startswith("the model's") for one in found.missing)
    if unknown and (len(found.missing) > 1 or effect in ("slow", "accuracy_loss")):
        return False  # of a model that the catalog does not know, in a release that may be free of it
    return not any(one in _OTHER_QUESTION for one in found.missing) and not _gone_by_now(record, found)


_OTHER_QUESTION = (
    "the engine",
    "the model",
    "the model's head_dim",
    "the GPU's product name",
    "which kind of fp8",
    "the weight quantization",
)


def _gone_by_now(record: Json, found: Matched) -> bool:
    """Whether an open version is of something that nobody named and whose newest version is free of it."""
    open_versions = [one.removesuffix(" version") for one in found.missing if one.endswith(" version")]
    return found.unlikely or any(
        name in found.unnamed and latest_is_free(record, name) for name in open_versions
    )


def latest_is_free(record: Json, component: str) -> bool:
    """Whether a record's last event of a component ends it."""
    rows = record["ranges"].get(component) or ()
    ends = [versions.breakpoints(row, component)[-1][1] for row in rows]
    return bool(ends) and all(end == "not-affected" for end in ends)


def _advice(matched: Sequence[Pair], query: Query) -> Iterator[Json]:
    """Records that would speak here if something unsaid were so."""
    for record, found in matched:
        if record["good"] or not (found.chosen or found.sure) or _bears(record, found, query):
            continue
        yield {
            "record": record["id"],
            "title": record["title"],
            "effect": record["outcomes"][0]["effect"],
            "if": list(opens(found, query)) or ["seen once with default settings, or only inferred"],
        }


def _good_against(bad: Pair, good: Sequence[Pair], trust: str) -> Iterator[Json]:
    """Records that say the same thing works: as specifically, or better proven than a mere inference."""
    roles = {name for name in bad[1].met if name.startswith("roles.")}
    for record, found in good:
        if not roles & set(found.met) or found.inherited:
            continue
        proven = trust == "inferred" and trust_of(record) == "confirmed"
        if proven or set(found.met) >= set(bad[1].met):
            yield {"ref": record["id"], "kind": "record", "side": "for", "conditions": record["title"]}


def _own_against(record: Json, query: Query, evidence: Evidence) -> Iterator[Json]:
    """Own runs that served although this record speaks of their configuration."""
    if record["outcomes"][0]["effect"] in ("slow", "accuracy_loss"):
        return
    for tried in evidence.tried:
        good = next(own.successes(tried), None)
        if (
            good
            and tried.hardware.arch == query.arch
            and (hit := match(record, own.as_query(tried)))
            and hit.sure
        ):
            yield run_row(tried, good.date, "for", "own run served with this configuration")
            return


def _of_runs(query: Query, evidence: Evidence) -> Iterator[Finding]:
    for tried in evidence.tried:
        exact = own.same(tried, query)
        for ending in own.failures(tried):
            roles = {} if exact else own.vetoes_role(tried, ending, query)
            if exact or roles:
                served = own.served_instead(evidence.tried, tried, query)
                yield own_failure(tried, ending, query, roles, served)
        if exact and (good := next(own.successes(tried), None)):
            yield own_success(tried, good.date, good.stage, query)
