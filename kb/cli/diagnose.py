"""``kbctl diagnose``: why did this server die, hang or run slow, and what to do.

Owns the command's options, following a growing file, and its exit status (0 healthy, 1 failure found,
2 unreadable). Reading lives in ``ingest``, records and remedies in ``recommend``, words in
``kb.cli.incidents``.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kb.cli.options import AsJson, RecordDirs, print_json
from kb.errors import EXIT_NO, KbctlError

if TYPE_CHECKING:
    from ingest.diagnosis import Incident
    from kb.model import Reading

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...", help="Log, folder, archive or - ; several files of one incident together."
    ),
]
Follow = Annotated[
    bool,
    typer.Option("--follow", "-f", help="Keep reading a growing log; stop at the first failure or Ctrl-C."),
]
Gpu = Annotated[
    str | None,
    typer.Option("--gpu", help="The GPU, where the log does not print it: arch, product or nickname."),
]
POLL_S = 1.0


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command()(diagnose)


def diagnose(
    files: Files,
    follow: Follow = False,
    gpu: Gpu = None,
    as_json: AsJson = False,
    records: RecordDirs = None,
) -> None:
    """Why a server died, hung or runs slow: the cause first, then where, echoes, and what to do.

    Example: kbctl diagnose server.log nvidia-smi.csv
    """
    from ingest.diagnosis import on_gpu
    from kb.cli.incidents import to_json, to_text

    found = _followed(files) if follow else _read(files)
    found = [on_gpu(one, gpu) for one in found] if gpu else found
    known = _records(records or [])
    if as_json:
        print_json({"schema": "kbctl.diagnose/1", "incidents": [to_json(one, known) for one in found]})
    else:
        typer.echo("\n\n".join("\n".join(to_text(one, known)) for one in found))
    if any(one.is_failure for one in found):
        raise typer.Exit(EXIT_NO)


def _read(files: list[Path]) -> list[Incident]:
    from ingest.diagnosis import incidents
    from ingest.pipeline import read_paths

    readings = list(read_paths(files))
    found = incidents(readings)
    if not found:
        raise KbctlError(
            _why_nothing(readings), where=", ".join(map(str, files)), tip="name the server's own log"
        )
    return found


def _why_nothing(readings: list[Reading]) -> str:
    if not readings:
        return "there is nothing to read"
    said = [problem.what for one in readings for problem in one.problems]
    seen = ", ".join(sorted({one.format for one in readings}))
    return f"no server log among these files ({seen}){': ' + said[0] if said else ''}"


def _followed(files: list[Path]) -> list[Incident]:
    """Read again whenever a file has grown, until something failed."""
    sizes: tuple[int, ...] = ()
    found: list[Incident] = []
    try:
        while True:
            now = tuple(one.stat().st_size for one in files if one.is_file())
            if now != sizes or not now:
                sizes, found = now, _read(files)
                if not now or any(_is_over(one) for one in found):
                    return found
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        if not found:
            raise
        return found


def _is_over(incident: Incident) -> bool:
    """Whether an error was seen; a log that merely has not gone on yet is still growing."""
    failure = incident.experiment.outcome.failure
    waiting = ("killed", "log-ends", "hang-capture", "hang-distributed")
    return failure is not None and failure.signature not in waiting


def _records(private: list[Path]) -> tuple[dict[str, object], ...]:
    from kb import knowledge

    return tuple(dict(one) for one in knowledge.load(private).records)
