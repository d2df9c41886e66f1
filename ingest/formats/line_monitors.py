"""Monitors that print words and figures of one GPU: radeontop's dump, macOS' powermetrics.

Owns these two texts, as data: what begins a sample, when it was taken, and which figures count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ingest.formats import Format, Unreadable
from ingest.sources import Source
from ingest.tally import Cards
from ingest.traces import hardware_of, line_count, telemetry_of, trace_reading
from kb.model import Reading

_FIGURE = r"(\d*\.?\d+)"
_LONGEST = 2000


@dataclass(frozen=True, slots=True)
class _Monitor:
    """``begins`` matches a sample's first line and gives its time; ``figures``: (pattern, metric, factor)."""

    begins: re.Pattern[str]
    figures: tuple[tuple[re.Pattern[str], str, float], ...]


def _figures(*rows: tuple[str, str, float]) -> tuple[tuple[re.Pattern[str], str, float], ...]:
    return tuple(
        (re.compile(pattern.replace("#", _FIGURE)), metric, factor) for pattern, metric, factor in rows
    )


_MONITORS: Mapping[str, _Monitor] = {
    "radeontop": _Monitor(
        re.compile(r"(\d{10}(?:\.\d+)?): (?:bus [0-9a-f]{2}, )?gpu \d"),
        _figures(
            (r"\bgpu #%", "utilization_pct", 1.0),
            (r"\bvram [\d.]+% #mb", "memory_used_mib", 1.0),
            (r"\bmclk [\d.]+% #ghz", "memory_clock_mhz", 1000.0),
            (r"\bsclk [\d.]+% #ghz", "sm_clock_mhz", 1000.0),
        ),
    ),
    "powermetrics": _Monitor(
        re.compile(r"\*\*\* Sampled system activity \((\w{3} \w{3} {1,2}\d{1,2} [\d:]{8} \d{4})"),
        _figures(
            (r"^GPU (?:HW )?active residency: +#%", "utilization_pct", 1.0),
            (r"^GPU (?:HW )?active frequency: # MHz", "sm_clock_mhz", 1.0),
            (r"^GPU Power: # mW", "power_w", 0.001),
        ),
    ),
}


def sniff(source: Source) -> float:
    """The first line of a sample of one of them."""
    return 0.94 if _monitor_of(source.raw_head) else 0.0


def read(source: Source) -> Reading:
    """A sample per line or per block of lines."""
    tool = _monitor_of(source.raw_head)
    if not tool:
        raise Unreadable("no sample of a known monitor was found")
    cards, lines, times = Cards(source.samples), 0, list[str]()
    for time, sample, count in _samples(source, _MONITORS[tool]):
        lines += count
        if sample:
            times = [*times[:1], time]
            cards.add("0", sample, at=time, index=0)
    if not cards.rows:
        raise Unreadable("samples without a figure of a GPU")
    found = telemetry_of(cards.by_key.values(), first=times[0], last=times[-1])
    form, machine = "line_monitor", hardware_of(found)
    return trace_reading(str(source.path), form, found, machine, tool=tool, lines=line_count(lines))


def _monitor_of(head: str) -> str | None:
    lines = [line for line in head.split("\n") if len(line) < _LONGEST]
    return next((name for name, one in _MONITORS.items() if any(map(one.begins.match, lines))), None)


def _samples(source: Source, monitor: _Monitor) -> Iterator[tuple[str, dict[str, float], int]]:
    """(time, figures, lines) of every sample."""
    time, sample, count = "", dict[str, float](), 0
    for _, line in source.lines():
        begins = monitor.begins.match(line)
        if begins:
            yield time, sample, count
            time, sample, count = begins[1], {}, 0
        count += bool(line.strip())
        for pattern, metric, factor in monitor.figures if time and len(line) < _LONGEST else ():
            if found := pattern.search(line):
                sample[metric] = round(float(found[1]) * factor, 6)
    yield time, sample, count


FORMAT = Format(
    name="line_monitor",
    kind="trace",
    sniff=sniff,
    read=read,
    docs="Samples that radeontop dumps and that macOS' powermetrics prints: load, clocks, memory and power "
    "of the one GPU.",
)
