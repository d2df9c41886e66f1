"""Logs of people's own runners: result lines made of key=value pairs, and progress of a test series.

Owns lines such as ``scenario c=4 ttft=0.5s decode=18 tok/s`` and START/END marks. Must not read server logs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ingest.bench import file_names, jsontext
from ingest.bench.identity import benchmark, grouped
from ingest.bench.quantities import understand
from ingest.bench.rows import Units, read_row
from ingest.bench.sniffing import below_pages, needing
from ingest.formats import Format, Unreadable
from ingest.formats.bench_csv import RESULT_PREFIXES
from ingest.sources import Source
from kb.model import Experiment, GpuTrace, LineCount, Reading, Telemetry

_PAIR = re.compile(
    r"(?:(?P<word>[A-Za-z][\w./%-]{0,40})\s?=|(?P<key>[A-Za-z][\w /%-]{0,30}?)\s*:)\s*"
    r"(?P<value>[~≈]?\d[\d,]*(?:\.\d+)?)\s*"
    r"(?P<unit>ms|s|sec|tok/s|tokens/s|t/s|tps|req/s|%|us)?(?=[\s,;|)\]]|$)"
)
_HINT = re.compile(r"(?i)ttft|tok|tps|latency|throughput|itl|tpot|e2e|t/s|req/s")
_LEVEL = re.compile(r"\b(?:INFO|WARNING|ERROR|DEBUG)\b|(?:Decode|Prefill) batch|Avg prompt throughput|\[TP\d")
_STEP = re.compile(r"(?P<mark>START|BEGIN|END|DONE|FAIL(?:ED)?)\s+(?P<name>[\w.-]+)(?:\s*\((?P<s>\d+)s\))?")
_EXIT = re.compile(r"\bexit=(?P<code>-?\d+)(?:.*?wall_s=(?P<s>\d+(?:\.\d+)?))?")
_SAMPLE = re.compile(
    r"GPU (?P<util>\d+)%, (?P<power>\d+(?:\.\d+)?) ?W, (?P<temp>\d+) ?C, (?P<clock>\d+) ?MHz"
)
_GPU_METRICS = (
    ("util", "utilization_pct"),
    ("power", "power_w"),
    ("temp", "temperature_c"),
    ("clock", "sm_clock_mhz"),
)


def _record(text: str) -> dict[str, Any] | None:
    """The pairs of a result line under labels with their units, or ``None`` where it holds no result."""
    if len(text) > 400 or not _HINT.search(text) or _LEVEL.search(text):
        return None
    found = list(_PAIR.finditer(text))
    if len(found) < 2:
        return None
    record = {_label(pair): pair["value"] for pair in found}
    told = [understand(label) for label in record]
    if not any(one and one.name.startswith(RESULT_PREFIXES) for one in told):
        return None
    before = text[: found[0].start()].strip(" :-|[]>")
    return record | ({"scenario": before} if before and not before.isdecimal() else {})


def _label(pair: re.Match[str]) -> str:
    key = (pair["word"] or pair["key"]).strip()
    return f"{key} ({pair['unit']})" if pair["unit"] else key


@below_pages
@needing("ttft", "TTFT", "tok", "tps", "atency", "hroughput", "itl", "tpot")
def _sniff(source: Source) -> float:
    lines = source.head.split("\n")[:300]
    if jsontext.looks_like_json(source.head):
        return 0.0
    if sum(_LEVEL.search(line) is not None for line in lines[:60]) > 12:
        return 0.0  # a log of a server or client, whatever single lines look like
    results = sum(_record(line) is not None for line in lines)
    logged = sum(_LEVEL.search(line) is not None for line in lines)
    written = sum(bool(line.strip()) for line in lines)
    if results >= 5 and logged * 4 <= results and results * 5 >= written:
        return 0.96  # a server's last lines may be quoted among them
    return 0.5 if results >= 3 and logged <= results else 0.0


def _read(source: Source) -> Reading:
    records = []
    total = 0
    for number, text in source.lines():
        total = number
        record = _record(text)
        if record is not None:
            records.append((number, record))
    if not records:
        raise Unreadable("no line with results")
    units = Units.of(record for _, record in records)
    told = file_names.hints(source.name)
    rows = [(number, read_row(record, units, told.facts)) for number, record in records]
    return benchmark(
        source,
        "result_lines",
        grouped([(row.facts, row.measurement("runner", number)) for number, row in rows if row.metrics]),
        lines=LineCount(total=total, understood=len(rows), unknown=total - len(rows)),
        extra=({"units": units.notes} if units.notes else {}) | told.as_extra(),
    )


@below_pages
@needing("START", "BEGIN", "exit=")
def _sniff_progress(source: Source) -> float:
    head = source.head
    if jsontext.looks_like_json(head):
        return 0.0
    steps = {found["mark"] for found in _STEP.finditer(head)}
    both = steps & {"START", "BEGIN"} and steps & {"END", "DONE", "FAIL", "FAILED"}
    exits = len(_EXIT.findall(head))
    series = len(_STEP.findall(head)) >= 2 and not _LEVEL.search(head)
    return 0.45 if (both and series) or exits >= 2 else 0.0


def _read_progress(source: Source) -> Reading:
    steps: list[dict[str, Any]] = []
    samples: list[dict[str, float]] = []
    total = used = 0
    for number, text in source.lines():
        total = number
        step, left, sample = _STEP.search(text), _EXIT.search(text), _SAMPLE.search(text)
        used += bool(step or left or sample)
        if sample:
            samples.append({name: float(sample[key]) for key, name in _GPU_METRICS})
        elif step and step["mark"] not in ("START", "BEGIN"):
            steps.append({"step": step["name"], "seconds": _seconds(step["s"]), "line": number})
        elif left:
            steps.append({"exit_code": int(left["code"]), "seconds": _seconds(left["s"]), "line": number})
    return Reading(
        path=str(source.path),
        format="runner_log",
        kind="note",
        experiments=(Experiment(),) if samples else (),
        telemetry=_telemetry(samples) if samples else None,
        lines=LineCount(total=total, understood=used, unknown=total - used),
        extra={"steps": steps[:500]},
    )


def _seconds(text: str | None) -> float | None:
    return float(text) if text else None


def _telemetry(samples: list[dict[str, float]]) -> Telemetry:
    metrics = {name: _summary([one[name] for one in samples]) for _, name in _GPU_METRICS}
    trace = GpuTrace(index=None, samples=len(samples), metrics=metrics)
    return Telemetry(samples=len(samples), rows=len(samples), gpus=(trace,))


def _summary(values: Iterable[float]) -> dict[str, float]:
    known = sorted(values)
    return {"min": known[0], "mean": sum(known) / len(known), "p50": known[len(known) // 2], "max": known[-1]}


FORMATS = [
    Format(
        name="result_lines",
        kind="benchmark",
        sniff=_sniff,
        read=_read,
        docs=(
            "Logs in which single lines are results: `name c=4 ttft=0.55s decode=18.3 tok/s`. Keys and "
            "units are read by the same grammar as columns; what stands before the first pair names the "
            "test. A rate whose key does not say which tokens it counts keeps its own name beside it."
        ),
    ),
    Format(
        name="runner_log",
        kind="note",
        sniff=_sniff_progress,
        read=_read_progress,
        docs=(
            "The progress log of a series of tests: steps with their seconds or exit codes, and GPU "
            "samples (utilisation, power, temperature, clock) where it prints them."
        ),
    ),
]
