"""Points described twice are one, and thousands of them are not compared each with each."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.points import is_same_point, merge, merged
from kb.model import Measurement

NAMES = ("output_tok_s", "total_tok_s", "ttft_ms_mean", "tpot_ms_mean", "completed")
FIGURES = st.one_of(
    st.sampled_from(
        [0.0, 0.003, 0.5, 0.505, 1.0, 99.4, 100.0, 100.02, 100.6, 101.2, 8123.45, 8124.0, 8172.0]
    ),
    st.floats(0, 1e6),
)
POINTS = st.builds(
    Measurement,
    workload=st.fixed_dictionaries({}, optional={"concurrency": st.sampled_from([1, 8])}),
    metrics=st.dictionaries(st.sampled_from(NAMES), FIGURES, max_size=4),
)


def each_with_each(points: list[Measurement]) -> list[Measurement]:
    """What ``merged`` means, slowly."""
    found: list[Measurement] = []
    for point in points:
        at = next((i for i, one in enumerate(found) if is_same_point(one, point)), None)
        if at is None:
            found.append(point)
        else:
            found[at] = merge(found[at], point)
    return found


@given(st.lists(POINTS, max_size=12))
def test_the_sieve_loses_no_repetition(points: list[Measurement]) -> None:
    many = points * 6 + [Measurement(metrics={"itl_ms_mean": 10.0 + n, "itl_ms_p50": 1.0}) for n in range(61)]
    assert merged(many) == each_with_each(many)
    assert merged(points) == each_with_each(points)


@pytest.mark.parametrize("apart", [0.0, 1e-4, 5.9e-3, 6e-3])
@pytest.mark.parametrize("value", [0.01, 0.4, 1.0, 7.3, 1e3, 1e6])
def test_close_figures_meet(value: float, apart: float) -> None:
    others = [Measurement(metrics={"itl_ms_mean": 10.0 + n, "itl_ms_p50": 1.0}) for n in range(61)]
    one = Measurement(metrics={"ttft_ms_mean": value, "tpot_ms_mean": 2.5})
    other = Measurement(metrics={"ttft_ms_mean": value * (1 - apart), "tpot_ms_mean": 2.5})
    assert merged([*others, one, other]) == each_with_each([*others, one, other])


def test_thousands_of_points_take_seconds() -> None:
    points = [
        Measurement(metrics={"ttft_ms_mean": 20.0 + i, "output_tok_s": 9000.0 - i}) for i in range(6000)
    ]
    started = time.process_time()
    assert len(merged(points)) > 500
    assert time.process_time() - started < 60  # it took minutes
