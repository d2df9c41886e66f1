# ruff: noqa: E501 - log lines stand as they are printed
"""Causes, echoes, noise and survivors, told apart in small logs written for each case."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.formats import read_source
from ingest.sources import Source
from kb.model import Experiment

ARGS = "[2026-03-01 12:00:00] server_args=ServerArgs(model_path='Qwen/Qwen3-8B', tp_size=1, port=30000)\n"
LOAD = "[2026-03-01 12:00:10 TP0] Load weight begin. avail mem=78.00 GB\n"
READY = "[2026-03-01 12:01:00] The server is fired up and ready to roll!\n"
SERVED = '[2026-03-01 12:01:05] INFO:     127.0.0.1:1 - "POST /generate HTTP/1.1" 200 OK\n'
DECODE = "[2026-03-01 12:01:06 TP0] Decode batch, #running-req: 1, #token: 9, token usage: 0.00, gen throughput (token/s): 99.00, #queue-req: 0\n"
CHILD = "[2026-03-01 12:02:00] Received sigquit from a child process. It usually means the child failed.\n"


def trace(error: str, header: str = "[2026-03-01 12:02:00 TP0] Scheduler hit an exception: ") -> str:
    return f'{header}Traceback (most recent call last):\n  File "/x/a.py", line 1, in f\n    g()\n{error}\n\n'


def ended(log: str) -> Experiment:
    experiments = read_source(Source(Path("server.log"), log.encode())).experiments
    assert len(experiments) == 1
    return experiments[0]


def verdict(log: str) -> tuple[str | None, str, str, str | None]:
    outcome = ended(log).outcome
    failure = outcome.failure
    return outcome.stage, outcome.effect, outcome.blame, None if failure is None else failure.signature


def test_the_first_block_of_a_chain_is_the_cause() -> None:
    chain = (
        trace("ModuleNotFoundError: No module named 'cutlass'")
        + "During handling of the above exception, another exception occurred:\n\n"
        + trace("ImportError: Vendored FlashAttention CUTE is not available", "")
    )
    experiment = ended(ARGS + LOAD + chain + CHILD)
    assert experiment.outcome.failure is not None
    assert experiment.outcome.failure.text == "ModuleNotFoundError: No module named 'cutlass'"


def test_a_lookup_that_fails_first_is_not_the_cause() -> None:
    chain = (
        trace("KeyError: 'NO_SUCH'")
        + "During handling of the above exception, another exception occurred:\n\n"
        + trace("ValueError: Unknown attention backend: 'NO_SUCH'. Valid options are: FA3", "")
    )
    assert verdict(ARGS + chain)[3] == "backend-unknown"


def test_another_ranks_timeout_is_an_echo_even_when_it_comes_first() -> None:
    timeout = "[rank0]:[E301 12:01:59.1 ProcessGroupNCCL.cpp:1] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(\n"
    cause = trace("RuntimeError: CUDA error: no kernel image is available for execution on the device")
    assert verdict(ARGS + LOAD + timeout + cause + CHILD)[3] == "no-kernels-for-arch"
    assert verdict(ARGS + LOAD + timeout)[1:] == ("hang", "unknown", "nccl-timeout")


def test_an_error_that_the_server_survived_is_a_warning() -> None:
    log = ARGS + LOAD + READY + trace("ValueError: bad request field") + SERVED + DECODE + SERVED
    experiment = ended(log)
    assert (experiment.outcome.stage, experiment.outcome.effect) == ("serve", "ok")
    assert any("went on" in one.meaning for one in experiment.outcome.warnings)


def test_an_error_after_serving_that_ends_the_server_is_its_cause() -> None:
    log = (
        ARGS
        + LOAD
        + READY
        + SERVED
        + trace("RuntimeError: CUDA error: an illegal memory access was encountered")
        + CHILD
    )
    assert verdict(log) == ("serve", "crash", "backend", "illegal-memory-access")


def test_requests_still_answered_while_it_dies_do_not_hide_the_cause() -> None:
    error = trace("RuntimeError: CUDA error: an illegal memory access was encountered")
    assert verdict(ARGS + READY + DECODE * 5 + error + SERVED * 3 + CHILD)[3] == "illegal-memory-access"


def test_a_child_that_died_without_a_word_was_killed() -> None:
    assert verdict(ARGS + LOAD + CHILD) == ("load", "killed", "unknown", "child-killed")


def test_an_ordinary_stop_is_no_failure() -> None:
    stop = (
        "[2026-03-01 12:03:00] SIGTERM received. signum=None frame=None. Draining requests and shutting down...\n"
        "[2026-03-01 12:03:00] Subprocess scheduler_0 (pid=2) crashed with exit code -15. Triggering SIGQUIT for cleanup...\n"
        "[2026-03-01 12:03:00] SIGQUIT received. signum=None, frame=None. It usually means one child failed.\n"
    )
    assert verdict(ARGS + LOAD + READY + SERVED + stop)[:2] == ("serve", "ok")


def test_a_log_that_just_ends_was_killed_cut_or_is_running() -> None:
    assert verdict(ARGS + LOAD) == ("load", "unknown", "unknown", "log-ends")


def test_a_log_that_ends_with_a_process_going_down_was_killed() -> None:
    leak = "/usr/lib/python3.12/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: There appear to be 1 leaked semaphore objects to clean up at shutdown\n"
    assert verdict(ARGS + LOAD + leak) == ("load", "killed", "unknown", "killed")


def test_a_log_cut_inside_a_worker_s_traceback_is_a_crash_and_inside_a_request_s_is_none() -> None:
    ready = "(APIServer pid=1) INFO:     Application startup complete.\n"
    served = '(APIServer pid=1) INFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK\n'
    worker = (
        "(Worker_TP1 pid=7) ERROR 03-01 12:00:40 [multiproc_executor.py:1] Traceback (most recent call last):\n"
        '(Worker_TP1 pid=7) ERROR 03-01 12:00:40 [multiproc_executor.py:1]   File "/x/worker.py", line 3, in run\n'
    )
    assert verdict(ready + served + worker)[:2] == ("serve", "crash")
    request = worker.replace("Worker_TP1 pid=7", "APIServer pid=1")
    assert verdict(ready + served + request)[:2] == ("serve", "ok")


def test_silence_after_distributed_init_is_a_hang() -> None:
    assert verdict(ARGS + "[2026-03-01 12:00:10 TP0] Init torch distributed begin.\n")[1] == "hang"


def test_silence_in_capture_is_a_hang_but_a_moving_bar_is_not() -> None:
    begin = "[2026-03-01 12:00:30 TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=9.00 GB\n"
    bar = "\rCapturing batches (bs=8 avail_mem=7.12 GB):  40%|####      | 4/10 [00:05<00:07,  1.20s/it]"
    assert verdict(ARGS + LOAD + begin)[1] == "hang"
    assert verdict(ARGS + LOAD + begin + bar)[1] == "unknown"


@pytest.mark.parametrize(
    ("stage_line", "expected"),
    [
        (LOAD, "oom-weights"),
        (
            "[2026-03-01 12:00:30 TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=9.00 GB\n",
            "oom-capture",
        ),
        (READY, "oom-serve"),
    ],
)
def test_running_out_of_memory_is_named_by_where(stage_line: str, expected: str) -> None:
    error = trace("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB.")
    assert verdict(ARGS + stage_line + error + CHILD)[3] == expected


def test_a_warning_that_quotes_an_error_is_none() -> None:
    quote = (
        "(APIServer pid=1) INFO 11-30 03:34:51 [utils.py:240] non-default args: {'model': 'm'}\n"
        "(APIServer pid=1) WARNING 11-30 03:34:51 [system_utils.py:294] Found ulimit of 20000 and failed to automatically"
        " increase. This can cause fd limit errors like `OSError: [Errno 24] Too many open files`.\n"
        "(APIServer pid=1) INFO:     Application startup complete.\n"
    )
    assert verdict(quote)[:2] == ("ready", "ok")


def test_an_unknown_error_is_said_to_be_unknown() -> None:
    experiment = ended(ARGS + LOAD + trace("WeirdError: the flux capacitor is empty") + CHILD)
    failure = experiment.outcome.failure
    assert failure is not None
    assert (failure.signature, failure.text) == ("unknown", "WeirdError: the flux capacitor is empty")
    assert (experiment.outcome.stage, experiment.outcome.effect) == ("load", "crash")


def test_repeats_do_not_grow_the_story() -> None:
    log = ARGS + READY + trace("RuntimeError('Engine loop has died')", "ERROR:    x ") * 300
    assert len(ended(log).outcome.warnings) <= 40
