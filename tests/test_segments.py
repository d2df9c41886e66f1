"""Long traces: a run gets the part of the trace that it lasted for."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from ingest.pipeline import read
from ingest.segments import part_of_trace
from ingest.sources import Source
from ingest.windows import window

HEADER = "timestamp, index, name, utilization.gpu [%], power.draw [W], clocks.current.sm [MHz]\n"
START = datetime(2026, 11, 30, 3, 0, 0)  # noqa: DTZ001 - nvidia-smi prints no zone


def trace(minutes: int, busy: range) -> str:
    """One GPU, a sample every two seconds; under load in the minutes of ``busy``."""
    rows = []
    for second in range(0, minutes * 60, 2):
        load = second // 60 in busy
        at = (START + timedelta(seconds=second)).strftime("%Y/%m/%d %H:%M:%S.000")
        rows.append(f"{at}, 0, NVIDIA H200, {100 if load else 0} %, {500 if load else 90}.00 W, 1980 MHz")
    return HEADER + "\n".join(rows) + "\n"


@pytest.fixture
def long_trace(tmp_path: Path) -> Source:
    path = tmp_path / "smi.csv"
    path.write_text(trace(60, range(20, 30)))
    return Source(path)


def test_a_long_trace_is_kept_in_segments(long_trace: Source) -> None:
    reading = read(long_trace)
    segments = reading.extra["segments"]
    assert reading.telemetry is not None
    assert sum(one["samples"] for one in segments) == reading.telemetry.samples == 1800
    assert 55 <= len(segments) <= 60


@pytest.mark.parametrize(
    ("first", "last", "power"), [("03:20:30", "03:28:30", 500), ("03:40:30", "03:50:30", 90)]
)
def test_a_run_gets_its_part(long_trace: Source, first: str, last: str, power: float) -> None:
    lasted = window(f"2026-11-30T{first}", f"2026-11-30T{last}")
    part = part_of_trace(read(long_trace), lasted)
    assert part is not None
    assert part.samples < 400
    (gpu,) = part.gpus
    assert gpu.name == "NVIDIA H200"
    assert gpu.metrics["power_w"]["mean"] == pytest.approx(power, rel=0.12)
    assert bool(gpu.busy) == (power == 500)


def test_without_times_the_whole_trace_speaks(long_trace: Source) -> None:
    reading = read(long_trace)
    assert part_of_trace(reading, None) == reading.telemetry


def test_a_short_trace_is_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "smi.csv"
    path.write_text(trace(5, range(2, 3)))
    assert "segments" not in read(Source(path)).extra
