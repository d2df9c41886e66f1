"""Rows of single requests: what makes them such, which of them failed, and by which clock they ran."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.bench.requests import are_requests, fold
from ingest.bench.units import Units


def requests_with(**more: Any) -> list[dict[str, Any]]:
    """Eight requests of 1.5 s; members of ``more`` are values for all, or functions of their number."""
    rows = [{"request_id": at, "ttft_ms": 50 + at, "latency_ms": 1500} for at in range(8)]
    return [
        row | {key: one(at) if callable(one) else one for key, one in more.items()}
        for at, row in enumerate(rows)
    ]


def folded(rows: list[dict[str, Any]]) -> dict[str, Any]:
    (one,) = fold(rows, Units.of(rows))
    return one


def test_an_option_that_differs_in_each_row_makes_a_sweep_and_a_seed_does_not() -> None:
    assert not are_requests(requests_with(max_num_seqs=lambda at: 2**at))
    assert are_requests(requests_with(random_seed=lambda at: 7 * at))


def test_an_option_with_few_values_parts_the_requests() -> None:
    rows = requests_with(max_num_seqs=lambda at: 16 if at < 4 else 64)
    assert are_requests(rows)
    assert [one["max_num_seqs"] for one in fold(rows, Units.of(rows))] == [16, 64]


@pytest.mark.parametrize(
    ("label", "bad", "good"),
    [
        ("success", 0, 1),
        ("success", "0", "1"),
        ("success", "no", "yes"),
        ("success", False, True),
        ("status", 503, 200),
        ("status", "HTTP 500", "HTTP 200"),
        ("status", "cancelled", "completed"),
        ("error", "connection reset", "0"),
        ("error", "timed out", "None"),
        ("error", 1, 0),
    ],
)
def test_failure_is_told_alike_by_text_and_number(label: str, bad: Any, good: Any) -> None:
    told = folded(requests_with(**{label: lambda at: good if at else bad}))
    assert (told["completed"], told["failed"]) == (7, 1)


@pytest.mark.parametrize("tick", [1.0, 1e3, 1e9])
def test_latencies_tell_the_unit_of_the_clock(tick: float) -> None:
    told = folded(requests_with(start=lambda at: at * tick / 2, end=lambda at: (at / 2 + 1.5) * tick))
    assert told["duration_s"] == pytest.approx(5.0)
    assert told["request throughput (req/s)"] == pytest.approx(1.6)


def test_a_clock_at_odds_with_the_latencies_gives_no_rate() -> None:
    assert "duration_s" not in folded(
        requests_with(start=lambda at: at * 10.0, end=lambda at: at * 10.0 + 37)
    )
    assert "duration_s" not in folded(requests_with(start=lambda at: at * 400))
