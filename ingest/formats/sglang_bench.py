"""SGLang's serving benchmarks: ``bench_serving`` and ``bench_offline_throughput``, printed and JSON lines.

Owns their marks and what ``server_info`` tells about the server. Must not read the one-batch benchmarks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ingest.bench import jsontext, names, serving, serving_tables
from ingest.bench.identity import Facts, benchmark, grouped
from ingest.bench.sniffing import below_pages, needing
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import Measurement, Reading

_SERVING, _OFFLINE = "sglang.bench_serving", "sglang.bench_offline_throughput"
_MARKS = ("(retokenized):", "E2E Latency (ms):")
_SERVER_KEYS = (
    "tp_size",
    "pp_size",
    "dp_size",
    "ep_size",
    "kv_cache_dtype",
    "attention_backend",
    "prefill_attention_backend",
    "decode_attention_backend",
    "moe_runner_backend",
    "moe_a2a_backend",
    "fp8_gemm_runner_backend",
    "fp4_gemm_runner_backend",
    "speculative_algorithm",
    "speculative_num_steps",
    "speculative_eagle_topk",
    "speculative_num_draft_tokens",
    "mem_fraction_static",
    "chunked_prefill_size",
    "max_running_requests",
    "context_length",
    "page_size",
    "disable_cuda_graph",
    "cuda_graph_max_bs",
    "enable_dp_attention",
    "disable_radix_cache",
    "schedule_policy",
    "quantization",
    "dtype",
    "sampling_backend",
    "enable_torch_compile",
)


@below_pages
@needing("Serving Benchmark Result", "Namespace(backend='sglang", "Benchmark duration (s): ")
def _sniff_serving(source: Source) -> float:
    head = source.head
    if "Serving Benchmark Result" in head or serving.is_headless(head):
        return 0.94 if any(mark in head for mark in _MARKS) else 0.0
    return 0.7 if "Namespace(backend='sglang" in head and "dataset_name=" in head else 0.0


@below_pages
@needing("Offline Throughput Benchmark Result")
def _sniff_offline(source: Source) -> float:
    return 0.94 if re.search(r"=+ Offline Throughput Benchmark Result =+", source.head) else 0.0


def _read_serving(source: Source) -> Reading:
    return serving_tables.read_tables(source, "sglang_bench_serving", _SERVING)


def _read_offline(source: Source) -> Reading:
    return serving_tables.read_tables(source, "sglang_bench_offline_throughput", _OFFLINE)


def _sniff_json(source: Source) -> float:
    if not jsontext.looks_like_json(source.head):
        return 0.0
    keys = jsontext.keys_in(source.head, 1500)  # the server's own arguments may stand before the figures
    if "output_throughput" in keys and {"random_range_ratio", "request_rate"} <= keys:
        return 0.95
    return 0.9 if {"median_e2e_latency_ms", "output_throughput", "median_ttft_ms"} <= keys else 0.0


def _sniff_offline_json(source: Source) -> float:
    if not jsontext.looks_like_json(source.head):
        return 0.0
    keys = jsontext.keys_in(source.head)
    return 0.95 if {"last_gen_throughput", "total_latency", "successful_requests"} <= keys else 0.0


def _read_json(source: Source) -> Reading:
    return _read_objects(source, "sglang_bench_serving_jsonl", _SERVING)


def _read_offline_json(source: Source) -> Reading:
    return _read_objects(source, "sglang_bench_offline_throughput_jsonl", _OFFLINE)


def _read_objects(source: Source, form: str, tool: str) -> Reading:
    documents = jsontext.load(source)
    pairs = [
        (_object_facts(one, tool), _object_point(one, tool, line))
        for line, one in documents.objects()
        if "output_throughput" in one or "request_throughput" in one
    ]
    if not pairs:
        raise Unreadable("no benchmark result among the JSON objects: none has a throughput")
    return benchmark(source, form, grouped(pairs), tool=tool, problems=documents.problems)


def _object_point(result: Mapping[str, Any], tool: str, line: int) -> Measurement:
    point = serving.object_measurement(result, tool, line)
    seconds, cached = result.get("total_latency"), result.get("cache_report")
    metrics = dict(point.metrics)
    if tool == _OFFLINE and isinstance(seconds, int | float):
        metrics.pop("e2e_ms_mean", None)
        metrics["duration_s"] = float(seconds)
    if isinstance(cached, Mapping) and isinstance(cached.get("cache_hit_rate_pct"), int | float):
        metrics["cache_hit_rate"] = cached["cache_hit_rate_pct"] / 100
    return replace(point, metrics=metrics)


def _object_facts(result: Mapping[str, Any], tool: str) -> Facts:
    facts = serving.object_facts(result)
    if tool == _OFFLINE:
        facts.engine = "sglang"
    info = result.get("server_info")
    return _server_facts(facts, info) if isinstance(info, Mapping) else facts


def _server_facts(facts: Facts, info: Mapping[str, Any]) -> Facts:
    """Facts from the server's own answer: arguments after resolution, and the version."""
    version = info.get("version")
    given = {key: info[key] for key in _SERVER_KEYS if info.get(key) is not None}
    quantization = given.pop("quantization", None)
    name = info.get("model_path") or info.get("served_model_name") or facts.model
    return replace(
        facts,
        engine="sglang",
        engine_version=str(version) if version else None,
        model=str(name) if name else None,
        quantization=names.quantization(str(quantization or "")) or quantization,
        settings=given,
    )


FORMATS = [
    Format(
        name="sglang_bench_serving",
        kind="benchmark",
        sniff=_sniff_serving,
        read=_read_serving,
        version=2,
        docs=(
            "What `sglang.bench_serving` prints, 0.4.6 to today: the 50-wide table by its labels, told "
            "from vLLM's by the rows that only SGLang prints. `Concurrency` is the mean that was reached "
            "(`concurrency_mean`); `Max request concurrency` is the load. A native back end (`sglang`) "
            "proves the engine, an OpenAI one does not."
        ),
    ),
    Format(
        name="sglang_bench_serving_jsonl",
        kind="benchmark",
        sniff=_sniff_json,
        read=_read_json,
        version=2,
        docs=(
            "The file that `sglang.bench_serving --output-file` appends to: one line per run, each a "
            "point of its own. Where a line carries `server_info`, the server's version, back ends and "
            "widths come from it. Per-request arrays of `--output-details` are counted for errors and "
            "otherwise skipped."
        ),
    ),
    Format(
        name="sglang_bench_offline_throughput",
        kind="benchmark",
        sniff=_sniff_offline,
        read=_read_offline,
        version=3,
        docs=(
            "The table of `sglang.bench_offline_throughput`. The last generation throughput is no result; "
            "it is kept as `last_output_tok_s`."
        ),
    ),
    Format(
        name="sglang_bench_offline_throughput_jsonl",
        kind="benchmark",
        sniff=_sniff_offline_json,
        read=_read_offline_json,
        version=2,
        docs=(
            "The JSON lines of `sglang.bench_offline_throughput`; `total_latency` is the run's duration "
            "in seconds."
        ),
    ),
]
