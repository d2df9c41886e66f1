"""TensorRT-LLM's benchmarks before ``trtllm-bench``: ``benchmark.py`` and the two written in C++.

Owns their ``[BENCHMARK] key value …`` lines. Must not read engine logs that hold none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ingest.bench import cells, names, serving
from ingest.bench.identity import Facts, benchmark, grouped
from ingest.bench.sniffing import below_pages, needing
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import LineCount, Measurement, Reading

_TOOL = "TensorRT-LLM benchmark"
_MARK = "[BENCHMARK] "
_LINE = re.compile(r"^\s*(?:\S+ )?\[BENCHMARK\] (?P<rest>[A-Za-z]\w*(?:\(.*?\))? .*\S)\s*$")
_WORKLOAD = {
    "batch_size": "batch_size",
    "input_length": "input_len",
    "output_length": "output_len",
    "num_samples": "prompts",
}
_METRICS = {
    "num_samples": ("completed", 1.0),
    "num_error_samples": ("failed", 1.0),
    "total_latency(ms)": ("duration_s", 1e-3),
    "seq_throughput(seq/sec)": ("request_s", 1.0),
    "token_throughput(token/sec)": ("output_tok_s", 1.0),
    "tokens_per_sec": ("output_tok_s", 1.0),
    "tokensPerSec": ("output_tok_s", 1.0),
    "latency(ms)": ("e2e_ms_mean", 1.0),
    "percentile95(ms)": ("e2e_ms_p95", 1.0),
    "percentile99(ms)": ("e2e_ms_p99", 1.0),
    "generation_time(ms)": ("decode_ms_mean", 1.0),
    "avg_acceptance_rate(tokens/decoding steps)": ("accept_length", 1.0),
}
_TIMES = {"sequence_latency": "e2e", "time_to_first_token": "ttft", "inter_token_latency": "itl"}
_TIME = re.compile(r"(?P<stat>avg|min|max|p\d{2})_(?P<name>[a-z_]+)\(ms\)")


def _pairs(text: str) -> list[tuple[str, str]]:
    """(key, value) of one line; a key may hold blanks only where it stands alone."""
    found = _LINE.match(text)
    words = found["rest"].split() if found else []
    if len(words) % 2 or not words:
        key, _, value = found["rest"].rpartition(" ") if found else ("", "", "")
        return [(key, value)] if key else []
    return list(zip(words[::2], words[1::2], strict=True))


def _records(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, dict[str, str]]]:
    """One record for a line of many pairs, or for lines of one pair each until a key comes again."""
    record: dict[str, str] = {}
    at = 0
    for number, text in lines:
        pairs = _pairs(text) if _MARK in text else []
        if not pairs:
            continue
        repeats = any(record.get(key, value) != value for key, value in pairs)
        if record and (repeats or len(pairs) > 1):
            yield at, record
            record = {}
        at = at if record else number
        record |= dict(pairs)
    if record:
        yield at, record


@below_pages
@needing(_MARK)
def _sniff(source: Source) -> float:
    found = (_pairs(line) for line in source.head.split("\n") if _MARK in line)
    known = {key for pairs in found for key, _ in pairs} & {*_WORKLOAD, *_METRICS}
    return 0.97 if len(known) > 1 else 0.0


def _read(source: Source) -> Reading:
    lines = list(source.lines())
    records = [(number, one) for number, one in _records(lines) if _metrics(one)]
    if not records:
        raise Unreadable("its benchmark lines hold no figure")
    used = sum(_MARK in text for _, text in lines)
    return benchmark(
        source,
        "trtllm_old_bench",
        grouped([(_facts(one), _point(one, number)) for number, one in records]),
        tool=_TOOL,
        lines=LineCount(total=len(lines), understood=used, unknown=len(lines) - used),
    )


def _metrics(record: dict[str, str]) -> dict[str, float | None]:
    metrics: dict[str, float | None] = {}
    for key, raw in record.items():
        value, time = cells.number(raw), _TIME.fullmatch(key)
        if value is None:
            continue
        if key in _METRICS:
            name, factor = _METRICS[key]
            metrics[name] = value * factor
        elif time and time["name"] in _TIMES:
            stat = {"avg": "mean"}.get(time["stat"], time["stat"])
            metrics[f"{_TIMES[time['name']]}_ms_{stat}"] = value
    return metrics


def _point(record: dict[str, str], line: int) -> Measurement:
    load = {name: cells.whole(record[key]) for key, name in _WORKLOAD.items() if key in record}
    return serving.complete(Measurement(workload=load, metrics=_metrics(record), client=_TOOL, line=line))


def _facts(record: dict[str, str]) -> Facts:
    method = names.quantization(record.get("quantization", "").removeprefix("QuantMode.").split("_")[0])
    return Facts(
        engine="tensorrt-llm",
        model=record.get("model_name"),
        gpu_count=int(cells.number(record.get("world_size")) or 0) or None,
        quantization=method,
        settings={"dtype": record["precision"]} if "precision" in record else {},
    )


FORMAT = Format(
    name="trtllm_old_bench",
    kind="benchmark",
    sniff=_sniff,
    read=_read,
    docs=(
        "The `[BENCHMARK] key value …` lines of TensorRT-LLM's `benchmark.py`, `gptSessionBenchmark` and "
        "`gptManagerBenchmark`: a line of many pairs is a point, lines of one pair each are one together. "
        "Rates count output tokens; `total_latency(ms)` is the run's duration."
    ),
)
