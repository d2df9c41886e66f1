"""Server logs against their samples: what each must tell, and that no other format claims it.

A case is a pair of files under tests/formats/<format>/: ``<case>.log`` and ``<case>.expected.json``, which
holds the part of the reading that matters (a subset of what ``kbctl parse --json`` prints). Adding a case
is adding files.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from ingest.formats import all_formats, read_source, recognise
from ingest.sources import Source
from kb.wire import reading_to_wire

SAMPLES = Path(__file__).parent / "formats"
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
CASES = sorted(path for name in OURS for path in (SAMPLES / name).glob("*.expected.json"))


def sample(case: Path) -> Source:
    return Source(case.with_name(case.name.replace(".expected.json", ".log")))


def differences(want: Any, got: Any, where: str = "") -> list[str]:
    if isinstance(want, dict):
        if not isinstance(got, dict):
            return [f"{where}: expected an object, got {got!r}"]
        return [d for key, value in want.items() for d in differences(value, got.get(key), f"{where}.{key}")]
    if isinstance(want, list):
        if not isinstance(got, list) or len(want) != len(got):
            return [f"{where}: expected {want!r}, got {got!r}"[:600]]
        return [d for i, value in enumerate(want) for d in differences(value, got[i], f"{where}[{i}]")]
    if isinstance(want, float) and isinstance(got, int | float):
        return [] if math.isclose(want, got, rel_tol=1e-6) else [f"{where}: {want} is {got}"]
    return [] if want == got else [f"{where}: expected {want!r}, got {got!r}"]


@pytest.mark.parametrize("case", CASES, ids=lambda path: f"{path.parent.name}/{path.name.partition('.')[0]}")
def test_sample_tells_what_it_must(case: Path) -> None:
    wire = reading_to_wire(read_source(sample(case)))
    assert differences(json.loads(case.read_text(encoding="utf-8")), wire) == []


@pytest.mark.parametrize("case", CASES, ids=lambda path: f"{path.parent.name}/{path.name.partition('.')[0]}")
def test_its_own_format_wins(case: Path) -> None:
    found, sure = recognise(sample(case))
    assert found is not None
    assert (found.name, sure >= 0.3) == (case.parent.name, True)


@pytest.mark.parametrize("name", OURS)
def test_every_log_format_has_samples(name: str) -> None:
    assert any(one.name == name for one in all_formats())
    assert [one for one in CASES if one.parent.name == name]


def wrapped(case: Path, template: str) -> Source:
    lines = sample(case).text.split("\n")
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
    plain, inside = read_source(sample(case)), read_source(wrapped(case, template))
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
