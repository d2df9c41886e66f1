"""``nvidia-smi mig -lgip`` (which parts a GPU can be cut into), ``mig -lgi`` and ``-lci`` (which there are).

Owns these boxes. Profiles say what is possible, not how a GPU is used.
"""

from __future__ import annotations

import re
from typing import Any

from ingest.formats import Format, Unreadable
from ingest.machine import hardware
from ingest.sources import Source
from ingest.traces import line_count, trace_reading
from kb.model import Reading

_TITLE = re.compile(r"^\|\s*(?:GPU|Compute) instance(?: profile)?s:\s*\|\s*$", re.MULTILINE)
_NAMED = (
    r"^\|\s*(?P<gpu>\d{1,3})\s+(?:(?P<gpu_instance>\d{1,4})\s+)?MIG (?P<profile>\S+)\s+(?P<id>\d{1,4})\s+"
)
_POSSIBLE = re.compile(
    _NAMED + r"(?P<free>\d{1,4})/(?P<total>\d{1,4})\s+"
    r"(?P<memory_gib>\d{1,6}\.\d+)\s+(?:Yes|No)\s+(?P<sm>\d{1,6})\s"
)
_MADE = re.compile(_NAMED + r"(?P<instance>\d{1,4})\s+(?P<place>\d+:\d+)")


def sniff(source: Source) -> float:
    """The box's title and a row of it."""
    head = source.head
    named = "instance" in head and _TITLE.search(head)
    return 0.95 if named and any(_row(line) for line in head.split("\n")[:400]) else 0.0


def read(source: Source) -> Reading:
    """Profiles by GPU, or the instances made of them."""
    lines, rows = 0, list[dict[str, Any]]()
    for _, line in source.lines():
        lines += bool(line.strip())
        if found := _row(line):
            rows.append(found)
    if not rows:
        raise Unreadable("the box has no row")
    possible = [one for one in rows if "total" in one]
    return trace_reading(
        str(source.path),
        "nvidia_smi_mig",
        None,
        hardware(count=_count({one["gpu"] for one in rows})),
        tool="nvidia-smi",
        lines=line_count(lines),
        extra={"mig_profiles": possible} if possible else {"mig_instances": rows},
    )


def _row(line: str) -> dict[str, Any] | None:
    found = _POSSIBLE.match(line) or _MADE.match(line)
    if found is None:
        return None
    told = found.groupdict()
    return {key: int(word) if word.isdecimal() else _decimal(word) for key, word in told.items() if word}


def _decimal(word: str) -> float | str:
    return float(word) if re.fullmatch(r"\d{1,6}\.\d+", word) else word


def _count(gpus: set[Any]) -> int | None:
    """How many GPUs there are; None where the box shows some of them."""
    return len(gpus) if gpus == set(range(len(gpus))) and len(gpus) > 1 else None


FORMAT = Format(
    name="nvidia_smi_mig",
    kind="trace",
    version=2,
    sniff=sniff,
    read=read,
    docs="Output of `nvidia-smi mig -lgip`, `-lgi` and `-lci`: the MIG profiles of each GPU with their "
    "memory and how many are free, or the instances made of them.",
)
