"""How sure a first choice is: where the order was right when it was left out, and where it was not."""

from __future__ import annotations

import random

import numpy as np

from recommend.belief import Belief, confidence
from recommend.frame import Frame
from recommend.policy import Prior
from recommend.ranker import Ranker
from recommend.replay import Context, Trial
from recommend.surety import Surety

PLAIN = {"a": 2.0, "b": 1.0, "c": 0.5}


def by_lot(seed: int) -> dict[str, float]:
    """Outcomes that nothing foretells."""
    draw = random.Random(seed)
    return {name: draw.uniform(0.5, 2.0) for name in PLAIN}


def context(name: str, kind: str, values: dict[str, float]) -> Context:
    """One context of its own group whose kind is a fact."""
    trials = tuple(
        Trial(key=(key,), parts={"kernel": key}, features={f"kernel={key}": 1.0}, log_value=value)
        for key, value in values.items()
    )
    return Context(key=(name,), group=(name,), trials=trials, facts={"kind": kind})


def test_contexts_like_those_that_were_right_are_surer() -> None:
    steady = [context(f"s{at}", "steady", PLAIN) for at in range(20)]
    fickle = [context(f"f{at}", "fickle", by_lot(at)) for at in range(20)]
    known = [*steady, *fickle]
    always_a = np.array([PLAIN[trial.key[0]] for one in known for trial in one.trials])
    surety = Surety(known, always_a, Frame(known).rows, deviation=0.5)
    priors = [Prior(value, 0.5) for value in PLAIN.values()]
    sure = [surety(context("new", kind, PLAIN), priors) for kind in ("steady", "fickle")]
    assert sure[0] is not None
    assert sure[1] is not None
    assert sure[0] > 0.8 > 0.7 > sure[1]


def test_where_nothing_is_learned_errors_are_taken_apart() -> None:
    few = Ranker([context(f"s{at}", "steady", PLAIN) for at in range(4)])
    asked = context("new", "steady", PLAIN)
    assert few.surety(asked, few.priors([asked])[0]) is None
    priors = [Prior(1.0, 0.1), Prior(0.5, 0.1)]
    assert confidence(Belief(asked, priors, ())) > 0.99
    assert confidence(Belief(asked, priors, (), sure=0.4)) == 0.4
