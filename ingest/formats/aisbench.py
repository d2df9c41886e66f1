"""AISBench: the two boxes that it prints for a load test, and the CSV and JSON that it saves of them.

Owns its labels and stages. Must not read its accuracy results.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ingest.bench import cells, jsontext, serving, tables
from ingest.bench.families import statistic
from ingest.bench.identity import Facts, benchmark, grouped
from ingest.bench.quantities import understand
from ingest.bench.sniffing import below_pages, needing
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import LineCount, Measurement, Reading

_TOOL = "AISBench"
_PARAMETERS, _COMMON = "Performance Parameters", "Common Metric"
_TASK = re.compile(r"Performance Results of task:? \[?(?P<model>[^/\s]+)/(?P<dataset>[^]:\s]+)")
# What other tools mean otherwise, or have no word for; the rest is as everywhere.
_OWN_WORDS = {
    "success requests": "completed",
    "concurrency": "concurrency_mean",
    "prefill token throughput": "prefill_tok_s",
}
_LENGTHS = {"inputtokens": "input_len", "outputtokens": "output_len"}


@dataclass(slots=True)
class _Point:
    """What one stage of a run tells ("total", or "stable" without warm-up and wind-down)."""

    line: int | None = None
    metrics: dict[str, float | None] = field(default_factory=dict)
    workload: dict[str, Any] = field(default_factory=dict)

    def add_family(self, label: str, stats: Mapping[str, Any]) -> None:
        """One row of the first table."""
        length = _LENGTHS.get(label.lower())
        for name, raw in stats.items():
            stat, cell = statistic(name), cells.read_cell(raw)
            if stat is None or cell is None:
                continue
            if length is not None:
                self.workload |= {length: round(cell.value)} if stat == "mean" else {}
            elif label == "OutputTokenThroughput":
                self.metrics |= {"output_tok_s_per_user": cell.value} if stat == "mean" else {}
            elif (told := understand(f"{stat} {label} {cell.rest or 'ms'}")) is not None:
                self.metrics[told.name] = cell.value * told.factor

    def add_common(self, label: str, raw: Any) -> None:
        """One row of the second table."""
        cell = cells.read_cell(raw)
        if cell is None:
            return
        if (own := _OWN_WORDS.get(label.lower())) is not None:
            self.metrics[own] = cell.value
        elif label == "Benchmark Duration":
            self.metrics["duration_s"] = cell.value * (1e-3 if cell.rest.startswith("ms") else 1.0)
        elif label in ("Total Requests", "Max Concurrency"):
            self.workload["prompts" if label == "Total Requests" else "concurrency"] = int(cell.value)
        elif (told := understand(label)) is not None:
            self.metrics[told.name] = cell.value * told.factor

    def measurement(self, stage: str, dataset: str | None) -> Measurement:
        """The stage as a point; one that is not the whole run says so."""
        load = self.workload | ({"dataset": dataset} if dataset else {})
        load |= {} if stage == "total" else {"test": f"{stage} stage"}
        return serving.complete(
            Measurement(workload=load, metrics=self.metrics, client=_TOOL, line=self.line)
        )


def _add(points: dict[str, _Point], table: tables.Table) -> None:
    for line, row in table.records() if table.header else ():
        label, stage = row.get(table.header[0], ""), row.get("Stage") or "total"
        point = points.setdefault(stage, _Point(line=table.line))
        if table.header[0] == _COMMON:
            point.add_common(label, row.get("Value"))
        else:
            point.add_family(
                label, {key: raw for key, raw in row.items() if key not in (_PARAMETERS, "Stage")}
            )
        point.line = point.line or line


def _runs(found: Iterable[tables.Table]) -> Iterator[dict[str, _Point]]:
    """The points of each run: a table of parameters and the table of common metrics after it."""
    points: dict[str, _Point] = {}
    for table in found:
        if table.header[0] == _PARAMETERS and points:
            yield points
            points = {}
        _add(points, table)
    if points:
        yield points


def _is_ours(table: tables.Table) -> bool:
    return bool(table.header) and table.header[0] in (_PARAMETERS, _COMMON) and "Stage" in table.header


@below_pages
@needing(_PARAMETERS, _COMMON)
def _sniff_console(source: Source) -> float:
    marks = re.search(rf"[│|]\s*(?:{_PARAMETERS}|{_COMMON})\s*[│|]\s*Stage\s*[│|]", source.head)
    return 0.97 if marks else 0.0


def _read_console(source: Source) -> Reading:
    lines = list(source.lines())
    found = [table for table in tables.box_tables(lines) if _is_ours(table)]
    if not found:
        raise Unreadable("it names AISBench's tables, but none of them is whole")
    tasks = [told for _, text in lines if (told := _TASK.search(text))]
    points: list[Measurement] = []
    for at, run in enumerate(_runs(found)):
        dataset = tasks[at]["dataset"] if at < len(tasks) else None
        points += [one.measurement(stage, dataset) for stage, one in run.items()]
    used = sum(len(table.rows) + 1 for table in found)
    return benchmark(
        source,
        "aisbench",
        grouped([(Facts(), point) for point in points]),
        tool=_TOOL,
        lines=LineCount(total=len(lines), understood=used, unknown=len(lines) - used),
    )


def _sniff_csv(source: Source) -> float:
    return 0.97 if source.head.lstrip("\ufeff").startswith(f"{_PARAMETERS},Stage,") else 0.0


def _read_csv(source: Source) -> Reading:
    rows = [row for row in tables.delimited(source.text.lstrip("\ufeff")) if row]
    if not rows:
        raise Unreadable("the table is empty")
    table = tables.Table(rows[0], 1, rows=[(i, row) for i, row in enumerate(rows[1:], 2)])
    points: dict[str, _Point] = {}
    _add(points, table)
    return _saved(source, "aisbench_csv", points)


def _sniff_json(source: Source) -> float:
    head = source.head
    if not jsontext.looks_like_json(head):
        return 0.0
    return 0.97 if '"Benchmark Duration"' in head and '"Success Requests"' in head else 0.0


def _read_json(source: Source) -> Reading:
    points: dict[str, _Point] = {}
    for _, document in jsontext.load(source).objects():
        for label, stages in document.items():
            for stage, raw in stages.items() if isinstance(stages, Mapping) else ():
                points.setdefault(str(stage), _Point()).add_common(str(label), raw)
    return _saved(source, "aisbench_json", points)


def _saved(source: Source, form: str, points: Mapping[str, _Point]) -> Reading:
    pairs = [(Facts(), one.measurement(stage, None)) for stage, one in points.items()]
    if not any(point.metrics for _, point in pairs):
        raise Unreadable("AISBench's file holds no figure")
    return benchmark(source, form, grouped(pairs), tool=_TOOL)


FORMATS = [
    Format(
        name="aisbench",
        kind="benchmark",
        version=2,
        sniff=_sniff_console,
        read=_read_console,
        docs=(
            "The two boxes that AISBench prints after a load test: distributions, whose cells carry their "
            "units, and common metrics. They are one point for each stage; `Max Concurrency` is the load, "
            "`Concurrency` what was reached. `Prefill Token Throughput` counts prompt tokens over the time "
            "to the first token alone and keeps a name of its own."
        ),
    ),
    Format(
        name="aisbench_csv",
        kind="benchmark",
        version=2,
        sniff=_sniff_csv,
        read=_read_csv,
        docs="The distributions of an AISBench run as it saves them, as CSV.",
    ),
    Format(
        name="aisbench_json",
        kind="benchmark",
        version=2,
        sniff=_sniff_json,
        read=_read_json,
        docs="The common metrics of an AISBench run as it saves them, as JSON.",
    ),
]
