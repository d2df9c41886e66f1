"""``kbctl record``: run a server and its benchmarks, keep log, trace and results, and store the run.

Owns the command's options, where the files go, and its exit status (1 when the server did not serve).
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from kb.cli.options import Quiet, StorePath
from kb.errors import EXIT_NO, KbctlError

USUAL_PORT = 8000
Command = Annotated[
    list[str] | None, typer.Argument(metavar="COMMAND...", help="The server's command, after --.")
]
Bench = Annotated[
    list[str] | None,
    typer.Option("--bench", help="Benchmark to run when the server is ready, a shell command; repeatable."),
]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="Folder for the files (default: kbctl-runs/TIME).")
]
Port = Annotated[
    int | None, typer.Option("--port", min=1, max=65535, help="Port, where the command has none.")
]
ReadyS = Annotated[float, typer.Option("--ready-s", min=1, help="Most seconds until the server is ready.")]
BenchS = Annotated[float, typer.Option("--bench-s", min=1, help="Most seconds for each benchmark.")]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command()(record)


def record(
    command: Command = None,
    bench: Bench = None,
    output: Output = None,
    port: Port = None,
    ready_s: ReadyS = 3600,
    bench_s: BenchS = 3600,
    store: StorePath = None,
    quiet: Quiet = False,
) -> None:
    """Run a server, measure it, stop it, and store the run: log, GPU trace, results, how it ended.

    Example: kbctl record --bench "vllm bench serve --model M --port 8000" -- vllm serve M
    """
    from kb.cli.recording import Limits
    from kb.cli.recording import record as run

    if not command:
        raise KbctlError("which server?", tip='kbctl record --bench "…" -- vllm serve MODEL')
    folder = output or Path("kbctl-runs") / datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    _make(folder)
    told = run(
        command,
        bench or (),
        folder.resolve(),
        Limits(ready_s, bench_s),
        port or _port(command),
        lambda text: None if quiet else typer.echo(f"kbctl: {text}", err=True),
    )
    _store(folder, store, quiet=quiet)
    served = told["ready"] and all(one["rc"] == 0 for one in told.get("benches", ()))
    if not served:
        typer.echo(f"It did not serve, or a benchmark failed. Next: kbctl diagnose {folder}", err=True)
        raise typer.Exit(EXIT_NO)


def _port(command: list[str]) -> int:
    """The port that the command names, else the engine's own."""
    from kb.vocab.dialects import dialect
    from kb.vocab.engines import parse_command

    launch = parse_command(command)
    named = str(launch.settings.get("port") or "")
    return int(named) if named.isdigit() else dialect(launch.engine or "").get("port", USUAL_PORT)


def _make(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()):
        raise KbctlError(
            "the folder is not empty", where=str(folder), tip="one folder for one run: name a new one"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise KbctlError(
            f"cannot make the folder: {error.strerror}", where=str(folder), tip="-o FOLDER"
        ) from None


def _store(folder: Path, store: Path | None, *, quiet: bool) -> None:
    from kb.cli import ingest

    ingest.ingest([folder], store=store, quiet=quiet)
