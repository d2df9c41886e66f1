"""Commands that show recorded runs: ``runs``, ``show``, ``compare``.

Owns their filters and tables. Must not change the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from kb.cli.options import AsJson, StorePath, print_json

if TYPE_CHECKING:
    from kb.store.runs import Kept


def register(app: typer.Typer) -> None:
    """Add runs, show and compare."""
    app.command("runs")(runs)


def runs(store: StorePath = None, as_json: AsJson = False) -> None:
    """List what was tried."""
    from kb.store import open_store
    from kb.store.runs import kept_runs

    with open_store(store) as opened:
        found = list(kept_runs(opened))
    if as_json:
        print_json({"schema": "kbctl.runs/1", "runs": [run_json(one) for one in found]})
        return
    for one in found:
        e = one.experiment
        typer.echo(f"{e.run} {e.backend.engine} {e.model.name} {e.outcome.effect} {e.outcome.stage}")


def run_json(kept: Kept) -> dict[str, Any]:
    """One run as ``runs --json`` prints it."""
    from kb.wire import experiment_to_wire

    return {**experiment_to_wire(kept.experiment), "invalid": kept.invalid, "notes": list(kept.notes)}
