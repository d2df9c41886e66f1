"""Commands that correct history: ``invalidate``, ``forget``, ``note``, ``link``, ``unlink``.

Owns their wording. Every one appends a claim and renews the snapshot; none edits a reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kb.cli.options import StorePath
from kb.errors import KbctlError

if TYPE_CHECKING:
    from kb.store import Store

RunId = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or the start of one.")]
SourceName = Annotated[str, typer.Argument(metavar="SOURCE", help="Path of a file that was ingested.")]
Reason = Annotated[str | None, typer.Option("--reason", "-r", help="Why; kept with the claim.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (invalidate, forget, note, link, unlink):
        app.command(command.__name__)(command)


def invalidate(
    run: RunId,
    reason: Reason = None,
    undo: Annotated[bool, typer.Option("--undo", help="Let the run count again.")] = False,
    store: StorePath = None,
) -> None:
    """Keep a run but do not let it count as evidence.

    Example: kbctl invalidate 7fb28c9d --reason "a neighbour used the GPU"
    """
    if not undo and not reason:
        raise KbctlError("say why the run does not count", tip=f"kbctl invalidate {run} --reason TEXT")
    with _changing(store) as opened:
        found = _find(opened, run)
        _claim(opened, "restore" if undo else "invalidate", found, reason=reason)
    typer.echo(f"{found} {'counts again' if undo else 'no longer counts as evidence'}.")


def forget(run: RunId, reason: Reason = None, store: StorePath = None) -> None:
    """Delete a run and what only it rests on; the same files do not bring it back.

    Example: kbctl forget 7fb28c9d
    """
    from kb.store.forget import forget_run

    with _changing(store) as opened:
        found = _find(opened, run)
        count = forget_run(opened, found, reason)
    typer.echo(f"{found} and {count} readings are gone; its files are not touched.")


def note(
    run: RunId, text: Annotated[str, typer.Argument(help="What to remember.")], store: StorePath = None
) -> None:
    """Attach a remark to a run.

    Example: kbctl note 7fb28c9d "after the driver update"
    """
    from ingest.redact import redact

    with _changing(store) as opened:
        found = _find(opened, run)
        _claim(opened, "note", found, value=redact(text))
    typer.echo(f"Noted on {found}.")


def link(source: SourceName, run: RunId, store: StorePath = None) -> None:
    """Say that a file belongs to a run; it is assembled so from now on.

    Example: kbctl link results/bench.json 7fb28c9d
    """
    with _changing(store) as opened:
        found = _find(opened, run)
        _claim_source(opened, "link", source, found)
    typer.echo(f"{source} belongs to {found}.")


def unlink(source: SourceName, run: RunId, store: StorePath = None) -> None:
    """Say that a file does not belong to a run.

    Example: kbctl unlink results/bench.json 7fb28c9d
    """
    with _changing(store) as opened:
        found = _find(opened, run)
        _claim_source(opened, "unlink", source, found)
    typer.echo(f"{source} does not belong to {found}.")


@contextmanager
def _changing(store: Path | None) -> Iterator[Store]:
    """The store open for a claim; afterwards what waits is assembled and the snapshot renewed."""
    from ingest.assembly import assemble_pending
    from kb.store import existing, open_store
    from kb.store.publish import publish

    existing(store)
    with open_store(store, write=True, notice=lambda text: typer.echo(f"kbctl: {text}", err=True)) as opened:
        yield opened
        assemble_pending(opened)
        publish(opened)


def _find(store: Store, run: str) -> str:
    from kb.store.runs import find_run

    return find_run(store, run)


def _claim(store: Store, kind: str, target: str, value: str = "", reason: str | None = None) -> None:
    from kb.store.claims import Claim, add_claims

    with store.transaction():
        add_claims(store, [Claim(kind=kind, target=target, value=value, reason=reason)])


def _claim_source(store: Store, kind: str, source: str, run: str) -> None:
    from ingest.fingerprint import stored_path
    from ingest.sources import Source
    from kb.store.sources import known_sources, mark_pending

    path = stored_path(Source(Path(source)))
    known = known_sources(store).get(path)
    if known is None:
        raise KbctlError("this file was not ingested", where=source, tip=f"kbctl ingest {source}")
    _claim(store, kind, known.identity, value=run)
    sites = [site for (site,) in store.rows("SELECT site FROM run WHERE run = ?", [run])]
    mark_pending(store, [str(Path(path).parent), *sites])
