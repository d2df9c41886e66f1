"""``kbctl report``: the knowledge and the own runs as a site of HTML files.

Owns where the files go. What stands in them is made in ``recommend.render.site``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kb.cli.options import Quiet, RecordDirs, StorePath
from kb.errors import KbctlError

if TYPE_CHECKING:
    from recommend.render.site import RunPage

Output = Annotated[Path, typer.Option("-o", "--output", help="Folder for the site; its pages are replaced.")]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command()(report)


def report(output: Output, records: RecordDirs = None, store: StorePath = None, quiet: Quiet = False) -> None:
    """Write the records and your own runs as a browsable site, to open from disk or put on any web server.

    Example: kbctl report -o site
    """
    from kb import knowledge
    from kb.cli.runs import RUN_COLUMNS
    from recommend.render.site import pages

    known = knowledge.load(records or ()).records
    prose = {record["id"]: knowledge.prose_of(record) for record in known}
    runs = _runs(store)
    count = 0
    try:
        for name, text in pages(known, prose, runs, RUN_COLUMNS):
            target = output / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8", errors="backslashreplace")
            count += 1
    except OSError as error:
        tip = "-o takes a folder that can be written"
        raise KbctlError(f"cannot write: {error.strerror}", where=str(output), tip=tip) from None
    if not quiet:
        typer.echo(f"{count} pages: {output / 'index.html'}", err=True)


def _runs(store: Path | None) -> list[RunPage]:
    from kb.cli.runs import run_row, show_lines
    from kb.store import default_path, open_store
    from kb.store.runs import kept_runs
    from recommend.render.site import RunPage

    if not (store or default_path()).exists():
        return []
    with open_store(store) as opened:
        return [RunPage(one.experiment.run, run_row(one), show_lines(one)) for one in kept_runs(opened)]
