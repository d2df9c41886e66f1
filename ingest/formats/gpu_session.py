"""Several outputs of GPU tools in one file: a terminal's session, or notes and pages that quote it.

Owns cutting such a file where a command of a GPU tool stands, and joining what the parts tell. Each part is
read by its own format. Must not read a part itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingest.bench.sniffing import is_page
from ingest.formats import SURE, Format, Unreadable, all_formats, read_as
from ingest.sources import Source
from ingest.traces import line_count, trace_reading
from kb.model import Hardware, Problem, Reading, Telemetry

if TYPE_CHECKING:
    from ingest.samples import Samples

_NAME = "gpu_session"
_TOOL = re.compile(r"\b(?:(?:nvidia|rocm|amd)-smi|dcgmi)\b")
_OUTPUT = re.compile(r"\s*(?:[|+<]|\d+\s)")  # a row of a table or of XML, which may name a tool as a process
_FENCE = re.compile(r"\s*(?:```|~~~)")
_QUERY = re.compile(r"--query-gpu[= ]([\"']?)([\w.,\\ ]+?)\1(?=\s|$)")
_LARGEST = 1 << 20
_MOST_PARTS = 40
_FEWEST = 2
_OF_A_CARD = ("gpu", "arch", "memory_gib", "power_limit_w")


@dataclass(frozen=True, slots=True)
class _Part:
    """What stands below a command: the number of its first line, the format that is sure of it, and its
    columns where the command names them and the rows do not.
    """

    line: int
    text: str
    form: Format
    columns: tuple[str, ...] = ()


def sniff(source: Source) -> float:
    """Parts of two formats; or one that is much of a page, or whose columns only its command names."""
    is_quoting = is_page(source) and "```" in source.head
    if source.size > _LARGEST or not (is_quoting or _TOOL.search(source.head)):
        return 0.0
    parts = _parts(source.head)
    if len({one.form.name for one in parts}) >= _FEWEST:
        return 0.98
    if parts and (parts[0].columns or (is_page(source) and _is_much(parts, source.head))):
        return 0.96  # above a page that tells no results, below one that does
    return 0.0


def read(source: Source) -> Reading:
    """What the parts tell, joined: facts on which they agree, and the trace of the one with most rows."""
    text = "\n".join(line for _, line in source.lines())
    told = [(one, found) for one in _parts(text) if (found := _told(one, source.path))]
    if not told:
        raise Unreadable("no output of a GPU tool was found")
    readings = [found for _, found in told]
    best = max(told, key=lambda pair: _wealth(pair[1]))
    if source.samples is not None:
        _told(best[0], source.path, source.samples)
    lines = len(text.split("\n")) - text.split("\n").count("")
    understood = sum(int(one.lines.understood) for one in readings if one.lines is not None)
    return trace_reading(
        str(source.path),
        _NAME,
        _trace(best[1], readings),
        _machine(readings),
        tool=next((one.tool for one in readings if one.tool), None),
        tool_version=next((one.tool_version for one in readings if one.tool_version), None),
        lines=line_count(lines, max(lines - understood, 0)),
        problems=[moved for part, found in told for moved in _moved(found.problems, part.line - 1)][:20],
        extra=_extra(told),
    )


@lru_cache(maxsize=2)
def _parts(text: str) -> tuple[_Part, ...]:
    """The parts of a text that a trace's format is sure of: whole, or as far as their first blank line."""
    found = []
    for line, command, below in _cut(text):
        first = below.partition("\n\n")[0]
        asked = _asked(command) if "noheader" in command else ()
        if asked and first.partition("\n")[0].count(",") == len(asked) - 1:
            found.append(
                _Part(line, first, next(one for one in all_formats() if one.read_with_columns), asked)
            )
            continue
        for some in dict.fromkeys((below, first)):
            sure, form = _surest(some)
            if form is not None and sure >= SURE:
                found.append(_Part(line, some, form))
                break
    return tuple(found[:_MOST_PARTS])


def _cut(text: str) -> Iterator[tuple[int, str, str]]:
    """(number of its first line, the command above it, text) of what stands between commands and fences."""
    lines = text.split("\n")
    marks = [at for at, line in enumerate(lines) if _is_mark(line)][: 2 * _MOST_PARTS]
    for start, end in zip([-1, *marks], [*marks, len(lines)], strict=True):
        command = _command(lines[: start + 1])
        some = lines[start + 1 : end]
        blank = next((at for at, line in enumerate(some) if line.strip()), len(some))
        if some := some[blank:]:
            yield start + blank + 2, command, "\n".join(some).rstrip() + "\n"


def _command(above: Sequence[str]) -> str:
    """The last line that is no fence and not blank."""
    return next((line for line in reversed(above[-4:]) if line.strip() and not _FENCE.match(line)), "")


def _is_mark(line: str) -> bool:
    return (_TOOL.search(line) is not None and not _OUTPUT.match(line)) or _FENCE.match(line) is not None


def _surest(text: str) -> tuple[float, Format | None]:
    inner = Source(Path("part"), text.encode(), "part.txt")
    forms = (one for one in all_formats() if one.kind == "trace" and one.name != _NAME)
    return max(((one.sniff(inner), one) for one in forms), key=lambda pair: pair[0])


def _asked(command: str) -> tuple[str, ...]:
    """The fields that a command asks for; commas may be escaped as shells print them."""
    found = _QUERY.search(command)
    return tuple(one for one in re.split(r"[\\, ]+", found[2]) if one) if found else ()


def _is_much(parts: Sequence[_Part], text: str) -> bool:
    inside = sum(one.text.count("\n") for one in parts)
    return 3 * inside >= sum(1 for line in text.split("\n") if line.strip())


def _told(part: _Part, path: Path, samples: Samples | None = None) -> Reading | None:
    inner = Source(path, part.text.encode(), "part.txt")
    inner.samples = samples
    try:
        return read_as(part.form, inner, part.columns)
    except Unreadable:
        return None


def _wealth(reading: Reading) -> tuple[int, int]:
    """How many samples a part has, and of how many quantities."""
    told = reading.telemetry
    return (told.rows, sum(len(one.metrics) for one in told.gpus)) if told else (0, 0)


def _trace(best: Reading, readings: Sequence[Reading]) -> Telemetry | None:
    """The richest part's trace, with the names that a list of the same cards has."""
    told = best.telemetry
    names: list[str] = next((one.extra["gpus"] for one in readings if "gpus" in one.extra), [])
    if told is None or not names:
        return told
    cards = (
        replace(one, name=one.name or names[one.index])
        if one.index is not None and one.index < len(names)
        else one
        for one in told.gpus
    )
    return replace(told, gpus=tuple(cards))


def _machine(readings: Sequence[Reading]) -> Hardware:
    """Facts on which parts agree; of a card, those of parts that show all cards, a list of them first."""
    machines = [one.experiments[0].hardware for one in readings if one.experiments]
    count = max((one.count for one in machines if one.count), default=None)
    whole = [one for one in machines if one.count == count]
    facts: dict[str, Any] = {
        name: _agreed(name, whole if name in _OF_A_CARD else machines)
        for name in (*_OF_A_CARD, "driver", "cuda")
    }
    listed = next((one for one in readings if "gpus" in one.extra and one.experiments), None)
    if listed:
        facts |= {name: getattr(listed.experiments[0].hardware, name) for name in ("gpu", "arch")}
    topology = next((one.topology for one in machines if one.topology), None)
    return Hardware(**facts, count=count, topology=topology)


def _agreed(name: str, machines: Sequence[Hardware]) -> Any:
    values = {value for one in machines if (value := getattr(one, name)) is not None}
    return values.pop() if len(values) == 1 else None


def _moved(problems: Sequence[Problem], lines: int) -> Iterator[Problem]:
    for one in problems:
        yield replace(one, line=one.line + lines) if one.line is not None else one


def _extra(told: Sequence[tuple[_Part, Reading]]) -> dict[str, Any]:
    """Where each part stands and what it is, and what has no other place, by format."""
    parts = [{"line": part.line, "format": part.form.name} for part, _ in told]
    return {"parts": parts} | {part.form.name: found.extra for part, found in told if found.extra}


FORMAT = Format(
    name=_NAME,
    kind="trace",
    sniff=sniff,
    read=read,
    docs="Several outputs of GPU tools in one file: a terminal's session, or notes that quote the commands "
    "`nvidia-smi`, `rocm-smi`, `amd-smi` or `dcgmi`. Rows without a header are read by the columns that the "
    "command above them names.",
)
