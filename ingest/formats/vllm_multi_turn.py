"""vLLM's multi-turn benchmark: the summary table that ``benchmark_serving_multi_turn.py`` prints.

Owns its rows and the parameters printed before them. Must not read the conversations.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

from ingest.bench import cells
from ingest.bench.identity import Facts, benchmark, experiment
from ingest.bench.sniffing import below_pages, needing
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import LineCount, Measurement, Reading

_TOOL = "vllm multi-turn benchmark"
_TOTAL = re.compile(r"^(?P<name>runtime_sec|requests_per_sec)\s*=\s*(?P<v>\d+(?:\.\d+)?)\s*$")
_HEADER = re.compile(
    r"^(?:\s+(?:count|mean|std|min|max|\d+(?:\.\d+)?%))+(?:\s+\\)?\s*$"
)  # wraps in a narrow shell
_ASSUMED = re.compile(r"^Statistics summary \(assuming (?P<pct>\d+)% warmup samples\)")
_N = r"(?:\d+(?:\.\d+)?|NaN)"
_ROW = re.compile(rf"^(?P<name>[a-z_]+)\s+(?P<values>{_N}(?:\s+{_N})+)\s*$")
_ASKED = re.compile(r"^(?P<name>model|served_model_name|num_clients|request_rate)=(?P<v>\S+)\s*$")
_TOTALS = {"runtime_sec": "duration_s", "requests_per_sec": "request_s"}
_LATENCIES = {"ttft_ms": "ttft_ms", "tpot_ms": "tpot_ms", "latency_ms": "e2e_ms"}
_LENGTHS = {"input_num_tokens": "input_len", "output_num_tokens": "output_len"}


@dataclass(slots=True)
class _Summary:
    line: int
    workload: dict[str, Any]
    metrics: dict[str, float | None] = field(default_factory=dict)

    def point(self) -> Measurement:
        return Measurement(workload=self.workload, metrics=self.metrics, client=_TOOL, line=self.line)


@below_pages
@needing("Statistics summary")
def _sniff(source: Source) -> float:
    head = source.head
    return 0.95 if re.search(r"^requests_per_sec\s*=", head, re.MULTILINE) and "latency_ms" in head else 0.0


def _read(source: Source) -> Reading:
    """One point per summary; what is asked for stands before the first."""
    points: list[_Summary] = []
    facts, asked = Facts(), dict[str, Any]()
    names: list[str] = []
    total = used = 0
    for number, text in source.lines():
        total = number
        found, row, told = _TOTAL.match(text), _ROW.match(text), _ASKED.match(text)
        used += bool(found or told or (row and names))
        if told:
            _ask(told["name"], told["v"], facts, asked)
        elif assumed := _ASSUMED.match(text):
            asked["warmup_pct"] = int(assumed["pct"])
        elif found:
            if found["name"] == "runtime_sec" or not points:
                points.append(_Summary(number, dict(asked)))
            points[-1].metrics[_TOTALS[found["name"]]] = float(found["v"])
        elif _HEADER.match(text):
            names = [_statistic(one) for one in text.rstrip(" \\").split()]
        elif row and names and points:
            values = map(float, row["values"].split())
            _add(points[-1], row["name"], dict(zip(names, values, strict=False)))
    if not points:
        raise Unreadable("no summary with a runtime")
    count = LineCount(total=total, understood=used, unknown=total - used)
    done = experiment(facts, [one.point() for one in points])
    return benchmark(source, "vllm_bench_multi_turn", [done], tool=_TOOL, lines=count)


def _ask(name: str, value: str, facts: Facts, asked: dict[str, Any]) -> None:
    if name == "model":
        facts.model = value
    elif name == "num_clients" and cells.whole(value):
        asked["concurrency"] = cells.whole(value)


def _statistic(heading: str) -> str:
    return f"p{heading.removesuffix('%').replace('.', '_')}" if heading.endswith("%") else heading


def _add(point: _Summary, name: str, row: dict[str, float]) -> None:
    if name in _LATENCIES:
        point.metrics |= {"completed": row.pop("count")} if "count" in row else {}
        point.metrics |= {f"{_LATENCIES[name]}_{key}": one for key, one in row.items()}
    elif name in _LENGTHS and row.get("mean", math.nan) >= 0:
        point.workload[_LENGTHS[name]] = round(row["mean"])


FORMAT = Format(
    name="vllm_bench_multi_turn",
    kind="benchmark",
    version=2,
    sniff=_sniff,
    read=_read,
    docs=(
        "The summary of vLLM's `benchmark_serving_multi_turn.py`: request rate, and latencies with their "
        "spread, over all turns. `latency_ms` is that of one turn."
    ),
)
