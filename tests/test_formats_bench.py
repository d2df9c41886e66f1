"""Benchmark formats against their samples: what each must tell, and that no other format claims it.

A case is a pair of files under tests/formats/<format>/: ``<case>.<ext>`` and ``<case>.expected.json``, which
holds the part of the reading that matters (a subset of what ``kbctl parse --json`` prints). Adding a case is
adding files.
"""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from ingest.formats import Unreadable, all_formats, read_source
from ingest.sources import Source
from kb.wire import reading_to_wire

SAMPLES = Path(__file__).parent / "formats"
OURS = {
    "vllm_bench",
    "sglang_bench",
    "sglang_one_batch",
    "sglang_accuracy",
    "trtllm_bench",
    "trtllm_old_bench",
    "aisbench",
    "llama_bench",
    "llama_benchy",
    "genai_perf",
    "guidellm",
    "inference_perf",
    "inferencex",
    "llmd_report",
    "mlperf",
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
    "kbctl_export",
    "kbctl_toml",
}


def bench_formats() -> list[str]:
    return [one.name for one in all_formats() if one.sniff.__module__.rsplit(".", 1)[-1] in OURS]


def cases() -> list[Path]:
    names = set(bench_formats())
    found = sorted(SAMPLES.glob("*/*.expected.json"))
    return [path for path in found if path.parent.name in names]


def sample_of(case: Path) -> Path:
    stem = case.name.removesuffix(".expected.json")
    return next(path for path in case.parent.iterdir() if path.stem == stem or path.name == stem)


def list_differences(want: list[Any], got: Any, where: str) -> list[str]:
    """A list must agree item by item; ``"..."`` in it stands for any number of items."""
    if not isinstance(got, list):
        return [f"{where}: expected a list, got {got!r}"]
    gap = want.index("...") if "..." in want else len(want)
    after = want[gap + 1 :]
    if (gap == len(want) and len(want) != len(got)) or gap + len(after) > len(got):
        return [f"{where}: expected {len(want)} items, got {len(got)}"]
    pairs = [*zip(want[:gap], got, strict=False), *zip(after, got[len(got) - len(after) :], strict=True)]
    return [d for i, (one, other) in enumerate(pairs) for d in differences(one, other, f"{where}[{i}]")]


def differences(want: Any, got: Any, where: str = "") -> list[str]:
    if isinstance(want, dict):
        if not isinstance(got, dict):
            return [f"{where}: expected an object, got {got!r}"]
        return [d for key, value in want.items() for d in differences(value, got.get(key), f"{where}.{key}")]
    if isinstance(want, list):
        return list_differences(want, got, where)
    if isinstance(want, float) and isinstance(got, int | float):
        return [] if math.isclose(want, got, rel_tol=1e-6, abs_tol=1e-9) else [f"{where}: {want} is {got}"]
    return [] if want == got else [f"{where}: expected {want!r}, got {got!r}"]


@pytest.mark.parametrize("case", cases(), ids=lambda path: f"{path.parent.name}/{path.name.split('.')[0]}")
def test_sample_tells_what_it_must(case: Path) -> None:
    wire = reading_to_wire(read_source(Source(sample_of(case))))
    assert wire["format"] == case.parent.name
    assert differences(json.loads(case.read_text(encoding="utf-8")), wire) == []


@pytest.mark.parametrize("case", cases(), ids=lambda path: f"{path.parent.name}/{path.name.split('.')[0]}")
def test_only_its_own_format_claims_a_sample(case: Path) -> None:
    claims = {one.name: one.sniff(Source(sample_of(case))) for one in all_formats()}
    own = claims.pop(case.parent.name)
    rival = max(claims, key=lambda name: claims[name])
    assert own >= 0.3
    assert own > claims[rival], f"{rival} claims it with {claims[rival]}"


@pytest.mark.parametrize("name", bench_formats())
def test_every_format_has_a_sample_and_a_paragraph(name: str) -> None:
    form = next(one for one in all_formats() if one.name == name)
    assert len(form.docs) > 40
    assert list((SAMPLES / name).glob("*.expected.json")), f"add a sample under tests/formats/{name}/"


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


@pytest.mark.parametrize("case", cases(), ids=lambda path: f"{path.parent.name}/{path.name.split('.')[0]}")
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
