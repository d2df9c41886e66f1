"""llama-benchy: llama-bench's tests over an OpenAI server, as its log, its JSON, or inside a Markdown page.

Owns its columns and its test names. Must not read llama-bench's own tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ingest.bench import cells, jsontext, names, serving_tables, tables
from ingest.bench.identity import Facts, benchmark, grouped
from ingest.bench.sniffing import needing
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import LineCount, Measurement, Reading

_TOOL = "llama-benchy"
_HEAD = re.compile(r"^\|\s*model\s*\|\s*test\s*\|\s*t/s\b.*\b(?:ttfr|e2e_ttft|peak t/s)", re.MULTILINE)
_TEST = re.compile(
    r"^(?:ctx_)?(?P<kind>pp|tg)\s?(?P<n>\d+)?(?:\s*@\s*d(?P<depth>\d+))?(?:\s*\(c(?P<width>\d+)\))?"
    r"(?:\s*@\s*d(?P<late>\d+))?"
)
_VERSION = re.compile(r"^llama-benchy \(([\w.+]+)\)|llama-benchy==([\w.+]+)", re.MULTILINE)
_BEGUN = re.compile(r"^llama-benchy \([\w.+]+\)\s*$", re.MULTILINE)
_DATE = re.compile(r"^[Dd]ate: (\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)")
_TIMES = ("ttfr (ms)", "est_ppt (ms)", "e2e_ttft (ms)")
_COLUMNS = {
    "t/s (total)": "tok_s",
    "t/s": "tok_s",
    "t/s (req)": "tok_s_per_user",
    "peak t/s": "peak_tok_s",
    "peak t/s (req)": "peak_tok_s_per_user",
    "ttfr (ms)": "ttfr_ms_mean",
    "est_ppt (ms)": "prefill_ms_mean",
    "e2e_ttft (ms)": "ttft_ms_mean",
}


@needing("llama-benchy", "ttfr", "e2e_ttft")
def _sniff(source: Source) -> float:
    if _HEAD.search(source.head):
        return 0.97
    return 0.9 if _BEGUN.search(source.head) else 0.0


def _read(source: Source) -> Reading:
    lines = list(source.lines())
    found = [table for table in tables.pipe_tables(lines) if _HEAD.match("|" + "|".join(table.header) + "|")]
    if not found:
        raise Unreadable("llama-benchy began but printed no table; it was stopped or its end is missing")
    text = [line for _, line in lines]
    told = _facts(text)
    pairs = [(_named(told, row), _point(line, row)) for table in found for line, row in table.records()]
    version = next((m[1] or m[2] for m in map(_VERSION.search, text) if m), None)
    used = len(pairs) + 2 * len(found)
    return benchmark(
        source,
        "llama_benchy",
        grouped(pairs),
        tool=_TOOL,
        tool_version=version,
        lines=LineCount(total=len(lines), understood=used, unknown=max(len(lines) - used, 0)),
    )


def _facts(text: list[str]) -> Facts:
    """The page's own fields and the client's date; the model in the table is the served name."""
    facts = serving_tables.page_facts(text)
    stamp = next((m for m in map(_DATE.match, text) if m), None)
    return replace(facts, started=f"{stamp[1]}T{stamp[2]}" if stamp else None)


def _named(told: Facts, row: Mapping[str, str]) -> Facts:
    served = cells.plain(row.get("model", ""))
    settings = {} if not told.model or told.model == served else {"served_model_name": served}
    return replace(
        told,
        model=told.model or served or None,
        quantization=told.quantization or names.quantization(served),
        settings=told.settings | settings,
    )


def _point(line: int, row: Mapping[str, str]) -> Measurement:
    test = cells.plain(row.get("test", ""))
    found = _TEST.match(test)
    load: dict[str, Any] = {"test": test}
    direction = ""
    if found:
        direction = "input_" if found["kind"] == "pp" else "output_"
        if found["n"]:  # "ctx_pp @ d4096" loads the context and is as long as that
            load["input_len" if found["kind"] == "pp" else "output_len"] = int(found["n"])
        load["concurrency"] = int(found["width"] or 1)
        depth = found["depth"] or found["late"]
        load |= {"depth": int(depth)} if depth else {}
    metrics: dict[str, float | None] = {}
    told = _replaced(row) if direction == "input_" else row
    for column, base in _COLUMNS.items():
        cell = cells.read_cell(told.get(column))
        if cell is not None and base not in metrics:
            name = re.sub(r"^(peak_)?tok_s", rf"\g<1>{direction}tok_s", base)
            metrics.setdefault(name, cell.value)
            if cell.spread is not None:
                metrics.setdefault(re.sub(r"_mean$", "", name) + "_std", cell.spread)
    return Measurement(workload=load, metrics=metrics, client=_TOOL, line=line)


def _replaced(row: Mapping[str, str]) -> Mapping[str, str]:
    """A row of a prompt has no peak: where one stands, the page lost empty cells and the times moved left."""
    peaks = [name for name in row if name.startswith("peak")]
    times = [name for name in row if name in _TIMES]
    if not any(cells.read_cell(row[name]) for name in peaks):
        return row
    moved = [row[name] for name in (*peaks, *times) if cells.read_cell(row[name])]
    kept = {name: cell for name, cell in row.items() if name not in peaks and name not in times}
    return kept | (dict(zip(times, moved, strict=True)) if len(moved) == len(times) else {})


_JSON_RATES = {  # of a run, of one of its requests
    "pp_throughput": "input_tok_s",
    "tg_throughput": "output_tok_s",
    "pp_req_throughput": "input_tok_s_per_user",
    "tg_req_throughput": "output_tok_s_per_user",
    "peak_throughput": "peak_output_tok_s",
    "peak_req_throughput": "peak_output_tok_s_per_user",
}
_JSON_TIMES = {"ttfr": "ttfr_ms", "est_ppt": "prefill_ms", "e2e_ttft": "ttft_ms"}
_JSON_LOAD = {
    "concurrency": "concurrency",
    "context_size": "depth",
    "prompt_size": "input_len",
    "response_size": "output_len",
}


def _sniff_json(source: Source) -> float:
    if not jsontext.looks_like_json(source.head):
        return 0.0
    keys = jsontext.keys_in(source.head)
    return 0.96 if {"benchmarks", "is_context_prefill_phase"} <= keys else 0.0


def _read_json(source: Source) -> Reading:
    """A point per run: prompt and generation were measured together."""
    documents = jsontext.load(source)
    report = documents.first
    runs = report.get("benchmarks") if isinstance(report, Mapping) else None
    if not isinstance(runs, list):
        raise Unreadable("the report has no list of benchmarks")
    served = str(report.get("model") or "") or None
    facts = Facts(model=served, quantization=names.quantization(served), started=_instant(report))
    return benchmark(
        source,
        "llama_benchy_json",
        grouped([(facts, _run(one)) for one in runs if isinstance(one, Mapping)]),
        tool=_TOOL,
        tool_version=report.get("version"),
        problems=documents.problems,
    )


def _instant(report: Mapping[str, Any]) -> str | None:
    found = re.match(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(Z?)", str(report.get("timestamp")))
    return f"{found[1]}T{found[2]}{found[3]}" if found else None


def _run(run: Mapping[str, Any]) -> Measurement:
    load: dict[str, Any] = {
        name: run[key] for key, name in _JSON_LOAD.items() if isinstance(run.get(key), int)
    }
    load |= {"test": "context"} if run.get("is_context_prefill_phase") else {}
    metrics: dict[str, float | None] = {}
    for key, name in _JSON_RATES.items():
        metrics |= _spread(run.get(key), name, f"{name}_std")
    for key, name in _JSON_TIMES.items():
        metrics |= _spread(run.get(key), f"{name}_mean", f"{name}_std")
    return Measurement(workload=load, metrics=metrics, client=_TOOL)


def _spread(figure: Any, name: str, spread: str) -> dict[str, float | None]:
    given = figure if isinstance(figure, Mapping) else {}
    told = {name: cells.number(given.get("mean")), spread: cells.number(given.get("std"))}
    return {key: value for key, value in told.items() if value is not None}


FORMATS = [
    Format(
        name="llama_benchy",
        kind="benchmark",
        sniff=_sniff,
        read=_read,
        version=3,
        docs=(
            "The table of `llama-benchy`, in its log or in a page that quotes it: `pp` rows count prompt "
            "tokens, `tg` rows generated ones, `(c5)` is the concurrency, `± x` the spread. `t/s (total)` is "
            "the system's rate, `t/s (req)` that of one request. A page's own fields give model and hardware."
        ),
    ),
    Format(
        name="llama_benchy_json",
        kind="benchmark",
        sniff=_sniff_json,
        read=_read_json,
        docs=(
            "The report of `llama-benchy` in JSON: a point per run with prompt and generation rates of all "
            "requests and of one, and the times to the first response and the first token."
        ),
    ),
]
