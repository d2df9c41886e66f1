"""What is said where no record speaks: option catalogs, requirements, memory, remedies, whole files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from test_match import BASE, TRTLLM, WORKS, record

from kb.cli import main
from kb.cli.check import question
from kb.evidence import Evidence
from kb.vocab import engines, gpus, requirements
from recommend import arithmetic
from recommend.query import ask
from recommend.veto import Finding, judge


def findings(check: str, *records: dict[str, object]) -> tuple[Finding, ...]:
    return judge(ask(question(check)), Evidence(records=records)).findings


@pytest.mark.parametrize(
    ("check", "kernel"),
    [
        ("--gpu a100 --role gemm.fp8=deepgemm", "deepgemm"),
        ("--gpu h100 --role moe=aiter", "aiter"),
        ("--gpu mi300x --role attention=fa3", "fa3"),
        ("--gpu b200 --role moe=b12x", "b12x"),
        ("--gpu h100 --quantization nvfp4 --role moe=cutlass", "cutlass"),
    ],
)
def test_a_kernel_without_code_for_the_gpu_is_suspect(check: str, kernel: str) -> None:
    found = findings(check)[0]
    assert (found.record, found.verdict, found.trust) == (f"requirement:{kernel}", "suspect", "inferred")
    assert found.evidence[0]["kind"] == "source"


@pytest.mark.parametrize(
    "check",
    [
        "--gpu h100 --role gemm.fp8=deepgemm",
        "--gpu mi300x --role moe=aiter",
        "--gpu h100 --quantization fp8 --role moe=cutlass",
    ],
)
def test_a_kernel_with_code_is_not(check: str) -> None:
    assert findings(check) == ()


def test_where_a_record_speaks_the_requirement_is_silent() -> None:
    found = findings("--gpu sm120 --role moe=trtllm-gen", record(TRTLLM))
    assert [one.kind for one in found] == ["record"]


def test_a_requirement_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["explain", "requirement:deepgemm"])
    assert not exit_.value.code
    told = capsys.readouterr().out
    assert "sm120     from 0.5.20 on" in told
    assert "component vllm" in told


def test_the_requirements_use_known_words() -> None:
    archs = {*gpus.known_archs(), "gfx1030", "gfx1102", "gfx1103", "gfx1150", "gfx1152", "gfx1153", "gfx1200"}
    for row in requirements.rows():
        name = row.get("kernel") or row["component"]
        for kernel in (row.get("kernel"), *row.get("instead", ())):
            assert kernel is None or any(engines.is_known(role, kernel) for role in row["roles"]), name
        assert {*row.get("since", ()), *row.get("until", ())} <= archs | {"gfx1250"}, name
        assert "since" in row or "vendor" in row, name
        assert row["cause"], name
        assert row["ref"].count(":") == 1 or "#" in row["ref"], name


LACKS = [
    ("--gpu sm120 --engine vllm==0.24.0 --role gemm.fp8=deepgemm", "deepgemm", "0.25.0"),
    ("--gpu sm121 --engine sglang==0.5.20 --role gemm.fp8=deepgemm", "deepgemm", "0.5.21"),
    ("--gpu sm120 --engine sglang==0.4.3", "sglang", "0.4.6.post2"),
    ("--gpu sm100 --engine vllm==0.6.0", "vllm", "0.9.0"),
    ("--gpu sm120 --engine tensorrt-llm==0.18.0", "tensorrt-llm", "0.20.0"),
    ("--gpu sm120 --quantization nvfp4 --engine vllm==0.9.2", "vllm", "0.10.1"),
    ("--gpu sm121 --with triton=3.3.0", "triton", "3.6.0"),
    ("--gpu sm103 --with cuda=12.8", "cuda", "12.9"),
    ("--gpu sm120 --with flashinfer=0.5.3 --role allreduce=trtllm-allreduce", "trtllm-allreduce", "0.6.17"),
    ("--gpu sm120 --quantization fp8 --engine sglang==0.5.1 --role gemm.fp8=cutlass", "cutlass", "0.5.2"),
    ("--gpu gfx1151 --engine vllm==0.10.2", "vllm", "0.11.1"),
]


@pytest.mark.parametrize(("check", "subject", "since"), LACKS)
def test_a_release_without_code_is_suspect_and_the_first_with_it_named(
    check: str, subject: str, since: str
) -> None:
    (found,) = findings(check)
    assert (found.record, found.verdict) == (f"requirement:{subject}", "suspect")
    assert (list(found.fixed_in.values()), f"from {since} on" in found.cause) == ([since], True)
    offered = [found.instead, *found.instead.get("others", ())]
    assert any(since in one.get("text", "") for one in offered)


@pytest.mark.parametrize(("check", "subject", "since"), [one for one in LACKS if "==" in one[0]])
def test_the_first_release_with_code_is_left_alone(check: str, subject: str, since: str) -> None:
    before = re.search(r"==(\S+)", check)
    assert before
    assert findings(check.replace(before[1], since)) == ()


@pytest.mark.parametrize(
    "check",
    [
        "--gpu sm121 --engine sglang==0.4.7",  # runs what was compiled for 12.0
        "--gpu sm103 --engine vllm==0.9.0",  # and this what was compiled for 10.0
        "--gpu sm89 --engine vllm==0.9.0",
        "--gpu sm70 --engine vllm",  # an older release would do, and none was named
        "--gpu sm121 --with triton=3.5.0 --env TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas",
        "--gpu sm89 --with flash-attn-4=c75d019 --role attention=fa4",  # a commit that nobody can date
        "--gpu sm120 --engine vllm==0.6.0 --with build=source --env TORCH_CUDA_ARCH_LIST=12.0",
        "--gpu sm90 --engine vllm==0.19.0 --with driver=550.54",
        "--gpu sm90 --engine vllm==0.20.0 --with driver=580.65",
    ],
)
def test_code_that_runs_here_or_may_is_left_alone(check: str) -> None:
    assert findings(check) == ()


@pytest.mark.parametrize(
    ("check", "missing"),
    [
        ("--gpu sm120 --with deepgemm=main --role gemm.fp8=deepgemm", "deepgemm version"),
        ("--gpu sm120 --engine vllm==0.6.0 --with build=source", "the architectures it was built for"),
    ],
)
def test_a_branch_or_an_own_build_is_suspect_with_what_is_missing(check: str, missing: str) -> None:
    (found, *_) = findings(check)
    assert (found.verdict, found.missing) == ("suspect", (missing,))


@pytest.mark.parametrize(
    ("check", "cause", "remedy"),
    [
        ("--gpu sm70 --with cuda=13.0", "dropped sm70 in 13.0", "stay below cuda 13.0"),
        ("--gpu sm90 --engine vllm==0.20.0 --with driver=550.54", "driver of 580", "stay below vllm 0.20.0"),
    ],
)
def test_dropped_code_is_said_with_the_release_that_dropped_it(check: str, cause: str, remedy: str) -> None:
    (found,) = findings(check)
    assert cause in found.cause
    assert found.instead["text"] == remedy


def test_a_flag_of_another_release_is_refused_where_the_release_is_named() -> None:
    found = findings("--gpu h100 --engine vllm==0.10.2 -- vllm serve m --moe-backend triton")
    assert (found[0].kind, found[0].effect, found[0].stage) == ("catalog", "refused", "args")
    assert "--moe-backend" in found[0].title
    newest = findings("--gpu h100 --engine vllm -- vllm serve m --moe-backend triton")
    assert not [one for one in newest if one.kind == "catalog"]


def test_a_value_that_the_release_does_not_offer_is_refused() -> None:
    found = findings("--gpu h100 --engine sglang==0.5.14 --set moe_runner_backend=warp_drive")
    assert (found[0].kind, found[0].verdict) == ("catalog", "known-bad")
    assert "warp_drive" in found[0].title


def test_a_flag_that_no_release_knows_is_suspect_not_condemned() -> None:
    (found,) = findings("--gpu h100 --engine vllm==0.10.2 -- vllm serve m --warp-drive 9")
    assert (found.kind, found.verdict, found.effect) == ("catalog", "suspect", "refused")


def test_more_ranks_than_gpus_are_refused() -> None:
    (found,) = findings("--gpu h100 --gpus 2 --engine vllm==0.20.0 --set tensor_parallel_size=4")
    assert (found.effect, found.signature) == ("refused", "world-size")
    assert findings("--gpu h100 --gpus 4 --engine vllm==0.20.0 --set tensor_parallel_size=4") == ()
    assert findings("--gpu h100 --gpus 2 --engine sglang==0.5.14 --set tp_size=4 --set nnodes=2") == ()


def test_weights_that_cannot_fit_are_out_of_memory() -> None:
    (found,) = findings(
        "--gpu h100 --gpus 4 --model deepseek-v3 --quantization fp8 --engine vllm==0.20.0 --set tp=4"
    )
    assert (found.kind, found.effect, found.verdict) == ("arithmetic", "oom", "known-bad")
    assert "at least" in found.instead["text"]


@pytest.mark.parametrize(
    "check",
    [
        "--gpu h200 --gpus 8 --model deepseek-v3 --quantization fp8 --engine vllm==0.20.0",
        "--gpu h100 --gpus 4 --model deepseek-v3 --quantization fp8 --engine vllm --set cpu_offload_gb=200",
        "--gpu 5090 --gpus 1 --model deepseek-v3 --quantization 'gguf q4_k_m' --engine llama.cpp",
        "--gpu sm90 --gpus 1 --model deepseek-v3 --quantization fp8",
        "--gpu h100 --model deepseek-v3 --quantization fp8",
    ],
)
def test_what_may_fit_is_left_alone(check: str) -> None:
    assert not [one for one in findings(check) if one.kind == "arithmetic"]


def test_the_memory_estimate_has_bounds_and_a_formula() -> None:
    estimate = arithmetic.fit(ask(question("--gpu h200 --gpus 8 --model deepseek-v3 --quantization fp8")))
    assert estimate
    low, high = estimate["weights_gib"]["low"], estimate["weights_gib"]["high"]
    # 671 billion parameters in about a byte each, on eight GPUs
    assert 38 < low <= high < 90
    assert estimate["tokens"]["low"] <= estimate["tokens"]["high"]
    assert "bits" in estimate["formula"]
    assert arithmetic.fit(ask(question("--gpu sm90 --gpus 8 --model deepseek-v3"))) is None


def test_a_remedy_that_is_known_bad_itself_comes_last() -> None:
    remedies = '[[instead]]\nroles = { moe = "cutedsl" }\n[[instead]]\nroles = { moe = "cutlass" }\n'
    bad = record(TRTLLM + remedies)
    worse = record(TRTLLM.replace("trtllm-gen", "cutedsl"), "worse")
    found = findings(
        "--gpu sm120 --quantization nvfp4 --engine sglang==0.5.14 --set moe_runner_backend=flashinfer_trtllm",
        bad,
        worse,
    )[0]
    assert found.instead["roles"] == {"moe": "cutlass"}
    assert "worse" in found.instead["others"][0]["but"]


def test_a_remedy_without_a_flag_here_names_the_release_that_has_one() -> None:
    toml = '[[match]]\nroles = { "dsa.decode" = ["trtllm-gen"] }\n'
    toml += '[[instead]]\nroles = { "dsa.decode" = "fi-sparse-mla" }\n'
    found = findings("--gpu sm120 --engine sglang==0.5.14 --role dsa.decode=trtllm-gen", record(toml))[0]
    assert "sglang 0.5.19 has" in found.instead["text"]


def test_a_setting_of_another_engine_is_no_remedy() -> None:
    toml = TRTLLM + '[[instead]]\nsettings = { moe_backend = "triton" }\n'
    check = "--gpu sm120 --engine tensorrt-llm==1.2.0 --role moe=trtllm-gen"
    assert findings(check, record(toml))[0].instead == {"none": "none known"}


COMMAND = (
    "python3 -m sglang.launch_server --model-path GLM-5-NVFP4 --tp 8 --moe-runner-backend flashinfer_trtllm"
)
SCRIPT = f"#!/bin/bash\nexport X=1\n{COMMAND}\n"
COMPOSE = f"services:\n  llm:\n    image: lmsysorg/sglang:v0.5.14-cu129\n    command: {COMMAND}\n"


@pytest.mark.parametrize(("name", "text"), [("serve.sh", SCRIPT), ("compose.yaml", COMPOSE)])
def test_check_reads_files_that_launch(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, text: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(SystemExit) as exit_:
        main(["check", "--json", "--gpu", "sm120", "--store", str(tmp_path / "none"), str(path)])
    told = json.loads(capsys.readouterr().out)
    assert exit_.value.code == 1
    assert told["findings"][0]["record"] == "sm120-moe-trtllm-gen"


def test_a_file_that_is_not_there_is_bad_input(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["check", f"{tmp_path}/missing.yaml"])
    assert exit_.value.code == 2
    assert "next: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "said"),
    [("Qwen/Qwen3.6-27B", True), ("Qwen3.6-27B", False), ("Qwen3.6-27B --quantization bf16", True)],
)
def test_memory_speaks_of_the_checkpoint_that_was_named_not_of_a_family(model: str, said: bool) -> None:
    found = findings(f"--gpu 'RTX 5090' --gpus 1 --engine vllm --model {model}")
    assert any(one.record == "arithmetic:memory" for one in found) is said


def test_kernels_that_work_prove_nothing_for_drafts_or_split_servers() -> None:
    works = TRTLLM.replace('"sm120"', '"sm100"').replace('mirror = ["sm121"]\n', "")
    good = record(works, base=BASE.replace('effect = "crash"', 'effect = "ok"'), evidence=WORKS)
    asked = "--gpu sm100 --quantization nvfp4 --engine sglang --set moe_runner_backend=flashinfer_trtllm"

    def verdict(further: str) -> tuple[str, tuple[str, ...]]:
        found = judge(ask(question(asked + further)), Evidence(records=(good,)))
        return found.verdict, found.unproven

    assert verdict("") == ("known-good", ())
    assert verdict(" --set pp_size=1") == ("known-good", ())
    assert verdict(" --set speculative_algorithm=EAGLE") == ("no-known-problem", ("speculation",))
    assert verdict(" --set disaggregation_mode=prefill")[0] == "no-known-problem"
