"""What further sources add to a run: fields that it lacks, a trace, and how it really ended.

Owns which source wins where two speak: the server's own log, then its recorder, then what lies beside it,
then the user's word. Must not decide what belongs to a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from ingest.conclude import conclude
from ingest.matching import Draft
from ingest.spans import Find, part_of_trace
from ingest.telemetry import diagnose_trace
from ingest.windows import window
from kb.model import Backend, Experiment, Hardware, Measurement, Model, Outcome, Telemetry

T = TypeVar("T", Hardware, Model, Backend)
SAID = {
    "gpu": ("hardware", "gpu"),
    "arch": ("hardware", "arch"),
    "gpu_count": ("hardware", "count"),
    "engine": ("backend", "engine"),
    "engine_version": ("backend", "engine_version"),
    "model": ("model", "name"),
    "model_id": ("model", "id"),
    "family": ("model", "family"),
    "quantization": ("model", "quantization"),
}


def enrich(run: Experiment, told: Experiment) -> Experiment:
    """The run with what it lacks taken from another source; what it has stays."""
    return replace(
        run,
        hardware=filled(run.hardware, told.hardware),
        model=filled(run.model, told.model),
        backend=filled(run.backend, told.backend),
        started=run.started or told.started,
        ended=run.ended or told.ended,
        port=run.port if run.port is not None else told.port,
    )


def filled(main: T, other: T) -> T:
    """A frozen value whose unknown fields are taken from another of its kind; mappings are united."""
    found: dict[str, Any] = {}
    for name, mine in main._asdict().items():
        theirs = getattr(other, name)
        if isinstance(mine, Mapping):
            found[name] = {**theirs, **mine}
        else:
            found[name] = mine if mine is not None else theirs
    return main._replace(**found)


def say(run: Experiment, said: Mapping[str, Any]) -> Experiment:
    """The run with the user's word for what no file told; ``said`` names those fields."""
    names = []
    for name, value in said.items():
        if name not in SAID:
            continue
        part, field_name = SAID[name]
        value_object = getattr(run, part)
        if getattr(value_object, field_name) is None:
            run = replace(run, **{part: value_object._replace(**{field_name: value})})
            names.append(name)
    return replace(run, said=tuple(sorted({*run.said, *names})))


def completed(run: Experiment, draft: Draft, find: Find) -> Experiment:
    """The run with its trace, its stage by what was measured on it, and its true ending.

    ``find`` gives the samples of a trace between two times.
    """
    lasted = window(run.started, run.ended)
    parts = (part_of_trace(one.identity, one.reading.telemetry, lasted, find) for one in draft.traces)
    traces = [part for part in parts if part is not None]
    telemetry = max(traces, key=_worth, default=run.telemetry)
    flowing = _tokens_flow(run.measurements)
    own = () if draft.alone else (draft.attached[0][1],)
    loaded = _tokens_flow(tuple(one for one in run.measurements if one.path not in own))
    if telemetry is not None:
        found = diagnose_trace(telemetry, flowing, run.hardware.power_limit_w)
        telemetry = replace(telemetry, conditions=found or telemetry.conditions)
    run = replace(run, telemetry=telemetry, outcome=_ended(run, loaded))
    return conclude(run, draft.facts, telemetry, draft.kernel)


def _ended(run: Experiment, loaded: bool | None) -> Outcome:
    outcome = run.outcome
    if loaded and outcome.effect in ("ok", "unknown"):
        return replace(outcome, stage="load_test", effect="ok", failure=None)
    return outcome


def _tokens_flow(points: tuple[Measurement, ...]) -> bool | None:
    told = [
        one.metrics.get(name)
        for one in points
        for name in ("output_tok_s", "total_tok_s", "request_s", "completed")
        if one.metrics.get(name) is not None
    ]
    return any(value and value > 0 for value in told) if told else None


def _worth(telemetry: Telemetry) -> tuple[int, str]:
    metrics = {name for gpu in telemetry.gpus for name in gpu.metrics}
    return len(metrics) * telemetry.samples, telemetry.started or ""
