"""Answers compared: rounding is no fault, and a fault is no rounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ingest.formats import read_source
from ingest.probes import broken, common_prefix, compare, repeats
from ingest.sources import Source

SAMPLES = Path(__file__).parent / "formats" / "probe"


def answer(tokens: list[int], logprobs: list[float] | None = None, **more: Any) -> dict[str, Any]:
    return {"prompt_key": "p", "tokens": tokens, "logprobs": logprobs, **more}


def digest(*answers: dict[str, Any]) -> dict[str, Any]:
    return {"answers": list(answers)}


def verdict(a: dict[str, Any], b: dict[str, Any]) -> str:
    return compare(digest(a), digest(b)).verdict


def test_equal_tokens_are_the_same() -> None:
    assert verdict(answer([1, 2, 3], [-1.0, -2.0, -0.5]), answer([1, 2, 3], [-1.01, -2.0, -0.5])) == "same"


def test_a_toss_up_is_a_near_tie() -> None:
    a, b = answer([1, 2, 3], [-1.0, -2.0, -7.0]), answer([1, 2, 9], [-1.02, -1.99, -7.02])
    assert verdict(a, b) == "near-tie"


def test_a_recorded_runner_up_decides() -> None:
    a = answer([1, 2, 3], [-1.0, -2.0, -0.5], runner_up_gap=[3.0, 2.0, 0.01])
    b = answer([1, 2, 9], [-1.0, -2.0, -0.9], runner_up_gap=[3.0, 2.0, 2.0])
    assert verdict(a, b) == "near-tie"


def test_a_sure_choice_against_another_is_different() -> None:
    assert (
        verdict(answer([1, 2, 3], [-1.0, -2.0, -0.1]), answer([1, 2, 9], [-1.0, -2.0, -2.5])) == "different"
    )


def test_other_log_probabilities_of_equal_tokens_are_different() -> None:
    assert (
        verdict(answer([1, 2, 3], [-1.0, -2.0, -0.1]), answer([1, 2, 3], [-4.0, -5.0, -3.1])) == "different"
    )


def test_without_log_probabilities_a_parting_tells_nothing() -> None:
    assert verdict(answer([1, 2, 3]), answer([1, 2, 9])) == "unknown"
    assert compare(digest(), digest()).verdict == "unknown"


def test_the_worst_prompt_decides() -> None:
    a = digest(answer([1], [-1.0]), answer([1, 2], [-1.0, -0.1]) | {"prompt_key": "q"})
    b = digest(answer([1], [-1.0]), answer([1, 3], [-1.0, -3.0]) | {"prompt_key": "q"})
    found = compare(a, b)
    assert (found.verdict, found.prompts, len(found.evidence)) == ("different", 2, 2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"text": "!" * 40},
        {"tokens": [0] * 48, "text": "!" * 48},
        {"tokens": [5, 6], "logprobs": [float("nan"), float("nan")]},
        {"text": "The answer is !!!!!!!!!!!!!!!!!!!!!!!!"},
    ],
)
def test_broken_output(wrong: dict[str, Any]) -> None:
    assert broken(wrong)
    right = answer([5, 6, 7], [-1.0, -1.0, -1.0])
    assert verdict(right, {"prompt_key": "p"} | wrong) == "different"


def test_a_loop_or_odd_words_are_not_broken() -> None:
    loop = {"tokens": [77] * 40, "text": "na" * 40}
    assert broken(loop) is None
    assert repeats(loop) == "the same token 40 times in a row"
    assert broken({"text": "testClone [((SplitResultBase SER726~~~"}) is None
    assert repeats({"text": "----------------------------------"}) is None
    assert broken({}) is None


def test_common_prefix() -> None:
    assert common_prefix([1, 2, 3], [1, 2, 4]) == 2
    assert common_prefix([], [1]) == 0
    assert common_prefix("abc", "abc") == 3


def test_recorded_answers_of_two_engines_agree_up_to_near_ties() -> None:
    vllm, sglang = (
        read_source(Source(SAMPLES / name)).extra["probe"] for name in ("vllm.json", "sglang.json")
    )
    found = compare(vllm, sglang)
    assert (found.verdict, found.prompts) == ("near-tie", 3)
    assert compare(vllm, vllm).verdict == "same"


def test_garbage_is_told() -> None:
    probe = read_source(Source(SAMPLES / "garbage.jsonl")).extra["probe"]
    assert probe["broken"] == 2
    assert all("NaN" in one["broken"] for one in probe["answers"])


def test_nan_is_told_and_not_stored() -> None:
    item = (
        '{"request": {"prompt": "x"}, "response": {"object": "text_completion", "choices": [{"text": "a b", '
    )
    item += '"logprobs": {"tokens": ["a", "b"], "token_logprobs": [NaN, NaN]}}]}}'
    (told,) = read_source(Source(Path("p.json"), raw=item.encode())).extra["probe"]["answers"]
    assert told["broken"] == "its log-probabilities are NaN"
    assert told["logprobs"] == [None, None]
    assert broken(told)
