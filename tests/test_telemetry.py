"""Named states of GPUs: each shows on the trace that it is named for, and not on its neighbours'."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.formats import read_source
from ingest.gpu_columns import recognise_column
from ingest.sources import Source
from ingest.tally import Cards, Histogram
from ingest.telemetry import diagnose_trace, quantities
from ingest.traces import iso_time, seconds_between, telemetry_of
from kb.model import Telemetry
from kb.vocab.conditions import rules

SAMPLES = Path(__file__).parent / "formats"


def trace(*phases: tuple[int, dict[str, float]], reasons: dict[str, int] | None = None) -> Telemetry:
    """One GPU: (number of samples, their values) a phase."""
    cards = Cards(None)
    for count, sample in phases:
        for _ in range(count):
            cards.add("0", sample, reasons, index=0)
    return telemetry_of(cards.by_key.values())


def names(found: Telemetry, tokens: bool | None = None, limit: float | None = None) -> list[str]:
    return [one.name for one in diagnose_trace(found, tokens, limit)]


HEAD = (50, {"utilization_pct": 0.0, "power_w": 20.0, "sm_clock_mhz": 180.0, "power_limit_w": 600.0})
# The figures of a write-up: GLM-5 at 64 concurrent requests on RTX PRO 6000.
UNDERFED = (40, {"utilization_pct": 100.0, "power_w": 330.0, "sm_clock_mhz": 2422.0, "power_limit_w": 600.0,
                 "sm_clock_max_mhz": 2430.0})  # fmt: skip
SPIN = (40, {"utilization_pct": 100.0, "power_w": 115.0, "sm_clock_mhz": 2400.0, "power_limit_w": 600.0})
FULL = (40, {"utilization_pct": 99.0, "power_w": 596.0, "sm_clock_mhz": 2100.0, "power_limit_w": 600.0})
FED = (40, {"utilization_pct": 98.0, "power_w": 470.0, "sm_clock_mhz": 1980.0, "power_limit_w": 700.0})


def test_busy_but_underfed_is_of_the_busy_part_alone() -> None:
    found = trace(HEAD, UNDERFED, HEAD)
    (condition,) = diagnose_trace(found, tokens_flowing=True)
    assert condition.name == "busy-but-underfed"
    assert condition.values["power_share_pct"] == 55.0
    assert condition.values["clock_share_pct"] == pytest.approx(99.67, abs=0.01)
    assert "330 W" in condition.text
    assert "does not tell" not in condition.text


def test_without_tokens_the_same_power_is_no_underfed_server() -> None:
    assert names(trace(UNDERFED), tokens=False) == []
    assert "does not tell" in diagnose_trace(trace(UNDERFED))[0].text


def test_spin_hang_needs_that_no_tokens_flow() -> None:
    assert names(trace(HEAD, SPIN), tokens=False) == ["spin-hang"]
    assert names(trace(HEAD, SPIN), tokens=True) == []


def test_limit_from_elsewhere_decides_where_the_trace_has_none() -> None:
    found = trace((40, {"utilization_pct": 100.0, "power_w": 115.0}))
    assert names(found, tokens=False) == []
    assert names(found, tokens=False, limit=600.0) == ["spin-hang"]


def test_power_capped_by_draw_or_by_reason() -> None:
    assert names(trace(FULL), tokens=True) == ["power-capped"]
    assert names(trace(FED, reasons={"sw_power_cap": 1}), tokens=True) == ["power-capped"]


def test_heat() -> None:
    assert names(trace(FED, reasons={"hw_thermal_slowdown": 1}), tokens=True) == ["thermally-throttled"]


def test_throttling_speaks_against_underfed() -> None:
    assert "busy-but-underfed" not in names(trace(UNDERFED, reasons={"sw_thermal_slowdown": 1}), tokens=True)


def test_well_fed_server_shows_nothing() -> None:
    assert names(trace(HEAD, FED, HEAD), tokens=True) == []


def test_memory_full() -> None:
    sample = {"utilization_pct": 98.0, "memory_used_mib": 97200.0, "memory_total_mib": 97887.0}
    assert names(trace((10, sample))) == ["memory-full"]
    assert names(trace((10, sample | {"memory_used_mib": 90000.0}))) == []


def test_idle_card_at_full_clocks_is_no_load() -> None:
    idle = (60, {"utilization_pct": 0.0, "power_w": 131.0, "sm_clock_mhz": 1980.0, "power_limit_w": 700.0})
    assert names(trace((5, {"utilization_pct": 0.0, "power_w": 83.0, "sm_clock_mhz": 345.0}), idle)) == [
        "idle-at-full-clocks"
    ]
    # One clock throughout may be its lowest: nothing is said.
    assert names(trace(idle)) == []


def test_straggler_by_clock() -> None:
    cards = Cards(None)
    for index, clock in enumerate((1980.0, 1975.0, 1500.0, 1980.0)):
        for _ in range(10):
            cards.add(str(index), {"utilization_pct": 99.0, "sm_clock_mhz": clock}, index=index)
    found = telemetry_of(cards.by_key.values())
    assert [(one.name, one.gpu) for one in found.conditions] == [("straggler", 2)]


def test_h200_recordings() -> None:
    idle = read_source(Source(SAMPLES / "nvidia_smi_csv" / "h200-idle-at-full-clocks.csv")).telemetry
    served = read_source(Source(SAMPLES / "nvidia_smi_csv" / "h200-served.csv")).telemetry
    assert idle is not None
    assert served is not None
    assert [one.name for one in idle.conditions] == ["idle-at-full-clocks"]
    assert names(served, tokens=True) == []


def test_rules_ask_only_for_quantities_that_exist() -> None:
    found = trace(HEAD, UNDERFED, reasons={"sw_power_cap": 0, "hw_thermal_slowdown": 0})
    full = quantities(found.gpus[0], found.gpus)
    known = full.keys() | {"clock_of_peers_pct", "utilization_of_peers_points", "memory_share_pct"}
    asked = {test.quantity for rule in rules() for test in (*rule.needs, *rule.unless)}
    assert asked <= known


def test_histogram_stays_small_and_exact_at_its_ends() -> None:
    found = Histogram()
    for at in range(30_000):
        found.add({at / 7: 1})
    stats = found.stats()
    assert len(found.counts) <= 4097
    assert (stats["min"], stats["max"]) == (0.0, pytest.approx(29_999 / 7, abs=1e-3))
    assert stats["mean"] == pytest.approx(29_999 / 14, rel=1e-6)
    assert stats["p50"] == pytest.approx(29_999 / 14, rel=5e-3)


@pytest.mark.parametrize(
    ("name", "role", "gpu"),
    [
        ("utilization.gpu [%]", "utilization_pct", None),
        ("gpu [%]", "utilization_pct", None),
        ("gpu", "index", None),
        ("power_draw_watts", "power_w", None),
        ("Max Graphics Package Power (W)", "power_limit_w", None),
        ("gpu_mem_used:3", "memory_used_mib", 3),
        ("GPU0 Temp (C)", "temperature_c", 0),
        ("memoryUsedMiB", "memory_used_mib", None),
        ("clocks_event_reasons.sw_power_cap", "throttle:sw_power_cap", None),
        ("cpu_usage", "other", None),
        ("kv_cache_usage", "other", None),
        ("mean_ttft_ms", "other", None),
        ("host_time", "time", None),
        ("gpu_time", "other", None),
        ("relative_time", "elapsed", None),
        ("start_time", "other", None),
        ("index_gpu", "index", None),
        ("fan_pct", "fan_pct", None),
        ("fan_speed_rpm", "other", None),
        ("mem", "memory_utilization_pct", None),
        ("mem [MiB]", "memory_used_mib", None),
        ("gpu (W)", "power_w", None),
        ("system.gpu.1.gpu", "utilization_pct", 1),
        ("gpu.1.memoryAllocated", "other", None),
    ],
)
def test_columns_by_name(name: str, role: str, gpu: int | None) -> None:
    column = recognise_column(name)
    assert (column.role, column.gpu) == (role, gpu)


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("2026/03/01 12:34:56.906", "2026-03-01T12:34:56.906"),
        ("2026-05-01T10:00:00Z", "2026-05-01T10:00:00+00:00"),
        ("Sun Mar  1 12:34:56 2026", "2026-03-01T12:34:56"),
        ("20260301 12:34:56", "2026-03-01T12:34:56"),
        ("1772368496", "2026-03-01T12:34:56+00:00"),
        ("12:34:56", None),
        ("10", None),
        ("2026/13/45 99:99:99", None),
    ],
)
def test_times(text: str, iso: str | None) -> None:
    assert iso_time(text) == iso


def test_span_of_impossible_times_is_unknown() -> None:
    assert seconds_between("2026/13/45 99:99:99", "2026/13/45 99:99:99") is None
    assert seconds_between("12:34:56", "12:35:06") == 10.0


def test_a_line_of_blanks_between_rows_is_no_trouble() -> None:
    text = (
        "timestamp,gpu,util_pct,power_w\n2026-03-01 12:00:00,0,50,100\n\t\n \n2026-03-01 12:00:01,0,60,100\n"
    )
    reading = read_source(Source(Path("trace.csv"), text.encode()))
    assert (reading.status, reading.problems) == ("parsed", ())
