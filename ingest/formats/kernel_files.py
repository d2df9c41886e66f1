"""What lies around kernels: tuned Triton MoE configurations, and tables of a profiler's time per kernel.

Owns both. The names of kernels are kept as evidence of what ran; no role is concluded from them here.
"""

from __future__ import annotations

import csv
import json
import re
from typing import Any

from ingest.bench.tables import sniff_delimiter
from ingest.formats import Format, Unreadable
from ingest.machine import hardware, supplies
from ingest.sources import Source
from ingest.traces import line_count
from kb.model import Backend, Problem, Reading

_TUNED = re.compile(
    r"device_name=(?P<gpu>[^,]+?)(?:,dtype=(?P<dtype>[^,]+?))?(?:,block_shape=\[(?P<block>[\d, ]+)\])?\.json"
)
_SHAPE = re.compile(r"(?P<key>[EN])=(?P<value>\d+)")
_KEPT_KERNELS = 40
_SEARCHED = 200
_TIME = re.compile(
    r"(?i)^(?:(?:self_)?(?:device|cuda|gpu)(?:_total|_time)*_(?:ns|us|ms)|time[_ ]?(?:pct|\(%\)|%)|"
    r"total[_ ]?(?:ms|time.*|ns|us)|.*cuda.*time.*|duration.*)$"
)
_NAME = re.compile(r"(?i)^(?:kernel(?:[_ ]name)?|name|operation)$")


def sniff_tuned(source: Source) -> float:
    """Block sizes by batch size."""
    head = source.head.lstrip("\ufeff \t\r\n")[:2000]
    return 0.95 if head.startswith("{") and '"BLOCK_SIZE_M"' in head and '"num_warps"' in head else 0.0


def read_tuned(source: Source) -> Reading:
    """For which GPU and shape, and how many batch sizes."""
    try:
        raw = json.loads(source.text.lstrip("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"the JSON is damaged or cut: {error}") from None
    if not isinstance(raw, dict):
        raise Unreadable("the JSON holds no object at its top")
    named = _TUNED.search(source.name)
    version = raw.get("triton_version")
    extra: dict[str, Any] = {"batch_sizes": sorted(int(key) for key in raw if key.isdecimal())}
    extra |= {found["key"]: int(found["value"]) for found in _SHAPE.finditer(source.name)}
    extra |= {key: word for key in ("dtype", "block") if named and (word := named[key])}
    backend = Backend(dependencies={"triton": version} if isinstance(version, str) else {})
    where = hardware([named["gpu"].replace("_", " ")] if named else [])
    return Reading(
        path=str(source.path),
        format="triton_moe_config",
        kind="note",
        experiments=supplies(where, backend),
        lines=line_count(source.text.count("\n") + 1),
        extra=extra,
    )


def sniff_profile(source: Source) -> float:
    """A CSV header with a kernel's name and its time; a profiler's other reports may stand before it."""
    lines = source.head.lstrip("\ufeff").split("\n")[:_SEARCHED]
    return 0.85 if any(_delimiter(line) for line in lines) else 0.0


def _delimiter(line: str) -> str | None:
    """What parts the cells, where a line is the header of a kernel table."""
    header = line.strip("\ufeff \r")
    if header[:1] in ("{", "["):
        return None
    delimiter = sniff_delimiter(header)
    cells = [cell.strip().strip('"') for cell in header.split(delimiter)]
    if len(cells) < 3 or not any(_NAME.match(cell) for cell in cells):
        return None
    named = any(cell.lower().startswith("kernel") for cell in cells) or "Instances" in cells
    return delimiter if named and any(_TIME.match(cell) for cell in cells) else None


def read_profile(source: Source) -> Reading:
    """The kernels that took most of the time."""
    rows, problems, header = list[dict[str, str]](), list[Problem](), list[str]()
    total, delimiter = 0, None
    for number, line in source.lines():
        if not header:
            if delimiter := _delimiter(line):
                header = [cell.strip("\ufeff ") for cell in _cells(line, delimiter)]
            continue
        if not line.strip():
            if total:
                break  # another report may follow
            continue
        cells = _cells(line, delimiter or ",")
        total += 1
        if len(cells) != len(header):
            problems.append(Problem(line=number, what="has not as many cells as the header"))
        elif len(rows) < _KEPT_KERNELS:
            rows.append({name: cell.strip()[:200] for name, cell in zip(header, cells, strict=True)})
    if not rows:
        raise Unreadable("a header of a kernel table, but no row")
    return Reading(
        path=str(source.path),
        format="kernel_profile_csv",
        kind="note",
        tool="profiler",
        status="partial" if problems else "parsed",
        lines=line_count(total + 1, len(problems)),
        problems=tuple(problems[:20]),
        extra={"kernels": rows, "rows": total},
    )


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:
        return line.split(delimiter)


FORMATS = [
    Format(
        name="triton_moe_config",
        kind="note",
        sniff=sniff_tuned,
        read=read_tuned,
        docs="Tuned Triton MoE configurations (`E=…,N=…,device_name=….json`): GPU, shape, batch "
        "sizes covered.",
    ),
    Format(
        name="kernel_profile_csv",
        kind="note",
        version=2,
        sniff=sniff_profile,
        read=read_profile,
        docs="A profiler's time per kernel as CSV (Nsight Systems, torch profiler).",
    ),
]
