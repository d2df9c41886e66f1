"""Sweeps of collectives over message sizes as CSV: people's own copies of what nccl-tests measures.

Owns the columns of such tables and their units. Must not read the tool's own table (``nccl_tests``) or
results of serving.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from ingest.bench import cells, tables
from ingest.bench.identity import Facts, benchmark, experiment
from ingest.bench.quantities import words_of
from ingest.bench.sniffing import needing
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import Measurement, Problem, Reading

_CLIENT = "table"
_LOADS = (
    ("size_bytes", re.compile(r"(?:message |msg |data |buffer )?(?:size|bytes)(?: bytes| b)?|size bytes")),
    ("count", re.compile(r"count(?: elem(?:ent)?s)?|(?:size )?elements|num elements")),
    ("dtype", re.compile(r"d?type|data ?type")),
    ("test", re.compile(r"op|operation|collective|test|name|algo(?:rithm)?")),
    ("gpus", re.compile(r"(?:n|num) ?(?:gpus?|ranks?)|ranks|world size|gpus")),
)
_UNITS = r"(?: (?P<unit>gb ?s|gbs|g b s|g bs|g bps|gbps))?"
_BANDWIDTHS = (
    ("algbw_gb_s", re.compile(r"alg(?:o(?:rithm)?)?(?: ?bw| bandwidth)" + _UNITS)),
    ("busbw_gb_s", re.compile(r"bus(?: ?bw| bandwidth)" + _UNITS)),
)
_TIME = re.compile(
    r"(?:(?:avg|mean|median) )?(?:time|latency|duration)(?: (?P<unit>us|µs|ms|s))?"
    r"|(?:avg|t) (?P<only>us|µs|ms|s)"
)
_MICROSECONDS = {"us": 1.0, "µs": 1.0, "ms": 1e3, "s": 1e6}
_PLACES = (  # nccl-tests measures both; what does not say is the former
    ("", re.compile(r" ?\b(?:out(?: of)?(?: place)?|oop)\b ?")),
    ("in_place_", re.compile(r" ?\b(?:in(?: place)?|ip)\b ?")),
)
_BITS, _CLOSE = 8.0, 0.1


class _Column(NamedTuple):
    """What a column holds; ``bits`` where its unit may be GB/s or Gbit/s."""

    kind: str
    name: str
    factor: float = 1.0
    bits: bool = False


def _columns(header: Sequence[str]) -> dict[int, _Column]:
    return {index: found for index, label in enumerate(header) if (found := _column(words_of(label)))}


def _column(words: str) -> _Column | None:
    place, bare = next(
        ((name, one.sub(" ", words).strip()) for name, one in _PLACES if one.search(words)), ("", words)
    )
    for name, pattern in _BANDWIDTHS:
        if band := pattern.fullmatch(bare):
            return _Column("metric", place + name, bits=band["unit"] == "gbps")
    if load := next((name for name, pattern in _LOADS if pattern.fullmatch(words)), None):
        return _Column("workload", load)
    if time := _TIME.fullmatch(bare):
        return _Column("metric", f"{place}time_us", _MICROSECONDS[time["unit"] or time["only"] or "us"])
    return None


def _settled(columns: dict[int, _Column], rows: Sequence[Sequence[str]]) -> dict[int, _Column]:
    """Columns in "gbps" with what size over time says that it means; without them where nothing says it."""
    if not any(one.bits for one in columns.values()):
        return columns
    unsure = {index: one._replace(bits=False) for index, one in columns.items()}
    ratios = [ratio for row in rows if (point := _point(row, unsure, 0)) and (ratio := _ratio(point))]
    for unit in (1.0, _BITS):
        if ratios and all(abs(ratio / unit - 1) < _CLOSE for ratio in ratios):
            return {
                index: one._replace(factor=1 / unit if columns[index].bits else one.factor)
                for index, one in unsure.items()
            }
    return {index: one for index, one in columns.items() if not one.bits}


def _ratio(point: Measurement) -> float | None:
    """The printed algorithm bandwidth over size / time; None for sizes that rounding spoils."""
    size, time, told = (
        point.workload.get("size_bytes"), point.metrics.get("time_us"), point.metrics.get("algbw_gb_s"),
    )  # fmt: skip
    if not isinstance(size, int | float) or not time or not told or told < 1:
        return None
    return told * time * 1e3 / size


@needing("busbw", "bus_bw", "BusBW", "busBw", "bus bandwidth", "bus_bandwidth", "Bus Bandwidth")
def _sniff(source: Source) -> float:
    first = source.head.lstrip("\ufeff").split("\n", 1)[0]
    if first[:1] in "#{[|" or first.count(",") + first.count(";") + first.count("\t") < 2:
        return 0.0
    names = {one.name for one in _columns(tables.delimited(first)[0]).values()}
    return 0.9 if "busbw_gb_s" in names and "size_bytes" in names else 0.0


def _read(source: Source) -> Reading:
    rows = tables.delimited(source.text.lstrip("\ufeff"))
    if not rows:
        raise Unreadable("the table is empty")
    columns = _settled(_columns(rows[0]), rows[1:])
    pairs = [(line, _point(row, columns, line)) for line, row in enumerate(rows[1:], 2) if any(row)]
    points = [point for _, point in pairs if point]
    if not points:
        raise Unreadable("the table has no rows with a bandwidth")
    empty = [Problem(line=line, what="the row holds no figure") for line, point in pairs if not point]
    return benchmark(
        source, "nccl_tests_csv", [experiment(Facts(), points)], rows=len(pairs), problems=empty[:20]
    )


def _point(row: Sequence[str], columns: dict[int, _Column], line: int) -> Measurement | None:
    load: dict[str, Any] = {}
    metrics: dict[str, float | None] = {}
    for index, (kind, name, factor, _) in columns.items():
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
    version=2,
    sniff=_sniff,
    read=_read,
    docs=(
        "Sweeps of a collective over message sizes as CSV, as people's own runners of NCCL or RCCL write "
        "them: size, time, algorithm and bus bandwidth, one point per row. What `gbps` means is settled by "
        "size over time, or left out."
    ),
)
