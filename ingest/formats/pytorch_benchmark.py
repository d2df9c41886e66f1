"""PyTorch's benchmark records: vLLM's results with one metric per record (``*.pytorch.json``).

Owns joining the records of one run. Must not read vLLM's own result objects.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ingest.bench import cells, jsontext, serving
from ingest.bench.identity import Facts, benchmark, grouped
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import Measurement, Reading

_TOOL = "vLLM benchmark"
_OFFLINE = {"requests_per_second": "request_s", "tokens_per_second": "total_tok_s"}
_COUNTS = {"elapsed_time": "duration_s", "num_requests": "completed", "total_num_tokens": "total_tokens"}
_BATCH = "latency of a whole batch"


def _sniff(source: Source) -> float:
    if not jsontext.looks_like_json(source.head) or '"benchmark_values"' not in source.head:
        return 0.0
    keys = jsontext.keys_in(source.head)
    return 0.96 if {"benchmark", "metric", "benchmark_values"} <= keys else 0.0


def _read(source: Source) -> Reading:
    documents = jsontext.load(source)
    runs: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for line, record in documents.objects():
        if isinstance(record.get("metric"), Mapping):
            runs.setdefault(_run_of(record), []).append((line, record))
    pairs = [(_facts(run[0][1]), _point(run)) for run in runs.values()]
    pairs = [(facts, point) for facts, point in pairs if point.metrics]
    if not pairs:
        raise Unreadable("no record whose metric has a known meaning")
    return benchmark(
        source, "pytorch_benchmark_json", grouped(pairs), tool=_TOOL, problems=documents.problems
    )


def _run_of(record: Mapping[str, Any]) -> str:
    """What all records of one run have in common."""
    return json.dumps([record.get("benchmark"), record.get("model")], sort_keys=True, default=str)


def _arguments(record: Mapping[str, Any]) -> Mapping[str, Any]:
    about = record.get("benchmark")
    extra = about.get("extra_info") if isinstance(about, Mapping) else None
    args = extra.get("args") if isinstance(extra, Mapping) else None
    return args if isinstance(args, Mapping) else {}


def _facts(record: Mapping[str, Any]) -> Facts:
    args, model = _arguments(record), record.get("model")
    facts = serving.arguments_facts(args)
    name = model.get("name") if isinstance(model, Mapping) else None
    facts.model = name if isinstance(name, str) else facts.model
    width = cells.whole(args.get("tensor_parallel_size"))
    facts.settings |= {"tp": width} if width is not None else {}
    return facts


def _point(run: Iterable[tuple[int, Mapping[str, Any]]]) -> Measurement:
    records = list(run)
    told: dict[str, float] = {}
    metrics: dict[str, float | None] = {}
    for _, record in records:
        name, values, extra = _metric(record["metric"])
        if name == "latency" and values:  # seconds of each iteration
            metrics["e2e_ms_mean"] = sum(values) / len(values) * 1e3
            metrics |= _percentiles(extra)
        elif name in _OFFLINE and len(values) == 1:
            counts = {_COUNTS[key]: cells.number(extra.get(key)) for key in _COUNTS}
            metrics |= {_OFFLINE[name]: values[0]} | {k: v for k, v in counts.items() if v is not None}
        elif len(values) == 1:
            told[name] = values[0]
    point = serving.object_measurement(told, _TOOL, records[0][0])
    args = _arguments(records[0][1])
    load = serving.arguments_workload(args) | serving.batch_load(args)
    return Measurement(
        workload=load | dict(point.workload),
        metrics=metrics | dict(point.metrics),
        client=_TOOL,
        line=records[0][0],
        source_names=dict(point.source_names) | {key: _BATCH for key in metrics if key.startswith("e2e_ms_")},
    )


def _percentiles(extra: Mapping[str, Any]) -> dict[str, float]:
    """Percentiles of a batch's latency, of which vLLM writes seconds by their number."""
    told = extra.get("percentiles")
    pairs = told.items() if isinstance(told, Mapping) else ()
    known = ((f"e2e_ms_p{key}", cells.number(value)) for key, value in pairs)
    return {name: value * 1e3 for name, value in known if value is not None}


def _metric(metric: Mapping[str, Any]) -> tuple[str, list[float], Mapping[str, Any]]:
    values, extra = metric.get("benchmark_values"), metric.get("extra_info")
    numbers = [cells.number(one) for one in values] if isinstance(values, list) else []
    return (
        str(metric.get("name")),
        [one for one in numbers if one is not None],
        extra if isinstance(extra, Mapping) else {},
    )


FORMAT = Format(
    name="pytorch_benchmark_json",
    kind="benchmark",
    sniff=_sniff,
    read=_read,
    version=2,
    docs=(
        "What vLLM's benchmarks write beside their results for PyTorch's benchmark database: a record per "
        "metric, joined here to one point per run. Offline rates count input and output tokens; the values "
        "of `latency` are seconds of a whole batch."
    ),
)
