"""Commands that show recorded runs: ``runs``, ``show``, ``compare``.

Owns their filters and tables. Must not change the store.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kb.cli.options import AsJson, StorePath, print_json
from kb.cli.table import number, table
from kb.fold import client_points

if TYPE_CHECKING:
    from kb.model import Experiment, Measurement, Telemetry
    from kb.store.runs import Kept

RunId = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or the start of one.")]
WORKLOAD = (
    "concurrency",
    "request_rate",
    "input_len",
    "output_len",
    "batch_size",
    "depth",
    "dataset",
    "test",
)
RUN_COLUMNS = ("run", "started", "engine", "model", "gpu", "ended", "best tok/s", "why, or which kernels")
METRICS = ("output_tok_s", "total_tok_s", "ttft_ms_mean", "tpot_ms_mean", "completed", "failed", "accuracy")


def register(app: typer.Typer) -> None:
    """Add runs, show and compare."""
    app.command("runs")(runs)
    app.command("show")(show)
    app.command("compare")(compare)


def runs(
    store: StorePath = None,
    as_json: AsJson = False,
    gpu: Annotated[str | None, typer.Option(help="Only on this GPU or architecture.")] = None,
    engine: Annotated[str | None, typer.Option(help="Only of this engine, or ENGINE==VERSION.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Only with this model (part of its name, or its family).")
    ] = None,
    effect: Annotated[
        str | None, typer.Option(help="Only with this ending: ok, crash, oom, refused, …")
    ] = None,
    blame: Annotated[str | None, typer.Option(help="Only with this blame: backend, user, …")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the newest N.")] = None,
) -> None:
    """List what was tried: where each run ended, its best throughput, its cause.

    Example: kbctl runs --gpu h100 --effect crash
    """
    from kb.cli.filters import run_condition
    from kb.store import default_path, open_store
    from kb.store.runs import kept_runs

    condition, values = run_condition(gpu=gpu, engine=engine, model=model, effect=effect, blame=blame)
    found: list[Kept] = []
    there = (store or default_path()).exists()
    if there:
        with open_store(store) as opened:
            found = list(kept_runs(opened, condition, values))
    found = found[-limit:] if limit else found
    if as_json:
        print_json({"schema": "kbctl.runs/1", "runs": [run_json(one) for one in found]})
    elif found:
        typer.echo("\n".join(_run_table(found)))
    elif there and values:
        typer.echo("No run matches. Next: kbctl runs lists them all", err=True)
    else:
        typer.echo("No runs recorded. Next: kbctl ingest FOLDER", err=True)


def show(run: RunId, store: StorePath = None, as_json: AsJson = False) -> None:
    """Everything recorded about one run.

    Example: kbctl show 7fb28c9d
    """
    from kb.store import open_store
    from kb.store.runs import lines_of

    with open_store(store) as opened:
        kept = _one(opened, run)
        lines = lines_of(opened, kept.experiment.run)
    if as_json:
        print_json({"schema": "kbctl.show/1", **run_json(kept), "lines": lines})
    else:
        typer.echo("\n".join(show_lines(kept)))


def compare(a: RunId, b: RunId, store: StorePath = None, as_json: AsJson = False) -> None:
    """Two runs side by side: what differs in the configuration, and what in the measurements.

    Example: kbctl compare 7fb28c9d ff4a1d72
    """
    from kb.cli.side_by_side import compared
    from kb.store import open_store

    with open_store(store) as opened:
        one, other = _one(opened, a), _one(opened, b)
    found = compared(one.experiment, other.experiment)
    if as_json:
        print_json({"schema": "kbctl.compare/1", **found})
        return
    ids = (one.experiment.run, other.experiment.run)
    rows = [[name, _text(left), _text(right)] for name, (left, right) in found["differs"].items()]
    typer.echo("\n".join(table(("", *ids), rows or [["(same configuration)", "", ""]])))
    rows = [
        [point["workload"], metric, number(left), number(right), f"{ratio:.3f}" if ratio else ""]
        for point in found["points"]
        for metric, (left, right, ratio) in point["metrics"].items()
    ]
    if rows:
        typer.echo("\n" + "\n".join(table(("workload", "metric", *ids, "second/first"), rows)))


def _one(store: Any, text: str) -> Kept:
    from kb.store.runs import find_run, kept_runs

    return next(iter(kept_runs(store, "run = ?", [find_run(store, text)])))


def run_json(kept: Kept) -> dict[str, Any]:
    """One run as ``runs --json`` prints it."""
    from kb.wire import experiment_to_wire

    answers = dict(zip(("verdict", "detail"), kept.answers, strict=True)) if kept.answers else None
    said = {"invalid": kept.invalid, "notes": list(kept.notes)}
    return {**experiment_to_wire(kept.experiment), **said, "answers": answers}


def _run_table(found: list[Kept]) -> list[str]:
    rows = [run_row(one) for one in found]
    return [
        *table(RUN_COLUMNS, rows, stretch=len(RUN_COLUMNS) - 1),
        f"{len(found)} runs. Next: kbctl show RUN",
    ]


def run_row(kept: Kept) -> list[str]:
    """A run in the columns of ``RUN_COLUMNS``."""
    run = kept.experiment
    ended = f"{run.outcome.effect} at {run.outcome.stage}" if run.outcome.stage else run.outcome.effect
    return [
        run.run.removeprefix("run:")[:8],
        (run.started or "")[:16].replace("T", " "),
        " ".join(filter(None, (run.backend.engine or "?", run.backend.engine_version))),
        _model_name(run),
        _gpu_name(run),
        f"{ended} (invalid)" if kept.invalid else ended,
        number(_best(run)),
        _why(run),
    ]


def _best(run: Experiment) -> float | None:
    """The highest throughput that a client measured, else the highest that the server printed."""
    return max((one.metrics.get("output_tok_s") or 0.0 for one in client_points(run)), default=None)


def _why(run: Experiment) -> str:
    if run.outcome.failure is not None:
        return f"{run.outcome.failure.signature}: {run.outcome.failure.cause}"
    kernels = [f"{role}={kernel}" for role, kernel in sorted(run.backend.resolved.items())]
    return ", ".join(kernels)


def _model_name(run: Experiment) -> str:
    name = run.model.id or run.model.name or "?"
    return Path(name).name


def _gpu_name(run: Experiment) -> str:
    name = (run.hardware.gpu or run.hardware.arch or "?").removeprefix("NVIDIA ")
    return f"{run.hardware.count}x {name}" if run.hardware.count else name


def show_lines(kept: Kept) -> list[str]:
    """Everything recorded about a run, for people."""
    run = kept.experiment
    hardware, backend, outcome = run.hardware, run.backend, run.outcome
    machine = (hardware.gpu, hardware.arch, _count(hardware.count), _named("driver", hardware.driver))
    model = (run.model.name, run.model.id, run.model.family, run.model.quantization)
    lines = [
        f"{run.run}: {outcome.effect} at {outcome.stage or 'unknown stage'}, blame {outcome.blame}",
        *([f"  invalid: {kept.invalid}"] if kept.invalid else []),
        *(f"  note: {one}" for one in kept.notes),
        f"  when      {run.started or 'unknown'} to {run.ended or 'unknown'}",
        f"  hardware  {_told(*machine, _named('CUDA', hardware.cuda))}",
        f"  model     {_told(*model)}",
        f"  engine    {_told(backend.engine, backend.engine_version)}",
    ]
    if run.said:
        lines.append(f"  told by no file, but by the user or a folder's name: {', '.join(run.said)}")
    lines += [
        f"  kernel    {role} = {kernel}{_asked(run, role, kernel)}"
        for role, kernel in sorted(backend.resolved.items())
    ]
    lines += _cause_lines(run)
    lines += [f"  answers   {kept.answers[0]}: {kept.answers[1]}"] if kept.answers else []
    lines += [f"  measured  {point_text(one)}" for one in run.measurements]
    if run.telemetry is not None:
        lines += [f"  trace     {trace_text(run.telemetry)}"] if run.telemetry.gpus else []
        lines += [f"  GPUs      {one.text}" for one in run.telemetry.conditions]
    lines += [f"  setting   {name} = {_text(value)}" for name, value in sorted(backend.settings.items())][:60]
    lines += [f"  source    {path}" for path in run.sources[:1]]
    return lines + [f"  source    {path} ({how}, {sure:.0%} sure)" for path, how, sure in run.joined]


def _cause_lines(run: Experiment) -> list[str]:
    failure, lines = run.outcome.failure, []
    if failure is not None:
        lines.append(f"  cause     {failure.cause}  [{failure.signature}]")
        lines.append(f"            {failure.path or ''}:{failure.line or ''}: {failure.text}")
    warnings = run.outcome.warnings
    return lines + [f"  warning   {one.meaning or one.text} (line {one.line})" for one in warnings]


def trace_text(trace: Telemetry) -> str:
    """How much a trace tells, as a line; its samples themselves are the store's table ``sample``."""
    every = f", one every {trace.interval_s:g} s" if trace.interval_s else ""
    span = f", {trace.started} to {trace.ended}" if trace.started else ""
    return f"{trace.samples} samples of {_counted(len(trace.gpus))}{every}{span}"


def _counted(gpus: int) -> str:
    return "1 GPU" if gpus == 1 else f"{gpus} GPUs"


def point_text(one: Measurement) -> str:
    """One workload point as a line."""
    workload = [f"{name} {one.workload[name]}" for name in WORKLOAD if one.workload.get(name) is not None]
    metrics = [f"{name} {number(one.metrics[name])}" for name in METRICS if one.metrics.get(name) is not None]
    by = f" ({one.client})" if one.client else ""
    return f"[{', '.join(workload)}] {', '.join(metrics)}{by}"


def _asked(run: Experiment, role: str, kernel: str) -> str:
    asked = run.backend.requested.get(role)
    return f"   (asked for {asked})" if asked and asked != kernel else ""


def _count(count: int | None) -> str | None:
    return _counted(count) if count else None


def _named(what: str, value: str | None) -> str | None:
    return f"{what} {value}" if value else None


def _told(*parts: str | None) -> str:
    return ", ".join(dict.fromkeys(one for one in parts if one)) or "unknown"


def _text(value: object) -> str:
    return "" if value is None else str(value)
