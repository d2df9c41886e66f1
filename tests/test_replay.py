"""The replay protocol: contexts, tries, regret, bootstrap, baselines, and that learning helps."""

from __future__ import annotations

import csv
import json
import math
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kb.measurements import folder
from recommend import fit
from recommend.baselines import most_frequent_best, nearest_sibling
from recommend.compare import compare
from recommend.replay import (
    Context,
    Trial,
    at_random,
    by_order,
    figure,
    play,
    playable,
    regret_after,
    summary,
    wilcoxon,
)
from recommend.samples import published
from recommend.score import predict
from recommend.table import Columns, contexts, encode
from recommend.trialrun import replay, report


def trial(name: str, value: float | None) -> Trial:
    log = None if value is None else math.log(value)
    return Trial(key=(name,), parts={"name": name}, features={}, log_value=log)


def context(*trials: Trial, group: str = "g", key: str = "c") -> Context:
    return Context(key=(key,), group=(group,), trials=trials)


SIMPLE = context(trial("slow", 50.0), trial("bad", None), trial("best", 100.0), trial("near", 96.0))


def in_order(*names: str) -> Any:
    return by_order(lambda one: [-names.index(trial.key[0]) for trial in one.trials])


def test_regret_and_tries_are_counted() -> None:
    played = play(SIMPLE, in_order("bad", "slow", "near", "best"))
    assert played.regret[0] is None
    assert played.regret[1] == pytest.approx(1.0)
    assert played.regret[2] == pytest.approx(100 / 96 - 1)
    assert (played.tries, played.valid, played.failures) == (3, 2, 1)


def test_first_choice_right_is_one_try() -> None:
    played = play(SIMPLE, in_order("best", "near", "slow", "bad"))
    assert played.tries == 1
    assert regret_after(1)(played) == 0


def test_regret_without_any_success_is_that_of_the_worst() -> None:
    assert regret_after(1)(play(SIMPLE, in_order("bad", "slow", "near", "best"))) == pytest.approx(1.0)


def test_given_tries_are_free_and_never_the_answer() -> None:
    played = play(SIMPLE, in_order("slow", "bad", "best", "near"), given=2)
    assert played.tries == 1


def test_contexts_without_a_choice_are_left_out() -> None:
    assert playable([context(trial("a", 1.0)), context(trial("a", None), trial("b", None)), SIMPLE]) == [
        SIMPLE
    ]


def test_groups_are_drawn_again_not_contexts() -> None:
    one = [
        play(context(trial("a", 1.0), trial("b", 2.0), group="x", key=str(i)), in_order("a", "b"))
        for i in range(50)
    ]
    alone = figure(one, regret_after(1))
    assert alone.low == alone.mean == alone.high
    other = play(context(trial("a", 2.0), trial("b", 1.0), group="y"), in_order("a", "b"))
    mixed = figure([*one, other], regret_after(1))
    assert mixed.low < mixed.mean <= mixed.high


def test_summary_is_json() -> None:
    told = summary([play(SIMPLE, in_order("best", "near", "slow", "bad"))])
    assert json.loads(json.dumps(told))["hit_at_1"]["mean"] == 1


def test_halves_do_not_depend_on_order() -> None:
    halves = [context(trial("a", 1.0), key=str(index)).half for index in range(200)]
    assert 60 < halves.count("choose") < 140
    assert halves == [context(trial("b", 2.0), key=str(index)).half for index in range(200)]


def test_wilcoxon() -> None:
    assert wilcoxon([1.0, 2.0], [1.0, 2.0]) == 1
    better = [value + 1 for value in range(30)]
    assert wilcoxon(list(range(30)), better) < 1e-5
    draw = random.Random(1)
    noise = [draw.random() for _ in range(40)], [draw.random() for _ in range(40)]
    assert wilcoxon(*noise) > 0.05


def test_random_is_seeded() -> None:
    assert at_random(SIMPLE, 1) == at_random(SIMPLE, 1) != at_random(SIMPLE, 2)


def world() -> list[dict[str, Any]]:
    """``fused`` wins on large batches, ``plain`` on small ones; ``broken`` fails."""
    rows = []
    for gpu in ("h100", "h200", "b200", "l40s"):
        for batch in (1, 2, 4, 64, 128, 256):
            for kernel in ("plain", "fused", "broken"):
                fails = kernel == "broken"
                time = {"plain": batch, "fused": 20 + batch / 8, "broken": 1}[kernel]
                rows.append(
                    {
                        "gpu": gpu,
                        "batch": batch,
                        "kernel": kernel,
                        "ms": time,
                        "state": "bad" if fails else "ok",
                    }
                )
    return rows


COLUMNS = Columns(
    context=("gpu", "batch"),
    choice=("kernel",),
    outcome="ms",
    group=("gpu",),
    minimize=True,
    failed=("state", frozenset({"bad"})),
)


def test_tables_become_contexts() -> None:
    found = contexts(world(), COLUMNS)
    assert len(found) == 24
    first = next(one for one in found if one.key == ("h100", "4"))
    assert {trial.key[0]: trial.log_value for trial in first.trials}["broken"] is None
    assert first.best == pytest.approx(-math.log(4))


def test_json_cells_and_known_names_become_features() -> None:
    row = {
        "gpu": "h200_sxm",
        "config": '{"block": 32, "cache": true}',
        "kernel": "sglang_flashinfer_cutlass_moe",
    }
    named = encode(row, ("gpu", "config", "kernel"))
    assert named["config.block#"] == pytest.approx(math.log2(33))
    assert named["kernel=cutlass"] == 1
    assert named["hopper"] == 1
    assert not any("h200" in name for name in named)


def test_the_recommender_learns_what_depends_on_the_load_and_what_fails() -> None:
    found = replay(contexts(world(), COLUMNS), ("recommender", "most frequent best"))
    told = report(found)["policies"]
    assert told["recommender"]["regret_after_1"]["mean"] < 0.2 * told["random"]["regret_after_1"]["mean"]
    assert told["recommender"]["failed_tries_to_within_5_pct"]["mean"] < 0.5
    assert (
        told["recommender"]["regret_after_1"]["mean"] <= told["most frequent best"]["regret_after_1"]["mean"]
    )


def test_baselines_give_a_score_to_every_trial() -> None:
    found = contexts(world(), COLUMNS)
    known, asked = found[:12], found[12]
    for make in (most_frequent_best, nearest_sibling):
        assert len(make(known)(asked)) == len(asked.trials)


def some_samples(count: int = 400) -> tuple[list[Any], dict[str, tuple[str, ...]]]:
    from kb.measurements import serving

    releases = {
        "sglang": ("0.5.5", "0.5.9"),
        "vllm": ("0.11.0", "0.19.0"),
        "tensorrt-llm": ("1.0.0", "1.3.0"),
    }
    found = list(published(serving(["gpt-oss-120b", "llama-3.1-8b"]), releases))
    return found[:: max(len(found) // count, 1)], releases


def test_what_fit_learns_is_what_score_says() -> None:
    samples, releases = some_samples(150)
    model = json.loads(json.dumps(fit.train(samples, releases, "a test", {"p50": 0.01})))
    names, x = fit.matrix(samples)
    mixed = fit.Mixed().fit(x, fit.target(samples, "output_tok_s"))
    for index in range(0, len(samples), 37):
        expected = (
            float(mixed.predict(x[index : index + 1])[0]) + samples[index].features["log_physics_tok_s"]
        )
        said = predict(model, "output_tok_s", samples[index].features, "same")
        assert said
        assert math.log(said.value) == pytest.approx(expected, abs=2e-3)
    assert names == sorted(samples[0].features)


def test_too_little_is_said_not_fitted() -> None:
    samples, releases = some_samples(20)
    with pytest.raises(ValueError, match="nothing can be learned"):
        fit.train(samples, releases, "a test")


def test_forms_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("physics + boosted trees", "physics + extra trees", "physics + ridge and boosted trees"):
        monkeypatch.delitem(fit.FORMS, name)
    told = compare(some_samples(200)[0])
    assert {row["form"] for row in told} == set(fit.FORMS)
    assert all(0 <= row["regret"] < 1 for row in told)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kb.cli", *words], capture_output=True, text=True, check=False
    )


def test_the_command_reads_a_table(tmp_path: Path) -> None:
    table = tmp_path / "world.csv"
    with table.open("w", newline="") as sink:
        writer = csv.DictWriter(sink, ["gpu", "batch", "kernel", "ms", "state"])
        writer.writeheader()
        writer.writerows(world())
    words = [
        "replay",
        str(table),
        "--context",
        "gpu,batch",
        "--choice",
        "kernel",
        "--outcome",
        "ms",
        "--minimize",
    ]
    done = run(*words, "--failed", "state=bad", "--hold-out", "gpu", "--given", "1", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["schema"] == "kbctl.replay/1"
    assert (told["contexts"], told["groups"], told["given"]) == (24, 4, 1)
    assert {"random", "recommender", "extra trees"} <= set(told["policies"])
    for wrong, said in (
        (["--context", "nope"], "no column nope"),
        (["--hold-out", "batch"], ""),
        ([], "which columns"),
    ):
        again = run(
            "replay",
            str(table),
            *(wrong and ["--choice", "kernel", "--outcome", "ms", "--context", "gpu", *wrong]),
        )
        assert "Traceback" not in again.stderr
        assert said in again.stderr


def test_the_command_fits_and_recommend_uses_it(tmp_path: Path) -> None:
    store = tmp_path / "kb.duckdb"
    done = run("fit", "--store", str(store), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["samples"] > 2000
    assert Path(told["path"]).parent == tmp_path
    model = json.loads(Path(told["path"]).read_text("utf-8"))
    shipped = json.loads((folder() / "model.json").read_text("utf-8"))
    assert model["metrics"].keys() == shipped["metrics"].keys()
