"""Limits of a question: told with each pick, obeyed in the order, and never silently dropped."""

from __future__ import annotations

import json
import math

import pytest

from kb.cli import main
from kb.vocab.gpus import find_gpu
from recommend.advice import Expected
from recommend.expect import Outlook
from recommend.limits import advice, kept, log_chance, words
from recommend.physics import Load

LOAD = Load(input_len=1024, output_len=1024, concurrency=10)


def outlook(**values: float) -> Outlook:
    shown = {
        name: Expected(metric=name, value=value, low=value / 1.5, high=value * 1.5, level=0.9, basis="test")
        for name, value in values.items()
    }
    return Outlook(log_values={name: math.log(value) for name, value in values.items()}, shown=shown)


def test_a_limit_at_the_expected_value_is_even_odds() -> None:
    (one,) = kept({"tpot_ms": 20.0}, outlook(tpot_ms=20.0), LOAD, None, None)
    assert one.chance == pytest.approx(0.5)
    (wide,) = kept({"tpot_ms": 30.0}, outlook(tpot_ms=20.0), LOAD, None, None)
    assert wide.chance == pytest.approx(0.95, abs=0.005)


def test_speed_for_each_user_comes_from_the_time_per_token_or_from_the_whole() -> None:
    (by_token,) = kept({"tok_s_user": 50.0}, outlook(tpot_ms=10.0), LOAD, None, None)
    assert by_token.value == pytest.approx(100.0)
    assert by_token.chance is not None
    assert by_token.chance > 0.95
    (by_whole,) = kept({"tok_s_user": 50.0}, outlook(output_tok_s=100.0), LOAD, None, None)
    assert by_whole.value == pytest.approx(10.0)
    assert by_whole.chance is not None
    assert by_whole.chance < 0.05


def test_what_nothing_tells_of_is_neither_kept_nor_broken() -> None:
    (one,) = kept({"ttft_ms": 100.0}, outlook(), LOAD, None, None)
    assert (one.value, one.chance) == (None, None)
    assert "unknown" in words(one)
    broken = kept({"ttft_ms": 1.0}, outlook(ttft_ms=500.0), LOAD, None, None)
    surely = kept({"ttft_ms": 9000.0}, outlook(ttft_ms=500.0), LOAD, None, None)
    assert log_chance(broken) < log_chance((one,)) < log_chance(surely)


def test_power_is_that_of_all_boards() -> None:
    gpu = find_gpu("h200")
    assert gpu is not None
    assert gpu.power_w is not None
    (over,) = kept({"power_w": gpu.power_w * 4 - 1}, outlook(), LOAD, gpu, 4)
    (under,) = kept({"power_w": gpu.power_w * 4}, outlook(), LOAD, gpu, 4)
    assert (over.chance, under.chance) == (0.0, 1.0)
    (told,) = advice([(over,)], gpu, 4)
    assert "-pl 175" in told or f"-pl {(gpu.power_w * 4 - 1) / 4:.0f}" in told
    assert not list(advice([(under,)], gpu, 4))


def answer(capsys: pytest.CaptureFixture[str], tmp_path: object, *words_: str) -> dict:
    with pytest.raises(SystemExit):
        main(["recommend", "--json", "--store", f"{tmp_path}/kb.duckdb", *words_])
    return json.loads(capsys.readouterr().out)


QUESTION = ("--gpu", "b200", "--model", "deepseek-ai/DeepSeek-R1", "--gpus", "8")


def test_limits_are_told_with_every_pick(capsys, tmp_path) -> None:
    told = answer(
        capsys, tmp_path, *QUESTION, "--max-ttft-ms", "500", "--max-tpot-ms", "20", "--max-power-w", "9000"
    )
    assert told["query"]["limits"] == {"ttft_ms": 500, "tpot_ms": 20, "power_w": 9000}
    for pick in told["picks"]:
        assert {one["metric"] for one in pick["limits"]} == {"ttft_ms", "tpot_ms", "power_w"}
        assert all(one["chance"] is not None for one in pick["limits"])


def test_a_limit_changes_the_order(capsys, tmp_path) -> None:
    """With a tight time to the first token the first pick has the best chance to keep it."""
    told = answer(capsys, tmp_path, *QUESTION, "--max-ttft-ms", "300", "--concurrency", "128")
    chances = [pick["limits"][0]["chance"] for pick in told["picks"]]
    free = answer(capsys, tmp_path, *QUESTION, "--concurrency", "128")
    assert chances[0] >= max(chances) - 1e-9
    assert not any(pick["limits"] for pick in free["picks"])


def test_a_limit_that_nothing_keeps_is_said(capsys, tmp_path) -> None:
    told = answer(capsys, tmp_path, *QUESTION, "--min-tok-s-user", "100000")
    assert any("--min-tok-s-user" in line for line in told["would_change_this"])


def test_the_number_of_gpus_is_kept_in_every_command(capsys, tmp_path) -> None:
    told = answer(capsys, tmp_path, *QUESTION[:-1], "4", "--model", "gpt-oss-120b", "--top", "6")
    assert told["query"]["gpus"] == 4
    for pick in told["picks"]:
        sizes = [int(value) for key, value in pick["settings"].items() if key in SIZES]
        assert math.prod(sizes) in (1, 4), pick["settings"]


SIZES = ("tp_size", "tensor_parallel_size", "pp_size", "pipeline_parallel_size", "data_parallel_size")


@pytest.mark.parametrize("wrong", ["0", "-5", "inf", "nan"])
def test_a_senseless_limit_is_refused(capsys, tmp_path, wrong: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["recommend", "--store", f"{tmp_path}/kb.duckdb", *QUESTION, "--max-tpot-ms", wrong])
    assert stopped.value.code == 2
    assert "positive number" in capsys.readouterr().err


def test_the_runbook_takes_the_same_limits(capsys, tmp_path) -> None:
    with pytest.raises(SystemExit):
        main(["runbook", "--store", f"{tmp_path}/kb.duckdb", *QUESTION, "--max-tpot-ms", "1"])
    assert "--max-tpot-ms 1" in capsys.readouterr().out
