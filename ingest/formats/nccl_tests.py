"""nccl-tests (and rccl-tests): bandwidth of collectives by message size.

Owns their columns, which differ between collectives. Must not read NCCL's own log lines.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from ingest.bench import cells
from ingest.bench.identity import Facts, benchmark, experiment
from ingest.bench.sniffing import below_pages, needing
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import LineCount, Measurement, Reading

_TOOL = "nccl-tests"
_COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "alltoall",
    "broadcast",
    "reduce",
    "sendrecv",
    "scatter",
    "gather",
    "hypercube",
)
_OF_RANK = r"(?:\[\d+(?:,\d+)?\](?:<stdout>:)?|\d+:)"  # what mpirun and srun put before a line
_TAG = re.compile(rf"^{_OF_RANK}[ \t]*(?=#|\d)")
_HEAD = re.compile(rf"^{_OF_RANK}?[ \t]*#?\s+size\s+count\s+(?:\S*\s+)?type\b.*\balgbw\s+busbw", re.MULTILINE)
_ROW = re.compile(r"^\s*(?P<size>\d{1,18})\s+(?P<count>\d{1,18})\s+(?P<type>[a-z]\w+)\s+(?P<rest>.*\d.*)$")
_RANK = re.compile(
    r"^(?:#\s+)?Rank\s+(?P<n>\d+)\s.*?(?:\[0x[0-9a-fA-F]+\]|\[[0-9a-fA-F:.]+\])\s+(?P<gpu>\S.*?)\s*$"
)
_AVERAGE = re.compile(r"^# Avg bus bandwidth\s*:\s*(?P<v>\d+(?:\.\d+)?)")
_BAD = re.compile(r"^# Out of bounds values\s*:\s*(?P<n>\d+)\s*(?P<word>\w+)")
_NAMED = re.compile(rf"\b(?P<test>{'|'.join(_COLLECTIVES)})_perf(?:_mpi)?\b")  # by command, start, or end


_BEGUN = re.compile(  # NCCL's own log may stand between this and the table
    rf"^{_OF_RANK}?[ \t]*# nThread \d+ nGpus \d+ minBytes \d+", re.MULTILINE
)
_DEVICES = "# Using devices"  # a run lists its own: several in one file use the same cards


@below_pages
@needing("algbw", "# Using devices")
def _sniff(source: Source) -> float:
    return 0.97 if _HEAD.search(source.head) else 0.9 if _BEGUN.search(source.head) else 0.0


def _read(source: Source) -> Reading:
    points: list[Measurement] = []
    gpus: Counter[str] = Counter()
    told: dict[str, float | str] = {}
    test, total, ranks, most = _collective(source.name), 0, 0, 0
    for number, line in source.lines():
        total, text = number, line.strip()
        if tag := _TAG.match(text):
            text = text[tag.end() :].replace(tag[0].strip(), " ")
        row, rank, named = _ROW.match(text), _RANK.match(text), _NAMED.search(text)
        if named and not row:
            test = named["test"]
        elif text.startswith(_DEVICES):
            ranks += gpus.total()
            gpus.clear()
            most = 0
        elif rank:
            gpus[rank["gpu"]] += 1
            most = max(most, int(rank["n"]) + 1)  # a listing may be shortened
        elif row and (point := _point(row, test, number)):
            points.append(point)
        else:
            _told(text, told)
    if not points:
        raise Unreadable("the table of nccl-tests has no rows; the test was stopped")
    used = len(points) + ranks + gpus.total() + len(told)
    facts = Facts(gpu=gpus.most_common(1)[0][0] if gpus else None, gpu_count=max(gpus.total(), most) or None)
    return benchmark(
        source,
        "nccl_tests",
        [experiment(facts, [_of(point, test) for point in points])],
        tool=_TOOL,
        lines=LineCount(total=total, understood=used, unknown=total - used),
        extra={"collective": test, **told},
    )


def _collective(name: str) -> str | None:
    flat = re.sub(r"[^a-z]", "", name.lower())
    return next((one for one in _COLLECTIVES if one.replace("_", "") in flat), None)


def _point(row: re.Match[str], test: str | None, line: int) -> Measurement | None:
    """Figures of one size, out of place and in place; redop and root stand only for some collectives."""
    parts = row["rest"].split()
    while parts and not re.match(r"^[\d.]+$", parts[0]):
        parts.pop(0)
    if len(parts) in (5, 9) and re.fullmatch(r"-?\d+", parts[0]):
        parts.pop(0)
    numbers = [cells.number(part) for part in parts]
    if len(numbers) < 4:
        return None
    names = ("time_us", "algbw_gb_s", "busbw_gb_s")
    metrics = dict(zip(names, numbers[:3], strict=True))
    metrics |= {f"in_place_{name}": value for name, value in zip(names, numbers[4:7], strict=False)}
    load = {"test": test, "size_bytes": int(row["size"]), "dtype": row["type"]}
    return Measurement(
        workload={key: value for key, value in load.items() if value is not None},
        metrics={key: value for key, value in metrics.items() if value is not None},
        client=_TOOL,
        line=line,
    )


def _of(point: Measurement, test: str | None) -> Measurement:
    """A point of the collective that only the end of the output names."""
    if test is None or "test" in point.workload:
        return point
    return replace(point, workload={"test": test, **point.workload})


def _told(text: str, told: dict[str, float | str]) -> None:
    average, bad = _AVERAGE.match(text), _BAD.match(text)
    if average:
        told["avg_bus_bandwidth_gb_s"] = float(average["v"])
    elif bad:
        told["out_of_bounds_values"] = f"{bad['n']} {bad['word']}"


FORMAT = Format(
    name="nccl_tests",
    kind="benchmark",
    sniff=_sniff,
    read=_read,
    version=4,
    docs=(
        "The tables of nccl-tests and rccl-tests: one point per message size with time, algorithm and bus "
        "bandwidth, out of place and in place; ranks give GPU and count. Which collective it was comes "
        "from the command, the header, or the last line, and failing those, from the file's name."
    ),
)
