"""Server logs in what containers put around them, and results that quote them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from golden import cases, sample_of

from ingest.formats import read_source
from ingest.sources import Source

OURS = (
    "sglang_server_log",
    "vllm_server_log",
    "trtllm_server_log",
    "llama_server_log",
    "tgi_server_log",
    "lmdeploy_server_log",
    "ollama_server_log",
    "kernel_log",
    "error_log",
)
CASES = cases(OURS)


def wrapped(case: Path, template: str) -> Source:
    lines = Source(sample_of(case)).text.split("\n")
    return Source(Path("wrapped.log"), "\n".join(template.format(line) for line in lines).encode())


WRAPPERS = [
    "2026-03-01T12:34:56.789012345Z {}",
    "server-1  | {}",
    "[pod/llm-0/server] {}",
    "llm-0 server {}",
    "[1,0]<stdout>:{}",
    "0: {}",
]


@pytest.mark.parametrize("template", WRAPPERS)
@pytest.mark.parametrize(
    "case", [one for one in CASES if one.parent.name in OURS[:7]], ids=lambda path: path.stem
)
def test_a_container_around_a_log_changes_nothing_of_its_verdict(case: Path, template: str) -> None:
    plain, inside = read_source(Source(sample_of(case))), read_source(wrapped(case, template))
    assert [one.outcome for one in inside.experiments] == [one.outcome for one in plain.experiments]
    assert [one.backend for one in inside.experiments] == [one.backend for one in plain.experiments]
    assert [one.measurements for one in inside.experiments] == [one.measurements for one in plain.experiments]


def test_results_that_quote_a_log_are_results() -> None:
    rows = [
        {
            "model": "Qwen3-8B",
            "gpu": "RTX 3090",
            "output_tok_s": 100.5 + at,
            "concurrency": at,
            "failures": [],
        }
        for at in (1, 2, 4)
    ]
    rows[0]["failures"] = ["slot update_slots: id 0 | task 1 | failed to find free space in the KV cache"]
    reading = read_source(Source(Path("results.json"), json.dumps(rows, indent=1).encode()))
    assert reading.format == "bench_json"
    assert len(reading.experiments[0].measurements) == len(rows)


def test_a_report_far_down_a_log_is_read() -> None:
    report = (Path(__file__).parent / "formats" / "trtllm_bench" / "doc_layout_0_17.txt").read_text(
        encoding="utf-8"
    )
    logged = "[07/11/2025-04:46:27] [TRT-LLM] [I] Set dtype to bfloat16.\n" * 1500
    alone = read_source(Source(Path("bench.txt"), report.encode())).experiments[0]
    inside = read_source(Source(Path("bench.log"), (logged + report).encode()))
    assert inside.format == "trtllm_server_log"
    found = inside.experiments[0]
    assert found.measurements[0].metrics == alone.measurements[0].metrics
    assert (found.model.name, str(found.outcome.stage)) == (alone.model.name, "serve")
