"""``kbctl fit``: train the regression and the chance of working on what is known.

Owns the options and where the model is written. Learning lives in ``recommend.fit``; it loads numpy and
scikit-learn, so nothing here is on the answering path.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from kb.cli.options import AsJson, Quiet, StorePath, print_json
from kb.cli.replay import all_runs
from kb.errors import KbctlError

Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="File to write the model to (default: beside the store)."),
]
Compare = Annotated[bool, typer.Option("--compare", help="Hold the possible forms against each other.")]
Shipped = Annotated[bool, typer.Option("--shipped-only", help="Learn from the published points alone.")]


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command()(fit)


def fit(
    store: StorePath = None,
    output: Output = None,
    compare: Compare = False,
    shipped_only: Shipped = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train on published and own measurements, and on reported and own tries; recommend then uses it.

    Example: kbctl fit --compare
    """
    from kb.evidence import default_store
    from kb.measurements import own_model_path, serving
    from recommend import fit as learning
    from recommend.samples import noise_of

    path = store or default_store()
    points = tuple(serving())
    samples, releases, stamp = gathered(path, points, shipped_only)
    if compare:
        from recommend.compare import compare as held_against

        told = held_against(samples)
        print_json({"schema": "kbctl.fit/1", "compared": told}) if as_json else typer.echo(_table(told))
        return
    try:
        model = learning.train(samples, releases, stamp, noise_of(points))
        model["chance"] = chances([] if shipped_only else all_runs(path))
    except ValueError as error:
        raise KbctlError(
            str(error), where=str(path), tip="ingest benchmarks first, or use the shipped model"
        ) from error
    target = output or own_model_path(path)
    _write(target, model)
    summary = {
        "samples": model["samples"],
        "groups": len(model["seen"]),
        "tries": model["chance"]["tries"],
        "made_from": stamp,
        "path": str(target),
    }
    if as_json:
        print_json({"schema": "kbctl.fit/1", **summary})
    elif not quiet:
        learned = f"{summary['samples']} points of {summary['groups']} (GPU, model) groups"
        typer.echo(f"fitted on {learned} and on {summary['tries']} tries: {target}")


def chances(runs: list[Any]) -> dict[str, Any]:
    """The model's part that tells how likely a configuration is to work."""
    from kb.knowledge import load
    from recommend import tries
    from recommend.hazard import learn

    near = tries.reported()
    own = tries.of_runs(runs, load().records, {"near": near}) if runs else ()
    return learn([*tries.shipped(), *own], near)


def gathered(store: Path, points: Any, shipped_only: bool) -> tuple[list[Any], dict[str, Any], str]:
    """(samples, releases per engine, what they were made from)."""
    from kb.vocab import engines, options
    from recommend.samples import own, published

    releases = {engine: options.releases(engine) for engine in engines.ENGINES}
    samples = list(published(points, releases))
    count = len(samples)
    if not shipped_only:
        samples += own(all_runs(store), releases)
    return samples, releases, f"{count} published points, {len(samples) - count} own points"


def _table(told: list[dict[str, Any]]) -> str:
    head = f"{'form':36} {'regret':>8} {'tries':>7} {'median error':>13} {'rms error':>10} {'CPU s':>7}"
    rows = [
        f"{one['form']:36} {one['regret']:8.4f} {one['tries']:7.3f} {one['median_error']:13.3f} "
        f"{one['rms_error']:10.3f} {one['cpu_s']:7.1f}"
        for one in told
    ]
    return "\n".join([head, *rows])


def _write(path: Path, model: dict[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(model, separators=(",", ":"), sort_keys=True) + "\n", encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise KbctlError(
            f"cannot write: {error.strerror}", where=str(path), tip="choose another -o"
        ) from error
