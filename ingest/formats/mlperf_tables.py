"""Tables of published MLPerf Inference results: submission summaries (CSV, JSON) and the dashboard's exports.

Owns their columns. A result is in the units beside it: tokens, samples or queries per second, or a latency.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ingest.bench import cells, jsontext, tables
from ingest.bench.identity import Facts, benchmark, grouped, split_count
from ingest.formats import Format, Unreadable
from ingest.formats.mlperf import engine_in
from ingest.sources import Source
from kb.model import LineCount, Measurement, Problem, Reading

_TOOL = "mlperf"
_UNITS = {
    "tokens/s": ("output_tok_s", 1.0),
    "samples/s": ("request_s", 1.0),
    "queries/s": ("request_s", 1.0),
    "latency (ms)": ("e2e_ms_p90", 1.0),
    "latency (s)": ("e2e_ms_p90", 1e3),
}
_TOKEN_MODELS = re.compile(r"llama|mixtral|gpt|deepseek|qwen", re.IGNORECASE)
_ALIASES = {
    "accelerator": ("Accelerator", "accelerator_model_name", "Accelerator (click + for details)"),
    "per_node": ("a#", "accelerators_per_node", "Accelerators per node"),
    "total": ("Total Accelerators", "Total Accelerators "),
    "nodes": ("Nodes", "number_of_nodes", "# of Nodes"),
    "software": ("Software", "framework"),
    "scenario": ("Scenario",),
    "model": ("UsedModel", "Model", "Model MLC", "MlperfModel"),
    "units": ("Performance_Units", "Units"),
    "result": ("Performance_Result", "Result", "Avg. Result at System Name"),
    "precision": ("weight_data_types",),
}


def _get(row: Mapping[str, Any], name: str) -> Any:
    return next((row[key] for key in _ALIASES[name] if row.get(key) not in (None, "")), None)


def _sniff_csv(source: Source) -> float:
    first = source.head.lstrip("\ufeff").split("\n", 1)[0]
    names = {cell.strip().strip('"') for cell in re.split(r"[,\t;]", first)}
    if {"Organization", "Availability"} <= names and names & {
        "Result",
        "Units",
        "Avg. Result at System Name",
    }:
        return 0.96
    return 0.9 if re.search(r"Benchmark\s*/\s*Model MLC\s*/\s*Scenario\s*/\s*Units", first) else 0.0


def _read_csv(source: Source) -> Reading:
    text = _text(source)
    rows = [row for row in tables.delimited(text) if any(cell.strip() for cell in row)]
    if not rows:
        raise Unreadable("the table is empty")
    if "Model MLC  /" in ",".join(rows[0]) or re.search(r"Model MLC\s*/", "".join(rows[0])):
        return _read_wide(source, rows)
    table = tables.Table(rows[0], 1, rows=list(enumerate(rows[1:], 2)))
    records = [(line, row) for line, row in table.records()]
    return _reading(source, "mlperf_results_csv", records, [])


def _text(source: Source) -> str:
    """UTF-16 exports may end in half a character, which strict decoding refuses."""
    data = source.data
    if data[:2] == b"\xff\xfe":
        return data[2 : len(data) // 2 * 2].decode("utf-16-le", "replace")
    return source.text.lstrip("\ufeff")


def _reading(
    source: Source, form: str, records: list[tuple[int, dict[str, Any]]], problems: list[Problem]
) -> Reading:
    pairs = [(_facts(row), _point(row, line)) for line, row in records]
    kept = [pair for pair in pairs if pair[1].metrics]
    odd = [
        Problem(line=p.line, what="no result in this row, or unknown units")
        for _, p in pairs
        if not p.metrics
    ]
    return benchmark(
        source,
        form,
        grouped(kept),
        tool=_TOOL,
        problems=[*problems, *odd[:20]],
        lines=LineCount(total=len(records) + 1, understood=len(kept) + 1, unknown=len(odd)),
        rows=len(records),
    )


def _facts(row: Mapping[str, Any]) -> Facts:
    counted, gpu = split_count(str(_get(row, "accelerator") or ""))
    per_node, nodes = cells.number(_get(row, "per_node")), cells.number(_get(row, "nodes"))
    total = cells.number(_get(row, "total")) or (per_node * (nodes or 1) if per_node else None)
    software = str(_get(row, "software") or "")
    engine, version = engine_in(software)
    cuda = re.search(r"CUDA (\d+\.\d+)", software)
    return Facts(
        model=str(_get(row, "model") or "") or None,
        gpu=gpu or None,
        gpu_count=counted or (int(total) if total else None),
        engine=engine,
        engine_version=version,
        cuda=cuda[1] if cuda else None,
        quantization=str(_get(row, "precision") or "") or None,
    )


def _counts_tokens(row: Mapping[str, Any]) -> bool:
    """Whether a round counted tokens of a row's model; of GPT-J it did so from v4.1 on."""
    model, release = str(_get(row, "model")), str(row.get("version") or row.get("Version") or "")
    found = re.match(r"v?(\d+)\.(\d+)", release)
    older = found is not None and (int(found[1]), int(found[2])) < (4, 1)
    return _TOKEN_MODELS.search(model) is not None and not (older and model.lower().startswith("gptj"))


def _point(row: Mapping[str, Any], line: int) -> Measurement:
    units, value = str(_get(row, "units") or "").lower(), cells.number(_get(row, "result"))
    name, factor = _UNITS.get(units, ("", 1.0))
    known = {}
    if name == "request_s" and _counts_tokens(row):
        name, known = "output_tok_s", {"output_tok_s": f"Result in {units}; language models count tokens"}
    scenario = str(_get(row, "scenario") or "")
    load = {"test": f"MLPerf {scenario}".strip(), "scenario": scenario, "release": row.get("version")}
    return Measurement(
        workload={key: value for key, value in load.items() if value},
        metrics={name: value * factor} if name and value is not None else {},
        client=_TOOL,
        line=line,
        source_names=known,
    )


def _read_wide(source: Source, rows: list[list[str]]) -> Reading:
    """The pivot: rows of model, scenario and units head the result columns; identity stands left of them."""
    top = next((i for i, row in enumerate(rows) if row[0].strip() == "Public ID"), None)
    if top is None or top < 2:
        raise Unreadable("the pivot has no row that starts with 'Public ID'")
    header = rows[top]
    heads = _result_columns(rows[:top], header)
    records: list[tuple[int, dict[str, Any]]] = []
    identity: list[str] = []
    for line, row in enumerate(rows[top + 1 :], top + 2):
        if row[0].strip():
            identity = row
        if "Result" in " ".join(row[: min(heads, default=0)]):
            records += [
                (line, _wide_record(header, identity, row, heads[i], i)) for i in heads if _cell(row, i)
            ]
    return _reading(source, "mlperf_results_csv", records, [])


def _cell(row: list[str], index: int) -> str:
    return row[index].strip() if index < len(row) else ""


def _result_columns(above: list[list[str]], header: list[str]) -> dict[int, tuple[str, str, str]]:
    """Column → (model, scenario, units); a merged model cell stands for the blank ones right of it."""
    models, scenarios, found, model = above[-2], above[-1], {}, ""
    for index, units in enumerate(header):
        model = _cell(models, index) or model
        if units.strip().lower() in _UNITS:
            found[index] = (model, _cell(scenarios, index), units.strip())
    return found


def _wide_record(
    header: list[str], identity: list[str], row: list[str], head: tuple[str, str, str], index: int
) -> dict[str, Any]:
    named = {name: _cell(identity, i) for i, name in reversed(list(enumerate(header)))}
    total = named.get("# of Accelerators")
    return named | {
        "UsedModel": head[0],
        "Scenario": head[1],
        "Units": head[2],
        "Result": _cell(row, index),
        "Total Accelerators": total,
    }


def _sniff_json(source: Source) -> float:
    if not jsontext.looks_like_json(source.head):
        return 0.0
    keys = jsontext.keys_in(source.head)
    checked = {"Organization", "Availability", "MlperfModel", "Result", "Units"} <= keys
    return (
        0.98 if checked else 0.96 if {"Submitter", "Performance_Result", "Performance_Units"} <= keys else 0.0
    )


def _read_json(source: Source) -> Reading:
    documents = jsontext.load(source)
    found = [(line, row) for line, one in documents.objects() for row in _rows_in(one)]
    records = [(line, row) for line, row in found if "Performance_Result" in row or "Result" in row]
    if not records:
        raise Unreadable("no object with a result")
    return _reading(source, "mlperf_results_json", records, documents.problems)


def _rows_in(one: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row itself, or the rows that the submission checker keeps by their number."""
    inner = [row for row in one.values() if isinstance(row, dict) and "Result" in row]
    return inner or [dict(one)]


FORMATS = [
    Format(
        name="mlperf_results_csv",
        kind="benchmark",
        sniff=_sniff_csv,
        read=_read_csv,
        version=3,
        docs=(
            "Published MLPerf results as CSV: submission summaries, the dashboard's flat export (UTF-16, "
            "tabs) and its wide pivot with model, scenario and units in rows above. Results of language "
            "models count tokens even where the units say samples or queries; that is said."
        ),
    ),
    Format(
        name="mlperf_results_json",
        kind="benchmark",
        sniff=_sniff_json,
        read=_read_json,
        version=3,
        docs=(
            "The `summary_results.json` of an MLPerf round, and the submission checker's `summary.json`: one "
            "point per system, model and scenario, with accelerator, total count, software and weight type."
        ),
    ),
]
