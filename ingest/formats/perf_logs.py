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
from kb.model import Experiment, LineCount, Measurement, Problem, Reading

_SUM = re.compile(r"^SUM (?P<test>\w+) (?P<v>\d+(?:\.\d+)?)")
_DEVICE = re.compile(
    r"^(?:Device|Process +\d+ \([^)]*\): device) \d+: (?P<name>.+?)(?: \([0-9A-Fa-f:.]+\))?\s*$"
)
_DRIVER = re.compile(r"^Driver Version: (?P<v>\d+(?:\.\d+)+)")
_RUNNING = re.compile(r"^Running (?P<test>\w+)\.\s*$")
_NANOSECONDS = re.compile(r"\(column\) \(ns\)\s*$")
_CELLS = re.compile(r"^ *\d+(?P<cells>(?: +(?:\d+\.\d+|N/A))+)\s*$")


@below_pages
@needing("nvbandwidth Version:")
def _sniff_bandwidth(source: Source) -> float:
    return 0.97 if re.search(r"^nvbandwidth Version:", source.head, re.MULTILINE) else 0.0


def _read_bandwidth(source: Source) -> Reading:
    facts, points, gpus, total = Facts(), list[Measurement](), 0, 0
    latencies: list[float] | None = None
    running: dict[str, int] = {}
    for number, text in source.lines():
        total = number
        done, device, driver = _SUM.match(text), _DEVICE.match(text), _DRIVER.match(text)
        if done:
            points.append(_copy_test(done, latencies, number))
            latencies, running = None, {}
        elif device:
            facts.gpu, gpus = facts.gpu or device["name"], gpus + 1
        elif driver:
            facts.driver = driver["v"]
        elif begun := _RUNNING.match(text):
            running[begun["test"]] = number
        elif _NANOSECONDS.search(text):
            latencies = []
        elif latencies is not None and (row := _CELLS.match(text)):
            latencies += [float(cell) for cell in row["cells"].split() if cell != "N/A"]
    facts.gpu_count = gpus or None
    used = len(points) + gpus
    count = LineCount(total=total, understood=used, unknown=total - used)
    return benchmark(
        source,
        "nvbandwidth",
        [experiment(facts, points)],
        tool="nvbandwidth",
        lines=count,
        problems=[Problem(line=at, what=f"{test} ended without a result") for test, at in running.items()],
    )


def _copy_test(done: re.Match[str], latencies: list[float] | None, line: int) -> Measurement:
    """A test's bandwidths together; latencies, which a sum says nothing of, as their mean."""
    metrics: dict[str, float | None] = {"bandwidth_gb_s": float(done["v"])}
    if latencies is not None:
        metrics = {"latency_ns_mean": sum(latencies) / len(latencies)} if latencies else {}
    return Measurement(workload={"test": done["test"]}, metrics=metrics, client="nvbandwidth", line=line)


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


_TRT_FACTS = {
    "model": re.compile(r"\[I\] Model: (\S+)"),
    "gpu": re.compile(r"\[I\] Selected Device: (\S.*?)\s*$"),
    "version": re.compile(r"\[I\] TensorRT version: (\d+(?:\.\d+)+)"),
}
_TRT_FAILED = re.compile(r"^&&&& FAILED TensorRT\.trtexec")
_TRT_ERROR = re.compile(r"\[E\] (?P<what>\S.*)")


@below_pages
@needing("Options ===")
def _sniff_trtexec(source: Source) -> float:
    return 0.97 if re.search(r"\[I\] === (?:Model|Build) Options ===", source.head) else 0.0


def _read_trtexec(source: Source) -> Reading:
    metrics: dict[str, float | None] = {}
    told, errors, failed = dict[str, str](), list[Problem](), False
    total, section = 0, ""
    for number, text in source.lines():
        total, row, rate = number, _TRT_ROW.search(text), _TRT_RATE.search(text)
        told |= {name: one[1] for name, pattern in _TRT_FACTS.items() if (one := pattern.search(text))}
        failed = failed or bool(_TRT_FAILED.match(text))
        if error := _TRT_ERROR.search(text):
            errors.append(Problem(line=number, what=f"trtexec failed: {error['what'][:200]}"))
        if rate:
            metrics["request_s"] = float(rate["v"])
        section = row["key"] if row else "" if re.search(r"\[I\] [A-Z]", text) else section
        if section and "Average on" not in text:
            metrics |= _trt_metrics(section, text)
    return benchmark(
        source,
        "trtexec",
        [_trt_experiment(told, metrics)],
        tool="trtexec",
        tool_version=told.get("version"),
        lines=LineCount(total=total, understood=len(metrics), unknown=total - len(metrics)),
        problems=(errors or [Problem(line=total, what="trtexec failed")])[:1] if failed else (),
    )


def _trt_experiment(told: dict[str, str], metrics: dict[str, float | None]) -> Experiment:
    facts = Facts(model=told.get("model"), gpu=told.get("gpu"), gpu_count=1 if "gpu" in told else None)
    return experiment(facts, [Measurement(metrics=metrics, client="trtexec", line=1)] if metrics else [])


def _trt_metrics(section: str, text: str) -> dict[str, float | None]:
    """Statistics of one section, on its own line (TensorRT 8) or on lines below it (TensorRT 7)."""
    stats: dict[str, float | None] = {}
    for part in _TRT_STAT.finditer(text):
        percentile = part["p"] or part["q"]
        stat = f"p{percentile}" if percentile else {"median": "p50"}.get(part["stat"], part["stat"])
        stats[f"{_TRT_NAMES[section]}_{stat}"] = float(part["v"])
    return stats


_STEP = re.compile(r"^Latency of step \d+: (?P<v>\d+(?:\.\d+)?) ms")
_SHAPE = re.compile(r"\b(m|n|k|num_layers)=(\d+)")


@below_pages
@needing("Latency of step ")
def _sniff_steps(source: Source) -> float:
    return 0.9 if len(re.findall(r"^Latency of step \d+: ", source.head, re.MULTILINE)) >= 3 else 0.0


def _read_steps(source: Source) -> Reading:
    """A point for each shape: the steps of its ranks and repetitions together."""
    shapes: dict[tuple[tuple[str, int], ...], list[tuple[int, float]]] = {}
    total, shape = 0, tuple[tuple[str, int], ...]()
    for number, text in source.lines():
        total = number
        found = _STEP.match(text)
        if found:
            shapes.setdefault(shape, []).append((number, float(found["v"])))
        elif text.startswith("Parameters: "):
            shape = tuple((name, int(value)) for name, value in _SHAPE.findall(text))
    if not shapes:
        raise Unreadable("no step latency in the text")
    points = [_steps(dict(shape), steps) for shape, steps in shapes.items()]
    used = sum(map(len, shapes.values()))
    count = LineCount(total=total, understood=used, unknown=total - used)
    return benchmark(
        source, "step_latency_log", [experiment(Facts(), points)], tool="superbench", lines=count
    )


def _steps(shape: dict[str, int], steps: list[tuple[int, float]]) -> Measurement:
    metrics = dict(_distribution(sorted(value for _, value in steps)))
    load = {"test": "step latency"} | shape
    return Measurement(workload=load, metrics=metrics, client="superbench", line=steps[0][0])


def _distribution(known: list[float]) -> Iterable[tuple[str, float | None]]:
    yield "step_ms_mean", sum(known) / len(known)
    for share in (50, 90, 99):
        yield f"step_ms_p{share}", known[min(len(known) - 1, len(known) * share // 100)]


_RETURN_CODE = "/return_code"  # one for each benchmark that was tried; a node's name stands last, if at all


def _sniff_superbench(source: Source) -> float:
    head = source.head
    if not jsontext.looks_like_json(head) or not ('"node"' in head or f'{_RETURN_CODE}"' in head):
        return 0.0
    return 0.9 if sum("/" in key for key in jsontext.keys_in(head, 200)) >= 5 else 0.0


def _read_superbench(source: Source) -> Reading:
    documents = jsontext.load(source)
    rows = [(line, one) for line, one in documents.objects() if _is_node(one)]
    if not rows:
        raise Unreadable("no object of a node's figures among the JSON lines")
    return benchmark(
        source,
        "superbench_results",
        [experiment(Facts(), [_node(row, line)]) for line, row in rows],
        tool="superbench",
        problems=documents.problems,
        rows=len(rows),
    )


def _is_node(row: dict[str, Any]) -> bool:
    return "node" in row or any(key.endswith(_RETURN_CODE) for key in row)


def _node(row: dict[str, Any], line: int) -> Measurement:
    """A node's figures under their own names: they measure machines, not serving."""
    metrics = {
        key: value for key, raw in row.items() if key != "node" and (value := cells.number(raw)) is not None
    }
    test = f"node {row['node']}" if "node" in row else "one node"
    return Measurement(workload={"test": test}, metrics=dict(metrics), client="superbench", line=line)


FORMATS = [
    Format(
        name="nvbandwidth",
        kind="benchmark",
        sniff=_sniff_bandwidth,
        read=_read_bandwidth,
        version=3,
        docs=(
            "nvbandwidth's text output: the sum of each copy test in GB/s, the mean of a latency test in ns, "
            "devices (of all processes) and driver."
        ),
    ),
    Format(
        name="trtexec",
        kind="benchmark",
        sniff=_sniff_trtexec,
        read=_read_trtexec,
        version=3,
        docs=(
            "trtexec's log (TensorRT, not TensorRT-LLM): throughput and latencies of its summary, "
            "the device and the version; a build that failed says so."
        ),
    ),
    Format(
        name="step_latency_log",
        kind="benchmark",
        sniff=_sniff_steps,
        read=_read_steps,
        version=3,
        docs=("Logs of `Latency of step n: x ms`, folded into one distribution for each shape."),
    ),
    Format(
        name="superbench_results",
        kind="benchmark",
        sniff=_sniff_superbench,
        read=_read_superbench,
        version=3,
        docs=(
            "SuperBench's result lines, or the summary of one node: an object per node with flat metric "
            "names, kept under their own names."
        ),
    ),
]
