"""``kbctl diagnose``: what it prints first, where, and its exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kb.cli import build

SAMPLES = Path(__file__).parent / "formats"
FAILED = SAMPLES / "sglang_server_log" / "two_starts_second_serves.log"
UNKNOWN = (
    "[2026-03-01 12:00:00] server_args=ServerArgs(model_path='m', tp_size=1)\n"
    "[2026-03-01 12:00:10 TP0] Load weight begin. avail mem=78.00 GB\n"
    "[2026-03-01 12:00:20 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
    '  File "/home/jane/a.py", line 1, in f\n    g()\n'
    "WeirdError: the kernel image of token hf_abcdefghijklmnopqrstuvwx is strange \x1b]0;title\x07\n"
)


def ask(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(build(["diagnose"]), ["diagnose", *words])
    return done.exit_code, done.output


def first_line(path: Path) -> str:
    return ask(str(path))[1].splitlines()[0]


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("vllm_server_log/h200_no_gpu", "GPU"),
        ("vllm_server_log/h200_quant_awq", "awq"),
        ("vllm_server_log/h200_bad_flag", "unrecognized arguments"),
        ("vllm_server_log/h200_memory_profiling_race", "memory profiling"),
        ("vllm_server_log/tp2_worker_no_kernel_image", "no kernel image"),
        ("sglang_server_log/h200_piecewise_graph_illegal_access", "illegal memory access"),
        ("sglang_server_log/h200_no_second_gpu", "invalid device ordinal"),
        ("sglang_server_log/tp4_one_rank_out_of_memory", "CUDA out of memory"),
        ("llama_server_log/no_device_code", "no device code"),
        ("tgi_server_log/written_tgi_shard_cannot_start_oom", "CUDA out of memory"),
        ("error_log/pasted_excerpt", "shared memory"),
    ],
)
def test_the_first_line_is_the_cause(case: str, words: str) -> None:
    status, printed = ask(str(SAMPLES / f"{case}.log"))
    assert status == 1
    assert words in printed.splitlines()[0]


@pytest.mark.parametrize(
    "case",
    [
        "vllm_server_log/v033_server_healthy",
        "vllm_server_log/rtx5090_tool_parser_error_while_serving",
        "sglang_server_log/h200_healthy_stopped",
        "llama_server_log/gguf_q4_two_gpus",
        "trtllm_server_log/serve_iterations",
    ],
)
def test_healthy_servers_are_said_to_be(case: str) -> None:
    status, printed = ask(str(SAMPLES / f"{case}.log"))
    assert status == 0
    assert printed.startswith("No failure:")


def test_json_holds_each_start_with_its_line() -> None:
    status, printed = ask(str(FAILED), "--json")
    told = json.loads(printed)
    assert status == 1
    assert told["schema"] == "kbctl.diagnose/1"
    assert [(one["failed"], one["stage"], one["line"]) for one in told["incidents"]] == [
        (True, "capture", 12),
        (False, "serve", None),
    ]
    assert told["incidents"][0]["echoes"]


def test_an_unknown_failure_names_what_is_near_and_leaks_nothing(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(UNKNOWN)
    status, printed = ask(str(log))
    assert status == 1
    assert "WeirdError" in printed.splitlines()[0]
    assert "low: this error is not in the symptom table" in printed
    assert "hf_abc" not in printed
    assert "jane" not in printed.replace(str(log), "")
    assert "\x1b" not in printed


def test_several_files_of_one_incident(tmp_path: Path) -> None:
    log = (SAMPLES / "vllm_server_log" / "h200_log_just_ends.log").read_text()
    (tmp_path / "server.log").write_text(log)
    (tmp_path / "run.json").write_text(
        json.dumps({"command": ["vllm", "serve", "m"], "exit_code": -9, "stopped_by": "driver SIGKILL"})
    )
    (tmp_path / "dmesg.log").write_text((SAMPLES / "kernel_log" / "memory_kill.log").read_text())
    told = json.loads(ask(str(tmp_path), "--json")[1])["incidents"]
    assert len(told) == 1
    assert told[0]["experiment"]["failure"]["class"] == "oom-host"


def test_a_pipe_works() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kb.cli", "diagnose", "-"],
        input=FAILED.read_bytes(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert b"no code for this GPU" in done.stdout.splitlines()[0]


def test_what_is_no_log_is_an_error_with_a_tip(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(range(256)) * 8)
    done = subprocess.run(
        [sys.executable, "-m", "kb.cli", "diagnose", str(tmp_path / "x.bin")],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert b"next:" in done.stderr
    assert b"Traceback" not in done.stderr


def test_the_gpu_that_the_user_names_decides_between_records() -> None:
    def records(*words: str) -> tuple[str | None, list[str]]:
        first = json.loads(ask(str(FAILED), "--json", *words)[1])["incidents"][0]
        return first["record"], first["possible_records"]

    assert records("--gpu", "sm120") == ("sm120-moe-trtllm-gen", [])
    sure, possible = records()
    assert sure is None
    assert "sm120-moe-trtllm-gen" in possible


def test_a_growing_log_is_followed_until_it_fails(tmp_path: Path) -> None:
    lines = FAILED.read_text().splitlines(keepends=True)
    log = tmp_path / "server.log"
    log.write_text("".join(lines[:5]))
    process = subprocess.Popen(
        [sys.executable, "-m", "kb.cli", "diagnose", "-f", str(log)], stdout=subprocess.PIPE, text=True
    )
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=3)
    log.write_text("".join(lines[:14]))
    printed, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "no kernel image" in printed.splitlines()[0]
