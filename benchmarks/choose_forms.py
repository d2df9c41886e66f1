"""Choose the form of the serving regression on one half of the contexts; the other half is never looked at.

    python benchmarks/choose_forms.py [--out benchmarks/replay/choice.json]

Owns the rule and the list of what is tried. Both training and test points are of the half ``choose`` (a hash
of the context's key, frozen in ``replay/halves.json``); whole (GPU, model shape) groups are left out. Of the
forms whose regret is not worse than the least by more than one standard error (over groups), the one with the
smallest error is taken. ``bench_replay.py`` reports the half ``report``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from splits import HERE, serving_contexts

from recommend import fit
from recommend.replay import Context, Played, by_order, play, playable, regret_after
from recommend.samples import IMPLAUSIBLE

HALVES = HERE / "halves.json"


class Mix:
    """A weighted mean of ridge and boosted trees."""

    def __init__(self, share: float, alpha: float = 300.0, rounds: int = 90) -> None:
        self.share = share
        self.parts = fit.Linear(alpha), fit.Trees(rounds)

    def fit(self, x: fit.Array, y: fit.Array) -> Mix:
        for part in self.parts:
            part.fit(x, y)
        return self

    def predict(self, x: fit.Array) -> fit.Array:
        linear, trees = (part.predict(x) for part in self.parts)
        return np.asarray(self.share * linear + (1 - self.share) * trees)


FORMS: dict[str, Callable[[], Any]] = {
    "physics alone": fit.Nothing,
    "ridge, alpha 30": lambda: fit.Linear(30),
    "ridge, alpha 100": lambda: fit.Linear(100),
    "ridge, alpha 300": lambda: fit.Linear(300),
    "ridge, alpha 1000": lambda: fit.Linear(1000),
    "boosted trees, 45 rounds": lambda: fit.Trees(45),
    "boosted trees, 90 rounds": lambda: fit.Trees(90),
    "boosted trees, 180 rounds": lambda: fit.Trees(180),
    "extra trees": fit.Forest,
    "ridge and trees, 1 : 3": lambda: Mix(0.25),
    "ridge and trees, 1 : 1": lambda: Mix(0.5),
    "ridge and trees, 3 : 1": lambda: Mix(0.75),
    "ridge (alpha 100) and trees, 1 : 1": lambda: Mix(0.5, 100),
    "ridge and trees (45 rounds), 1 : 1": lambda: Mix(0.5, 300, 45),
}


def halves(contexts: Sequence[Context]) -> dict[str, Any]:
    """What is committed of the split: counts and a digest of each half's keys."""
    told: dict[str, Any] = {"rule": "first byte of BLAKE2b-8 of the key's repr, modulo 2: choose, report"}
    for half in ("choose", "report"):
        keys = sorted("|".join(one.key) for one in contexts if one.half == half)
        digest = hashlib.blake2b("\n".join(keys).encode(), digest_size=16).hexdigest()
        told[half] = {"contexts": len(keys), "keys": digest}
    return told


def guesses(contexts: Sequence[Context], make: Callable[[], Any]) -> dict[tuple[str, ...], list[float]]:
    """Each context's expected log values from a model that never saw its group."""
    rows = [(one, trial) for one in contexts for trial in one.trials if trial.log_value is not None]
    names = sorted(name for name in rows[0][1].features if fit.PLAIN.fullmatch(name))
    x = np.array([[trial.features[name] for name in names] for _, trial in rows])
    physics = np.array([trial.features["log_physics_tok_s"] for _, trial in rows])
    y = np.array([trial.log_value for _, trial in rows]) - physics
    out = np.zeros(len(rows))
    groups = np.array(["|".join(one.group) for one, _ in rows])
    for group in np.unique(groups):
        test = groups == group
        known = ~test & (y <= IMPLAUSIBLE)
        out[test] = make().fit(x[known], y[known]).predict(x[test]) + physics[test]
    told: dict[tuple[str, ...], list[float]] = {}
    for (one, _), value in zip(rows, out, strict=True):
        told.setdefault(one.key, []).append(float(value))
    return told


def tried(name: str, contexts: Sequence[Context]) -> tuple[dict[str, Any], dict[str, float]]:
    """(figures of a form, its mean regret per group)."""
    begun = time.process_time()
    told = guesses(contexts, FORMS[name])
    plays = [play(one, by_order(lambda context: told[context.key])) for one in playable(contexts)]
    errors = [
        guess - trial.log_value
        for one in contexts
        for guess, trial in zip(told[one.key], one.trials, strict=True)
        if trial.log_value is not None
    ]
    regret = [regret_after(1)(one) for one in plays]
    figures = {
        "form": name,
        "regret_after_1": round(statistics.fmean(regret), 4),
        "tries": round(statistics.fmean(one.tries for one in plays), 4),
        "rms_error": round(math.sqrt(statistics.fmean(error**2 for error in errors)), 4),
        "cpu_s": round(time.process_time() - begun, 1),
    }
    return figures, by_group(plays)


def by_group(plays: Sequence[Played]) -> dict[str, float]:
    """Sum of regret per group over the number of all contexts, so that the groups add up to the mean."""
    told: dict[str, float] = {}
    for one in plays:
        group = "|".join(one.context.group)
        told[group] = told.get(group, 0.0) + regret_after(1)(one) / len(plays)
    return told


def standard_error(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Of the difference of two means, each group an independent draw."""
    differences = [one[group] - other[group] for group in one]
    mean = statistics.fmean(differences)
    return math.sqrt(sum((value - mean) ** 2 for value in differences))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--freeze", action="store_true", help="write the split instead of holding to it")
    parser.add_argument("--out", type=Path, default=HERE / "choice.json")
    said = parser.parse_args()
    contexts = [one for one in serving_contexts(fixed_precision=False) if one.trials]
    now = halves(contexts)
    if said.freeze:
        HALVES.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
    if json.loads(HALVES.read_text("utf-8")) != now:
        sys.exit(f"{HALVES}: the split moved")
    chosen = [one for one in contexts if one.half == "choose"]
    found = [tried(name, chosen) for name in FORMS]
    rows = [row for row, _ in found]
    best, of_best = min(found, key=lambda pair: pair[0]["regret_after_1"])
    for row, groups in found:
        row["worse_by"] = round(row["regret_after_1"] - best["regret_after_1"], 4)
        row["standard_error"] = round(standard_error(groups, of_best), 4)
    able = [row for row in rows if row["worse_by"] <= row["standard_error"]]
    taken = min(able, key=lambda row: row["rms_error"])["form"]
    told = {"half": "choose", "contexts": len(playable(chosen)), "taken": taken, "tried": rows}
    said.out.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    for row in rows:
        print(row, "<- taken" if row["form"] == taken else "")


if __name__ == "__main__":
    main()
