"""People's own results as JSON: any nesting, any names that say what they measure.

Owns what makes a JSON file a result file. Must not read files of a known tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ingest.bench import copies, file_names, jsontext, placeholders, requests, serving, trees, variants
from ingest.bench.identity import Facts, benchmark, grouped
from ingest.bench.places import place
from ingest.bench.placing import Row
from ingest.bench.quantities import RESULTS, understand
from ingest.bench.rows import read_row
from ingest.bench.units import Units
from ingest.formats import Format, Unreadable
from ingest.formats.bench_csv import take_options
from ingest.formats.run_meta import reading_of
from ingest.sources import Source
from kb.model import Measurement, Problem, Reading, Warning  # noqa: A004

_CLIENT = "table"


def _sniff(source: Source) -> float:
    head = source.head
    if not jsontext.looks_like_json(head):
        return 0.0
    keys = jsontext.keys_in(head, 1500)
    told = [found for key in keys if (found := understand(key))]
    results = {one.name for one in told if one.name.startswith(RESULTS)}
    placed = {place(key) for key in keys} - {None}
    quality = any(one.name == "accuracy" for one in told)
    counted = any(one.name in ("output_tokens", "duration_s") for one in told)
    if results and len(results) + len(placed) + quality + counted >= 2:
        return 0.85 if len(results) > 1 else 0.5
    if results and requests.kinds_of(keys) >= {"id", "success"}:
        return 0.5  # single requests, one a line
    if not quality or not placed & {("workload", "test"), ("workload", "dataset")}:
        return 0.0
    return 0.94 if {"task", "tasks"} & keys else 0.6


def _read(source: Source) -> Reading:
    documents = jsontext.load(source)
    value = [one for _, one in documents.found] if len(documents.found) > 1 else documents.first
    found = trees.find_rows(value)
    reason = placeholders.reason(str(cell) for row in found.rows[:50] for cell in row.values())
    if reason:
        raise Unreadable(reason)
    units = Units.of(found.rows)
    told = file_names.hints(source.name)
    rows = [_row(one, units, told) for row in found.rows for one in variants.setups(row)]
    points = [
        (row.facts, point)
        for row in rows
        if (point := _told(serving.complete(row.measurement(_CLIENT)))).metrics.keys() - {"duration_s"}
    ]
    kept = copies.without_copies([(point.metrics, (facts, point)) for facts, point in points])
    if not kept and not found.failed:
        return _without_figures(source, value, found.moments)
    return benchmark(
        source,
        "bench_json",
        _with_failures(kept, found.failed),
        problems=[*documents.problems, *_left_out(found, len(points) - len(kept))],
        extra=({"units": notes} if (notes := found.notes + units.notes) else {})
        | told.as_extra()
        | _failures(found.failed),
    )


def _told(point: Measurement) -> Measurement:
    """A point without rates of nothing that no count explains; counts of nothing are no result."""
    metrics = point.metrics
    if metrics.get("completed") == 0 and "failed" not in metrics and not any(metrics.values()):
        return replace(point, metrics={})
    if "completed" in metrics:
        return point
    kept = {name: value for name, value in point.metrics.items() if value or not name.endswith("tok_s")}
    return replace(point, metrics=kept)


def _without_figures(source: Source, document: Any, moments: int) -> Reading:
    """Who was to be measured, where a file holds no result (a run that was cut, its plan, its course)."""
    what = "no figure with a known meaning in the objects of this JSON file"
    problem = Problem(line=None, what=_over_time(moments) if moments else what)
    reading = reading_of(source, document, "bench_json") if isinstance(document, dict) else None
    told = reading.experiments[0] if reading else None
    if reading is None or told is None or told.backend.engine is None or told.model.name is None:
        raise Unreadable(problem.what)
    return replace(reading, status="partial", problems=(*reading.problems, problem))


def _row(record: Mapping[str, Any], units: Units, told: file_names.Hints) -> Row:
    row = read_row(record, units)
    row.facts = file_names.fill_facts(row.facts, told)
    take_options(row)
    requests.label_computed(row)
    row.workload = file_names.fill_load(row.workload, told)
    return row


def _left_out(found: trees.Found, copies: int) -> Iterable[Problem]:
    if found.cut:
        yield Problem(line=None, what=f"only the first {len(found.rows)} rows were read")
    if found.moments:
        yield Problem(line=None, what=_over_time(found.moments))
    if copies:
        yield Problem(line=None, what=f"{copies} objects repeat figures of others and were left out")


def _over_time(moments: int) -> str:
    return f"{moments} samples over time were left out: they are no results"


def _with_failures(kept: list[tuple[Facts, Measurement]], failed: list[dict[str, Any]]) -> Iterable[Any]:
    """Points that the file marks as failed become warnings of the server they belong to (the first one)."""
    warnings = [
        Warning(line=None, text=_short(row), meaning="the file marks this point as failed")
        for row in failed[:50]
    ]
    if warnings and kept:
        kept[0][0].warnings.extend(warnings)
    return grouped(kept or [(Facts(warnings=warnings), Measurement(client=_CLIENT))])


def _short(row: Mapping[str, Any]) -> str:
    told = {key: one for key, one in row.items() if isinstance(one, str | int | float)}
    return ", ".join(f"{key}={one}" for key, one in list(told.items())[:8])[:300]


def _failures(failed: list[dict[str, Any]]) -> dict[str, Any]:
    return {"failed_points": len(failed)} if failed else {}


FORMAT = Format(
    name="bench_json",
    kind="benchmark",
    sniff=_sniff,
    read=_read,
    version=9,
    docs=(
        "Results in JSON of people's own making: every object that holds a latency, a throughput or a "
        "score under a name that says so is a point; what the objects around it say of model, hardware, "
        "engine and load holds for it, the client's command line included. Units come from the names, or "
        "are decided by size and said. Objects that repeat figures of others (a summary of the rows "
        "beside it) and samples over time are left out, points marked as failed become warnings. Objects of "
        "single requests are folded to a point for each load: counts, means and percentiles, and rates where "
        "they say when they started; each such figure says that it was computed."
    ),
)
