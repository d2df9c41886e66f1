"""Long traces: a run gets the part of the trace that it lasted for, from the samples in the store."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from ingest.intake import ingest
from ingest.sources import Source
from ingest.spans import LONG_S, nothing_kept, part_of_trace
from ingest.windows import Window, window
from kb.model import Telemetry
from kb.store import open_store
from kb.store.forget import forget_run
from kb.store.samples import samples_between
from kb.wire import reading_from_wire

HEADER = (
    "timestamp, index, name, utilization.gpu [%], memory.total [MiB], power.draw [W], "
    "clocks.current.sm [MHz]\n"
)
START = datetime(2026, 11, 30, 3, 0, 0)  # noqa: DTZ001 - nvidia-smi prints no zone


def trace(minutes: int, busy: range) -> str:
    """One GPU, a sample every two seconds; under load in the minutes of ``busy``."""
    rows = []
    for second in range(0, minutes * 60, 2):
        load = second // 60 in busy
        at = (START + timedelta(seconds=second)).strftime("%Y/%m/%d %H:%M:%S.000")
        told = f"{100 if load else 0} %, 143771 MiB, {500 if load else 90}.00 W, {1980 if load else 345} MHz"
        rows.append(f"{at}, 0, NVIDIA H200, {told}")
    return HEADER + "\n".join(rows) + "\n"


def taken(folder: Path, text: str) -> tuple[Path, str, Telemetry]:
    """(store, identity, telemetry) of a trace that was ingested."""
    (folder / "smi.csv").write_text(text)
    place = folder / "kb.duckdb"
    ingest([folder / "smi.csv"], place)
    with open_store(place) as store:
        import json

        ((identity, reading),) = store.rows("SELECT identity, reading FROM reading")
    telemetry = reading_from_wire(json.loads(reading)).telemetry
    assert telemetry is not None
    return place, identity, telemetry


def part(place: Path, identity: str, whole: Telemetry, lasted: Window | None) -> Telemetry:
    with open_store(place) as store:
        found = part_of_trace(identity, whole, lasted, partial(samples_between, store, least=50.0))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("first", "last", "power"),
    [
        ("2026-11-30T03:20:30", "2026-11-30T03:28:30", 500),
        ("2026-11-30T03:40:30", "2026-11-30T03:50:30", 90),
        ("2026-11-30T04:20:30+01:00", "2026-11-30T04:28:30+01:00", 500),
    ],
)
def test_a_run_gets_its_part(tmp_path: Path, first: str, last: str, power: float) -> None:
    place, identity, whole = taken(tmp_path, trace(60, range(20, 30)))
    found = part(place, identity, whole, window(first, last))
    assert 200 < found.samples < 400
    assert found.started is not None
    assert found.started[11:15] in ("03:2", "03:4")
    (gpu,) = found.gpus
    assert (gpu.index, gpu.name) == (0, "NVIDIA H200")
    assert gpu.metrics["power_w"]["mean"] == pytest.approx(power)
    assert gpu.metrics["memory_total_mib"]["max"] == 143771
    assert bool(gpu.busy["samples"]) == (power == 500)


@pytest.mark.parametrize(
    "lasted",
    [
        None,
        window("2026-11-29T03:00:00", "2026-11-29T03:10:00"),
        window("2026-11-30T02:00:00", "2026-11-30T05:10:00"),
    ],
)
def test_without_comparable_times_the_whole_trace_speaks(tmp_path: Path, lasted: Window | None) -> None:
    place, identity, whole = taken(tmp_path, trace(60, range(20, 30)))
    assert part(place, identity, whole, lasted) == whole


def test_a_short_trace_is_not_cut(tmp_path: Path) -> None:
    _, identity, whole = taken(tmp_path, trace(int(LONG_S / 60) - 1, range(2, 3)))
    assert part_of_trace(identity, whole, window("2026-11-30T03:02:00", None), nothing_kept) == whole


def counted(place: Path) -> list[tuple[int, float]]:
    with open_store(place) as store:
        return store.rows(
            "SELECT count(*), avg(power_w) FROM sample JOIN source USING (trace) GROUP BY trace"
        )


def test_samples_follow_their_file(tmp_path: Path) -> None:
    place, *_ = taken(tmp_path, trace(20, range(10)))
    assert counted(place) == [(600, 295.0)]
    ingest([tmp_path / "smi.csv"], place)
    assert counted(place) == [(600, 295.0)]
    with (tmp_path / "smi.csv").open("a") as stream:
        stream.write(trace(40, range(10)).partition("\n")[2])
    ingest([tmp_path / "smi.csv"], place)
    ((count, _),) = counted(place)
    assert count == 1800


def test_forgetting_the_last_run_forgets_the_samples(tmp_path: Path) -> None:
    place, identity, _ = taken(tmp_path, trace(20, range(10)))
    with open_store(place, write=True) as store:
        store.load("run", [{"run": "run:a", "site": str(tmp_path)}])
        store.load("run_source", [{"run": "run:a", "identity": identity}])
        assert forget_run(store, "run:a", None) == 1
        assert store.rows("SELECT count(*) FROM sample") == [(0,)]


def test_a_trace_that_only_counts_seconds_begins_in_1970(tmp_path: Path) -> None:
    text = "elapsed_s,gpu_util,power_w\n" + "".join(f"{at}.5,{at % 100},{100 + at}\n" for at in range(50))
    place, *_ = taken(tmp_path, text)
    with open_store(place) as store:
        told = store.rows("SELECT min(sampled_at)::VARCHAR, max(sampled_at)::VARCHAR FROM sample")
    assert told == [("1970-01-01 00:00:00.5", "1970-01-01 00:00:49.5")]


def test_a_source_carries_no_samples_unless_asked(tmp_path: Path) -> None:
    assert Source(tmp_path / "x.csv").samples is None


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "loop.jsonl",
            '{"time": "2026-03-01 08:00:00Z", "gpu": 1, "util": 97, "power": 5e2, "mem_used": 17179869184}',
            [("2026-03-01 08:00:00", 1, 97.0, 500.0, 16384.0)],
        ),
        (
            "loop.csv",
            "time,gpu,gpu_util,power_w,mem_used\n2026-03-01 10:00:00,1,97,500.5,17179869184\n",
            [("2026-03-01 10:00:00", 1, 97.0, 500.5, 16384.0)],
        ),
    ],
)
def test_samples_of_own_loops_are_in_our_units(
    tmp_path: Path, name: str, text: str, expected: list[tuple[object, ...]]
) -> None:
    (tmp_path / name).write_text(text)
    place = tmp_path / "kb.duckdb"
    ingest([tmp_path / name], place)
    with open_store(place) as store:
        columns = "sampled_at::VARCHAR, gpu, utilization_pct, power_w, memory_used_mib"
        assert store.rows(f"SELECT {columns} FROM sample ORDER BY sampled_at") == expected
