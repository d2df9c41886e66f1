"""Commands that read files: ``parse`` tells what a file says, ``ingest`` stores it, ``rebuild`` re-reads.

Owns their options and printing. Must not parse or store anything itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kb.cli.options import AsJson, Quiet, StorePath, print_json
from kb.cli.progress import Progress
from kb.errors import KbctlError

if TYPE_CHECKING:
    from ingest.intake import Report
    from kb.model import Experiment, Reading

MOST_REASONS = 10
Paths = Annotated[
    list[Path], typer.Argument(metavar="PATH...", help="Files, folders, archives, or - for stdin.")
]


Columns = Annotated[
    str | None,
    typer.Option(
        "--columns", metavar="A,B,…", help="Column names of a trace that was written without a header."
    ),
]


def register(app: typer.Typer) -> None:
    """Add parse, ingest and rebuild."""
    app.command("parse")(parse)
    app.command("ingest")(ingest)
    app.command("rebuild")(rebuild)


def parse(files: Paths, as_json: AsJson = False, columns: Columns = None) -> None:
    """Tell what each file says, without storing it.

    Example: kbctl parse server.log bench.json
    """
    from ingest.pipeline import read_paths
    from kb.wire import compact, reading_to_wire

    nothing = True
    for reading in read_paths(files, _words(columns)):
        nothing = False
        if as_json:
            typer.echo(compact(reading_to_wire(reading)))
        else:
            typer.echo("\n".join(_reading_lines(reading)))
    if nothing:
        where = ", ".join(map(str, files))
        raise KbctlError("there is nothing to read", where=where, tip="name a file, or a folder with files")


def ingest(
    paths: Paths,
    store: StorePath = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say how each source was joined to its run.")
    ] = False,
    gpu: Annotated[
        str | None, typer.Option(help="GPU, where the files do not say it (kept as your word).")
    ] = None,
    gpus: Annotated[int | None, typer.Option(min=1, help="Number of GPUs, likewise.")] = None,
    engine: Annotated[str | None, typer.Option(help="Engine, or ENGINE==VERSION, likewise.")] = None,
    model: Annotated[str | None, typer.Option(help="Model, likewise.")] = None,
    quantization: Annotated[str | None, typer.Option(help="Weight quantization, likewise.")] = None,
    columns: Columns = None,
) -> None:
    """Read files, folders and archives into the store, and say what became of them.

    Example: kbctl ingest results/ --gpu h100
    """
    from ingest.intake import ingest as take_in
    from kb.said import said_fields

    said = said_fields(gpu=gpu, gpus=gpus, engine=engine, model=model, quantization=quantization)
    if columns:
        said["columns"] = _words(columns)
    progress = Progress(quiet)
    report = take_in(
        paths,
        store,
        said=said,
        notice=progress.notice,
        watch=lambda _, done, total: progress.step(done, total),
    )
    progress.clear()
    _publish(store)
    _tell(report, store, as_json=as_json, quiet=quiet, explain=explain)


def rebuild(
    store: StorePath = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Read every file again, changed parser or not.")
    ] = False,
) -> None:
    """Read again what today's parsers read differently, and assemble all runs anew; claims stay.

    Example: kbctl rebuild --all
    """
    from ingest.intake import rebuild as take_again
    from kb.store import existing

    existing(store)
    progress = Progress(quiet)
    report = take_again(
        store,
        everything=everything,
        notice=progress.notice,
        watch=lambda _, done, total: progress.step(done, total),
    )
    progress.clear()
    _publish(store)
    _tell(report, store, as_json=as_json, quiet=quiet, explain=False)


def _words(columns: str | None) -> list[str]:
    return [one.strip() for one in columns.split(",") if one.strip()] if columns else []


def _publish(store: Path | None) -> None:
    """Renew the snapshot that the answering commands read."""
    from kb.store import open_store
    from kb.store.publish import publish

    with open_store(store) as opened:
        publish(opened)


def _tell(report: Report, store: Path | None, *, as_json: bool, quiet: bool, explain: bool) -> None:
    joined = _joined(report, store) if explain else []
    if as_json:
        print_json(_report_json(report, joined if explain else None))
    elif not quiet:
        typer.echo("\n".join([*joined, *_report_lines(report)]))


def _report_json(report: Report, joined: list[str] | None) -> dict[str, Any]:
    change = report.change
    runs = {"total": change.total, "new": change.new, "changed": change.changed, "gone": change.gone}
    return {
        "schema": "kbctl.ingest/1",
        "sources": {"total": report.fates.total(), **dict(sorted(report.fates.items()))},
        "formats": dict(sorted(report.formats.items())),
        "not_understood": report.not_understood,
        "runs": {**runs, "counts": report.effects},
        **({} if joined is None else {"joined": joined}),
    }


def _report_lines(report: Report) -> list[str]:
    fates, change = report.fates, report.change
    parts = [f"{count} {fate}" for fate in ("new", "grown", "reread", "known") if (count := fates[fate])]
    lines = [f"Read {fates.total()} files: {', '.join(parts) or 'none'}."]
    lines += _unread_lines(report)
    gone = f", {len(change.gone)} gone" if change.gone else ""
    lines.append(f"Runs: {change.total} ({len(change.new)} new, {len(change.changed)} changed{gone}).")
    if report.effects:
        lines.append("  " + ", ".join(f"{count} {effect}" for effect, count in report.effects.items()))
    lines.append(f"Next: {_next(report)}")
    return lines


def _unread_lines(report: Report) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for one in report.not_understood:
        reasons.setdefault(f"{one['status']}: {one['reason'] or 'no reason given'}", []).append(
            one["path"] or ""
        )
    lines = [f"Not understood: {len(report.not_understood)}."] if reasons else []
    for reason, paths in sorted(reasons.items(), key=lambda item: -len(item[1]))[:MOST_REASONS]:
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        lines.append(f"  {paths[0]}{more}: {reason}")
    return lines


def _next(report: Report) -> str:
    if report.change.total:
        return "kbctl runs"
    if not report.fates:
        return "name a folder with files: nothing was read"
    return "kbctl parse FILE   (what one file tells, and why it made no run)"


def _joined(report: Report, store: Path | None) -> list[str]:
    from kb.store import open_store
    from kb.store.runs import kept_runs

    wanted = {*report.change.new, *report.change.changed}
    lines = []
    with open_store(store) as opened:
        for kept in kept_runs(opened):
            run = kept.experiment
            if run.run in wanted or not wanted:
                lines.append(f"{run.run} starts in {run.sources[0] if run.sources else '(nothing)'}")
                lines += [f"  + {path}: {how} ({sure:.0%} sure)" for path, how, sure in run.joined]
    return lines


def _reading_lines(reading: Reading) -> list[str]:
    from kb.cli.runs import trace_text

    head = f"{reading.path}: {reading.format} ({reading.kind}), {reading.status}"
    lines = [
        head if reading.tool is None else f"{head}, from {reading.tool} {reading.tool_version or ''}".rstrip()
    ]
    for experiment in reading.experiments:
        lines += [f"  {line}" for line in _experiment_lines(experiment)]
    if reading.telemetry is not None and reading.telemetry.gpus:
        lines += [f"  GPU trace: {trace_text(reading.telemetry)}"]
        lines += [f"    {one.name}: {one.text}" for one in reading.telemetry.conditions]
    lines += [
        f"  problem{'' if p.line is None else f' at line {p.line}'}: {p.what}" for p in reading.problems
    ]
    return lines


def _experiment_lines(experiment: Experiment) -> list[str]:
    backend, outcome = experiment.backend, experiment.outcome
    lines = [line] if (line := _what_and_how(experiment)) else []
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


def _what_and_how(experiment: Experiment) -> str:
    """What ran and how it ended, as far as the file tells: "vllm 0.11.0 · Qwen3-8B: ok at serve"."""
    backend, hardware, outcome = experiment.backend, experiment.hardware, experiment.outcome
    engine = " ".join(one for one in (backend.engine, backend.engine_version) if one)
    what = " · ".join(one for one in (engine, experiment.model.name, hardware.gpu or hardware.arch) if one)
    known = outcome.effect != "unknown" or outcome.stage is not None
    how = f"{outcome.effect} at {outcome.stage}" if outcome.stage else outcome.effect if known else ""
    blame = f"blame {outcome.blame}" if outcome.blame != "unknown" else ""
    ended = ", ".join(one for one in (how, blame) if one)
    return ": ".join(one for one in (what, ended) if one)
