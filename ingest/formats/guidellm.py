"""GuideLLM reports: ``benchmarks.json`` of versions 1 and 2, and its console tables.

Owns their nesting. Request latency is in seconds there, latencies per token in milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from ingest.bench import cells, jsontext, tables
from ingest.bench.families import statistic
from ingest.bench.identity import Facts, benchmark, experiment
from ingest.bench.rows import Units, read_row
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import LineCount, Measurement, Reading

_TOOL = "guidellm"
_LATENCIES = {
    "request_latency": ("e2e_ms", 1e3),
    "time_to_first_token_ms": ("ttft_ms", 1.0),
    "time_per_output_token_ms": ("tpot_ms", 1.0),
    "inter_token_latency_ms": ("itl_ms", 1.0),
}
_RATES = {
    "requests_per_second": "request_s",
    "output_tokens_per_second": "output_tok_s",
    "prompt_tokens_per_second": "input_tok_s",
    "tokens_per_second": "total_tok_s",
    "request_concurrency": "concurrency_mean",
}
_LENGTHS = {"prompt_token_count": "input_len", "output_token_count": "output_len"}


def _sniff_json(source: Source) -> float:
    if not jsontext.looks_like_json(source.head):
        return 0.0
    if '"guidellm_version"' in source.head:
        return 0.97
    keys = jsontext.keys_in(source.head, 2000)
    return 0.9 if {"benchmarks", "request_loader"} <= keys or {"benchmarks", "run_stats"} <= keys else 0.0


def _read_json(source: Source) -> Reading:
    documents = jsontext.load(source)
    report = documents.first
    found = report.get("benchmarks") if isinstance(report, Mapping) else None
    if not isinstance(found, list):
        raise Unreadable("the report has no list of benchmarks")
    points = [
        _point(one) for one in found if isinstance(one, Mapping) and isinstance(one.get("metrics"), Mapping)
    ]
    meta = report.get("metadata") if isinstance(report.get("metadata"), Mapping) else {}
    facts = Facts(model=_deep(report, "model"), started=_instant(found))
    return benchmark(
        source,
        "guidellm_json",
        [experiment(facts, points)],
        tool=_TOOL,
        tool_version=meta.get("guidellm_version"),
        problems=documents.problems,
        extra={"schema_version": meta.get("version")},
    )


def _instant(found: list[Any]) -> str | None:
    start = found[0].get("start_time") if found and isinstance(found[0], Mapping) else None
    if not isinstance(start, int | float) or not 0 < start < 1e11:
        return None
    return datetime.fromtimestamp(start, UTC).isoformat()


def _deep(value: Any, name: str, depth: int = 6) -> str | None:
    """The first text under a key, looking at objects before what they hold."""
    if not isinstance(value, Mapping) or depth == 0:
        return None
    if isinstance(value.get(name), str):
        return str(value[name])
    inner = [one for one in value.values() if isinstance(one, Mapping)]
    inner += [one[0] for one in value.values() if isinstance(one, list) and one]
    return next((found for one in inner if (found := _deep(one, name, depth - 1))), None)


def _point(one: Mapping[str, Any]) -> Measurement:
    figures, metrics = one["metrics"], dict[str, float | None]()
    for key, (base, factor) in _LATENCIES.items():
        metrics |= {f"{base}_{k}": v * factor for k, v in _statistics(_good(figures.get(key)))}
    for key, name in _RATES.items():
        mean = dict(_statistics(_good(figures.get(key)))).get("mean")
        metrics |= {} if mean is None else {name: mean}
    metrics |= _totals(one, figures)
    return Measurement(workload=_load(one, figures), metrics=metrics, client=_TOOL)


def _good(family: Any) -> Mapping[str, Any]:
    """The successful requests' part of a metric."""
    part = family.get("successful", family) if isinstance(family, Mapping) else {}
    return part if isinstance(part, Mapping) else {}


def _statistics(part: Mapping[str, Any]) -> Iterable[tuple[str, float]]:
    inner = part.get("percentiles")
    flat = {**part, **(inner if isinstance(inner, Mapping) else {})}
    for key, raw in flat.items():
        name, value = statistic(key), cells.number(raw) if not isinstance(raw, dict | list) else None
        if name is not None and value is not None and part.get("count", 1):
            yield name, value


def _totals(one: Mapping[str, Any], figures: Mapping[str, Any]) -> dict[str, float | None]:
    counts = figures.get("request_totals") or one.get("request_totals")
    counts = counts if isinstance(counts, Mapping) else {}
    found = {
        "completed": cells.number(counts.get("successful")),
        "failed": cells.number(counts.get("errored")),
        "incomplete": cells.number(counts.get("incomplete")),
        "duration_s": cells.number(one.get("duration")),
    }
    return {key: value for key, value in found.items() if value is not None}


def _load(one: Mapping[str, Any], figures: Mapping[str, Any]) -> dict[str, Any]:
    load: dict[str, Any] = {}
    for key, name in _LENGTHS.items():
        mean = dict(_statistics(_good(figures.get(key)))).get("mean")
        load |= {} if mean is None else {name: round(mean)}
    config = one.get("config") or one.get("args")
    strategy = config.get("strategy") if isinstance(config, Mapping) else None
    if not isinstance(strategy, Mapping):
        return load
    kind = strategy.get("type_") or strategy.get("kind")
    width = strategy.get("streams") or (strategy.get("max_concurrency") if kind == "concurrent" else None)
    found = {
        "request_rate": cells.whole(strategy.get("rate")),
        "concurrency": cells.whole(width),
        "test": kind,
    }
    found |= {"concurrency": 1} if kind == "synchronous" else {}
    found |= {"request_rate": "inf"} if kind == "throughput" else {}
    return load | {key: value for key, value in found.items() if value is not None}


_CONSOLE = re.compile(
    r"^Benchmarks (?:Metadata|Info|Stats)\b|^\s*Benchmarks Stats:|ℹ .*Run Summary", re.MULTILINE
)


def _sniff_console(source: Source) -> float:
    head = source.head
    if _CONSOLE.search(head) and ("Request Loader" in head or "backend_type" in head or "Benchmark" in head):
        return 0.9
    return 0.0


def _read_console(source: Source) -> Reading:
    """The figures of the statistics tables; a listing of arguments alone gives the model."""
    lines = list(source.lines())
    args = next((text for _, text in lines if text.lstrip().startswith("Args:")), "")
    model = re.search(r'"model": "([^"]+)"', args)
    points = [p for table in tables.pipe_tables(lines) for p in _console_points(table)]
    facts = Facts(model=model[1] if model else None)
    if not points and not model:
        raise Unreadable("GuideLLM's console output without a table of results")
    return benchmark(
        source,
        "guidellm_console",
        [experiment(facts, points)],
        tool=_TOOL,
        lines=LineCount(total=len(lines), understood=len(points) + bool(model), unknown=0),
    )


def _console_points(table: tables.Table) -> Iterable[Measurement]:
    records = list(table.records())
    units = Units.of(row for _, row in records)
    for line, row in records:
        point = read_row(row, units).measurement(_TOOL, line)
        if point.metrics:
            yield point


FORMATS = [
    Format(
        name="guidellm_json",
        kind="benchmark",
        sniff=_sniff_json,
        read=_read_json,
        docs=(
            "GuideLLM's `benchmarks.json`, report versions 1 and 2: one point per benchmark of a sweep, "
            "from its successful requests. `request_latency` is in seconds, the others in ms. The "
            "strategy gives rate or streams; counts of errored and incomplete requests are kept."
        ),
    ),
    Format(
        name="guidellm_console",
        kind="benchmark",
        sniff=_sniff_console,
        read=_read_console,
        docs=(
            "GuideLLM's console output: statistics tables where they are, and the model of its argument line."
        ),
    ),
]
