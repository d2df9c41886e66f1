"""SGLang's batch benchmarks: ``bench_one_batch`` (in process) and ``bench_one_batch_server`` (over HTTP).

Owns their printed blocks and JSON lines. A warm-up block is no result.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ingest.bench import cells, client_commands, jsontext, printed
from ingest.bench.identity import Facts, benchmark, experiment
from ingest.bench.sniffing import below_pages, needing
from ingest.formats import Format, Unreadable
from ingest.settings import asked_settings, own_options
from ingest.sources import Source
from kb.model import LineCount, Measurement, Reading

_BATCH, _SERVER = "sglang.bench_one_batch", "sglang.bench_one_batch_server"
_SERVER_ROW = re.compile(
    r"^(?P<label>batch size|input_len|output_len|latency|output throughput|input throughput|last_ttft"
    r"|\(input \+ output\) throughput|last generation throughput|acc_length|cache hit rate)"
    r"\s*:\s*(?P<value>-?\d+(?:\.\d+)?)"
)
_SERVER_METRICS = {
    "input throughput": "input_tok_s",
    "output throughput": "output_tok_s",
    "(input + output) throughput": "total_tok_s",
    "last generation throughput": "last_output_tok_s",
    "acc_length": "accept_length",
    "cache hit rate": "cache_hit_rate",
}
_LOADS = {"batch size": "batch_size", "input_len": "input_len", "output_len": "output_len"}


@below_pages
@needing("Prefill. latency:")
def _sniff_batch(source: Source) -> float:
    whole = printed.ENDS_BATCH in source.head and "median throughput" in source.head
    steps = re.search(r"^Decode\.\s+latency: +\d", source.head, re.MULTILINE)
    return 0.97 if whole or steps else 0.0


def _read_batch(source: Source) -> Reading:
    lines = list(source.lines())
    points: list[Measurement] = []
    used = 0
    warm, first, begun = False, None, False
    metrics: dict[str, float | None] = {}
    load: dict[str, Any] = {}
    for number, text in lines:
        warm = printed.batch_warms_up(text, warm)
        if text.startswith("Benchmark ...") and not begun:
            points.clear()  # a warm-up whose own first line is cut off
        begun = begun or warm or text.startswith("Benchmark ...")
        found = printed.batch_row(text, metrics, load)
        used += found
        first = (first or number) if found else first
        if found and printed.ENDS_BATCH in text:
            if not warm:
                points.append(Measurement(workload=load, metrics=metrics, client=_BATCH, line=first))
            metrics, load, first = {}, {}, None
    if not points:
        raise Unreadable("the benchmark has no finished block after its warm-up")
    count = LineCount(total=len(lines), understood=used, unknown=len(lines) - used)
    done = experiment(_asked(text for _, text in lines), points)
    return benchmark(source, "sglang_bench_one_batch", [done], tool=_BATCH, lines=count)


def _asked(lines: Iterable[str]) -> Facts:
    """What the benchmark's command asked of the engine, where it stands before the output."""
    given = client_commands.in_process(lines)
    known = own_options("sglang", given)
    model = given.get("model_path") or given.get("model")
    return Facts(
        engine="sglang",
        model=model if isinstance(model, str) else None,
        quantization=known.get("quantization"),
        settings=asked_settings("sglang", None, known),
    )


def _sniff_batch_json(source: Source) -> float:
    return _sniff_keys(source, {"prefill_latency", "batch_size", "overall_throughput"})


def _sniff_server_json(source: Source) -> float:
    return _sniff_keys(source, {"run_name", "batch_size", "latency", "overall_throughput"})


def _sniff_keys(source: Source, wanted: set[str]) -> float:
    if not jsontext.looks_like_json(source.head):
        return 0.0
    return 0.94 if wanted <= jsontext.keys_in(source.head) else 0.0


_BATCH_KEYS = {
    "prefill_latency": ("prefill_ms_mean", 1e3),
    "prefill_throughput": ("input_tok_s", 1.0),
    "median_decode_latency": ("itl_ms_p50", 1e3),
    "median_decode_throughput": ("output_tok_s", 1.0),
    "total_latency": ("e2e_ms_mean", 1e3),
    "overall_throughput": ("total_tok_s", 1.0),
}
_SERVER_KEYS = {
    "latency": ("e2e_ms_mean", 1e3),
    "input_throughput": ("input_tok_s", 1.0),
    "output_throughput": ("output_tok_s", 1.0),
    "overall_throughput": ("total_tok_s", 1.0),
    "last_ttft": ("ttft_ms_mean", 1e3),
    "last_gen_throughput": ("last_output_tok_s", 1.0),
    "acc_length": ("accept_length", 1.0),
    "cache_hit_rate": ("cache_hit_rate", 1.0),
    "total_output_tokens": ("output_tokens", 1.0),
    "steady_state_output_throughput": ("steady_output_tok_s", 1.0),
}


def _read_batch_json(source: Source) -> Reading:
    return _read_json(source, "sglang_bench_one_batch_jsonl", _BATCH, _BATCH_KEYS)


def _read_server_json(source: Source) -> Reading:
    return _read_json(source, "sglang_bench_one_batch_server_jsonl", _SERVER, _SERVER_KEYS)


def _read_json(source: Source, form: str, tool: str, keys: Mapping[str, tuple[str, float]]) -> Reading:
    documents = jsontext.load(source)
    points = [_json_point(one, line, tool, keys) for line, one in documents.objects() if "batch_size" in one]
    if not points:
        raise Unreadable("no object with a batch_size among the JSON lines")
    done = experiment(Facts(engine="sglang"), points)
    return benchmark(source, form, [done], tool=tool, problems=documents.problems)


def _json_point(
    row: Mapping[str, Any], line: int, tool: str, keys: Mapping[str, tuple[str, float]]
) -> Measurement:
    load = {key: row.get(key) for key in ("batch_size", "input_len", "output_len")}
    load["test"] = row.get("run_name")
    return _point(load, {keys[k][0]: v * keys[k][1] for k, v in _numbers(row, keys)}, line, tool)


def _numbers(row: Mapping[str, Any], keys: Mapping[str, Any]) -> list[tuple[str, float]]:
    found = ((key, cells.number(row.get(key))) for key in keys)
    return [(key, value) for key, value in found if value is not None]


def _point(load: dict[str, Any], metrics: dict[str, float], line: int | None, tool: str) -> Measurement:
    if metrics.get("accept_length", 0.0) < 0:  # -1 says that there was no speculation
        metrics.pop("accept_length")
    known = {"ttft_ms_mean": "last_ttft: of the last request"} if "ttft_ms_mean" in metrics else {}
    return Measurement(
        workload={key: value for key, value in load.items() if value is not None},
        metrics=dict(metrics),
        client=tool,
        line=line,
        source_names=known,
    )


@below_pages
@needing("batch size: ")
def _sniff_server(source: Source) -> float:
    head = source.head
    if not re.search(r"^batch size: \d+", head, re.MULTILINE):
        return 0.0
    return 0.93 if re.search(r"^output throughput: [\d.]+ tok", head, re.MULTILINE) else 0.0


def _read_server(source: Source) -> Reading:
    points: list[Measurement] = []
    load: dict[str, Any] = {}
    metrics: dict[str, float] = {}
    total = used = 0
    first: int | None = None
    for number, text in source.lines():
        total = number
        found = _SERVER_ROW.match(text.strip())
        if not found:
            continue
        used += 1
        if found["label"] == "batch size" and metrics:
            points.append(_point(load, metrics, first, _SERVER))
            load, metrics = {}, {}
        first = number if found["label"] == "batch size" else first
        _server_line(found["label"], float(found["value"]), load, metrics)
    points.append(_point(load, metrics, first, _SERVER))
    count = LineCount(total=total, understood=used, unknown=total - used)
    done = experiment(Facts(engine="sglang"), points)
    return benchmark(source, "sglang_bench_one_batch_server", [done], tool=_SERVER, lines=count)


def _server_line(label: str, value: float, load: dict[str, Any], metrics: dict[str, float]) -> None:
    if not math.isfinite(value):
        return
    if label in _LOADS:
        load[_LOADS[label]] = int(value)
    elif label in ("latency", "last_ttft"):
        metrics["e2e_ms_mean" if label == "latency" else "ttft_ms_mean"] = value * 1e3
    else:
        metrics[_SERVER_METRICS[label]] = value


FORMATS = [
    Format(
        name="sglang_bench_one_batch",
        kind="benchmark",
        version=2,
        sniff=_sniff_batch,
        read=_read_batch,
        docs=(
            "What `sglang.bench_one_batch` prints: prefill, median decode step, and total of a static "
            "batch in one process. The warm-up block has the same lines and is left out. The command, where "
            "it stands in the text, tells the model and the engine's options."
        ),
    ),
    Format(
        name="sglang_bench_one_batch_jsonl",
        kind="benchmark",
        sniff=_sniff_batch_json,
        read=_read_batch_json,
        docs=(
            "The JSON lines of `sglang.bench_one_batch` (`result.jsonl`, appended): one point per line, "
            "seconds converted. The median decode step becomes `itl_ms_p50`."
        ),
    ),
    Format(
        name="sglang_bench_one_batch_server",
        kind="benchmark",
        sniff=_sniff_server,
        read=_read_server,
        docs=(
            "What `sglang.bench_one_batch_server` prints per case: batch size, lengths, latency of the "
            "batch and throughputs. An `acc_length` of -1 means no speculation."
        ),
    ),
    Format(
        name="sglang_bench_one_batch_server_jsonl",
        kind="benchmark",
        sniff=_sniff_server_json,
        read=_read_server_json,
        docs=(
            "The JSON lines of `sglang.bench_one_batch_server`, from 0.4.6 (four figures) to today (time "
            "to first token, steady state, cache hits)."
        ),
    ),
]
