"""``kbctl recommend`` and ``kbctl runbook``: what to run next, why, and what must not be run.

Owns the options and the exit status (1 when there is nothing to recommend). Gathers the evidence and hands it
to ``recommend``; judges nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kb.cli.asking import asks, setup
from kb.cli.options import AsJson, RecordDirs, StorePath, print_json, tell_left_out, write_page
from kb.errors import EXIT_NO, KbctlError

if TYPE_CHECKING:
    from recommend.advice import Recommendation
    from recommend.question import Asked

_EXAMPLE = {"gpu": "auto (or sm120, h200, …)", "model": "deepseek-ai/DeepSeek-R1"}
GOALS = ("throughput", "latency", "interactivity", "cost")
Goal = Annotated[str, typer.Option("--goal", help="throughput, latency, interactivity or cost.")]
Concurrency = Annotated[int | None, typer.Option("--concurrency", min=1, help="Requests in flight.")]
InputLen = Annotated[int | None, typer.Option("--input-len", min=1, help="Input tokens per request.")]
OutputLen = Annotated[int | None, typer.Option("--output-len", min=1, help="Output tokens per request.")]
MaxTtft = Annotated[float | None, typer.Option("--max-ttft-ms", help="Most ms to the first token.")]
MaxTpot = Annotated[float | None, typer.Option("--max-tpot-ms", help="Most ms per output token.")]
MinUser = Annotated[float | None, typer.Option("--min-tok-s-user", help="Least tokens/s for each user.")]
MaxPower = Annotated[float | None, typer.Option("--max-power-w", help="Most watts of all GPUs together.")]
Top = Annotated[int, typer.Option("--top", min=1, max=20, help="How many picks.")]
PlanHours = Annotated[
    float | None, typer.Option("--plan", min=0.1, help="Hours: an ordered plan of tries, and when to stop.")
]
Script = Annotated[Path | None, typer.Option("--script", help="File for the plan as a shell script.")]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="File to write (default: stdout).")]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command()(recommend)
    app.command()(runbook)


@asks(setup)
def question(
    asked: Asked,
    goal: Goal = "throughput",
    max_ttft_ms: MaxTtft = None,
    max_tpot_ms: MaxTpot = None,
    min_tok_s_user: MinUser = None,
    max_power_w: MaxPower = None,
    concurrency: Concurrency = None,
    input_len: InputLen = None,
    output_len: OutputLen = None,
) -> Asked:
    """The question as asked. Raises KbctlError without a GPU or a model, or for an unknown goal."""
    for name, said in (("gpu", asked.gpu), ("model", asked.model)):
        if not said:
            raise KbctlError(f"which {name}?", where=f"--{name}", tip=f"--{name} {_EXAMPLE[name]}")
    if goal not in GOALS:
        raise KbctlError(f"unknown goal {goal!r}", where="--goal", tip=f"one of {', '.join(GOALS)}")
    load = {"concurrency": concurrency, "input_len": input_len, "output_len": output_len}
    return asked._replace(
        goal=goal,
        limits=limits(max_ttft_ms, max_tpot_ms, min_tok_s_user, max_power_w),
        workload={name: value for name, value in load.items() if value is not None},
    )


@asks(question)
def recommend(
    asked: Asked,
    top: Top = 3,
    plan: PlanHours = None,
    script: Script = None,
    records: RecordDirs = None,
    store: StorePath = None,
    as_json: AsJson = False,
) -> None:
    """What to run next on these GPUs, why, what to expect, and what not to run.

    Example: kbctl recommend --gpu h100 --gpus 8 --model deepseek-ai/DeepSeek-R1
    """
    from recommend.advice import to_wire
    from recommend.render.advice import as_text

    answer = answer_to(asked, store, records or (), max(top, 6) if plan else top)
    made = planned(answer, plan, script)
    if as_json:
        print_json({**to_wire(answer), **({"plan": made[0]} if made else {})})
    else:
        typer.echo(as_text(answer))
        typer.echo("\n".join(made[1]) if made else "", nl=bool(made))
    if not answer.picks:
        raise typer.Exit(EXIT_NO)


def planned(answer: Recommendation, hours: float | None, script: Path | None) -> tuple[Any, list[str]] | None:
    """The plan as JSON and as lines; writes the script where one is asked for."""
    if hours is None and script is None:
        return None
    from recommend import plan as planning
    from recommend.physics import Load
    from recommend.render.script import script as as_script

    made = planning.plan(answer.picks, hours or 2.0)
    if script is not None:
        write_page(script, as_script(made, answer.picks, Load(**answer.query["workload"])))
    lines = [
        "",
        f"PLAN FOR {made.hours:g} HOURS",
        *(f"  {line}" for line in planning.lines(made, answer.picks)),
    ]
    return planning.to_wire(made), lines


@asks(question)
def runbook(
    asked: Asked,
    output: Output = None,
    records: RecordDirs = None,
    store: StorePath = None,
) -> None:
    """Write the Markdown page to follow for these GPUs and this model.

    Example: kbctl runbook --gpu h200 --gpus 8 --model deepseek-ai/DeepSeek-R1 -o runbook.md
    """
    from datetime import UTC, datetime

    from recommend.render.runbook import page

    answer = answer_to(asked, store, records or (), 3)
    text = page(answer, datetime.now(UTC).date().isoformat(), _version(), _log_texts())
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_page(output, text)
    if not answer.picks:
        raise typer.Exit(EXIT_NO)


def limits(
    ttft_ms: float | None, tpot_ms: float | None, tok_s_user: float | None, power_w: float | None
) -> dict[str, float]:
    """The limits that were given, by metric. Raises KbctlError for one that nothing could keep."""
    given = {"ttft_ms": ttft_ms, "tpot_ms": tpot_ms, "tok_s_user": tok_s_user, "power_w": power_w}
    told = {name: value for name, value in given.items() if value is not None}
    wrong = [name for name, value in told.items() if not 0 < value < float("inf")]
    if wrong:
        raise KbctlError(
            f"a limit must be a positive number: {told[wrong[0]]:g}", where=wrong[0], tip="--max-tpot-ms 50"
        )
    return told


def answer_to(asked: Asked, store: Path | None, records: Any, top: int) -> Recommendation:
    """Gather what is known and ask ``recommend``; records that could not be read are told on stderr."""
    from kb.evidence import default_store, gather
    from kb.measurements import known_about
    from recommend.expect import Known
    from recommend.query import ask
    from recommend.rank import recommend as advise

    query = ask(asked)
    evidence = gather(query, store, records)
    tables = known_about(query.arch, query.gpu_facts, query.entry, store or default_store())
    tell_left_out(evidence.problems)
    return advise(query, evidence, Known(**tables), top)


def _log_texts() -> dict[str, list[str]]:
    """Signature -> what logs print then (at most three texts each)."""
    from kb.symptoms import table

    texts: dict[str, list[str]] = {}
    for one in table().rows:
        if one.kind == "cause":
            told = texts.setdefault(one.name, [])
            told += [pattern.literal for pattern in one.patterns][: 3 - len(told)]
    return texts


def _version() -> str:
    from importlib.metadata import version

    return version("kbctl")
