"""Repeat the recommender's figures from committed data: ``make bench-replay``.

    python benchmarks/bench_replay.py [TASK …] [--out benchmarks/replay/results.json]

Tasks: e2e, e2e-fixed, e2e-time, warm, aiconfigurator, intervals, moe, tuner, cost. Contexts are frozen in
``benchmarks/replay/*.json`` (written by ``--freeze``); a change of the tables that moves a split fails here.
Choices were made on the half ``choose``; what is reported is the half ``report`` and both together.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from splits import (
    CHOICE,
    HERE,
    MOE_WHERE,
    PEER_KEY,
    WHERE,
    moe_rows,
    peer_answers,
    peer_on,
    peer_tries,
    serving_contexts,
    tuner_contexts,
)

from kb.measurements import serving
from kb.model import Hardware
from kb.vocab import engines, options
from recommend import fit
from recommend.baselines import most_frequent_best
from recommend.policy import worth
from recommend.question import Query, Resolution
from recommend.ranker import Ranker
from recommend.replay import (
    Context,
    Played,
    Trial,
    at_random,
    by_order,
    given_tries,
    play,
    playable,
    regret_after,
    wilcoxon,
)
from recommend.requirements import unmet
from recommend.samples import noise_of, published
from recommend.table import Columns, contexts, encode
from recommend.trialrun import POLICIES, recommender, replay, report

SM120 = "rtx_pro_6000_server"


def frozen(name: str, found: Sequence[Context], rule: str, *, freeze: bool) -> list[Context]:
    """The contexts of a committed split, or an exit that says how they moved."""
    path = HERE / f"{name}.json"
    asked = playable(found)
    now = {
        "rule": rule,
        "contexts": len(asked),
        "groups": len({one.group for one in asked}),
        "choices_per_context": round(statistics.mean(len(one.trials) for one in asked), 3),
        "keys": hashlib.blake2b(
            "\n".join("|".join(one.key) for one in asked).encode(), digest_size=16
        ).hexdigest(),
    }
    if freeze:
        path.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
    kept = json.loads(path.read_text("utf-8"))
    if kept != now:
        sys.exit(f"{path}: the split moved.\n  committed {kept}\n  now       {now}")
    return asked


def both_halves(plays: dict[str, list[Played]]) -> dict[str, Any]:
    return {half: report(plays, None if half == "all" else half) for half in ("choose", "report", "all")}


def e2e(freeze: bool) -> dict[str, Any]:
    """End to end, precision free."""
    found = serving_contexts(fixed_precision=False)
    frozen(
        "e2e",
        found,
        "aggregated; equal hw, model, isl, osl, concurrency, gpus; at least 2 choices",
        freeze=freeze,
    )
    return both_halves(replay(found))


def e2e_fixed(freeze: bool) -> dict[str, Any]:
    """End to end, precision given."""
    found = serving_contexts(fixed_precision=True)
    frozen("e2e-fixed", found, "as e2e, precision equal as well", freeze=freeze)
    return both_halves(replay(found, ("recommender", "most frequent best")))


def e2e_time(freeze: bool) -> dict[str, Any]:
    """End to end, trained only on earlier dates: for each month, on what was measured before it began."""
    found = serving_contexts(fixed_precision=False)
    dated = [one for one in playable(found) if all(trial.date for trial in one.trials)]
    frozen(
        "e2e-time",
        dated,
        "as e2e, every choice dated; known: contexts wholly before the month",
        freeze=freeze,
    )
    plays: dict[str, list[Played]] = {}
    months = sorted({_first(one)[:7] for one in dated})
    for month in months[1:]:
        known = [one for one in found if _last(one) and _last(one)[:7] < month]
        asked = [one for one in dated if _first(one)[:7] == month]
        if not known or not asked:
            continue
        for name in ("recommender", "extra trees", "most frequent best"):
            for group in sorted({one.group for one in asked}):
                here = [one for one in asked if one.group == group]
                chooser = POLICIES[name](known, here)
                plays.setdefault(name, []).extend(play(one, chooser) for one in here)
    return both_halves(plays)


def _first(one: Context) -> str:
    return min((trial.date for trial in one.trials if trial.date), default="")


def _last(one: Context) -> str:
    return max((trial.date for trial in one.trials if trial.date), default="")


def warm(freeze: bool) -> dict[str, Any]:  # noqa: ARG001 - the contexts of e2e
    """End to end with 0, 1, 2 runs of the context known, against Optuna's TPE given the same."""
    found = serving_contexts(fixed_precision=False)
    asked = playable(found)
    peer = peer_tries(HERE / "optuna.csv")
    mine: dict[int, dict[str, float]] = {0: {}, 1: {}, 2: {}}
    for group in sorted({one.group for one in asked}):
        here = [one for one in asked if one.group == group]
        chooser = recommender([one for one in found if one.group != group], here)
        for given, tries in mine.items():
            for one in here:
                if len(one.trials) > len(given_tries(one, given)):
                    tries["|".join(one.key)] = float(play(one, chooser, given).tries)
    told: dict[str, Any] = {}
    for given, tries in mine.items():
        shared = [key for key in tries if ("e2e", key, given) in peer]
        pairs = [tries[key] for key in shared], [peer["e2e", key, given][0] for key in shared]
        told[str(given)] = {
            "contexts": len(shared),
            "recommender": round(statistics.fmean(pairs[0]), 4),
            "optuna_tpe": round(statistics.fmean(pairs[1]), 4),
            "wilcoxon_p": wilcoxon(*pairs),
        }
    return told


def aiconfigurator(freeze: bool) -> dict[str, Any]:
    """Where AIConfigurator answers: its order against the recommender's, on the very same choices."""
    answers = peer_answers(HERE / "aiconfigurator-0.12.0.csv")
    found = serving_contexts(fixed_precision=False)
    asked = playable([_answered(one, answers) for one in found])
    frozen("aiconfigurator", asked, "as e2e, only choices that AIConfigurator 0.12.0 answers", freeze=freeze)
    plays: dict[str, list[Played]] = {"aiconfigurator": [], "recommender": [], "random": []}
    for group in sorted({one.group for one in asked}):
        here = [one for one in asked if one.group == group]
        chooser = recommender([one for one in found if one.group != group], here)
        for one in here:
            guesses = [answers[_peer_key(one, trial)] for trial in one.trials]
            plays["aiconfigurator"].append(play(one, by_order(lambda _, guesses=guesses: guesses)))
            plays["recommender"].append(play(one, chooser))
            plays["random"] += [
                play(one, by_order(lambda c, seed=seed: at_random(c, seed))) for seed in range(5)
            ]
    told = both_halves(plays)
    pairs = [[regret_after(1)(one) for one in plays[name]] for name in ("recommender", "aiconfigurator")]
    told["wilcoxon_p"] = wilcoxon(*pairs)
    return told


def _peer_key(context: Context, trial: Trial) -> tuple[str, ...]:
    said = dict(zip((*WHERE, *CHOICE), (*context.key, *trial.key), strict=True))
    return tuple(said[name] for name in PEER_KEY)


def _answered(context: Context, answers: dict[tuple[str, ...], float]) -> Context:
    return replace(context, trials=tuple(one for one in context.trials if _peer_key(context, one) in answers))


def intervals(freeze: bool) -> dict[str, Any]:  # noqa: ARG001 - one shape
    """Coverage and width of the 90 % intervals per GPU, each (GPU, model shape) group unseen."""
    releases = {engine: options.releases(engine) for engine in engines.ENGINES}
    samples = list(published(serving(), releases))
    told: dict[str, list[tuple[bool, float]]] = {}
    for group in sorted({one.group for one in samples}):
        known = [one for one in samples if one.group != group]
        _, x = fit.matrix(known)
        y = fit.target(known, "output_tok_s")
        here = [one for one in samples if one.group == group]
        half = fit.half_widths(known, x, y)[_novelty(group, known)]
        model = fit.Mixed().fit(x, y)
        _, rows = fit.matrix(here)
        errors = abs(fit.target(here, "output_tok_s") - model.predict(rows))
        told.setdefault(group[0], []).extend((bool(error <= half), half) for error in errors)
    rows = {gpu: _coverage(found) for gpu, found in told.items()}
    return {"per_gpu": rows, "all": _coverage([one for found in told.values() for one in found])}


def _novelty(group: tuple[str, str], known: Sequence[Any]) -> str:
    gpu = any(one.group[0] == group[0] for one in known)
    shape = any(one.group[1] == group[1] for one in known)
    return "new-model" if gpu else "new-gpu" if shape else "new-both"


def _coverage(found: Sequence[tuple[bool, float]]) -> dict[str, float]:
    return {
        "points": len(found),
        "coverage": round(sum(held for held, _ in found) / len(found), 4),
        "median_factor": round(math.exp(statistics.median(half for _, half in found)), 3),
    }


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
    policies: dict[str, Any] = {
        "recommender": recommender(known, asked),
        "best constant": by_order(_least_mean_gap(known)),
        "most frequent best": by_order(most_frequent_best(known)),
    }
    told: dict[str, Any] = {"contexts": len(asked), "random": _slowdown_at_random(asked)}
    for name, chooser in policies.items():
        plays = [play(one, chooser) for one in asked]
        told[name] = {half: _slowdown(plays, half) for half in ("choose", "report", "all")}
    told["proposals_sm120_lacks"] = impossible_proposals(known, asked)
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


def impossible_proposals(known: Sequence[Context], asked: Sequence[Context]) -> dict[str, int]:
    """First choices among everything that any GPU offers for the weight type: how many SM120 has no code for.

    With and without the product's veto (what a kernel family needs of a card). Every twentieth context.
    """
    families = {(row["engine"], row["source"]): row["kernel"] for row in moe_rows("", 1.0, 0.02)}
    by_dtype: dict[str, set[tuple[str, ...]]] = {}
    for context in known:
        by_dtype.setdefault(context.key[5], set()).update(trial.key for trial in context.trials)
    ranker = Ranker(known, near=asked[0])
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


def tuner(freeze: bool) -> dict[str, Any]:
    """Kernel Tuner spaces, all GPUs but one known: valid and invalid tries before the first within 5 %."""
    told: dict[str, Any] = {}
    for kernel in ("convolution", "dedispersion"):
        found = tuner_contexts(kernel)
        frozen(f"tuner-{kernel}", found, f"Kernel Tuner {kernel}: one context per GPU", freeze=freeze)
        plays = replay(found, ("recommender", "most frequent best"), most=100)
        told[kernel] = report(plays)
        told[kernel]["optuna_tpe"] = peer_on(f"tuner-{kernel}")
        told[kernel]["per_gpu"] = {
            one.context.key[0]: [one.valid, one.failures] for one in plays["recommender"]
        }
    return told


def cost(freeze: bool) -> dict[str, Any]:  # noqa: ARG001 - one shape
    """CPU seconds of a fit on all published points, and the noise floor of repeated measurements."""
    releases = {engine: options.releases(engine) for engine in engines.ENGINES}
    points = list(serving())
    samples = list(published(points, releases))
    begun = time.process_time()
    fit.train(samples, releases, "bench")
    once = time.process_time() - begun
    begun = time.process_time()
    fit.train((samples * (10_000 // len(samples) + 1))[:10_000], releases, "bench")
    return {
        "fit_cpu_s": round(once, 1),
        "samples": len(samples),
        "fit_10000_cpu_s": round(time.process_time() - begun, 1),
        "noise": noise_of(points),
    }


TASKS: dict[str, Callable[[bool], dict[str, Any]]] = {
    "e2e": e2e,
    "e2e-fixed": e2e_fixed,
    "e2e-time": e2e_time,
    "warm": warm,
    "aiconfigurator": aiconfigurator,
    "intervals": intervals,
    "moe": moe,
    "tuner": tuner,
    "cost": cost,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", help=", ".join(TASKS))
    parser.add_argument("--freeze", action="store_true", help="write the splits instead of holding to them")
    parser.add_argument("--out", type=Path, default=HERE / "results.json")
    said = parser.parse_args()
    results = json.loads(said.out.read_text("utf-8")) if said.out.exists() else {}
    for name in said.tasks or TASKS:
        begun = time.process_time()
        results[name] = TASKS[name](said.freeze)
        print(f"{name}: {time.process_time() - begun:.0f} CPU-s", file=sys.stderr, flush=True)
        said.out.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
