"""InferenceMAX / InferenceX: raw result objects with latencies in seconds, and aggregate rows per GPU.

Owns what differs from vLLM's result object: units by key name, per-GPU rates, parallel widths. Must not read
files whose latencies carry ``_ms``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ingest.bench import cells, file_names, jsontext, names, serving
from ingest.bench.identity import Facts, benchmark, grouped
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import Measurement, Reading

_TOOL = "InferenceX"
_SECONDS = re.compile(r'"(?:mean|median|p99|p95|p90)_(?:ttft|tpot|e2el|itl)"\s*:')
_PER_GPU = {
    "tput_per_gpu": "total_tok_s_per_gpu",
    "output_tput_per_gpu": "output_tok_s_per_gpu",
    "input_tput_per_gpu": "input_tok_s_per_gpu",
}
_WIDTHS = (
    "tp",
    "ep",
    "pp",
    "dp",
    "prefill_tp",
    "prefill_ep",
    "decode_tp",
    "decode_ep",
    "prefill_num_workers",
    "decode_num_workers",
    "num_prefill_gpu",
    "num_decode_gpu",
)
_FLAGS = ("dp_attention", "prefill_dp_attention", "decode_dp_attention", "disagg", "is_multinode")


def _sniff_raw(source: Source) -> float:
    if not jsontext.looks_like_json(source.head) or not _SECONDS.search(source.head):
        return 0.0
    keys = jsontext.keys_in(source.head)
    return 0.95 if {"model_id", "request_throughput"} <= keys and "tput_per_gpu" not in keys else 0.0


def _read_raw(source: Source) -> Reading:
    documents = jsontext.load(source)
    told = file_names.hints(source.name)
    pairs = []
    for line, result in documents.objects():
        if "request_throughput" in result:
            facts = file_names.fill_facts(serving.object_facts(result), told)
            point = serving.object_measurement(result, _TOOL, line)
            pairs.append((facts, replace(point, workload=told.workload | dict(point.workload))))
    if not pairs:
        raise Unreadable("no result with a request_throughput among the JSON objects")
    return benchmark(
        source,
        "inferencex_json",
        grouped(pairs),
        tool=_TOOL,
        problems=documents.problems,
        extra=told.as_extra(),
    )


def _sniff_aggregate(source: Source) -> float:
    if not jsontext.looks_like_json(source.head):
        return 0.0
    keys = jsontext.keys_in(source.head)
    return 0.96 if "tput_per_gpu" in keys and ("hw" in keys or "conc" in keys) else 0.0


def _read_aggregate(source: Source) -> Reading:
    documents = jsontext.load(source)
    rows = [(line, one) for line, one in documents.objects() if "tput_per_gpu" in one]
    if not rows:
        raise Unreadable("no row with tput_per_gpu among the JSON objects")
    pairs = [(_facts(row), _point(row, line)) for line, row in rows]
    return benchmark(
        source, "inferencex_agg_json", grouped(pairs), tool=_TOOL, problems=documents.problems, rows=len(rows)
    )


def _facts(row: Mapping[str, Any]) -> Facts:
    """Facts of an aggregate row; its hardware may carry a runner's suffix (``b200-trt``)."""
    printed = str(row.get("hw") or row.get("device") or "")
    settings: dict[str, Any] = {key: row[key] for key in _WIDTHS if row.get(key) is not None}
    settings |= {key: _truth(row[key]) for key in _FLAGS if row.get(key) is not None}
    speculation = row.get("spec_decoding") or ("mtp" if _truth(row.get("mtp")) is True else None)
    settings |= {"speculation": speculation} if speculation and speculation not in ("none", "false") else {}
    image = str(row.get("image") or "").replace("#", "/", 1)
    stack = str(row.get("framework") or "")
    settings |= {"framework": stack} if "-" in stack else {}  # an engine behind another's front
    return Facts(
        model=row.get("model") or row.get("infmax_model_prefix") or None,
        gpu=_product(printed),
        gpu_count=_gpus(row),
        engine=row.get("framework") or None,
        engine_version=_tag(image),
        quantization=row.get("precision") or None,
        settings=settings | ({"image": image} if image else {}),
    )


def _product(printed: str) -> str | None:
    parts = printed.split("-")
    while len(parts) > 1 and names.gpu("-".join(parts)) is None:
        parts.pop()
    return "-".join(parts) or None


def _gpus(row: Mapping[str, Any]) -> int | None:
    split = [cells.number(row.get(key)) for key in ("num_prefill_gpu", "num_decode_gpu")]
    if all(split):
        shared = _truth(row.get("disagg")) is False and split[0] == split[1]  # the same GPUs, told twice
        return int(split[0] or 0) if shared else int(sum(one or 0 for one in split))
    widths = [cells.number(row.get("tp")), *(cells.number(row.get(key)) or 1 for key in ("pp", "pcp_size"))]
    return int(math.prod(width or 0 for width in widths)) or None


def _tag(image: str) -> str | None:
    found = re.search(r":v?(\d+\.\d+[\w.]*)", image)
    return found[1] if found else None


def _truth(value: Any) -> Any:
    return {"true": True, "false": False, "on": True, "off": False}.get(str(value).lower(), value)


def _point(row: Mapping[str, Any], line: int) -> Measurement:
    rest = {
        key: value
        for key, value in row.items()
        if key not in _PER_GPU and not key.endswith(("_intvty", "_ms"))  # its own latencies are seconds
    }
    point = serving.object_measurement(rest, _TOOL, line)
    metrics = dict(point.metrics)
    for key, name in _PER_GPU.items():
        if (value := cells.number(row.get(key))) is not None:
            metrics[name] = value
    metrics |= _interactivity(row)
    count = _gpus(row)
    if count and _truth(row.get("disagg")) is not True and "output_tok_s" not in metrics:
        metrics |= {
            name.removesuffix("_per_gpu"): (metrics[name] or 0) * count
            for name in _PER_GPU.values()
            if name in metrics
        }
    return replace(point, metrics=metrics)


def _interactivity(row: Mapping[str, Any]) -> dict[str, float | None]:
    """Tokens per second that one user sees: ``median_intvty`` and its kin."""
    found: dict[str, float | None] = {}
    for key, raw in row.items():
        named = re.fullmatch(r"(mean|median|p\d+)_intvty", key)
        value = cells.number(raw) if named else None
        if named and value is not None:
            stat = {"mean": "", "median": "_p50"}.get(named[1], f"_{named[1]}")
            found[f"output_tok_s_per_user{stat}"] = value
    return found


FORMATS = [
    Format(
        name="inferencex_json",
        kind="benchmark",
        sniff=_sniff_raw,
        read=_read_raw,
        version=2,
        docs=(
            "Result objects of InferenceX (2026) whose latencies are seconds under names without a unit "
            "(`median_ttft`). Engine, widths and precision stand only in the file's name; what was taken "
            "from there is listed in `extra`."
        ),
    ),
    Format(
        name="inferencex_agg_json",
        kind="benchmark",
        sniff=_sniff_aggregate,
        read=_read_aggregate,
        version=4,
        docs=(
            "Aggregate rows of InferenceMAX / InferenceX (`agg_*.json`): rates per GPU (kept as "
            "`…_per_gpu` and multiplied out where one engine serves), latencies in seconds, interactivity "
            "as `output_tok_s_per_user`, `dp_attention` as text, split prefill and decode widths."
        ),
    ),
]
