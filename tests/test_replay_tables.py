"""``kbctl replay`` on tables that nobody tidied: units, failures in many forms, few and many rows, errors."""

from __future__ import annotations

import csv
import gzip
import json
import math
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kb.cli import main
from recommend import ranker
from recommend.belief import Belief, Forecast, abstention, confidence, intervals, known_bad_share
from recommend.cells import FAILED, failing, may_tell, measured, status_column
from recommend.policy import Prior
from recommend.replay import Context, Trial, by_order, play
from recommend.table import Columns, contexts
from recommend.trialrun import Advisor, experiment, known_bad, left_out_together


def test_a_column_whose_every_value_is_good_or_bad_tells_of_failures_under_any_like_name() -> None:
    rows_ = [{"errors_l": word} for word in ("ok", "CUDA out of memory", "killed-noInfo", "CUDA error")]
    bad = frozenset({"CUDA out of memory", "killed-noInfo", "CUDA error"})
    assert status_column(rows_, ["errors_l"]) == ("errors_l", bad)
    assert status_column([{"error_rate": rate} for rate in (0.1, 0.0)], ["error_rate"]) is None
    assert status_column([{"failed_requests": count} for count in (0, 5)], ["failed_requests"]) is None
    for name, cells, worst in (
        ("errors", (0, 0, 1), "1"),
        ("has_error", (True, False), "True"),
        ("run_failed", ("no", "yes"), "yes"),
        ("run_ok", ("no", "yes"), "no"),
    ):
        assert status_column([{name: cell} for cell in cells], [name]) == (name, frozenset({worst}))
    assert [may_tell(name) for name in ("run_status", "errors_l", "engine", "outputs")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ("12.5 ms", 12.5),
        ("0.012 s", 12.0),
        ("250us", 0.25),
        ("1,234.5", 1234.5),
        ("12,5", 12.5),
        ("1.2k tok/s", 1200.0),
        ("99 %", 99.0),
        ("1e-3", 0.001),
        (3, 3.0),
        ("OOM", FAILED),
        ("CUDA out of memory", FAILED),
        ("InvalidConfig", FAILED),
        ("inf", FAILED),
        (math.inf, FAILED),
        ("1e20", FAILED),
        (math.nan, None),
        ("n/a", None),
        ("", None),
        (None, None),
        (True, None),
    ],
)
def test_a_cell_is_a_number_a_failure_or_nothing(cell: Any, told: Any) -> None:
    assert measured(cell) == (pytest.approx(told) if isinstance(told, float) else told)


def test_a_column_that_says_how_tries_ended_is_found() -> None:
    assert failing("status", {"success", "failed_compile"}) == {"failed_compile"}
    assert failing("ok", {"True", "False"}) == {"False"}
    assert failing("error", {"", "CUDA OOM"}) == {"CUDA OOM"}
    assert failing("status", {"pass", "no_data"}) is None
    assert failing("result", {"1.5", "2.5"}) is None
    table = [{"time": 1.0, "State": "done"}, {"time": None, "State": "timeout"}]
    assert status_column(table, ["time", "State"]) == ("State", frozenset({"timeout"}))


def spaces(seed: int = 1) -> list[dict[str, Any]]:
    """Four devices, four loads, four kernels; ``w`` never runs."""
    draw = random.Random(seed)
    return [
        {
            "dev": device,
            "n": n,
            "k": kernel,
            "ms": {"x": n, "y": 20 + n / 8, "z": 5 + n / 2, "w": 1.0}[kernel]
            * scale
            * draw.uniform(0.97, 1.03),
            "bad": kernel == "w",
        }
        for device, scale in (("A", 1), ("B", 0.5), ("C", 2), ("D", 1.3))
        for n in (1, 8, 64, 512)
        for kernel in "xyzw"
    ]


def write(path: Path, table: Iterable[dict[str, Any]]) -> Path:
    found = list(table)
    with path.open("w", newline="") as sink:
        writer = csv.DictWriter(sink, list(found[0]))
        writer.writeheader()
        writer.writerows(found)
    return path


def replayed(capsys: pytest.CaptureFixture[str], table: Path, *words: str) -> dict[str, Any]:
    with pytest.raises(SystemExit) as end:
        main(["replay", str(table), "--context", "dev,n", "--outcome", "t", "--minimize", "--json", *words])
    said = capsys.readouterr()
    assert end.value.code in (0, None), said.err
    return json.loads(said.out)


MARKS = {
    "words": (lambda row: {"t": "OOM" if row["bad"] else f"{row['ms']:.3f} ms"}, ()),
    "status": (lambda row: {"t": 0 if row["bad"] else row["ms"], "ok": not row["bad"]}, ()),
    "infinite": (lambda row: {"t": "inf" if row["bad"] else row["ms"]}, ()),
    "named": (
        lambda row: {"t": "" if row["bad"] else row["ms"], "why": "x" if row["bad"] else "fine"},
        ("--failed", "why!=fine"),
    ),
    "empty": (lambda row: {"t": "" if row["bad"] else row["ms"]}, ("--failed", "t=")),
}


@pytest.mark.parametrize("form", MARKS)
def test_failures_are_seen_however_they_are_marked(form: str, capsys: Any, tmp_path: Path) -> None:
    mark, words = MARKS[form]
    table = write(
        tmp_path / "t.csv",
        ({"dev": row["dev"], "n": row["n"], "k": row["k"], **mark(row)} for row in spaces()),
    )
    told = replayed(capsys, table, "--choice", "k", *words)
    policies = told["policies"]
    assert (told["contexts"], told["groups"]) == (16, 4)
    assert policies["random"]["failed_tries_to_within_5_pct"]["mean"] > 0.3
    assert policies["random"]["known_bad_share"] > 0.1
    assert policies["recommender"]["known_bad_share"] == 0
    assert (
        policies["recommender"]["regret_after_1"]["mean"]
        < policies["most frequent best"]["regret_after_1"]["mean"]
    )
    assert told["intervals"]["coverage"]["mean"] > 0.7
    assert told["against"]["random"]["regret_after_1"]["mean"] < 0
    assert told["abstention"][0]["answered"] == 1


def test_compressed_lines_with_objects_are_read(capsys: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.gz"
    with gzip.open(path, "wt") as sink:
        for row in spaces():
            one = {"dev": row["dev"], "n": row["n"], "cfg": {"k": row["k"], "b": 3}, "t": row["ms"]}
            sink.write(json.dumps(one) + "\n")
    assert replayed(capsys, path, "--choice", "cfg")["contexts"] == 16


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--context", "dev,n", "--choice", "n"], "cannot be given and chosen"),
        (["--context", "dev,n,ms", "--choice", "k", "--outcome", "ms"], "the outcome"),
        (["--context", "dev,n", "--choice", "nope", "--outcome", "ms"], "no column nope"),
        (["--context", "dev,n", "--choice", "k", "--outcome", "k"], "the outcome"),
        (["--context", "dev", "--choice", "n", "--outcome", "k"], "no k is a positive number"),
        (["--context", "dev,n,k", "--choice", "bad", "--outcome", "ms"], "no context has two"),
        (["--context", "dev,n", "--choice", "k", "--outcome", "ms", "--failed", "bad"], "which values"),
        (["--context", "dev,n", "--choice", "k", "--outcome", "ms", "--failed", "bad=7"], "no row has"),
        (["--context", "dev,n", "--choice", "k", "--outcome", "ms", "--half", "left"], "unknown half"),
        (["--choice", "k", "--outcome", "ms"], "which columns"),
    ],
)
def test_what_cannot_be_replayed_says_why(words: list[str], said: str, capsys: Any, tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", spaces())
    with pytest.raises(SystemExit) as end:
        main(["replay", str(table), *words])
    assert end.value.code == 2
    assert said in capsys.readouterr().err


def test_one_group_names_the_columns_that_could_be_left_out(capsys: Any, tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", (row for row in spaces() if row["dev"] == "A"))
    with pytest.raises(SystemExit):
        main(
            [
                "replay",
                str(table),
                "--context",
                "dev,n",
                "--choice",
                "k",
                "--outcome",
                "ms",
                "--hold-out",
                "dev",
            ]
        )
    assert "--hold-out n" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        main(["replay", str(table), "--context", "dev,n", "--choice", "k", "--outcome", "ms"])
    assert end.value.code in (0, None)
    assert "left out together: equal n" in capsys.readouterr().out


def made(table: Iterable[dict[str, Any]]) -> list[Context]:
    where = Columns(
        context=("dev", "n"),
        choice=("k",),
        outcome="ms",
        group=("dev",),
        minimize=True,
        failed=("bad", frozenset({"True"})),
    )
    return contexts(table, where)


def test_repeats_and_rows_without_a_result_are_no_trials_of_their_own() -> None:
    table = [
        {"dev": "A", "n": 1, "k": "x", "ms": 1.0, "bad": False},
        {"dev": "A", "n": 1, "k": "x", "ms": 3.0, "bad": False},
        {"dev": "A", "n": 1, "k": "y", "ms": None, "bad": False},
        {"dev": "B", "n": 1, "k": "y", "ms": None, "bad": False},
    ]
    (only,) = made(table)
    assert [(one.key, one.log_value) for one in only.trials] == [(("x",), pytest.approx(-math.log(3) / 2))]


def test_words_that_differ_in_case_alone_are_one_word() -> None:
    table = [
        {"dev": dev, "n": 1, "k": k, "ms": 1.0, "bad": False}
        for dev, k in (("H100", "vLLM"), ("h100 ", "vllm"), ("h100", "SGLang"))
    ]
    (only,) = made(table)
    assert (only.key, only.group, only.facts["dev"]) == (("H100", "1"), ("H100",), "H100")
    assert [one.key for one in only.trials] == [("SGLang",), ("vLLM",)]


def test_groups_are_left_out_whole_and_in_few_folds() -> None:
    many = [Context(key=(str(at),), group=(str(at // 2),), trials=()) for at in range(100)]
    folds = left_out_together(many)
    assert len(folds) == 20
    assert sum(len(one) for one in folds) == 50
    assert len(set.union(*folds)) == 50
    trial = Trial(key=("a",), parts={}, features={}, log_value=0.0)
    long = [replace(one, trials=(trial,) * 400) for one in many]
    assert len(left_out_together(long)) == 10


def test_small_tables_do_not_break_the_learners() -> None:
    """Too few rows to grow a tree, one known group, nothing remembered."""
    table = [row for row in spaces() if row["dev"] in "AB" and row["n"] < 10]
    told = experiment(made(table))
    assert told["policies"]["recommender"]["tries_to_within_5_pct"]["mean"] >= 1


def test_physics_gives_way_only_to_a_lead_beyond_chance() -> None:
    """Physics stays while nothing is clearly better, and goes where it misleads."""
    draw = np.random.default_rng(0)
    context = np.repeat(np.arange(60), 3)
    value = draw.normal(size=180)
    plain = np.zeros((180, 1))
    rows_ = ranker.Rows(
        plain=plain,
        recalled=np.zeros((180, 5)),
        physics=value,
        value=value,
        adds=value,
        worked=np.ones(180, dtype=bool),
        context=context,
        group=context // 6,
    )
    noisy = {name: value + draw.normal(scale=2.0, size=180) for name in ranker.EVEN}
    noisy["physics"] = value + draw.normal(scale=0.4, size=180)
    assert ranker.choose_blend(noisy, rows_) == {"physics": 1.0}
    blend = ranker.choose_blend({**noisy, "physics": -value, "boosted trees": value}, rows_)
    assert "physics" not in blend


def ladder() -> list[Context]:
    """The same order of twelve choices in six groups."""
    return made(
        {"dev": f"d{group}", "n": 1, "k": f"k{at}", "ms": 1.0 + at + 0.01 * group}
        for group in range(6)
        for at in range(12)
    )


def test_the_lead_over_chance_is_told_in_log_tries() -> None:
    rows_ = ranker.Ranker(ladder()[:5]).frame.rows
    assert ranker.lead_over_chance(rows_.value, rows_) == pytest.approx(math.log(2 / 13))
    assert ranker.lead_over_chance(-rows_.value, rows_) == pytest.approx(math.log(2 * 12 / 13))


def test_an_order_no_better_than_chance_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranker, "lead_over_chance", lambda scores, rows: 0.0)
    *known, asked = ladder()
    chooser = Advisor(ranker.Ranker(known), [asked])
    assert len({one.mean for one in chooser.beliefs[asked.key].priors}) == 1
    assert chooser.order[asked.key] not in (sorted(chooser.order[asked.key]), list(range(11, -1, -1)))


def test_an_order_that_helped_on_the_groups_left_out_is_followed() -> None:
    *known, asked = ladder()
    helped = ranker.Ranker(known)
    assert helped.lead < 0
    (priors,) = helped.priors([asked])
    means = {trial.key[0]: one.mean for trial, one in zip(asked.trials, priors, strict=True)}
    assert max(means, key=means.__getitem__) == "k0"


def one_belief(spread: float = 0.1) -> Belief:
    trials = tuple(
        Trial(key=(name,), parts={}, features={}, log_value=value)
        for name, value in (("a", 1.0), ("b", 0.5), ("c", None))
    )
    context = Context(key=("k",), group=("g",), trials=trials)
    priors = [Prior(1.0, spread), Prior(0.4, spread), Prior(0.9, spread, 0.1)]
    return Belief(
        context, priors, [Forecast(0.9, 0.2), Forecast(1.0, 0.2), Forecast(0.0, 0.2)], frozenset({("c",)})
    )


def test_intervals_count_what_came_and_doubt_grows_with_the_spread() -> None:
    told = intervals([one_belief()])
    assert (told["points"], told["coverage"]["mean"]) == (2, 0.5)
    assert confidence(one_belief(0.05)) > confidence(one_belief(0.5)) > 0
    played = play(one_belief().context, by_order(lambda _: [1.0, 0.0, 2.0]))
    assert known_bad_share([played], {("k",): frozenset({("c",)})}) == 0.5
    assert abstention([one_belief()], {("k",): played})[0]["failed"] == 1


def test_known_bad_is_what_failed_somewhere_and_worked_nowhere() -> None:
    assert known_bad(made(spaces())) == {("w",)}
