"""Let Optuna's TPE play the replay's contexts; its tries are a baseline, kept as CSV.

Owns the questions and the table of tries. It runs in an environment of its own, because kbctl does not depend
on Optuna:

    python -m venv peer && peer/bin/pip install optuna
    PYTHONPATH=. peer/bin/python benchmarks/ask_optuna.py benchmarks/replay/optuna.csv

TPE sees the choice's parts as categorical parameters, starts after one random try, is told of failures (as
a value worse than any that worked), and never pays for a combination that is not on offer or was tried: such
proposals are drawn again, ten times, then at random. ``given`` tries are the same as the recommender's.
"""

from __future__ import annotations

import csv
import math
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import optuna
from splits import serving_contexts, tuner_contexts

from recommend.policy import Seen
from recommend.replay import Context, given_tries, play, playable

SEEDS = (0, 1)
# A tuning space takes minutes of CPU per seed and GPU.
TUNER_SEEDS = (0,)
REDRAWS = 10
MOST = 100
WORSE = 3.0


class Tpe:
    """A chooser: one study per context, told of what was seen since it was last asked."""

    def __init__(self, context: Context, seed: int) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=1, multivariate=False)
        self.study = optuna.create_study(direction="maximize", sampler=sampler)
        names = sorted({name for trial in context.trials for name in trial.parts})
        self.rows = [tuple(str(trial.parts.get(name)) for name in names) for trial in context.trials]
        self.place = {row: index for index, row in enumerate(self.rows)}
        self.space = {
            name: optuna.distributions.CategoricalDistribution(sorted({row[at] for row in self.rows}))
            for at, name in enumerate(names)
        }
        values = [trial.log_value for trial in context.trials if trial.log_value is not None]
        self.worst = min(values) - WORSE
        self.told = 0
        self.random = random.Random(f"{seed}|{context.key!r}")

    def __call__(self, context: Context, seen: Sequence[Seen]) -> int:  # noqa: ARG002 - one shape
        for one in seen[self.told :]:
            params = dict(zip(self.space, self.rows[one.at], strict=True))
            value = self.worst if one.log_value is None else one.log_value
            trial = optuna.trial.create_trial(params=params, distributions=self.space, value=value)
            self.study.add_trial(trial)
        self.told = len(seen)
        tried = {one.at for one in seen}
        for _ in range(REDRAWS):
            asked = self.study.ask(self.space)
            index = self.place.get(tuple(str(asked.params[name]) for name in self.space))
            self.study.tell(asked, state=optuna.trial.TrialState.FAIL)
            if index is not None and index not in tried:
                return index
        return self.random.choice([index for index in range(len(self.rows)) if index not in tried])


def rows() -> Iterator[dict[str, object]]:
    """One row per context, number of given tries and seed."""
    for given in (0, 1, 2):
        yield from _played("e2e", playable(serving_contexts(fixed_precision=False)), given)
    for kernel in ("convolution", "dedispersion"):
        yield from _played(f"tuner-{kernel}", playable(tuner_contexts(kernel)), 0, TUNER_SEEDS)


def _played(
    task: str, asked: Sequence[Context], given: int, seeds: Sequence[int] = SEEDS
) -> Iterator[dict[str, object]]:
    for context in asked:
        if len(context.trials) <= len(given_tries(context, given)):
            continue
        for seed in seeds:
            one = play(context, Tpe(context, seed), given, MOST)
            first = next((value for value in one.regret if value is not None), math.nan)
            yield {
                "task": task,
                "context": "|".join(context.key),
                "given": given,
                "seed": seed,
                "tries": one.tries,
                "valid": one.valid,
                "regret_after_1": round(first, 5),
            }
    print(f"{task}, {given} given: done", file=sys.stderr, flush=True)


def main() -> None:
    with Path(sys.argv[1]).open("w", encoding="utf-8", newline="") as sink:
        names = ("task", "context", "given", "seed", "tries", "valid", "regret_after_1")
        writer = csv.DictWriter(sink, names)
        writer.writeheader()
        for row in rows():
            writer.writerow(row)
            sink.flush()


if __name__ == "__main__":
    main()
