"""Let Optuna's GP sampler, and its TPE told of the past, play the replay's contexts; kept as CSV.

Owns the questions only. It runs in an environment of its own, because kbctl does not depend on Optuna:

    python -m venv peer && peer/bin/pip install optuna torch scipy
    PYTHONPATH=. peer/bin/python benchmarks/ask_optuna_gp.py benchmarks/replay/optuna-gp.csv

Words are categorical parameters, sizes are numbers by their logarithm. A study cannot be told which
combinations are on offer: what it proposes is taken as the most alike choice that is on offer and untried.
TPE without a past plays all contexts in ``ask_optuna.py``.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution
from peers import Run, first_at_random, numbers, told, untried, write

from recommend.policy import Seen, Value
from recommend.replay import Context

Distribution = CategoricalDistribution | FloatDistribution


class Study:
    """A chooser: one study per context and try, told of the past and of what was seen."""

    def __init__(self, sampler: type, context: Context, past: Sequence[Run], seed: int) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.sampler, self.past, self.seed = sampler, past, seed
        self.offered = [numbers(trial.parts) for trial in context.trials]
        self.before = [numbers(run.parts) for run in past]
        self.space = {
            name: _distribution([row[name] for row in (*self.offered, *self.before) if name in row])
            for name in sorted({name for row in (*self.offered, *self.before) for name in row})
        }

    def __call__(self, context: Context, seen: Sequence[Seen]) -> int:
        left = untried(context, seen)
        if len(left) == 1:
            return left[0]
        if not seen and not self.past:
            return first_at_random(context, self.seed)
        study = optuna.create_study(
            direction="maximize", sampler=self.sampler(seed=self.seed, n_startup_trials=1)
        )
        here = [(self.offered[at], value) for at, value in told(context, seen, self.past)]
        before = [(row, run.value) for row, run in zip(self.before, self.past, strict=True)]
        study.add_trials([self._trial(row, value) for row, value in (*before, *here)])
        asked = study.ask(self.space).params
        return min(left, key=lambda at: (self._apart(self.offered[at], asked), at))

    def _trial(self, row: Mapping[str, Value], value: float) -> optuna.trial.FrozenTrial:
        params = {name: self._said(name, row) for name in self.space}
        return optuna.trial.create_trial(params=params, distributions=dict(self.space), value=value)

    def _said(self, name: str, row: Mapping[str, Value]) -> Value:
        one = self.space[name]
        if isinstance(one, FloatDistribution):
            value = row.get(name)
            return value if isinstance(value, float) else one.low
        return str(row.get(name))

    def _apart(self, row: Mapping[str, Value], asked: Mapping[str, Value]) -> float:
        total = 0.0
        for name, one in self.space.items():
            mine, theirs = self._said(name, row), asked[name]
            if isinstance(one, FloatDistribution):
                total += abs(float(mine) - float(theirs)) / (one.high - one.low)
            else:
                total += float(mine != theirs)
        return total


def _distribution(values: Sequence[Value]) -> Distribution:
    if all(isinstance(value, float) for value in values):
        low, high = float(min(values)), float(max(values))
        return FloatDistribution(low, high if high > low else low + 1)
    return CategoricalDistribution(sorted({str(value) for value in values} | {"None"}))


def gp(context: Context, past: Sequence[Run], seed: int) -> Study:
    return Study(optuna.samplers.GPSampler, context, past, seed)


def tpe(context: Context, past: Sequence[Run], seed: int) -> Study:
    return Study(optuna.samplers.TPESampler, context, past, seed)


def main() -> None:
    warnings.simplefilter("ignore")
    policies = {
        "Optuna TPE, told of the past": (tpe, True),
        "Optuna GP, cold": (gp, False),
        "Optuna GP, told of the past": (gp, True),
    }
    write(Path(sys.argv[1]), policies)


if __name__ == "__main__":
    main()
