"""``kbctl fit`` and ``kbctl replay``: train the regression on what is known, and measure the recommender.

Owns the options and where the model is written. Learning lives in ``recommend.fit``, measuring in
``recommend.replay``; both may load numpy and scikit-learn, so nothing here is on the answering path.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from kb.cli.options import AsJson, Quiet, StorePath, print_json
from kb.errors import KbctlError

Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="File to write the model to (default: beside the store)."),
]
Compare = Annotated[bool, typer.Option("--compare", help="Hold the possible forms against each other.")]
Shipped = Annotated[bool, typer.Option("--shipped-only", help="Learn from the published points alone.")]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command()(fit)
    app.command()(replay)


def fit(
    store: StorePath = None,
    output: Output = None,
    compare: Compare = False,
    shipped_only: Shipped = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train the regression on published and own measurements; recommend then uses it."""
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
    except ValueError as error:
        raise KbctlError(
            str(error), where=str(path), tip="ingest benchmarks first, or use the shipped model"
        ) from error
    target = output or own_model_path(path)
    _write(target, model)
    summary = {
        "samples": model["samples"],
        "groups": len(model["seen"]),
        "made_from": stamp,
        "path": str(target),
    }
    if as_json:
        print_json({"schema": "kbctl.fit/1", **summary})
    elif not quiet:
        typer.echo(
            f"fitted on {summary['samples']} points of {summary['groups']} (GPU, model) groups: {target}"
        )


Source = Annotated[Path, typer.Argument(help="A table (.parquet, .csv, .tsv, .jsonl) or a store (.duckdb).")]
Columns = Annotated[str | None, typer.Option(help="Columns, separated by commas.")]
Outcome = Annotated[str, typer.Option("--outcome", help="Column that says what came of it.")]
Minimize = Annotated[bool, typer.Option("--minimize", help="A smaller outcome is better.")]
Failed = Annotated[
    str | None, typer.Option("--failed", help="COLUMN=VALUE[,VALUE…] that marks a failed try.")
]
HoldOut = Annotated[
    str | None, typer.Option("--hold-out", help="Columns of the context that are left out together.")
]
Given = Annotated[
    int, typer.Option("--given", min=0, help="Tries of a context that are known from the start.")
]
Most = Annotated[int, typer.Option("--most", min=1, help="Tries after which a context is given up.")]
Half = Annotated[str | None, typer.Option("--half", help="choose or report: one half of the contexts.")]


def replay(
    source: Source,
    context: Columns = None,
    choice: Columns = None,
    outcome: Outcome = "output_tok_s",
    minimize: Minimize = False,
    failed: Failed = None,
    hold_out: HoldOut = None,
    given: Given = 0,
    most: Most = 60,
    half: Half = None,
    as_json: AsJson = False,
) -> None:
    """Hide part of what is known, let the recommender choose, reveal, count: against plain baselines."""
    from recommend.table import contexts
    from recommend.trialrun import replay as run
    from recommend.trialrun import report

    columns = _columns(source, context, choice, outcome, minimize, failed, hold_out)
    found = contexts(_rows(source, columns), columns)
    if len({one.group for one in found}) < 2:
        raise KbctlError(
            "nothing to learn from: all contexts belong to one group",
            where=str(source),
            tip="another --hold-out",
        )
    plays = run(found, given=given, most=most)
    told = {"schema": "kbctl.replay/1", "table": str(source), "given": given, **report(plays, half)}
    if not told["contexts"]:
        raise KbctlError(
            "no context has two choices of which one works", where=str(source), tip="--context, --choice"
        )
    print_json(told) if as_json else typer.echo(_figures(told))


def _columns(
    source: Path,
    context: str | None,
    choice: str | None,
    outcome: str,
    minimize: bool,
    failed: str | None,
    hold_out: str | None,
) -> Any:
    from recommend.table import STORE_CHOICE, STORE_CONTEXT, Columns

    if source.suffix == ".duckdb":
        context, choice = context or ",".join(STORE_CONTEXT), choice or ",".join(STORE_CHOICE)
    if not context or not choice:
        raise KbctlError(
            "which columns?", where="--context, --choice", tip="--context gpu,model --choice engine"
        )
    mark, _, values = (failed or "").partition("=")
    names = _names(context)
    return Columns(
        context=names,
        choice=_names(choice),
        outcome=outcome,
        group=_names(hold_out) if hold_out else names[:1],
        minimize=minimize,
        failed=(mark, frozenset(values.split(","))) if failed else None,
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _rows(source: Path, columns: Any) -> list[dict[str, Any]]:
    if source.suffix == ".duckdb":
        from recommend.table import rows_of

        return list(rows_of(_all_runs(source)))
    from kb.store.tables import rows

    marks = [columns.failed[0]] if columns.failed else []
    wanted = dict.fromkeys([*columns.context, *columns.choice, columns.outcome, *columns.group, *marks])
    return rows(source, list(wanted))


def _all_runs(store: Path) -> list[Any]:
    """Own runs of a store on every catalogued architecture, folded per configuration."""
    from kb import snapshot
    from kb.vocab.gpus import known_archs

    found = {one.key: one for arch in known_archs() for one in snapshot.read(store, arch, None)}
    return list(found.values())


def _figures(told: dict[str, Any]) -> str:
    head = f"{told['contexts']} contexts in {told['groups']} groups ({told['half']}), each group unseen"
    lines = [head, f"{'policy':22} {'regret@1':>24} {'regret@3':>9} {'tries to 5 %':>24} {'failed':>7}"]
    for name, figures in told["policies"].items():
        first, tries = figures["regret_after_1"], figures["tries_to_within_5_pct"]
        lines.append(
            f"{name:22} {_interval(first):>24} {figures['regret_after_3']['mean']:9.4f} "
            f"{_interval(tries):>24} {figures['failed_tries_to_within_5_pct']['mean']:7.2f}"
        )
    return "\n".join(lines)


def _interval(figure: dict[str, float]) -> str:
    return f"{figure['mean']:.4f} ({figure['low']:.3f}…{figure['high']:.3f})"


def gathered(store: Path, points: Any, shipped_only: bool) -> tuple[list[Any], dict[str, Any], str]:
    """(samples, releases per engine, what they were made from)."""
    from kb.vocab import engines, options
    from recommend.samples import own, published

    releases = {engine: options.releases(engine) for engine in engines.ENGINES}
    samples = list(published(points, releases))
    count = len(samples)
    if not shipped_only:
        samples += own(_all_runs(store), releases)
    return samples, releases, f"{count} published points, {len(samples) - count} own points"


def _table(told: list[dict[str, Any]]) -> str:
    head = f"{'form':36} {'regret':>8} {'tries':>7} {'median error':>13} {'rms error':>10} {'CPU s':>7}"
    rows = [
        f"{one['form']:36} {one['regret']:8.4f} {one['tries']:7.3f} {one['median_error']:13.3f} "
        f"{one['rms_error']:10.3f} {one['cpu_s']:7.1f}"
        for one in told
    ]
    return "\n".join([head, *rows])


def _write(path: Path | None, model: dict[str, Any]) -> None:
    if path is None:
        raise KbctlError("no place for the model", where="--output", tip="-o model.json")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(model, separators=(",", ":"), sort_keys=True) + "\n", encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise KbctlError(
            f"cannot write: {error.strerror}", where=str(path), tip="choose another -o"
        ) from error
