"""How a run really ended, once what stands beside its log is known: exit code, who stopped it, traces.

Owns the rules by which a recorder, a GPU trace or a kernel log change a log's own verdict. Must not read
files. A cause that the log itself names stays: exit codes only explain what it leaves open.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kb.model import Blame, Effect, Experiment, Failure, Outcome, Telemetry, Warning  # noqa: A004

OPEN_SIGNATURES = frozenset(
    {"killed", "log-ends", "child-killed", "hang-capture", "hang-distributed", "engine-dead", "unknown"}
)
SIGNALS = {1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 6: "SIGABRT", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
STOPPERS = re.compile(
    r"(?i)\b(?:driver|harness|script|operator|user|after the run|ctrl|keyboard|sigterm|timeout|limit)\b"
)
LIMIT = re.compile(r"(?i)\b(?:limit|time ?out|timed out|deadline)\b")
KILL = re.compile(r"(?i)\bSIGKILL\b|\bkill(?:ed)?\b")
CRASH_SIGNALS = (6, 11, 4, 7, 8)


def conclude(
    experiment: Experiment,
    run: Mapping[str, Any] | None = None,
    telemetry: Telemetry | None = None,
    kernel: Sequence[Mapping[str, Any]] = (),
) -> Experiment:
    """The experiment with its true ending.

    ``run`` is what a recorder wrote (exit_code, stopped_by, killed_by, timed_out, ready, benches), ``kernel``
    the events of a kernel log of the same time (ingest.formats.kernel_log). Everything may be missing.
    """
    run = run or {}
    outcome = experiment.outcome
    outcome = _by_kernel(outcome, kernel)
    outcome = _by_killer(outcome, run)
    outcome = _by_limit(experiment, outcome, run)
    outcome = _by_exit(outcome, run)
    outcome = _by_trace(outcome, telemetry or experiment.telemetry)
    outcome = _by_clients(experiment, outcome, run)
    return replace(experiment, outcome=outcome)


def is_open(outcome: Outcome) -> bool:
    """Whether the log itself names no cause."""
    return outcome.failure is None or outcome.failure.signature in OPEN_SIGNATURES


def _by_kernel(outcome: Outcome, kernel: Sequence[Mapping[str, Any]]) -> Outcome:
    killed = next((one for one in kernel if one.get("kind") == "oom-killed"), None)
    if killed is None or not is_open(outcome) or outcome.effect == "ok":
        return outcome
    who = f"{killed.get('process') or 'a process'} (pid {killed.get('pid')})"
    cause = f"Host memory ran out: the kernel killed {who}."
    return _ended(outcome, "killed", "environment", "oom-host", cause, str(killed.get("text") or ""))


def _by_killer(outcome: Outcome, run: Mapping[str, Any]) -> Outcome:
    killer = run.get("killed_by")
    stopped = str(run.get("stopped_by") or "")
    if not isinstance(killer, Mapping) and not (KILL.search(stopped) and not LIMIT.search(stopped)):
        return outcome
    if not is_open(outcome) or (outcome.effect == "ok" and not isinstance(killer, Mapping)):
        return outcome
    who, signal = ("it", "SIGKILL")
    if isinstance(killer, Mapping):
        who = str(killer.get("who") or "it").split("  ")[0].strip()
        signal = str(killer.get("signal") or "SIGKILL")
    stage = outcome.stage or "unknown"
    cause = f"It was killed from outside at stage {stage}: {signal} to {who}. The engine is not at fault."
    return _ended(outcome, "killed", "harness", "killed", cause)


def _by_limit(experiment: Experiment, outcome: Outcome, run: Mapping[str, Any]) -> Outcome:
    """Stopped by its recorder's own time limit: no verdict on the engine, unless it waited for a peer."""
    limited = bool(run.get("timed_out")) or LIMIT.search(str(run.get("stopped_by") or "")) is not None
    if not limited or not is_open(outcome) or outcome.effect == "ok":
        return outcome
    if outcome.failure is not None and outcome.failure.signature == "hang-distributed":
        nodes = experiment.backend.settings.get("nnodes")
        alone = isinstance(nodes, int) and nodes > 1
        cause = "The processes waited for a peer that never came, until a time limit stopped them."
        return _ended(outcome, "hang", "user" if alone else "environment", "hang-distributed", cause)
    cause = f"It was stopped by its driver's time limit at stage {outcome.stage}; no error had been seen."
    return _ended(outcome, "killed", "harness", "killed", cause)


def _by_exit(outcome: Outcome, run: Mapping[str, Any]) -> Outcome:
    code = run.get("exit_code")
    if not isinstance(code, int) or isinstance(code, bool) or not is_open(outcome):
        return outcome
    signal = signal_of(code)
    stopped = STOPPERS.search(str(run.get("stopped_by") or "")) is not None
    if outcome.effect == "ok":
        return _exit_after_serving(outcome, code, signal, stopped)
    if outcome.effect in ("killed", "unknown") and outcome.blame == "unknown":
        return _exit_without_words(outcome, code, signal)
    return outcome


def _exit_after_serving(outcome: Outcome, code: int, signal: int | None, stopped: bool) -> Outcome:
    if stopped or code == 0 or signal in (2, 3, 9, 15):
        return outcome  # an orderly stop; SIGKILL too ends servers that kill their own group (SGLang)
    if signal in CRASH_SIGNALS:
        name = SIGNALS.get(signal or 0, f"signal {signal}")
        return _ended(
            outcome, "crash", "unknown", "segfault", f"It served, then crashed in native code ({name})."
        )
    cause = f"It served, then ended with exit code {code} and no error in its log."
    return _ended(outcome, "crash", "unknown", "unknown", cause)


def _exit_without_words(outcome: Outcome, code: int, signal: int | None) -> Outcome:
    if signal in CRASH_SIGNALS:
        name = SIGNALS.get(signal or 0, f"signal {signal}")
        cause = f"It crashed in native code at stage {outcome.stage} ({name}); its log has no last words."
        return _ended(outcome, "crash", "unknown", "segfault", cause)
    if signal == 9:
        cause = (
            f"It was killed (SIGKILL) at stage {outcome.stage} without a word: the kernel's memory killer, a "
            "container's limit, or someone."
        )
        return _ended(outcome, "killed", "environment", "killed", cause)
    if outcome.effect == "unknown" and code != 0:
        return _ended(
            outcome, "crash", "unknown", "unknown", f"It ended with exit code {code} and no error in its log."
        )
    return outcome


def signal_of(code: int) -> int | None:
    """The signal behind an exit code: negative (Python), or 128 + signal (shells); None for none."""
    if code < 0:
        return -code
    return code - 128 if 128 < code < 160 else None


def _by_trace(outcome: Outcome, telemetry: Telemetry | None) -> Outcome:
    found = (
        next((one for one in telemetry.conditions if one.name == "spin-hang"), None) if telemetry else None
    )
    if found is None or outcome.blame == "harness" or outcome.effect not in ("killed", "unknown", "hang"):
        return outcome
    if not is_open(outcome):
        return outcome
    cause = f"It hung at stage {outcome.stage}: {found.text}"
    signature = "hang-capture" if outcome.stage == "capture" else "hang-distributed"
    return _ended(outcome, "hang", outcome.blame, signature, cause)


def _by_clients(experiment: Experiment, outcome: Outcome, run: Mapping[str, Any]) -> Outcome:
    """Clients that failed against a healthy server: the server stays ok, the harness is to blame."""
    if outcome.effect != "ok":
        return outcome
    benches = [one for one in run.get("benches") or () if isinstance(one, Mapping)]
    failed = [one for one in benches if one.get("rc") not in (0, None)]
    none_done = [one for one in experiment.measurements if one.metrics.get("completed") == 0]
    told = []
    if failed:
        text = ", ".join(
            str(one.get("stdout") or one.get("command") or "a client")[:80] for one in failed[:5]
        )
        meaning = f"{len(failed)} of {len(benches)} benchmark clients failed; the server was healthy."
        told.append(Warning(line=None, text=text, meaning=meaning))
    for one in none_done:
        asked = one.metrics.get("failed") or one.workload.get("prompts")
        meaning = f"A benchmark completed 0 of {asked or 'all'} requests: its numbers mean nothing."
        told.append(Warning(line=one.line, text=one.client or "", meaning=meaning, path=one.path))
    if not told:
        return outcome
    worked = any((one.metrics.get("completed") or 0) > 0 for one in experiment.measurements)
    blame: Blame = outcome.blame if worked else "harness"
    return replace(outcome, blame=blame, warnings=(*outcome.warnings, *told))


def _ended(  # noqa: PLR0913, PLR0917 - one ending has as many sides
    outcome: Outcome, effect: Effect, blame: Blame, signature: str, cause: str, text: str = ""
) -> Outcome:
    before = outcome.failure
    failure = Failure(
        signature=signature,
        text=text or (before.text if before else ""),
        cause=cause,
        line=before.line if before else None,
        path=before.path if before else None,
    )
    return replace(outcome, effect=effect, blame=blame, failure=failure)
