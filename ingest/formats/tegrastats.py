"""``tegrastats``, the monitor of Jetson boards: a line of words and figures per sample.

Owns that line. CPU and GPU share their memory there, so the memory of the GPU is that of the board.
"""

from __future__ import annotations

import re

from ingest.formats import Format, Unreadable
from ingest.sources import Source
from ingest.tally import Cards
from ingest.traces import hardware_of, line_count, telemetry_of, trace_reading
from kb.model import Reading

_LINE = re.compile(r"\bRAM (\d+)/(\d+)MB \(lfb\b.*\bCPU \[")
_LOAD = re.compile(r"\bGR3D(?:_FREQ)? (\d+)%(?:@\[?(\d+))?")  # some boards leave it out while nothing runs
_HEAT = re.compile(r"\bGPU@(\d+(?:\.\d+)?)C", re.IGNORECASE)
_POWER = re.compile(r"\b(?:POM_5V|VDD_SYS|VDD)_GPU(?:_SOC)? (\d+)(?:mW)?/")
_LONGEST = 2000
_STAMP = re.compile(r"^(\d\d)-(\d\d)-(\d{4}) (\d\d:\d\d:\d\d)\b")


def sniff(source: Source) -> float:
    """Most of the first lines are the tool's."""
    lines = [line for line in source.raw_head.split("\n")[:20] if line.strip()]
    return 0.95 if lines and 2 * sum(1 for line in lines if _sample(line)) >= len(lines) else 0.0


def read(source: Source) -> Reading:
    """A sample per line."""
    cards, lines, odd, times = Cards(source.samples), 0, 0, list[str]()
    for _, line in source.lines():
        if not line.strip():
            continue
        lines += 1
        sample = _sample(line)
        stamp = _STAMP.match(line.strip())
        time = f"{stamp[3]}-{stamp[1]}-{stamp[2]} {stamp[4]}" if stamp else ""
        times = [*times[:1], time] if time else times
        if sample:
            cards.add("0", sample, at=time, index=0)
        odd += not sample
    if not cards.rows:
        raise Unreadable("no line of tegrastats was found")
    found = telemetry_of(cards.by_key.values(), first=(times or [""])[0], last=(times or [""])[-1])
    return trace_reading(
        str(source.path),
        "tegrastats",
        found,
        hardware_of(found),
        tool="tegrastats",
        lines=line_count(lines, odd),
    )


def _sample(line: str) -> dict[str, float | None]:
    found = _LINE.search(line) if len(line) <= _LONGEST else None
    if not found:
        return {}
    load, heat, power = _LOAD.search(line), _HEAT.search(line), _POWER.search(line)
    return {
        "memory_used_mib": float(found[1]),
        "memory_total_mib": float(found[2]),
        "utilization_pct": float(load[1]) if load else None,
        "sm_clock_mhz": float(load[2]) if load and load[2] else None,
        "temperature_c": float(heat[1]) if heat else None,
        "power_w": float(power[1]) / 1000 if power else None,
    }


FORMAT = Format(
    name="tegrastats",
    kind="trace",
    sniff=sniff,
    read=read,
    docs="Lines of `tegrastats` (Jetson): load, clock, temperature and power of the GPU, memory of the "
    "board.",
)
