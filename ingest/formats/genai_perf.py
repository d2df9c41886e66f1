"""GenAI-Perf and AIPerf: JSON profile, CSV export, console table, and AIPerf's records per request.

Owns both tools' layouts, which share metric names. Must not read llm-d's wrapping of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ingest.bench import cells, jsontext, requests, tables
from ingest.bench.families import Families, add_rows
from ingest.bench.identity import Facts, benchmark, experiment
from ingest.bench.sniffing import below_pages, is_page, needing
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import LineCount, Measurement, Problem, Reading

_GENAI, _AIPERF = "genai-perf", "aiperf"
_FAMILIES = {"request_latency", "time_to_first_token", "inter_token_latency", "request_throughput"}
_TITLE = re.compile(
    r"NVIDIA (?P<tool>GenAI-Perf|AIPerf) \| |^\s*(?:Embeddings|Rankings|VLM|LLM|Multi-Modal) Metrics"
)
_ROWS = re.compile(
    r"(?im)^[ \t]*\"?(?:Time To|Inter Token|Request |Output (?:Token|Sequence)|Input Sequence)"
)
_LOOSE_RATE = re.compile(r"^\s*(?P<name>Request|Output token) throughput \(per sec\):\s*(?P<v>[\d.,]+)")
_COMMAND = re.compile(r"\b(?:perf_analyzer|(?:genai-perf|aiperf)(?: profile)?) (?=.*\s-)(?P<args>.+)")
_MODEL = re.compile(r"(?:^|\s)(?:-m|--model(?:-names?)?)[ =](?P<v>[^\s']+)")
_WIDTH = re.compile(r"\s--concurrency(?:-range)?[ =](?P<v>\d+)(?![\d:])")
_TREE = re.compile(r"^[│ ]*[├└]── ?\S*(?:profile_export|genai[_-]perf|artifacts)", re.MULTILINE)


def _sniff_profile(source: Source, aiperf: bool) -> float:
    head = source.head
    if aiperf and "aiperf_version" in head and not is_page(source):  # words may stand above
        head = head[max(head.find("\n{\n"), 0) :]
    if not jsontext.looks_like_json(head):
        return 0.0
    keys = jsontext.keys_in(head, 3000)
    if not _FAMILIES & keys or "unit" not in keys or ("metadata" in keys and "session_num" in keys):
        return 0.0
    is_aiperf = bool({"aiperf_version", "schema_version", "benchmark_id"} & keys)
    if is_aiperf != aiperf:
        return 0.0
    if "input_config" in keys or is_aiperf:
        return 0.95
    return 0.6 if len(_FAMILIES & keys) > 1 else 0.0


def _read_profile(source: Source) -> Reading:
    documents = jsontext.load(source)
    profile = documents.first
    if not isinstance(profile, Mapping):
        raise Unreadable("the profile is not a JSON object")
    gathered = Families()
    for key, value in profile.items():
        if isinstance(value, Mapping) and isinstance(value.get("unit"), str):
            stats = {name: one for name, one in value.items() if name != "unit"}
            gathered.add(key, value["unit"], stats)
    for key, unit, stats in _native(profile.get("metrics")):
        gathered.add(key, unit, stats)
    config = profile.get("input_config")
    config = config if isinstance(config, Mapping) else {}
    gathered.workload |= _load(config)
    aiperf = bool({"aiperf_version", "schema_version", "benchmark_id"} & profile.keys())
    facts = Facts(
        model=_model(config) or _model(_mapping(profile.get("run"))), started=profile.get("start_time")
    )
    return benchmark(
        source,
        "aiperf_json" if aiperf else "genai_perf_json",
        [experiment(facts, [gathered.measurement(_AIPERF if aiperf else _GENAI, 1)])],
        tool=_AIPERF if aiperf else _GENAI,
        tool_version=profile.get("aiperf_version"),
        problems=[*documents.problems, *_stopped(profile)],
        extra=_telemetry(profile),
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _native(metrics: Any) -> Iterable[tuple[str, str, dict[str, Any]]]:
    """(name, unit, statistics) of a report of version 2, whose series without labels is of the whole run."""
    for name, entry in _mapping(metrics).items():
        series = _mapping(entry).get("series")
        found = [_mapping(one) for one in series] if isinstance(series, list) else []
        whole = [one for one in found if not one.get("labels")]
        stats = dict(_mapping(whole[0].get("stats"))) if len(whole) == 1 else {}
        if stats:
            stats |= _mapping(stats.pop("percentiles", None))
            stats |= {"avg": stats["total"]} if "total" in stats else {}
            yield name, str(_mapping(entry).get("unit") or ""), stats


def _stopped(profile: Mapping[str, Any]) -> Iterable[Problem]:
    if profile.get("was_cancelled") is True:
        yield Problem(line=None, what="the benchmark was cancelled; its figures cover a part of the run")
    elif profile.get("is_complete") is False:
        yield Problem(line=None, what=f"the run is not complete: {profile.get('incomplete_reason')}")


def _telemetry(profile: Mapping[str, Any]) -> dict[str, Any]:
    found = profile.get("telemetry_stats") or profile.get("telemetry_data")
    return {"telemetry": found} if found else {}


def _find(config: Any, name: str) -> Any:
    """A member of the configuration at any depth (its nesting changed between releases)."""
    if not isinstance(config, Mapping):
        return None
    if config.get(name) not in (None, [], {}):
        return config[name]
    return next((found for one in config.values() if (found := _find(one, name)) is not None), None)


def _model(config: Mapping[str, Any]) -> str | None:
    found = _find(config, "model_names") or _find(config, "model")
    first = found[0] if isinstance(found, list) and found else found
    return first if isinstance(first, str) else None


def _load(config: Mapping[str, Any]) -> dict[str, Any]:
    load = {
        "concurrency": cells.whole(_find(config, "concurrency")),
        "request_rate": cells.whole(_find(config, "request_rate")),
        "prompts": cells.whole(_find(config, "request_count") or _find(config, "num_prompts")),
    }
    return {key: value for key, value in load.items() if value is not None}


_CSV_HEAD = re.compile(
    r"^\ufeff?[ \t]*Metric,(?P<stats>(?:avg|min|max|sum|std|p\d+)(?:,(?:avg|min|max|sum|std|p\d+))+)\s",
    re.MULTILINE,
)


def _sniff_csv(source: Source, aiperf: bool) -> float:
    found = _CSV_HEAD.search(source.head)
    if not found or not _ROWS.search(source.head):
        return 0.0
    is_aiperf = "sum" in found["stats"] or found["stats"].endswith("std")
    sure = 0.95 if not found.start() else 0.5 if is_page(source) else 0.9  # quoted in a text
    return sure if is_aiperf == aiperf else 0.0


def _read_csv(source: Source) -> Reading:
    gathered = Families()
    header: list[str] = []
    begun = _CSV_HEAD.search(source.text)
    quoted = source.text[begun.start() :] if begun else source.text
    rows = tables.delimited("\n".join(line.strip() for line in quoted.lstrip("\ufeff").split("\n")))
    for row in rows:
        if row and row[0] in ("Metric", "Endpoint"):  # a table of single cards is none of requests
            header = [] if row[1:2] == ["GPU"] or row[0] == "Endpoint" else row
        elif len(row) > 1 and header and row[0]:
            gathered.add(row[0], "", dict(zip(header[1:], row[1:], strict=False)))
    if (gathered.metrics.get("goodput_request_s") or 0) < 0:  # what it writes for a goal that it cannot judge
        del gathered.metrics["goodput_request_s"]
    aiperf = _sniff_csv(source, aiperf=True) > 0
    tool = _AIPERF if aiperf else _GENAI
    return benchmark(
        source,
        "aiperf_csv" if aiperf else "genai_perf_csv",
        [experiment(Facts(), [gathered.measurement(tool, 1)])],
        tool=tool,
        lines=LineCount(total=len(rows), understood=gathered.understood, unknown=len(gathered.other)),
        extra={"other": gathered.other} if gathered.other else {},
    )


@below_pages
@needing("GenAI-Perf", "AIPerf", "Statistic", "Metric", "profile_export", "artifacts")
def _sniff_console(source: Source) -> float:
    head = source.head
    if re.search(r"NVIDIA (?:GenAI-Perf|AIPerf) \| ", head):
        return 0.96
    if re.search(r"[┃│|]\s*(?:Statistic|Metric)\s*[┃│|]\s*avg\s*[┃│|]", head):
        return 0.9
    return 0.5 if _TREE.search(head) else 0.0


def _read_console(source: Source) -> Reading:
    lines = list(source.lines())
    found = [t for t in tables.box_tables(lines) if t.header and t.header[0] in ("Statistic", "Metric")]
    if not found:
        raise Unreadable("a listing of GenAI-Perf's or AIPerf's files, with no table of results")
    tool = _AIPERF if any("AIPerf" in text for _, text in lines) else _GENAI
    loose = {m["name"]: cells.number(m["v"]) for _, text in lines if (m := _LOOSE_RATE.match(text))}
    args = [m["args"] for _, text in lines if (m := _COMMAND.search(text))] if len(found) == 1 else []
    points = [_table_point(table, tool, loose if len(found) == 1 else {}, args) for table in found]
    model = next((m["v"] for one in args if (m := _MODEL.search(one))), None)
    used = sum(len(table.rows) + 1 for table in found)
    return benchmark(
        source,
        "genai_perf_console",
        [experiment(Facts(model=model), points)],
        tool=tool,
        lines=LineCount(total=len(lines), understood=used, unknown=len(lines) - used),
    )


def _table_point(
    table: tables.Table, tool: str, loose: Mapping[str, float | None], args: Iterable[str]
) -> Measurement:
    """A box as a point, with the rates that stand below it and the width that its command asked for."""
    gathered = Families()
    add_rows(gathered, (row for _, row in table.records()), table.header[0])
    for name, key in (("Request", "request_s"), ("Output token", "output_tok_s")):
        if loose.get(name) is not None:
            gathered.metrics.setdefault(key, loose[name])
    width = next((int(m["v"]) for one in args if (m := _WIDTH.search(one))), None)
    if width is not None:
        gathered.workload["concurrency"] = width
    return gathered.measurement(tool, table.line)


def _sniff_records(source: Source) -> float:
    head = source.head.lstrip()
    return 0.96 if head.startswith("{") and '"session_num"' in head and '"metrics"' in head else 0.0


def _read_records(source: Source) -> Reading:
    """Records of single requests, but the warm-up's, as one point; failed ones may have no metrics."""
    documents = jsontext.load(source)
    done = [one for _, one in documents.objects() if _is_measured(one)]
    good = [one["metrics"] for one in done if not one.get("error") and isinstance(one["metrics"], Mapping)]
    metrics: dict[str, float | None] = {"completed": float(len(good)), "failed": float(len(done) - len(good))}
    for key, base in (
        ("time_to_first_token", "ttft_ms"),
        ("request_latency", "e2e_ms"),
        ("inter_token_latency", "itl_ms"),
    ):
        told = requests.distribution([_value(one, key) for one in good])
        metrics |= {f"{base}_{stat}": value for stat, value in told.items()}
    load = {
        "input_len": _mean([_value(one, "input_sequence_length") for one in good]),
        "output_len": _mean([_value(one, "output_sequence_length") for one in good]),
    }
    load = {key: round(value) for key, value in load.items() if value is not None}
    errors = sorted({str(e.get("type")) for one in done if isinstance(e := one.get("error"), Mapping)})
    return benchmark(
        source,
        "aiperf_records",
        [experiment(Facts(), [Measurement(workload=load, metrics=metrics, client=_AIPERF, line=1)])],
        tool=_AIPERF,
        problems=documents.problems,
        extra={"records": len(done)} | ({"errors": errors} if errors else {}),
    )


def _is_measured(record: Mapping[str, Any]) -> bool:
    about = record.get("metadata")
    phase = about.get("benchmark_phase", "profiling") if isinstance(about, Mapping) else "profiling"
    return phase == "profiling" and (isinstance(record.get("metrics"), Mapping) or bool(record.get("error")))


def _value(record: Mapping[str, Any], key: str) -> float | None:
    one = record.get(key)
    return cells.number(one.get("value")) if isinstance(one, Mapping) else None


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


FORMATS = [
    Format(
        name="genai_perf_json",
        kind="benchmark",
        sniff=lambda source: _sniff_profile(source, aiperf=False),
        read=_read_profile,
        docs=(
            "GenAI-Perf's `…_genai_perf.json`: every top-level object with a `unit` is a metric with its "
            "statistics, converted by that unit. `input_config` gives model, concurrency and rate; its "
            "`backend` is a default of the tool and proves no engine."
        ),
    ),
    Format(
        name="aiperf_json",
        kind="benchmark",
        sniff=lambda source: _sniff_profile(source, aiperf=True),
        read=_read_profile,
        version=3,
        docs=(
            "AIPerf's `profile_export_aiperf.json`, all schema versions: as GenAI-Perf's, with version, "
            "errors and counts. A cancelled or incomplete run says so."
        ),
    ),
    Format(
        name="genai_perf_csv",
        kind="benchmark",
        sniff=lambda source: _sniff_csv(source, aiperf=False),
        version=3,
        read=_read_csv,
        docs=(
            "GenAI-Perf's CSV: a table of distributions, a blank row, a table of single values; units "
            "stand in the metric names, numbers may have thousands commas."
        ),
    ),
    Format(
        name="aiperf_csv",
        kind="benchmark",
        sniff=lambda source: _sniff_csv(source, aiperf=True),
        version=3,
        read=_read_csv,
        docs=(
            "AIPerf's CSV: as GenAI-Perf's, with `sum` and `std` columns and telemetry blocks after the "
            "metrics."
        ),
    ),
    Format(
        name="genai_perf_console",
        kind="benchmark",
        sniff=_sniff_console,
        read=_read_console,
        version=3,
        docs=(
            "The box that GenAI-Perf and AIPerf draw on the console: any set of statistics as columns, "
            "names that wrap over two lines, `N/A` cells, thousands commas. Model and concurrency "
            "come from the command that is logged. A listing of their output folder without a table is "
            "refused."
        ),
    ),
    Format(
        name="aiperf_records",
        kind="benchmark",
        sniff=_sniff_records,
        read=_read_records,
        version=3,
        docs=(
            "AIPerf's `profile_export.jsonl`, one request per line, folded into one point with counts, "
            "means and percentiles; failed requests are counted by their error. A key that stands twice "
            "in a record is said."
        ),
    ),
]
