"""inference-perf (Kubernetes): lifecycle metrics of a stage or a whole run, as JSON.

Owns their nesting. Latencies are seconds; only successful requests are measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingest.bench import cells, file_names, jsontext
from ingest.bench.families import Families
from ingest.bench.identity import Facts, benchmark, experiment
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import Measurement, Reading

_TOOL = "inference-perf"


def _sniff(source: Source) -> float:
    if not jsontext.looks_like_json(source.head):
        return 0.0
    keys = jsontext.keys_in(source.head, 1500)
    return 0.95 if {"load_summary", "successes"} <= keys else 0.0


def _read(source: Source) -> Reading:
    documents = jsontext.load(source)
    points = [
        _point(one, line)
        for line, one in documents.objects()
        if isinstance(one.get("successes"), Mapping) and isinstance(one.get("load_summary"), Mapping)
    ]
    if not points:
        raise Unreadable("no object with load_summary and successes")
    told = file_names.hints(source.name)
    facts = file_names.fill_facts(Facts(), told)
    return benchmark(
        source,
        "inference_perf_json",
        [experiment(facts, points)],
        tool=_TOOL,
        problems=documents.problems,
        extra=told.as_extra(),
    )


def _part(value: Any, name: str) -> Mapping[str, Any]:
    found = value.get(name) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _point(report: Mapping[str, Any], line: int) -> Measurement:
    good, load = _part(report, "successes"), _part(report, "load_summary")
    gathered = Families()
    for key, family in _part(good, "latency").items():
        if isinstance(family, Mapping):
            gathered.add(key, "s", family)
    for key, rate in _part(good, "throughput").items():
        gathered.add(key, "", {"mean": rate})
    counts = {
        "completed": good.get("count"),
        "failed": _part(report, "failures").get("count"),
        "duration_s": load.get("send_duration"),
    }
    gathered.metrics |= {k: v for k, raw in counts.items() if (v := cells.number(raw)) is not None}
    asked = {
        "request_rate": cells.whole(load.get("requested_rate")),
        "concurrency": cells.whole(load.get("concurrency")),
        "prompts": cells.whole(load.get("count")),
        "input_len": _mean(good, "prompt_len"),
        "output_len": _mean(good, "output_len"),
    }
    gathered.workload |= {key: value for key, value in asked.items() if value is not None}
    return gathered.measurement(_TOOL, line)


def _mean(good: Mapping[str, Any], name: str) -> int | None:
    mean = cells.number(_part(good, name).get("mean"))
    return None if mean is None else round(mean)


FORMAT = Format(
    name="inference_perf_json",
    kind="benchmark",
    sniff=_sniff,
    read=_read,
    version=2,
    docs=(
        "Lifecycle metrics of `inference-perf` (`stage_N_lifecycle_metrics.json`, "
        "`summary_lifecycle_metrics.json`): latencies in seconds converted, rates, mean lengths, the "
        "asked and the failed requests."
    ),
)
