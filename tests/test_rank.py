"""Physics, features, scoring and the search policy: the parts that order picks."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kb.measurements import attention_kernels, fitted_model, moe_kernels, serving, sources
from kb.numbers import explained
from kb.vocab.gpus import find_gpu
from kb.vocab.models import find_model
from recommend.features import Situation, features, position
from recommend.physics import Layout, Load, estimate, weight_bytes_per_gpu, weight_bytes_read
from recommend.pick import command, said_aloud
from recommend.policy import Prior, Seen, expected_improvement, next_choice, posterior, similarity
from recommend.question import Query
from recommend.samples import contradictions, layout_of, published, shape_of
from recommend.score import NOVELTY, linear, novelty_of, parts, predict, trees

H200 = find_gpu("h200")
L40S = find_gpu("l40s")
R1 = find_model("deepseek-ai/DeepSeek-R1")
LLAMA = find_model("meta-llama/Llama-3.1-8B-Instruct")
LOAD = Load(input_len=1024, output_len=1024, concurrency=64)
assert H200
assert L40S
assert R1
assert LLAMA


def test_a_dense_model_reads_all_of_its_weights_and_a_sparse_one_only_what_tokens_touch() -> None:
    layout = layout_of(LLAMA, "bf16")
    assert weight_bytes_read(LLAMA, layout, 1) == pytest.approx(8.03e9 * 2, rel=0.01)
    sparse = layout_of(R1, "fp8", tp=8)
    one, many = weight_bytes_read(R1, sparse, 1), weight_bytes_read(R1, sparse, 4096)
    assert one < 0.1 * many
    assert many == pytest.approx(weight_bytes_per_gpu(R1, sparse), rel=0.01)


def test_the_roofline_moves_the_right_way() -> None:
    slow = estimate(L40S, LLAMA, layout_of(LLAMA, "bf16"), LOAD)
    fast = estimate(H200, LLAMA, layout_of(LLAMA, "bf16"), LOAD)
    small = estimate(H200, LLAMA, layout_of(LLAMA, "fp8"), LOAD)
    assert slow
    assert fast
    assert small
    assert slow.output_tok_s < fast.output_tok_s < small.output_tok_s
    one = estimate(H200, LLAMA, layout_of(LLAMA, "bf16"), LOAD._replace(concurrency=1))
    assert one
    # One request cannot beat bandwidth over weights.
    assert one.output_tok_s < 4800e9 / (8.03e9 * 2)


def test_unknown_sizes_give_no_estimate() -> None:
    assert estimate(H200, LLAMA.__class__(id="x", family="x"), Layout(), LOAD) is None


@pytest.mark.parametrize(
    ("version", "place"), [("0.5.0", 0.0), ("0.6.0", 0.0), ("0.8.0", 1.0), ("9.9", 1.0), (None, None)]
)
def test_a_release_has_its_place(version: str | None, place: float | None) -> None:
    assert position(version, ("0.6.0", "0.7.0", "0.8.0")) == place


def test_features_tell_neither_names_nor_outcomes() -> None:
    named = features(
        Situation(
            gpu=H200, entry=R1, layout=layout_of(R1, "fp8", tp=8), load=LOAD, engine="sglang", release=0.5
        )
    )
    assert named
    assert all(math.isfinite(value) for value in named.values())
    assert not any(word in name for name in named for word in ("h200", "deepseek", "date", "tok_s_measured"))


def test_shapes_join_checkpoints_that_compute_alike() -> None:
    v3 = find_model("deepseek-ai/DeepSeek-V3")
    assert v3
    assert shape_of(R1) == shape_of(v3) != shape_of(LLAMA)


def test_forms_in_plain_python() -> None:
    form = {"intercept": 1.0, "coef": [2.0, -1.0], "mean": [0.0, 1.0], "scale": [1.0, 2.0]}
    assert linear(form, [0.5, 3.0]) == pytest.approx(1 + 1.0 - 1.0)
    assert linear(form, [99.0, 1.0]) == pytest.approx(1 + 6.0)
    tree = [[0, -1, -1], [0.5, 0.0, 0.0], [1, 0, 0], [2, 0, 0], [0.0, -1.0, 2.0]]
    assert trees({"base": 0.25, "trees": [tree, tree]}, [0.4]) == pytest.approx(0.25 - 2.0)
    assert trees({"base": 0.25, "trees": [tree]}, [0.6]) == pytest.approx(2.25)


def test_the_shipped_model_scores_and_its_terms_add_up() -> None:
    model = fitted_model()
    assert model
    known = {engine: tuple(found) for engine, found in model["releases"].items()}
    sample = next(published(serving(["deepseek-r1"]), known))
    guess = predict(model, "output_tok_s", sample.features, "same")
    assert guess
    assert guess.low < guess.value < guess.high
    told = parts(model, "output_tok_s", sample.features)
    assert math.exp(sum(told.values())) == pytest.approx(guess.value)
    assert list(told)[:2] == ["physics", "usual"]
    assert set(told) > set(model["metrics"]["output_tok_s"]["names"])


def test_seeing_less_never_makes_a_forecast_surer() -> None:
    model = fitted_model()
    assert model
    for part in model["metrics"].values():
        widths = [part["interval"][name] for name in NOVELTY]
        assert widths[0] == min(widths)
        assert widths[-1] == max(widths)


def test_novelty_is_told_by_what_was_seen() -> None:
    model: dict[str, Any] = {"seen": [["A", "m"], ["B", "n"]]}
    asked = [("A", "m"), ("B", "m"), ("A", "o"), ("C", "m"), ("C", "o")]
    assert [novelty_of(model, *one) for one in asked] == [
        "same",
        "new-model",
        "new-model",
        "new-gpu",
        "new-both",
    ]


def test_the_shipped_model_agrees_with_what_was_measured() -> None:
    model = fitted_model()
    assert model
    known = {engine: tuple(found) for engine, found in model["releases"].items()}
    samples = list(published(serving(["gpt-oss-120b"]), known))
    errors = []
    for one in samples:
        guess = predict(model, "output_tok_s", one.features, "same")
        assert guess
        errors.append(abs(math.log(guess.value / one.metrics["output_tok_s"])))
    assert sorted(errors)[len(errors) // 2] < 0.2


def test_published_tables_are_found_by_gpu_and_shape() -> None:
    found = moe_kernels("h200_sxm", R1.hidden, R1.expert_intermediate, R1.top_k, R1.experts)
    assert {one.role for one in found} == {"moe"}
    assert all(one.times for one in found)
    assert attention_kernels("l40s", "decode", 8, 1, 128)
    assert not moe_kernels("h200_sxm", 1, 2, 3, 4)
    assert {"serving.tsv", "moe_kernels.tsv", "attention_kernels.tsv"} <= set(sources())
    assert all(one["licence"] and one["attribution"] for one in sources().values())


CHOICES = [{"kernel": "a", "tp": 8.0}, {"kernel": "a", "tp": 4.0}, {"kernel": "b", "tp": 8.0}]


def prior(*means: float, works: float = 1.0) -> list[Prior]:
    return [Prior(mean=mean, deviation=0.3, works=works) for mean in means]


def test_before_anything_is_seen_the_best_bet_comes_first() -> None:
    assert next_choice(CHOICES, prior(0.1, 0.5, 0.2), []) == 1
    doubtful = [*prior(0.1), Prior(mean=0.5, deviation=0.3, works=0.2), *prior(0.2)]
    assert next_choice(CHOICES, doubtful, []) == 2


def test_a_failure_speaks_of_what_is_alike() -> None:
    priors = prior(0.5, 0.5, 0.4, works=0.8)
    after = posterior(CHOICES, priors, [Seen(at=0, log_value=None)], [1, 2])
    assert after[1].works < after[2].works < 0.8
    assert next_choice(CHOICES, priors, [Seen(at=0, log_value=None)]) == 2


def test_a_result_moves_what_is_alike() -> None:
    after = posterior(CHOICES, prior(0.0, 0.0, 0.0), [Seen(at=0, log_value=1.0)], [0, 1, 2])
    assert after[0].mean == pytest.approx(1.0, abs=0.1)
    assert after[1].mean > after[2].mean > 0
    assert after[0].deviation < after[1].deviation < after[2].deviation


def test_everything_is_tried_once() -> None:
    seen: list[Seen] = []
    for _ in CHOICES:
        index = next_choice(CHOICES, prior(0.1, 0.2, 0.3), seen)
        assert index is not None
        seen.append(Seen(at=index, log_value=0.0))
    assert {one.at for one in seen} == {0, 1, 2}
    assert next_choice(CHOICES, prior(0.1, 0.2, 0.3), seen) is None


def test_improvement_and_likeness() -> None:
    assert expected_improvement(1.0, 0.0) == 1.0
    assert expected_improvement(-1.0, 0.0) == 0.0
    assert 0 < expected_improvement(-1.0, 1.0) < expected_improvement(0.0, 1.0)
    assert similarity(CHOICES[0], CHOICES[0]) == 1
    assert similarity(CHOICES[0], CHOICES[1]) > similarity(CHOICES[0], CHOICES[2])


def test_commands_are_quoted_for_a_shell() -> None:
    assert command(["A=b c", "serve", "my model", "--x"]) == "A='b c' serve 'my model' --x"
    assert command(["serve", "x;rm -rf ~"]) == "serve 'x;rm -rf ~'"


def test_every_id_of_a_number_explains_itself() -> None:
    point = next(serving(["deepseek-r1"]))
    others = ("writeup:glm-5-rtx-pro-6000/1", "catalog:sglang-0.5.23", "model:physics+regression")
    for name in (point.id, *others):
        told = explained(name)
        assert told, name
        assert told[0]["name"] == name
        assert len(told[1]) > 3
    assert explained("serving:nothing") is None
    assert explained("sm120-moe-cutlass") is None


@pytest.mark.parametrize(
    ("gpu", "engine", "recorded", "asked", "shown"),
    [
        ("h200", "sglang", 8192, None, None),
        ("h200", "sglang", 4096, None, 4096),
        ("h200", "sglang", 8192, 8192, 8192),
        ("b200", "sglang", 16384, None, None),
        ("l40s", "sglang", 4096, None, 4096),
        ("h200", "vllm", 8192, None, 8192),
    ],
)
def test_what_the_engine_fills_in_by_itself_is_not_said_aloud(
    gpu: str, engine: str, recorded: int, asked: int | None, shown: int | None
) -> None:
    """A size that a recorded argument dump shows is rendered only where somebody chose it."""
    key = "chunked_prefill_size"
    found = find_gpu(gpu)
    query = Query(engine=engine, gpu_facts=found, settings={key: recorded, "context_length": 4096})
    question = Query(engine=engine, gpu_facts=found, settings={key: asked} if asked else {})
    assert said_aloud(query, question).settings.get(key) == shown
    assert said_aloud(query, question).settings["context_length"] == 4096


def test_a_batch_whose_tokens_get_faster_under_load_contradicts_itself() -> None:
    one = next(sample for sample in published(serving(), {}) if "tpot_ms" in sample.metrics)
    alone = [
        one._replace(load=(one.load[0], one.load[1], flight), metrics={**one.metrics, "tpot_ms": ms})
        for flight, ms in ((1, 8.0), (2, 42.0), (8, 21.0))
    ]
    ((gpu, (steps, rms)),) = contradictions(alone).items()
    assert (gpu, steps) == (one.group[0], 2)
    assert rms == pytest.approx(math.log(2) / math.sqrt(2))
