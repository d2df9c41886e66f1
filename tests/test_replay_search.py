"""The search in arrays: the numbers of ``recommend.policy``, and memories of many groups."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recommend import recall
from recommend.policy import Prior, Seen, posterior, similarity
from recommend.recall import Memory
from recommend.replay import Context, Trial
from recommend.search import Space

values = st.one_of(st.sampled_from(["triton", "cutlass", ""]), st.floats(-4, 4096, allow_nan=False))
choices = st.lists(st.dictionaries(st.sampled_from("abc"), values), min_size=3, max_size=8)


@settings(deadline=None, max_examples=60)
@given(choices, st.data())
def test_the_search_in_arrays_tells_what_the_plain_one_does(
    parts: list[dict[str, str | float]], data: st.DataObject
) -> None:
    space = Space(parts)
    for at, one in enumerate(parts):
        assert space.alike(at) == pytest.approx([similarity(one, other) for other in parts])
    priors = [
        Prior(data.draw(st.floats(-2, 2)), data.draw(st.floats(0.02, 1)), data.draw(st.floats(0, 1)))
        for _ in parts
    ]
    count = data.draw(st.integers(0, len(parts) - 1))
    log_values = st.one_of(st.none(), st.floats(-2, 2))
    seen = [Seen(at, data.draw(log_values)) for at in range(count)]
    left = list(range(count, len(parts)))
    plain = posterior(parts, priors, seen, left)
    for at, told in zip(left, space.posterior(priors, seen, left), strict=True):
        assert told == pytest.approx(plain[at], abs=1e-6)


def test_of_many_groups_that_nothing_tells_apart_some_share_a_memory_without_them() -> None:
    def context(at: int) -> Context:
        values_ = {"a": 1.0, "b": 2.0 + (at == 7)}
        trials = tuple(
            Trial(key=(key,), parts={}, features={}, log_value=math.log(one)) for key, one in values_.items()
        )
        return Context(key=(str(at).zfill(4),), group=(str(at).zfill(4),), trials=trials)

    many = [context(at) for at in range(recall.MOST_MEMORIES * 2)]
    memory = Memory(many)

    def lead(asked: Context) -> float:
        return memory.recall(("b",), asked).value - memory.recall(("a",), asked).value

    without = [lead(many[at]) for at in (7, 7 + recall.MOST_MEMORIES)]
    assert without == [pytest.approx(math.log(2.0), abs=1e-3)] * 2
    assert lead(many[8]) > math.log(2.0) + 1e-3
    assert lead(context(9999)) > math.log(2.0) + 1e-3
    for one in many:
        memory.recall(("a",), one)
    assert len(memory.known) == recall.MOST_MEMORIES + 1
