"""How AMD GPUs reach each other: ``rocm-smi --showtopo`` and ``amd-smi topology``.

Owns these matrices and the lists of NUMA nodes. Hops and weights are kept as printed: what they count differs
between drivers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ingest.formats import Format, Unreadable
from ingest.formats.nvidia_smi_topo import describe
from ingest.machine import hardware
from ingest.sources import Source
from ingest.traces import line_count, trace_reading
from kb.model import Reading

_TITLE = re.compile(
    r"^[= ]*(?P<what>Weight|Hops|Link Type|Link accessibility) (?:between|Between) two GPUs[= ]*$"
    r"|^(?P<table>[A-Z][A-Z -]{2,30}) TABLE:\s*$",
    re.MULTILINE | re.IGNORECASE,
)
_NAME = r"(?:GPU\d{1,3}|[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d)"
_COLUMNS = re.compile(rf"^\s+{_NAME}(?:\s+{_NAME})*\s*$", re.IGNORECASE)
_ROW = re.compile(rf"^\s*({_NAME})\s+(\S.*?)\s*$", re.IGNORECASE)
_NUMA = re.compile(r"^[ \t]*GPU\[(\d{1,3})\]\s*:\s*\(Topology\) Numa Node:\s*(-?\d+)\s*$", re.MULTILINE)
_STATE = re.compile(r"GPU use|Temperature|SCLK|\bsclk\b")


def sniff(source: Source) -> float:
    """A matrix's title and its columns, or NUMA nodes; nothing of the cards' state."""
    head = source.head
    if _STATE.search(head) or "NVIDIA-SMI" in head:
        return 0.0
    titled = _TITLE.search(head) and any(_COLUMNS.match(line) for line in head.split("\n")[:200])
    return 0.98 if titled or _NUMA.search(head) else 0.0


def read(source: Source) -> Reading:
    """Links by card, where the kind of link is told, and NUMA nodes."""
    lines = [line for _, line in source.lines()]
    tables = _tables(lines)
    numa = {f"GPU{one[1]}": int(one[2]) for line in lines if (one := _NUMA.match(line))}
    links = next((rows for name, rows in tables.items() if name in ("LINK TYPE", "TYPE")), {})
    cards = max((len(rows) for rows in tables.values()), default=len(numa))
    if not cards:
        raise Unreadable("neither a matrix nor a NUMA node stands here")
    named = {f"GPU{at}": row for at, row in enumerate(links.values())}
    renamed = {name: dict(zip(named, row.values(), strict=False)) for name, row in named.items()}
    return trace_reading(
        str(source.path),
        "amd_topology",
        None,
        hardware(count=cards if tables else _count(numa), topology=describe(renamed)),
        tool="rocm-smi" if any("GPU0" in rows for rows in tables.values()) or numa else "amd-smi",
        lines=line_count(sum(1 for line in lines if line.strip())),
        extra={name.lower().replace(" ", "_"): rows for name, rows in tables.items()} | _numa_extra(numa),
    )


def _tables(lines: Iterable[str]) -> dict[str, dict[str, dict[str, str]]]:
    """Title -> row -> column -> word of every matrix."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    title, columns = "", list[str]()
    for line in lines:
        if named := _TITLE.match(line):
            title, columns = (named["what"] or named["table"]).upper().strip(), []
        elif title and _COLUMNS.match(line):
            columns = line.split()
        elif columns and (row := _ROW.match(line)):
            cells = row[2].split()
            if len(cells) == len(columns):
                found.setdefault(title, {})[row[1]] = dict(zip(columns, cells, strict=True))
        elif not line.strip():
            columns = []
    return found


def _numa_extra(numa: dict[str, int]) -> dict[str, Any]:
    return {"numa": numa} if numa else {}


def _count(numa: dict[str, int]) -> int | None:
    return len(numa) if set(numa) == {f"GPU{at}" for at in range(len(numa))} else None


FORMAT = Format(
    name="amd_topology",
    kind="trace",
    sniff=sniff,
    read=read,
    docs="Output of `rocm-smi --showtopo` (and its parts) and of `amd-smi topology`: the kind of link, hops "
    "and weight between each two GPUs, and their NUMA nodes.",
)
