"""The replay's tasks that are not serving: kernels on an architecture never seen, and tuning spaces.

Owns these tasks of ``bench_replay.py``: MoE kernels on SM120, attention kernels on each architecture, tuning.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from splits import ATTENTION_WHERE, MOE_WHERE, attention_rows, frozen, moe_rows, peers_on, tuner_contexts

from kb.model import Hardware
from recommend.baselines import most_frequent_best
from recommend.policy import worth
from recommend.question import Query, Resolution
from recommend.ranker import Ranker
from recommend.replay import Context, Played, Trial, by_order, play, playable
from recommend.requirements import unmet
from recommend.table import Columns, contexts, encode
from recommend.trialrun import Advisor, replay, report

SM120 = "rtx_pro_6000_server"
# Cards that are hidden alone: another one of their generation stays known.
WITH_SIBLING = ("h200_sxm", "b300_sxm")


def moe(freeze: bool) -> dict[str, Any]:
    """MoE kernel on SM120, SM120 hidden, equal weight type: slowdown of the first choice."""
    columns = Columns(
        context=MOE_WHERE, choice=("engine", "source"), outcome="latency", group=("hw",), minimize=True
    )
    found = playable(contexts(moe_rows(SM120, 0.35, 0.12), columns))
    asked = [one for one in found if one.group == (SM120,)]
    frozen(
        "moe",
        asked,
        "SM120 hidden; equal shape, dtype, parallel sizes and tokens; 35 % by hash",
        freeze=freeze,
    )
    known = [one for one in found if one.group != (SM120,)]
    ranker = Ranker(known, near=asked[0])
    told = _held_against(ranker, known, asked)
    told["proposals_sm120_lacks"] = impossible_proposals(ranker, known, asked)
    return told


def attention(freeze: bool) -> dict[str, Any]:
    """Attention kernel on each architecture, all of it hidden; then on cards with a known sibling."""
    columns = Columns(
        context=ATTENTION_WHERE,
        choice=("engine", "kernel"),
        outcome="latency",
        group=("generation",),
        minimize=True,
    )
    found = playable(contexts(attention_rows(0.25), columns))
    frozen(
        "attention",
        found,
        "one architecture hidden at a time; equal phase, heads, cache type, batch, length; 25 % by hash",
        freeze=freeze,
    )
    told = {}
    for hidden in (*sorted({one.group[0] for one in found}), *WITH_SIBLING):
        asked = [one for one in found if hidden in (one.group[0], one.key[0])]
        known = [one for one in found if hidden not in (one.group[0], one.key[0])]
        told[hidden] = _held_against(Ranker(known, near=asked[0]), known, asked)
    return told


def _held_against(ranker: Ranker, known: Sequence[Context], asked: Sequence[Context]) -> dict[str, Any]:
    """Slowdown of the first choice of the recommender, and of what never looks at the context."""
    policies: dict[str, Any] = {
        "recommender": Advisor(ranker, asked),
        "best constant": by_order(_least_mean_gap(known)),
        "most frequent best": by_order(most_frequent_best(known)),
    }
    told: dict[str, Any] = {"contexts": len(asked), "random": _slowdown_at_random(asked)}
    for name, chooser in policies.items():
        plays = [play(one, chooser) for one in asked]
        told[name] = {half: _slowdown(plays, half) for half in ("choose", "report", "all")}
    return told


def _least_mean_gap(known: Sequence[Context]) -> Callable[[Context], list[float]]:
    gaps: dict[Any, list[float]] = {}
    for context in known:
        for trial in context.trials:
            if trial.log_value is not None:
                gaps.setdefault(trial.key, []).append(context.best - trial.log_value)
    return lambda context: [
        -statistics.fmean(gaps[one.key]) if one.key in gaps else -99.0 for one in context.trials
    ]


def _slowdown(plays: Sequence[Played], half: str) -> dict[str, float]:
    chosen = [one for one in plays if half in ("all", one.context.half)]
    logs = [math.log(1 + (one.regret[0] or 0.0)) for one in chosen]
    return {
        "slowdown": round(math.exp(statistics.fmean(logs)), 4),
        "hit": round(statistics.fmean(float(log <= math.log(1.05)) for log in logs), 4),
    }


def _slowdown_at_random(asked: Sequence[Context]) -> float:
    logs = [
        statistics.fmean(one.best - trial.log_value for trial in one.trials if trial.log_value is not None)
        for one in asked
    ]
    return round(math.exp(statistics.fmean(logs)), 4)


def impossible_proposals(
    ranker: Ranker, known: Sequence[Context], asked: Sequence[Context]
) -> dict[str, int]:
    """First choices among everything that any GPU offers for the weight type: how many SM120 has no code for.

    With and without the product's veto (what a kernel family needs of a card). Every twentieth context.
    """
    families = {(row["engine"], row["source"]): row["kernel"] for row in moe_rows("", 1.0, 0.02)}
    by_dtype: dict[str, set[tuple[str, ...]]] = {}
    for context in known:
        by_dtype.setdefault(context.key[5], set()).update(trial.key for trial in context.trials)
    told = {"contexts": 0, "without_veto": 0, "with_veto": 0}
    for context in asked[::20]:
        wide = _widened(context, by_dtype.get(context.key[5], set()))
        told_of = zip(ranker.priors([wide])[0], wide.trials, strict=True)
        order = sorted(told_of, key=lambda pair: -worth(pair[0]))
        lacks = [_lacks(families.get(trial.key, "?")) for _, trial in order]  # type: ignore[call-overload]
        told["contexts"] += 1
        told["without_veto"] += lacks[0]
        told["with_veto"] += next(lack for lack in lacks if not lack)
    return told


def _widened(context: Context, keys: set[tuple[str, ...]]) -> Context:
    here = {trial.key for trial in context.trials}
    row = dict(zip(MOE_WHERE, context.key, strict=True))
    columns = (*MOE_WHERE, "engine", "source")
    more = [
        Trial(
            key=key,
            parts={},
            features=encode({**row, "engine": key[0], "source": key[1]}, columns),
            log_value=None,
        )
        for key in sorted(keys - here)
    ]
    return replace(context, trials=(*context.trials, *more))


@cache
def _lacks(kernel: str) -> bool:
    """Whether the product would say that SM120 has no code for a kernel family."""
    query = Query(hardware=Hardware(arch="sm120"), resolved={"moe": Resolution(kernel, "said")})
    return any(unmet(query, ()))


TUNED = ("convolution", "dedispersion")


def tuner(kernel: str, freeze: bool) -> dict[str, Any]:
    """A Kernel Tuner space, all GPUs but one known: valid and invalid tries before the first within 5 %."""
    found = tuner_contexts(kernel)
    frozen(f"tuner-{kernel}", found, f"Kernel Tuner {kernel}: one context per GPU", freeze=freeze)
    plays = replay(found, ("recommender", "most frequent best"), most=100)
    peers = peers_on(f"tuner-{kernel}", {one.key: one.half for one in found})
    return {
        **{half: {**report(plays, half), "peers": peers[half]} for half in ("choose", "report")},
        "all": {**report(plays), "peers": peers["all"]},
        "per_gpu": {one.context.key[0]: [one.valid, one.failures] for one in plays["recommender"]},
    }
