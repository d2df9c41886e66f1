"""The commands that read and correct, from the outside: ingest, runs, show, compare, export, sql, doctor."""

from __future__ import annotations

import gzip
import io
import json
import shutil
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from kb.cli import main

DEMO = Path(__file__).parent / "data" / "demo" / "runs"
SGLANG_OK = "sglang-0.5.11_h200_qwen3-1p4b_attn-default-nopcg_02"
SGLANG_CRASH = "sglang-0.5.11_h200_qwen3-1p4b_attn-default_01"
VLLM_OK = "vllm-0.21.0_h200_qwen3-1p4b_attn-triton_01"
MOE_OK = "vllm-0.21.0_h200_qwen3moe-2p6b-32e_moe-triton_01"
REFUSED = "vllm-0.21.0_h200_qwen3moe-2p6b-32e_moe-bf16-flashinfer_trtllm_01"
OOM = "vllm-0.21.0_h200_llama-70b-shape_oom-weights_01"
ENDINGS = {
    SGLANG_OK: ("ok", "load_test"),
    SGLANG_CRASH: ("crash", "warmup"),
    VLLM_OK: ("ok", "load_test"),
    MOE_OK: ("ok", "load_test"),
    REFUSED: ("refused", "load"),
    OOM: ("oom", "kv_cache"),
}


class Kbctl:
    """The command line with a store of its own, in this process."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.stderr = ""

    def __call__(self, *words: str | Path, code: int = 0, stdin: str = "") -> str:
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setenv("KBCTL_STORE", str(self.store))
            patch.setenv("COLUMNS", "200")
            patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
            with pytest.raises(SystemExit) as ended:
                main([str(one) for one in words])
        self.stderr = err.getvalue()
        assert (ended.value.code or 0) == code, self.stderr + out.getvalue()
        return out.getvalue()

    def json(self, *words: str | Path) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self(*words, "--json"))
        return found

    def runs(self) -> dict[str, dict[str, Any]]:
        """folder of the anchor -> run."""
        found = self.json("runs")
        assert found["schema"] == "kbctl.runs/1"
        return {Path(one["sources"][0]).parent.name: one for one in found["runs"]}


@pytest.fixture
def kbctl(tmp_path: Path) -> Kbctl:
    return Kbctl(tmp_path / "store" / "kb.duckdb")


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Kbctl:
    """A store with the demo runs; tests must not change it."""
    found = Kbctl(tmp_path_factory.mktemp("full") / "kb.duckdb")
    found("ingest", DEMO)
    return found


def test_every_demo_folder_is_one_run_with_its_ending(full: Kbctl) -> None:
    runs = full.runs()
    assert {name: (one["effect"], one["stage"]) for name, one in runs.items()} == ENDINGS
    assert all(one["gpu"] == "NVIDIA H200" and one["gpu_count"] == 1 for one in runs.values())
    measured = {
        m["workload"]["concurrency"] for m in runs[VLLM_OK]["measurements"] if m["client"] != "server-log"
    }
    assert measured == {1, 16, 64}
    assert len([m for m in runs[VLLM_OK]["measurements"] if m["client"] != "server-log"]) == 3
    assert runs[VLLM_OK]["resolved"]["attention.decode"] == "triton"
    assert runs[SGLANG_OK]["telemetry"]["samples"] > 50


def test_a_second_ingest_adds_nothing(full: Kbctl) -> None:
    report = full.json("ingest", DEMO)
    assert report["schema"] == "kbctl.ingest/1"
    assert report["runs"]["new"] == report["runs"]["changed"] == report["runs"]["gone"] == []
    assert report["sources"]["known"] == report["sources"]["total"]


def test_the_summary_says_what_was_read_and_what_is_next(kbctl: Kbctl, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "poem.txt").write_text("roses are red\n")
    shutil.copytree(DEMO / OOM, tmp_path / "logs" / OOM)
    told = kbctl("ingest", tmp_path / "logs")
    assert "1 oom" in told
    assert "poem.txt" in told
    assert "Next: kbctl runs" in told
    assert kbctl("ingest", "--quiet", tmp_path / "logs") == ""


def test_explain_says_how_each_source_was_joined(kbctl: Kbctl) -> None:
    told = kbctl("ingest", DEMO / VLLM_OK, "--explain")
    assert "bench_c16.json: named by the run's own record" in told
    assert "nvidia-smi.csv" in told


def test_a_grown_file_replaces_its_reading_and_keeps_its_run(kbctl: Kbctl, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    whole = (DEMO / OOM / "server.log").read_bytes()
    log.write_bytes(whole[: len(whole) // 3])
    kbctl("ingest", log)
    (before,) = kbctl.json("runs")["runs"]
    log.write_bytes(whole)
    report = kbctl.json("ingest", log)
    (after,) = kbctl.json("runs")["runs"]
    assert report["sources"]["grown"] == 1
    assert after["run"] == before["run"]
    assert (before["effect"], after["effect"]) != ("oom", "killed")
    assert after["effect"] == "oom"
    assert kbctl.json("sql", "SELECT count(*) FROM source")["rows"] == [[1]]


def test_another_log_at_the_same_path_is_another_run(kbctl: Kbctl, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    for name in (OOM, REFUSED):
        shutil.copy(DEMO / name / "server.log", log)
        kbctl("ingest", log)
    assert {one["effect"] for one in kbctl.json("runs")["runs"]} == {"oom", "refused"}


def test_a_copy_elsewhere_adds_no_run(kbctl: Kbctl, tmp_path: Path) -> None:
    for place in ("a", "backup"):
        shutil.copytree(DEMO / OOM, tmp_path / place)
        kbctl("ingest", tmp_path / place)
    assert len(kbctl.json("runs")["runs"]) == 1


def test_archives_globs_compression_and_stdin(kbctl: Kbctl, tmp_path: Path) -> None:
    shutil.make_archive(str(tmp_path / "packed"), "gztar", DEMO, OOM)
    (tmp_path / "refused.log.gz").write_bytes(gzip.compress((DEMO / REFUSED / "server.log").read_bytes()))
    kbctl("ingest", tmp_path / "packed.tar.gz")
    kbctl("ingest", str(tmp_path / "*.log.gz"))
    kbctl("ingest", "-", stdin=(DEMO / SGLANG_CRASH / "server.log").read_text())
    assert sorted(one["effect"] for one in kbctl.json("runs")["runs"]) == ["crash", "oom", "refused"]


def test_what_the_user_says_fills_what_no_file_tells(kbctl: Kbctl, tmp_path: Path) -> None:
    shutil.copy(DEMO / VLLM_OK / "bench_c16.json", tmp_path / "x.json")
    kbctl("ingest", tmp_path / "x.json")
    (before,) = kbctl.json("runs")["runs"]
    assert (before["gpu"], before["engine_version"], before["said"]) == (None, None, [])
    kbctl("ingest", tmp_path / "x.json", "--gpu", "h200", "--gpus", "1", "--engine", "vllm==0.21.0")
    (after,) = kbctl.json("runs")["runs"]
    assert (after["gpu"], after["arch"], after["engine_version"]) == ("NVIDIA H200", "sm90", "0.21.0")
    assert {"gpu", "arch", "gpu_count", "engine_version"} <= set(after["said"])
    kbctl("rebuild", "--all")
    assert kbctl.json("runs")["runs"] == [after]


def test_what_a_file_tells_stands_against_the_users_word(kbctl: Kbctl) -> None:
    kbctl("ingest", DEMO / OOM, "--gpu", "l40s")
    (run,) = kbctl.json("runs")["runs"]
    assert (run["gpu"], run["said"]) == ("NVIDIA H200", [])


def test_rebuild_keeps_what_is_gone_and_what_was_claimed(kbctl: Kbctl, tmp_path: Path) -> None:
    shutil.copytree(DEMO / OOM, tmp_path / "run")
    kbctl("ingest", tmp_path / "run")
    (before,) = kbctl.json("runs")["runs"]
    kbctl("invalidate", before["run"], "--reason", "wrong card")
    kbctl("note", before["run"], "ask Kim")
    shutil.rmtree(tmp_path / "run")
    kbctl("rebuild", "--all")
    (after,) = kbctl.json("runs")["runs"]
    assert (after["invalid"], after["notes"]) == ("wrong card", ["ask Kim"])
    assert {**after, "invalid": None, "notes": []} == before


def test_parse_says_of_a_file_only_what_it_tells(kbctl: Kbctl) -> None:
    formats = Path(__file__).parent / "formats"
    bench = kbctl("parse", formats / "vllm_bench_serve" / "recipes_deepseek_v3.txt")
    assert "measured [" in bench
    assert "unknown" not in bench
    log = kbctl("parse", formats / "vllm_server_log" / "written_disk_quota_while_compiling.log")
    assert "vllm 0.22.0 · Qwen/Qwen3-30B-A3B: crash at jit, blame environment" in log


def test_a_changed_parser_is_noticed(kbctl: Kbctl) -> None:
    kbctl("ingest", DEMO / OOM)
    import duckdb

    with duckdb.connect(kbctl.store) as base:
        base.execute("UPDATE source SET parser_version = 0 WHERE name = 'server.log'")
    assert kbctl.json("rebuild")["sources"] == {"total": 1, "reread": 1}
    assert kbctl.json("rebuild")["sources"] == {"total": 0}


def test_forgotten_is_forgotten(kbctl: Kbctl) -> None:
    kbctl("ingest", DEMO / OOM, DEMO / REFUSED)
    run = kbctl.runs()[OOM]["run"]
    kbctl("forget", run, "--reason", "private")
    assert set(kbctl.runs()) == {REFUSED}
    assert "llama-70b" not in kbctl("sql", "SELECT reading FROM reading")
    kbctl("ingest", DEMO / OOM)
    kbctl("rebuild", "--all")
    assert set(kbctl.runs()) == {REFUSED}


def test_unlink_and_link(kbctl: Kbctl) -> None:
    kbctl("ingest", DEMO / VLLM_OK)
    run = kbctl.runs()[VLLM_OK]["run"]
    for name in ("bench_c64.json", "bench_c64.txt"):
        kbctl("unlink", DEMO / VLLM_OK / name, run)
    found = kbctl.json("runs")["runs"]
    assert len(found) == 2
    for name in ("bench_c64.json", "bench_c64.txt"):
        kbctl("link", DEMO / VLLM_OK / name, run)
    (one,) = kbctl.json("runs")["runs"]
    assert any(how == "linked by the user" for _, how, _ in one["joined"])


def test_runs_can_be_filtered(full: Kbctl) -> None:
    assert len(full.json("runs", "--engine", "sglang")["runs"]) == 2
    assert len(full.json("runs", "--gpu", "h200", "--effect", "oom")["runs"]) == 1
    assert len(full.json("runs", "--model", "qwen3moe")["runs"]) == 2
    assert full.json("runs", "--gpu", "sm120")["runs"] == []
    table = full("runs")
    assert "oom at kv_cache" in table
    assert "13347" in table


def test_probes_of_other_backends_bear_out_a_run(full: Kbctl) -> None:
    runs = full.runs()
    assert runs[VLLM_OK]["answers"]["verdict"] == "agrees"
    assert runs[SGLANG_OK]["run"] in runs[VLLM_OK]["answers"]["detail"]
    assert runs[MOE_OK]["answers"]["verdict"] == "alone"
    assert "answers   agrees" in full("show", runs[VLLM_OK]["run"])


def test_an_interrupted_ingest_keeps_what_it_read(kbctl: Kbctl, monkeypatch: pytest.MonkeyPatch) -> None:
    from ingest import intake

    plain, count = intake.look_at, iter(range(100))

    def look(job: intake.Job) -> intake.Look:
        if next(count) == 5:
            raise KeyboardInterrupt
        return plain(job)

    monkeypatch.setattr(intake, "look_at", look)
    kbctl("ingest", DEMO / VLLM_OK, code=130)
    assert "stopped after 5 of" in kbctl.stderr
    assert kbctl.json("sql", "SELECT count(*) FROM source")["rows"] == [[5]]
    monkeypatch.undo()
    kbctl("ingest", DEMO / VLLM_OK)
    assert kbctl.runs()[VLLM_OK]["effect"] == "ok"


def test_show_takes_short_ids_and_tells_the_cause(full: Kbctl) -> None:
    run = full.runs()[OOM]["run"]
    told = full("show", run.removeprefix("run:")[:7])
    assert "No available memory for the cache blocks" in told
    assert full.json("show", run)["lines"][0]["role"] == "cause"
    full("show", "run:zzz", code=2)
    assert "kbctl runs" in full.stderr


def test_compare_shows_what_differs(full: Kbctl) -> None:
    runs = full.runs()
    found = full.json("compare", runs[SGLANG_OK]["run"], runs[VLLM_OK]["run"])
    assert found["differs"]["engine"] == ["sglang", "vllm"]
    assert found["differs"]["resolved.attention.decode"] == ["fa3", "triton"]
    assert len(found["points"]) == 3
    assert "second/first" in full("compare", runs[SGLANG_OK]["run"], runs[VLLM_OK]["run"])


def test_export_and_import_keep_runs_whole(full: Kbctl, kbctl: Kbctl, tmp_path: Path) -> None:
    full("export", "-o", tmp_path / "runs.json")
    kbctl("import", tmp_path / "runs.json")
    mine = {one["run"]: one for one in kbctl.json("runs")["runs"]}
    for one in full.json("runs")["runs"]:
        same = {name: value for name, value in one.items() if name not in ("sources", "joined", "answers")}
        assert {name: mine[one["run"]][name] for name in same} == same
    kbctl("import", DEMO / OOM / "run.json", code=2)


def test_importing_ones_own_runs_changes_nothing(kbctl: Kbctl, tmp_path: Path) -> None:
    kbctl("ingest", DEMO / OOM)
    before = kbctl.json("runs")
    kbctl("export", "-o", tmp_path / "runs.json")
    kbctl("import", tmp_path / "runs.json")
    assert kbctl.json("runs") == before


def test_an_anonymous_export_holds_no_place(full: Kbctl) -> None:
    told = full("export", "--anonymous")
    assert "What is kept and what is hidden" in full.stderr
    for secret in (str(DEMO), "/tmp/lab", "127.0.0.1", "demo/runs"):
        assert secret not in told
    runs = json.loads(told)["runs"]
    assert {one["effect"] for one in runs} == {"ok", "crash", "refused", "oom"}
    assert any(one["failure"] for one in runs)


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_tables_can_be_exported(full: Kbctl, tmp_path: Path, form: str) -> None:
    full("export", "--format", form, "-o", tmp_path / "out")
    assert sorted(one.name for one in (tmp_path / "out").iterdir()) == sorted(
        f"{name}.{form}" for name in ("run", "measurement", "trace", "evidence_line")
    )


def test_sql_reads_only_the_store(full: Kbctl) -> None:
    query = "SELECT effect FROM run WHERE engine = $engine ORDER BY effect"
    assert full.json("sql", query, "-p", "engine=sglang")["rows"] == [["crash"], ["ok"]]
    assert full("sql", "SELECT 1 AS one", "--csv") == "one\n1\n"
    for bad in ("DELETE FROM run", "SELECT * FROM read_csv('/etc/passwd')", "SELEKT", "ATTACH '/tmp/x.db'"):
        full("sql", bad, code=2)
    full("sql", "SELECT 1", "-p", "novalue", code=2)


def test_nothing_recorded_yet(kbctl: Kbctl) -> None:
    assert kbctl.json("runs") == {"schema": "kbctl.runs/1", "runs": []}
    kbctl("show", "run:a", code=3)
    kbctl("doctor")


def test_doctor_notices_a_stale_snapshot(kbctl: Kbctl) -> None:
    kbctl("ingest", DEMO / OOM)
    assert all(one["ok"] for one in kbctl.json("doctor")["checks"])
    kbctl.store.with_name("kb.duckdb.snapshot").unlink()
    kbctl("doctor", code=3)
    kbctl("rebuild")
    kbctl("doctor")


@pytest.mark.parametrize("words", [("ingest", "/no/such/folder"), ("parse", "/no/such/file")])
def test_a_missing_path_is_told(kbctl: Kbctl, words: tuple[str, ...]) -> None:
    kbctl(*words, code=2)
    assert words[1] in kbctl.stderr


def test_a_store_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    broken = Kbctl(tmp_path / "file" / "kb.duckdb")
    broken("ingest", DEMO / OOM, code=3)
    assert "--store" in broken.stderr


def test_secrets_do_not_reach_the_store(kbctl: Kbctl, tmp_path: Path) -> None:
    text = (DEMO / OOM / "server.log").read_text()
    token = "hf_" + "Ab1" * 12
    (tmp_path / "server.log").write_text(
        text.replace("'host': '127.0.0.1'", f"'host': '127.0.0.1', 'hf_token': '{token}'")
    )
    kbctl("ingest", tmp_path / "server.log")
    assert token not in kbctl.store.read_bytes().decode("latin-1")
    assert token not in kbctl("sql", "SELECT reading FROM reading")


def test_a_trace_without_a_header_needs_its_columns_named(kbctl: Kbctl, tmp_path: Path) -> None:
    rows = (DEMO / VLLM_OK / "nvidia-smi.csv").read_text().splitlines()
    bare = tmp_path / "smi.csv"
    bare.write_text("\n".join(rows[1:]) + "\n")
    assert "--columns" in kbctl("ingest", bare)
    assert kbctl.json("sql", "SELECT status FROM source")["rows"] == [["refused"]]
    names = ",".join(one.split("[")[0].strip() for one in rows[0].split(","))
    assert kbctl.json("ingest", bare, "--columns", names)["sources"] == {"total": 1, "reread": 1}
    kbctl("rebuild", "--all")
    assert kbctl.json("sql", "SELECT status FROM source")["rows"] == [["parsed"]]
    assert (
        json.loads(kbctl("parse", "--json", bare, "--columns", names))["telemetry"]["samples"]
        == len(rows) - 1
    )


def valid(answer: dict[str, Any], name: str) -> dict[str, Any]:
    jsonschema = pytest.importorskip("jsonschema")
    path = Path(__file__).parents[1] / "docs" / "schemas" / f"{name}.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(answer, schema)
    return answer


def test_json_keeps_its_schemas(full: Kbctl) -> None:
    runs = valid(full.json("runs"), "runs")["runs"]
    a, b = runs[0]["run"], runs[-1]["run"]
    valid(full.json("show", a), "show")
    valid(full.json("compare", a, b), "compare")
    valid(full.json("ingest", DEMO, "--explain"), "ingest")
    valid(full.json("sql", "SELECT run, started FROM run"), "sql")
    valid(full.json("doctor"), "doctor")
    valid(json.loads(full("export")), "export")
    valid(json.loads(full("export", "--anonymous")), "export")
    for line in full("parse", "--json", DEMO).splitlines():
        valid(json.loads(line), "parse")


def test_schemas_name_every_field_that_is_printed(full: Kbctl) -> None:
    folder = Path(__file__).parents[1] / "docs" / "schemas"
    run = json.loads((folder / "runs.json").read_text(encoding="utf-8"))["$defs"]["run"]
    assert set(run["properties"]) == set(full.json("runs")["runs"][0])
