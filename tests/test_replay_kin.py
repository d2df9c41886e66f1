"""Which known contexts fail as this one does: a failure here speaks of all that failed with it elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from recommend.kin import Kin
from recommend.policy import FAILURE, Prior, Seen, gain, pays, worth
from recommend.ranker import Ranker
from recommend.replay import Context, Trial, play
from recommend.trialrun import Advisor

SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
ALL_WORK = dict.fromkeys(SIZES, 1.0)
# Small cards fail at the three largest sizes, where large cards are fastest.
SMALL = {1.0: 1.0, 2.0: 1.2, 4.0: 1.4, 8.0: None, 16.0: None, 32.0: None}
LARGE = {1.0: 1.0, 2.0: 1.2, 4.0: 1.4, 8.0: 1.6, 16.0: 1.8, 32.0: 2.0}


def context(name: str, values: Mapping[float, float | None]) -> Context:
    """One context of its own group; values are log outcomes, ``None`` for a failure."""
    trials = tuple(
        Trial(key=(str(size),), parts={"size": size}, features={"size#": size}, log_value=value)
        for size, value in values.items()
    )
    return Context(key=(name,), group=(name,), trials=trials, facts={"card": name})


KNOWN = [context(name, LARGE) for name in "abc"] + [context(name, SMALL) for name in "xyz"]


def chances(seen: list[Seen], learned: float = 0.9) -> list[float]:
    """The chances to work in a context never seen, after some tries."""
    failing = Kin(KNOWN).of(context("new", SMALL), [learned] * len(SIZES))
    assert failing is not None
    return [float(one) for one in failing.works(seen)]


def test_before_the_first_try_the_known_contexts_speak_beside_what_was_learned() -> None:
    told = chances([])
    assert told[0] > 0.9
    assert told[5] == pytest.approx(0.5 * 0.9 + 0.25 * 0.99 + 0.25 * 0.05)


def test_one_failure_tells_of_all_that_failed_with_it_elsewhere() -> None:
    before, after = chances([]), chances([Seen(3, None)])
    assert after[5] < 0.25 < before[5]
    assert after[1] > 0.9


def test_one_that_works_tells_of_all_that_worked_with_it_elsewhere() -> None:
    assert chances([Seen(3, 1.6)])[5] > 0.85


def test_the_own_group_does_not_speak() -> None:
    alone = Kin([context("new", SMALL), context("a", ALL_WORK)]).of(context("new", SMALL), [0.9] * 6)
    assert alone is not None
    assert float(alone.works([])[5]) > 0.9


def test_without_failures_or_shared_choices_nothing_speaks() -> None:
    assert Kin([context("a", ALL_WORK)]).of(context("new", SMALL), [0.9] * 6) is None
    other = Context(
        key=("n",), group=("n",), trials=(Trial(key=("?",), parts={}, features={}, log_value=None),)
    )
    assert Kin(KNOWN).of(other, [0.9]) is None


def test_a_failed_try_is_not_followed_by_its_kin() -> None:
    asked = context("new", SMALL)
    played = play(asked, Advisor(Ranker(KNOWN, near=asked), [asked]))
    assert played.failures <= 1


def test_a_try_that_may_fail_must_promise_more() -> None:
    assert pays(1.0) == 1.0
    assert pays(0.5) == pytest.approx(1 / (1 + FAILURE))
    sure, doubtful = Prior(1.0, 0.2), Prior(1.0 + 0.2, 0.2, works=0.5)
    assert gain(sure, 1.0) > gain(doubtful, 1.0)
    assert worth(sure) > worth(doubtful)


def test_a_forecaster_that_told_nothing_apart_has_no_say() -> None:
    ranker = Ranker(KNOWN)
    told = [abs(prior.mean) for prior in ranker.priors([context("new", SMALL)])[0]]
    assert max(told) < 10


def test_one_known_group_is_learned_from_by_its_contexts() -> None:
    known = [replace(context(name, LARGE), group=("one",)) for name in "abcd"]
    asked = context("new", LARGE)
    ranker = Ranker(known, near=asked)
    priors = ranker.priors([asked])[0]
    assert ranker.lead < 0
    assert max(priors, key=lambda one: one.mean) is priors[-1]
