"""Repeat the recommender's figures from committed data: ``make bench-replay``.

    python benchmarks/bench_replay.py [TASK …] [--out benchmarks/replay/results.json]

Tasks: e2e, e2e-fixed, e2e-time, warm, aiconfigurator, intervals, moe, attention, convolution, dedispersion,
cost; chains of them run beside each other, and when these are done, alone, answers. Contexts are frozen in
``benchmarks/replay/*.json`` (written by ``--freeze``); a change of the tables that moves a split fails here.
Choices were made on the half ``choose``; what is reported is the half ``report`` and both together.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from answers import answers
from bench_kernels import TUNED, attention, moe, tuner
from splits import (
    CHOICE,
    GIVEN,
    HERE,
    PEER_KEY,
    WHERE,
    frozen,
    peer_answers,
    serving_contexts,
    warm_peers,
)

from kb.measurements import serving
from kb.vocab import engines, options
from recommend import fit
from recommend.belief import figure_json
from recommend.ranker import Ranker
from recommend.replay import (
    Context,
    Key,
    Played,
    Trial,
    at_random,
    by_order,
    given_tries,
    mean_by_group,
    play,
    playable,
    regret_after,
    wilcoxon,
)
from recommend.samples import Sample, contradictions, noise_of, published
from recommend.score import half_width
from recommend.trialrun import POLICIES, Advisor, replay, report

PLAIN = ("extra trees", "nearest sibling", "most frequent best")


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
    plays = replay(found, PLAIN)
    plays["recommender"] = []
    for group in sorted({one.group for one in playable(found)}):
        here = [one for one in playable(found) if one.group == group]
        chooser = Advisor(ranker_of(group), here)
        plays["recommender"] += [play(one, chooser) for one in here]
    return both_halves(plays)


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


@cache
def ranker_of(group: Key) -> Ranker:
    """What is learned for a group of ``e2e`` from all others; several tasks ask it."""
    found = serving_contexts(fixed_precision=False)
    asked = next(one for one in playable(found) if one.group == group)
    return Ranker([one for one in found if one.group != group], near=asked)


def warm(freeze: bool) -> dict[str, Any]:  # noqa: ARG001 - the contexts of e2e
    """End to end with 0, 1, 2 runs of the context known, against other optimisers on the same contexts."""
    asked = playable(serving_contexts(fixed_precision=False))
    mine: dict[tuple[str, int], float] = {}
    for group in sorted({one.group for one in asked}):
        here = [one for one in asked if one.group == group]
        chooser = Advisor(ranker_of(group), here)
        for given in GIVEN:
            for one in here:
                if len(one.trials) > len(given_tries(one, given)):
                    mine["|".join(one.key), given] = float(play(one, chooser, given).tries)
    by_key = {"|".join(one.key): one for one in asked}
    return {
        str(given): {name: _paired(mine, tries, given, by_key) for name, tries in warm_peers().items()}
        for given in GIVEN
    }


def _paired(
    mine: dict[tuple[str, int], float],
    theirs: dict[tuple[str, int], float],
    given: int,
    contexts: dict[str, Context],
) -> dict[str, Any]:
    """Means, their difference with its bootstrap over groups, p on all contexts and on the reported half."""
    shared = sorted(key for key in mine if key in theirs and key[1] == given)
    reported = [key for key in shared if contexts[key[0]].half == "report"]
    differences = [(contexts[key[0]].group, mine[key] - theirs[key]) for key in shared]
    return {
        "contexts": len(shared),
        "recommender": round(statistics.fmean(mine[key] for key in shared), 4),
        "peer": round(statistics.fmean(theirs[key] for key in shared), 4),
        "difference": figure_json(mean_by_group(differences)),
        "wilcoxon_p": wilcoxon([mine[key] for key in shared], [theirs[key] for key in shared]),
        "wilcoxon_p_reported": wilcoxon([mine[key] for key in reported], [theirs[key] for key in reported]),
    }


def aiconfigurator(freeze: bool) -> dict[str, Any]:
    """Where AIConfigurator answers: its order against the recommender's, on the very same choices."""
    answers = peer_answers(HERE / "aiconfigurator-0.12.0.csv")
    found = serving_contexts(fixed_precision=False)
    asked = playable([_answered(one, answers) for one in found])
    frozen("aiconfigurator", asked, "as e2e, only choices that AIConfigurator 0.12.0 answers", freeze=freeze)
    plays: dict[str, list[Played]] = {"aiconfigurator": [], "recommender": [], "random": []}
    for group in sorted({one.group for one in asked}):
        here = [one for one in asked if one.group == group]
        chooser = Advisor(ranker_of(group), here)
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
    told: dict[str, dict[str, list[tuple[bool, float]]]] = {}
    for group in sorted({one.group for one in samples}):
        known = [one for one in samples if one.group != group]
        _, x = fit.matrix(known)
        y = fit.target(known, "output_tok_s")
        here = [one for one in samples if one.group == group]
        half = half_width(*fit.half_widths(known, x, y), _novelty(group, known), group[0])
        model = fit.Mixed().fit(x, y)
        _, rows = fit.matrix(here)
        errors = abs(fit.target(here, "output_tok_s") - model.predict(rows))
        for one, error in zip(here, errors, strict=True):
            told.setdefault(_half_of(one), {}).setdefault(group[0], []).append((bool(error <= half), half))
    off = {
        gpu: {"steps": steps, "rms": round(rms, 4)} for gpu, (steps, rms) in contradictions(samples).items()
    }
    return {**{half: _by_gpu(found) for half, found in told.items()}, "contradictions": off}


def _half_of(one: Sample) -> str:
    """The half of a point, by its own hash: intervals speak of points, not of contexts."""
    return Context(key=(*one.group, *map(str, one.load), str(one.gpus)), group=one.group, trials=()).half


def _by_gpu(found: dict[str, list[tuple[bool, float]]]) -> dict[str, Any]:
    rows = {gpu: _coverage(points) for gpu, points in found.items()}
    return {"per_gpu": rows, "all": _coverage([one for points in found.values() for one in points])}


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
    "attention": attention,
    **{kernel: partial(tuner, kernel) for kernel in TUNED},
    "cost": cost,
    "answers": lambda freeze: answers(),  # noqa: ARG005 - one shape
}


# What is done by one process, the longest first: the tasks of a chain share what was learned.
CHAINS = (
    ("convolution",),
    ("e2e", "warm", "aiconfigurator"),
    ("dedispersion",),
    ("moe",),
    ("e2e-fixed",),
    ("attention",),
    ("e2e-time",),
    ("intervals",),
    ("cost",),
)
ALONE = ("answers",)


def done(names: Sequence[str], freeze: bool) -> dict[str, Any]:
    """The results of some tasks and the CPU seconds of each (under ``cpu_s``)."""
    told: dict[str, Any] = {"cpu_s": {}}
    for name in names:
        begun = time.process_time()
        told[name] = TASKS[name](freeze)
        told["cpu_s"][name] = round(time.process_time() - begun, 1)
        print(f"{name}: {told['cpu_s'][name]} CPU-s", file=sys.stderr, flush=True)
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", help=", ".join(TASKS))
    parser.add_argument("--freeze", action="store_true", help="write the splits instead of holding to them")
    parser.add_argument("--out", type=Path, default=HERE / "results.json")
    said = parser.parse_args()
    if unknown := sorted(set(said.tasks) - set(TASKS)):
        parser.error(f"no such task: {', '.join(unknown)} (there are {', '.join(TASKS)})")
    wanted = said.tasks or list(TASKS)
    chains = [[name for name in chain if name in wanted] for chain in CHAINS]
    results = json.loads(said.out.read_text("utf-8")) if said.out.exists() else {}
    begun = time.monotonic()
    run = results.setdefault("run", {"cpu_s": {}})
    if not said.tasks:
        run["cpu_s"] = {}
    with ProcessPoolExecutor() as pool:
        for each in as_completed([pool.submit(done, chain, said.freeze) for chain in chains if chain]):
            told = each.result()
            run["cpu_s"] |= told.pop("cpu_s")
            results |= told
            _write(said.out, results)  # a task that fails later loses nothing that is done
    told = done([name for name in ALONE if name in wanted], said.freeze)
    run["cpu_s"] |= told.pop("cpu_s")
    results |= told
    _write(said.out, results)
    if not said.tasks:
        run |= {"wall_s": round(time.monotonic() - begun), "cores": os.cpu_count()}
        _write(said.out, results)


def _write(path: Path, results: dict[str, Any]) -> None:
    path.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
