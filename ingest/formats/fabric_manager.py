"""Log of NVIDIA's fabric manager: did the NVSwitch fabric come up, and what failed in it.

Owns that log. Its failures concern the machine, never a backend.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from ingest.formats import Format, Unreadable
from ingest.machine import hardware
from ingest.sources import Source
from ingest.traces import line_count, trace_reading
from kb.model import Problem, Reading

_LINE = re.compile(r"^\[(\w{3} \d\d \d{4} \d\d:\d\d:\d\d)\] \[(\w+)\] \[tid (\d+)\] ?(.*)$")
_VERSION = re.compile(r"(?i)fabric manager version is\s*:?\s*([\d.]+)")
_GPUS = re.compile(r"Number of GPUs:\s*(\d+)")


def sniff(source: Source) -> float:
    """Lines with date, level and thread in square brackets."""
    lines = [line for line in source.head.split("\n")[:200] if line.strip()]
    hits = sum(1 for line in lines if _LINE.match(line))
    return 0.93 if hits >= 2 and hits * 4 >= len(lines) else 0.0


def read(source: Source) -> Reading:
    """Levels counted, errors as problems, versions."""
    levels: Counter[str] = Counter()
    problems: list[Problem] = []
    facts: dict[str, Any] = {}
    lines = 0
    for number, line in source.lines():
        lines += bool(line.strip())
        found = _LINE.match(line)
        gpus = _GPUS.search(line)
        if gpus:
            facts["gpus"] = max(int(gpus[1]), facts.get("gpus", 0))
        if not found:
            continue
        facts.setdefault("first", found[1])
        facts["last"] = found[1]
        levels[found[2]] += 1
        version = _VERSION.search(found[4])
        if version:
            facts["version"] = version[1]
        if found[2] in ("ERROR", "FATAL", "CRITICAL") and len(problems) < 20:
            problems.append(Problem(line=number, what=f"fabric manager: {found[4][:200]}"))
    if not levels:
        raise Unreadable("no line of the fabric manager was found")
    return trace_reading(
        str(source.path),
        "fabric_manager_log",
        None,
        hardware(driver=facts.get("version"), count=facts.get("gpus")),
        tool="nv-fabricmanager",
        tool_version=facts.get("version"),
        lines=line_count(lines),
        problems=problems,
        extra={"levels": dict(levels)} | facts,
    )


FORMAT = Format(
    name="fabric_manager_log",
    kind="trace",
    sniff=sniff,
    read=read,
    docs="Log of NVIDIA's fabric manager: version, GPUs of the fabric, errors by line.",
)
