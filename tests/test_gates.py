"""Hand-read gates that refuse: their data is sound, and each answers for the question that it describes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kb.vocab
from kb import symptoms, versions
from kb.vocab import engines, gates
from kb.vocab.gpus import arch_number
from recommend.gated import refused
from recommend.query import Asked, ask

FOLDER = Path(kb.vocab.__file__).with_name("gates")
FILES = sorted(FOLDER.glob("refusals-*.jsonl"))
ROWS = [json.loads(line) for path in FILES for line in path.open(encoding="utf-8")]


def answers(command: str) -> dict[str, str]:
    return {one.record: one.verdict for one in refused(ask(_asked(command)))}


def _asked(command: str) -> Asked:
    words = command.split()
    options = list(zip(words[::2], words[1::2], strict=True))
    given = {"--set": "settings", "--role": "roles", "--env": "environment"}
    lists = {field: tuple(value for key, value in options if key == flag) for flag, field in given.items()}
    single = {key.lstrip("-"): value for key, value in options if key not in given}
    return Asked(**single, **lists)


def test_every_refusal_is_a_gate_with_a_place_and_a_known_signature():
    known = symptoms.classes()
    for row in ROWS:
        for told in ("versions", "file", "symbol", "condition", "decision", "when"):
            assert row[told], (row["id"], told)
        assert row["signature"] in known, row["id"]
        assert gates.gate(row["id"]) is not None, row["id"]


def test_no_two_gates_share_an_id():
    ids = [one.id for one in gates.gates_for("vllm")] + [row["id"] for row in ROWS if row["engine"] != "vllm"]
    assert len(ids) == len(set(ids))


def test_every_refusal_stands_in_the_releases_where_it_was_read():
    for row in ROWS:
        for release in row["versions"]:
            assert versions.state(release, row["ranges"], row["engine"]) == "affected", (row["id"], release)


def test_refusals_use_only_kernels_and_architectures_that_exist():
    for row in ROWS:
        for role, kernels in row["when"].get("roles", {}).items():
            assert all(engines.is_known(role, kernel) for kernel in kernels), row["id"]
        for arch in row["when"].get("arch", ()):
            assert arch_number(arch) is not None or arch.startswith("gfx"), row["id"]


@pytest.mark.parametrize(
    ("question", "gate"),
    [
        (
            "--gpu sm120 --engine vllm==0.25.0 --model DeepSeek-R1 --set attention_backend=FLASHINFER_MLA",
            "vllm-flashinfer-mla-arch",
        ),
        (
            "--gpu sm80 --engine vllm==0.29.0 --model GLM-4.6 --quantization fp8 --set moe_backend=triton",
            "vllm-moe-triton-fp8-8x",
        ),
        (
            "--gpu sm75 --engine vllm==0.14.0 --model Qwen3-8B --quantization nvfp4",
            "vllm-capability-nvfp4-80",
        ),
    ],
)
def test_a_gate_refuses_the_question_that_it_describes(question: str, gate: str):
    assert answers(question)[gate] == "known-bad"


@pytest.mark.parametrize(
    "question",
    [
        "--gpu sm100 --engine vllm==0.25.0 --model DeepSeek-R1 --set attention_backend=FLASHINFER_MLA",
        "--gpu sm89 --engine vllm==0.29.0 --model Qwen3-30B-A3B --quantization fp8 --set moe_backend=triton",
        "--gpu sm75 --engine vllm==0.15.0 --model Qwen3-8B --quantization nvfp4",
        "--gpu sm75 --engine sglang==0.5.14 --model Qwen3-8B --set attention_backend=fa4",
    ],
)
def test_what_lies_just_outside_a_gate_is_not_refused(question: str):
    assert not {one for one in answers(question) if one.startswith("vllm-")}


def test_a_release_that_was_not_read_is_only_suspected():
    question = (
        "--gpu a100 --engine vllm==0.99.0 --model DeepSeek-R1 --quantization fp8 --set moe_backend=triton"
    )
    assert answers(question)["vllm-moe-triton-fp8-8x"] == "suspect"


MODELS = {
    "dsa": "GLM-5.1",
    "mla": "DeepSeek-R1",
    "sinks": "gpt-oss-20b",
    "linear-attention": "Qwen3.5-35B-A3B",
}
ARCHITECTURES = {
    "DeepseekV32": "DeepSeek-V3.2",
    "(?!DeepseekV4)": "DeepSeek-V3.2",
    "NemotronH": "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "Gemma4": "google/gemma-4-31B-it",
}
MODELS |= {"moe": "Qwen3-30B-A3B", "sliding": "gemma-3-27b-it"}
# Conditions for which a question would need a model or a variable of its own.
NOT_ASKED = {"head_dim", "env_is", "not_quantization"}
KV_WORDS = {"fp8": "fp8_e4m3", "bf16": "bfloat16", "fp16": "float16"}


def meets(values: list | dict) -> object:
    """A value that a condition on a setting asks for."""
    return values[0] if isinstance(values, list) else values.get("min", "other")


def question_of(row: dict) -> Asked:
    """A question that says everything a gate asks for, in its first words."""
    when = row["when"]
    lower = max((one for one in (52, 61, 70, 75, 80, 89, 90, 100) if one < when.get("below", 121)), default=0)
    settings = {**when.get("settings", {}), **dict(list(when.get("either", {}).items())[:1])}
    if "auto" not in when.get("kv_dtype", ["auto"]) and "kv_cache_dtype" not in settings:
        settings["kv_cache_dtype"] = [KV_WORDS.get(when["kv_dtype"][0], when["kv_dtype"][0])]
    if "layout" in when:
        settings["quantization"] = when["layout"][-1:]
    named = "DeepSeek-R1" if "family" in when else "Qwen3-8B"
    if "architecture" in when:
        named = ARCHITECTURES.get(when["architecture"][0], "gpt-oss-20b")
    switches = [f"{name}=1" for name in when.get("env_on", ())] + [
        f"{one}=0" for one in when.get("env_off", ())
    ]
    return Asked(
        gpu=when.get("arch", [f"sm{lower}"])[0],
        engine=f"{row['engine']}=={row['versions'][0]}",
        model=next((MODELS[name] for name in when.get("features", ()) if name in MODELS), named),
        quantization=None if "layout" in when else when.get("quantization", [None])[-1],
        settings=tuple(f"{key}={meets(values)}" for key, values in settings.items()),
        environment=tuple(switches),
        roles=tuple(f"{role}={kernels[0]}" for role, kernels in when.get("roles", {}).items()),
    )


ASKED = [row for row in ROWS if not NOT_ASKED & set(row["when"])]


@pytest.mark.parametrize("row", ASKED, ids=lambda row: row["id"])
def test_every_refusal_answers_a_question_that_says_its_conditions(row: dict):
    assert row["id"] in {one.record for one in refused(ask(question_of(row)))}
