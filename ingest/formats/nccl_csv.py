"""Sweeps of collectives over message sizes as CSV: people's own copies of what nccl-tests measures.

Owns the columns of such tables. Must not read the tool's own table (``nccl_tests``) or results of serving.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ingest.bench import cells, tables
from ingest.bench.identity import Facts, benchmark, experiment
from ingest.bench.quantities import words_of
from ingest.bench.sniffing import needing
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import Measurement, Reading

_CLIENT = "table"
_LOADS = (
    ("size_bytes", re.compile(r"(?:message |msg |data |buffer )?(?:size|bytes)(?: bytes| b)?|size bytes")),
    ("count", re.compile(r"count|(?:size )?elements|num elements")),
    ("dtype", re.compile(r"d?type|data ?type")),
    ("test", re.compile(r"op|operation|collective|test|name|algo(?:rithm)?")),
    ("gpus", re.compile(r"(?:n|num) ?(?:gpus|ranks)|ranks|world size|gpus")),
)
_BANDWIDTHS = (
    ("algbw_gb_s", re.compile(r"alg(?:o(?:rithm)?)?(?: ?bw| bandwidth)(?: gb ?s| gbs| g b s)?")),
    ("busbw_gb_s", re.compile(r"bus(?: ?bw| bandwidth)(?: gb ?s| gbs| g b s)?")),
)
_TIME = re.compile(r"(?:(?:avg|mean|median) )?(?:time|latency|duration)(?: (?P<unit>us|µs|ms|s))?")
_MICROSECONDS = {"us": 1.0, "µs": 1.0, "ms": 1e3, "s": 1e6}


def _columns(header: Sequence[str]) -> dict[int, tuple[str, str, float]]:
    """Column → ("workload" | "metric", name, factor)."""
    found: dict[int, tuple[str, str, float]] = {}
    for index, label in enumerate(header):
        words = words_of(label)
        load = next((name for name, pattern in _LOADS if pattern.fullmatch(words)), None)
        band = next((name for name, pattern in _BANDWIDTHS if pattern.fullmatch(words)), None)
        time = _TIME.fullmatch(words)
        if band:
            found[index] = ("metric", band, 1.0)
        elif load:
            found[index] = ("workload", load, 1.0)
        elif time:
            found[index] = ("metric", "time_us", _MICROSECONDS[time["unit"] or "us"])
    return found


@needing("busbw", "bus_bw", "BusBW", "busBw", "bus bandwidth", "bus_bandwidth", "Bus Bandwidth")
def _sniff(source: Source) -> float:
    first = source.head.lstrip("\ufeff").split("\n", 1)[0]
    if first[:1] in "#{[|" or first.count(",") + first.count(";") + first.count("\t") < 2:
        return 0.0
    names = {name for _, name, _ in _columns(tables.delimited(first)[0]).values()}
    return 0.9 if "busbw_gb_s" in names and "size_bytes" in names else 0.0


def _read(source: Source) -> Reading:
    rows = tables.delimited(source.text.lstrip("\ufeff"))
    if not rows:
        raise Unreadable("the table is empty")
    columns = _columns(rows[0])
    points = [point for line, row in enumerate(rows[1:], 2) if (point := _point(row, columns, line))]
    if not points:
        raise Unreadable("the table has no rows with a bandwidth")
    return benchmark(source, "nccl_tests_csv", [experiment(Facts(), points)], rows=len(rows) - 1)


def _point(row: Sequence[str], columns: dict[int, tuple[str, str, float]], line: int) -> Measurement | None:
    load: dict[str, Any] = {}
    metrics: dict[str, float | None] = {}
    for index, (kind, name, factor) in columns.items():
        raw = row[index].strip() if index < len(row) else ""
        value = cells.number(raw)
        if kind == "metric" and value is not None:
            metrics[name] = value * factor
        elif kind == "workload" and raw:
            load[name] = raw if name in ("dtype", "test") else cells.whole(raw)
    return Measurement(workload=load, metrics=metrics, client=_CLIENT, line=line) if metrics else None


FORMAT = Format(
    name="nccl_tests_csv",
    kind="benchmark",
    sniff=_sniff,
    read=_read,
    docs=(
        "Sweeps of a collective over message sizes as CSV, as people's own runners of NCCL or RCCL write "
        "them: size, time, algorithm and bus bandwidth, one point per row."
    ),
)
