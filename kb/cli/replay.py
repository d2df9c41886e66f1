"""``kbctl replay``: measure the recommender on a table or a store, against plain baselines.

Owns the options, what is taken for granted where they are left out, and the report as text. Measuring lives
in ``recommend.trialrun``; it may load numpy and scikit-learn, so nothing here is on the answering path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from kb.cli.options import AsJson, print_json
from kb.errors import KbctlError

Source = Annotated[
    Path, typer.Argument(metavar="FILE", help="A table (.parquet, .csv, .tsv, .jsonl) or a store (.duckdb).")
]
ContextNames = Annotated[
    str | None, typer.Option("--context", help="Columns that are given and cannot be chosen, by commas.")
]
ChoiceNames = Annotated[str | None, typer.Option("--choice", help="Columns that are chosen, by commas.")]
Outcome = Annotated[str, typer.Option("--outcome", help="Column that says what came of it.")]
Minimize = Annotated[bool, typer.Option("--minimize", help="A smaller outcome is better.")]
Failed = Annotated[
    str | None,
    typer.Option(
        "--failed",
        help="What marks a failed try: COLUMN=VALUE[,VALUE…], COLUMN!=VALUE, or COLUMN= (empty cells).",
    ),
]
HoldOut = Annotated[
    str | None, typer.Option("--hold-out", help="Columns of the context that are left out together.")
]
Given = Annotated[
    int, typer.Option("--given", min=0, help="Tries of a context that are known from the start.")
]
Most = Annotated[int, typer.Option("--most", min=1, help="Tries after which a context is given up.")]
Half = Annotated[str | None, typer.Option("--half", help="choose or report: one half of the contexts.")]
Sample = Annotated[
    int, typer.Option("--sample", min=0, help="Contexts to read at most, evenly by group; 0 reads all.")
]


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command()(replay)


def replay(
    source: Source,
    context: ContextNames = None,
    choice: ChoiceNames = None,
    outcome: Outcome = "output_tok_s",
    minimize: Minimize = False,
    failed: Failed = None,
    hold_out: HoldOut = None,
    given: Given = 0,
    most: Most = 60,
    half: Half = None,
    sample: Sample = 3000,
    as_json: AsJson = False,
) -> None:
    """Hide part of what is known, let the recommender choose, reveal, count: against plain baselines.

    Example: kbctl replay runs.csv --context gpu,model --choice engine,tp
    """
    from recommend.table import contexts
    from recommend.trialrun import experiment

    if half not in (None, "choose", "report"):
        raise KbctlError(f"unknown half {half!r}", where="--half", tip="choose or report")
    if not source.exists():
        raise KbctlError(
            "no such file", where=str(source), tip="a table (.parquet, .csv …) or a store (.duckdb)"
        )
    store = source.suffix == ".duckdb"
    rows, columns, notes = _gathered(source, store, context, choice, outcome, hold_out, failed, sample)
    columns = columns._replace(minimize=minimize)
    found = contexts(rows, columns)
    _check(found, rows, columns, source)
    told = experiment(found, given=given, most=most, half=half)
    if not told["contexts"]:
        raise KbctlError("no context is in that half", where="--half", tip="leave --half out")
    whole = {
        "schema": "kbctl.replay/1",
        "table": str(source),
        "given": given,
        "hold_out": list(columns.group),
        "failed": {"column": columns.failed[0], "values": sorted(columns.failed[1])}
        if columns.failed
        else None,
        "notes": notes,
        **told,
    }
    print_json(whole) if as_json else typer.echo("\n".join(_lines(whole)))


def _gathered(
    source: Path,
    store: bool,
    context: str | None,
    choice: str | None,
    outcome: str,
    hold_out: str | None,
    failed: str | None,
    sample: int,
) -> tuple[list[dict[str, Any]], Any, list[str]]:
    """(rows, which columns say what, what was taken for granted)."""
    from recommend.table import STORE_CHOICE, STORE_CONTEXT, STORE_FAILED, Columns, rows_of

    if store:
        context, choice = context or ",".join(STORE_CONTEXT), choice or ",".join(STORE_CHOICE)
    where, what = _names(context, "--context"), _names(choice, "--choice")
    group = _names(hold_out, "--hold-out") if hold_out else ()
    _no_overlap(where, what, outcome)
    if store:
        rows = list(rows_of(all_runs(source), where, outcome))
        _known(rows, (*where, *what, *group), source)
        mark, notes = (STORE_FAILED, []) if failed is None else _mark(failed, rows)
    else:
        rows, mark, notes = _table_rows(source, (where, what, outcome, group, failed), sample)
    if not group:
        group = _default_group(where, rows)
        notes.append(f"left out together: equal {', '.join(group)} (--hold-out)")
    return rows, Columns(context=where, choice=what, outcome=outcome, group=group, failed=mark), notes


def _table_rows(
    source: Path, said: tuple[Sequence[str], Sequence[str], str, Sequence[str], str | None], sample: int
) -> tuple[list[dict[str, Any]], Any, list[str]]:
    from kb.store import tables
    from recommend.cells import may_tell

    where, what, outcome, group, failed = said
    names = tables.columns(source)
    marks = (
        [failed.partition("=")[0].rstrip("!")]
        if failed
        else [one for one in names if may_tell(one) and one not in (*where, *what)]
    )
    wanted = list(dict.fromkeys([*where, *what, outcome, *group, *marks]))
    rows, told = _read(source, wanted, tables.Draw(where, group or where[:1], what, sample))
    _with_points(rows, outcome)
    mark, notes = _mark(failed, rows, [one for one in marks if one != outcome])
    if not rows and tables.rows(source, wanted[:1]):
        raise KbctlError(
            "no context has two rows: nothing can be chosen", where=str(source), tip="fewer --context columns"
        )
    if not rows:
        raise KbctlError("the table has no rows", where=str(source), tip="a table with rows under its header")
    return rows, mark, [*notes, *told, *_left_out(rows, outcome, mark)]


def _with_points(rows: Sequence[dict[str, Any]], outcome: str) -> None:
    """Outcomes with a comma as the decimal sign are written with a point."""
    from recommend.cells import comma_is_decimal

    texts = [row[outcome] for row in rows if isinstance(row[outcome], str)]
    if comma_is_decimal(texts):
        for row in rows:
            row[outcome] = row[outcome].replace(",", ".") if row[outcome] else row[outcome]


def _left_out(rows: Sequence[dict[str, Any]], outcome: str, mark: Any) -> Iterator[str]:
    """What no ratio can be made of, and so counts for nothing."""
    from recommend.cells import measured

    told = [measured(row[outcome]) for row in rows if not (mark and str(row.get(mark[0])) in mark[1])]
    below = sum(isinstance(one, float) and one <= 0 for one in told)
    silent = 0 if mark and mark[0] == outcome else sum(one is None for one in told)
    if below:
        yield f"{below} of {len(rows)} rows have no {outcome} above zero and were left out"
    if silent:
        yield f"{silent} of {len(rows)} rows have no {outcome} that is a number and were left out"


def _read(source: Path, wanted: Sequence[str], draw: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """(the rows, what was left unread of a large table)."""
    from kb.store import tables

    if not draw.most:
        return tables.rows(source, wanted), []
    rows, picked = tables.drawn(source, wanted, draw)
    told = []
    if picked.contexts < picked.of:
        told.append(f"{picked.contexts} of {picked.of} contexts were drawn, evenly by group")
    if picked.share < 1:
        told.append(f"{picked.share:.0%} of the choices were drawn, the same in each context")
    return rows, [f"{one} ({source.name} is large; --sample 0 reads all)" for one in told]


def _mark(
    failed: str | None, rows: Sequence[dict[str, Any]], candidates: Sequence[str] = ()
) -> tuple[tuple[str, frozenset[str]] | None, list[str]]:
    """(column and values that mark a failed try, what was taken for granted)."""
    from recommend.cells import status_column

    if failed is None:
        found = status_column(rows, candidates)
        said = [f"failed tries: {found[0]} is {', '.join(sorted(found[1])[:4])} (--failed)"] if found else []
        return found, said
    name, equals, text = failed.partition("=")
    if not equals:
        raise KbctlError(
            f"which values of {failed} mark a failure?", where="--failed", tip=f"--failed {failed}=VALUE"
        )
    values = {str(row.get(name.rstrip("!"))) for row in rows}
    listed = {one.strip() for one in text.split(",")} if text else {"", "None", "nan"}
    bad = values - listed if name.endswith("!") else listed
    if not bad & values and rows:
        raise KbctlError(
            f"no row has {name.rstrip('!')} {failed.removeprefix(name)}",
            where="--failed",
            tip=f"it has {', '.join(sorted(values)[:8])}",
        )
    return (name.rstrip("!"), frozenset(bad)), []


def _names(text: str | None, where: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in (text or "").split(",") if name.strip()))
    if not names:
        raise KbctlError("which columns?", where=where, tip="--context gpu,model --choice engine")
    return names


def _no_overlap(where: Sequence[str], what: Sequence[str], outcome: str) -> None:
    both = [name for name in what if name in where]
    if both:
        raise KbctlError(
            f"{', '.join(both)} cannot be given and chosen", where="--choice", tip="leave it out of one"
        )
    if outcome in (*where, *what):
        raise KbctlError(
            f"{outcome} is the outcome: to know it beforehand would be the answer",
            where="--outcome",
            tip="leave it out of --context and --choice",
        )


def _known(rows: Sequence[dict[str, Any]], names: Sequence[str], source: Path) -> None:
    if not rows:
        raise KbctlError("the store holds no runs", where=str(source), tip="kbctl ingest PATH first")
    have = {name for row in rows for name in row}
    missing = [name for name in names if name not in have]
    if missing:
        raise KbctlError(
            f"the runs have no {', '.join(missing)}",
            where=str(source),
            tip=f"they have {', '.join(sorted(have))}",
        )


def _default_group(where: Sequence[str], rows: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """The first column of the context that has several values; the whole context where none has."""
    for name in where:
        if len({str(row.get(name)) for row in rows}) > 1:
            return (name,)
    return tuple(where)


def _check(found: Sequence[Any], rows: Sequence[dict[str, Any]], columns: Any, source: Path) -> None:
    """Raises KbctlError where nothing can be replayed, saying why."""
    from recommend.replay import playable

    asked = playable(found)
    several: list[str] = []
    if not asked:
        worked = any(trial.log_value is not None for one in found for trial in one.trials)
        chosen = any(len(one.trials) > 1 for one in found)
        what = (
            "no context has two choices of which one works"
            if worked
            else f"no {columns.outcome} is a positive number"
        )
        words = (
            f"another --outcome, or --failed {columns.outcome}=WORD[,WORD] where its words tell what failed"
        )
        alike = [name for name in columns.choice if len({str(row.get(name)) for row in rows}) < 2]
        tip = "--context with fewer columns" if worked and not chosen else words
        if worked and len(alike) == len(columns.choice):
            tip = f"another --choice: {', '.join(alike)} is the same in all rows"
        raise KbctlError(what, where=f"{source} ({len(rows)} rows, {len(found)} contexts)", tip=tip)
    if len({one.group for one in found}) < 2:
        several = [name for name in columns.context if len({str(row.get(name)) for row in rows}) > 1]
        raise KbctlError(
            f"nothing to learn from: all contexts have the same {', '.join(columns.group)}",
            where=str(source),
            tip=f"--hold-out {','.join(several)}" if several else "a table with several contexts",
        )


def all_runs(store: Path) -> list[Any]:
    """Own runs of a store on every catalogued architecture, folded per configuration."""
    from kb import snapshot
    from kb.vocab.gpus import known_archs

    found = {one.key: one for arch in known_archs() for one in snapshot.read(store, arch, None)}
    return list(found.values())


def _lines(told: dict[str, Any]) -> Iterator[str]:
    yield f"{told['contexts']} contexts in {told['groups']} groups ({told['half']}), each group unseen"
    yield from (f"  {note}" for note in told["notes"])
    columns = f"{'regret@1':>24} {'regret@3':>9} {'tries to 5 %':>24} {'failed':>7} {'known bad':>9}"
    yield f"{'policy':22} {columns}"
    for name, figures in told["policies"].items():
        first, tries = figures["regret_after_1"], figures["tries_to_within_5_pct"]
        yield (
            f"{name:22} {_interval(first):>24} {figures['regret_after_3']['mean']:9.4f} "
            f"{_interval(tries):>24} {figures['failed_tries_to_within_5_pct']['mean']:7.2f} "
            f"{figures['known_bad_share']:9.1%}"
        )
    held = told["intervals"]
    if held:
        yield (
            f"90 % intervals: {held['coverage']['mean']:.1%} of {held['points']} outcomes inside, "
            f"median half-width ×{held['median_factor']:.2f}"
        )
    for row in told["abstention"]:
        yield (
            f"answering the surest {row['answered']:.0%}: regret {row['regret_after_1']:.4f}, "
            f"within 5 % {row['hit_at_1']:.1%}, failed {row['failed']:.1%}"
        )


def _interval(figure: dict[str, float]) -> str:
    return f"{figure['mean']:.4f} ({figure['low']:.3f}…{figure['high']:.3f})"
