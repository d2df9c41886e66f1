"""Kernel logs (dmesg, journalctl -k): GPU faults of the NVIDIA driver and memory kills.

Owns Xid and out-of-memory lines. They are evidence beside a run, never a run of their own. Must not guess
which server a process was.
"""

from __future__ import annotations

import re
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
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?(?P<pci>[\da-fA-F:.]+)\): (?P<xid>\d+)(?:, (?P<what>.*))?")
_KILLED = re.compile(
    r"(?:Out of memory|Memory cgroup out of memory): Killed process (?P<pid>\d+) \((?P<name>[^)]+)\)"
)
_LOST = re.compile(r"NVRM: GPU (?:at )?(?:PCI:)?(?P<pci>[\da-fA-F:.]+).*?GPU has fallen off the bus")
_NAMED = re.compile(r"NVRM: The NVIDIA GPU (?P<pci>[\da-fA-F:.]+)")
_GONE = re.compile(r"NVRM: (?:GPU has )?fallen off the bus")  # of the GPU that a line before names
_DRIVER = re.compile(
    r"NVRM: loading NVIDIA UNIX .*?Kernel Module (?:for \w+ )?\s*(?P<driver>\d+\.\d+(?:\.\d+)?)"
)
_BOOT = re.compile(r"^(?:\[ +0\.0+\] |.{0,80}\bkernel: )(?:Linux version \d|Command line: )", re.MULTILINE)
_FAULT = re.compile(r"amdgpu.*?(?:GPU reset|ring \w+ timeout|VM_L2_PROTECTION_FAULT|page fault)")


def events(source: Source) -> Iterator[dict[str, Any]]:
    """Faults and kills with line, time and text."""
    named: str | None = None
    for number, text in source.lines():
        if "NVRM" not in text and "Killed process" not in text and "amdgpu" not in text:
            continue
        line = split(number, text)
        if found := _NAMED.search(line.text):
            named = found["pci"].rstrip(".:")
        told = {"kind": "gpu-lost", "pci": named} if _GONE.search(line.text) else _event(line.text)
        if told is not None:
            yield {**told, "line": number, "time": line.time, "text": line.text.strip()[:300]}


def _event(text: str) -> dict[str, Any] | None:
    if found := _XID.search(text):
        return {"kind": "xid", "xid": int(found["xid"]), "pci": found["pci"]}
    if found := _LOST.search(text):
        return {"kind": "gpu-lost", "pci": found["pci"].rstrip(".:")}
    if found := _KILLED.search(text):
        return {"kind": "oom-killed", "pid": int(found["pid"]), "process": found["name"]}
    if found := _DRIVER.search(text):
        return {"kind": "driver", "driver": found["driver"]}
    return {"kind": "gpu-fault"} if _FAULT.search(text) else None


@below_pages
def sniff(source: Source) -> float:
    """By the kernel's own words; a bare stamp in brackets alone proves nothing."""
    if _BOOT.search(source.head):
        return 0.9
    return marks(
        source.head,
        sure=(
            "NVRM: ",
            "Out of memory: Killed process",
            "oom-kill:constraint",
            "Memory cgroup out of memory:",
        ),
        likely=("amdgpu 0000:",),
    )


def read(source: Source) -> Reading:
    """Faults and kills as ``extra``; each cause also as a problem line that a person reads."""
    found: list[dict[str, Any]] = []
    total = 0
    for one in events(source):
        if len(found) < MAX_EVENTS:
            found.append(one)
    total = sum(len(lines) for _, lines in source.chunks())
    told = [Problem(line=one["line"], what=_meaning(one)) for one in found if one["kind"] != "driver"]
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


def _meaning(one: dict[str, Any]) -> str:
    match = table().match(one["text"], is_error=True)
    return f"{match.meaning if match else 'GPU fault.'} ({one['text'][:160]})"


FORMAT = Format(
    name="kernel_log",
    kind="trace",
    sniff=sniff,
    read=read,
    docs="Kernel logs (dmesg, journalctl -k): Xid faults, lost GPUs, processes killed for memory.",
)
