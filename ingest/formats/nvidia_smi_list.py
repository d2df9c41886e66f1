"""``nvidia-smi -L`` and ``nvidia-smi --version``: which GPUs, which driver.

Owns both short listings.
"""

from __future__ import annotations

import re

from ingest.formats import Format, Unreadable
from ingest.gpu_csv import is_around
from ingest.machine import hardware
from ingest.sources import Source
from ingest.traces import line_count, trace_reading
from kb.model import Problem, Reading

# People black out parts of a UUID: ``(UUID: GPU-...)``.
GPU_LINE = re.compile(r"^GPU (\d+): (.+?) \(UUID: ([^()\s]{1,60})\)?\s*$")
_OF_A_DRIVER = re.compile(r"^GPU \d+: (?:NVIDIA|Tesla|GeForce|Quadro) .+ \(UUID: GPU-[0-9a-f]{8}-")
_MIG_LINE = re.compile(r"^\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: ([^()\s]{1,60})\)\s*$")
_CUT = re.compile(r"^\s*(?:\.{2,4}|…)\s*$")  # lines that somebody left out
_VERSION_LINE = re.compile(
    r"^(NVIDIA-SMI|NVML|DRIVER|CUDA|KMD|CUDA UMD)\s+version\s*:\s*(\S+)\s*$", re.IGNORECASE
)


def sniff_list(source: Source) -> float:
    """Nothing but lines of GPUs and MIG devices (a shell prompt may stand first)."""
    lines = [line for line in source.head.split("\n") if line.strip()][:200]
    if lines and not GPU_LINE.match(lines[0]) and "nvidia-smi" in lines[0]:
        lines = lines[1:]
    lines = [line for line in lines if not _CUT.match(line) and not is_around(line)]
    hits = sum(1 for line in lines if GPU_LINE.match(line) or _MIG_LINE.match(line))
    if hits and hits == len(lines):
        return 0.95
    return 0.35 if any(_OF_A_DRIVER.search(line) for line in lines) else 0.0  # if nothing else is known of it


def read_list(source: Source) -> Reading:
    """Products and their count."""
    names, seen, mig, problems, lines = list[str](), set[str](), [], [], 0
    was_cut = is_again = False
    for number, line in source.lines():
        if not line.strip():
            continue
        lines += 1
        card, part = GPU_LINE.match(line), _MIG_LINE.match(line)
        if card:
            is_again = card[0] in seen  # the list stands here twice
            seen.add(card[0])
            names += [] if is_again else [card[2]]
        elif part:
            device = {"gpu": len(names) - 1, "profile": part[1], "device": int(part[2])}
            mig += [] if is_again else [device]
        elif _CUT.match(line):
            was_cut = True
        elif not is_around(line):
            problems.append(Problem(line=number, what=f"is no GPU of the list: {line.strip()[:120]}"))
    if not names:
        raise Unreadable("no GPU line was found")
    return trace_reading(
        str(source.path),
        "nvidia_smi_list",
        None,
        hardware(names=names, count=None if was_cut else len(names)),
        tool="nvidia-smi",
        lines=line_count(lines, len(problems)),
        problems=problems[:20],
        extra={"gpus": names} | ({"mig_devices": mig} if mig else {}),
    )


def sniff_version(source: Source) -> float:
    """Two or more of the four version lines."""
    lines = [line for line in source.head.split("\n") if line.strip()][:20]
    hits = sum(1 for line in lines if _VERSION_LINE.match(line))
    return 0.95 if hits >= 2 and hits >= len(lines) - 1 else 0.0


def read_version(source: Source) -> Reading:
    """Driver and CUDA versions."""
    found = {}
    for _, line in source.lines():
        match = _VERSION_LINE.match(line)
        if match:
            found[match[1].upper()] = match[2]
    return trace_reading(
        str(source.path),
        "nvidia_smi_version",
        None,
        hardware(
            driver=found.get("DRIVER") or found.get("KMD"), cuda=found.get("CUDA") or found.get("CUDA UMD")
        ),
        tool="nvidia-smi",
        tool_version=found.get("NVIDIA-SMI"),
        lines=line_count(len(found)),
    )


FORMATS = [
    Format(
        name="nvidia_smi_list",
        kind="trace",
        sniff=sniff_list,
        read=read_list,
        docs="Output of `nvidia-smi -L`: products, count, MIG devices.",
    ),
    Format(
        name="nvidia_smi_version",
        kind="trace",
        sniff=sniff_version,
        read=read_version,
        docs="Output of `nvidia-smi --version`: driver and CUDA.",
    ),
]
