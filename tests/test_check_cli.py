"""``kbctl check`` and ``explain`` as a user meets them: verdict, exit status, JSON shape, bad input."""

from __future__ import annotations

import json
import os
import resource
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_records import GOOD, write

from kb.cli import main
from recommend.explain import run_lines

FORBIDDEN = ("duckdb", "pydantic", "numpy", "sklearn", "rich", "markdown_it", "yaml")
BAD = "--gpu sm120 --quantization nvfp4 --engine sglang==0.5.14 --set moe_runner_backend=flashinfer_trtllm"
FINDING = (
    "record effect stage status cause signature applies_to fixed_in instead evidence conflicts trust".split()  # noqa: SIM905
)


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBCTL_STORE", str(tmp_path / "none.duckdb"))


def run(capsys: pytest.CaptureFixture[str], line: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as exit_:
        main(shlex.split(line))
    told = capsys.readouterr()
    return int(exit_.value.code or 0), told.out, told.err


def answer(capsys: pytest.CaptureFixture[str], line: str) -> tuple[int, dict[str, Any]]:
    code, out, _ = run(capsys, f"check --json {line}")
    return code, json.loads(out)


def test_a_known_bad_command_exits_1_with_cause_remedy_and_evidence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = "python -m sglang.launch_server --model-path x/GLM-5-NVFP4 --tp 8 "
    command += "--moe-runner-backend flashinfer_trtllm"
    code, told = answer(capsys, f"--gpu sm120 --model glm5-nvfp4 -- {command}")
    assert (code, told["verdict"], told["schema"]) == (1, "known-bad", "kbctl.check/1")
    first = told["findings"][0]
    assert set(FINDING) <= set(first)
    assert first["record"] == "sm120-moe-trtllm-gen"
    assert first["cause"]
    assert first["evidence"]
    assert "--moe-runner-backend flashinfer_cutlass" in first["instead"]["flags"]
    assert told["query"]["gpus"] == 8
    assert told["assumed"]["engine_version"]


@pytest.mark.parametrize(
    "spelled",
    [
        "vllm serve x/GLM-5-NVFP4 -tp 8 --moe-backend flashinfer_trtllm",
        "python3 -m sglang.launch_server --model x/GLM-5-NVFP4 --tp 8 --moe-runner-backend flashinfer_trtllm",
    ],
)
def test_other_spellings_of_the_same_kernel_get_the_same_record(
    capsys: pytest.CaptureFixture[str], spelled: str
) -> None:
    code, told = answer(capsys, f"--gpu sm120 -- {spelled}")
    assert code == 1
    assert "sm120-moe-trtllm-gen" in [found["record"] for found in told["findings"]]


def test_the_same_command_elsewhere_exits_0(capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere = BAD.replace("sm120", "sm100").replace("0.5.14", "0.5.23")
    code, told = answer(capsys, f"{elsewhere} --model glm5-nvfp4")
    assert code == 0
    assert told["verdict"] not in ("known-bad", "suspect")


def test_a_sibling_inherits(capsys: pytest.CaptureFixture[str]) -> None:
    code, told = answer(capsys, f"{BAD.replace('sm120', 'sm121')} --model glm5-nvfp4")
    found = next(one for one in told["findings"] if one["record"] == "sm120-moe-trtllm-gen")
    assert code == 1
    assert found["applies_to"]["inherited"]


def test_text_begins_with_the_verdict_and_holds_what_one_needs(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, f"check {BAD}")
    assert (code, err) == (1, "")
    assert out.splitlines()[0].startswith("KNOWN-BAD: ")
    assert "--moe-runner-backend flashinfer_cutlass" in out
    assert "https://github.com/flashinfer-ai/flashinfer/issues/" in out
    assert "kbctl explain sm120-moe-trtllm-gen" in out


@pytest.mark.parametrize(
    "line",
    [
        "--gpu sm120 --engine sglang==nightly-x --set moe_runner_backend=flashinfer_cutlass",
        "--gpu 'Voodoo 5 6000' --engine sglang",
        "--gpu sm120 --engine vllm --with flux-capacitor=1.21",
        "--gpu sm120 --engine ye-olde-server==1 --set a=b",
        "--gpu sm120 --model nobody/ever-heard-of-it --quantization q99",
        "--gpu sm120 --role juggling=clown",
        "",
    ],
)
def test_what_nobody_knows_makes_less_sure_never_an_error(
    capsys: pytest.CaptureFixture[str], line: str
) -> None:
    code, told = answer(capsys, line)
    assert code == 0
    assert told["verdict"] in ("unknown", "suspect", "no-known-problem", "known-good", "disputed")


def test_unknown_names_are_told_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    _, told = answer(capsys, "--gpu 'RTX PRO 6001 Blackwell' --model 'glm-55-nvfp4x' --engine vllm")
    assert any("not catalogued" in text and "nearest" in text for text in told["unknown"])


def test_no_name_is_nearest_to_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for name, wanted in (("lmdeploy", ""), ("lmdeply", "; the nearest known is 'lmdeploy'")):
        _, told = answer(capsys, f"--gpu a100 --model qwen3-8b --engine {name}")
        (text,) = (one for one in told["unknown"] if "not catalogued" in one)
        assert text.endswith(f"as written{wanted}")


def test_flags_of_another_release_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    _, told = answer(
        capsys, "--gpu h100 --engine vllm==0.10.2 -- vllm serve m --moe-backend triton --max-model-lenn 9"
    )
    flags = {one["flag"]: one for one in told["unknown_flags"]}
    assert flags["--moe-backend"]["known_in"] == "0.17.0"  # the first catalogued one, not the newest
    assert flags["--max-model-lenn"]["nearest"] == "--max-model-len"


def test_flags_of_another_release_are_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "check --gpu h100 --engine vllm==0.10.2 -- vllm serve m --moe-backend triton")
    assert "--moe-backend is unknown to vllm 0.10.2; vllm 0.17.0 has it" in out
    assert "install vllm 0.17.0 or later" in out
    gone = (
        "check --gpu h100 --engine sglang==0.5.23 -- python -m sglang.launch_server --model m --enable-ep-moe"
    )
    assert "had it last" in " ".join(run(capsys, gone)[1].split())


def test_a_value_that_an_assumed_release_does_not_take_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    code, told = answer(
        capsys, "--gpu h100 -- python -m sglang.launch_server --model m --attention-backend fa9"
    )
    assert code == 0
    assert any("does not take --attention-backend fa9" in text for text in told["unknown"])


def test_what_auto_picks_is_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    asked = "--gpu sm120 --model glm5-nvfp4 --engine sglang==0.5.14 --set quantization=modelopt_mixed"
    moe = "sm120-moe-trtllm-gen"
    code, told = answer(capsys, asked)
    found = {one["record"]: one["applies_to"] for one in told["findings"]}
    assert (code, found[moe]["auto"]) == (1, {"moe": "flashinfer_trtllm"})
    out = " ".join(run(capsys, f"check {asked}")[1].split())
    words = "auto picks flashinfer_trtllm here: that is the known-bad one; say --moe-runner-backend"
    assert f"{words} flashinfer_cutlass" in out
    chosen = asked + " --set moe_runner_backend=flashinfer_trtllm"
    found = {one["record"]: one["applies_to"] for one in answer(capsys, chosen)[1]["findings"]}
    assert "auto" not in found[moe]


@pytest.mark.parametrize(
    "line", ["check --set oops", "check --with =", "check --gpu sm120 --records /nowhere/at/all"]
)
def test_bad_usage_exits_2_and_says_what_next(capsys: pytest.CaptureFixture[str], line: str) -> None:
    code, out, err = run(capsys, line)
    assert (code, out) == (2, "")
    assert "next: " in err


def test_private_records_are_laid_over(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    own = GOOD.replace('arch = ["sm120"]\nmirror = ["sm121"]', 'arch = ["sm90"]').replace(
        "trtllm-gen", "triton"
    )
    write(tmp_path, own, "our-own")
    asked = "--gpu sm90 --role moe=triton"
    assert answer(capsys, asked)[1]["verdict"] != "known-bad"
    code, told = answer(capsys, f"{asked} --records {tmp_path}")
    assert (code, told["findings"][0]["record"]) == (1, "our-own")


def test_text_sends_nothing_that_a_terminal_obeys(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    evil = GOOD.replace("have no code for SM120", "are \\u001b[31mred\\u0007 \\u202eback").replace(
        "sm120", "sm90"
    )
    write(tmp_path, evil, "evil")
    _, out, _ = run(capsys, f"check --gpu sm90 --role moe=trtllm-gen --records {tmp_path}")
    assert "red" in out
    assert not set(out) & set("\x1b\x07\u202e")


def test_explain_shows_a_record_a_reference_a_signature(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "explain sm120-moe-trtllm-gen")
    assert code == 0
    assert out.startswith("sm120-moe-trtllm-gen: ")
    assert "inherited by sm121" in out
    assert "sm120-moe-trtllm-gen" in run(capsys, "explain flashinfer#2045")[1]
    assert "records rest on or show as" in run(capsys, "explain no-kernels-for-arch")[1]
    code, out, err = run(capsys, "explain sm120-moe-trtllm-gem")
    assert (code, out) == (2, "")
    assert "sm120-moe-trtllm-gen" in err


def test_explain_suggests_private_records_and_tells_broken_ones(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write(tmp_path, GOOD, "our-own-finding")
    write(tmp_path, GOOD.replace('effect = "crash"', 'effect = "explodes"'), "broken")
    code, out, err = run(capsys, f"explain our-own-findin --records {tmp_path}")
    assert (code, out) == (2, "")
    assert "did you mean our-own-finding?" in err
    assert "a record was left out: " in err


def test_what_nothing_is_known_of_takes_no_line_of_a_run() -> None:
    lines = list(
        run_lines({"run": "run:1", "effect": "ok", "stage": "serve", "failure": None, "invalid": None})
    )
    assert lines[0] == "run:1: ok at serve (blame: None)"
    assert not any("None" in line for line in lines[1:])


def test_explain_why_not(capsys: pytest.CaptureFixture[str]) -> None:
    asked = "--gpu sm120 --model glm5-nvfp4 --engine sglang==0.5.14"
    code, out, _ = run(capsys, f"explain {asked} --why-not moe=flashinfer_trtllm")
    assert code == 0
    assert out.startswith("moe = trtllm-gen: known-bad")


@pytest.mark.parametrize(
    "line", [f"check {BAD}", "explain sm120-moe-trtllm-gen", "explain --gpu sm120 --why-not moe=trtllm-gen"]
)
def test_the_reading_path_loads_nothing_heavy(line: str) -> None:
    program = (
        "import sys\nfrom kb.cli import main\n"
        f"try: main({shlex.split(line)!r})\nexcept SystemExit: pass\n"
        f"print(sorted(set({FORBIDDEN!r}) & set(sys.modules)))"
    )
    # The first run may compile knowledge; the second is what every later one is.
    outs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        for _ in "12"
    ]
    assert outs[-1].stdout.splitlines()[-1] == "[]"


def test_a_check_costs_little_cpu() -> None:
    command = [sys.executable, "-m", "kb.cli", "check", "--json", *shlex.split(BAD)]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    used = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, capture_output=True, check=False, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    assert min(used) < 0.5, f"{min(used):.3f} s CPU; the target is 0.2 s on an idle core"


@pytest.mark.parametrize(
    "line",
    [
        BAD,
        "",
        "--gpu h100 --gpus 1 --model deepseek-v3 --engine vllm==0.10.2 -- vllm serve m --moe-backend x",
        "--gpu 'RTX PRO 6000' --gpus 8 --model glm5-nvfp4 --engine sglang==0.5.14",
        "--gpu a100 --role moe=aiter --set a=b",
    ],
)
def test_json_keeps_its_schema(capsys: pytest.CaptureFixture[str], line: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((Path(__file__).parents[1] / "docs" / "schemas" / "check.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(answer(capsys, line)[1], schema)


def test_gpu_auto_asks_the_local_nvidia_smi(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'NVIDIA H200, 580.95.05'\necho 'NVIDIA H200, 580.95.05'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    _, told = answer(capsys, "--gpu auto --engine vllm")
    assert (told["query"]["gpu"], told["query"]["gpus"], told["query"]["driver"]) == (
        "NVIDIA H200",
        2,
        "580.95.05",
    )
    program.write_text("#!/bin/sh\necho 'no devices were found' >&2\nexit 6\n")
    code, _, err = run(capsys, "check --gpu auto")
    assert code == 2
    assert "no devices were found" in err
