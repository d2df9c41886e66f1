"""Kernel logs (dmesg, journalctl -k): faults of GPUs as their drivers tell them, and memory kills.

Owns Xid, amdgpu and out-of-memory lines. They are evidence beside a run, never a run of their own. Must not
guess which server a process was.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ingest.bench.sniffing import below_pages
from ingest.formats import Format
from ingest.logline import split
from ingest.serverlog import marks
from ingest.sources import Source
from kb.model import LineCount, Problem, Reading
from kb.symptoms import table

MAX_EVENTS = 1000
_SURE = (
    "NVRM: ",
    "amdgpu_job_timedout",
    ": GPU HANG: ecode ",
    "Out of memory: Killed process",
    "oom-kill:constraint",
    "Memory cgroup out of memory:",
)
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?(?P<pci>[\da-fA-F:.]+)\): (?P<xid>\d+)(?:, (?P<what>.*))?")
_KILLED = re.compile(
    r"(?:Out of memory|Memory cgroup out of memory): Killed process (?P<pid>\d+) \((?P<process>[^)]+)\)"
)
_LOST = re.compile(r"NVRM: GPU (?:at )?(?:PCI:)?(?P<pci>[\da-fA-F:.]+).*?GPU has fallen off the bus")
_DRIVER = re.compile(
    r"NVRM: loading NVIDIA UNIX .*?Kernel Module (?:for \w+ )?\s*(?P<driver>\d+\.\d+(?:\.\d+)?)"
)
_BOOT = re.compile(r"^(?:\[ +0\.0+\] |.{0,80}\bkernel: )(?:Linux version \d|Command line: )", re.MULTILINE)
_FAULT = re.compile(
    r"(?:i915|xe) .*?GPU HANG|"
    r"amdgpu.*?(?:GPU reset|ring [\w.]+ timeout|VM_L2_PROTECTION_FAULT|page fault|MES failed to respond)"
)
_AMD_LINE = re.compile(
    r"^(?:\[[^\]\n]{4,40}\] |.{0,60}? kernel: )?amdgpu [\da-f]{4}:[\da-f]{2}:[\da-f]{2}\.\d: ", re.MULTILINE
)
_RECOVERED = re.compile(r"amdgpu.*?(?:reset(?:\(\d+\))? succeeded|recovered through reset)")
# A message of the driver that it breaks into lines: which card, then what is wrong with it.
_NAMED = re.compile(r"NVRM: The NVIDIA GPU (?P<pci>[\da-fA-F:.]+)")
_OFF_BUS = re.compile(r"NVRM:\s+(?:GPU has )?fallen off the bus")
_NO_START = re.compile(
    r"NVRM: (?:GPU (?P<pci>[\da-fA-F:.]+): )?(?:RmInitAdapter failed|rm_init_adapter failed|API mismatch|"
    r"The NVIDIA probe routine failed)"
)
_EVENTS = (
    ("xid", _XID),
    ("gpu-lost", _LOST),
    ("oom-killed", _KILLED),
    ("driver", _DRIVER),
    ("driver-failed", _NO_START),
    ("gpu-recovered", _RECOVERED),
    ("gpu-fault", _FAULT),
)
_DMESG_TIME = re.compile(r"^\[(?P<time>\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})\] ")
_HOST = re.compile(
    r"^(?:(?P<time>[^\W\d_]{3,5}\.? [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S{8,24}) )?[\w.-]{1,80} kernel: "
)
_WORDS = ("NVRM", "Killed process", "amdgpu", "GPU HANG")
_NEAR = 4
_NO_TROUBLE = ("driver", "gpu-recovered")
_UNKNOWN = {"driver-failed": "The driver could not start the GPU.", "oom-killed": "Killed for memory."}


def events(source: Source) -> Iterator[dict[str, Any]]:
    """Faults and kills with line, time and text."""
    named, at, when = "", -_NEAR, None
    for number, text, stamp in source.stamped_lines():
        if not any(word in text for word in _WORDS):
            continue
        before = _DMESG_TIME.match(text) or _HOST.match(text)
        line = split(number, text[before.end() :] if before else text, (before and before["time"]) or stamp)
        if card := _NAMED.search(line.text):
            named, at, when = card["pci"].rstrip(".:"), number, line.time
        told = _event(line.text)
        if told is None and _OFF_BUS.search(line.text) and number - at < _NEAR:
            told = {"kind": "gpu-lost", "pci": named, "text": "NVRM: GPU has fallen off the bus"}
        if told is not None:
            near = when if "text" in told else line.time
            yield {"text": line.text[:300], **told, "line": number, "time": near}


def _event(text: str) -> dict[str, Any] | None:
    """What the first of the known messages in a line tells: its kind and its own words."""
    for kind, form in _EVENTS:
        if found := form.search(text):
            told = {name: value for name, value in found.groupdict().items() if name != "what"}
            return {"kind": kind} | {name: _value(name, value) for name, value in told.items()}
    return None


def _value(name: str, value: str | None) -> str | int | None:
    if name in ("xid", "pid") and value:
        return int(value)
    return value.rstrip(".:") if name == "pci" and value else value


@below_pages
def sniff(source: Source) -> float:
    """By the kernel's own words; a bare stamp in brackets alone proves nothing."""
    if _BOOT.search(source.head):
        return 0.9
    sure = max(marks(head, sure=_SURE) for head in (source.head, source.raw_head))
    return sure or (0.5 if _AMD_LINE.search(source.head) else 0.0)


def read(source: Source) -> Reading:
    """Faults and kills as ``extra``; each cause also as a problem line that a person reads."""
    found: list[dict[str, Any]] = []
    total = 0
    for one in events(source):
        if len(found) < MAX_EVENTS:
            found.append(one)
    total = sum(len(lines) for _, lines in source.chunks())
    told = [Problem(line=one["line"], what=_meaning(one, times)) for one, times in _once(found)]
    driver = next((one["driver"] for one in found if one["kind"] == "driver"), None)
    return Reading(
        path=str(source.path),
        format="kernel_log",
        kind="trace",
        tool="kernel",
        lines=LineCount(total=total, understood=len(found), unknown=0),
        problems=tuple(told[:50]),
        extra={
            "kernel": found,
            "xids": sorted({one["xid"] for one in found if one["kind"] == "xid"}),
            "driver": driver,
        },
    )


def _once(found: list[dict[str, Any]]) -> list[tuple[dict[str, Any], int]]:
    """Each trouble with how often it came: a fault is told again for every page that it touches."""
    first: dict[str, dict[str, Any]] = {}
    times: Counter[str] = Counter()
    for one in found:
        if one["kind"] not in _NO_TROUBLE:
            shape = re.sub(r"0x[\da-f]+|\d{3,}", "#", one["text"])
            first.setdefault(shape, one)
            times[shape] += 1
    return [(one, times[shape]) for shape, one in first.items()]


def _meaning(one: dict[str, Any], times: int) -> str:
    match = table().match(one["text"], is_error=True)
    often = f", {times} times" if times > 1 else ""
    known = match.meaning if match else _UNKNOWN.get(one["kind"], "GPU fault.")
    return f"{known} ({one['text'][:160]}{often})"


FORMAT = Format(
    name="kernel_log",
    kind="trace",
    version=2,
    sniff=sniff,
    read=read,
    docs="Kernel logs (dmesg, journalctl -k): Xid faults, lost GPUs, amdgpu's timeouts, page faults and "
    "resets, hangs of Intel GPUs, processes killed for memory.",
)
