"""vLLM's benchmarks: ``vllm bench serve``, ``latency`` and ``throughput``, as printed and as JSON.

Owns their marks and layouts. Must not read sweeps' CSV summaries, which are ordinary tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ingest.bench import client_commands, file_names, jsontext, printed, serving, serving_tables
from ingest.bench.identity import Facts, benchmark, experiment, grouped
from ingest.bench.places import place
from ingest.bench.rows import read_row
from ingest.bench.sniffing import below_pages, needing
from ingest.formats import Format, Unreadable
from ingest.settings import asked_settings, own_options
from ingest.sources import Source
from kb.model import LineCount, Measurement, Reading
from kb.wire import finite_number

_TOOL, _THROUGHPUT = "vllm bench serve", "vllm bench throughput"
_SGLANG_MARKS = ("(retokenized):", "E2E Latency (ms):")
_TRTLLM_MARKS = ("User throughput (tok/s):", "Request AR:")
_SERVE_KEYS = {"request_throughput", "output_throughput", "total_token_throughput", "completed"}


@below_pages
@needing("Serving Benchmark Result", "Starting main benchmark run", "Benchmark duration (s): ")
def _sniff_serve(source: Source) -> float:
    head = source.head
    if serving.is_headless(head):
        return 0.0 if any(mark in head for mark in _SGLANG_MARKS) else 0.9
    if "= Serving Benchmark Result" in head:
        return 0.0 if any(mark in head for mark in (*_SGLANG_MARKS, *_TRTLLM_MARKS)) else 0.92
    begun = "Namespace(" in head and ("bench_type='serve'" in head or "burstiness=" in head)
    return 0.8 if begun and "Starting main benchmark run" in head else 0.0


def _read_serve(source: Source) -> Reading:
    return serving_tables.read_tables(source, "vllm_bench_serve", _TOOL)


def _counted(total: int, used: int) -> LineCount:
    return LineCount(total=total, understood=used, unknown=total - used)


def _sniff_serve_json(source: Source) -> float:
    if not jsontext.looks_like_json(source.head):
        return 0.0
    keys = jsontext.keys_in(source.head)
    if "model_id" in keys and "tokenizer_id" in keys and ("num_prompts" in keys or "burstiness" in keys):
        seconds = "median_ttft" in keys or "mean_ttft" in keys
        return 0.0 if seconds else 0.93
    outer = jsontext.outer_keys(source.head) if len(_SERVE_KEYS & keys) >= 3 else frozenset()
    serves = len(_SERVE_KEYS & outer) >= 3 and "mean_ttft_ms" in outer
    return 0.9 if serves and "random_input_len" not in keys and "median_e2e_latency_ms" not in keys else 0.0


_CLIENTS_OWN = ("model_id", "model", "backend", "endpoint_type", "tokenizer_id", "label")


def _facts(result: Mapping[str, Any]) -> Facts:
    """What the result says of the server, with what its user added by ``--metadata``."""
    added = {
        key: one
        for key, one in result.items()
        if isinstance(one, str | int)
        and key not in _CLIENTS_OWN
        and (place(key) or ("workload",))[0] != "workload"
    }
    facts = serving.object_facts(result)
    return read_row(added, base=facts).facts if added else facts


def _read_serve_json(source: Source) -> Reading:
    documents = jsontext.load(source)
    pairs, problems = [], list(documents.problems)
    for line, result in documents.objects():
        if not _SERVE_KEYS & result.keys() and "input_sequence_throughput" not in result:
            continue
        pairs.append((_facts(result), serving.object_measurement(result, _TOOL, line)))
    if not pairs:
        raise Unreadable("no benchmark result among the JSON objects: none has a throughput")
    return benchmark(source, "vllm_bench_serve_json", grouped(pairs), tool=_TOOL, problems=problems)


_LATENCY_ROW = re.compile(
    r"(?:#+|//|\*)?\s*(?:Avg latency: (?P<mean>\d+(?:\.\d+)?) seconds"
    r"|(?P<p>\d+)% percentile latency: (?P<v>\d+(?:\.\d+)?) s)"
)


@below_pages
@needing("Avg latency: ")
def _sniff_latency(source: Source) -> float:
    head = source.head
    return 0.93 if "Avg latency: " in head and "% percentile latency: " in head else 0.0


def _read_latency(source: Source) -> Reading:
    lines = list(source.lines())
    arguments = client_commands.in_process(text for _, text in lines)
    points: list[Measurement] = []
    used = 0
    for number, text in lines:
        if "Namespace(" in text:
            arguments = serving.namespace(text)
        found = _LATENCY_ROW.match(text.strip())
        if not found:
            continue
        used += 1
        if found["mean"]:
            points.append(_batch_point({}, serving.batch_load(arguments), number))
        if points:
            name = "mean" if found["mean"] else f"p{found['p']}"
            told = {f"e2e_ms_{name}": float(found["mean"] or found["v"]) * 1e3}
            points[-1] = _batch_point({**points[-1].metrics, **told}, points[-1].workload, points[-1].line)
    if not points:
        raise Unreadable("the benchmark began but prints no average latency")
    return benchmark(
        source,
        "vllm_bench_latency",
        [experiment(replace(_in_process(arguments), engine="vllm"), points)],
        tool="vllm bench latency",
        lines=_counted(len(lines), used),
    )


def _batch_point(
    metrics: Mapping[str, float | None], load: Mapping[str, Any], line: int | None
) -> Measurement:
    known = dict.fromkeys(metrics, "latency of a whole batch")
    return Measurement(
        workload=dict(load), metrics=dict(metrics), client="vllm bench latency", line=line, source_names=known
    )


def _sniff_latency_json(source: Source) -> float:
    if not jsontext.looks_like_json(source.head):
        return 0.0
    keys = jsontext.keys_in(source.head)
    return 0.93 if {"avg_latency", "percentiles"} <= keys or {"avg_latency", "latencies"} <= keys else 0.0


def _read_latency_json(source: Source) -> Reading:
    documents = jsontext.load(source)
    pairs = [
        (replace(_model_of(one), engine="vllm"), _named(_latency_point(one, line), source.name))
        for line, one in documents.objects()
        if "avg_latency" in one
    ]
    if not pairs:
        raise Unreadable("no latency result: the JSON has no avg_latency")
    return benchmark(
        source,
        "vllm_bench_latency_json",
        grouped(pairs),
        tool="vllm bench latency",
        problems=documents.problems,
    )


def _latency_point(result: dict[str, Any], line: int) -> Measurement:
    percentiles = result.get("percentiles")
    seconds = {"mean": result["avg_latency"]} | {
        f"p{key}": value for key, value in (percentiles if isinstance(percentiles, dict) else {}).items()
    }
    told = {key: finite_number(value) for key, value in seconds.items()}
    metrics = {f"e2e_ms_{key}": value * 1e3 for key, value in told.items() if value is not None}
    return _batch_point(metrics, {}, line)


def _named(point: Measurement, name: str) -> Measurement:
    """The point with the lengths and the batch that the file's name tells: the JSON itself has none."""
    told = file_names.hints(name).workload
    load = {key: told[key] for key in ("input_len", "output_len", "batch_size") if key in told}
    return replace(point, workload=load | dict(point.workload))


def _model_of(result: dict[str, Any]) -> Facts:
    name = result.get("model_id") or result.get("model")
    return Facts(model=name if isinstance(name, str) else None)


def _in_process(arguments: dict[str, Any]) -> Facts:
    """What the arguments say of a server; where the engine ran in the same process, they are its own."""
    facts = serving.arguments_facts(arguments)
    if "gpu_memory_utilization" not in arguments or not str(arguments.get("backend", "vllm")).startswith(
        "vllm"
    ):
        return facts
    known = own_options("vllm", arguments)
    return replace(
        facts,
        engine="vllm",
        settings=asked_settings("vllm", None, known),
        quantization=facts.quantization or known.get("quantization"),
    )


@below_pages
@needing("Throughput: ")
def _sniff_throughput(source: Source) -> float:
    head = source.head
    return 0.93 if printed.states_throughput(head) and "Serving Benchmark Result" not in head else 0.0


def _read_throughput(source: Source) -> Reading:
    lines = list(source.lines())
    arguments = client_commands.in_process(text for _, text in lines)
    points: list[Measurement] = []
    used = 0
    for number, text in lines:
        if "Namespace(" in text:
            arguments = serving.namespace(text)
        told = printed.throughput(text)
        used += bool(told)
        if "request_s" in told:
            load = serving.arguments_workload(arguments)
            points.append(Measurement(workload=load, metrics=told, client=_THROUGHPUT, line=number))
        elif told and points:
            points[-1] = replace(points[-1], metrics={**points[-1].metrics, **told})
    return benchmark(
        source,
        "vllm_bench_throughput",
        [experiment(_in_process(arguments), points)],
        tool=_THROUGHPUT,
        lines=_counted(len(lines), used),
    )


def _sniff_throughput_json(source: Source) -> float:
    if not jsontext.looks_like_json(source.head):
        return 0.0
    keys = jsontext.keys_in(source.head)
    wanted = {"elapsed_time", "num_requests", "total_num_tokens", "tokens_per_second"}
    return 0.93 if wanted <= keys else 0.0


def _read_throughput_json(source: Source) -> Reading:
    documents = jsontext.load(source)
    objects = [(line, part) for line, one in documents.objects() for part in (one, *_inner(one))]
    pairs = [
        (_model_of(one), _throughput_object(one, line)) for line, one in objects if "total_num_tokens" in one
    ]
    if not pairs:
        raise Unreadable("no throughput result among the JSON's outer objects")
    return benchmark(
        source,
        "vllm_bench_throughput_json",
        grouped(pairs),
        tool=_THROUGHPUT,
        problems=documents.problems,
    )


def _inner(one: dict[str, Any]) -> list[dict[str, Any]]:
    """Results that an object holds by the names of their runs."""
    return [part for part in one.values() if isinstance(part, dict)]


_THROUGHPUT_KEYS = {
    "elapsed_time": "duration_s",
    "total_num_tokens": "total_tokens",
    "requests_per_second": "request_s",
    "tokens_per_second": "total_tok_s",
    "num_requests": "completed",
    "total_input_tokens": "input_tokens",
    "total_num_prompt_tokens": "input_tokens",
    "total_output_tokens": "output_tokens",
    "total_num_output_tokens": "output_tokens",
    "output_tokens_per_second": "output_tok_s",
}


def _throughput_object(result: dict[str, Any], line: int) -> Measurement:
    metrics = {
        name: float(result[key])
        for key, name in _THROUGHPUT_KEYS.items()
        if isinstance(result.get(key), int | float)
    }
    return Measurement(
        workload={"prompts": result.get("num_requests")},
        metrics=dict(metrics),
        client=_THROUGHPUT,
        line=line,
    )


FORMATS = [
    Format(
        name="vllm_bench_serve",
        kind="benchmark",
        sniff=_sniff_serve,
        read=_read_serve,
        version=3,
        docs=(
            "What `vllm bench serve` (older: `benchmark_serving.py`) prints: a table 50 wide per run, "
            "found by its heading and read by label, from 0.6 to today. Several tables in a file are "
            "several points; the dump of the client's arguments before a table gives model, lengths, rate "
            "and concurrency. A table that breaks off is read as far as it goes, and said to be cut."
        ),
    ),
    Format(
        name="vllm_bench_serve_json",
        kind="benchmark",
        sniff=_sniff_serve_json,
        read=_read_serve_json,
        version=2,
        docs=(
            "The file of `vllm bench serve --save-result` or `--append-result`: one object per run. "
            "Arrays of single requests (`--save-detailed`) are skipped. Latencies are in ms by their key "
            "names. The file names the model, never the GPU or the engine: an OpenAI back end proves no "
            "engine."
        ),
    ),
    Format(
        name="vllm_bench_latency",
        kind="benchmark",
        sniff=_sniff_latency,
        read=_read_latency,
        version=4,
        docs=(
            "What `vllm bench latency` prints. Its seconds are those of a whole batch; they become "
            "`e2e_ms_*` with that said in `source_names`. Each average begins a run; notes may keep the rows "
            "as comments."
        ),
    ),
    Format(
        name="vllm_bench_latency_json",
        kind="benchmark",
        version=2,
        sniff=_sniff_latency_json,
        read=_read_latency_json,
        docs=(
            "The JSON of `vllm bench latency`: `avg_latency` and percentiles in seconds, for a whole batch."
        ),
    ),
    Format(
        name="vllm_bench_throughput",
        kind="benchmark",
        sniff=_sniff_throughput,
        read=_read_throughput,
        version=3,
        docs=(
            "The last line of `vllm bench throughput`. Old releases print one number, which counts input "
            "and output tokens: it becomes `total_tok_s`. The estimate of the progress bar is not a "
            "result."
        ),
    ),
    Format(
        name="vllm_bench_throughput_json",
        kind="benchmark",
        sniff=_sniff_throughput_json,
        read=_read_throughput_json,
        version=3,
        docs=("The JSON of `vllm bench throughput`; `tokens_per_second` counts input and output tokens."),
    ),
]
