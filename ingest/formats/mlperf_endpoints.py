"""MLPerf's client for endpoints: ``result_summary.json`` and ``report.txt`` of a run.

Owns their nesting. The JSON counts in nanoseconds, the report in milliseconds; TPS counts output tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ingest.bench import cells, jsontext
from ingest.bench.families import statistic
from ingest.bench.identity import Facts, benchmark, experiment
from ingest.bench.sniffing import below_pages, needing
from ingest.formats import Format, Unreadable
from ingest.formats.llama_bench import count_of
from ingest.sources import Source
from kb.model import Measurement, Problem, Reading

_TOOL = "mlperf endpoints"
_MEASURES = {"ttft": "ttft_ms", "tpot": "tpot_ms", "latency": "e2e_ms"}
_COUNTS = {"n_samples_completed": "completed", "n_samples_failed": "failed"}
_RATES = {"qps": "request_s", "tps": "output_tok_s"}
_LOAD = {"target_qps": "request_rate", "target_concurrency": "concurrency"}
_NS = 1e-6

_SUMMARY = {
    "total samples issued": "prompts",
    "total samples completed": "completed",
    "total samples failed": "failed",
    "duration": "duration_s",
    "qps": "request_s",
    "tps": "output_tok_s",
}
_MEASURE = re.compile(r"^(?P<name>TTFT|TPOT|Latency)(?: \(ms\))?:\s*$")
_BLOCK = re.compile(r"^ +(?P<name>[A-Z][\w -]*?)(?: \(.*\))?:\s*$")
_ROW = re.compile(
    r"^(?P<deep> *)(?P<key>[A-Za-z][\w .]*?|\d+(?:\.\d+)?): (?P<v>-?[\d.]+)(?: (?:ms|seconds))?\s*$"
)
_TARGET = re.compile(r"\b(?P<key>target_qps|target_concurrency)=(?P<v>\d+(?:\.\d+)?)\b")
_WORDS = {"avg.": "mean", "std dev.": "std"}


@below_pages
@needing("n_samples_issued", "Total samples issued")
def _sniff(source: Source) -> float:
    head = source.head
    if jsontext.looks_like_json(head):
        return 0.96 if {"n_samples_issued", "duration_ns"} <= jsontext.keys_in(head, 3000) else 0.0
    return 0.95 if re.search(r"^Total samples issued: \d", head, re.MULTILINE) else 0.0


def _read(source: Source) -> Reading:
    if jsontext.looks_like_json(source.head):
        return _read_summary(source)
    return _read_report(source)


def _read_summary(source: Source) -> Reading:
    documents = jsontext.load(source)
    found = [(line, one) for line, one in documents.objects() if "n_samples_issued" in one]
    if not found:
        raise Unreadable("no object counts the samples that were issued")
    stopped = [
        Problem(line=line, what="the run is not complete; its figures cover a part of it")
        for line, one in found
        if one.get("complete") is False
    ]
    points = [_point(one, line) for line, one in found]
    return _reading(source, points, [*documents.problems, *stopped])


def _point(summary: Mapping[str, Any], line: int) -> Measurement:
    metrics: dict[str, float | None] = dict(_named(summary, _COUNTS | _RATES))
    if (lasted := cells.number(summary.get("duration_ns"))) is not None:
        metrics["duration_s"] = lasted / 1e9
    for key, base in _MEASURES.items():
        spread = _mapping(summary.get(key))
        for name, raw in (*spread.items(), *_mapping(spread.get("percentiles")).items()):
            stat, value = _statistic(str(name)), cells.number(raw)
            if stat and value is not None:
                metrics.setdefault(f"{base}_{stat}", value * _NS)
    pattern = _mapping(_mapping(summary.get("run_config")).get("load_pattern"))
    load = dict(_named(pattern, _LOAD)) | dict(_named(summary, {"n_samples_issued": "prompts"}))
    length = cells.number(_mapping(summary.get("output_sequence_lengths")).get("avg"))
    load |= {"output_len": length} if length is not None else {}
    return _measured(load, metrics, line)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _named(given: Mapping[str, Any], names: Mapping[str, str]) -> Iterable[tuple[str, float]]:
    for key, name in names.items():
        if (value := cells.number(given.get(key))) is not None:
            yield name, value


def _statistic(name: str) -> str | None:
    """``mean`` for "avg", ``p99`` for "99.0", ``p99_9`` for "99.9"; ``None`` for totals."""
    low = name.strip().lower()
    return statistic("p" + re.sub(r"\.0+$", "", low) if low[:1].isdigit() else _WORDS.get(low, low))


def _read_report(source: Source) -> Reading:
    lines = list(source.lines())
    load: dict[str, float] = {}
    metrics: dict[str, float | None] = {}
    base, block, used = "", "", 0
    for _, text in lines:
        if text.lstrip().startswith("load_pattern:"):
            load |= {_LOAD[one["key"]]: float(one["v"]) for one in _TARGET.finditer(text)}
        elif measure := _MEASURE.match(text):
            base, block = _MEASURES[measure["name"].lower()], ""
        elif heading := _BLOCK.match(text):
            block = heading["name"]
        elif (row := _ROW.match(text)) and (name := _place(row, base, block)):
            used += 1
            metrics.setdefault(name, float(row["v"]))
    if (issued := metrics.pop("prompts", None)) is not None:
        load["prompts"] = issued
    if not metrics:
        raise Unreadable("the report breaks off before its figures")
    return _reading(source, [_measured(load, metrics, 1)], [], lines=count_of(lines, used))


def _place(row: re.Match[str], base: str, block: str) -> str | None:
    """The metric of a row: of the summary above, or of a measure and of what stands plainly below it."""
    if not row["deep"]:
        return None if base else _SUMMARY.get(row["key"].lower())
    stat = _statistic(row["key"]) if base and block in ("", "Percentiles") else None
    return f"{base}_{stat}" if stat else None


def _measured(load: Mapping[str, float], metrics: dict[str, float | None], line: int) -> Measurement:
    exact = {name: value for name, value in load.items() if name == "request_rate" and value % 1}
    whole = {name: round(value) for name, value in load.items()}
    return Measurement(workload=whole | exact, metrics=metrics, client=_TOOL, line=line)


def _reading(source: Source, points: list[Measurement], problems: list[Problem], **fields: Any) -> Reading:
    run = experiment(Facts(), points)
    return benchmark(source, "mlperf_endpoints", [run], tool=_TOOL, problems=problems, **fields)


FORMAT = Format(
    name="mlperf_endpoints",
    kind="benchmark",
    sniff=_sniff,
    read=_read,
    docs=(
        "What MLPerf's client for endpoints writes of a run: `result_summary.json` in nanoseconds and "
        "`report.txt` in milliseconds, with rates, counts and the spread of each latency; the estimates of "
        "early stopping and the histograms are left out."
    ),
)
