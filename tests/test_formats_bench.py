"""Benchmark formats against damage: cut, doubled, shuffled, spliced samples raise nothing."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from golden import cases, formats_of, name_of, sample_of

from ingest.formats import Unreadable, all_formats
from ingest.sources import Source
from kb.wire import reading_to_wire

OURS = {
    "vllm_bench",
    "sglang_bench",
    "sglang_one_batch",
    "sglang_accuracy",
    "trtllm_bench",
    "trtllm_old_bench",
    "aisbench",
    "llama_bench",
    "llama_batched",
    "llama_benchy",
    "genai_perf",
    "guidellm",
    "inference_perf",
    "inferencex",
    "llmd_report",
    "mlperf",
    "mlperf_endpoints",
    "mlperf_tables",
    "lm_eval",
    "nccl_tests",
    "bench_csv",
    "bench_json",
    "bench_markdown",
    "result_lines",
    "text_table",
    "perf_logs",
    "http_load",
    "kernel_tuning",
    "tgi_benchmark",
    "lmdeploy_bench",
    "locust",
    "kbctl_export",
    "kbctl_toml",
}


CASES = cases({one.name for one in formats_of(OURS)})


def damaged(data: bytes, rnd: random.Random) -> bytes:
    """Sample bytes cut, doubled, shuffled, spliced with junk, or with bytes flipped."""
    junk = (
        b"{",
        b'"',
        b"[",
        b"|",
        b"NaN",
        b"1e999",
        b"\x00",
        b"\xff\xfe",
        b",,,",
        b"\r",
        b"9" * 40,
        "²".encode(),
    )
    for _ in range(rnd.randint(1, 4)):
        at = rnd.randrange(len(data) + 1)
        match rnd.randrange(5):
            case 0:
                data = data[:at]
            case 1:
                data = data[:at] + rnd.choice(junk) + data[at:]
            case 2:
                data = data[:at] + data[max(at - 60, 0) : at] * 5 + data[at:]
            case 3:
                data = b"\n".join(rnd.sample(lines := data.split(b"\n"), len(lines)))
            case _:
                data = bytes(byte if rnd.random() > 0.01 else rnd.randrange(256) for byte in data)
    return data


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_damage_never_raises(case: Path) -> None:
    sample = sample_of(case)
    form = next(one for one in all_formats() if one.name == case.parent.name)
    rnd = random.Random(case.name)
    for _ in range(6):
        source = Source(sample, raw=damaged(sample.read_bytes()[:20_000], rnd))
        assert 0.0 <= form.sniff(source) <= 1.0
        try:
            reading = form.read(source)
        except Unreadable:
            continue
        json.dumps(reading_to_wire(reading), allow_nan=False)
