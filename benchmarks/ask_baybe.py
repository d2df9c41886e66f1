"""Let BayBE play the replay's contexts; its tries are a baseline, kept as CSV.

Owns the questions only. It runs in an environment of its own, because kbctl does not depend on BayBE:

    python -m venv peer && peer/bin/pip install baybe
    PYTHONPATH=. peer/bin/python benchmarks/ask_baybe.py benchmarks/replay/baybe.csv

BayBE recommends among the choices on offer. Its first try is drawn where nothing is known. Told of the
past, it gets the runs of alike contexts with the numbers of their load as further parameters, fixed for what
is asked.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from baybe import Campaign
from baybe.objectives import SingleTargetObjective
from baybe.parameters import CategoricalParameter, NumericalDiscreteParameter
from baybe.recommenders import BotorchRecommender
from baybe.searchspace import SearchSpace
from baybe.targets import NumericalTarget
from peers import Run, first_at_random, numbers, told, untried, write

from recommend.policy import Seen
from recommend.replay import Context

LOAD = ("isl", "osl", "concurrency", "gpus")
PLACE = "value"


class BayBe:
    """A chooser: one search space per context, measurements added anew for each try."""

    def __init__(self, context: Context, past: Sequence[Run], seed: int) -> None:
        facts = {f"in {name}": context.facts.get(name, 0.0) for name in LOAD} if past else {}
        offered = [{**numbers(trial.parts), **numbers(facts)} for trial in context.trials]
        before = [
            {**numbers(run.parts), **numbers({f"in {name}": run.facts.get(name, 0.0) for name in LOAD})}
            for run in past
        ]
        self.seed, self.past = seed, past
        table = pd.DataFrame([*offered, *before])
        for name in table.columns:
            if any(isinstance(one, str) for one in table[name]):
                table[name] = [(one if isinstance(one, str) else "") or "none" for one in table[name]]
            else:
                table[name] = table[name].astype(float).fillna(0.0).round(6)
        # What does not vary says nothing, and a parameter needs two values.
        self.table = table[[name for name in table.columns if table[name].nunique() > 1]]
        self.offered, self.before = self.table.iloc[: len(offered)], self.table.iloc[len(offered) :]

    def _parameters(self) -> list[CategoricalParameter | NumericalDiscreteParameter]:
        return [
            CategoricalParameter(name, sorted(set(values)))
            if values.dtype == object or values.dtype.name in ("str", "string")
            else NumericalDiscreteParameter(name, sorted(set(values)))
            for name, values in self.table.items()
        ]

    def __call__(self, context: Context, seen: Sequence[Seen]) -> int:
        left = untried(context, seen)
        if len(left) == 1:
            return left[0]
        if not seen and not self.past:
            return first_at_random(context, self.seed)
        here = told(context, seen, self.past)
        rows = pd.concat([self.before, self.offered.iloc[[at for at, _ in here]]])
        values: list[float] = [run.value for run in self.past] + [value for _, value in here]
        rows = rows.assign(**{PLACE: values})
        space = SearchSpace.from_dataframe(self.offered.iloc[left].drop_duplicates(), self._parameters())
        campaign = Campaign(
            space,
            SingleTargetObjective(NumericalTarget(PLACE)),
            BotorchRecommender(),
            allow_recommending_already_measured=True,
        )
        campaign.add_measurements(rows)
        found = campaign.recommend(1).iloc[0]
        return next(
            at for at in left if all(self.offered.iloc[at][name] == found[name] for name in found.index)
        )


def main() -> None:
    warnings.simplefilter("ignore")
    policies: dict[str, tuple[type[BayBe], bool]] = {
        "BayBE, cold": (BayBe, False),
        "BayBE, told of the past": (BayBe, True),
    }
    write(Path(sys.argv[1]), policies)


if __name__ == "__main__":
    main()
