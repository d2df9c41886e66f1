"""GuideLLM reports: ``benchmarks.json`` of versions 1 and 2, and its console tables.

Owns their nesting. Request latency is in seconds there, latencies per token in milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from ingest.bench import cells, jsontext, stacked, tables
from ingest.bench.families import statistic
from ingest.bench.identity import Facts, benchmark, experiment
from ingest.bench.rows import read_row
from ingest.bench.sniffing import below_pages, needing
from ingest.bench.units import Units
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import LineCount, Measurement, Problem, Reading

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
    facts = Facts(model=_deep(report, "model") or _deep(report, "backend_model"), started=_instant(found))
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
    r"^Benchmarks (?:Metadata|Info|Stats)\b|^[ \t]*Benchmarks Stats:|ℹ .*Run Summary", re.MULTILINE
)


_MODEL = re.compile(  # in its arguments, or where it has reached the server
    r"""^\s*Args:.*"model": "(?P<a>[^"]+)|\bbackend_model='(?P<b>[^']+)'"""
    r"""|backend validated with model (?P<c>\S+)|Backend \S+ connected to \S+ for model (?P<d>\S+?)\.?\s*$"""
)


@below_pages
@needing("Benchmarks ", "Run Summary Info", "Statistics")
def _sniff_console(source: Source) -> float:
    head = source.head
    if _CONSOLE.search(head) and ("Request Loader" in head or "backend_type" in head or "|" in head):
        return 0.94
    return 0.0


def _read_console(source: Source) -> Reading:
    """The figures of the statistics tables; a listing of arguments alone gives the model."""
    lines = list(source.lines())
    model = next((one for _, text in lines if (one := _MODEL.search(text))), None)
    found = stacked.stacked_tables(lines)
    points = _by_benchmark(found)
    if not points and not model:
        raise Unreadable("GuideLLM's console output without a table of results")
    used = sum(len(table.rows) + 1 for table in found) + bool(model)
    return benchmark(
        source,
        "guidellm_console",
        [experiment(Facts(model=model[model.lastgroup or 0] if model else None), points)],
        tool=_TOOL,
        lines=LineCount(total=len(lines), understood=used, unknown=len(lines) - used),
        problems=[] if points else [Problem(line=None, what="the output has no table of results")],
    )


def _by_benchmark(found: Iterable[tables.Table]) -> list[Measurement]:
    """Rows of several tables that name the same benchmark are one point."""
    merged: dict[str, tuple[int, dict[str, str]]] = {}
    for table in found:
        for line, row in table.records():
            name = next(iter(row.values()), "")
            merged.setdefault(name, (line, {}))[1].update(row)
    points = (_named_point(name, _of_server(row), line) for name, (line, row) in merged.items())
    return [point for point in points if _tells(point.metrics)]


def _of_server(row: dict[str, str]) -> dict[str, str]:
    """A row without the rates of single requests' tokens, where the server's own stand beside them."""
    if not any(label.endswith("Tokens Per Sec") for label in row):
        return row
    return {label: cell for label, cell in row.items() if not label.endswith("Tokens Per Second")}


def _tells(metrics: Mapping[str, float | None]) -> bool:
    return metrics.get("completed") == 0 or any("_tok_s" in key or "_ms_" in key for key in metrics)


_SPOKEN = (
    (re.compile(r"^Per Second\b.*\bRequest"), "Requests/s"),
    (re.compile(r"^(?:Comp|Tot)\b.*\bRequests(?: Made| Comp)?$"), "Successful requests"),
    (re.compile(r"^(?:Err|Tot)\b.*\bRequests(?: Made| Err)$"), "Failed requests"),
    (re.compile(r"^Duration|^Sec Timings Dur"), "Duration (s)"),
    (re.compile(r"^Comp (?:Prompt|Input) Tok Total|^Tot (?:Prompt|Input) Tokens Comp"), "Total input tokens"),
    (re.compile(r"^Comp Output Tok Total|^Tot Output Tokens Comp"), "Total output tokens"),
    (re.compile(r"^Comp (?:Prompt|Input) Tok/Req|^(?:Mdn|Mean) Input Tok Per Req"), "input len"),
    (re.compile(r"^Comp Output Tok/Req|^(?:Mdn|Mean) Output Tok Per Req"), "output len"),
)


def _spoken(label: str) -> str:
    """The plain name of a console column whose own is short."""
    return next((name for pattern, name in _SPOKEN if pattern.search(label)), label)


def _named_point(name: str, row: Mapping[str, str], line: int) -> Measurement:
    """A row of a sweep ("synchronous", "throughput", "constant@2.5") with its load."""
    told = read_row({_spoken(label): cell for label, cell in row.items()}, Units())
    metrics = told.metrics
    if metrics.get("completed") == 0:  # its zeros are no figures
        metrics = {key: metrics[key] for key in ("completed", "failed", "duration_s") if key in metrics}
    whole, first = metrics.get("e2e_ms_p50") or 0, metrics.get("ttft_ms_p50") or 0
    if 0 < whole < first:  # old releases print seconds under "(ms)"
        metrics = {key: v * 1e3 if key.startswith("e2e_ms") and v else v for key, v in metrics.items()}
    lengths = {key: round(told.workload[key]) for key in _LENGTHS.values() if told.workload.get(key)}
    load: dict[str, Any] = {"test": name} | lengths | _by_strategy(name)
    return Measurement(workload=load, metrics=metrics, client=_TOOL, line=line)


_PERCENTILES = ("min", "p0_1", "p1", "p5", "p10", "p25", "p75", "p90", "p95", "p99", "max")
_STATISTICS = {"Mean": "mean", "Median": "p50", "Std Dev": "std"}
_GROUPS = {  # group and unit of a column → name and factor; of a rate and a length, the mean alone is kept
    ("Request Latency", "Sec"): ("e2e_ms", 1e3),
    ("Time to First Token", "ms"): ("ttft_ms", 1.0),
    ("Time per Output Token", "ms"): ("tpot_ms", 1.0),
    ("Inter Token Latency", "ms"): ("itl_ms", 1.0),
    ("Server Throughput", "Requests/Sec"): ("request_s", None),
    ("Server Throughput", "Concurrency"): ("concurrency_mean", None),
    ("Token Throughput", "Input Tokens/Sec"): ("input_tok_s", None),
    ("Token Throughput", "Output Tokens/Sec"): ("output_tok_s", None),
    ("Token Throughput", "Total Tokens/Sec"): ("total_tok_s", None),
    ("Token Metrics", "Input Tokens"): ("input_len", None),
    ("Token Metrics", "Output Tokens"): ("output_len", None),
    ("Timings", "Duration"): ("duration_s", None),
    ("Request Counts", "Successful"): ("completed", None),
    ("Request Counts", "Errored"): ("failed", None),
    ("Request Counts", "Incomplete"): ("incomplete", None),
}


# Columns of the one header row before 0.4, and what means the same since. Its "Tokens per second" are
# left out: they count the output twice.
_ONE_HEADER = {
    "Name": ("Benchmark", "Strategy"),
    "Duration": ("Timings", "Duration"),
    "Successful Requests": ("Request Counts", "Successful"),
    "Errored Requests": ("Request Counts", "Errored"),
    "Incomplete Requests": ("Request Counts", "Incomplete"),
    "Successful Requests per second": ("Server Throughput", "Requests/Sec"),
    "Successful Request concurrency": ("Server Throughput", "Concurrency"),
    "Successful Request latency": ("Request Latency", "Sec"),
    "Successful Prompt token count": ("Token Metrics", "Input Tokens"),
    "Successful Output token count": ("Token Metrics", "Output Tokens"),
    "Successful Time to first token ms": ("Time to First Token", "ms"),
    "Successful Time per output token ms": ("Time per Output Token", "ms"),
    "Successful Inter token latency ms": ("Inter Token Latency", "ms"),
    "Successful Output tokens per second": ("Token Throughput", "Output Tokens/Sec"),
}
_ONE_STATISTIC = re.compile(r"(?P<what>.+?) (?P<told>mean|median|std dev|\[min, .+\])")


def _sniff_csv(source: Source) -> float:
    head = source.head.lstrip("\ufeff")
    return 0.95 if head.startswith(("Run Info,Run Info,", "Type,Run Id,Id,Name,Start Time,")) else 0.0


def _as_three(header: list[str]) -> list[list[str]]:
    """The one header row of older releases as the three of newer ones; "" where a column is not taken."""
    columns = []
    for label in header:
        found = _ONE_STATISTIC.fullmatch(label)
        what, told = (found["what"], found["told"]) if found else (label, "")
        told = "Percentiles" if told.startswith("[") else told.title()
        columns.append([*_ONE_HEADER.get(what, ("", "")), told])
    return [list(one) for one in zip(*columns, strict=True)]


def _read_csv(source: Source) -> Reading:
    """The file has three header rows (group, status with unit, statistic), or one of older releases."""
    rows = [
        row for row in tables.delimited(source.text.lstrip("\ufeff")) if any(cell.strip() for cell in row)
    ]
    first = 1 if rows and rows[0][0] == "Type" else 3
    header = _as_three(rows[0]) if first == 1 else rows[:3]
    if len(rows) <= first:
        raise Unreadable("the CSV has its header and no benchmark")
    points, model = [], None
    for line, row in enumerate(rows[first:], first + 1):
        named = re.search(r'"(?:backend_)?model": *"([^"]+)"', " ".join(row))
        model = model or (named[1] if named else None)
        points.append(_csv_point(header, row, line))
    return benchmark(
        source,
        "guidellm_csv",
        [experiment(Facts(model=model), points)],
        tool=_TOOL,
        rows=len(points),
        lines=LineCount(total=len(rows), understood=len(rows)),
    )


def _csv_point(header: list[list[str]], row: list[str], line: int) -> Measurement:
    metrics: dict[str, float | None] = {}
    load: dict[str, Any] = {}
    for group, unit, told, cell in zip(*header, row, strict=False):
        if (group, unit) == ("Benchmark", "Strategy"):
            load |= {"test": cell} | _by_strategy(cell)
            continue
        name, factor = _GROUPS.get((group, unit.removeprefix("Successful ") or unit), ("", None))
        if name and factor is not None:
            metrics |= {f"{name}_{key}": value * factor for key, value in _csv_statistics(told, cell)}
        elif name and told in ("", "Sec", "Mean") and (value := cells.number(cell)) is not None:
            metrics |= {name: value} if name not in _LENGTHS.values() else {}
            load |= {name: round(value)} if name in _LENGTHS.values() else {}
    return Measurement(workload=load, metrics=metrics, client=_TOOL, line=line)


def _csv_statistics(told: str, cell: str) -> Iterable[tuple[str, float]]:
    """(statistic, value); a list of percentiles becomes several."""
    pairs = [(_STATISTICS.get(told, ""), cell)]
    if told == "Percentiles":
        pairs = list(zip(_PERCENTILES, cell.strip("[]").split(","), strict=False))
    for name, raw in pairs:
        if name and (value := cells.number(raw)) is not None:
            yield name, value


def _by_strategy(name: str) -> dict[str, Any]:
    """What the name of a strategy says of its load."""
    load: dict[str, Any] = {"concurrency": 1} if name.startswith("synchronous") else {}
    asked = re.search(r"@\s*([\d.]+)", name)
    if asked:
        load["concurrency" if name.startswith("concurrent") else "request_rate"] = cells.whole(asked[1])
    return load | ({"request_rate": "inf"} if name.startswith("throughput") else {})


FORMATS = [
    Format(
        name="guidellm_json",
        kind="benchmark",
        sniff=_sniff_json,
        read=_read_json,
        version=2,
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
        version=4,
        docs=(
            "GuideLLM's console output, old (`Benchmarks Stats:`) and new (tables per subject with three "
            "header rows): rows that name the same benchmark are one point, its rate taken from its name. "
            "Old releases print request latency in seconds under `(ms)`; that is seen by its size. "
            "A benchmark that completed no request keeps only its counts. The model stands in the line that "
            "says the backend was validated or connected, or in the arguments."
        ),
    ),
    Format(
        name="guidellm_csv",
        kind="benchmark",
        sniff=_sniff_csv,
        read=_read_csv,
        version=4,
        docs=(
            "GuideLLM's CSV, since 0.4 with three header rows (group, status and unit, statistic), before "
            "with one: one point per row, from successful requests; the lists of percentiles are taken apart."
        ),
    ),
]
