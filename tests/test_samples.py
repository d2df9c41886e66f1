"""Samples: what any format tells of a GPU, sample by sample, is in the store as it is in the summary."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ingest.formats import read_source
from ingest.samples import Samples
from ingest.sources import Source
from kb.store import open_store
from kb.store.samples import put_samples

FOLDER = Path(__file__).parent / "formats"
SUMMARIES = {"gpu_summary_json"}  # their samples are gone
FIGURES = {"power_w", "utilization_pct", "memory_used_mib", "temperature_c", "sm_clock_mhz"}


def traces() -> list[Path]:
    """Every golden input that tells of samples of GPUs."""
    found = []
    for expected in sorted(FOLDER.glob("*/*.expected.json")):
        told = json.loads(expected.read_text("utf-8"))
        if (told.get("telemetry") or {}).get("gpus") and expected.parent.name not in SUMMARIES:
            stem = expected.name.removesuffix(".expected.json")
            found += [
                one for one in expected.parent.glob(f"{stem}.*") if not one.name.endswith(".expected.json")
            ]
    return found


@pytest.mark.parametrize("path", traces(), ids=lambda one: f"{one.parent.name}-{one.stem}")
def test_every_format_keeps_the_samples_that_it_sums_up(path: Path, tmp_path: Path) -> None:
    source = Source(path)
    source.samples = Samples(tmp_path, 7)
    reading = read_source(source)
    if reading.status == "refused":
        pytest.skip("needs the user's help")
    assert reading.telemetry is not None
    with open_store(tmp_path / "kb.duckdb", write=True) as store:
        put_samples(store, source.samples.close())
        for gpu in (one for one in reading.telemetry.gpus if one.index is not None):
            for metric in FIGURES & gpu.metrics.keys():
                ends = f"SELECT min({metric}), max({metric}) FROM sample WHERE gpu = ?"
                told = gpu.metrics[metric]
                assert store.rows(ends, [gpu.index])[0] == pytest.approx((told["min"], told["max"]), rel=1e-3)
        ((rows,),) = store.rows("SELECT count(*) FROM sample")
    assert rows == sum(gpu.samples for gpu in reading.telemetry.gpus)


def test_a_row_that_lacks_its_first_cell_is_not_read_one_to_the_left() -> None:
    text = "index,timestamp,power_w,util_pct,extra\n" + "".join(
        f"2026/05/03 12:00:0{second}.000,0,33{second},90\n" for second in range(4)
    )
    assert not read_source(Source(Path("loop.csv"), text.encode())).telemetry
