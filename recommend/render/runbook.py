"""A recommendation as the Markdown page to follow: command, numbers, reasons, what not to run, how to verify.

Owns the page's order and its quoting (Markdown and shell). Today's date and the program's version are
arguments. Every sentence about the world carries the ids that ``kbctl explain`` takes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from recommend.advice import Avoided, Expected, Pick, Reason, Recommendation
from recommend.render.advice import UNITS, command_lines, interval, number, spelled, told
from recommend.render.plain import safe

_SPECIAL = re.compile(r"[\\`*{}\[\]<>|~$]|(?<!\w)_|_(?!\w)|^[-+#=!&]|^\d+(?=[.)]\s)|!(?=\[)")
# A bar ends a cell even inside code.
_BAR = re.compile(r"(?<!\\)\|")
_STATUS = {
    "proven-here": "this configuration served on this machine",
    "proven-elsewhere": "its kernels, or this engine with this model, are known to work on this architecture",
    "expected": "the engine's own choice; nothing is known against it",
    "untested": "nobody is known to have run it",
}


Texts = Mapping[str, Sequence[str]]


def page(answer: Recommendation, today: str, version: str, texts: Texts) -> str:
    """The whole runbook, ending with a newline. ``texts`` maps a signature to what logs then print."""
    blocks = [_title(answer), *_verdict(answer), *_applies(answer)]
    if answer.picks:
        first = answer.picks[0]
        blocks += [*_numbers(answer, first), *_reasons(first), *_verify(first)]
    blocks += [
        *_avoid(answer.avoid, texts),
        *_alternatives(answer),
        *_next(answer),
        _footer(answer, today, version),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def plain(text: object) -> str:
    """Untrusted text in Markdown prose: one line, nothing that Markdown or a terminal would obey."""
    return _SPECIAL.sub(lambda found: _escaped(found[0]), safe(text))


def _escaped(text: str) -> str:
    return f"{text[:-1]}\\{text[-1]}" if text[0].isdigit() else f"\\{text}"


def code(text: object) -> str:
    """Untrusted text as inline code; backticks inside get a longer fence."""
    words = safe(text)
    runs = re.findall(r"`+", words)
    fence = "`" * (max(map(len, runs), default=0) + 1)
    pad = " " if words.startswith("`") or words.endswith("`") else ""
    return f"{fence}{pad}{words}{pad}{fence}"


def fenced(text: str, language: str) -> str:
    """A block of code whose fence is longer than any inside it."""
    runs = re.findall(r"`{3,}", text)
    fence = "`" * max(3, max(map(len, runs), default=0) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def ids(evidence: Sequence[str]) -> str:
    """Evidence ids behind a sentence."""
    return f" \\[{', '.join(code(one) for one in evidence)}\\]" if evidence else ""


def _title(answer: Recommendation) -> str:
    query = answer.query
    gpu = query.get("gpu") or query.get("arch") or "unknown GPU"
    count = f"{query['gpus']}× " if query.get("gpus") else ""
    return f"# Runbook: {plain(query.get('model') or 'unknown model')} on {count}{plain(gpu)}"


def _verdict(answer: Recommendation) -> Iterator[str]:
    yield "## Verdict"
    if not answer.picks:
        yield f"Nothing to recommend. {plain(answer.abstained or '')}"
        return
    first = answer.picks[0]
    release = " ".join(filter(None, [first.engine, first.engine_version]))
    yield (
        f"Run {plain(release)}: {first.p_works:.0%} likely to work, because {_STATUS[first.status]}. "
        f"One try takes about {first.cost_min:.0f} minutes."
    )
    yield fenced("\n".join(command_lines(first.argv)), "sh")
    yield from _file(first)
    if answer.abstained:
        yield plain(answer.abstained)


def _file(pick: Pick) -> Iterator[str]:
    if pick.file:
        yield f"with {code(pick.file[0])}:"
        yield fenced(pick.file[1].rstrip(), "yaml")


def _applies(answer: Recommendation) -> Iterator[str]:
    query = answer.query
    rows = [
        ("GPU", query.get("gpu") or "not named"),
        ("architecture", query.get("arch") or "unknown"),
        ("number of GPUs", query.get("gpus") or "unknown"),
        ("model", query.get("model") or "unknown"),
        ("catalog entry", query.get("model_id") or "none"),
        ("weight quantization", query.get("quantization") or "unknown"),
        ("load", ", ".join(f"{key} {value}" for key, value in (query.get("workload") or {}).items())),
        ("goal", query.get("goal") or "throughput"),
    ]
    yield "## Applies to"
    yield table(("what", "value"), [(name, plain(value)) for name, value in rows])
    if answer.assumed:
        yield "Assumed, because it was not said:"
        yield bullets(
            f"{plain(name.replace('_', ' '))}: {plain(text)}" for name, text in answer.assumed.items()
        )
    if answer.unknown:
        yield bullets(f"Unknown: {plain(text)}" for text in answer.unknown)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table of cells that are already escaped."""
    lines = [head, ["---"] * len(head), *[[_BAR.sub(r"\|", cell) for cell in cells] for cells in rows]]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def bullets(texts: Iterator[str] | Sequence[str]) -> str:
    """A Markdown list of texts that are already escaped."""
    return "\n".join(f"- {text}" for text in texts)


def _numbers(answer: Recommendation, pick: Pick) -> Iterator[str]:
    yield "## Expected numbers"
    if pick.predicted is not None:
        rows = [_number_row(one) for one in (pick.predicted, *pick.measured)]
        yield table(("metric", "expected", "low", "high", "share of cases", "date"), rows)
        yield f"Basis: {plain(pick.predicted.basis)}.{ids(pick.predicted.evidence)}"
    else:
        yield "None can be told for the first pick."
    if answer.measured:
        yield "Measured elsewhere, without an interval:"
        yield bullets(plain(told(one)) for one in answer.measured)
    if answer.equal:
        yield bullets(_sentence(one) for one in answer.equal)


def _number_row(one: Expected) -> list[str]:
    unit = plain(UNITS.get(one.metric, one.metric))
    return [
        unit,
        number(one.value),
        number(one.low),
        number(one.high),
        f"{one.level:.0%}",
        (one.date or "unknown")[:10],
    ]


def _sentence(one: Reason) -> str:
    return f"{plain(one.text)}{ids(one.evidence)}"


def _reasons(pick: Pick) -> Iterator[str]:
    yield "## Why these settings"
    if pick.settings or pick.environment:
        rows = [(code(key), code(json.dumps(value))) for key, value in pick.settings.items()]
        rows += [(code(key), code(value)) for key, value in pick.environment.items()]
        yield table(("setting", "value"), rows)
    if pick.roles:
        kernels = [
            (code(role), code(kernel), pick.resolved_by.get(role, "")) for role, kernel in pick.roles.items()
        ]
        yield table(("role", "kernel", "by"), kernels)
    yield bullets(_sentence(one) for one in pick.why)


def _verify(pick: Pick) -> Iterator[str]:
    if pick.verify:
        yield "## How to verify which kernels run"
        yield "A flag is a request. These lines of the log (or names in a profile) are what shows the kernel:"
        yield bullets(code(line) for line in pick.verify)


def _avoid(avoid: Sequence[Avoided], texts: Texts) -> Iterator[str]:
    if not avoid:
        return
    yield "## Do not run"
    for one in avoid:
        yield from _avoided(one, texts)


def _avoided(one: Avoided, texts: Texts) -> Iterator[str]:
    finding = one.finding
    roles = ", ".join(f"{role} = {kernel}" for role, kernel in one.roles.items())
    yield f"### {plain(roles or spelled(one))}: {plain(one.verdict)}"
    yield f"{plain(finding.get('title'))}.{ids([str(finding.get('record'))])}"
    rows = [("asked for by", code(spelled(one))), ("how it ends", plain(_endings(finding)))]
    rows += [("cause", plain(finding.get("cause"))), ("log text to look for", _grep_for(finding, texts))]
    rows += [("fixed in", plain(_versions(finding))), ("instead", _instead(finding.get("instead") or {}))]
    yield table(("", ""), [(name, value) for name, value in rows if value])
    conflicts = finding.get("conflicts") or ()
    if conflicts:
        yield "On the other side:"
        yield bullets(
            f"{plain(row.get('conditions') or '')}{ids([str(row.get('ref'))])}" for row in conflicts
        )
    cites = [one for one in finding.get("evidence") or () if one.get("ref")]
    if cites:
        yield "Evidence: " + ", ".join(_cite(row) for row in cites)


def _cite(row: Mapping[str, Any]) -> str:
    facts = ", ".join(filter(None, [str(row.get("kind") or ""), str(row.get("date") or "")]))
    return f"{code(row['ref'])} ({plain(facts)})"


def _endings(finding: Mapping[str, Any]) -> str:
    told_ = [
        f"{row['effect']} at {row['stage']}" if row.get("stage") else row["effect"]
        for row in finding.get("outcomes") or ()
    ]
    return ", or ".join(dict.fromkeys(told_)) or str(finding.get("effect"))


def _grep_for(finding: Mapping[str, Any], texts: Texts) -> str:
    classes = [row.get("signature") for row in finding.get("outcomes") or () if row.get("signature")]
    if finding.get("signature"):
        classes.append(finding["signature"])
    told_ = []
    for one in dict.fromkeys(classes):
        told_ += [code(text) for text in texts.get(one, ())] or [f"(class {code(one)})"]
    return ", ".join(told_)


def _versions(finding: Mapping[str, Any]) -> str:
    fixed = finding.get("fixed_in") or {}
    return ", ".join(f"{name} {version}" for name, version in fixed.items()) or "no fix known"


def _instead(one: Mapping[str, Any]) -> str:
    if "none" in one:
        return plain(one["none"])
    environment = " ".join(f"{key}={value}" for key, value in (one.get("environment") or {}).items())
    flags = " ".join(filter(None, [environment, str(one.get("flags") or "")]))
    needs = ", ".join(f"{name} {spec}" for name, spec in (one.get("requires") or {}).items())
    parts = [
        code(flags) if flags else "",
        plain(one.get("text") or ""),
        plain(f"needs {needs}") if needs else "",
    ]
    return "; ".join(filter(None, parts))


def _alternatives(answer: Recommendation) -> Iterator[str]:
    if len(answer.picks) > 1:
        yield "## Alternatives, in order"
    for rank, pick in enumerate(answer.picks[1:], 2):
        yield f"### {rank}. {plain(pick.engine)} {plain(pick.engine_version or '')}".rstrip()
        yield fenced(pick.command, "sh")
        yield from _file(pick)
        expected = f" Expected: {plain(interval(pick.predicted))}." if pick.predicted else ""
        yield f"{pick.p_works:.0%} likely to work: {_STATUS[pick.status]}.{expected}"
        yield bullets(_sentence(one) for one in pick.why[:4])


def _next(answer: Recommendation) -> Iterator[str]:
    if answer.diagnosis:
        yield "## What the GPUs showed"
        yield bullets(_sentence(one) for one in answer.diagnosis)
    if answer.would_change_this:
        yield "## Next experiments, and what would change this page"
        yield bullets(plain(text) for text in answer.would_change_this)


def _footer(answer: Recommendation, today: str, version: str) -> str:
    used = {one for pick in answer.picks for reason in pick.why for one in reason.evidence}
    used |= {str(one.finding.get("record")) for one in answer.avoid}
    return (
        f"---\n\nWritten by kbctl {plain(version)} on {plain(today)} from {len(used)} pieces of evidence. "
        "`kbctl explain ID` shows everything behind an id in square brackets."
    )
