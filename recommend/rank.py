"""From a question and its evidence to a recommendation: veto, chance × expected metric, diversity.

Owns the order of picks and what goes into ``avoid``. A pure function: records, own runs, the fitted model and
public tables come as arguments; no clock, no files, no database.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence

from kb.vocab import engines, gpus
from kb.vocab.gpus import Gpu
from recommend import beside, candidates, policy, why
from recommend.advice import Pick, Recommendation
from recommend.expect import Known, Outlook, neighbours, noise, outlook
from recommend.explore import Explored, explore
from recommend.physics import Load, weight_bytes_per_gpu
from recommend.query import Asked, Query, ask
from recommend.render.verdict import query_json
from recommend.veto import Evidence
from recommend.weigh import Judged

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
# Of equal candidates: what ran, then what says its kernels out loud.
_IDEAS = ("own", "composed", "auto", "kernel", "layout", "kv")
# What repeating a chosen pick costs, in log units of worth.
SAMENESS = 0.5
# How far predicted differences between candidates are taken at their word, by what the regression had seen.
RELIANCE = {"same": 1.0, "new-gpu": 0.7, "new-model": 0.7, "new-both": 0.4}
DEFAULT_LOAD = Load(input_len=1024, output_len=1024, concurrency=64)
BENCHMARK_MIN = 5.0
START_MIN = 3.0
LOAD_GIB_PER_MIN = 60.0


def recommend(asked: Asked, evidence: Evidence, known: Known, top: int = 3) -> Recommendation:
    """What to run next for a question, why, what to expect, and what not to run."""
    question = ask(asked)
    assumed: dict[str, str] = {}
    count = _count(question, assumed)
    load = _load(question, assumed)
    near = neighbours(question.gpu_facts, question.entry, load, known)
    explored = [
        explore(candidates.base(asked, engine, count), evidence, known)
        for engine in candidates.engines_for(asked, question.quantization)
    ]
    judged = [one for each in explored for one in each.judged]
    seen = {id(one): outlook(one.candidate.query, load, known, one.runs, near) for one in judged}
    ordered = sorted(
        judged, key=lambda one: (-_worth(one, seen[id(one)], question.goal), _IDEAS.index(one.candidate.idea))
    )
    chosen = diverse(ordered, [_worth(one, seen[id(one)], question.goal) for one in ordered], top)
    roles = {each.engine: each for each in explored}
    picks = tuple(
        _pick(one, seen[id(one)], roles[one.candidate.query.engine or ""], question, known) for one in chosen
    )
    picks = beside.equals(picks, noise(known))
    return Recommendation(
        query={
            **query_json(question),
            "gpus": count,
            "workload": workload(load),
            "goal": question.goal or "throughput",
        },
        assumed={**question.assumed, **_engine_assumed(question, chosen), **assumed},
        unknown=question.unknown,
        picks=picks,
        avoid=tuple(beside.avoided(explored, [pick.engine for pick in picks], evidence)),
        equal=tuple(beside.measured_equal(question, known)),
        measured=tuple(beside.measured_elsewhere(question, known)),
        diagnosis=tuple(beside.diagnosis(question, evidence, known)),
        abstained=beside.abstained(question, picks, known),
        would_change_this=tuple(beside.would_change(question, picks, assumed)),
    )


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


def _engine_assumed(question: Query, chosen: Sequence[Judged]) -> dict[str, str]:
    """The releases that were assumed, per picked engine, where the question named none."""
    if question.engine or not chosen:
        return {}
    told = [one.candidate.query.assumed.get("engine_version") for one in chosen]
    return {"engine_version": "; ".join(dict.fromkeys(text for text in told if text))}


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


def _worth(judged: Judged, seen: Outlook, goal: str | None) -> float:
    """Log of the value times the chance: throughput as it is, latencies turned over."""
    value = seen.log_values.get("output_tok_s", 0.0)
    if goal == "latency" and "ttft_ms" in seen.log_values:
        value = -seen.log_values["ttft_ms"]
    elif goal == "interactivity" and "tpot_ms" in seen.log_values:
        value = -seen.log_values["tpot_ms"]
    elif goal == "cost":
        value -= math.log(judged.candidate.query.hardware.count or 1)
    trust = 1.0 if judged.runs else RELIANCE[seen.novelty]
    return trust * value + 2 * math.log(judged.p_works)


def diverse(ordered: Sequence[Judged], worth: Sequence[float], top: int) -> list[Judged]:
    """The best, then each time the one that is worth most after what it repeats of the chosen ones."""
    chosen: list[Judged] = []
    left = list(zip(ordered, worth, strict=True))
    while left and len(chosen) < top:
        costs = [
            value - SAMENESS * max((alike(one, other) for other in chosen), default=0.0)
            for one, value in left
        ]
        one, _ = left.pop(max(range(len(left)), key=costs.__getitem__))
        if all(alike(one, other) < 1 for other in chosen):
            chosen.append(one)
    return chosen


def alike(one: Judged, other: Judged) -> float:
    """How much of one pick repeats another: engine, kernels and layout (1 is the same)."""
    mine, others = one.candidate.query, other.candidate.query
    close = policy.similarity(_choice(mine), _choice(others))
    return close if mine.engine != others.engine else (1 + close) / 2


def _choice(query: Query) -> dict[str, str | float]:
    sizes = {
        key: float(query.common[key])
        for key in ("tp", "ep", "dp", "pp")
        if isinstance(query.common.get(key), int)
    }
    rest = {key: str(query.common[key]) for key in ("kv_dtype", "speculation") if query.common.get(key)}
    kernels = {f"role:{role}": kernel for role, kernel in _kernels(query).items()}
    return {"engine": query.engine or "", "version": query.engine_version or "", **sizes, **rest, **kernels}


def _kernels(query: Query) -> dict[str, str]:
    return {role: found.kernel for role, found in query.resolved.items()}


def _pick(judged: Judged, seen: Outlook, explored: Explored, question: Query, known: Known) -> Pick:
    query = judged.candidate.query
    argv = engines.render_command(
        query.engine or "",
        query.engine_version,
        model_name(question),
        query.settings,
        query.environment,
        query.hardware.count,
    )
    against = {
        role: [(one.kernel, found) for one in explored.options if one.role == role for found in one.findings]
        for role in explored.roles
    }
    return Pick(
        engine=query.engine or "",
        engine_version=query.engine_version,
        roles=_kernels(query),
        resolved_by={role: found.by for role, found in query.resolved.items()},
        settings=query.settings,
        environment=query.environment,
        argv=argv,
        command=command(argv),
        status=judged.status,
        p_works=judged.p_works,
        predicted=seen.shown.get("output_tok_s") if question.gpu_facts or judged.runs else None,
        measured=tuple(seen.shown[name] for name in ("ttft_ms", "tpot_ms") if name in seen.shown),
        why=why.reasons(judged, against, explored.roles),
        verify=why.verify(query, known.proofs, explored.roles),
        cost_min=cost_min(query),
        gain=None,
        kind="exploit" if judged.status.startswith("proven") else "explore",
    )


def command(argv: Sequence[str]) -> str:
    """Words as one shell line; assignments before the program stay unquoted on their left side."""
    program = next((place for place, word in enumerate(argv) if not _ASSIGNMENT.match(word)), len(argv))
    assigned = [
        f"{name}={shlex.quote(value)}" for name, _, value in (word.partition("=") for word in argv[:program])
    ]
    return " ".join([*assigned, shlex.join(argv[program:])])


def model_name(question: Query) -> str:
    """The checkpoint to name in a command: as asked where it is a path or id, else a hub id of the entry."""
    name, entry = question.model.name or "MODEL", question.entry
    if "/" in name or entry is None:
        return name
    for hub_id, method in entry.quantized.items():
        if method == question.quantization:
            return hub_id
    return entry.hub_ids[0] if entry.hub_ids and question.quantization == entry.base_precision else name


def cost_min(query: Query) -> float:
    """Minutes for one try: start, weights at the usual rate of local disks, warm-up, one benchmark."""
    if query.entry is None or not query.entry.params_total_b:
        return START_MIN + BENCHMARK_MIN
    layout = candidates.layout_for(query, query.entry)
    total = weight_bytes_per_gpu(query.entry, layout) * layout.gpus / 2**30
    return START_MIN + total / LOAD_GIB_PER_MIN + BENCHMARK_MIN
