"""TensorRT-LLM's benchmarks: ``trtllm-bench`` as printed and its report, and the client of ``trtllm-serve``.

Owns their blocks and keys. Must not read engine logs: the log reader finds reports in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ingest.bench import cells, jsontext, serving_tables
from ingest.bench.identity import Facts, benchmark, grouped
from ingest.bench.sniffing import below_pages, needing
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import LineCount, Measurement, Reading

_TOOL, _CLIENT = "trtllm-bench", "trtllm-serve benchmark_serving"
_TITLE = re.compile(
    r"^(?:= )?(?P<title>PERFORMANCE OVERVIEW|WORLD \+ RUNTIME INFORMATION|REQUEST DETAILS|ENGINE DETAILS"
    r"|MACHINE DETAILS|\S+ BACKEND|DATASET DETAILS|DECODING STATISTICS.*|STREAMING METRICS)\s*$",
    re.IGNORECASE,
)
_ROW = re.compile(r"^(?P<label>[A-Za-z][^:\t]{1,60}):\s+(?P<value>\S.*?)\s*$")
_BREAKDOWN = re.compile(
    r"^\[(?P<kind>TTFT|TPOT|GTPS|Latency|AL|DAR|ADT|DT)\]\s+(?P<stat>[A-Z0-9]+)\s*:\s*(?P<v>\d+(?:\.\d+)?)"
)
_STATS = {"MINIMUM": "min", "MAXIMUM": "max", "AVERAGE": "mean"}
_KINDS = {
    "TTFT": "ttft_ms",
    "TPOT": "tpot_ms",
    "Latency": "e2e_ms",
    "GTPS": "output_tok_s_per_user",
    "AL": "accept_length",
    "DAR": "accept_rate",
}
_METRICS = (
    (r"request throughput", "request_s"),
    (r"total output throughput|^output throughput", "output_tok_s"),
    (r"total token throughput", "total_tok_s"),
    (r"^token throughput", "output_tok_s"),
    (r"per user output throughput", "output_tok_s_per_user"),
    (r"per gpu output throughput", "output_tok_s_per_gpu"),
    (r"per user output speed", "output_speed_tok_s_per_user"),
    (r"average request latency", "e2e_ms_mean"),
    (r"average time.to.first.token", "ttft_ms_mean"),
    (r"average time.per.output.token", "tpot_ms_mean"),
)
_LOADS = {
    "number of requests": "prompts",
    "average input length (tokens)": "input_len",
    "average output length (tokens)": "output_len",
}
_SETTINGS = {
    "tp size": "tp",
    "pp size": "pp",
    "ep size": "ep",
    "max runtime batch size": "max_batch_size",
    "max runtime tokens": "max_num_tokens",
    "scheduling policy": "scheduling_policy",
    "kv cache dtype": "kv_dtype",
    "dtype": "dtype",
    "kv memory percentage": "kv_cache_free_gpu_memory_fraction",
}


@dataclass(slots=True)
class Report:
    """What one report tells: the engine, the load, and the figures of its overview."""

    facts: Facts = field(default_factory=lambda: Facts(engine="tensorrt-llm"))
    load: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, float | None] = field(default_factory=dict)
    width: float | None = None
    line: int | None = None
    used: int = 0

    def point(self) -> Measurement:
        """The report's figures; its widths are counted into the GPUs of its facts."""
        load = {key: value for key, value in self.load.items() if value is not None}
        if self.width is not None:
            self.metrics["concurrency_mean"] = self.width
        tp, pp = self.facts.settings.get("tp"), self.facts.settings.get("pp")
        if isinstance(tp, int) and isinstance(pp, int):
            self.facts.gpu_count = tp * pp
        return Measurement(workload=load, metrics=self.metrics, client=_TOOL, line=self.line)


_OWN_ROWS = ("\nTotal Latency (ms): ", "\nAverage request latency (ms): ", "\nPer GPU Output Throughput (")


@below_pages
@needing("PERFORMANCE OVERVIEW", _OWN_ROWS[-1])
def _sniff_report(source: Source) -> float:
    head = source.head
    if re.search(r"^(?:= )?PERFORMANCE OVERVIEW\s*$", head, re.MULTILINE):
        return 0.96
    return 0.9 if all(row in f"\n{head}" for row in _OWN_ROWS) else 0.0


def _read_report(source: Source) -> Reading:
    lines = list(source.lines())
    found = reports(lines) or _untitled(lines)
    if not found:
        raise Unreadable("no PERFORMANCE OVERVIEW block in the text")
    used = sum(report.used for report in found)
    return benchmark(
        source,
        "trtllm_bench",
        grouped([(report.facts, report.point()) for report in found]),
        tool=_TOOL,
        tool_version=found[0].facts.engine_version,
        lines=LineCount(total=len(lines), understood=used, unknown=len(lines) - used),
    )


def opens_report(text: str) -> bool:
    """Whether a line is the title of a block of a report."""
    return _TITLE.match(text.strip()) is not None


def reports(lines: Iterable[tuple[int, str]]) -> list[Report]:
    """A report per PERFORMANCE OVERVIEW; blocks that stand before one belong to it, DATASET ends it."""
    done: list[Report] = []
    current, title = Report(), ""
    for number, text in lines:
        heading = _TITLE.match(text.strip())
        if heading:
            title = heading["title"].upper()
            if done and done[-1] is current and not _continues(title):
                current = Report()
            if title == "PERFORMANCE OVERVIEW":
                current.line = number
                done.append(current)
        elif title and _report_line(current, title, text.strip()):
            current.used += 1
    return done


def _untitled(lines: Iterable[tuple[int, str]]) -> list[Report]:
    """The one report of a text in which the overview lost its title; blocks with theirs may stand beside."""
    report, title = Report(), "PERFORMANCE OVERVIEW"
    for number, text in lines:
        heading = _TITLE.match(text.strip())
        if heading:
            title = heading["title"].upper()
        elif _report_line(report, title, text.strip()):
            report.used += 1
            report.line = report.line or number
    return [report] if report.metrics else []


def _continues(title: str) -> bool:
    return title.startswith(("DATASET", "DECODING", "STREAMING"))


def _report_line(report: Report, title: str, text: str) -> bool:
    part, row = _BREAKDOWN.match(text), _ROW.match(text)
    if part and title != "DATASET DETAILS":
        stat = _STATS.get(part["stat"], part["stat"].lower())
        if part["kind"] in _KINDS:
            report.metrics.setdefault(_metric(_KINDS[part["kind"]], stat), float(part["v"]))
        return True
    machine = re.match(r"(.+?), memory [\d.]+ GB", text) if title == "MACHINE DETAILS" else None
    if machine:
        report.facts.gpu = machine[1]
        return True
    if not row or title == "DATASET DETAILS":
        return False
    _report_row(report, title, " ".join(row["label"].lower().split()), row["value"])
    return True


def _report_row(report: Report, title: str, label: str, value: str) -> None:
    if value in ("None", "N/A"):
        return
    if label == "number of concurrent requests":
        report.width = cells.number(value)
    elif label in _LOADS:
        report.load[_LOADS[label]] = _length(value)
    elif label in _SETTINGS:
        report.facts.settings[_SETTINGS[label]] = _setting(value)
    elif title == "PERFORMANCE OVERVIEW":
        _overview_row(report, label, value)
    else:
        _engine_row(report.facts, label, value)


def _overview_row(report: Report, label: str, value: str) -> None:
    number = cells.number(value)
    if number is None:
        return
    if label == "total latency (ms)":
        report.metrics["duration_s"] = number / 1e3
        return
    for pattern, name in _METRICS:
        if re.search(pattern, label):
            report.metrics.setdefault(name, number)
            return


def _engine_row(facts: Facts, label: str, value: str) -> None:
    if label == "model":
        facts.model = value
    elif re.fullmatch(r"tensorrt.llm version", label):
        facts.engine_version = value
    elif label == "quantization":
        facts.quantization = value.lower()
    elif label in ("gpu", "name") or re.search(r", memory [\d.]+ GB", value):
        facts.gpu = value.split(",", maxsplit=1)[0]


def _length(value: Any) -> int | None:
    number = cells.whole(value)
    return number if number is None else round(number)


def _setting(value: str) -> Any:
    number = cells.number(value)
    if value.endswith("%") and number is not None:
        return round(number / 100, 4)
    return int(value) if value.isascii() and value.isdecimal() else value


def _sniff_json(source: Source) -> float:
    if not jsontext.looks_like_json(source.head):
        return 0.0
    keys = jsontext.keys_in(source.head)
    return (
        0.96
        if {"world_info", "performance", "request_info"} <= keys or "system_output_throughput_tok_s" in keys
        else 0.0
    )


_JSON_METRICS = {
    "request_throughput_req_s": "request_s",
    "system_output_throughput_tok_s": "output_tok_s",
    "system_total_throughput_tok_s": "total_tok_s",
    "output_throughput_per_user_tok_s": "output_tok_s_per_user",
    "output_throughput_per_gpu_tok_s": "output_tok_s_per_gpu",
    "avg_request_latency_ms": "e2e_ms_mean",
    "avg_ttft_ms": "ttft_ms_mean",
    "avg_tpot_ms": "tpot_ms_mean",
    "token_output_speed_tok_s": "output_speed_tok_s_per_user",
}
_JSON_PERCENTILES = {
    "request_latency_percentiles_ms": "e2e_ms",
    "ttft_percentiles": "ttft_ms",
    "tpot_percentiles": "tpot_ms",
    "gen_tps_percentiles": "output_tok_s_per_user",
    "acceptance_length_percentiles": "accept_length",
    "draft_acceptance_rate_percentiles": "accept_rate",
}


def _read_json(source: Source) -> Reading:
    documents = jsontext.load(source)
    pairs = [
        (_json_facts(one), _json_point(one, line))
        for line, one in documents.objects()
        if isinstance(one.get("performance"), Mapping)
    ]
    if not pairs:
        raise Unreadable("no report with a performance block among the JSON objects")
    return benchmark(
        source,
        "trtllm_bench_report",
        grouped(pairs),
        tool=_TOOL,
        tool_version=pairs[0][0].engine_version,
        problems=documents.problems,
    )


def _part(report: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = report.get(name)
    return value if isinstance(value, Mapping) else {}


def _json_facts(report: Mapping[str, Any]) -> Facts:
    engine, world, machine = (_part(report, name) for name in ("engine", "world_info", "machine"))
    sizes = {"tp": "tp_size", "pp": "pp_size", "ep": "ep_size"}
    settings = {key: world.get(name) for key, name in sizes.items()}
    settings |= {key: world.get(key) for key in ("max_batch_size", "max_num_tokens", "scheduling_policy")}
    settings |= {"kv_dtype": engine.get("kv_cache_dtype"), "dtype": engine.get("dtype")}
    quantization, version = engine.get("quantization"), engine.get("version")
    return Facts(
        model=engine.get("model"),
        gpu=machine.get("name"),
        gpu_count=world.get("world_size"),
        engine="tensorrt-llm",
        engine_version=None if version is None else str(version),
        quantization=str(quantization).lower() if quantization else None,
        settings={key: value for key, value in settings.items() if value is not None},
    )


def _json_point(report: Mapping[str, Any], line: int) -> Measurement:
    asked, performance = _part(report, "request_info"), _part(report, "performance")
    metrics: dict[str, float | None] = {}
    for part in (performance, _part(report, "streaming_metrics"), _part(report, "decoding_stats")):
        _json_metrics(metrics, part)
    total, width = cells.number(performance.get("total_latency_ms")), asked.get("avg_num_concurrent_requests")
    metrics |= {"duration_s": total / 1e3} if total is not None else {}
    metrics |= {"concurrency_mean": float(width)} if isinstance(width, int | float) else {}
    load = {
        "prompts": asked.get("num_requests"),
        "input_len": _length(asked.get("avg_input_length")),
        "output_len": _length(asked.get("avg_output_length")),
    }
    load = {key: value for key, value in load.items() if value is not None}
    return Measurement(workload=load, metrics=metrics, client=_TOOL, line=line)


def _json_metrics(metrics: dict[str, float | None], part: Mapping[str, Any]) -> None:
    for key, value in part.items():
        if key in _JSON_METRICS and isinstance(value, int | float):
            metrics[_JSON_METRICS[key]] = float(value)
        elif key in _JSON_PERCENTILES and isinstance(value, Mapping):
            for stat, one in value.items():
                name = _metric(_JSON_PERCENTILES[key], _STATS.get(stat.upper()) or stat)
                if isinstance(one, int | float):
                    metrics.setdefault(name, float(one))


def _metric(name: str, stat: str) -> str:
    """A statistic's name; what drafts gain is told everywhere by its mean alone."""
    return name if (name, stat) == ("accept_length", "mean") else f"{name}_{stat}"


@below_pages
@needing("Serving Benchmark Result")
def _sniff_serve(source: Source) -> float:
    head = source.head
    marked = "User throughput (tok/s):" in head or "Request AR:" in head
    return 0.94 if "Serving Benchmark Result" in head and marked else 0.0


def _read_serve(source: Source) -> Reading:
    return serving_tables.read_tables(source, "trtllm_serve_bench", _CLIENT)


FORMATS = [
    Format(
        name="trtllm_bench",
        kind="benchmark",
        version=3,
        sniff=_sniff_report,
        read=_read_report,
        docs=(
            "What `trtllm-bench throughput` prints, layouts of 0.12, 0.17, 0.21 and 1.x: blocks under "
            "rules of `=`, read by label (tabs or blanks). In the old layout `Token Throughput` counts "
            "output tokens. `Total Latency (ms)` is the run's duration. Request issue rates say nothing "
            "where all requests start at once."
        ),
    ),
    Format(
        name="trtllm_bench_report",
        kind="benchmark",
        version=2,
        sniff=_sniff_json,
        read=_read_json,
        docs=(
            "The file of `trtllm-bench --report_json`: engine, world, requests, performance and, for "
            "streaming, times to and between tokens. Offline runs queue everything at once, so their TTFT "
            "includes waiting."
        ),
    ),
    Format(
        name="trtllm_serve_bench",
        kind="benchmark",
        sniff=_sniff_serve,
        read=_read_serve,
        docs=(
            "The table of TensorRT-LLM's `benchmark_serving`: vLLM's layout with `User throughput` and "
            "acceptance rows."
        ),
    ),
]
