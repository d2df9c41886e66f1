"""From counted samples to the reading of a trace: telemetry, hardware facts, problems.

Owns what all GPU trace formats share once they have counted. Must not parse any format.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from ingest.gpu_count import Summary
from ingest.machine import hardware, supplies
from ingest.reach import within_reach
from ingest.tally import GpuTally
from ingest.telemetry import diagnose_trace
from kb.model import GpuTrace, Hardware, LineCount, Problem, Reading, Telemetry

_STAMP = re.compile(r"^(\d{4})[-/](\d\d)[-/](\d\d)[ T_](\d\d:\d\d:\d\d(?:[.,]\d+)?)\s*(Z|[+-]\d\d:?\d\d)?$")
_COMPACT = re.compile(r"^(\d{4})(\d\d)(\d\d) (\d\d:\d\d:\d\d)$")
_DAYED = re.compile(r"^(\d\d)([-/.])(\d\d)\2(\d{4})[ T](\d\d:\d\d:\d\d(?:\.\d+)?)$")
_CTIME = "%a %b %d %H:%M:%S %Y"
_ZONE = re.compile(r"(?<=:\d\d) [A-Z]{2,5}(?= \d{4}$)")  # as ``date`` prints it; a name of many meanings


def telemetry_of(
    tallies: Iterable[GpuTally],
    *,
    rows: int | None = None,
    first: str = "",
    last: str = "",
    extra: Mapping[str, Any] | None = None,
) -> Telemetry:
    """The summary of a trace, with the states that it shows. ``first`` and ``last`` are times as printed."""
    gpus = tuple(sorted((one.result() for one in tallies), key=_order))
    samples = max((gpu.samples for gpu in gpus), default=0)
    started, ended = iso_time(first), iso_time(last)
    restarts = 1 < (extra or {}).get("sessions", 1) < samples  # as many as samples: a loop that calls a tool
    span = None if restarts else seconds_between(first, last)
    found = Telemetry(
        samples=samples,
        rows=sum(gpu.samples for gpu in gpus) if rows is None else rows,
        interval_s=round(span / (samples - 1), 3) if span and span < math.inf and samples > 1 else None,
        started=started,
        ended=ended,
        gpus=gpus,
        extra=dict(extra or {}),
    )
    return with_conditions(found)


def with_conditions(found: Telemetry) -> Telemetry:
    """The same with the states that need no knowledge from elsewhere."""
    return Telemetry(
        **{**{name: getattr(found, name) for name in _FIELDS}, "conditions": diagnose_trace(found)}
    )


def hardware_of(found: Telemetry, **facts: str | None) -> Hardware:
    """The machine that a trace shows; ``facts`` are driver, cuda, compute_cap, topology."""
    totals = {gpu.metrics.get("memory_total_mib", {}).get("max") for gpu in found.gpus} - {None}
    limits = {_limit(gpu) for gpu in found.gpus} - {None}
    return hardware(
        names=[gpu.name for gpu in found.gpus],
        count=len(found.gpus) if _are_told_apart(found) else None,
        memory_mib=totals.pop() if len(totals) == 1 else None,
        power_limit_w=limits.pop() if len(limits) == 1 else None,
        **facts,
    )


def trace_reading(
    path: str, name: str, found: Telemetry | None, machine: Hardware | None = None, **rest: Any
) -> Reading:
    """A reading of kind ``trace``; hardware facts travel as one experiment that supplies them.

    ``rest`` are further fields of Reading (tool, lines, problems, status, extra).
    """
    gpus, beyond = within_reach(found.gpus if found is not None else ())
    if found is not None and beyond:
        found = with_conditions(replace(found, gpus=gpus))
    return Reading(
        path=path,
        format=name,
        kind="trace",
        experiments=supplies(machine or Hardware()),
        telemetry=found,
        **{**rest, "problems": (*rest.get("problems", ()), *beyond)},
    )


def summary_reading(path: str, name: str, tool: str, summary: Summary, columns: Iterable[str]) -> Reading:
    """The reading of a delimited trace from its one pass."""
    extra: dict[str, Any] = {"columns": list(columns)}
    if summary.sessions > 1:
        extra["sessions"] = summary.sessions
    if summary.odd_lines or summary.empty_lines:
        extra["body_lines"] = summary.rows + summary.odd_lines + summary.empty_lines
    found = telemetry_of(
        summary.gpus.values(),
        rows=summary.rows,
        first=summary.first_time,
        last=summary.last_time,
        extra=extra,
    )
    facts = {key: summary.facts.get(key) for key in ("driver", "cuda", "compute_cap", "topology")}
    return trace_reading(
        path,
        name,
        found,
        hardware_of(found, **facts),
        tool=tool,
        lines=line_count(summary.lines, summary.odd_lines),
        problems=[Problem(line=line, what=what) for line, what in summary.trouble],
        status="partial" if summary.odd_lines or not summary.rows else "parsed",
    )


def line_count(total: int, unknown: int = 0) -> LineCount:
    """Lines of a source of which all but ``unknown`` were understood."""
    return LineCount(total=total, understood=total - unknown, unknown=unknown)


def iso_time(text: str) -> str | None:
    """A time as tools print it, in ISO 8601; the zone only where it was printed; None for bare seconds."""
    found = _STAMP.match(text.strip())
    if found:
        zone = (found[5] or "").replace("Z", "+00:00")
        return _valid(f"{found[1]}-{found[2]}-{found[3]}T{found[4].replace(',', '.')}{zone}")
    if dayed := _DAYED.match(text.strip()):
        return _by_its_day(dayed)
    compact = _COMPACT.match(text.strip())
    if compact:
        return _valid(f"{compact[1]}-{compact[2]}-{compact[3]}T{compact[4]}")
    try:
        return datetime.strptime(_ZONE.sub("", " ".join(text.split())), _CTIME).isoformat()  # noqa: DTZ007 - local, zone unknown
    except ValueError:
        return _epoch(text)


def seconds_between(first: str, last: str) -> float | None:
    """Seconds from one printed time to another (stamps, times of day, or bare seconds); None if unknown."""
    days = _DAYED.match(first.strip()), _DAYED.match(last.strip())
    if days[0] and days[1] and days[0].group(1, 3, 4) == days[1].group(1, 3, 4):
        first, last = days[0][5], days[1][5]  # of one day, whichever of its numbers is the month
    a, b = seconds_of(first), seconds_of(last)
    return b - a if a is not None and b is not None and b >= a else None


_FIELDS = ("samples", "rows", "interval_s", "started", "ended", "gpus", "extra")


def _are_told_apart(found: Telemetry) -> bool:
    """Whether each card of a trace is one of the machine's; a single row without a number is one, too."""
    return found.rows == 1 or any(gpu.index is not None or gpu.uuid for gpu in found.gpus)


def _order(gpu: GpuTrace) -> tuple[bool, int, str]:
    return gpu.index is None, gpu.index or 0, gpu.uuid or ""


def _limit(gpu: GpuTrace) -> float | None:
    for metric in ("power_limit_w", "power_enforced_limit_w"):
        if metric in gpu.metrics:
            return gpu.metrics[metric]["max"]
    return None


def _by_its_day(found: re.Match[str]) -> str | None:
    """``13-03-2026 …`` in ISO 8601; None where either number could be the month."""
    one, other = found[1], found[3]
    months = [pair for pair in ((one, other), (other, one)) if int(pair[1]) > 12]
    return _valid(f"{found[4]}-{months[0][0]}-{months[0][1]}T{found[5]}") if len(months) == 1 else None


def _valid(stamp: str) -> str | None:
    try:
        datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return stamp


def _epoch(text: str) -> str | None:
    try:
        value = float(text)
    except ValueError:
        return None
    if value > 1e17:
        value /= 1e9
    elif value > 1e14:
        value /= 1e6
    elif value > 1e11:
        value /= 1e3
    if not 1e9 < value < 4e9:
        return None
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=value)).isoformat()


def seconds_of(text: str) -> float | None:
    """A printed time as seconds: since 1970 by its own clock, since midnight, or bare."""
    stamp = iso_time(text)
    if stamp:
        try:
            return (datetime.fromisoformat(stamp).replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds()  # noqa: DTZ001
        except ValueError:
            return None
    clock = re.fullmatch(r"\s*(\d\d?):(\d\d):(\d\d(?:\.\d+)?)\s*", text)
    if clock:
        return int(clock[1]) * 3600 + int(clock[2]) * 60 + float(clock[3])
    number = re.fullmatch(r"\s*(\d+(?:[.,]\d+)?)\s*s?\s*", text)
    return float(number[1].replace(",", ".")) if number else None
