"""Values to JSON and back: the shapes that ``--json`` prints and that the store keeps.

Owns field order and schema names of readings and experiments (design: "Command line"). Standard library
only, because the reading commands load it. ``reading_from_wire(reading_to_wire(x)) == x`` for every reading.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from kb.model import (
    Backend,
    Condition,
    Experiment,
    Failure,
    GpuTrace,
    Hardware,
    LineCount,
    Measurement,
    Model,
    Outcome,
    Problem,
    Reading,
    Telemetry,
    Warning,  # noqa: A004
)

Json = dict[str, Any]


def experiment_to_wire(experiment: Experiment) -> Json:
    """One experiment as the flat object that ``parse --json`` and ``runs --json`` print."""
    hardware, model, backend, outcome = (
        experiment.hardware,
        experiment.model,
        experiment.backend,
        experiment.outcome,
    )
    return {
        "run": experiment.run,
        "engine": backend.engine,
        "engine_version": backend.engine_version,
        "dependencies": dict(backend.dependencies),
        "model": model.name,
        "model_id": model.id,
        "family": model.family,
        "architecture": model.architecture,
        "quantization": model.quantization,
        "gpu": hardware.gpu,
        "arch": hardware.arch,
        "gpu_count": hardware.count,
        "memory_gib": hardware.memory_gib,
        "power_limit_w": hardware.power_limit_w,
        "topology": hardware.topology,
        "driver": hardware.driver,
        "cuda": hardware.cuda,
        "settings": dict(backend.settings),
        "environment": dict(backend.environment),
        "requested": dict(backend.requested),
        "resolved": dict(backend.resolved),
        "stage": outcome.stage,
        "effect": outcome.effect,
        "blame": outcome.blame,
        "failure": None if outcome.failure is None else failure_to_wire(outcome.failure),
        "warnings": [_without_empty(_plain(warning), "path") for warning in outcome.warnings],
        "measurements": [measurement_to_wire(one) for one in experiment.measurements],
        "telemetry": None if experiment.telemetry is None else telemetry_to_wire(experiment.telemetry),
        "started": experiment.started,
        "ended": experiment.ended,
        "port": experiment.port,
        "sources": list(experiment.sources),
        "joined": [list(one) for one in experiment.joined],
        "said": list(experiment.said),
    }


def experiment_from_wire(wire: Mapping[str, Any]) -> Experiment:
    """The experiment that ``experiment_to_wire`` printed; missing keys mean unknown."""
    return Experiment(
        run=wire.get("run") or "",
        hardware=Hardware(
            gpu=wire.get("gpu"),
            arch=wire.get("arch"),
            count=wire.get("gpu_count"),
            memory_gib=wire.get("memory_gib"),
            power_limit_w=wire.get("power_limit_w"),
            topology=wire.get("topology"),
            driver=wire.get("driver"),
            cuda=wire.get("cuda"),
        ),
        model=Model(
            name=wire.get("model"),
            id=wire.get("model_id"),
            family=wire.get("family"),
            architecture=wire.get("architecture"),
            quantization=wire.get("quantization"),
        ),
        backend=Backend(
            engine=wire.get("engine"),
            engine_version=wire.get("engine_version"),
            **{
                name: wire.get(name) or {}
                for name in ("dependencies", "settings", "environment", "requested", "resolved")
            },
        ),
        outcome=Outcome(
            stage=wire.get("stage"),
            effect=wire.get("effect") or "unknown",
            blame=wire.get("blame") or "unknown",
            failure=_failure_from_wire(wire.get("failure")),
            warnings=tuple(Warning(**{"path": None, **one}) for one in wire.get("warnings") or ()),
        ),
        measurements=tuple(measurement_from_wire(one) for one in wire.get("measurements") or ()),
        telemetry=telemetry_from_wire(wire.get("telemetry")),
        started=wire.get("started"),
        ended=wire.get("ended"),
        port=wire.get("port"),
        sources=tuple(wire.get("sources") or ()),
        joined=tuple((str(a), str(b), float(c)) for a, b, c in wire.get("joined") or ()),
        said=tuple(wire.get("said") or ()),
    )


def failure_to_wire(failure: Failure) -> Json:
    """A failure with its signature under the JSON name ``class``."""
    wire = _plain(failure)
    return {"class": wire.pop("signature"), **_without_empty(wire, "path")}


def _failure_from_wire(wire: Mapping[str, Any] | None) -> Failure | None:
    if not wire:
        return None
    fields = {name: value for name, value in wire.items() if name != "class"}
    return Failure(signature=wire["class"], **fields)


def measurement_to_wire(measurement: Measurement) -> Json:
    """One workload point; keys that say nothing are left out, except workload, metrics and client."""
    return _without_empty(_plain(measurement), "line", "path", "source_names")


def measurement_from_wire(wire: Mapping[str, Any]) -> Measurement:
    """The measurement that ``measurement_to_wire`` printed."""
    return Measurement(**wire)


def telemetry_to_wire(telemetry: Telemetry) -> Json:
    """A trace's summary."""
    gpus, conditions = telemetry.gpus, telemetry.conditions
    parts = {"gpus": [_plain(one) for one in gpus], "conditions": [_plain(one) for one in conditions]}
    return {**_plain(telemetry), **parts}


def telemetry_from_wire(wire: Mapping[str, Any] | None) -> Telemetry | None:
    """The trace's summary that ``telemetry_to_wire`` printed."""
    if not wire:
        return None
    return Telemetry(
        **{
            **wire,
            "gpus": tuple(GpuTrace(**one) for one in wire.get("gpus") or ()),
            "conditions": tuple(Condition(**one) for one in wire.get("conditions") or ()),
        }
    )


def reading_to_wire(reading: Reading) -> Json:
    """What ``parse --json`` prints for one file."""
    return {
        "schema": "kbctl.parse/1",
        "path": reading.path,
        "format": reading.format,
        "kind": reading.kind,
        "tool": reading.tool,
        "tool_version": reading.tool_version,
        "status": reading.status,
        "experiments": [experiment_to_wire(one) for one in reading.experiments],
        "telemetry": None if reading.telemetry is None else telemetry_to_wire(reading.telemetry),
        "lines": _plain(reading.lines),
        "problems": [_plain(one) for one in reading.problems],
        "extra": dict(reading.extra),
    }


def reading_from_wire(wire: Mapping[str, Any]) -> Reading:
    """The reading that ``reading_to_wire`` printed."""
    return Reading(
        path=wire["path"],
        format=wire["format"],
        kind=wire.get("kind", "unknown"),
        tool=wire.get("tool"),
        tool_version=wire.get("tool_version"),
        status=wire.get("status", "parsed"),
        experiments=tuple(experiment_from_wire(one) for one in wire.get("experiments") or ()),
        telemetry=telemetry_from_wire(wire.get("telemetry")),
        lines=LineCount(**(wire.get("lines") or {})),
        problems=_problems(wire.get("problems") or ()),
        extra=wire.get("extra") or {},
    )


def _problems(wires: Iterable[Mapping[str, Any]]) -> tuple[Problem, ...]:
    return tuple(Problem(**one) for one in wires)


def _without_empty(wire: Json, *names: str) -> Json:
    return {key: value for key, value in wire.items() if key not in names or value not in (None, {}, ())}


def _plain(value: Any) -> Json:
    """A dataclass's fields, mappings as plain dicts; much faster than ``asdict``, which copies everything."""
    found = ((name, getattr(value, name)) for name in value.__slots__)
    return {name: dict(one) if isinstance(one, Mapping) else one for name, one in found}


def compact(value: Any) -> str:
    """JSON text without blanks; what JSON cannot say (NaN, infinities) becomes null."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"), default=str)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return finite_number(value)
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value


def finite_number(value: Any) -> float | None:
    """A number that JSON can say; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # a whole number with hundreds of digits
        return None
    return number if abs(number) < float("inf") else None
