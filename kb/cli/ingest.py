"""Commands that read files: ``parse`` tells what a file says, ``ingest`` stores it, ``rebuild`` re-reads.

Owns their options and printing. Must not parse or store anything itself.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kb.cli.options import AsJson
from kb.errors import KbctlError

if TYPE_CHECKING:
    from kb.model import Experiment, Reading

Paths = Annotated[
    list[Path], typer.Argument(metavar="PATH...", help="Files, folders, archives, or - for stdin.")
]


def register(app: typer.Typer) -> None:
    """Add parse, ingest and rebuild."""
    app.command("parse")(parse)


def parse(files: Paths, as_json: AsJson = False) -> None:
    """Tell what each file says, without storing it."""
    from ingest.pipeline import read_paths
    from kb.wire import reading_to_wire

    _require_paths(files)
    for reading in read_paths(files):
        if as_json:
            typer.echo(
                json.dumps(reading_to_wire(reading), ensure_ascii=False, separators=(",", ":"), default=str)
            )
        else:
            typer.echo("\n".join(_reading_lines(reading)))


def _require_paths(paths: list[Path]) -> None:
    for path in paths:
        if str(path) != "-" and not path.exists():
            raise KbctlError("no such file or folder", where=str(path), tip="check the path, or quote a glob")


def _reading_lines(reading: Reading) -> list[str]:
    head = f"{reading.path}: {reading.format} ({reading.kind}), {reading.status}"
    lines = [
        head if reading.tool is None else f"{head}, from {reading.tool} {reading.tool_version or ''}".rstrip()
    ]
    for experiment in reading.experiments:
        lines += [f"  {line}" for line in _experiment_lines(experiment)]
    if reading.telemetry is not None:
        lines += [f"  GPU trace: {reading.telemetry.samples} samples of {len(reading.telemetry.gpus)} GPUs"]
        lines += [f"    {one.name}: {one.text}" for one in reading.telemetry.conditions]
    lines += [
        f"  problem{'' if p.line is None else f' at line {p.line}'}: {p.what}" for p in reading.problems
    ]
    return lines


def _experiment_lines(experiment: Experiment) -> list[str]:
    backend, outcome = experiment.backend, experiment.outcome
    named = [
        f"{backend.engine or 'unknown engine'} {backend.engine_version or '(version unknown)'}",
        experiment.model.name or "model unknown",
        experiment.hardware.gpu or experiment.hardware.arch or "GPU unknown",
    ]
    lines = [
        f"{' · '.join(named)}: {outcome.effect} at {outcome.stage or 'unknown stage'}, blame {outcome.blame}"
    ]
    lines += [f"  {role} = {kernel}" for role, kernel in sorted(backend.resolved.items())]
    if outcome.failure is not None:
        lines += [
            f"  cause (line {outcome.failure.line}): {outcome.failure.cause}",
            f"    {outcome.failure.text}",
        ]
    lines += [f"  warning (line {one.line}): {one.meaning or one.text}" for one in outcome.warnings]
    for one in experiment.measurements:
        point = ", ".join(f"{name} {value}" for name, value in one.workload.items() if value is not None)
        figures = ", ".join(f"{k} {v:g}" for k, v in one.metrics.items() if v is not None)
        lines.append(f"  measured [{point}] {figures}")
    return lines
