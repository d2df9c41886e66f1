"""kbctl.toml in a folder: what the user says there, and how files are joined or kept apart."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ingest.intake import ingest
from kb.model import Experiment
from kb.store import open_store
from kb.store.runs import kept_runs

FORMATS = Path(__file__).parent / "formats"
LOG = FORMATS / "sglang_server_log" / "h200_healthy_stopped.log"


def result(path: Path, concurrency: int) -> None:
    lines = (FORMATS / "vllm_bench_serve_json" / "appended.json").read_text("utf-8").splitlines()
    one = {**json.loads(lines[0]), "max_concurrency": concurrency}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(one), "utf-8")


def runs(folder: Path, store: Path) -> list[Experiment]:
    ingest([folder], store)
    with open_store(store) as opened:
        return [one.experiment for one in kept_runs(opened)]


def test_what_a_folder_says_fills_what_files_lack_and_is_marked(tmp_path: Path) -> None:
    result(tmp_path / "in" / "bench_c8.json", 8)
    (tmp_path / "in" / "kbctl.toml").write_text(
        'gpu = "RTX 5090"\nengine = "vllm"\nengine_version = "0.11.0"\nmodel = "ignored/model"\n', "utf-8"
    )
    (run,) = runs(tmp_path / "in", tmp_path / "kb.duckdb")
    assert (run.hardware.arch, run.backend.engine_version) == ("sm120", "0.11.0")
    assert run.model.name == "example/Dense-8B"
    assert {"gpu", "arch", "engine_version"} <= set(run.said)
    assert "model" not in run.said
    assert any("kbctl.toml" in path for path, _, _ in run.joined)


def test_it_may_come_later_and_be_corrected(tmp_path: Path) -> None:
    place, store = tmp_path / "in", tmp_path / "kb.duckdb"
    result(place / "bench_c8.json", 8)
    assert runs(place, store)[0].hardware.gpu is None
    for gpu, arch in (("H200", "sm90"), ("RTX 5090", "sm120")):
        (place / "kbctl.toml").write_text(f'gpu = "{gpu}"\n', "utf-8")
        assert runs(place, store)[0].hardware.arch == arch


@pytest.mark.parametrize(("hint", "count"), [("", 1), ('separate = ["bench_*.json"]\n', 2)])
def test_separate_keeps_a_file_from_the_run_of_its_folder(hint: str, count: int, tmp_path: Path) -> None:
    place = tmp_path / "in"
    place.mkdir()
    shutil.copy(LOG, place / "server.log")
    one = {"max_concurrency": 4, "output_throughput": 10.0, "completed": 5, "duration": 3.0, "num_prompts": 5}
    result(place / "bench_c8.json", 8)
    told = json.loads((place / "bench_c8.json").read_text("utf-8"))
    told = {key: value for key, value in told.items() if key not in ("model_id", "date", "backend")}
    (place / "bench_c8.json").write_text(json.dumps({**told, **one}), "utf-8")
    (place / "kbctl.toml").write_text(hint, "utf-8")
    assert len(runs(place, tmp_path / "kb.duckdb")) == count


def test_join_names_the_log_that_a_file_belongs_to(tmp_path: Path) -> None:
    place = tmp_path / "in"
    result(place / "bench_c8.json", 8)
    for name in ("a", "b"):
        shutil.copy(LOG, place / f"{name}.log")
        (place / f"{name}.log").write_text(LOG.read_text("utf-8") + f"# {name}\n", "utf-8")
    (place / "kbctl.toml").write_text('join = { "bench_*.json" = "b.log" }\n', "utf-8")
    owners = [one.sources[0] for one in runs(place, tmp_path / "kb.duckdb") if len(one.sources) > 2]
    assert [Path(one).name for one in owners] == ["b.log"]


def test_a_file_that_is_no_toml_is_refused_with_the_line(tmp_path: Path) -> None:
    place = tmp_path / "in"
    result(place / "bench_c8.json", 8)
    (place / "kbctl.toml").write_text("gpu = H200\n", "utf-8")
    report = ingest([place], tmp_path / "kb.duckdb")
    assert "no TOML" in str(report.not_understood[0]["reason"])
