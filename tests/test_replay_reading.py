"""What ``kbctl replay`` reads: tables however they were written, parts of large ones, and what it refuses."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from kb.cli import main
from kb.cli import replay as replay_command
from kb.store import tables
from kb.store.tables import Draw, Drawn, columns, drawn
from recommend import table as table_module
from recommend.cells import comma_is_decimal
from recommend.replay import Trial
from recommend.table import contexts, feature_names


def write(path: Path, table: Iterable[dict[str, Any]]) -> Path:
    found = list(table)
    with path.open("w", newline="") as sink:
        writer = csv.DictWriter(sink, list(found[0]))
        writer.writeheader()
        writer.writerows(found)
    return path


def test_of_a_large_table_whole_contexts_are_drawn_evenly(tmp_path: Path) -> None:
    table = write(
        tmp_path / "t.csv",
        ({"g": "big" if at % 10 else "small", "c": at, "k": k, "t": 1} for at in range(400) for k in "ab"),
    )
    assert columns(table) == ["g", "c", "k", "t"]
    found, told = drawn(table, ["g", "c", "k"], Draw(["g", "c"], ["g"], ["k"], 60))
    assert told == Drawn(60, 400, 1.0)
    by_group = {name: {row["c"] for row in found if row["g"] == name} for name in ("big", "small")}
    assert {name: len(held) for name, held in by_group.items()} == {"big": 30, "small": 30}
    assert len(found) == 120
    assert (found, told) == drawn(table, ["g", "c", "k"], Draw(["g", "c"], ["g"], ["k"], 60))


def test_of_a_table_with_too_many_rows_less_is_read_and_the_report_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tables, "MOST_ROWS", 1000)
    # Of many contexts fewer, by turns from the groups; of few all, with the same share of choices.
    many = write(
        tmp_path / "many.csv",
        ({"c": at, "k": k, "t": 1 + k / 9} for at in range(500) for k in range(9)),
    )
    found, told = drawn(many, ["c"], Draw(["c"], ["c"], ["k"], 3000))
    assert (len(found), told) == (999, Drawn(111, 500, 1.0))
    few = write(
        tmp_path / "few.csv",
        ({"c": c, "k": k, "t": 1 + k * (1 + (c == "x"))} for c in "xyz" for k in range(2000)),
    )
    found, told = drawn(few, ["c", "k"], Draw(["c"], ["c"], ["k"], 3000))
    assert told == Drawn(3, 3, pytest.approx(1 / 6))
    assert 800 < len(found) < 1200
    kept = {name: {row["k"] for row in found if row["c"] == name} for name in "xyz"}
    assert kept["x"] == kept["y"] == kept["z"]
    with pytest.raises(SystemExit):
        main(
            ["replay", str(few), "--context", "c", "--choice", "k", "--outcome", "t", "--minimize", "--json"]
        )
    assert "17% of the choices were drawn" in " ".join(json.loads(capsys.readouterr().out)["notes"])


CELLS = ["gpu;k;t", *(f"g{g};{k};{1.5 + n:.1f}" for g in "12é" for n, k in enumerate("abc"))]


@pytest.mark.parametrize(
    ("content", "context"),
    [
        ("\n".join(CELLS).encode("utf-8-sig"), "gpu"),
        ("\n".join(CELLS).encode("utf-16"), "gpu"),
        ("\n".join(CELLS).encode("latin-1"), "gpu"),
        ("\n".join(CELLS).replace(".", ",").encode(), "gpu"),
        ("\n".join(one + ";note" * (at == 3) for at, one in enumerate(CELLS)).encode(), "gpu"),
    ],
    ids=["utf-8 with a mark", "utf-16", "latin-1", "decimal commas", "a row too long"],
)
def test_a_table_is_read_however_it_was_written(tmp_path: Path, content: bytes, context: str) -> None:
    table = tmp_path / "t.csv"
    table.write_bytes(content)
    rows_, columns_, _ = replay_command._gathered(table, False, context, "k", "t", context, None, 3000)
    found = contexts(rows_, columns_)
    assert [one.group for one in found] == [("g1",), ("g2",), ("gé",)]
    assert [trial.log_value for trial in found[0].trials] == pytest.approx(
        [math.log(1.5 + n) for n in range(3)]
    )


def test_a_comma_is_decimal_only_where_it_cannot_divide_thousands() -> None:
    assert comma_is_decimal(["1,25", "3,125"])
    assert comma_is_decimal(["0,125", "3,125"])
    assert not comma_is_decimal(["1,250", "3,125", "17"])
    assert not comma_is_decimal(["1,25", "oom"])
    assert not comma_is_decimal([])


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("t.csv", b"", "the table is empty"),
        ("t.csv", b"PK\x03\x04junk", "an archive"),
        ("t.csv", b"gpu,k,t\n", "the table has no rows"),
        ("t.csv", b"gpu,k,t\na,x,1\na,x,2\nb,x,1\nb,x,3\n", "k is the same in all rows"),
    ],
)
def test_what_cannot_be_replayed_is_refused_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes, what: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SystemExit):
        main(["replay", str(tmp_path / name), "--context", "gpu", "--choice", "k", "--outcome", "t"])
    said = capsys.readouterr().err
    assert what in said
    assert "  next: " in said


def test_rows_that_no_ratio_can_be_made_of_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values: list[Any] = [1, 2, 3, 2, 3, 4, 0, -3, "later"]
    table = [{"gpu": at // 3, "k": at % 3, "t": one} for at, one in enumerate(values)]
    path = write(tmp_path / "t.csv", table)
    with pytest.raises(SystemExit):
        main(["replay", str(path), "--context", "gpu", "--choice", "k", "--outcome", "t", "--json"])
    assert json.loads(capsys.readouterr().out)["notes"][:2] == [
        "2 of 9 rows have no t above zero and were left out",
        "1 of 9 rows have no t that is a number and were left out",
    ]


def test_of_too_many_features_the_numbers_and_the_usual_words_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table_module, "MOST_FEATURES", 3)
    trials = [
        Trial(
            key=(str(at),),
            parts={},
            features={f"note=w{at}": 1.0, "tp#": 1.0, "engine=vllm": 1.0, "mode=fast": 1.0},
            log_value=0.0,
        )
        for at in range(5)
    ]
    assert feature_names(trials) == ["engine=vllm", "mode=fast", "tp#"]
