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
    if "latency" not in good:
        _add_scraped(gathered, good)
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
    }
    if "latency" in good:
        asked |= {
            "input_len": _mean(good, "prompt_len", "prompt_tokens"),
            "output_len": _mean(good, "output_len"),
        }
    gathered.workload |= {key: value for key, value in asked.items() if value is not None}
    return gathered.measurement(_TOOL, line)


_SCRAPED = ("request_latency", "time_to_first_token", "time_per_output_token", "inter_token_latency")
_RATES = {"prompt_len": "input_tok_s", "output_len": "output_tok_s"}


def _add_scraped(gathered: Families, good: Mapping[str, Any]) -> None:
    """What the server's own metrics said of the time of the run; their lengths are not those of requests."""
    for key in _SCRAPED:
        gathered.add(key, "s", _part(good, key))
    rates = {"request_s": good.get("rate")} | {
        name: _part(good, key).get("rate") for key, name in _RATES.items()
    }
    gathered.metrics |= {
        name: value for name, raw in rates.items() if (value := cells.number(raw)) is not None
    }


def _mean(good: Mapping[str, Any], *names: str) -> int | None:
    """The mean of a length under the first of the names that releases gave it."""
    means = (cells.number(_part(good, name).get("mean")) for name in names)
    return next((round(mean) for mean in means if mean is not None), None)


FORMAT = Format(
    name="inference_perf_json",
    kind="benchmark",
    sniff=_sniff,
    read=_read,
    version=4,
    docs=(
        "Lifecycle metrics of `inference-perf` (`stage_N_lifecycle_metrics.json`, "
        "`summary_lifecycle_metrics.json`), and what it scraped of the server meanwhile "
        "(`…_prometheus_metrics.json`): latencies in seconds converted, rates, mean lengths, the asked and "
        "the failed requests."
    ),
)
