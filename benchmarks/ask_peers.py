"""Let other optimisers play the replay's contexts; their tries are baselines, kept as CSV.

    make peers                 (all of them; PEERS="smac" for one)
    PYTHONPATH=. peer/bin/python benchmarks/ask_peers.py baybe

Owns one function per peer, which proposes the next of the choices on offer. A peer runs in an environment of
its own (``PINS``), because kbctl depends on none. What all share is in ``peers.py``. Sizes are numbers by
their logarithm, words are categories; *told of the past* adds the runs of alike contexts.
"""

# Each environment holds the packages of one peer alone.
# ruff: noqa: PLC0415

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from peers import LOAD, Asked, Peer, Row, Value, write

PINS = {
    "optuna": ("optuna==5.0.0", "torch", "scipy"),
    "smac": ("smac==2.4.1",),
    "baybe": ("baybe==0.15.0",),
}


def baybe(asked: Asked) -> int:
    """BayBE recommends among the choices that are left; the load of a past run is a parameter of its own."""
    from baybe import Campaign
    from baybe.objectives import SingleTargetObjective
    from baybe.recommenders import BotorchRecommender
    from baybe.searchspace import SearchSpace
    from baybe.settings import Settings
    from baybe.targets import NumericalTarget

    Settings(random_seed=asked.seed).activate()
    table = _table([*asked.offered, *asked.before])
    offered = table.iloc[: len(asked.offered)]
    known = table.iloc[[*asked.seen, *range(len(offered), len(table))]]
    left = offered.iloc[asked.left]
    campaign = Campaign(
        SearchSpace.from_dataframe(left.drop_duplicates(), _parameters(table)),
        SingleTargetObjective(NumericalTarget("outcome")),
        BotorchRecommender(),
        allow_recommending_already_measured=True,
    )
    campaign.add_measurements(known.assign(outcome=[*asked.seen.values(), *asked.values_before]))
    found = campaign.recommend(1).iloc[0]
    return next(
        at
        for at, row in zip(asked.left, left.to_dict("records"), strict=True)
        if row == {name: found[name] for name in row}
    )


def _table(rows: Sequence[Row]) -> Any:
    """Rows as a data frame without columns that do not vary: a parameter needs two values."""
    import pandas as pd

    table = pd.DataFrame(list(rows))
    for name in table.columns:
        if any(isinstance(one, str) for one in table[name]):
            table[name] = [(one if isinstance(one, str) else "") or "none" for one in table[name]]
        else:
            table[name] = table[name].astype(float).fillna(0.0).round(6)
    return table[[name for name in table.columns if table[name].nunique() > 1]]


def _parameters(table: Any) -> list[Any]:
    from baybe.parameters import CategoricalParameter, NumericalDiscreteParameter

    return [
        NumericalDiscreteParameter(name, sorted(set(values)))
        if values.dtype.kind == "f"
        else CategoricalParameter(name, sorted(set(values)))
        for name, values in table.items()
    ]


def smac(asked: Asked) -> int:
    """SMAC3's random forest and expected improvement, asked over the choices that are left.

    The forest is the one of its hyper-parameter optimisation facade. ``max_leaf_nodes`` only bounds what is
    allocated: no tree comes near.
    """
    import numpy as np
    from smac.acquisition.function import EI
    from smac.model.random_forest import RandomForest

    space = _smac_space([*asked.offered, *asked.before], asked.seed)
    x = [_vector(space, row) for row in (*asked.before, *(asked.offered[at] for at in asked.seen))]
    cost = [-value for value in (*asked.values_before, *asked.seen.values())]
    forest = RandomForest(
        space,
        n_trees=10,
        ratio_features=1.0,
        min_samples_split=2,
        min_samples_leaf=1,
        max_leaf_nodes=2**14,
        seed=asked.seed,
        n_jobs=1,
    )
    forest.train(np.array(x), np.array(cost).reshape(-1, 1))
    wanted = np.array([_vector(space, asked.offered[at]) for at in asked.left])
    improvement = EI()
    best = min((-value for value in asked.seen.values()), default=min(cost))
    improvement.update(model=forest, eta=best, num_data=len(x))
    value = improvement._compute(wanted).ravel()
    mean = forest.predict_marginalized(wanted)[0].ravel()
    return asked.left[max(range(len(asked.left)), key=lambda at: (value[at], -mean[at], -at))]


def _smac_space(rows: Sequence[Row], seed: int) -> Any:
    from ConfigSpace import CategoricalHyperparameter, ConfigurationSpace, Float

    space = ConfigurationSpace(seed=seed)
    for name, values in _columns(rows).items():
        bounds = _bounds(values)
        if bounds is None:
            space.add(CategoricalHyperparameter(name, sorted({str(value) for value in values})))
        else:
            space.add(Float(name, bounds))
    return space


def _vector(space: Any, row: Row) -> list[float]:
    said = []
    for name, one in space.items():
        usual = one.choices[0] if hasattr(one, "choices") else one.lower
        value = row.get(name, usual)
        said.append(float(one.to_vector(str(value) if hasattr(one, "choices") else value)))
    return said


def _columns(rows: Sequence[Row]) -> dict[str, list[Value]]:
    names = sorted({name for row in rows for name in row})
    return {name: [row[name] for row in rows if name in row] for name in names}


def _bounds(values: Sequence[Value]) -> tuple[float, float] | None:
    """Least and largest of numbers, apart from each other; ``None`` where some are words."""
    numbers = [value for value in values if isinstance(value, float)]
    if len(numbers) < len(values):
        return None
    low, high = min(numbers), max(numbers)
    return low, high if high > low else low + 1


def optuna_tpe(asked: Asked) -> int:
    """Optuna's TPE; see ``_optuna``."""
    return _optuna(asked, "TPESampler")


def optuna_gp(asked: Asked) -> int:
    """Optuna's Gaussian process; see ``_optuna``."""
    return _optuna(asked, "GPSampler")


def _optuna(asked: Asked, sampler: str) -> int:
    """A study is not told which combinations are on offer: what it proposes is taken as the most alike.

    Nor can it be asked for a given load, so that it is not told of the loads of past runs.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    offered = [_without_load(row) for row in asked.offered]
    before = [_without_load(row) for row in asked.before]
    space = {name: _distribution(values) for name, values in _columns([*offered, *before]).items()}
    study = optuna.create_study(
        direction="maximize", sampler=getattr(optuna.samplers, sampler)(seed=asked.seed, n_startup_trials=1)
    )
    known = [
        *zip(before, asked.values_before, strict=True),
        *((offered[at], asked.seen[at]) for at in asked.seen),
    ]
    study.add_trials(
        [
            optuna.trial.create_trial(params=_params(row, space), distributions=dict(space), value=value)
            for row, value in known
        ]
    )
    proposed = study.ask(space).params
    return min(asked.left, key=lambda at: (_apart(_params(offered[at], space), proposed, space), at))


def _without_load(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in LOAD}


def _distribution(values: Sequence[Value]) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    bounds = _bounds(values)
    if bounds is None:
        return CategoricalDistribution(sorted({str(value) for value in values} | {"None"}))
    return FloatDistribution(*bounds)


def _params(row: Row, space: Mapping[str, Any]) -> Row:
    return {
        name: row.get(name, one.low) if hasattr(one, "low") else str(row.get(name))
        for name, one in space.items()
    }


def _apart(one: Row, other: Row, space: Mapping[str, Any]) -> float:
    """Words count one where they differ, numbers by their share of the range."""
    return sum(
        abs(float(one[name]) - float(other[name])) / (said.high - said.low)
        if hasattr(said, "low")
        else float(one[name] != other[name])
        for name, said in space.items()
    )


PEERS: Mapping[str, Mapping[str, Peer]] = {
    "optuna": {"Optuna TPE": optuna_tpe, "Optuna GP": optuna_gp},
    "smac": {"SMAC3": smac},
    "baybe": {"BayBE": baybe},
}
# Asked about the tuning spaces as well.
TUNER_PEERS = ("Optuna TPE",)


def main() -> None:
    name = sys.argv[1]
    if "--pins" in sys.argv:
        print(" ".join(PINS[name]))
        return
    warnings.simplefilter("ignore")
    write(name, PINS[name][0], PEERS[name], TUNER_PEERS)


if __name__ == "__main__":
    main()
