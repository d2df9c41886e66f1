"""Other performance logs beside serving runs: nvbandwidth, trtexec, step latencies, SuperBench.

Owns their few figures. None of them measures a serving engine: their readings say what they are, and no more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ingest.bench import cells, jsontext
from ingest.bench.identity import Facts, benchmark, experiment
from ingest.bench.sniffing import below_pages, needing
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import LineCount, Measurement, Reading

_SUM = re.compile(r"^SUM (?P<test>\w+) (?P<v>\d+(?:\.\d+)?)")
_DEVICE = re.compile(r"^Device \d+: (?P<name>.+?)(?: \([0-9A-Fa-f:.]+\))?\s*$")
_DRIVER = re.compile(r"^Driver Version: (?P<v>\d+(?:\.\d+)+)")


@below_pages
@needing("nvbandwidth Version:")
def _sniff_bandwidth(source: Source) -> float:
    return 0.97 if re.search(r"^nvbandwidth Version:", source.head, re.MULTILINE) else 0.0


def _read_bandwidth(source: Source) -> Reading:
    facts, points, gpus, total = Facts(), [], 0, 0
    for number, text in source.lines():
        total = number
        done, device, driver = _SUM.match(text), _DEVICE.match(text), _DRIVER.match(text)
        if done:
            metrics: dict[str, float | None] = {"bandwidth_gb_s": float(done["v"])}
            points.append(
                Measurement(
                    workload={"test": done["test"]}, metrics=metrics, client="nvbandwidth", line=number
                )
            )
        elif device:
            facts.gpu, gpus = facts.gpu or device["name"], gpus + 1
        elif driver:
            facts.driver = driver["v"]
    facts.gpu_count = gpus or None
    used = len(points) + gpus
    count = LineCount(total=total, understood=used, unknown=total - used)
    return benchmark(source, "nvbandwidth", [experiment(facts, points)], tool="nvbandwidth", lines=count)


_TRT_ROW = re.compile(r"\[I\] (?P<key>Latency|Host Latency|GPU Compute(?: Time)?)\s*(?::\s*\S.*)?$")
_TRT_STAT = re.compile(
    r"(?P<stat>min|max|mean|median|percentile)(?:\((?P<p>\d+)%\))?\s*[=:]\s*"
    r"(?P<v>\d+(?:\.\d+)?) ms(?: at (?P<q>\d+)%)?"
)
_TRT_RATE = re.compile(r"\[I\] [Tt]hroughput\s*:\s*(?P<v>\d+(?:\.\d+)?) qps")
_TRT_NAMES = {
    "Latency": "e2e_ms",
    "Host Latency": "e2e_ms",
    "GPU Compute": "gpu_compute_ms",
    "GPU Compute Time": "gpu_compute_ms",
}


@below_pages
@needing("Options ===")
def _sniff_trtexec(source: Source) -> float:
    return 0.97 if re.search(r"\[I\] === (?:Model|Build) Options ===", source.head) else 0.0


def _read_trtexec(source: Source) -> Reading:
    metrics: dict[str, float | None] = {}
    total, section, name = 0, "", None
    for number, text in source.lines():
        total, row, rate = number, _TRT_ROW.search(text), _TRT_RATE.search(text)
        model = re.search(r"\[I\] Model: (\S+)", text)
        name = model[1] if model else name
        if rate:
            metrics["request_s"] = float(rate["v"])
        section = row["key"] if row else "" if re.search(r"\[I\] [A-Z]", text) else section
        if section and "Average on" not in text:
            metrics |= _trt_metrics(section, text)
    point = Measurement(metrics=metrics, client="trtexec", line=1)
    count = LineCount(total=total, understood=len(metrics), unknown=total - len(metrics))
    return benchmark(source, "trtexec", [experiment(Facts(model=name), [point])], tool="trtexec", lines=count)


def _trt_metrics(section: str, text: str) -> dict[str, float | None]:
    """Statistics of one section, on its own line (TensorRT 8) or on lines below it (TensorRT 7)."""
    stats: dict[str, float | None] = {}
    for part in _TRT_STAT.finditer(text):
        percentile = part["p"] or part["q"]
        stat = f"p{percentile}" if percentile else {"median": "p50"}.get(part["stat"], part["stat"])
        stats[f"{_TRT_NAMES[section]}_{stat}"] = float(part["v"])
    return stats


_STEP = re.compile(r"^Latency of step \d+: (?P<v>\d+(?:\.\d+)?) ms")


@below_pages
@needing("Latency of step ")
def _sniff_steps(source: Source) -> float:
    return 0.9 if len(re.findall(r"^Latency of step \d+: ", source.head, re.MULTILINE)) >= 3 else 0.0


def _read_steps(source: Source) -> Reading:
    values: list[float] = []
    total = 0
    for number, text in source.lines():
        total = number
        found = _STEP.match(text)
        if found:
            values.append(float(found["v"]))
    if not values:
        raise Unreadable("no step latency in the text")
    metrics = dict(_distribution(sorted(values)))
    point = Measurement(workload={"test": "step latency"}, metrics=metrics, client="superbench", line=1)
    count = LineCount(total=total, understood=len(values), unknown=total - len(values))
    return benchmark(
        source, "step_latency_log", [experiment(Facts(), [point])], tool="superbench", lines=count
    )


def _distribution(known: list[float]) -> Iterable[tuple[str, float | None]]:
    yield "step_ms_mean", sum(known) / len(known)
    for share in (50, 90, 99):
        yield f"step_ms_p{share}", known[min(len(known) - 1, len(known) * share // 100)]


def _sniff_superbench(source: Source) -> float:
    head = source.head
    if not jsontext.looks_like_json(head) or '"node"' not in head[:4000]:
        return 0.0
    return 0.9 if sum("/" in key for key in jsontext.keys_in(head, 200)) >= 5 else 0.0


def _read_superbench(source: Source) -> Reading:
    documents = jsontext.load(source)
    rows = [(line, one) for line, one in documents.objects() if "node" in one]
    if not rows:
        raise Unreadable("no object with a node among the JSON lines")
    return benchmark(
        source,
        "superbench_results",
        [experiment(Facts(), [_node(row, line)]) for line, row in rows],
        tool="superbench",
        problems=documents.problems,
        rows=len(rows),
    )


def _node(row: dict[str, Any], line: int) -> Measurement:
    """A node's figures under their own names: they measure machines, not serving."""
    metrics = {key: value for key, raw in row.items() if (value := cells.number(raw)) is not None}
    return Measurement(
        workload={"test": f"node {row['node']}"}, metrics=dict(metrics), client="superbench", line=line
    )


FORMATS = [
    Format(
        name="nvbandwidth",
        kind="benchmark",
        sniff=_sniff_bandwidth,
        read=_read_bandwidth,
        version=2,
        docs=("nvbandwidth's text output: the sum of each copy test in GB/s, devices and driver."),
    ),
    Format(
        name="trtexec",
        kind="benchmark",
        sniff=_sniff_trtexec,
        read=_read_trtexec,
        version=2,
        docs=(
            "trtexec's log (TensorRT, not TensorRT-LLM): throughput and latencies of its performance summary."
        ),
    ),
    Format(
        name="step_latency_log",
        kind="benchmark",
        sniff=_sniff_steps,
        read=_read_steps,
        version=2,
        docs=("Logs of `Latency of step n: x ms`, folded into one distribution."),
    ),
    Format(
        name="superbench_results",
        kind="benchmark",
        sniff=_sniff_superbench,
        read=_read_superbench,
        version=2,
        docs=(
            "SuperBench's result lines: one object per node with flat metric names, kept under their own "
            "names."
        ),
    ),
]
