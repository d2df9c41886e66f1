"""Log of NVIDIA's fabric manager: did the NVSwitch fabric come up, and what failed in it.

Owns that log. Its failures concern the machine, never a backend.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ingest.formats import Format, Unreadable
from ingest.gpu_csv import blocks
from ingest.machine import hardware
from ingest.sources import Source
from ingest.traces import line_count, trace_reading
from kb.model import Problem, Reading

_LINE = re.compile(r"^\[(\w{3} \d{1,2} \d{4} \d\d:\d\d:\d\d)\] \[(\w+)\] \[tid (\d+)\] ?(.*)$")
_VERSION = re.compile(r"(?i)fabric manager version is\s*:?\s*([\d.]+)")
_GPUS = re.compile(r"Number of GPUs:\s*(\d+)")
# The same service as the journal tells of it: when, then what it or its supervisor says.
_JOURNAL = re.compile(
    r"^(?P<time>\S.{3,30}?\d\d:\d\d:\d\d\S*) \S+ "
    r"(?:nv-fabricmanager\[\d+\]|nvidia-fabricmanager-start\.sh\[\d+\]|"
    r"systemd\[\d+\](?=: nvidia-fabricmanager\.service|.{0,40}(?i:fabric ?manager))): (?P<text>.*)$"
)
_FAILED = re.compile(r"(?i)\bfail|\berror\b|\binvalid\b|n[o']t match|mismatch|\babort|status=[1-9]")
_DRIVER = re.compile(r"driver interface version (?P<own>[\d.]*\d).*driver version (?P<driver>[\d.]*\d)")
_BAD = ("ERROR", "FATAL", "CRITICAL")


def sniff(source: Source) -> float:
    """Lines with date, level and thread in square brackets, or those of its service in the journal."""
    return 0.93 if any(_is_of_service(text) for text in (source.raw_head, source.head)) else 0.0


def _is_of_service(text: str) -> bool:
    lines = [line for line in text.split("\n")[:200] if line.strip()]
    for form, needed in ((_LINE, 2), (_JOURNAL, 1)):
        hits = sum(1 for line in lines if form.match(line))
        if hits >= needed and hits * 4 >= len(lines):
            return True
    return False


def read(source: Source) -> Reading:
    """Levels counted, errors as problems, versions."""
    levels: Counter[str] = Counter()
    problems: list[Problem] = []
    facts: dict[str, Any] = {}
    lines = 0
    for number, line in _lines(source):
        lines += bool(line.strip())
        gpus = _GPUS.search(line)
        if gpus:
            facts["gpus"] = max(int(gpus[1]), facts.get("gpus", 0))
        told = _told(line)
        if told is None:
            continue
        time, level, text = told
        facts.setdefault("first", time)
        facts["last"] = time
        levels[level] += 1
        facts |= _versions(text)
        if level in _BAD and len(problems) < 20:
            problems.append(Problem(line=number, what=f"fabric manager: {text[:200]}"))
    if not levels:
        raise Unreadable("no line of the fabric manager was found")
    return trace_reading(
        str(source.path),
        "fabric_manager_log",
        None,
        hardware(driver=facts.pop("driver", None) or facts.get("version"), count=facts.get("gpus")),
        tool="nv-fabricmanager",
        tool_version=facts.get("version"),
        lines=line_count(lines),
        problems=problems,
        extra={"levels": dict(levels)} | facts,
    )


def _lines(source: Source) -> Iterator[tuple[int, str]]:
    """Lines as they stand, since the journal's own prefix tells whose they are; else without prefixes."""
    if not _is_of_service(source.raw_head):
        return source.lines()
    return enumerate((line for text in blocks(source) for line in text.split("\n")), 1)


def _told(line: str) -> tuple[str, str, str] | None:
    """(time, level, text) of a line of its own log or of the journal, which prints no level."""
    if found := _LINE.match(line):
        return found[1], found[2], found[4]
    if entry := _JOURNAL.match(line):
        return entry["time"], "ERROR" if _FAILED.search(entry["text"]) else "INFO", entry["text"]
    return None


def _versions(text: str) -> dict[str, str]:
    if found := _DRIVER.search(text):
        return {"version": found["own"], "driver": found["driver"]}
    version = _VERSION.search(text)
    return {"version": version[1]} if version else {}


FORMAT = Format(
    name="fabric_manager_log",
    kind="trace",
    version=2,
    sniff=sniff,
    read=read,
    docs="Log of NVIDIA's fabric manager, or its service's lines in the journal: version, GPUs of the "
    "fabric, errors by line.",
)
