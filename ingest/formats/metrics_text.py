"""A server's own ``/metrics``: vLLM, SGLang, TensorRT-LLM, TGI, llama.cpp.

Owns their metric names. ``extra["server_metrics"]`` holds what the server counted since its start, over all
its loads together (so none of it is a measurement of one workload): ``requests`` and ``aborted``,
``input_tokens``, ``output_tokens``, ``preemptions``, ``running``, ``waiting``, ``kv_usage_pct``,
``prefix_hit_pct``, ``accept_length``, and ``ttft_ms``, ``itl_ms``, ``tpot_ms``, ``e2e_ms``, ``queue_ms`` as
mean and quantiles. ``extra["engine_config"]`` holds the options that the server publishes, defaults included.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import replace
from typing import Any

from ingest.formats import Format, Unreadable
from ingest.launches import model_of
from ingest.machine import supplies
from ingest.prometheus import Sample, parse_samples, quantile
from ingest.sources import Source
from ingest.traces import line_count
from kb.model import Backend, Hardware, Reading

_ENGINES = {
    "vllm:": "vllm", "sglang:": "sglang", "trtllm_": "tensorrt-llm", "tgi_": "tgi", "llamacpp:": "llama.cpp",
    "nv_trt_llm_": "tensorrt-llm", "nv_llm_": "tensorrt-llm",
}  # fmt: skip
_MARK = re.compile(
    r"^(?:# (?:HELP|TYPE) )?(?:" + "|".join(_ENGINES) + r")[a-z]\w*(?:\{[^}]*\})? \S", re.MULTILINE
)
_TOTALS = {
    "requests": (
        "request_success_total", "request_success", "num_requests_total", "request_count",
        "output_token_len_count",
    ),
    "input_tokens": ("prompt_tokens_total", "prompt_tokens", "input_token_len_sum"),
    "output_tokens": (
        "generation_tokens_total", "generation_tokens", "tokens_predicted_total", "output_token_len_sum",
    ),
    "preemptions": ("num_preemptions_total", "num_preemptions"),
    "running": ("num_requests_running", "num_running_reqs", "requests_processing", "batch_current_size"),
    "waiting": ("num_requests_waiting", "num_queue_reqs", "requests_deferred", "queue_size"),
    "kv_used": ("kv_cache_usage_perc", "gpu_cache_usage_perc", "token_usage", "kv_cache_usage_ratio"),
    "prefix_queries": ("prefix_cache_queries_total", "gpu_prefix_cache_queries_total"),
    "prefix_hits": ("prefix_cache_hits_total", "gpu_prefix_cache_hits_total"),
    "cache_hit_rate": ("cache_hit_rate",),
    "drafts": ("spec_decode_num_drafts_total",),
    "accepted": ("spec_decode_num_accepted_tokens_total",),
    "accept_length": ("spec_accept_length",),
    "gen_throughput": ("gen_throughput",),
    "used_tokens": ("num_used_tokens",),
}  # fmt: skip
_LATENCIES = {
    "ttft_ms": ("time_to_first_token_seconds",),
    "itl_ms": ("inter_token_latency_seconds", "time_per_output_token_seconds"),
    "tpot_ms": ("request_time_per_output_token_seconds",),
    "e2e_ms": ("e2e_request_latency_seconds", "request_duration"),
    "queue_ms": ("request_queue_time_seconds", "queue_time_seconds", "request_queue_duration"),
}


def sniff(source: Source) -> float:
    """Samples or comments in an engine's own name space."""
    return 0.95 if _MARK.search(source.head) else 0.0


def read(source: Source) -> Reading:
    """What the server counted since its start; of several scrapes in one file the last."""
    reader = _Counters()
    for sample in parse_samples(source.lines()):
        reader.take(sample)
    if reader.engine is None:
        raise Unreadable("no sample in the name space of a known engine")
    found = {"server_metrics": reader.totals() | reader.latencies(), "engine_config": reader.config}
    return Reading(
        path=str(source.path),
        format="metrics_text",
        kind="metrics",
        tool=reader.engine,
        experiments=tuple(
            replace(one, model=model_of(reader.model))
            for one in supplies(Hardware(), Backend(engine=reader.engine))
        ),
        lines=line_count(reader.lines),
        extra={name: value for name, value in found.items() if value},
    )


class _Counters:
    """Values by metric, summed over labels; histograms by bucket."""

    def __init__(self) -> None:
        self.engine: str | None = None
        self.model: str | None = None
        self.config: dict[str, str] = {}
        self.lines = 0
        self.values: dict[str, dict[str, float]] = defaultdict(dict)
        self.buckets: dict[str, dict[str, dict[float, float]]] = defaultdict(dict)

    def take(self, sample: Sample) -> None:
        """One sample; a later one of the same labels replaces it, as the next scrape does."""
        self.lines += 1
        prefix = next((one for one in _ENGINES if sample.name.startswith(one)), None)
        if prefix is None or not math.isfinite(sample.value):
            return
        self.engine = self.engine or _ENGINES[prefix]
        name = sample.name.removeprefix(prefix)
        self.model = self.model or sample.labels.get("model_name") or sample.labels.get("model_id")
        labels = {key: value for key, value in sample.labels.items() if key != "le"}
        key = repr(sorted(labels.items()))
        if name in ("cache_config_info", "server_info", "engine_config_info"):
            self.config |= {label: value for label, value in labels.items() if value not in ("None", "")}
        elif name.endswith("_bucket") and "le" in sample.labels:
            bound = _bound(sample.labels["le"])
            self.buckets[name.removesuffix("_bucket")].setdefault(key, {})[bound] = sample.value
        else:
            self.values[name][key] = sample.value

    def totals(self) -> dict[str, Any]:
        """Counts and gauges under our names."""
        found = {key: total for key, names in _TOTALS.items() if (total := self._sum(names)) is not None}
        for key in ("requests", "input_tokens", "output_tokens", "preemptions", "running", "waiting"):
            if key in found:
                found[key] = int(found[key])
        aborted = self._labelled("request_success_total", ("abort", "error"))
        if aborted:
            found["aborted"] = aborted
        return _ratios(found)

    def latencies(self) -> dict[str, dict[str, float]]:
        """Mean and quantiles in ms; quantiles are read off the buckets, so they are coarse."""
        found = {}
        for key, names in _LATENCIES.items():
            for name in names:
                count, total = self._sum((f"{name}_count",)), self._sum((f"{name}_sum",))
                if count and total is not None:
                    found[key] = {"mean": round(1000 * total / count, 3)} | self._quantiles(name)
                    break
        return found

    def _quantiles(self, name: str) -> dict[str, float]:
        whole: dict[float, float] = defaultdict(float)
        for some in self.buckets.get(name, {}).values():
            for bound, count in some.items():
                whole[bound] += count
        shares = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
        told = {label: quantile(whole, share) for label, share in shares}
        return {label: round(1000 * value, 1) for label, value in told.items() if value is not None}

    def _sum(self, names: tuple[str, ...]) -> float | None:
        some = next((self.values[name] for name in names if self.values.get(name)), None)
        return sum(some.values()) if some else None

    def _labelled(self, name: str, words: tuple[str, ...]) -> int:
        some = self.values.get(name, {})
        return int(sum(value for key, value in some.items() if any(f"'{word}'" in key for word in words)))


def _ratios(found: dict[str, Any]) -> dict[str, Any]:
    queries, hits = found.pop("prefix_queries", None), found.pop("prefix_hits", None)
    rate = found.pop("cache_hit_rate", None)
    if queries:
        found["prefix_hit_pct"] = round(100 * (hits or 0.0) / queries, 2)
    elif rate is not None:
        found["prefix_hit_pct"] = round(100 * rate, 2)
    used = found.pop("kv_used", None)
    if used is not None:
        found["kv_usage_pct"] = round(100 * used, 2)
    drafts, accepted = found.pop("drafts", None), found.pop("accepted", None)
    if drafts:
        found["accept_length"] = round(1 + (accepted or 0.0) / drafts, 3)
    return found


def _bound(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.inf


FORMAT = Format(
    name="metrics_text",
    kind="metrics",
    sniff=sniff,
    read=read,
    version=2,
    docs="A server's own `/metrics` text (vLLM, SGLang, TensorRT-LLM, TGI, llama.cpp): what it counted "
    "since its start, over all loads together, and the options it publishes.",
)
