"""Let SMAC3 play the replay's contexts; its tries are a baseline, kept as CSV.

Owns the questions only. It runs in an environment of its own, because kbctl does not depend on SMAC3:

    python -m venv peer && peer/bin/pip install smac
    PYTHONPATH=. peer/bin/python benchmarks/ask_smac.py benchmarks/replay/smac.csv

SMAC's random forest and its expected improvement (as the hyper-parameter optimisation facade sets them) are
asked over the choices on offer, which spares it proposals that nobody can run. Told of the past, it gets the
runs of alike contexts with the numbers of their load as further inputs.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from ConfigSpace import CategoricalHyperparameter, ConfigurationSpace, Float
from peers import Run, first_at_random, numbers, told, untried, write
from smac.acquisition.function import EI
from smac.model.random_forest import RandomForest

from recommend.policy import Seen, Value
from recommend.replay import Context

LOAD = ("isl", "osl", "concurrency", "gpus")


class Smac:
    """A chooser: the forest is fitted anew after each try."""

    def __init__(self, context: Context, past: Sequence[Run], seed: int) -> None:
        facts = {f"in:{name}": context.facts.get(name, 0.0) for name in LOAD} if past else {}
        self.offered = [{**numbers(trial.parts), **numbers(facts)} for trial in context.trials]
        self.past = past
        self.before = [
            {**numbers(run.parts), **numbers({f"in:{name}": run.facts.get(name, 0.0) for name in LOAD})}
            for run in past
        ]
        self.seed = seed
        self.space = self._space([*self.offered, *self.before])
        self.names = list(self.space)

    def _space(self, rows: Sequence[dict[str, Value]]) -> ConfigurationSpace:
        space = ConfigurationSpace(seed=self.seed)
        for name in sorted({name for row in rows for name in row}):
            values = [row[name] for row in rows if name in row]
            if all(isinstance(value, float) for value in values):
                low, high = float(min(values)), float(max(values))
                space.add(Float(name, (low, high if high > low else low + 1)))
            else:
                space.add(CategoricalHyperparameter(name, sorted({str(value) for value in values})))
        return space

    def _vector(self, row: dict[str, Value]) -> list[float]:
        said = []
        for name in self.names:
            one = self.space[name]
            value = row.get(name)
            if isinstance(one, CategoricalHyperparameter):
                value = str(value) if value is not None else one.choices[0]
            elif value is None:
                value = one.lower
            said.append(float(one.to_vector(value)))
        return said

    def __call__(self, context: Context, seen: Sequence[Seen]) -> int:
        left = untried(context, seen)
        if len(left) == 1:
            return left[0]
        if not seen and not self.past:
            return first_at_random(context, self.seed)
        here = told(context, seen, self.past)
        x = [self._vector(row) for row in self.before] + [self._vector(self.offered[at]) for at, _ in here]
        cost = [-run.value for run in self.past] + [-value for _, value in here]
        forest = RandomForest(
            self.space,
            n_trees=10,
            ratio_features=1.0,
            min_samples_split=2,
            min_samples_leaf=1,
            seed=self.seed,
            n_jobs=1,
        )
        forest.train(np.array(x), np.array(cost).reshape(-1, 1))
        wanted = np.array([self._vector(self.offered[at]) for at in left])
        best = min([-value for _, value in here], default=min(cost))
        acquisition = EI()
        acquisition.update(model=forest, eta=best, num_data=len(x))
        value = acquisition._compute(wanted).ravel()
        mean = forest.predict_marginalized(wanted)[0].ravel()
        return left[max(range(len(left)), key=lambda at: (value[at], -mean[at], -at))]


def main() -> None:
    warnings.simplefilter("ignore")
    write(Path(sys.argv[1]), {"SMAC3, cold": (Smac, False), "SMAC3, told of the past": (Smac, True)})


if __name__ == "__main__":
    main()
