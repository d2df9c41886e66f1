"""Killing an ingest at any moment and running it again gives the store of one clean run."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from kb.store import open_store

DEMO = Path(__file__).parent / "data" / "demo" / "runs"
RUNS = (
    "sglang-0.5.11_h200_qwen3-1p4b_attn-default-nopcg_02",
    "vllm-0.21.0_h200_qwen3moe-2p6b-32e_moe-bf16-flashinfer_trtllm_01",
)
TIMES = frozenset({"read_at", "applied_at", "claimed_at"})

# Every source in a transaction of its own, and death before the n-th statement of the store.
INGEST = """
    import os, signal, sys
    from pathlib import Path
    import ingest.intake as intake
    from kb.store.database import Store
    folder, store, deadly = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    intake.BATCH_S = 0.0
    intake.BATCH_BYTES = 0
    plain, count = Store.rows, 0
    def rows(self, sql, parameters=()):
        global count
        count += 1
        if count == deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(self, sql, parameters)
    Store.rows = rows
    intake.ingest([folder], store, said={"gpu": "NVIDIA H200"})
    print(count)
"""


def ingest(folder: Path, store: Path, deadly: int = 0, before: str = "") -> subprocess.CompletedProcess[str]:
    code = before + textwrap.dedent(INGEST)
    command = [sys.executable, "-c", code, str(folder), str(store), str(deadly)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def dump(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every table without the times of writing, rows in order."""
    found = {}
    with open_store(path) as store:
        for (table,) in store.rows("SHOW TABLES"):
            columns = [name for (name, *_) in store.rows(f"DESCRIBE {table}") if name not in TIMES]
            found[table] = sorted(store.rows(f"SELECT {', '.join(columns)} FROM {table}"), key=repr)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("logs")
    for run in RUNS:
        shutil.copytree(DEMO / run, place / run)
    return place


@pytest.fixture(scope="module")
def clean(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], int]:
    """(the store of an ingest that nobody disturbed, the number of its statements)."""
    store = tmp_path_factory.mktemp("clean") / "kb.duckdb"
    done = ingest(folder, store)
    assert done.returncode == 0, done.stderr
    return dump(store), int(done.stdout)


@pytest.mark.parametrize("share", [0.03, 0.3, 0.6, 0.85, 0.95, 0.99])
def test_killed_and_run_again(
    folder: Path, clean: tuple[dict[str, Any], int], tmp_path: Path, share: float
) -> None:
    expected, statements = clean
    store = tmp_path / "kb.duckdb"
    killed = ingest(folder, store, deadly=max(2, int(statements * share)))
    assert killed.returncode == -signal.SIGKILL
    again = ingest(folder, store)
    assert again.returncode == 0, again.stderr
    assert dump(store) == expected


def test_the_clean_store_holds_what_the_folders_hold(clean: tuple[dict[str, Any], int]) -> None:
    tables, _ = clean
    assert len(tables["run"]) == len(RUNS)
    assert tables["pending"] == []


TRACE = (
    "from ingest import large_trace as a; from ingest.formats import nvidia_smi_csv as b; a.LARGE_BYTES = "
)
TRACE += "b.LARGE_BYTES = 0; a.PART_BYTES = 4000\n"


@pytest.mark.parametrize("share", [0.1, 0.4, 0.5, 0.6, 0.7, 0.8])
def test_killed_while_a_large_trace_is_loaded(tmp_path: Path, share: float) -> None:
    rows = [
        f"2026/03/01 00:{at // 60:02}:{at % 60:02}.000, 0, H200, {at % 100} %, {at}.5 W" for at in range(900)
    ]
    (tmp_path / "logs").mkdir()
    header = "timestamp, index, name, utilization.gpu [%], power.draw [W]"
    (tmp_path / "logs" / "smi.csv").write_text("\n".join([header, *rows]) + "\n")
    clean, store = tmp_path / "clean.duckdb", tmp_path / "kb.duckdb"
    done = ingest(tmp_path / "logs", clean, before=TRACE)
    assert done.returncode == 0, done.stderr
    deadly = max(2, int(int(done.stdout) * share))
    assert ingest(tmp_path / "logs", store, deadly, before=TRACE).returncode == -signal.SIGKILL
    assert ingest(tmp_path / "logs", store, before=TRACE).returncode == 0
    assert dump(store) == dump(clean)
    assert len(dump(store)["sample"]) == 900


def test_killed_twice(folder: Path, clean: tuple[dict[str, Any], int], tmp_path: Path) -> None:
    expected, statements = clean
    store = tmp_path / "kb.duckdb"
    for share in (0.2, 0.4):
        assert ingest(folder, store, deadly=int(statements * share)).returncode == -signal.SIGKILL
    assert ingest(folder, store).returncode == 0
    assert dump(store) == expected


def test_two_at_once(folder: Path, clean: tuple[dict[str, Any], int], tmp_path: Path) -> None:
    store = tmp_path / "kb.duckdb"
    command = [sys.executable, "-c", textwrap.dedent(INGEST), str(folder), str(store), "0"]
    both = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [one.wait(120) for one in both] == [0, 0]
    assert dump(store) == clean[0]


def test_over_processes(folder: Path, clean: tuple[dict[str, Any], int], tmp_path: Path) -> None:
    store = tmp_path / "kb.duckdb"
    patch = "import ingest.pipeline as p; p.MANY_FILES = 1; p.available_cores = lambda: 2\n"
    code = f"{patch}{textwrap.dedent(INGEST)}".replace(
        "intake.ingest(", "if __name__ == '__main__': intake.ingest("
    )
    script = tmp_path / "parallel.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, script, str(folder), str(store), "0"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert dump(store) == clean[0]


def test_one_folder_after_the_other_gives_the_same(
    folder: Path, clean: tuple[dict[str, Any], int], tmp_path: Path
) -> None:
    store = tmp_path / "kb.duckdb"
    for run in reversed(RUNS):
        assert ingest(folder / run, store).returncode == 0
    assert dump(store) == clean[0]
