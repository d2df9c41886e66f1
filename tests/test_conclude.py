"""What stands beside a log: exit codes explain what it leaves open, and overrule no cause that it names."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.conclude import conclude, signal_of
from kb.model import Backend, Condition, Experiment, Failure, Measurement, Outcome, Telemetry


def run(
    effect: str, stage: str, signature: str | None = None, blame: str = "unknown", **fields: Any
) -> Experiment:
    failure = None if signature is None else Failure(signature=signature, text="t", cause="c", line=3)
    outcome = Outcome(stage=stage, effect=effect, blame=blame, failure=failure)  # type: ignore[arg-type]
    return Experiment(outcome=outcome, **fields)


OK = run("ok", "serve")
JUST_ENDS = run("killed", "load", "killed")
DEAD = run("killed", "serve", "child-killed")
KNOWN = run("oom", "load", "oom-weights", "backend")
LIMIT = {"timed_out": True, "stopped_by": "ready time limit, then SIGKILL", "exit_code": -9}


@pytest.mark.parametrize(
    ("experiment", "beside", "expected"),
    [
        (OK, {"exit_code": -9, "stopped_by": "SIGTERM by driver after the run"}, ("ok", "unknown")),
        (OK, {"exit_code": 0}, ("ok", "unknown")),
        (OK, {"exit_code": 139}, ("crash", "unknown")),
        (OK, {"exit_code": 1, "stopped_by": "itself"}, ("crash", "unknown")),
        (JUST_ENDS, LIMIT, ("killed", "harness")),
        (JUST_ENDS, {"exit_code": -9, "stopped_by": "driver SIGKILL"}, ("killed", "harness")),
        (JUST_ENDS, {"exit_code": 137}, ("killed", "environment")),
        (JUST_ENDS, {"exit_code": -11}, ("crash", "unknown")),
        (
            DEAD,
            {"exit_code": 0, "killed_by": {"who": "EngineCore", "signal": "SIGKILL"}},
            ("killed", "harness"),
        ),
        (DEAD, {"exit_code": 0}, ("killed", "unknown")),
        (KNOWN, {"exit_code": -9, "stopped_by": "itself"}, ("oom", "backend")),
        (KNOWN, LIMIT, ("oom", "backend")),
    ],
)
def test_endings(experiment: Experiment, beside: dict[str, Any], expected: tuple[str, str]) -> None:
    outcome = conclude(experiment, beside).outcome
    assert (outcome.effect, outcome.blame) == expected


def test_a_peer_that_never_came_stays_a_hang() -> None:
    waiting = run("hang", "init", "hang-distributed", backend=Backend(settings={"nnodes": 2}))
    outcome = conclude(waiting, LIMIT).outcome
    assert (outcome.effect, outcome.blame) == ("hang", "user")


def test_clients_that_fail_against_a_healthy_server() -> None:
    outcome = conclude(OK, {"benches": [{"rc": 1, "stdout": "bench.txt"}]}).outcome
    assert (outcome.effect, outcome.blame) == ("ok", "harness")
    assert "clients failed" in outcome.warnings[0].meaning


def test_a_benchmark_that_completed_nothing() -> None:
    point = Measurement(metrics={"completed": 0, "failed": 1500}, client="bench")
    outcome = conclude(run("ok", "serve", measurements=(point,)), {}).outcome
    assert outcome.blame == "harness"
    assert "0 of 1500" in outcome.warnings[0].meaning


def test_a_kernel_log_names_the_memory_kill() -> None:
    outcome = conclude(JUST_ENDS, {}, None, [{"kind": "oom-killed", "pid": 7, "process": "python3"}]).outcome
    assert outcome.failure is not None
    assert (outcome.effect, outcome.blame, outcome.failure.signature) == ("killed", "environment", "oom-host")


def test_a_spinning_gpu_makes_a_silent_end_a_hang() -> None:
    trace = Telemetry(conditions=(Condition(name="spin-hang", gpu=0, text="full at 100 W"),))
    assert conclude(run("killed", "capture", "killed"), {}, trace).outcome.effect == "hang"
    assert conclude(OK, {}, trace).outcome.effect == "ok"


@pytest.mark.parametrize(
    ("code", "signal"), [(-9, 9), (137, 9), (1, None), (0, None), (139, 11), (255, None)]
)
def test_signals(code: int, signal: int | None) -> None:
    assert signal_of(code) == signal


def test_nothing_beside_changes_nothing() -> None:
    for experiment in (OK, JUST_ENDS, DEAD, KNOWN):
        assert conclude(experiment) == experiment
