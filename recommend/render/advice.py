"""A recommendation for a terminal at 2 a.m.: the command first, then why, the number, what not to run.

Owns the layout only. Must not rank or leave out a warning.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Sequence

from recommend.advice import Avoided, Expected, Pick, Reason, Recommendation, significant
from recommend.limits import words
from recommend.pick import ASSIGNMENT, command
from recommend.render.plain import paste, row, rows, safe

_STATUS = {
    "proven-here": "it ran here",
    "proven-elsewhere": "it ran elsewhere",
    "expected": "the engine's own choice, nothing known against it",
    "untested": "nobody is known to have run it",
}
MOST_FACTORS = 4
UNITS = {"output_tok_s": "output tok/s", "ttft_ms": "ms to the first token", "tpot_ms": "ms per output token"}
_EFFECTS = {"wrong_output": "wrong output", "accuracy_loss": "loss of accuracy", "oom": "out of memory"}
SHOWN_AVOIDED = 10


def as_text(answer: Recommendation) -> str:
    """The whole answer for people."""
    lines: list[str] = []
    unknown = answer.query.get("arch") is None and bool(answer.picks)
    if unknown:
        lines += [*row("I DON'T KNOW", answer.abstained or "", indent=0, gutter=14), ""]
    for rank, pick in enumerate(answer.picks, 1):
        lines += [*_pick_lines("CHEAPEST EXPERIMENT" if unknown else _title(rank), rank, pick), ""]
    if not answer.picks:
        lines += [*row("NOTHING", answer.abstained or "nothing to recommend", indent=0), ""]
    lines += _section("DO NOT RUN", _avoid_lines(answer.avoid))
    lines += _section("MEASURED EQUAL", _reason_lines(answer.equal))
    lines += _section("MEASURED ELSEWHERE", _measured_lines(answer.measured))
    lines += _section("DIAGNOSIS", _reason_lines(answer.diagnosis))
    if answer.picks and answer.abstained and not unknown:
        lines += _section("NO NUMBER", row("", answer.abstained, gutter=0))
    lines += _section("ASSUMED", rows("", _assumed(answer), gutter=0))
    lines += _section("UNKNOWN", rows("", answer.unknown, gutter=0))
    lines += _section("WOULD CHANGE THIS", rows("", answer.would_change_this, gutter=0))
    return "\n".join(lines).rstrip()


def _section(title: str, lines: Iterator[str]) -> list[str]:
    found = list(lines)
    return [title, *found, ""] if found else []


def _title(rank: int) -> str:
    return "RUN THIS" if rank == 1 else f"OR ({rank})"


def _pick_lines(title: str, rank: int, pick: Pick) -> Iterator[str]:
    release = " ".join(filter(None, [pick.engine, pick.engine_version]))
    chance = f"{pick.p_works:.0%} likely to work, {_STATUS[pick.status]}; one try: {pick.cost_min:.0f} min"
    yield f"{title}: {safe(release)} ({chance})"
    yield ""
    for line in command_lines(pick.argv):
        yield from paste("", line, indent=4, gutter=0)
    if pick.file:
        yield f"    with {pick.file[0]}:"
        yield from (f"      {safe(line)}" for line in pick.file[1].splitlines())
    yield ""
    if rank == 1:
        yield from _why_lines(pick)
    else:
        yield from _other_lines(pick)
    yield from rows("expect", _expectations(pick))
    yield from rows("limits", [words(one) for one in pick.limits])
    if pick.equal_to:
        others = ", ".join(str(one) for one in pick.equal_to)
        yield from row("equal", f"within the noise of {others}: these measurements cannot tell them apart")
    if rank == 1:
        yield from rows("verify", pick.verify)


# Room for the indent and the backslash.
COMMAND_WIDTH = 92


def command_lines(argv: Sequence[str]) -> list[str]:
    """A command to paste, broken before its options where it is too long for one line."""
    lines: list[str] = []
    for part in _parts(argv):
        if lines and len(lines[-1]) + 1 + len(part) <= COMMAND_WIDTH:
            lines[-1] += f" {part}"
        else:
            lines.append(part if not lines else f"  {part}")
    return [f"{safe(line)} \\" for line in lines[:-1]] + [safe(line) for line in lines[-1:]]


def _parts(argv: Sequence[str]) -> Iterator[str]:
    """The words of a command, quoted; an option keeps its values beside it."""
    part: list[str] = []
    program = next((place for place, word in enumerate(argv) if not re.match(ASSIGNMENT, word)), len(argv))
    for place, word in enumerate(argv):
        if part and (word.startswith("-") or place <= program) and part != ["python"]:
            yield command(part)
            part = []
        part.append(word)
    if part:
        yield command(part)


def _why_lines(pick: Pick) -> Iterator[str]:
    yield from rows("why", [f"{one.text} [{', '.join(one.evidence)}]" for one in pick.why])


def _other_lines(pick: Pick) -> Iterator[str]:
    kernels = ", ".join(f"{role} = {kernel}" for role, kernel in pick.roles.items())
    yield from row("kernels", kernels or "left to the engine")
    yield from rows("why", [f"{one.text} [{', '.join(one.evidence)}]" for one in pick.why[:2]])
    yield from row("teaches", pick.teaches or "")


def _expectations(pick: Pick) -> Iterator[str]:
    """The numbers, and once what they rest on."""
    if pick.predicted is None:
        return
    for one in (pick.predicted, *pick.measured):
        yield interval(one)
    yield f"basis: {pick.predicted.basis} [{', '.join(pick.predicted.evidence)}{_when(pick.predicted)}]"
    if pick.predicted.made_of:
        yield f"made of: {_factors(pick.predicted)} [model:physics+regression]"


def _factors(one: Expected) -> str:
    """A forecast as a product: physics, the factors that move it most, and the others in one."""
    (first, start), *factors = one.made_of
    largest = sorted(factors, key=lambda pair: -abs(math.log(pair[1])))[:MOST_FACTORS]
    rest = math.prod(pair[1] for pair in factors if pair not in largest)
    told = [*largest, (f"{len(factors) - len(largest)} others", rest)]
    words = [(what.removeprefix("log_").replace("_", " "), factor) for what, factor in told]
    return f"{number(start)} ({first})" + "".join(f" x {factor:.2f} ({what})" for what, factor in words)


def interval(one: Expected) -> str:
    """A number with its interval, in its unit."""
    unit = UNITS.get(one.metric, one.metric)
    return f"{number(one.value)} {unit} ({number(one.low)} … {number(one.high)} in {one.level:.0%} of cases)"


def number(value: float) -> str:
    """Three digits, with separators and without exponents."""
    rounded = significant(value)
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:g}"


def _when(one: Expected) -> str:
    return f", {one.date[:10]}" if one.date else ""


def told(one: Expected) -> str:
    """A reported point without an interval: value, unit, conditions, source."""
    unit = UNITS.get(one.metric, one.metric)
    value = f"more than {number(one.value)}" if math.isinf(one.high) else number(one.value)
    return f"{value} {unit}: {one.basis} [{', '.join(one.evidence)}{_when(one)}]"


def _avoid_lines(avoid: Sequence[Avoided]) -> Iterator[str]:
    for one in avoid[:SHOWN_AVOIDED]:
        finding = one.finding
        effects = [_EFFECTS.get(row["effect"], row["effect"]) for row in finding.get("outcomes") or ()]
        roles = ", ".join(f"{role} = {kernel}" for role, kernel in one.roles.items())
        yield from paste("x", f"{spelled(one)}   ({roles})" if roles else spelled(one), gutter=2)
        shown = " or ".join(dict.fromkeys(effects)) or str(finding.get("effect"))
        yield from row(
            "",
            f"{one.verdict}: {shown}. {finding.get('title')} [{finding.get('record')}]",
            indent=4,
            gutter=0,
        )
        yield from row("", f"Why: {finding.get('cause')}", indent=4, gutter=0)
        for conflict in list(finding.get("conflicts") or ())[:2]:
            yield from row(
                "", f"But: {conflict.get('ref')}: {conflict.get('conditions') or ''}", indent=4, gutter=0
            )
    rest = len(avoid) - SHOWN_AVOIDED
    if rest > 0:
        yield f"  and {rest} more (--json)"


def spelled(one: Avoided) -> str:
    """How the alternative would be asked for."""
    words = [f"{key}={value}" for key, value in one.settings.items()]
    return f"{one.engine}: {shlex.join(words)}" if words else str(one.engine)


def _reason_lines(reasons: Sequence[Reason]) -> Iterator[str]:
    for one in reasons:
        yield from row("", f"{one.text} [{', '.join(one.evidence)}]", gutter=0)


def _measured_lines(measured: Sequence[Expected]) -> Iterator[str]:
    for one in measured:
        yield from row("", told(one), gutter=0)


def _assumed(answer: Recommendation) -> Iterator[str]:
    for name, text in answer.assumed.items():
        yield f"{name.replace('_', ' ')}: {text}"
