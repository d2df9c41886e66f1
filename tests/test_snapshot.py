"""The snapshot of own runs: folding, reading what is near, speed at 10,000 and 100,000 runs, imports."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kb import snapshot
from kb.errors import KbctlError
from kb.fold import fold, key_of
from kb.model import (
    Backend,
    Condition,
    Experiment,
    Failure,
    Hardware,
    Measurement,
    Model,
    Outcome,
    Telemetry,
    Tried,
)
from kb.store import open_store
from kb.store.claims import Claim, add_claims
from kb.store.publish import publish
from kb.store.runs import Assembled, put_runs

ARCHS = ("sm120", "sm121", "sm100", "sm90", "sm89", "sm80")
FAMILIES = ("glm5", "qwen3", "deepseek-v3", "llama3", "gpt-oss")


def run(number: int = 0, **changes: object) -> Experiment:
    point = Measurement(
        workload={"concurrency": 16, "input_len": 256}, metrics={"output_tok_s": 100.0 + number}
    )
    base = Experiment(
        run=f"run:{number:012x}",
        hardware=Hardware(gpu="RTX PRO 6000", arch="sm120", count=8),
        model=Model(name="x/GLM-5-NVFP4", family="glm5"),
        backend=Backend(
            engine="sglang", engine_version="0.5.14", settings={"tp_size": 8, "port": 30000 + number}
        ),
        outcome=Outcome(stage="load_test", effect="ok"),
        measurements=(point,),
        started=f"2026-11-{1 + number % 28:02d}T00:00:00",
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def many(count: int) -> Iterator[Experiment]:
    """Runs of up to 25,000 configurations."""
    for number in (at % 25_000 for at in range(count)):
        settings = {"tp_size": 8, "max_running_requests": number // 4, "attention_backend": f"b{number % 7}"}
        bad = Failure(signature="no-kernels-for-arch", text="no kernel image", cause="no code for this card")
        yield run(
            number,
            hardware=Hardware(gpu=ARCHS[number % 6], arch=ARCHS[number % 6], count=8),
            model=Model(name=FAMILIES[number % 5], family=FAMILIES[number % 5]),
            backend=Backend(engine="sglang", engine_version="0.5.14", settings=settings),
            outcome=Outcome(stage="serve", effect="crash", blame="backend", failure=bad)
            if number % 3 == 0
            else Outcome(stage="load_test", effect="ok"),
        )


def test_runs_that_differ_in_a_port_are_one_configuration() -> None:
    assert key_of(run(1)) == key_of(run(2))
    other = run(1).backend._replace(settings={"tp_size": 4})
    assert key_of(run(1)) != key_of(run(1, backend=other))


def test_folding_counts_endings_and_takes_medians() -> None:
    crash = Outcome(
        stage="load", effect="crash", blame="backend", failure=Failure(signature="s", text="t", cause="c")
    )
    trace = Telemetry(conditions=(Condition(name="power-capped", gpu=0, text=""),))
    (tried,) = fold([run(0), run(2, telemetry=trace), run(4), run(6, outcome=crash, measurements=())])
    assert {(one.effect, one.n) for one in tried.endings} == {("ok", 3), ("crash", 1)}
    assert tried.endings[0].effect == "crash"  # the newest run ended so
    (point,) = tried.points
    assert (point.metrics["output_tok_s"], point.n) == (102.0, 3)
    assert point.spread["output_tok_s"] == (100.0, 104.0)
    assert tried.conditions == {"power-capped": 1}
    assert "port" not in tried.backend.settings
    assert tried.date == "2026-11-07"


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    store = tmp_path / "kb #1?.duckdb"
    tried = fold([run(0), run(1)])
    snapshot.write(
        store, tried, [{"run": "run:abc1", "effect": "ok"}, {"run": "run:abd2", "effect": "oom"}], "state"
    )
    assert list(snapshot.read(store, "sm120", "glm5")) == tried
    assert snapshot.read(store, "sm121", None) == snapshot.read(store, "sm120", None)
    assert snapshot.read(store, "sm90", "glm5") == snapshot.read(store, "sm120", None)
    assert snapshot.read(store, "sm90", "qwen3") == ()
    assert (snapshot.run_detail(store, "abd") or {})["effect"] == "oom"
    assert snapshot.run_detail(store, "run:f") is None
    with pytest.raises(KbctlError, match="several runs"):
        snapshot.run_detail(store, "ab")
    assert snapshot.stamp(store) == {"runs": 2, "made_from": "state"}


def test_no_snapshot_is_no_evidence(tmp_path: Path) -> None:
    store = tmp_path / "kb.duckdb"
    assert snapshot.read(store, "sm120", "glm5") == ()
    assert snapshot.run_detail(store, "a") is None
    assert snapshot.stamp(store) is None


def test_a_damaged_snapshot_is_told(tmp_path: Path) -> None:
    store = tmp_path / "kb.duckdb"
    snapshot.path_of(store).write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    with pytest.raises(KbctlError, match="damaged"):
        snapshot.read(store, "sm120", None)


def test_a_failed_write_leaves_the_old_one(tmp_path: Path) -> None:
    store = tmp_path / "kb.duckdb"
    snapshot.write(store, fold([run(0)]), made_from="old")

    def broken() -> Iterator[Tried]:
        yield fold([run(0)])[0]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        snapshot.write(store, broken(), made_from="new")
    assert (snapshot.stamp(store) or {})["made_from"] == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["kb.duckdb.snapshot"]


@pytest.mark.parametrize("count", [10_000, 100_000])
def test_reading_does_not_grow_with_the_store(tmp_path: Path, count: int) -> None:
    store = tmp_path / "kb.duckdb"
    snapshot.write(store, fold(many(count)))
    begun = time.process_time()
    found = snapshot.read(store, "sm120", "glm5")
    seconds = time.process_time() - begun
    assert found
    assert found[0].hardware.arch == "sm120"
    assert found[0].model.family == "glm5"
    assert seconds < 0.5  # about 0.06 s on an idle core


def test_reading_needs_the_standard_library_only() -> None:
    code = "import sys; from kb import snapshot; snapshot.read; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"duckdb", "pydantic", "numpy", "sklearn", "rich", "markdown_it", "yaml"} & set(loaded)


def stored(store_path: Path, runs: list[Experiment], site: str) -> None:
    with open_store(store_path, write=True) as store:
        put_runs(store, [site], [Assembled(anchor="a", ordinal=0, site=site, experiment=one) for one in runs])
        publish(store)


def contents(store_path: Path) -> tuple[list[Tried], list[tuple[object, ...]]]:
    with sqlite3.connect(snapshot.path_of(store_path)) as base:
        rows = base.execute("SELECT run, key, digest, packed FROM run ORDER BY run").fetchall()
    return sorted(snapshot.read(store_path, None, None), key=lambda one: one.key), rows


def test_a_snapshot_brought_up_to_date_is_that_of_the_whole_store(tmp_path: Path) -> None:
    step, whole = tmp_path / "step.duckdb", tmp_path / "whole.duckdb"
    first, second = list(many(40)), [run(number, model=Model(name="other")) for number in range(100, 130)]
    stored(step, first, "/a")
    stored(step, second, "/b")
    changed = [replace(one, ended="2026-12-01T00:00:00") for one in first[5:20]]  # some gone, some changed
    stored(step, changed, "/a")
    with open_store(step, write=True) as store:
        add_claims(store, [Claim(kind="invalidate", target=second[3].run, reason="x")])
        assert publish(store) is True
        assert publish(store) is False
    with open_store(whole, write=True) as store:
        add_claims(store, [Claim(kind="invalidate", target=second[3].run, reason="x")])
    stored(whole, second, "/b")
    stored(whole, changed, "/a")
    assert contents(step) == contents(whole)
    assert sum(ending.n for one in contents(step)[0] for ending in one.endings) == 15 + 30 - 1
