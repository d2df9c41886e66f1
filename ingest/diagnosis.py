"""Readings of one incident to what happened: each server start with everything that stands beside its log.

Owns which files belong to one incident and the words that follow from a log alone: where, echoes, how sure,
what else was noticed. Must not look up records (the command line does) nor print.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from ingest.conclude import conclude
from kb.model import Effect, Experiment, Failure, Measurement, Outcome, Reading, Telemetry
from kb.symptoms import table
from kb.vocab.gpus import arch_facts, arch_of, find_gpu
from kb.wire import experiment_from_wire

WORST = {"gpu-lost": 0, "oom-killed": 1, "xid": 2, "gpu-fault": 3}
_WORD = re.compile(r"[A-Za-z_]{3,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One server start: ``experiment`` with its true ending; ``told`` what its log said beside that."""

    log: str
    experiment: Experiment
    told: Mapping[str, Any] = field(default_factory=dict)
    beside: tuple[str, ...] = ()

    @property
    def is_failure(self) -> bool:
        """Whether the server did not do what it was started for."""
        outcome = self.experiment.outcome
        return outcome.effect not in ("ok", "unknown") or outcome.failure is not None


def incidents(readings: Sequence[Reading]) -> list[Incident]:
    """Every server start in the readings, joined with what lies in its folder (or with all, for one log)."""
    logs = [one for one in readings if one.kind == "server_log" and one.experiments]
    logs = logs or [_as_log(one) for one in readings if one.extra.get("happened")]
    others = [one for one in readings if all(one.path != log.path for log in logs)]
    if not logs:
        return [one for reading in readings if (one := _of_kernel(reading)) is not None]
    found: list[Incident] = []
    for log in logs:
        near = [one for one in others if len(logs) == 1 or _folder(one) == _folder(log)]
        found += _of_log(log, near)
    return found


def _as_log(reading: Reading) -> Reading:
    """An error log of an unknown program, for want of a server log."""
    happened = tuple(experiment_from_wire(one) for one in reading.extra["happened"])
    return replace(reading, experiments=happened)


def _of_kernel(reading: Reading) -> Incident | None:
    """What a kernel log tells on its own: the worst of its events."""
    events = reading.extra.get("kernel") or []
    worst = min(
        (one for one in events if one["kind"] in WORST), key=lambda one: WORST[one["kind"]], default=None
    )
    if worst is None:
        return None
    match = table().match(worst["text"], is_error=True)
    cause = match.meaning if match else "The driver reports a GPU fault."
    signature = match.symptom.name if match else "unknown"
    failure = Failure(signature=signature, text=worst["text"], cause=cause, line=worst["line"])
    effect: Effect = "killed" if worst["kind"] == "oom-killed" else "crash"
    outcome = Outcome(effect=effect, blame="environment", failure=failure)
    advice = [match.symptom.advice] if match and match.symptom.advice else []
    echoes = [{"line": one["line"], "count": 1, "text": one["text"]} for one in events if one is not worst]
    told = {"echoes": echoes, "advice": advice}
    return Incident(log=reading.path, experiment=Experiment(outcome=outcome), told=told)


def _folder(reading: Reading) -> str:
    return str(PurePath(reading.path).parent)


def _of_log(log: Reading, near: Sequence[Reading]) -> Iterable[Incident]:
    runs = log.extra.get("runs") or []
    last = len(log.experiments) - 1
    for at, experiment in enumerate(log.experiments):
        told = runs[at] if at < len(runs) else {}
        if at < last:
            yield Incident(log=log.path, experiment=experiment, told=told)
            continue
        beside = tuple(one.path for one in near)
        yield Incident(log=log.path, experiment=_joined(experiment, near), told=told, beside=beside)


def _joined(experiment: Experiment, near: Sequence[Reading]) -> Experiment:
    run: dict[str, Any] = {}
    kernel: list[Mapping[str, Any]] = []
    points: list[Measurement] = list(experiment.measurements)
    telemetry: Telemetry | None = experiment.telemetry
    for reading in near:
        run |= reading.extra.get("run") or {}
        kernel += reading.extra.get("kernel") or []
        telemetry = _larger(telemetry, reading.telemetry)
        for one in reading.experiments:
            experiment = _filled(experiment, one)
            points += one.measurements
    experiment = replace(experiment, telemetry=telemetry, measurements=tuple(points))
    return conclude(experiment, run, telemetry, kernel)


def _larger(one: Telemetry | None, other: Telemetry | None) -> Telemetry | None:
    if one is None or other is None:
        return one or other
    return other if other.samples > one.samples else one


def _filled(main: Experiment, other: Experiment) -> Experiment:
    """The run with hardware, model and version that another file knows and the log does not print."""
    hardware = {
        name: getattr(main.hardware, name) or getattr(other.hardware, name)
        for name in ("gpu", "arch", "count", "memory_gib", "power_limit_w", "driver", "cuda", "topology")
    }
    backend = main.backend._replace(
        engine_version=main.backend.engine_version or other.backend.engine_version,
        dependencies={**other.backend.dependencies, **main.backend.dependencies},
        environment={**other.backend.environment, **main.backend.environment},
        settings={**other.backend.settings, **main.backend.settings},
    )
    return replace(main, hardware=main.hardware._replace(**hardware), backend=backend)


def on_gpu(incident: Incident, said: str) -> Incident:
    """The incident with the GPU that the user names, where its files told none."""
    hardware = incident.experiment.hardware
    if hardware.gpu or hardware.arch:
        return incident
    known = find_gpu(said)
    told = hardware._replace(
        gpu=known.name if known else None,
        arch=known.arch if known else arch_of(said),
        memory_gib=known.memory_gib if known else hardware.memory_gib,
    )
    names = tuple(sorted({*incident.experiment.said, "gpu"}))
    return replace(incident, experiment=replace(incident.experiment, hardware=told, said=names))


def how_sure(incident: Incident) -> tuple[str, str]:
    """(high | medium | low, why)."""
    failure = incident.experiment.outcome.failure
    if failure is None:
        shown = {"ready": "the server ready", "serve": "requests being served"}
        stage = incident.experiment.outcome.stage or ""
        if stage not in shown:
            return "low", "too little of it is here"
        return "high", f"the log shows {shown[stage]}"
    if failure.signature == "unknown":
        return "low", "this error is not in the symptom table"
    if failure.signature in ("killed", "log-ends", "child-killed", "hang-capture", "hang-distributed"):
        if incident.beside and incident.experiment.outcome.blame != "unknown":
            return "high", "what recorded the run says so"
        return "medium", "inferred from what the log does not say"
    return "high", "the log itself names it"


def on_this_hardware(incident: Incident) -> str | None:
    """What the failure's class means on the GPU at hand; None where that says nothing more."""
    failure, hardware = incident.experiment.outcome.failure, incident.experiment.hardware
    if failure is None:
        return None
    facts = arch_facts(hardware.arch) if hardware.arch else {}
    name = hardware.gpu or hardware.arch
    if name is None:
        return None
    if failure.signature == "shared-memory-limit" and facts.get("shared_memory_kib"):
        return f"{name} ({hardware.arch}) has {facts['shared_memory_kib']} KiB of shared memory per block."
    if failure.signature in ("no-kernels-for-arch", "unsupported-arch-assert", "unsupported-arch-toolchain"):
        return f"{name}: nothing in the kernel or compiler was built for {hardware.arch}."
    if failure.signature.startswith("oom") and hardware.memory_gib:
        return f"{name} has {hardware.memory_gib:g} GiB."
    return None


def nearest_classes(text: str, count: int = 3) -> list[tuple[str, str]]:
    """(class, text of the table) of the known causes whose words are most like an unknown error's."""
    words = set(_WORD.findall(text.lower()))
    if not words:
        return []
    scored: list[tuple[float, str, str]] = []
    for row in table().rows:
        if row.kind != "cause":
            continue
        for pattern in row.patterns:
            own = set(_WORD.findall(pattern.literal.lower()))
            if len(own) >= 2 and (share := len(own & words) / len(own)) >= 0.5:
                scored.append((share, row.name, pattern.literal))
    best: dict[str, str] = {}
    for _, name, literal in sorted(scored, key=lambda one: -one[0]):
        best.setdefault(name, literal)
    return list(best.items())[:count]


def noticed(incident: Incident) -> list[str]:
    """What else the log and the traces show: fallbacks, choices, headroom, conditions of the GPUs."""
    experiment = incident.experiment
    lines: list[str] = []
    seen: set[str] = set()
    for one in experiment.outcome.warnings:
        if one.meaning not in seen:
            seen.add(one.meaning)
            lines.append(f"{one.meaning}{_at(one.line)}")
    for choice in incident.told.get("choices") or []:
        kernel = choice.get("kernel")
        if kernel and choice.get("how") == "auto":
            lines.append(f"Picked by itself: {choice['role']} = {kernel}{_at(choice.get('line'))}")
    facts = incident.told.get("facts") or {}
    if "memory_after_pool_gib" in facts:
        lines.append(f"Memory left after weights and KV cache: {facts['memory_after_pool_gib']} GiB")
    if experiment.telemetry is not None:
        lines += [
            f"GPU {one.gpu if one.gpu is not None else ''}: {one.text}"
            for one in experiment.telemetry.conditions
        ]
    return lines


def _at(line: Any) -> str:
    return f" (line {line})" if line else ""
