"""Commands that get data out and in: ``export``, ``import``, ``sql``.

Owns their formats. ``sql`` reads only; ``import`` goes through ingest like any other file.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kb.cli.options import AsJson, Quiet, StorePath, print_json, write_page
from kb.errors import KbctlError

if TYPE_CHECKING:
    from kb.store.runs import Kept

FORMATS = ("json", "parquet", "csv")


def register(app: typer.Typer) -> None:
    """Add export, import and sql."""
    app.command("export")(export)
    app.command("import")(import_)
    app.command("sql")(sql)


def export(
    run: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help="Only these runs.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File (json) or folder (parquet, csv).")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="json, parquet or csv.")] = "json",
    anonymous: Annotated[
        bool, typer.Option("--anonymous", help="Without paths, names and notes; json only.")
    ] = False,
    store: StorePath = None,
) -> None:
    """Write runs to a file that others can import, or the tables for other programs.

    Example: kbctl export --anonymous -o runs.json
    """
    from kb.store import open_store
    from kb.store.export import export_tables
    from kb.store.runs import find_run, kept_runs

    if form not in FORMATS:
        raise KbctlError(f"no export format {form!r}", where="--format", tip=f"one of {', '.join(FORMATS)}")
    if form != "json" and (output is None or anonymous):
        raise KbctlError(
            f"{form} is written to a folder and never anonymous", tip="kbctl export --format json"
        )
    with open_store(store) as opened:
        wanted = [find_run(opened, one) for one in run or ()]
        if form != "json" and output is not None:
            names = export_tables(opened, output, form, wanted)
            typer.echo(f"Wrote {', '.join(names)} to {output}.", err=True)
            return
        condition = f"run IN ({', '.join('?' * len(wanted))})" if wanted else "true"
        kept = list(kept_runs(opened, condition, wanted))
    _write_json(kept, output, anonymous)


def import_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files that kbctl export wrote.")],
    store: StorePath = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Take in runs that someone exported; those that are here already stay as they are.

    Example: kbctl import runs.json
    """
    from ingest.formats.kbctl_export import is_export
    from kb.cli.ingest import ingest

    for one in files:
        if not one.is_file():
            raise KbctlError("no such file", where=str(one), tip="name a file that kbctl export wrote")
        if not is_export(one):
            tip = "kbctl ingest reads logs, traces and benchmarks"
            raise KbctlError("not a file that kbctl export wrote", where=str(one), tip=tip)
    ingest(files, store=store, as_json=as_json, quiet=quiet)


def sql(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A SELECT; $name stands for a parameter.")],
    parameter: Annotated[
        list[str] | None, typer.Option("--param", "-p", metavar="NAME=VALUE", help="Value of $NAME.")
    ] = None,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    store: StorePath = None,
) -> None:
    """Ask the store in SQL (read-only): tables run, measurement, trace, evidence_line, source, claim.

    Example: kbctl sql 'SELECT engine, effect, count(*) FROM run GROUP BY ALL'
    """
    from kb.cli.table import table
    from kb.store import open_store

    with open_store(store) as opened:
        columns, rows = opened.ask(query, _parameters(parameter or []))
    if as_json:
        print_json(
            {"schema": "kbctl.sql/1", "columns": columns, "rows": [[_plain(v) for v in row] for row in rows]}
        )
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    else:
        shown = [["" if value is None else str(value) for value in row] for row in rows]
        typer.echo("\n".join(table(columns, shown)))


def _parameters(given: list[str]) -> dict[str, str]:
    found = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals:
            raise KbctlError(
                "a parameter is NAME=VALUE", where=one, tip="kbctl sql 'SELECT … WHERE gpu = $gpu' -p gpu=…"
            )
        found[name] = value
    return found


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _write_json(kept: list[Kept], output: Path | None, anonymous: bool) -> None:
    from kb.anonymous import anonymised
    from kb.cli.runs import run_json

    runs = [run_json(one) for one in kept]
    told: list[str] = []
    if anonymous:
        runs, told = anonymised(runs)
        typer.echo("\n".join(["What is kept and what is hidden:", *(f"  {line}" for line in told)]), err=True)
    whole = {"schema": "kbctl.export/1", "anonymous": anonymous, "runs": runs}
    if output is None:
        print_json(whole)
        return
    write_page(output, json.dumps(whole, ensure_ascii=False, indent=1) + "\n")
    typer.echo(f"Wrote {len(runs)} runs to {output}. Read it before you share it.", err=True)
