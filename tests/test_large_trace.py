"""Large traces: DuckDB and the line by line way tell the same of every sample, and keep the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingest import large_trace
from ingest.formats import nvidia_smi_csv, read_source
from ingest.gpu_csv import layout
from ingest.large_trace import form_of
from ingest.samples import Samples
from ingest.sources import Source
from kb.model import Reading
from kb.store import open_store
from kb.store.samples import put_samples
from kb.store.slices import SliceReader
from kb.wire import telemetry_to_wire

SAMPLES = sorted((Path(__file__).parent / "formats" / "nvidia_smi_csv").glob("*.csv"))
TROUBLE = "2026/03/01 11:40:00.000, 0, NVIDIA H200, [GPU is lost], [Unknown Error], [N/A], [N/A], [N/A]\n"


def told(reading: Reading) -> tuple[Any, ...]:
    """What a reading tells; medians are told apart, since large traces have them to about three digits."""
    assert reading.telemetry is not None
    problems = sorted((one.line or 0, one.what) for one in reading.problems)
    wire = telemetry_to_wire(reading.telemetry)
    medians = [
        stats.pop("p50") for gpu in wire["gpus"] for stats in gpu["metrics"].values() if "p50" in stats
    ]
    return (wire, reading.experiments, reading.lines, reading.status, problems), medians


def assert_same(large: Reading, plain: Reading) -> None:
    (one, medians), (other, exact) = told(large), told(plain)
    assert one == other
    assert medians == pytest.approx(exact, rel=2e-3, abs=0.3)


def both(
    path: Path, monkeypatch: pytest.MonkeyPatch, slice_bytes: int = 12 << 20
) -> tuple[Reading, Reading, list[list[tuple[Any, ...]]]]:
    """(large, plain, the samples that each kept)."""
    monkeypatch.setattr(large_trace, "SLICE_BYTES", slice_bytes)
    readings, kept = [], []
    for limit in (0, 1 << 40):
        monkeypatch.setattr(nvidia_smi_csv, "LARGE_BYTES", limit)
        source = Source(path)
        folder = path.parent / f"kept-{limit}"
        folder.mkdir()
        source.samples = Samples(folder, 7)
        readings.append(read_source(source))
        kept.append(stored(folder / "kb.duckdb", source.samples.close()))
    return readings[0], readings[1], kept


def stored(place: Path, files: tuple[str, ...]) -> list[tuple[Any, ...]]:
    with open_store(place, write=True) as store:
        put_samples(store, files)
        return sorted(store.rows("SELECT * FROM sample"), key=repr)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda one: one.stem)
def test_a_sample_tells_the_same_both_ways(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    large, plain, kept = both(copy, monkeypatch)
    assert_same(replace(large, path=""), replace(plain, path=""))
    assert kept[0] == kept[1] != []


def rows(odd: str = "", end: str = "\n", units: bool = True) -> str:
    header = (
        "timestamp, index, name, utilization.gpu [%], power.draw [W], clocks.current.sm [MHz], "
        "clocks_event_reasons.active, clocks_event_reasons.sw_power_cap"
    )
    lines = [
        f"2026/03/01 {at // 60:02d}:{at % 60:02d}:00.000, {gpu}, NVIDIA H200, {(at * 7 + gpu) % 101} %, "
        f"{100 + at % 300}.5{gpu} W, {1980 - at % 7} MHz, 0x000000000000000{4 * (at % 3 == 0)}, "
        f"{'Active' if at % 3 == 0 else 'Not Active'}"
        for at in range(1000)
        for gpu in range(2)
    ]
    text = end.join([header, *lines[:700]]) + end + odd + end.join(lines[700:]) + end
    return text if units else text.replace(" %,", ",").replace(" W,", ",").replace(" MHz,", ",")


@pytest.mark.parametrize(
    "odd",
    [
        "",
        "cut, 1, NVID\n",
        TROUBLE,
        "2026/03/01 11:40:00.000, 0, NVIDIA H200, 50, 0.2 kW, 1980 MHz, 0x0, Active\n",
        "2026/03/01 11:40:00.000, 1, NVIDIA H200, [N/A], 12.5, [Not Supported], 0x00000000000000B4, [N/A]\n",
        "2026/03/01 11:40:00.000, , , , , , , \n",
        "2026/03/01 11:40:00.000, 2, NVIDIA H200, 2147483647 %, 12.5 W, 1980 MHz, 0x0, Active\n",
        rows().partition("\n")[0] + "\n",
        "\n",
    ],
)
def test_slices_together_are_the_whole(odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(rows(odd), "utf-8")
    large, plain, kept = both(path, monkeypatch, slice_bytes=20_000)
    assert_same(large, plain)
    assert kept[0] == kept[1]
    assert len(kept[0]) == plain.telemetry.rows  # type: ignore[union-attr]


@pytest.mark.parametrize(("end", "units"), [("\r\n", True), ("\n", False)])
def test_other_writings_tell_the_same(
    end: str, units: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(rows(end=end, units=units).encode())
    large, plain, kept = both(path, monkeypatch, slice_bytes=50_000)
    assert_same(large, plain)
    assert kept[0] == kept[1]
    assert kept[0][0][4] == 0.0
    assert kept[0][0][-1] == 4


def test_duckdb_reads_what_it_can_and_refuses_what_is_no_row() -> None:
    found = layout(rows())
    assert found is not None
    form = form_of(found)
    assert form is not None
    body = rows().partition("\n")[2].encode()
    with SliceReader(form) as reader:
        told = reader.read(body)
        assert reader.read(body + b"cut, 1\n") is None
    assert told is not None
    assert sum(one.rows for one in told if one.metric == "power_w") == 2000
    assert sum(one.n for one in told if one.metric == "power_w") == 2000
