"""MLPerf Inference logs: the summary and the detail log.

Owns their keys. Latencies are nanoseconds; tokens per second count output tokens. Must not read tables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ingest.bench import cells
from ingest.bench.identity import Facts, benchmark, experiment
from ingest.bench.quantities import understand
from ingest.bench.sniffing import below_pages, needing
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import LineCount, Measurement, Problem, Reading

_TOOL = "mlperf loadgen"
_ROW = re.compile(r"^\s*(?P<key>[A-Za-z0-9][^:]{1,60}?)\s*:\s+(?P<value>\S.*?)\s*$")
_SAID = ("SUT name", "Scenario", "Mode", "Result is")
_FLAGS = re.compile(r"^(?:Performance constraints|Min duration|Min queries|Early stopping) satisfied$")
_PARAMETERS = {"target_qps", "samples_per_query", "performance_sample_count", "max_async_queries"}
MODELS = re.compile(
    r"(?:llama[23](?:[._]1)?-(?:8b|70b|405b)(?:-edge|-interactive)?|mixtral-8x7b|gpt-oss-120b|deepseek-r1|gptj"
    r"|qwen3-vl-235b-a22b|stable-diffusion-xl|whisper)(?:-99(?:\.9)?)?",
    re.IGNORECASE,
)


@below_pages
@needing("MLPerf Results Summary")
def _sniff_summary(source: Source) -> float:
    return 0.97 if re.search(r"^MLPerf Results Summary\s*$", source.head, re.MULTILINE) else 0.0


def _read_summary(source: Source) -> Reading:
    said: dict[str, str] = {}
    flags: dict[str, str] = {}
    figures: dict[str, str] = {}
    total = used = 0
    for number, text in source.lines():
        total, row = number, _ROW.match(text)
        if row:
            used += 1
            into = said if row["key"] in _SAID else flags if _FLAGS.match(row["key"]) else figures
            into.setdefault(row["key"], row["value"])
    if "Scenario" not in said:
        raise Unreadable("the summary breaks off before its scenario")
    metrics = _figures(figures)
    load = _load(said["Scenario"], figures)
    point = Measurement(workload=load, metrics=metrics, client=_TOOL, line=1)
    return _reading(source, "mlperf_summary", said | flags, point, (total, used))


def _figures(figures: Mapping[str, str]) -> dict[str, float | None]:
    metrics: dict[str, float | None] = {}
    for key, raw in figures.items():
        quantity, value = understand(key), cells.number(raw)
        if (
            quantity is None
            or value is None
            or key in _PARAMETERS
            or key.startswith(("ttft_", "tpot_", "min_", "max_"))
        ):
            continue
        name = "output_tok_s" if quantity.name == "tok_s" else quantity.name
        metrics.setdefault(name, value * quantity.factor)
    return metrics


def _load(scenario: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    """The load: MLPerf's scenario, its target rate (Server), or all at once (Offline)."""
    target = cells.whole(figures.get("target_qps"))
    load: dict[str, Any] = {"test": f"MLPerf {scenario}", "scenario": scenario}
    if scenario.lower() == "offline":
        return load | {"request_rate": "inf"}
    if scenario.lower() == "singlestream":  # one request after another, whatever the target says
        return load | {"concurrency": 1}
    asks = scenario.lower() == "server" and target is not None
    return load | ({"request_rate": target} if asks else {})


def _reading(
    source: Source, form: str, said: dict[str, Any], point: Measurement, counts: tuple[int, int]
) -> Reading:
    told = MODELS.findall(str(source.path).replace("_1-", ".1-"))
    facts = Facts(model=told[-1] if told else None)
    total, used = counts
    return benchmark(
        source,
        form,
        [experiment(facts, [point])],
        tool=_TOOL,
        problems=_verdict(said, point.metrics),
        lines=LineCount(total=total, understood=used, unknown=total - used),
        extra=said | ({"from_path": {"model": told[-1]}} if told else {}),
    )


def _verdict(said: Mapping[str, Any], metrics: Mapping[str, Any]) -> Iterable[Problem]:
    if said.get("Result is", "VALID") != "VALID":
        yield Problem(line=None, what=f"MLPerf calls this result {said['Result is']}: do not compare it")
    if not metrics:
        yield Problem(line=None, what=f"no speed in the file (mode {said.get('Mode')})")


def _sniff_detail(source: Source) -> float:
    return 0.97 if source.head.lstrip()[:11] == ":::MLLOG {" or source.head.startswith(":::MLLOG") else 0.0


_DETAIL = {
    "result_samples_per_second": "request_s",
    "result_completed_samples_per_sec": "request_s",
    "result_scheduled_samples_per_sec": "offered_request_s",
    "result_tokens_per_second": "output_tok_s",
    "result_completed_tokens_per_second": "output_tok_s",
    "result_query_count": "queries",
}
_DETAIL_STATS = re.compile(
    r"^result_(?P<kind>|first_token_|time_per_output_token_|time_to_output_token_)"
    r"(?:(?P<stat>min|max|mean)|(?P<p>\d+\.\d+)_percentile)(?:_latency)?(?:_ns)?$"
)
_DETAIL_KINDS = {
    "": "e2e_ms",
    "first_token_": "ttft_ms",
    "time_per_output_token_": "tpot_ms",
    "time_to_output_token_": "tpot_ms",
}


def _read_detail(source: Source) -> Reading:
    values: dict[str, Any] = {}
    total = 0
    errors: list[Problem] = []
    for number, text in source.lines():
        total = number
        if '"key": "result_' in text or '"key": "effective_' in text or '"is_error": true' in text:
            _detail_line(number, text, values, errors)
    metrics = _detail_metrics(values)
    scenario = str(values.get("effective_scenario") or "unknown")
    said = {"Scenario": scenario, "Mode": values.get("effective_test_mode")}
    said |= {"Result is": values["result_validity"]} if "result_validity" in values else {}
    load = _load(scenario, {"target_qps": values.get("effective_target_qps")})
    point = Measurement(workload=load, metrics=metrics, client=_TOOL, line=1)
    done = _reading(source, "mlperf_detail", said, point, (total, total))
    return done if not errors else _with(done, errors)


def _with(reading: Reading, errors: list[Problem]) -> Reading:
    return replace(reading, problems=(*reading.problems, *errors[:20]), status="partial")


def _detail_line(number: int, text: str, values: dict[str, Any], errors: list[Problem]) -> None:
    try:
        entry = json.loads(text[text.index("{") :])
    except ValueError:
        errors.append(Problem(line=number, what="this log entry is cut or not valid JSON"))
        return
    if not isinstance(entry, dict):
        return
    values[str(entry.get("key"))] = entry.get("value")
    meta = entry.get("metadata")
    if isinstance(meta, dict) and meta.get("is_error"):
        errors.append(Problem(line=number, what=f"LoadGen reports an error: {str(entry.get('value'))[:200]}"))


def _detail_metrics(values: Mapping[str, Any]) -> dict[str, float | None]:
    metrics: dict[str, float | None] = {}
    for key, raw in values.items():
        value, stats = cells.number(raw), _DETAIL_STATS.match(key)
        if value is None:
            continue
        if key in _DETAIL:
            metrics[_DETAIL[key]] = value
        elif stats:
            stat = stats["stat"] or "p" + stats["p"].rstrip("0").rstrip(".").replace(".", "_")
            metrics[f"{_DETAIL_KINDS[stats['kind']]}_{stat}"] = value / 1e6
    return metrics


def engine_in(stack: str) -> tuple[str | None, str | None]:
    """(name, version) of the one serving engine that a free text names; of several, none is told."""
    named = []
    for pattern, name in ((r"vLLM", "vllm"), (r"SGLang", "sglang"), (r"TensorRT[- ]LLM", "tensorrt-llm")):
        found = re.search(pattern + r"(?:[ :=v]+(\d+\.\d+[\w.+-]*))?", stack, re.IGNORECASE)
        named += [(name, found[1])] if found else []
    return named[0] if len(named) == 1 else (None, None)


FORMATS = [
    Format(
        name="mlperf_summary",
        kind="benchmark",
        sniff=_sniff_summary,
        read=_read_summary,
        version=2,
        docs=(
            "`mlperf_log_summary.txt`: rates, latencies in nanoseconds, first token and per token. Tokens "
            "per second are output tokens. A result that is not VALID says so. Model and system stand "
            "only in the path; a model found there is marked."
        ),
    ),
    Format(
        name="mlperf_detail",
        kind="benchmark",
        sniff=_sniff_detail,
        read=_read_detail,
        version=2,
        docs=(
            "`mlperf_log_detail.txt` (`:::MLLOG` lines): results and effective settings. Errors that "
            "LoadGen logged are listed. `result_token_throughput` is ignored: it is not a rate of the "
            "run."
        ),
    ),
]
