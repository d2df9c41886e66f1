"""The store: migrations, bulk loads, waiting for others, claims, damaged files."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from kb.errors import KbctlError, StoreError
from kb.model import Experiment, Failure, Measurement, Outcome, Warning  # noqa: A004
from kb.store import open_store
from kb.store.claims import Claim, add_claims, claims_by_target
from kb.store.database import migrations
from kb.store.runs import Assembled, find_run, kept_runs, lines_of, put_runs
from kb.store.sources import Taken, add_sources, folder_parts, known_sources, pending_folders
from kb.wire import compact


def taken(identity: str = "a", **changes: object) -> Taken:
    fields: dict[str, object] = {
        "identity": identity,
        "source": f"bytes-{identity}",
        "path": f"/logs/{identity}/server.log",
        "folder": f"/logs/{identity}",
        "name": "server.log",
        "size": 10,
        "format": "x",
        "kind": "server_log",
        "parser_version": 1,
        "status": "parsed",
        "reason": None,
        "part": "anchor",
        "same_as": None,
        "reading": "{}",
    }
    return Taken(**{**fields, **changes})  # type: ignore[arg-type]


def assembled(run: str, site: str = "/logs/a") -> Assembled:
    failure = Failure(
        signature="oom-weights", text="out of memory", cause="too big", line=3, path="/logs/a/server.log"
    )
    outcome = Outcome(
        stage="load", effect="oom", failure=failure, warnings=(Warning(line=1, text="w", meaning="m"),)
    )
    point = Measurement(workload={"concurrency": 4}, metrics={"output_tok_s": 5.0, "x": float("nan")})
    return Assembled(
        anchor="a",
        ordinal=0,
        site=site,
        experiment=Experiment(run=run, outcome=outcome, measurements=(point,)),
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "kb.duckdb"


def test_a_new_store_has_every_table_and_keeps_the_storage_version(path: Path) -> None:
    with open_store(path, write=True) as store:
        names = {name for (name,) in store.rows("SHOW TABLES")}
        version = store.rows("SELECT tags FROM duckdb_databases() WHERE database_name = 'kb'")
    assert {"source", "reading", "run", "measurement", "trace", "evidence_line", "claim", "pending"} <= names
    assert "v1.5.0" in str(version)


def test_migrations_keep_to_what_ducklake_accepts() -> None:
    for _, name, sql in migrations():
        code = re.sub(r"--.*", "", sql).upper()
        for word in ("PRIMARY KEY", "UNIQUE", "INDEX", "REFERENCES", "ENUM", "SEQUENCE", "DEFAULT", "CHECK"):
            assert not re.search(rf"\b{word}\b", code), f"{name} uses {word}"


def test_reading_a_store_that_is_not_there_says_how_to_make_it(path: Path) -> None:
    with pytest.raises(StoreError, match="no store yet") as error, open_store(path):
        pass
    assert error.value.code == 3
    assert "ingest" in (error.value.tip or "")


@pytest.mark.parametrize("content", [b"not a database", b"\0" * 5000])
def test_a_file_that_is_no_store_is_refused(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(StoreError), open_store(path, write=True):
        pass
    assert path.read_bytes() == content


def test_a_duckdb_file_of_someone_else_is_refused(path: Path) -> None:
    import duckdb

    path.parent.mkdir()
    with duckdb.connect(path) as other:
        other.execute("CREATE TABLE mine (x INTEGER)")
    with pytest.raises(StoreError, match="no kbctl store"), open_store(path, write=True):
        pass


def test_a_store_of_a_newer_release_is_refused(path: Path) -> None:
    with open_store(path, write=True) as store:
        store.load("migration", [{"version": 999, "name": "later", "applied_at": "2030-01-01 00:00:00"}])
    with pytest.raises(StoreError, match="newer"), open_store(path):
        pass


def test_load_leaves_out_rows_that_are_there(path: Path) -> None:
    with open_store(path, write=True) as store:
        store.load("pending", [{"folder": "a"}, {"folder": "b"}])
        store.load("pending", [{"folder": "b"}, {"folder": "c"}], unless=["folder"])
        assert sorted(store.rows("SELECT folder FROM pending")) == [("a",), ("b",), ("c",)]


@pytest.mark.parametrize("text", ["\ud800 lone", "nul \0 in it", 'quote " and \\ and\nline', "é\u2028", ""])
def test_any_text_can_be_loaded(path: Path, text: str) -> None:
    with open_store(path, write=True) as store:
        store.load("pending", [{"folder": text}])
        ((back,),) = store.rows("SELECT folder FROM pending")
    assert back == text.replace("\ud800", "?")


def test_a_failed_transaction_leaves_nothing(path: Path) -> None:
    with open_store(path, write=True) as store:
        with pytest.raises(StoreError), store.transaction():  # noqa: PT012
            store.load("pending", [{"folder": "a"}])
            store.rows("SELECT nothing")
        assert store.rows("SELECT * FROM pending") == []


def test_a_source_read_again_replaces_its_reading(path: Path) -> None:
    with open_store(path, write=True) as store:
        for one in (taken(reading='{"v":1}'), taken(reading='{"v":2}', source="grown")):
            with store.transaction():
                add_sources(store, [one])
        assert store.rows("SELECT reading FROM reading") == [('{"v":2}',)]
        assert known_sources(store)["/logs/a/server.log"].source == "grown"
        assert pending_folders(store) == ["/logs/a"]
        assert folder_parts(store) == {"/logs/a": {"anchor"}}


def test_runs_are_replaced_site_by_site_and_found_by_short_ids(path: Path) -> None:
    with open_store(path, write=True) as store:
        put_runs(store, ["/logs/a"], [assembled("run:aaa1"), assembled("run:aab2")])
        put_runs(store, ["/logs/b"], [assembled("run:bbb3", "/logs/b")])
        put_runs(store, ["/logs/a"], [assembled("run:aaa1")])
        assert [one.experiment.run for one in kept_runs(store)] == ["run:aaa1", "run:bbb3"]
        assert find_run(store, "aa") == find_run(store, "run:aaa1") == "run:aaa1"
        with pytest.raises(KbctlError, match="no run"):
            find_run(store, "zz")
        put_runs(store, ["/logs/a"], [assembled("run:aaa1"), assembled("run:aab2")])
        with pytest.raises(KbctlError, match="2 runs start so"):
            find_run(store, "aa")


def test_the_lines_that_carried_evidence_are_kept(path: Path) -> None:
    with open_store(path, write=True) as store:
        put_runs(store, ["/logs/a"], [assembled("run:aaa1")])
        lines = lines_of(store, "run:aaa1")
        ((metrics,),) = store.rows("SELECT metrics FROM measurement")
    assert [(one["role"], one["line"], one["text"]) for one in lines] == [
        ("cause", 3, "out of memory"),
        ("warning", 1, "w"),
    ]
    assert metrics == '{"output_tok_s":5.0,"x":null}'


def test_claims_are_appended_and_the_latest_wins(path: Path) -> None:
    with open_store(path, write=True) as store:
        put_runs(store, ["/logs/a"], [assembled("run:a")])
        bad = Claim(kind="invalidate", target="run:a", reason="cold card")
        assert [add_claims(store, [bad]), add_claims(store, [bad])] == [1, 0]
        assert [one.invalid for one in kept_runs(store)] == ["cold card"]
        add_claims(
            store, [Claim(kind="restore", target="run:a"), Claim(kind="note", target="run:a", value="hm")]
        )
        assert [(one.invalid, one.notes) for one in kept_runs(store)] == [(None, ("hm",))]
        assert add_claims(store, [bad]) == 1
        assert len(claims_by_target(store, ["invalidate", "restore"])["run:a"]) == 3


def test_compact_makes_json_of_anything() -> None:
    assert compact({"a": [float("inf"), 1.5, None], "p": Path("/x")}) == '{"a":[null,1.5,null],"p":"/x"}'


HOLD = """
    import sys, time
    from pathlib import Path
    from kb.store import open_store
    with open_store(Path(sys.argv[1]), write=True) as store:
        print("open", flush=True)
        time.sleep(float(sys.argv[2]))
        store.load("pending", [{"folder": "other"}])
"""


def holder(path: Path, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(HOLD), str(path), str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


def test_two_processes_wait_for_each_other(path: Path) -> None:
    with open_store(path, write=True):
        pass
    told: list[str] = []
    other = holder(path, 1.5)
    with open_store(path, write=True, notice=told.append) as store:
        store.load("pending", [{"folder": "mine"}])
        assert sorted(store.rows("SELECT folder FROM pending")) == [("mine",), ("other",)]
    assert other.wait() == 0
    assert any("waiting" in one for one in told)


def test_waiting_ends_with_a_clear_error(path: Path) -> None:
    with open_store(path, write=True):
        pass
    other = holder(path, 20)
    begun = time.monotonic()
    with pytest.raises(StoreError, match=f"process {other.pid}"), open_store(path, wait_s=0.5):
        pass
    assert time.monotonic() - begun < 5
    other.kill()
    other.wait()


def test_the_documentation_names_every_table(path: Path) -> None:
    text = (Path(__file__).parents[1] / "docs" / "store.md").read_text(encoding="utf-8")
    with open_store(path, write=True) as store:
        names = [name for (name,) in store.rows("SHOW TABLES")]
    assert [name for name in names if f"`{name}`" not in text] == []


def test_a_store_that_another_process_is_just_making_is_waited_for(tmp_path: Path) -> None:
    place = tmp_path / "kb.duckdb"
    place.write_bytes(b"half of a header")

    def finish() -> None:
        time.sleep(0.3)
        place.unlink()

    maker = threading.Thread(target=finish)
    maker.start()
    with open_store(place, write=True) as store:
        assert store.rows("SELECT 1") == [(1,)]
    maker.join()
