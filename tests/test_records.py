"""The schema, the reader and the lint of records: every fault is told with file, line and tip."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from kb.cli.drafting import page
from kb.lint import Fault, lint
from kb.records import RecordError, read_folder, read_record

TODAY = datetime.date(2026, 11, 30)

GOOD = """```toml
title = "TRT-LLM-gen MoE kernels have no code for SM120"
checked = "2026-11-30"
cause = "Its cubins are built for SM100 and SM103 only."

[[match]]
arch = ["sm120"]
mirror = ["sm121"]
roles = { moe = ["trtllm-gen"] }

[[outcome]]
effect = "crash"
stage = "serve"

[[range]]
component = "flashinfer"
introduced = "0"

[[instead]]
roles = { moe = "cutlass" }

[[evidence]]
ref = "flashinfer#2045"
kind = "maintainer"
side = "against"
date = "2026-03"

[[example]]
expect = "match"
check = "--gpu sm120 --role moe=trtllm-gen"

[[example]]
expect = "no-match"
check = "--gpu sm100 --role moe=trtllm-gen"
```

What happens, for people.

```log
RuntimeError: no kernel image is available for execution on the device
```
"""


def write(folder: Path, text: str, name: str = "sm120-moe-trtllm-gen") -> Path:
    path = folder / f"{name}.md"
    path.write_text(text)
    return path


def faults(folder: Path, text: str, **others: str) -> list[Fault]:
    write(folder, text)
    for name, other in others.items():
        write(folder, other, name.replace("_", "-"))
    return lint(read_folder(folder), TODAY)


def test_reads_content_prose_and_samples(tmp_path: Path) -> None:
    record = read_record(write(tmp_path, GOOD))
    assert record.id == "sm120-moe-trtllm-gen"
    assert record.content.match[0].roles["moe"].any == ("trtllm-gen",)
    assert not record.good
    assert record.prose.startswith("What happens")
    (sample,) = record.samples
    assert GOOD.splitlines()[sample.line - 1] == sample.text.strip()


def test_a_sound_record_has_no_faults(tmp_path: Path) -> None:
    assert faults(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('kind = "maintainer"', 'kind = "rumour"', "kind = ", "evidence.0.kind"),
        ('stage = "serve"', 'stage = "serve"\ncolour = "red"', "colour", "colour"),
        ('effect = "crash"', 'effect = "explodes"', "effect", "outcome.0.effect"),
        ('date = "2026-03"', 'date = "2026-03"\ndate = "2026-04"', None, "not TOML"),
    ],
)
def test_schema_faults_name_their_line(
    tmp_path: Path, old: str, new: str, line: str | None, words: str
) -> None:
    text = GOOD.replace(old, new)
    (fault,) = faults(tmp_path, text)
    assert words in fault.what
    if line:
        assert text.splitlines()[fault.line - 1].startswith(line)


def test_a_scalar_after_a_table_is_explained(tmp_path: Path) -> None:
    text = GOOD.replace('cause = "Its cubins are built for SM100 and SM103 only."\n', "")
    text = text.replace("[[outcome]]", 'cause = "Too late, it now belongs to the match."\n[[outcome]]')
    (fault,) = faults(tmp_path, text)
    assert fault.tip
    assert "before the first" in fault.tip


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('moe = ["trtllm-gen"]', 'moe = ["magic"]', "no kernel of moe"),
        ("roles = { moe = [", "roles = { mow = [", "unknown role"),
        ('arch = ["sm120"]', 'arch = ["blackwell"]', "unknown architecture"),
        ('stage = "serve"', 'stage = "serve"\nsignature = "no-such-thing"', "unknown signature"),
        ('component = "flashinfer"', 'component = "flashinfr"', "unknown component"),
        ('introduced = "0"', 'introduced = "0.6.8"\nfixed = "0.6.7"', "is after"),
        ('introduced = "0"', 'introduced = "0"\nfixed = "0.6.7"\nlast_affected = "0.6.6"', "contradict"),
        ('side = "against"', 'side = "for"', "no evidence against"),
        ('expect = "match"', 'expect = "no-match"', "no example that matches"),
        ('roles = { moe = ["trtllm-gen"] }', "count = { min = 8, max = 2 }", "above max"),
        ('date = "2026-03"', 'date = "March"', "no date"),
        ('cause = "Its cubins are built for SM100 and SM103 only."', 'cause = "Broken."', "says nothing"),
    ],
)
def test_rules_find_their_fault(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert any(
        words in fault.what for fault in faults(tmp_path, GOOD.replace(old, new)) if fault.severity == "error"
    )


def test_an_alternative_covered_by_another_is_told(tmp_path: Path) -> None:
    narrow = (
        '[[match]]\narch = ["sm120"]\nroles = { moe = ["trtllm-gen"] }\nengine = ["sglang"]\n\n[[outcome]]'
    )
    assert any(
        "covered by match 1" in fault.what for fault in faults(tmp_path, GOOD.replace("[[outcome]]", narrow))
    )


def test_two_records_of_one_match_are_told(tmp_path: Path) -> None:
    good = GOOD.replace('effect = "crash"', 'effect = "ok"').replace('side = "against"', 'side = "for"')
    assert any("repeats" in fault.what for fault in faults(tmp_path, GOOD, other_name=GOOD))
    assert any("contradicts" in fault.what for fault in faults(tmp_path, GOOD, other_name=good))


def test_a_stale_record_is_a_warning(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, GOOD.replace('checked = "2026-11-30"', 'checked = "2025-10-01"'))
    assert (fault.severity, fault.line) == ("warning", 3)


def test_a_file_without_toml_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="no TOML block"):
        read_record(write(tmp_path, "# Just prose\n"))


RUN = {
    "run": "run:abc",
    "engine": "sglang",
    "engine_version": "0.5.14",
    "arch": "sm120",
    "gpu": "NVIDIA GeForce RTX 5090",
    "gpu_count": 2,
    "model_id": "glm-5",
    "quantization": "nvfp4",
    "requested": {"moe": "trtllm-gen", "attention.decode": "fa3"},
    "stage": "serve",
    "effect": "crash",
    "failure": {
        "class": "no-kernels-for-arch",
        "text": 'a "quoted" \\ line\n```\n[[match]]',
        "cause": "The kernel has no code for this GPU.",
    },
}


def test_a_draft_from_a_failed_run_is_a_record(tmp_path: Path) -> None:
    record = read_record(write(tmp_path, page(RUN, TODAY), "a-draft"))
    assert record.content.match[0].roles["moe"].any == ("trtllm-gen",)
    assert record.content.outcome[0].signature == "no-kernels-for-arch"
    assert record.content.range[0].last_seen == "0.5.14"
    assert len(record.samples) == 1
    assert not [
        fault for fault in lint([record], TODAY) if "TODO" not in fault.what and fault.severity == "error"
    ]


def test_a_draft_of_little_is_a_record_too(tmp_path: Path) -> None:
    record = read_record(write(tmp_path, page({"effect": "oom", "arch": "sm90"}, TODAY), "a-draft"))
    assert record.content.outcome[0].effect == "oom"
