"""``kbctl records``: list, lint, test, new and stats of the reviewed knowledge.

Owns the wiring of schema, lint, log classifier and matcher; the rules live in ``kb.lint``, ``kb.catalogue``
and ``recommend.trial``.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kb.cli.options import AsJson, RecordDirs, StorePath, print_json, write_page

if TYPE_CHECKING:
    from kb.lint import Fault
    from kb.records import Record, RecordError
    from kb.symptoms import Table

Folders = Annotated[list[Path] | None, typer.Argument(help="Record files or folders (default: what ships).")]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    group = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        help="The reviewed knowledge: list, lint, test, new, stats.",
    )
    group.command("list")(list_records)
    group.command()(lint)
    group.command("test")(run_examples)
    group.command()(new)
    group.command()(stats)
    group.command()(table)
    app.add_typer(group, name="records")


def list_records(
    arch: Annotated[
        str | None, typer.Option("--arch", help="Only records that speak about this GPU or arch.")
    ] = None,
    records: RecordDirs = None,
    as_json: AsJson = False,
) -> None:
    """List records: what they say, of which architectures, with which effect.

    Example: kbctl records list --arch sm120
    """
    from kb import knowledge
    from kb.errors import KbctlError
    from kb.vocab.gpus import arch_of, nearest
    from recommend.render import listing

    if arch and arch_of(arch) is None:
        near = nearest(arch)
        tip = f"did you mean {near}?" if near else "an architecture such as sm120, or a product such as h200"
        raise KbctlError(f"no catalogued GPU is called {arch!r}", where="--arch", tip=tip)
    rows = listing.rows(knowledge.load(records or ()).records, arch)
    if as_json:
        print_json({"schema": "kbctl.records/1", "records": rows})
        return
    for line in listing.lines(rows):
        typer.echo(line)


def lint(paths: Folders = None) -> None:
    """Check records: schema, words, matches, ranges, evidence, log samples.

    Example: kbctl records lint my-records/
    """
    from kb import lint as rules

    records = list(_read(paths))
    today = datetime.datetime.now(tz=datetime.UTC).date()
    faults = [*rules.lint(records, today), *_sample_faults(records)]
    for fault in faults:
        typer.echo(str(fault))
    errors = sum(fault.severity == "error" for fault in faults)
    typer.echo(f"{len(records)} records: {errors} errors, {len(faults) - errors} warnings", err=True)
    if errors:
        raise typer.Exit(1)


def run_examples(paths: Folders = None) -> None:
    """Run every record's examples; exit status 1 when one answers otherwise than expected.

    Example: kbctl records test my-records/
    """
    failed = total = 0
    for record, number, expected, got in _trials(paths):
        total += 1
        if expected != got:
            failed += 1
            typer.echo(f"{record.path}:{record.line_of('example', number)}: expected {expected}, got {got}")
            typer.echo(f"    {record.content.example[number].check}")
    typer.echo(f"{total} examples: {failed} answer otherwise than expected", err=True)
    if failed:
        raise typer.Exit(1)


def stats(paths: Folders = None, as_json: AsJson = False) -> None:
    """Count records: good and bad, by architecture, and how many are dated at both ends.

    Example: kbctl records stats
    """
    from kb import catalogue, records

    counted = catalogue.counted(one for one in _read(paths) if isinstance(one, records.Record))
    if as_json:
        print_json({"schema": "kbctl.records.stats/1", **counted})
        return
    for line in catalogue.lines(counted):
        typer.echo(line)


def table(
    output: Annotated[Path | None, typer.Option("-o", "--output", help="File to write.")] = None,
    records: RecordDirs = None,
    as_json: AsJson = False,
) -> None:
    """Show which kernel works on which architecture, as a Markdown page (docs/records.md).

    Example: kbctl records table -o kernels.md
    """
    from dataclasses import asdict

    from kb import knowledge
    from recommend import compatibility

    known = knowledge.load(records or ()).records
    if as_json:
        cells = [asdict(one) for one in compatibility.cells(known)]
        print_json({"schema": "kbctl.records.table/1", "cells": cells})
        return
    text = "\n".join(compatibility.page(known))
    if output is None:
        typer.echo(text)
    else:
        write_page(output, text + "\n")


def new(
    source: Annotated[
        str, typer.Argument(help="A failed run's id, or a log file (read as kbctl diagnose does).")
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File to write (default: stdout).")
    ] = None,
    store: StorePath = None,
) -> None:
    """Write a first draft of a record from a failed run or from a log.

    Example: kbctl records new server.log -o my-records/our-finding.md
    """
    from kb.cli import drafting

    text = drafting.draft(source, store, datetime.datetime.now(tz=datetime.UTC).date())
    if output is None:
        typer.echo(text)
        return
    write_page(output, text)
    typer.echo(f"{output}: complete what is marked TODO, then: kbctl records lint {output}", err=True)


def _read(paths: list[Path] | None) -> Iterator[Record | RecordError]:
    from kb.errors import KbctlError
    from kb.knowledge import shipped_folder
    from kb.records import RecordError, read_folder, read_record

    for path in paths or [shipped_folder()]:
        if path.is_dir():
            yield from read_folder(path)
            continue
        if not path.exists():
            raise KbctlError(
                "no such file or folder", where=str(path), tip="give record files (*.md) or folders"
            )
        try:
            yield read_record(path)
        except RecordError as error:
            yield error


def _trials(paths: list[Path] | None) -> Iterator[tuple[Record, int, str, str]]:
    """(record, number of the example, expected, got) through the same reading of a question as ``check``."""
    from kb.cli.check import question
    from kb.compiled import compiled
    from kb.records import Record
    from recommend.query import ask
    from recommend.trial import answer

    for record in _read(paths):
        if not isinstance(record, Record):
            typer.echo(f"{record.where}: {record.what}", err=True)
            continue
        plain = compiled(record, shipped=True)
        for number, example in enumerate(record.content.example):
            yield record, number, example.expect, answer(plain, ask(question(example.check)))


def _sample_faults(records: list[Record | RecordError]) -> Iterator[Fault]:
    """Log samples that are not recognised as one of the record's signatures."""
    from kb import symptoms
    from kb.lint import Fault
    from kb.records import Record

    table = symptoms.table()
    for record in records:
        if not isinstance(record, Record):
            continue
        wanted = {outcome.signature for outcome in record.content.outcome} - {None}
        for sample in record.samples:
            found = _classes(table, sample.text)
            if wanted and not found & wanted:
                known, expected = sorted(found) or "nothing", sorted(map(str, wanted))
                what = f"the sample is recognised as {known}, not as {expected}"
                tip = "a text of records/symptoms.toml must fit a line of it"
                yield Fault(str(record.path), sample.line, "error", what, tip)


def _classes(table: Table, text: str) -> set[str]:
    """Every class that a line of the text may be, at any stage."""
    hits = [hit for line in text.splitlines() if (hit := table.match(line, is_error=True))]
    return {name for hit in hits for name in (hit.symptom.name, *hit.symptom.by_stage.values())}
