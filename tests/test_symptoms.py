"""The symptom table: sound as data, and each text finds its own row first where it should."""

from __future__ import annotations

from pathlib import Path

import pytest

from kb.errors import KbctlError
from kb.model import BLAMES, EFFECTS, STAGES
from kb.symptoms import compile_texts, fill, table

ROWS = table().rows


def test_words_are_closed() -> None:
    for row in ROWS:
        assert row.kind in ("cause", "echo", "noise", "notice")
        assert row.effect is None or row.effect in EFFECTS
        assert row.blame is None or row.blame in BLAMES
        assert row.stage is None or row.stage in STAGES
        assert set(row.by_stage) <= set(STAGES)
        assert row.patterns


def test_causes_say_how_they_end_and_what_they_mean() -> None:
    for row in ROWS:
        if row.kind == "cause":
            assert row.effect, row.name
            assert row.blame, row.name
            assert row.advice, row.name
        if row.kind != "noise":
            assert row.meaning.endswith("."), row.name


def test_names_are_kebab_case_and_texts_are_long_enough_to_mean_something() -> None:
    for row in ROWS:
        assert row.name == row.name.lower().replace("_", "-")
        for pattern in row.patterns:
            assert len(pattern.literal) >= 7, (row.name, pattern.literal)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has", "oom"),
        (
            "RuntimeError: CUDA error: no kernel image is available for execution on the device",
            "no-kernels-for-arch",
        ),
        ("RuntimeError: fmhaRunner.cuh:30: Unsupported architecture", "unsupported-arch-assert"),
        (
            "ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'",
            "unsupported-arch-toolchain",
        ),
        (
            "OutOfResources: out of resource: shared memory, Required: 131072, Hardware limit: 101376.",
            "shared-memory-limit",
        ),
        ("OSError: [Errno 98] Address already in use", "port-in-use"),
        (
            "ValueError: To serve at least one request with the model's max seq len (262144), (18.35",
            "oom-kv-cache",
        ),
        (
            "KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_token_ratio: 0.7",
            "kv-cache-full",
        ),
        ("Decode out of memory happened. #retracted_reqs: 1", "kv-cache-full"),
        ("[1234.5] Out of memory: Killed process 123 (python3) total-vm:1kB", "oom-host"),
        ("NVRM: Xid (PCI:0000:61:00): 79, pid=1, GPU has fallen off the bus.", "gpu-lost"),
    ],
)
def test_texts_find_their_class(text: str, name: str) -> None:
    found = table().match(text, is_error=True)
    assert found is not None
    assert found.symptom.name == name


@pytest.mark.parametrize(
    "text",
    [
        "If you are running out of memory, consider decreasing `gpu_memory_utilization`",
        "Using FlashAttention version 3",
        "Load weight end. type=LlamaForCausalLM, avail mem=15.31 GB",
        "Avg prompt throughput: 0.0 tokens/s",
    ],
)
def test_ordinary_lines_mean_nothing(text: str) -> None:
    assert table().match(text, is_error=False) is None
    assert table().match(text, is_error=True) is None


def test_holes_are_repeated_in_the_meaning() -> None:
    found = table().match("vllm: error: unrecognized arguments: --attention-backnd FLASH_ATTN", is_error=True)
    assert found is not None
    assert "--attention-backnd FLASH_ATTN" in found.meaning
    assert fill("a {b} {c}", {"b": "x"}) == "a x it"


def test_a_long_line_is_matched_in_no_time() -> None:
    for pattern in compile_texts(["a<x>b...c<n>d <y>"]):
        assert pattern.regex is not None
        assert pattern.regex.search("a" * 200_000) is None


def test_a_broken_table_is_told(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("[[symptom]\n")
    with pytest.raises(KbctlError, match="symptom table"):
        table(tmp_path / "s.toml")
