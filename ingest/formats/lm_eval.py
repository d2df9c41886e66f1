"""lm-evaluation-harness: results JSON and the printed table.

Owns metric keys with filters ("exact_match,strict-match"). Must not judge whether a score is good.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ingest.bench import cells, jsontext, names, tables
from ingest.bench.identity import Facts, benchmark, experiment, grouped
from ingest.bench.sniffing import below_pages, needing
from ingest.formats import Format, Unreadable
from ingest.pyrepr import parse_mapping
from ingest.sources import Source
from kb.model import LineCount, Measurement, Reading

_TOOL = "lm-eval"
_MAIN = (
    "exact_match",
    "acc",
    "acc_norm",
    "pass@1",
    "pass_at_1",
    "mc2",
    "f1",
    "prompt_level_strict_acc",
    "score",
)
_TABLE = re.compile(r"^\|\s*(?:Tasks|Groups)\s*\|\s*Version\s*\|.*\bMetric\b.*\bValue\b", re.MULTILINE)
_SETTINGS = (
    "tensor_parallel_size",
    "data_parallel_size",
    "gpu_memory_utilization",
    "max_model_len",
    "dtype",
    "kv_cache_dtype",
    "enforce_eager",
    "tp_size",
    "dp_size",
    "quantization",
    "num_concurrent",
)


_OLD = re.compile(  # before filters: a task's metrics by their bare names
    r"\s*\{\s*\"results\":\s*\{\s*\"[^\"]+\":\s*\{\s*\"(?:acc|acc_norm|mc1|mc2|em|f1|ppl|pct_stereotype"
    r"|(?:byte|word)_perplexity|likelihood_difference|exact_match)(?:_stderr)?\":\s*[\d.]"
)


_BARE = re.compile(r'\s*\{\s*"[^"]+":\s*\{\s*"alias":\s*"')  # a task's scores alone


def _sniff_json(source: Source) -> float:
    if not jsontext.looks_like_json(source.head):
        return 0.0
    head, keys = source.head, jsontext.keys_in(source.head)
    filtered = re.search(r'"[\w@.]+,(?:none|strict-match|flexible-extract|[\w-]+)"\s*:', head)
    if "results" not in keys:
        return 0.9 if filtered and _BARE.match(head) else 0.0
    if filtered:
        return 0.96
    if _OLD.match(head) and ('"versions"' in head or len(head) < source.size):
        return 0.9
    return 0.8 if {"n-shot", "configs"} <= keys or "lm_eval_version" in keys else 0.0


def _read_json(source: Source) -> Reading:
    documents = jsontext.load(source)
    report = documents.first
    report = _alone(report) if isinstance(report, Mapping) else {}
    results = report.get("results")
    if not isinstance(results, Mapping):
        raise Unreadable("the file has no results object")
    counts, shots = _mapping(report.get("n-samples")), _mapping(report.get("n-shot"))
    points = [
        _point(task, _filtered(_mapping(scores)), _effective(counts.get(task)), shots.get(task))
        for task, scores in results.items()
    ]
    return benchmark(
        source,
        "lm_eval_json",
        [experiment(_facts(report), [one for one in points if one.metrics])],
        tool=_TOOL,
        tool_version=report.get("lm_eval_version"),
        problems=documents.problems,
    )


def _alone(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """A report, also where somebody kept only the object of results."""
    bare = "results" not in report and all("alias" in _mapping(one) for one in report.values())
    return {"results": report} if bare else report


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _filtered(scores: Mapping[str, Any]) -> Mapping[str, Any]:
    """Scores as they are named since 0.4; before that, a metric's name stood without a filter."""
    return (
        scores if any("," in key for key in scores) else {f"{key},none": raw for key, raw in scores.items()}
    )


def _effective(count: Any) -> Any:
    return count.get("effective") if isinstance(count, Mapping) else count


def _point(task: str, scores: Mapping[str, Any], samples: Any, shots: Any) -> Measurement:
    metrics: dict[str, float | None] = {}
    for key, raw in scores.items():
        value = cells.number(raw) if isinstance(raw, int | float) else None
        if value is not None and "," in key:
            name, _, chosen = key.rpartition(",")
            metrics[name if chosen == "none" else f"{name}_{chosen.replace('-', '_')}"] = value
    main = _main(scores)
    known = {}
    if main is not None:
        metrics["accuracy"] = float(scores[main])
        known["accuracy"] = main
    alias = str(scores.get("alias") or task)
    test = task if alias.startswith(" ") else alias  # a part of a group shows its name without the group's
    load = {"test": test, "prompts": samples, "shots": shots}
    load = {key: value for key, value in load.items() if value is not None}
    return Measurement(workload=load, metrics=metrics, client=_TOOL, source_names=known)


def _main(scores: Mapping[str, Any]) -> str | None:
    """The key whose score stands for the task: the first main metric, without or with a lenient filter."""
    order = ("none", "flexible-extract", "strict-match")
    for name in _MAIN:
        keys = [
            key for key in scores if key.rpartition(",")[0] == name and isinstance(scores[key], int | float)
        ]
        if keys:
            return min(
                keys, key=lambda key: order.index(c) if (c := key.rpartition(",")[2]) in order else len(order)
            )
    # RULER names its metrics by the length that they were measured at.
    return next((key for key, raw in scores.items() if _is_share_at_length(key, raw)), None)


def _is_share_at_length(key: str, raw: Any) -> bool:
    return key.partition(",")[0].isdecimal() and isinstance(raw, int | float) and 0 <= raw <= 1


def _facts(report: Mapping[str, Any]) -> Facts:
    config = _mapping(report.get("config"))
    given = _arguments(config.get("model_args"))
    name = (
        given.get("pretrained") or given.get("model") or report.get("model_name") or report.get("base_model")
    )
    kind = str(config.get("model") or report.get("model_source") or "")
    return Facts(
        model=str(name) if name else None,
        engine=kind if names.known_engine(kind) else None,
        settings={key: given[key] for key in _SETTINGS if key in given},
    )


def _arguments(given: Any) -> dict[str, Any]:
    """Model arguments, from an object or from "a=1,b=2"."""
    if isinstance(given, str) and given.startswith("{"):
        given = parse_mapping(given)
    if isinstance(given, Mapping):
        return dict(given)
    pairs = (part.partition("=") for part in str(given or "").split(",") if "=" in part)
    return {key.strip(): _value(value.strip()) for key, _, value in pairs}


def _value(text: str) -> Any:
    return int(text) if text.isdecimal() else {"True": True, "False": False}.get(text, text)


@below_pages
@needing("|Version|", "n-shot")
def _sniff_table(source: Source) -> float:
    return 0.96 if _TABLE.search(source.head) else 0.0


_ANNOUNCED = re.compile(r"^(?P<kind>[\w-]+) \((?P<args>\{.*?\}|[^)]*=[^)]*)\), gen_kwargs: ")


def _read_table(source: Source) -> Reading:
    lines = list(source.lines())
    said = next((m for _, text in lines if (m := _ANNOUNCED.match(text))), None)
    report = {"config": {"model": said["kind"], "model_args": said["args"]}} if said else {}
    found = [
        table for table in tables.pipe_tables(lines) if "Metric" in table.header and "Value" in table.header
    ]
    facts, texts = _facts(report), dict(lines)
    pairs = [
        (facts if said else replace(facts, model=_named_above(table, texts)), point)
        for table in found
        for point in _table_points(table)
    ]
    used = len(pairs) + len(found) * 2
    return benchmark(
        source,
        "lm_eval_table",
        grouped(pairs),
        tool=_TOOL,
        lines=LineCount(total=len(lines), understood=used, unknown=max(len(lines) - used, 0)),
    )


def _named_above(table: tables.Table, texts: Mapping[int, str]) -> str | None:
    """The checkpoint that stands alone above a table."""
    above = (texts.get(table.line - back, "").strip(" `#*") for back in (1, 2, 3))
    nearest = next((one for one in above if one), "")
    return nearest if re.fullmatch(r"[\w.-]+/[\w.-]+", nearest) else None


def _table_points(table: tables.Table) -> Iterable[Measurement]:
    """A point per task; rows of further filters and metrics leave the task's cell empty."""
    task, scores, shots, first = "", dict[str, Any](), None, table.line
    for line, row in table.records():
        name = row.get(table.header[0], "").strip(" -")
        key = f"{row.get('Metric', '').strip()},{row.get('Filter', 'none').strip() or 'none'}"
        if name and scores and (name != task or key in scores):  # some copies repeat the name in each row
            yield _named(_point(task, scores, None, shots), first)
            scores = {}
        if name and not scores:
            task, first, shots = name, line, cells.whole(row.get("n-shot"))
        value = cells.number(row.get("Value"))
        if value is not None:
            scores[key] = value
    if scores:
        yield _named(_point(task, scores, None, shots), first)


def _named(point: Measurement, line: int) -> Measurement:
    return Measurement(
        workload=point.workload,
        metrics=point.metrics,
        client=_TOOL,
        line=line,
        source_names=point.source_names,
    )


FORMATS = [
    Format(
        name="lm_eval_json",
        kind="benchmark",
        version=4,
        sniff=_sniff_json,
        read=_read_json,
        docs=(
            "`results_*.json` of lm-evaluation-harness: a point per task with every metric and filter, "
            "the main one as `accuracy` (a fraction). Model and, where the harness ran the engine itself, "
            "its settings come from `model_args`."
        ),
    ),
    Format(
        name="lm_eval_table",
        kind="benchmark",
        sniff=_sniff_table,
        read=_read_table,
        version=2,
        docs=("The table that lm-evaluation-harness prints; the line above it gives model and arguments."),
    ),
]
