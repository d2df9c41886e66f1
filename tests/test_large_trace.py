"""Large traces: DuckDB and the line by line way tell the same of every sample, and keep the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from golden import cases, sample_of

from ingest import large_trace
from ingest.formats import nvidia_smi_csv, read_source
from ingest.gpu_csv import layout
from ingest.intake import ingest
from ingest.large_trace import form_of
from ingest.samples import Samples
from ingest.sources import Source
from kb.model import Reading
from kb.store import Store, loading, open_store
from kb.store.loading import Loader
from kb.store.samples import put_samples
from kb.wire import telemetry_to_wire

SAMPLES = [sample_of(case) for case in cases({"nvidia_smi_csv"})]
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
    path: Path, monkeypatch: pytest.MonkeyPatch, part_bytes: int = 12 << 20
) -> tuple[Reading, Reading, list[list[tuple[Any, ...]]]]:
    """(large, plain, the samples that each kept)."""
    monkeypatch.setattr(large_trace, "PART_BYTES", part_bytes)
    readings, kept = [], []
    for limit in (0, 1 << 40):
        monkeypatch.setattr(nvidia_smi_csv, "LARGE_BYTES", limit)
        source = Source(path)
        folder = path.parent / f"kept-{limit}"
        folder.mkdir()
        with open_store(folder / "kb.duckdb", write=True) as store:
            with store.transaction():
                source.samples = Samples(folder, 7, store)
                readings.append(read_source(source))
                assert limit == 0 or not source.samples.loaded
                put_samples(store, source.samples.close())
            kept.append(sorted(store.rows("SELECT * FROM sample"), key=repr))
    return readings[0], readings[1], kept


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
        TROUBLE * 300 + "cut, 1, NVID\n\n" + TROUBLE * 5,
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
    large, plain, kept = both(path, monkeypatch, part_bytes=20_000)
    assert_same(large, plain)
    assert kept[0] == kept[1]
    assert len(kept[0]) == plain.telemetry.rows  # type: ignore[union-attr]


@pytest.mark.parametrize(("end", "units"), [("\r\n", True), ("\n", False)])
def test_other_writings_tell_the_same(
    end: str, units: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(rows(end=end, units=units).encode())
    large, plain, kept = both(path, monkeypatch, part_bytes=50_000)
    assert_same(large, plain)
    assert kept[0] == kept[1]
    assert kept[0][0][4] == 0.0
    assert kept[0][0][-1] == 4


ODD = b"2026/03/01 11:40:00.000, 0, NVIDIA H200, [N/A], 12.5, [Not Supported], 0x0, Active\n"


@contextmanager
def loader_of(folder: Path) -> Iterator[tuple[Store, Loader, bytes]]:
    """A store, a loader of one trace into it, and the rows of that trace."""
    found = layout(rows())
    form = form_of(found) if found else None
    assert form is not None
    body = rows().partition("\n")[2].encode()
    with open_store(folder / "kb.duckdb", write=True) as store, store.transaction():
        yield store, Loader(store, 7, form, len(body), folder), body


def load(loader: Loader, *rows: bytes) -> tuple[int, list[int]]:
    for some in rows:
        loader.add(some)
    return loader.load()


def test_refused_cells_are_foreseen_and_make_parts_smaller(tmp_path: Path) -> None:
    with loader_of(tmp_path) as (_, loader, body):
        assert (loader.add(body), loader.add(ODD), loader.add(TROUBLE.encode())) == (0, 2, 5)
        assert loader.load() == (2002, [2000, 2001])
        assert (loader.add(ODD), loader.add(TROUBLE.encode())) == (0, 2)
        loader.load()
        loader.finish()


def test_cells_without_a_value_are_refused_until_they_were_seen(tmp_path: Path) -> None:
    with loader_of(tmp_path) as (store, loader, body):
        assert load(loader, body + ODD) == (2001, [2000])
        assert load(loader, body, ODD) == (2001, [])
        assert store.rows("SELECT count(*), count(utilization_pct), count(sm_clock_mhz) FROM sample") == [
            (4001, 4000, 4000)
        ]
        loader.finish()


def test_duckdb_loads_what_it_can_and_names_what_is_no_row(tmp_path: Path) -> None:
    with loader_of(tmp_path) as (store, loader, body):
        assert load(loader, body) == (2000, [])
        assert load(loader, body + TROUBLE.encode()[:9], TROUBLE.encode()[9:] + b"cut, 1\n" + body) == (
            4002,
            [2000, 2001],
        )
        tallies = loader.tallies()
        loader.finish()
        assert store.rows("SELECT count(*) FROM sample") == [(6000,)]
    assert sum(one.sums.rows for one in tallies if one.metric == "power_w") == 6000
    assert sum(sum(one.times) for one in tallies if one.metric == "power_w") == 6000


def test_a_file_of_odd_lines_is_left_to_the_other_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(rows().replace(" W,", " mW,"), "utf-8")
    monkeypatch.setattr(nvidia_smi_csv, "LARGE_BYTES", 0)
    source = Source(path)
    with open_store(tmp_path / "kb.duckdb", write=True) as store, store.transaction():
        source.samples = Samples(tmp_path, 7, store)
        reading = read_source(source)
        assert not source.samples.loaded
        assert store.rows("SELECT count(*) FROM sample") == [(0,)]
    assert reading.telemetry is not None
    assert reading.telemetry.gpus[0].metrics["power_w"]["min"] == pytest.approx(0.1005, abs=1e-3)


def test_a_large_trace_is_taken_in_once_and_follows_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (large_trace, nvidia_smi_csv):
        monkeypatch.setattr(module, "LARGE_BYTES", 0)
    (tmp_path / "logs").mkdir()
    path, place = tmp_path / "logs" / "trace.csv", tmp_path / "kb.duckdb"
    path.write_text(rows("cut, 1, NVID\n"), "utf-8")
    fates = []
    for _ in range(2):
        fates.append(dict(ingest([path.parent], place).fates))
        assert samples(place) == [(2000, 1)]
    path.write_text(rows("cut, 1, NVID\n") + rows().partition("\n")[2], "utf-8")
    fates.append(dict(ingest([path.parent], place).fates))
    assert samples(place) == [(4000, 1)]
    (tmp_path / "logs" / "again").mkdir()
    (tmp_path / "logs" / "again" / "trace.csv").write_bytes(path.read_bytes())
    fates.append(dict(ingest([path.parent], place).fates))
    assert samples(place) == [(4000, 1)]
    assert fates == [{"new": 1}, {"known": 1}, {"grown": 1}, {"known": 1, "new": 1}]


def samples(place: Path) -> list[tuple[int, int]]:
    with open_store(place) as store:
        return store.rows("SELECT count(*), count(DISTINCT trace) FROM sample JOIN source USING (trace)")


def test_the_median_of_a_large_file_comes_from_a_part_of_its_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trace.csv"
    lines = rows().splitlines(keepends=True)
    path.write_text(lines[0] + "".join(lines[1:]) * 20, "utf-8")
    monkeypatch.setattr(loading, "COUNTED_BYTES", path.stat().st_size // 4)
    large, plain, _ = both(path, monkeypatch, part_bytes=1_000_000)
    (one, medians), (other, exact) = told(large), told(plain)
    assert one[0]["rows"] == other[0]["rows"] == 40_000
    for mine, theirs in zip(one[0]["gpus"], other[0]["gpus"], strict=True):
        assert mine["metrics"] == theirs["metrics"]
        assert mine["busy"] == pytest.approx(theirs["busy"], rel=0.05, abs=0.05)
    assert medians == pytest.approx(exact, rel=0.05)
