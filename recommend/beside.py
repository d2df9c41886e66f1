"""What stands beside the picks: what not to run, what measured equal or elsewhere, what is open.

Owns the choice of those lines. Must not rank. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kb.model import Tried
from kb.vocab import options
from kb.vocab.dialects import dialect
from recommend import candidates, own
from recommend.advice import Avoided, Expected, Pick, Reason
from recommend.alike import alike_setups
from recommend.chance import EVEN
from recommend.expect import Known, writeups_on
from recommend.explore import DOUBTFUL, Bearing, Explored, remedied, word_of
from recommend.pick import said_aloud
from recommend.question import Query
from recommend.render.verdict import finding_json
from recommend.veto import Evidence, Finding, findings_on
from recommend.weigh import about

Json = Mapping[str, Any]
MOST_OWN = 5
ROUNDING = 1e-9
SHOWN_METRICS = ("output_tok_s", "ttft_ms", "tpot_ms")


def avoided(explored: Sequence[Explored], chosen: Sequence[str], question: Query) -> Iterator[Avoided]:
    """Alternatives that are known bad, suspect or disputed: first for the engines that were picked."""
    met: set[tuple[str, str]] = set()
    for each in sorted(explored, key=lambda each: each.engine not in chosen):
        found = _joined([*_of_runs(each), *_of_options(each, met), *_of_cache(each, met)])
        certain = [one for one in found if not _vague(one, question)]
        yield from sorted(certain, key=_urgency)


def _urgency(one: Avoided) -> tuple[bool, bool, int, int]:
    """What people try first: kernels before pairs of settings, suspicions last."""
    return one.verdict == "suspect", not one.roles, DOUBTFUL.index(one.verdict), len(one.settings)


def _vague(one: Avoided, question: Query) -> bool:
    """Whether an alternative is suspect only because the question leaves open the GPU or the model."""
    if one.verdict != "suspect":
        return False
    missing = one.finding.get("missing") or ()
    return question.arch is None or any(not name.endswith((" version", " has it")) for name in missing)


def _joined(found: Sequence[Avoided]) -> list[Avoided]:
    """One entry for a kernel that the same record speaks against in prefill and in decode."""
    entries: dict[tuple[object, ...], Avoided] = {}
    for place, one in enumerate(found):
        key = _subject(one) or (place,)
        before = entries.get(key)
        entries[key] = (
            one
            if before is None
            else before._replace(
                roles={**before.roles, **one.roles}, settings={**before.settings, **one.settings}
            )
        )
    return list(entries.values())


def _subject(one: Avoided) -> tuple[object, ...] | None:
    """What makes two entries one: record, kernel, and the role without its phase."""
    if len(one.roles) != 1:
        return None
    ((role, kernel),) = one.roles.items()
    name, _, phase = role.rpartition(".")
    if one.finding.get("kind") == "requirement":
        return one.finding["record"], kernel
    return (one.finding["record"], kernel, name) if phase in ("prefill", "decode") else None


def _of_runs(each: Explored) -> Iterator[Avoided]:
    """Own configurations of this model that only failed, by their own fault: the newest few."""
    worked = [one for one in each.ground.setups if one.works]
    failed = [
        one
        for one in each.ground.setups
        if one.fails and not one.works and not any(alike_setups(one, other) for other in worked)
    ]
    for one in sorted(failed, key=lambda one: one.tried.date or "", reverse=True)[:MOST_OWN]:
        told = findings_on(own.as_query(one.tried), Bearing((), (one.tried,)))
        worst = next((found for found in told if found.kind == "own-run" and found.verdict in DOUBTFUL), None)
        if worst is not None:
            yield Avoided(
                engine=each.engine,
                roles=dict(one.requested),
                settings=_chosen(one.tried, each.base),
                verdict=worst.verdict,
                finding=finding_json(worst),
            )


def _chosen(tried: Tried, base: Query) -> dict[str, Any]:
    """What its command asked for, without what the engine picks by itself on this GPU."""
    backend = tried.backend
    asked = {
        key: value for key, value in backend.settings.items() if candidates.asked_for(backend, key, value)
    }
    return dict(said_aloud(own.as_query(tried)._replace(settings=asked), base).settings)


def _of_options(each: Explored, met: set[tuple[str, str]]) -> Iterator[Avoided]:
    for option in each.options:
        if word_of(option.findings) not in DOUBTFUL:
            continue
        worst = next(found for found in option.findings if found.verdict in DOUBTFUL)
        key = (worst.record, f"{option.role} = {option.kernel}")
        if key in met:
            continue
        met.add(key)
        yield Avoided(
            engine=each.engine,
            roles={option.role: option.kernel},
            settings=_added(option.query, each.base),
            verdict=worst.verdict,
            finding=finding_json(remedied(option, worst)),
        )


def _added(query: Query, base: Query) -> dict[str, Any]:
    return {key: value for key, value in query.settings.items() if base.settings.get(key) != value}


def _of_cache(each: Explored, met: set[tuple[str, str]]) -> Iterator[Avoided]:
    """An 8-bit KV cache: what is known against it, with the settings that it takes for that to hold."""
    value = dialect(each.engine).get("fp8_kv")
    if value is None or each.base.kv_dtype is not None:
        return
    for record in each.evidence.records:
        for alternative in record["matches"]:
            asked = _as_asked(alternative["when"], value)
            if asked is None or record["good"] or _far_fetched(asked, each.base):
                continue
            query = candidates.vary(each.composed.query, asked)
            for found in findings_on(query, Bearing([record], ())):
                if found.verdict in DOUBTFUL and (found.record, "kv") not in met:
                    met.add((found.record, "kv"))
                    yield Avoided(
                        engine=each.engine,
                        roles={},
                        settings=_added(query, each.composed.query),
                        verdict=found.verdict,
                        finding=finding_json(found),
                    )


def _far_fetched(asked: Mapping[str, Any], base: Query) -> bool:
    """Whether nobody would ask for this here: attention that the model lacks, or no flag of the engine."""
    latent = base.entry is not None and {"mla", "dsa"} & set(base.entry.attention)
    if not latent and any("mla" in str(value).lower() for value in asked.values()):
        return True
    return any(options.option(base.engine or "", base.engine_version, key) is None for key in asked)


def _as_asked(when: Sequence[tuple[str, str | None, Json]], value: str) -> dict[str, Any] | None:
    """The settings that meet a record's conditions on cache and settings; ``None`` without FP8."""
    asked: dict[str, Any] = {}
    for name, key, condition in when:
        named = condition.get("any") or ()
        if name == "kv_dtype" and any("fp8" in str(one) for one in named):
            asked["kv_cache_dtype"] = value
        elif name == "settings" and key and named:
            asked[key] = named[0]
    return asked if asked.get("kv_cache_dtype") == value else None


def measured_elsewhere(question: Query, known: Known) -> Iterator[Expected]:
    """Points of write-ups on this architecture and model family, with what they leave unsaid."""
    for one in writeups_on(question, known.writeups):
        for metric in SHOWN_METRICS:
            value = (one.get("metrics") or {}).get(metric)
            if value:
                yield Expected(
                    metric=metric,
                    value=value,
                    low=value,
                    high=math.inf if "lower bound" in str(one.get("metrics_note")) else value,
                    level=0.0,
                    basis=_told(one),
                    evidence=(one["id"],),
                    date=one.get("date"),
                )


def _told(one: Json) -> str:
    load = one.get("workload") or {}
    flight = load.get("concurrency") or load.get("concurrency_text")
    trace = one.get("telemetry") or {}
    parts = [
        f"{one.get('count') or '?'}x {one.get('gpu')}",
        str(one.get("model")),
        f"{one.get('engine') or 'engine unknown'} {one.get('engine_version') or '(release unknown)'}",
        f"{flight} in flight" if flight else "load unknown",
        f"lengths {load.get('input_len') or 'unknown'}/{load.get('output_len') or 'unknown'}",
        f"date {one.get('date') or 'unknown'}",
        ", ".join(f"{role} = {kernel}" for role, kernel in (one.get("roles") or {}).items()),
        _trace(trace),
    ]
    return "; ".join(part for part in parts if part)


def _trace(trace: Json) -> str:
    if not trace:
        return ""
    busy = f"{trace.get('utilization_pct')} % utilisation"
    power = f"{trace.get('power_w')} of {trace.get('power_limit_w')} W"
    return f"{busy} at {power}, SM clock {trace.get('sm_clock_mhz')} of {trace.get('sm_clock_max_mhz')} MHz"


def measured_equal(question: Query, known: Known) -> Iterator[Reason]:
    """Kernels of one role that a write-up measured to be equal on this architecture."""
    by_id = {one["id"]: one for one in known.writeups}
    told = set()
    for one in known.writeups:
        for other in one.get("equal_to") or ():
            pair = tuple(sorted((one["id"], other)))
            if other in by_id and pair not in told and one.get("arch") == question.arch:
                told.add(pair)
                yield from _equal(one, by_id[other], pair)


def _equal(one: Json, other: Json, ids: tuple[str, ...]) -> Iterator[Reason]:
    roles, others = one.get("roles") or {}, other.get("roles") or {}
    for role, kernel in roles.items():
        if others.get(role) not in (kernel, None):
            value = (one.get("metrics") or {}).get("output_tok_s")
            yield Reason(
                f"{role} = {kernel} and {role} = {others[role]} measured equal (about {value} tok/s) on "
                f"{one.get('model')}, {one.get('gpu')}; release, date and lengths unknown.",
                ids,
            )


def equals(picks: Sequence[Pick]) -> tuple[Pick, ...]:
    """The picks, each told which others it cannot be told apart from, as far as own runs measured both."""
    found = []
    for index, pick in enumerate(picks):
        same = [
            rank + 1
            for rank, other in enumerate(picks)
            if rank != index and _measured(pick) and _measured(other) and _close(pick, other)
        ]
        found.append(pick._replace(equal_to=tuple(same)))
    return tuple(found)


def _measured(pick: Pick) -> bool:
    return pick.predicted is not None and "own measurement" in pick.predicted.basis


def _close(one: Pick, other: Pick) -> bool:
    """Whether two measured values differ by no more than the wider of their intervals allows."""
    if one.predicted is None or other.predicted is None:
        return False
    apart = abs(math.log(one.predicted.value / other.predicted.value))
    return apart <= max(_margin(one.predicted), _margin(other.predicted)) + ROUNDING


def _margin(found: Expected) -> float:
    return math.log(max(found.high / found.value, found.value / found.low))


def diagnosis(question: Query, evidence: Evidence, known: Known) -> Iterator[Reason]:
    """What traces of own runs (or of write-ups) showed, and what helps that condition."""
    rows: dict[str, list[str]] = {}
    for one in evidence.tried:
        if one.hardware.arch == question.arch and own.same_model(one, question):
            for condition in one.conditions:
                rows.setdefault(condition, []).extend(one.runs or (one.key,))
    for told in writeups_on(question, known.writeups):
        if (named := _condition(told.get("telemetry") or {})) is not None:
            rows.setdefault(named, []).append(told["id"])
    for condition, ids in rows.items():
        row = known.interventions.get(condition)
        if row:
            yield Reason(f"{row['what']} Try: {'; '.join(row['try'])}.", tuple(dict.fromkeys(ids))[:5])


def _condition(trace: Json) -> str | None:
    power, limit = trace.get("power_w"), trace.get("power_limit_w")
    busy = (trace.get("utilization_pct") or 0) >= 95
    return "busy-but-underfed" if busy and power and limit and power <= 0.6 * limit else None


def would_change(question: Query, picks: Sequence[Pick], assumed: Mapping[str, str]) -> Iterator[str]:
    """What to say or to run that could turn the advice."""
    if "engine_version" in {**question.assumed, **assumed} or (picks and not question.engine_version):
        yield "Name the installed release (--engine NAME==VERSION): findings and flags hold for ranges."
    if question.gpu_facts is None and question.arch:
        yield "Name the GPU product instead of its architecture: memory, bandwidth and power are then known."
    if "gpus" in assumed:
        yield "Say how many GPUs there are (--gpus N)."
    if picks and not any(pick.status == "proven-here" for pick in picks):
        yield "Run pick 1 once and ingest its log and benchmark: nothing was measured on this machine."
    for rank, pick in enumerate(picks, 1):
        if pick.teaches:
            yield f"Run pick {rank}: {pick.teaches}"


def abstained(question: Query, picks: Sequence[Pick], known: Known) -> str | None:
    """Why there is no number, or no pick at all."""
    if not picks:
        return "Every configuration that the catalogued engines can be asked for is known to fail here."
    if question.arch is None:
        return _nothing_known(question)
    if any(pick.predicted for pick in picks):
        return None
    if question.entry is None:
        return (
            f"No numbers: {question.model.name or 'the model'} is in no catalog, so its sizes are unknown. "
            "Cheapest experiment: start pick 1 and benchmark it once at your load."
        )
    if question.gpu_facts is None:
        return "No predicted numbers: an architecture alone has no bandwidth. Name the GPU product."
    return (
        "No numbers: sizes of this model or GPU are unknown."
        if known.model
        else "No numbers: no fitted model."
    )


def _nothing_known(question: Query) -> str:
    """Why nothing can be told of an unknown GPU, and what would end that for the least effort."""
    gpu = question.hardware.gpu or "the GPU"
    model = question.model.name or "the model"
    both = "" if question.entry else f", nor {model} among the models"
    return (
        f"{gpu} is not among the known GPUs{both}: no record, run or published number bears on it. "
        "Say its architecture (--gpu sm90, gfx942 …) if you know it; `--gpu auto` asks the driver. Else the "
        "cheapest experiment is to start what the engine picks by itself, untested, and to ingest its log: "
        "that tells the architecture and the kernels."
    )


def experiment(pick: Pick) -> Pick:
    """What an engine does by itself on a GPU of which nothing is known: a try, not an advice."""
    return pick._replace(
        status="untested",
        kind="explore",
        p_works=min(pick.p_works, EVEN),
        chance=None,
        predicted=None,
        measured=(),
        gain=None,
        teaches=f"whether {pick.engine} starts here at all, and which kernels it picks by itself.",
    )


def strongest(findings: Sequence[Finding], role: str) -> Finding | None:
    """The first (strongest) finding about a role."""
    return next((found for found in findings if about(found, role)), None)
