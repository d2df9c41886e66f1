"""Large traces: DuckDB's counts and the line by line way tell the same of every sample."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest import large_trace
from ingest.formats import read_source
from ingest.gpu_csv import layout
from ingest.sources import Source
from kb.model import Reading
from kb.store.cells import CellCounter
from kb.wire import telemetry_to_wire

SAMPLES = sorted((Path(__file__).parent / "formats" / "nvidia_smi_csv").glob("*.csv"))


def told(reading: Reading) -> object:
    assert reading.telemetry is not None
    problems = sorted((one.line or 0, one.what) for one in reading.problems)
    return telemetry_to_wire(reading.telemetry), reading.experiments, reading.lines, reading.status, problems


def both(path: Path, monkeypatch: pytest.MonkeyPatch, slice_bytes: int = 4 << 20) -> tuple[Reading, Reading]:
    plain = read_source(Source(path))
    monkeypatch.setattr(large_trace, "LARGE_BYTES", 0)
    monkeypatch.setattr(large_trace, "SLICE_BYTES", slice_bytes)
    return plain, read_source(Source(path))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda one: one.stem)
def test_a_sample_tells_the_same_both_ways(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, large = both(path, monkeypatch)
    assert told(large) == told(plain)


def rows(odd: str = "") -> str:
    header = "timestamp, index, name, utilization.gpu [%], power.draw [W], clocks_event_reasons.active\n"
    lines = [
        f"2026/03/01 {at // 60:02d}:{at % 60:02d}:00.000, {gpu}, NVIDIA H200, {(at * 7 + gpu) % 101} %, "
        f"{100 + at % 300}.5{gpu} W, 0x000000000000000{4 * (at % 3 == 0)}\n"
        for at in range(1000)
        for gpu in range(2)
    ]
    lines[700] = lines[700] + odd
    return header + "".join(lines)


@pytest.mark.parametrize(
    "odd",
    [
        "",
        "cut, 1, NVID\n",
        "2026/03/01 11:40:00.000, 0, NVIDIA H200, [GPU is lost], [Unknown Error], [N/A]\n",
        "2026/03/01 11:40:00.000, 0, NVIDIA H200, 50, 0.2 kW, 0x0\n",
        "\n",
    ],
)
def test_slices_together_are_the_whole(odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(rows(odd), "utf-8")
    plain, large = both(path, monkeypatch, slice_bytes=20_000)
    assert told(large) == told(plain)
    segments = large.extra["segments"]
    assert len(segments) > 3
    assert sum(one["rows"] for one in segments) == plain.telemetry.rows  # type: ignore[union-attr]


def test_duckdb_counts_what_it_can_and_refuses_what_is_no_row() -> None:
    found = layout(rows())
    assert found is not None
    cells = large_trace.counts_of(found)
    assert cells is not None
    body = rows().partition("\n")[2].encode()
    with CellCounter(cells) as counter:
        counts = counter.count(body)
        assert counter.count(body + b"cut, 1\n") is None
    assert counts is not None
    assert sum(sum(times) for _, _, at, _, times in counts if at == cells.load) == 2000
