"""From a question and its evidence to a recommendation: veto, chance × expected metric, diversity.

Owns the order of picks and what goes into ``avoid``. A pure function: records, own runs, the fitted model and
public tables come as arguments; no clock, no files, no database.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from kb.vocab import gpus
from kb.vocab.gpus import Gpu
from recommend import beside, candidates, limits, policy
from recommend.advice import Recommendation
from recommend.expect import Known, Near, Outlook, neighbours, outlook
from recommend.explore import explore, variants
from recommend.physics import Load
from recommend.pick import Prospect, kernels_of, pick
from recommend.query import Query
from recommend.render.verdict import query_json
from recommend.veto import Evidence
from recommend.weigh import Judged, is_suspect

# Of equal candidates: what ran, then what says its kernels out loud.
_IDEAS = ("own", "composed", "auto", "kernel", "layout", "kv")
# What repeating a chosen pick costs, in log units of worth.
SAMENESS = 0.5
# How far predicted differences between candidates are taken at their word, by what the regression had seen.
RELIANCE = {"same": 1.0, "new-gpu": 0.7, "new-model": 0.7, "new-both": 0.4}
DEFAULT_LOAD = Load(input_len=1024, output_len=1024, concurrency=64)


def recommend(question: Query, evidence: Evidence, known: Known, top: int = 3) -> Recommendation:
    """What to run next for a question, why, what to expect, and what not to run."""
    assumed: dict[str, str] = {}
    count = _count(question, assumed)
    load = _load(question, assumed)
    near = neighbours(question.gpu_facts, question.entry, load, known)
    engines = [
        installed(engine, question, evidence, assumed)
        for engine in candidates.engines_for(question, evidence.tried, known.serving)
    ]
    explored = [explore(candidates.base(question, engine, count), evidence, known) for engine in engines]
    prospects = [_prospect(one, load, known, near, question) for each in explored for one in each.judged]
    if prospects:
        first = max(prospects, key=lambda one: one.worth).query.engine
        more = [
            one for each in explored if each.engine == first for one in variants(each, 1 if top <= 3 else 3)
        ]
        prospects += [_prospect(one, load, known, near, question) for one in more]
    prospects = _sound(prospects, question)
    prospects.sort(key=lambda one: (-one.worth, _IDEAS.index(one.judged.candidate.idea)))
    chosen = diverse(prospects, top if question.arch else 1)
    of_engine = {each.engine: each for each in explored}
    best = best_so_far(prospects, load)
    picks = tuple(pick(one, of_engine[one.query.engine or ""], question, known, best) for one in chosen)
    picks = beside.equals(picks) if question.arch else tuple(beside.experiment(one) for one in picks)
    return Recommendation(
        query={
            **query_json(question),
            "gpus": count,
            "workload": workload(load),
            "goal": question.goal or "throughput",
            "limits": dict(question.limits),
        },
        assumed={**question.assumed, **_engine_assumed(question, chosen), **assumed},
        unknown=question.unknown,
        picks=picks,
        avoid=tuple(beside.avoided(explored, [pick.engine for pick in picks], question)),
        equal=tuple(beside.measured_equal(question, known)),
        measured=tuple(beside.measured_elsewhere(question, known)),
        diagnosis=tuple(beside.diagnosis(question, evidence, known)),
        abstained=beside.abstained(question, picks, known),
        would_change_this=(
            *limits.advice([one.limits for one in chosen], question.gpu_facts, count),
            *beside.would_change(question, picks, assumed),
        ),
    )


def _sound(prospects: list[Prospect], question: Query) -> list[Prospect]:
    """Those worth proposing: nothing suspect while anything else is left, no choices for an unknown GPU."""
    if question.arch is None:
        return [one for one in prospects if one.judged.candidate.idea == "auto"]
    return [one for one in prospects if not is_suspect(one.judged)] or [
        one for one in prospects if one.judged.candidate.idea in ("auto", "own")
    ]


def _count(question: Query, assumed: dict[str, str]) -> int | None:
    if question.hardware.count:
        return question.hardware.count
    gpu = question.gpu_facts or largest(question.arch)
    count = candidates.fitting_count(gpu, question.entry, question.quantization)
    if count is None or gpu is None:
        assumed["gpus"] = "1 (not said, and sizes are unknown)"
        return None
    sized = (
        "" if question.gpu_facts else f" if they are {gpu.name}: {question.arch} alone says nothing of memory"
    )
    assumed["gpus"] = f"{count} (the fewest that hold the weights with room for a cache{sized})"
    return count


def _engine_assumed(question: Query, chosen: Sequence[Prospect]) -> dict[str, str]:
    """The releases that were assumed, per picked engine, where the question named none."""
    if question.engine or not chosen:
        return {}
    told = [one.query.assumed.get("engine_version") for one in chosen]
    known = "; ".join(dict.fromkeys(text for text in told if text))
    return {"engine_version": known} if known else {}


def installed(engine: str, question: Query, evidence: Evidence, assumed: dict[str, str]) -> str:
    """The engine with the release that ran here last, where the question names none."""
    if "==" in engine:
        return engine
    release = candidates.release_here(evidence.tried, engine, question.arch)
    if release is None:
        return engine
    assumed[f"{engine} release"] = f"{release} (it ran here last)"
    return f"{engine}=={release}"


def largest(arch: str | None) -> Gpu | None:
    """The product of an architecture with the most memory."""
    known = [gpu for gpu in gpus.gpus_of_arch(arch or "") if gpu.memory_gib]
    return max(known, key=lambda gpu: (gpu.memory_gib or 0.0, gpu.name)) if known else None


def _load(question: Query, assumed: dict[str, str]) -> Load:
    given = question.workload
    defaults = {
        "input_len": DEFAULT_LOAD.input_len,
        "output_len": DEFAULT_LOAD.output_len,
        "concurrency": DEFAULT_LOAD.concurrency,
    }
    if question.goal in ("latency", "interactivity"):
        defaults["concurrency"] = 1
    values = {}
    for name, default in defaults.items():
        value = given.get(name)
        values[name] = int(value) if isinstance(value, int | float) and value >= 1 else default
        if values[name] != value:
            assumed[name] = f"{default} (not said)"
    return Load(**values)


def workload(load: Load) -> dict[str, int]:
    """The load as JSON."""
    return {"input_len": load.input_len, "output_len": load.output_len, "concurrency": load.concurrency}


def _prospect(judged: Judged, load: Load, known: Known, near: Sequence[Near], question: Query) -> Prospect:
    query = judged.candidate.query
    seen = outlook(query, load, known, judged.runs, near)
    kept = limits.kept(question.limits, seen, load, query.gpu_facts, query.hardware.count)
    return Prospect(judged, seen, _worth(judged, seen, load, question) + limits.log_chance(kept), kept)


def _worth(judged: Judged, seen: Outlook, load: Load, question: Query) -> float:
    """Log of the value times the chance: throughput as it is, latencies turned over."""
    value = _value(seen, load, question.goal)
    if question.goal == "cost":
        value -= math.log(judged.candidate.query.hardware.count or 1)
    trust = 1.0 if judged.runs else RELIANCE[seen.novelty]
    return float(trust * value + 2 * math.log(judged.p_works))


def _value(seen: Outlook, load: Load, goal: str | None) -> float:
    if goal == "latency" and {"ttft_ms", "tpot_ms"} <= seen.log_values.keys():
        return -math.log(
            math.exp(seen.log_values["ttft_ms"]) + load.output_len * math.exp(seen.log_values["tpot_ms"])
        )
    if goal == "interactivity" and "tpot_ms" in seen.log_values:
        return -seen.log_values["tpot_ms"]
    return seen.log_values.get("output_tok_s", 0.0)


def best_so_far(prospects: Sequence[Prospect], load: Load) -> float | None:
    """The log of the best own throughput at this load, or ``None`` where nothing was measured."""
    values = [
        math.log(point.metrics["output_tok_s"])
        for one in prospects
        for tried in one.judged.runs
        for point in tried.points
        if point.metrics.get("output_tok_s") and point.workload.get("concurrency") == load.concurrency
    ]
    return max(values, default=None)


def diverse(ordered: Sequence[Prospect], top: int) -> list[Prospect]:
    """The best, then each time the one that is worth most after what it repeats of the chosen ones."""
    chosen: list[Prospect] = []
    left = list(ordered)
    while left and len(chosen) < top:
        costs = [
            one.worth - SAMENESS * max((alike(one, other) for other in chosen), default=0.0) for one in left
        ]
        one = left.pop(max(range(len(left)), key=costs.__getitem__))
        if all(alike(one, other) < 1 for other in chosen):
            chosen.append(one)
    return chosen


def alike(one: Prospect, other: Prospect) -> float:
    """How much of one pick repeats another: engine, kernels and layout (1 is the same)."""
    close = policy.similarity(_choice(one.query), _choice(other.query))
    return close if one.query.engine != other.query.engine else (1 + close) / 2


def _choice(query: Query) -> dict[str, str | float]:
    sizes = {
        key: float(query.common[key])
        for key in ("tp", "ep", "dp", "pp")
        if isinstance(query.common.get(key), int)
    }
    rest = {key: str(query.common[key]) for key in ("kv_dtype", "speculation") if query.common.get(key)}
    kernels = {f"role:{role}": kernel for role, kernel in kernels_of(query).items()}
    return {"engine": query.engine or "", "version": query.engine_version or "", **sizes, **rest, **kernels}
