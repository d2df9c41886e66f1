"""Measured kernel times: which rows speak for a candidate, and what a slower kernel costs."""

from __future__ import annotations

import pytest

from kb.measurements import KernelTimes, kernel_times, measured_product
from kb.vocab.gpus import find_gpu
from kb.vocab.models import find_model
from recommend.kernel_times import gap, gaps, shift
from recommend.physics import Load
from recommend.query import Asked, ask
from recommend.question import Query

LOAD = Load(input_len=8192, output_len=1024, concurrency=16)


def question(**said: object) -> Query:
    return ask(Asked(gpu="b200", gpus=1, model="llama-3.1-8b", engine="sglang==0.5.14", **said))  # type: ignore[arg-type]


def times(
    kernel: str, ms: float, *, engine: str = "sglang", heads: int = 32, cache: str = "bfloat16"
) -> KernelTimes:
    return KernelTimes(
        gpu="NVIDIA B200",
        role="attention.decode",
        engine=engine,
        kernel=kernel,
        source=kernel,
        version="0.5.14",
        dtype="bfloat16",
        shape={"heads": str(heads), "kv_heads": "8", "head_dim": "128", "kv_dtype": cache},
        times={"d16x1024": ms / 4, "d16x8192": ms},
    )


def decode(query: Query, *rows: KernelTimes) -> tuple[float, str, str] | None:
    found = gap("attention.decode", query, LOAD, rows)
    return found and (round(found.ratio, 4), found.fastest, found.load)


TRITON = {"roles": ("attention.decode=triton",)}


def test_a_slower_kernel_is_told_by_the_nearest_load() -> None:
    rows = (times("triton", 4.0), times("trtllm-gen", 2.0))
    assert decode(question(**TRITON), *rows) == (2.0, "trtllm-gen", "d16x8192")


def test_times_of_another_engine_count_by_their_root_and_only_where_this_one_has_none() -> None:
    rows = (times("triton", 4.0), times("triton", 9.0, engine="vllm"), times("fa2", 1.0, engine="vllm"))
    assert decode(question(**TRITON), *rows) == (2.0, "fa2", "d16x8192")


def test_cache_types_are_kept_apart() -> None:
    rows = (times("triton", 4.0), times("trtllm-gen", 1.0, cache="fp8"))
    assert decode(question(**TRITON), *rows) is None


def test_the_head_layout_of_one_rank_decides() -> None:
    whole = (times("triton", 4.0), times("trtllm-gen", 2.0))
    eighth = (times("triton", 9.0, heads=4), times("trtllm-gen", 3.0, heads=4))
    split = question(**TRITON, settings=("tp_size=8",))._replace(hardware=question().hardware)
    assert decode(question(**TRITON), *whole, *eighth) == (2.0, "trtllm-gen", "d16x8192")
    assert decode(split, *whole, *eighth) == (3.0, "trtllm-gen", "d16x8192")


def test_a_kernel_without_a_known_family_is_no_yardstick() -> None:
    assert decode(question(**TRITON), times("triton", 4.0), times("?", 1.0)) is None


def test_a_slower_kernel_costs_its_roles_share_of_a_step() -> None:
    rows = (times("triton", 4.0), times("trtllm-gen", 2.0))
    slow, fast = question(**TRITON), question(roles=("attention.decode=trtllm-gen",))
    assert shift(fast, gaps(fast, LOAD, rows)) == 0
    assert shift(slow, gaps(slow, LOAD, rows)) == pytest.approx(-0.1823, abs=1e-4)


@pytest.mark.parametrize(
    ("gpu", "label"),
    [
        ("h200", "h200_sxm"),
        ("5090", "rtx_pro_6000_server"),
        ("gb10", "rtx_pro_6000_server"),
        ("mi300x", None),
    ],
)
def test_the_nearest_product_of_the_architecture_speaks_for_one_that_was_not_measured(
    gpu: str, label: str | None
) -> None:
    found = find_gpu(gpu)
    assert found is not None
    assert measured_product(found) == label


def test_latent_attention_has_no_times_and_experts_are_found_on_a_sibling_card() -> None:
    roles = {one.role for one in kernel_times(find_gpu("rtx pro 6000"), find_model("deepseek-r1"))}
    assert roles == {"moe"}
    roles = {one.role for one in kernel_times(find_gpu("rtx pro 6000"), find_model("qwen3-235b"))}
    assert roles == {"moe", "attention.prefill", "attention.decode"}
