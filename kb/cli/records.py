"""``kbctl records``: list, lint, test, new and stats of the reviewed knowledge.

Owns the wiring of schema, lint, classifier and matcher; the rules themselves live in ``kb.lint``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Folders = Annotated[list[Path] | None, typer.Argument(help="Record files or folders (default: what ships).")]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    group = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        help="The reviewed knowledge: list, lint, test, new, stats.",
    )
    group.command()(lint)
    app.add_typer(group, name="records")


def lint(paths: Folders = None) -> None:
    """Check records: schema, words, matches, ranges, evidence, log samples."""
    import datetime

    from kb import lint as rules

    today = datetime.datetime.now(tz=datetime.UTC).date()
    faults = rules.lint(_read(paths), today)
    for fault in faults:
        typer.echo(str(fault))
    errors = sum(fault.severity == "error" for fault in faults)
    typer.echo(f"{errors} errors, {len(faults) - errors} warnings", err=True)
    if errors:
        raise typer.Exit(1)


def _read(paths: list[Path] | None):  # type: ignore[no-untyped-def]
    from kb.records import RecordError, read_folder, read_record

    for path in paths or [Path(__file__).parents[2] / "records"]:
        if path.is_dir():
            yield from read_folder(path)
            continue
        try:
            yield read_record(path)
        except RecordError as error:
            yield error
