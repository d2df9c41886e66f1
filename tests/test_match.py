"""A record against a question: dimensions in their three values, ranges, groups, what outweighs what."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from kb.cli.check import question
from kb.compiled import compiled
from kb.evidence import Evidence
from kb.model import Backend, Ending, Experiment, Failure, Hardware, Model, Outcome, Tried
from kb.records import Content, Record
from recommend.match import Matched, match, opens
from recommend.query import Query, ask
from recommend.recorded import explain_failure
from recommend.trial import answer, mutants
from recommend.veto import Finding, judge

BASE = """
title = "A record for tests"
checked = "2026-11-30"
cause = "Because it was written so."
[[outcome]]
effect = "crash"
stage = "serve"
signature = "no-kernels-for-arch"
"""
MAINTAINER = '[[evidence]]\nref = "vllm#1"\nkind = "maintainer"\nside = "against"\n'
REPORT = '[[evidence]]\nref = "vllm#2"\nkind = "report"\nside = "against"\n'
SOURCE = '[[evidence]]\nref = "vllm-project/vllm:x.py"\nkind = "source"\nside = "against"\n'
WORKS = '[[evidence]]\nref = "vllm#3"\nkind = "report"\nside = "for"\n'
TRTLLM = '[[match]]\narch = ["sm120"]\nmirror = ["sm121"]\nroles = { moe = ["trtllm-gen"] }\n'
ASKED = "--gpu sm120 --quantization nvfp4 --role moe=trtllm-gen"


def record(toml: str, name: str = "a-record", evidence: str = MAINTAINER, base: str = BASE) -> dict[str, Any]:
    content = Content.model_validate(tomllib.loads(base + toml + evidence))
    return compiled(Record(name, Path(f"{name}.md"), content, "", (), "", 1), shipped=True)


def says(match_toml: str, check: str, ranges: str = "") -> str:
    return answer(record(f"[[match]]\n{match_toml}\n{ranges}"), ask(question(check)))


def asked(check: str) -> Query:
    return ask(question(check))


def verdict(
    check: str, *records: dict[str, Any], tried: tuple[Tried, ...] = ()
) -> tuple[str, tuple[Finding, ...]]:
    found = judge(asked(check), Evidence(records=records, tried=tried))
    return found.verdict, found.findings


@pytest.mark.parametrize(
    ("condition", "yes", "no", "unknown"),
    [
        ('arch = ["sm120"]', "--gpu 5090", "--gpu h100", ""),
        ('gpu = ["RTX 5090"]', "--gpu 5090", "--gpu 'RTX PRO 6000'", "--gpu sm120"),
        ("count = { min = 2 }", "--gpus 4", "--gpus 1", ""),
        ('engine = ["vllm"]', "--engine vllm==0.20.0", "--engine sglang", ""),
        ('weight_quantization = ["fp8"]', "--quantization fp8-block", "--quantization nvfp4", ""),
        (
            'weight_quantization = ["fp8-block"]',
            "--quantization fp8-block",
            "--quantization awq",
            "--quantization fp8",
        ),
        ('model = { family = ["glm-5"] }', "--model glm5-nvfp4", "--model deepseek-v3", ""),
        ('model = { family = ["kimi-k2.5"] }', "--model Kimi-K2.5-NVFP4", "--model Kimi-K2-Instruct", ""),
        ('model = { family = ["kimi-k2"] }', "--model Kimi-K2.5-NVFP4", "--model glm5-nvfp4", ""),
        (
            'model = { family = ["qwen2-vl"] }',
            "--model Qwen2-VL-7B-Instruct",
            "--model Qwen2-7B-Instruct",
            "",
        ),
        (
            'model = { attention = ["mla"] }',
            "--model deepseek-v3",
            "--model qwen3-235b-a22b",
            "--model nobody/knows",
        ),
        (
            'model = { id = ["deepseek-v4-flash-vision-exp"] }',
            "--model DeepSeek-V4-Flash-Vision-Exp",
            "--model DeepSeek-V4-Flash",
            "",
        ),
        ('model = { id = ["deepseek-v3"] }', "--model deepseek-ai/DeepSeek-V3", "--model gpt-oss-120b", ""),
        ('driver = ">=580"', "--with driver=580.95.05", "--with driver=575.10", ""),
        ('cuda = "<13"', "--with cuda=12.9", "--with cuda=13.0", ""),
        ('dependencies = { torch = "<2.9" }', "--with torch=2.8.0", "--with torch=2.9.0", ""),
        (
            'build = ["vulkan"]',
            "--engine llama.cpp --set device=Vulkan0,Vulkan1",
            "--engine llama.cpp --set dev=ROCm0",
            "--engine llama.cpp --set device=RPC0",
        ),
        ('topology = ["nvlink"]', "--with topology=nvlink", "--with topology=pcie", "--gpu sm90"),
        (
            "workload = { input_len = { min = 8192 } }",
            "--workload input_len=9000",
            "--workload input_len=100",
            "",
        ),
    ],
)
def test_each_dimension_in_its_three_values(condition: str, yes: str, no: str, unknown: str) -> None:
    assert says(condition, yes) == "match"
    assert says(condition, no) == "no-match"
    assert says(condition, unknown) == "suspect"


@pytest.mark.parametrize(
    ("condition", "yes", "no"),
    [
        ("settings = { tp = 8 }", "--engine vllm --set tensor_parallel_size=8", "--engine vllm"),
        (
            "settings = { gpu_memory_utilization = { min = 0.86, set = true } }",
            "--engine vllm --set gpu_memory_utilization=0.9",
            "--engine vllm --set gpu_memory_utilization=0.8",
        ),
        (
            "settings = { gpu_memory_utilization = { min = 0.86, set = true } }",
            "--engine vllm --set gpu_memory_utilization=0.9",
            "--engine vllm",
        ),
        ("settings = { tp = { min = 2 } }", "--engine sglang --set tp=4", "--engine sglang --set tp_size=1"),
        (
            "settings = { enforce_eager = [false] }",
            "--engine vllm==0.20.0",
            "--engine vllm --set enforce_eager=true",
        ),
        (
            "settings = { page_size = { not = [64] } }",
            "--engine sglang",
            "--engine sglang --set page_size=64",
        ),
        (
            "settings = { quantization = { set = true } }",
            "--engine vllm --set quantization=fp8",
            "--engine vllm",
        ),
        (
            'settings = { "speculative_config.method" = ["mtp"] }',
            """--engine vllm==0.20.0 --set 'speculative_config={"method": "mtp"}'""",
            """--engine vllm==0.20.0 --set 'speculative_config={"method": "eagle"}'""",
        ),
        ('kv_dtype = ["fp8"]', "--engine sglang --set kv_cache_dtype=fp8_e4m3", "--engine sglang"),
        ('kv_dtype = ["bf16"]', "--engine vllm", "--engine vllm --set kv_cache_dtype=fp8"),
        ('env = { VLLM_USE_DEEP_GEMM = ["1"] }', "--env VLLM_USE_DEEP_GEMM=1", "--env VLLM_USE_DEEP_GEMM=0"),
        ('env = { VLLM_USE_DEEP_GEMM = { not = ["0"] } }', "", "--env VLLM_USE_DEEP_GEMM=0"),
        ('roles = { moe = ["marlin"] }', "--role moe=marlin", "--role moe=cutlass"),
        ('roles = { attention = ["fa3"] }', "--role attention.decode=fa3", "--role attention=triton"),
        (
            'roles = { moe = ["trtllm-gen"] }',
            "--engine vllm==0.25.0 --set moe_backend=flashinfer_trtllm",
            "--engine vllm",
        ),
    ],
)
def test_choices_are_matched_or_not_never_open(condition: str, yes: str, no: str) -> None:
    assert says(condition, yes) == "match"
    assert says(condition, no) == "no-match"


def test_one_record_holds_for_every_engine_that_spells_the_kernel() -> None:
    known = record(TRTLLM)
    for spelled in (
        "--engine sglang==0.5.14 --set moe_runner_backend=flashinfer_trtllm",
        "--engine vllm==0.25.0 --set moe_backend=flashinfer_trtllm",
        "--engine tensorrt-llm==1.2.0 --set moe_config.backend=TRTLLM",
    ):
        assert answer(known, asked(f"--gpu sm120 --quantization nvfp4 {spelled}")) == "match", spelled


def test_alternatives_and_the_better_of_two() -> None:
    known = record('[[match]]\narch = ["sm90"]\ncount = 8\n[[match]]\narch = ["sm120"]\n')
    assert answer(known, asked("--gpu sm120")) == "match"
    assert answer(known, asked("--gpu sm90")) == "suspect"
    assert answer(known, asked("--gpu sm80")) == "no-match"


@pytest.mark.parametrize(
    ("tp", "expected"),
    [("4", "no-match"), ("8", "no-match"), ("16", "no-match"), ("32", "match"), ("3", "match")],
)
def test_divides_holds_where_the_shard_misses_its_alignment(tp: str, expected: str) -> None:
    condition = 'divides = { dim = "moe_intermediate", by = "tp", align = 128 }'
    asked_for = f"--engine vllm --model deepseek-v3 --set tensor_parallel_size={tp}"
    assert says(condition, asked_for) == expected
    assert says(condition, "--engine vllm --model nobody/knows") == "suspect"


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.6.2", "no-match"),
        ("0.6.3", "match"),
        ("0.6.8rc1", "match"),
        ("0.6.8", "no-match"),
        ("main", "suspect"),
    ],
)
def test_a_range_on_a_library(version: str, expected: str) -> None:
    ranges = '[[range]]\ncomponent = "flashinfer"\nintroduced = "0.6.3"\nfixed = "0.6.8"\n'
    assert says('arch = ["sm120"]', f"--gpu sm120 --with flashinfer={version}", ranges) == expected


def test_a_release_implies_its_libraries() -> None:
    ranges = '[[range]]\ncomponent = "flashinfer"\nintroduced = "0"\nfixed = "0.6.9"\n'
    assert says('arch = ["sm120"]', "--gpu sm120 --engine sglang==0.5.8", ranges) == "match"
    assert says('arch = ["sm120"]', "--gpu sm120 --engine sglang==0.5.23", ranges) == "no-match"
    assert (
        says('arch = ["sm120"]', "--gpu sm120 --engine sglang==0.5.8 --with flashinfer=0.6.9", ranges)
        == "no-match"
    )


def test_a_range_on_an_engine_binds_the_record_to_it() -> None:
    ranges = '[[range]]\ncomponent = "sglang"\nintroduced = "0"\nfixed = "0.5.14"\n'
    assert says('arch = ["sm120"]', "--gpu sm120 --engine sglang==0.5.10", ranges) == "match"
    assert says('arch = ["sm120"]', "--gpu sm120 --engine vllm==0.10.2", ranges) == "no-match"
    assert says('arch = ["sm120"]', "--gpu sm120", ranges) == "suspect"


def test_a_fix_in_either_component_ends_it() -> None:
    ranges = (
        '[[range]]\ncomponent = "flashinfer"\nintroduced = "0"\nfixed = "0.6.8"\n'
        '[[range]]\ncomponent = "vllm"\nintroduced = "0"\nfixed = "0.20.0"\n'
    )
    old = "--gpu sm120 --engine vllm==0.15.0 --with flashinfer="
    assert says('arch = ["sm120"]', old + "0.6.0", ranges) == "match"
    assert says('arch = ["sm120"]', old + "0.6.8", ranges) == "no-match"
    assert (
        says('arch = ["sm120"]', "--gpu sm120 --engine vllm==0.20.0 --with flashinfer=0.6.0", ranges)
        == "no-match"
    )


def test_known_bad_with_everything_a_user_needs() -> None:
    toml = TRTLLM + '[[instead]]\nroles = { moe = "cutlass" }\ncites = ["vllm#9"]\n'
    word, (found,) = verdict(
        "--gpu sm120 --engine sglang==0.5.14 --quantization nvfp4 --set moe_runner_backend=flashinfer_trtllm",
        record(toml),
    )
    assert word == "known-bad"
    assert found.instead["flags"] == "--moe-runner-backend flashinfer_cutlass"
    assert found.evidence[0]["url"] == "https://github.com/vllm-project/vllm/issues/1"
    assert (found.trust, found.status) == ("confirmed", "open")


def test_a_sibling_inherits_one_step_lower() -> None:
    word, (found,) = verdict(ASKED.replace("sm120", "sm121"), record(TRTLLM))
    assert (word, found.trust, found.applies_to["inherited"]) == ("known-bad", "reported", True)
    word, (found,) = verdict(ASKED.replace("sm120", "sm121"), record(TRTLLM, evidence=REPORT))
    assert (word, found.trust) == ("suspect", "inferred")


@pytest.mark.parametrize(
    ("evidence", "word", "trust"),
    [
        (MAINTAINER, "known-bad", "confirmed"),
        (REPORT, "known-bad", "reported"),
        (SOURCE, "suspect", "inferred"),
    ],
)
def test_trust_follows_the_evidence(evidence: str, word: str, trust: str) -> None:
    got, (found,) = verdict(ASKED, record(TRTLLM, evidence=evidence))
    assert (got, found.trust) == (word, trust)


def test_both_sides_are_disputed_unless_settled() -> None:
    word, (found,) = verdict(ASKED, record(TRTLLM, evidence=MAINTAINER + WORKS))
    assert (word, found.status) == ("disputed", "disputed")
    assert [one["ref"] for one in found.conflicts] == ["vllm#3"]
    settled = WORKS + 'settled = "another card"\n'
    assert verdict(ASKED, record(TRTLLM, evidence=MAINTAINER + settled))[0] == "known-bad"
    fixed = TRTLLM + '[[range]]\ncomponent = "flashinfer"\nintroduced = "0"\nfixed = "0.6.8"\n'
    later = WORKS + 'versions = { flashinfer = "0.6.8" }\n'
    check = ASKED + " --with flashinfer=0.6.0"
    assert verdict(check, record(fixed, evidence=MAINTAINER + later))[0] == "known-bad"


def test_a_good_record_counts_only_where_nothing_bad_does() -> None:
    good = record(TRTLLM, "good", WORKS, BASE.replace('"crash"', '"ok"'))
    assert verdict(ASKED, good)[0] == "known-good"
    assert verdict(ASKED, good, record(TRTLLM))[0] == "disputed"
    narrower = record(TRTLLM + "count = 8\n", "narrow")
    assert verdict(ASKED + " --gpus 8", good, narrower)[0] == "known-bad"


def test_a_chosen_kernel_that_nothing_speaks_for_is_not_known_good() -> None:
    good = record(TRTLLM.replace("trtllm-gen", "cutlass"), "good", WORKS, BASE.replace('"crash"', '"ok"'))
    check = "--gpu sm120 --role moe=cutlass"
    assert verdict(check, good)[0] == "known-good"
    assert verdict(check + " --role mla=triton", good)[0] == "no-known-problem"


def test_what_nobody_chose_is_not_suspect_but_advice() -> None:
    found = judge(asked("--gpu sm120 --engine sglang"), Evidence(records=(record(TRTLLM + "count = 8\n"),)))
    assert (found.verdict, found.findings) == ("no-known-problem", ())
    cutlass = record(TRTLLM.replace("trtllm-gen", "cutlass") + 'engine = ["vllm"]\n')
    found = judge(asked(ASKED.replace("trtllm-gen", "cutlass")), Evidence(records=(cutlass,)))
    assert found.verdict == "no-known-problem"
    assert found.advice[0]["if"] == ["the engine"]


def test_what_is_chosen_but_open_is_suspect_and_says_what_decides() -> None:
    found = judge(asked(ASKED), Evidence(records=(record(TRTLLM + 'driver = ">=580"\n'),)))
    assert (found.verdict, found.missing) == ("suspect", ("driver version",))


@pytest.mark.parametrize("check", ["", "--gpu 'Voodoo 2'", "--gpu sm120"])
def test_too_little_said_is_unknown(check: str) -> None:
    assert verdict(check, record(TRTLLM))[0] == "unknown"


HERE = Hardware(arch="sm120", count=8)
GLM = Model(name="glm5-nvfp4", id="glm-5", family="glm-5", quantization="nvfp4")
COMMAND = (
    "--gpu sm120 --gpus 8 --model glm5-nvfp4 --engine sglang==0.5.14 "
    "--set tp_size=8 --set moe_runner_backend=flashinfer_cutlass"
)


def ran(ending: Ending, **settings: Any) -> Tried:
    settings = {"tp_size": 8, "moe_runner_backend": "flashinfer_cutlass"} | settings
    requested = {
        "moe": {"flashinfer_cutlass": "cutlass", "triton": "triton"}[str(settings["moe_runner_backend"])]
    }
    backend = Backend(engine="sglang", engine_version="0.5.14", settings=settings, requested=requested)
    return Tried(key="k", hardware=HERE, model=GLM, backend=backend, endings=(ending,), runs=("run:1",))


def ended(effect: Any, blame: Any = "backend", signature: str | None = None, stage: Any = "serve") -> Ending:
    return Ending(
        stage=stage, effect=effect, blame=blame, signature=signature, cause="it broke", runs=("run:1",)
    )


def test_an_own_failure_vetoes_that_very_configuration() -> None:
    word, (found,) = verdict(COMMAND, tried=(ran(ended("crash")),))
    assert (word, found.kind, found.trust, found.record) == ("known-bad", "own-run", "own", "run:1")
    assert verdict(COMMAND + " --set page_size=64", tried=(ran(ended("crash")),))[0] == "no-known-problem"


def test_an_own_failure_names_what_served_instead() -> None:
    bad, good = ran(ended("crash"), page_size=64), ran(ended("ok"), attention_backend="triton")
    _, findings = verdict(COMMAND + " --set page_size=64", tried=(bad, good))
    assert findings[0].instead["settings"] == {"attention_backend": "triton"}
    assert "leave out page_size" in findings[0].instead["text"]


def test_what_an_engine_chose_by_itself_makes_no_other_configuration() -> None:
    noted = ran(ended("ok", "unknown"), chunked_prefill_size=8192, page_size=1, trust_remote_code=True)
    assert verdict(COMMAND, tried=(noted,))[0] == "known-good"
    other = ran(ended("ok", "unknown"), attention_backend="triton")
    assert verdict(COMMAND, tried=(other,))[0] == "no-known-problem"


def test_a_fault_of_the_environment_speaks_against_no_backend() -> None:
    assert verdict(COMMAND, tried=(ran(ended("refused", "environment")),))[0] == "no-known-problem"
    assert verdict(COMMAND, tried=(ran(ended("killed", "harness")),))[0] == "no-known-problem"


def test_a_kernel_level_failure_speaks_about_the_role_elsewhere() -> None:
    tried = (ran(ended("crash", signature="no-kernels-for-arch")),)
    word, (found,) = verdict(COMMAND.replace("tp_size=8", "tp_size=4"), tried=tried)
    assert (word, found.applies_to["roles"]) == ("known-bad", {"moe": "cutlass"})
    assert verdict(COMMAND.replace("flashinfer_cutlass", "triton"), tried=tried)[0] == "no-known-problem"


def test_an_own_success_disputes_a_record_and_makes_good_otherwise() -> None:
    tried = (ran(ended("ok", "unknown")),)
    assert verdict(COMMAND, tried=tried)[0] == "known-good"
    word, findings = verdict(COMMAND, record(TRTLLM.replace("trtllm-gen", "cutlass")), tried=tried)
    assert word == "disputed"
    assert findings[0].conflicts[0]["kind"] == "own-run"


def test_success_and_failure_of_one_configuration_is_disputed() -> None:
    both = ran(ended("crash"))
    both = Tried(
        key="k", hardware=HERE, model=GLM, backend=both.backend, endings=(ended("crash"), ended("ok"))
    )
    assert verdict(COMMAND, tried=(both,))[0] == "disputed"


def test_a_failure_is_explained_by_the_nearest_record() -> None:
    backend = Backend(engine="sglang", engine_version="0.5.14", requested={"moe": "trtllm-gen"})
    failure = Failure(signature="no-kernels-for-arch", text="…", cause="…")
    run = Experiment(
        hardware=HERE, model=GLM, backend=backend, outcome=Outcome(effect="crash", failure=failure)
    )
    general = record('[[match]]\narch = ["sm120"]\n', "general")
    elsewhere = record(TRTLLM.replace("sm120", "sm100"), "elsewhere")
    records = (general, elsewhere, record(TRTLLM, "nearest"))
    assert explain_failure("no-kernels-for-arch", run, records) == "nearest"
    assert explain_failure("port-in-use", run, records) is None


def test_every_flipped_condition_changes_the_answer() -> None:
    known = record(TRTLLM + 'count = 8\nengine = ["vllm"]\n[[range]]\ncomponent = "vllm"\nintroduced = "0"\n')
    query = asked(ASKED + " --gpus 8 --engine vllm==0.20.0")
    assert answer(known, query) == "match"
    flipped = dict(mutants(known))
    assert len(flipped) == 5
    assert {answer(mutant, query) for mutant in flipped.values()} == {"no-match"}


def test_a_range_that_cannot_be_read_is_unknown_not_an_error() -> None:
    known = record(TRTLLM + '[[range]]\ncomponent = "flashinfer"\nintroduced = "soon"\n')
    found = match(known, asked(ASKED + " --with flashinfer=0.6.0"))
    assert found
    assert not found.sure


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("MiniMax-M2.5", "known-bad"),
        ("GLM-4.7", "no-known-problem"),
        ("Qwen/Qwen3-8B-FP8", "known-bad"),
        ("nvidia/Qwen3-8B-FP8", "no-known-problem"),
        ("RedHatAI/Qwen3-8B-FP8-dynamic", "no-known-problem"),
    ],
)
def test_plain_fp8_is_the_kind_that_the_makers_publish(model: str, expected: str) -> None:
    one = record('[[match]]\narch = ["sm90"]\nweight_quantization = ["fp8-block"]\n', evidence=MAINTAINER)
    check = f"--gpu h100 --engine sglang --model {model} --quantization fp8"
    assert judge(ask(question(check)), Evidence(records=(one,))).verdict == expected


def test_fp4_without_a_kind_is_the_one_that_the_model_is_published_in() -> None:
    def asked(model: str, word: str) -> str | None:
        return ask(question(f"--gpu b200 --model {model} --quantization {word}")).quantization

    assert asked("gpt-oss-120b", "fp4") == "mxfp4"
    assert asked("gpt-oss-120b", "nvfp4") == "nvfp4"
    assert asked("deepseek-r1", "fp4") == "nvfp4"


def test_what_an_unknown_release_does_unasked_is_unknown() -> None:
    rule = 'settings = { attn_backend = { not = ["TRTLLM"] } }'
    asked = "--gpu h200 --engine tensorrt-llm=={} --model gpt-oss-120b"
    assert says(rule, asked.format("1.2.0")) == "no-match"
    assert says(rule, asked.format("a-branch")) == "suspect"
    assert says(rule, asked.format("a-branch") + " --set attn_backend=FLASHINFER") == "match"


def test_what_would_decide_is_asked_for_once() -> None:
    found = Matched(sure=False, missing=("nccl version", "nccl version", "the GPU"))
    assert opens(found, ask(question("--engine sglang"))) == ("nccl version", "the GPU")
