"""Metric families: one quantity with many statistics (avg, p50, p99 …).

Owns the step from (label, unit, statistics) to metrics and workload. Must not know any file layout.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ingest.bench import cells
from ingest.bench.quantities import understand
from kb.model import Measurement

_STATISTICS = {
    "avg": "mean",
    "mean": "mean",
    "average": "mean",
    "std": "std",
    "stddev": "std",
    "std_dev": "std",
    "min": "min",
    "max": "max",
    "median": "p50",
    "med": "p50",
}
_LENGTHS = {
    "input sequence length": "input_len",
    "output sequence length": "output_len",
    "num input token": "input_len",  # as GenAI-Perf of 2024 says
    "num output token": "output_len",
}
_TIMES = re.compile(r"_ms_mean$")


@dataclass(slots=True)
class Families:
    """Metrics and workload gathered from families; ``understood`` counts the families that had a place."""

    metrics: dict[str, float | None] = field(default_factory=dict)
    workload: dict[str, Any] = field(default_factory=dict)
    understood: int = 0
    other: dict[str, Any] = field(default_factory=dict)

    def add(self, label: str, unit: str, stats: Mapping[str, Any]) -> None:
        """One family: ``stats`` maps a statistic as printed ("avg", "p99", "value") to a cell."""
        words = " ".join(label.replace("_", " ").split())
        length = _LENGTHS.get(re.sub(r"\s*\(.*\)$", "", words).lower())
        values = {statistic(name): cells.number(raw) for name, raw in stats.items()}
        given = {name: value for name, value in values.items() if name and value is not None}
        if length is not None:
            self._add_length(length, given)
            return
        spoken = f"{words} ({unit})" if unit and "(" not in words else words
        spoken = re.sub(r"\((?:count|requests|per sec)\)", _spoken_unit, spoken)
        quantity = understand(spoken)
        if quantity is None or not given:
            self.other[label] = dict(given)
            return
        self.understood += 1
        for stat, value in given.items():
            if (
                stat not in ("mean", "std")
                and not _TIMES.search(quantity.name)
                and "_per_user" not in quantity.name
            ):
                continue  # percentiles of a rate over intervals are no figure of the run
            self.metrics.setdefault(_name(quantity.name, stat), value * quantity.factor)

    def _add_length(self, key: str, given: Mapping[str, float]) -> None:
        self.understood += 1
        if "mean" in given:
            self.workload.setdefault(key, round(given["mean"]))

    def measurement(self, client: str, line: int | None = None) -> Measurement:
        """What was gathered, as one point."""
        return Measurement(workload=self.workload, metrics=self.metrics, client=client, line=line)


def statistic(name: str) -> str | None:
    """The agreed name of a statistic: ``mean``, ``p99``, ``p99_9`` …; ``None`` for others (sum, count)."""
    low = name.strip().lower()
    if low in ("value", ""):
        return "mean"
    found = re.fullmatch(r"(?:p|percentile)_?(\d+)(?:[p._](\d+))?", low)
    if found:
        number = {"001": "0_1", "01": "1", "05": "5", "999": "99_9"}.get(found[1], found[1])
        return f"p{number}_{found[2]}" if found[2] else f"p{number}"
    return _STATISTICS.get(low)


def _spoken_unit(found: re.Match[str]) -> str:
    if found[0] != "(per sec)":
        return ""
    return "(tokens/s)" if "oken" in found.string else "(requests/s)"


def _name(name: str, stat: str) -> str:
    if _TIMES.search(name):
        return re.sub(r"mean$", stat, name)
    return name if stat == "mean" else f"{name}_{stat}"


def add_rows(into: Families, rows: Iterable[Mapping[str, str]], label: str) -> None:
    """Families from table rows: the column ``label`` names the metric, the others are statistics."""
    for row in rows:
        stats = {name: raw for name, raw in row.items() if name != label}
        into.add(row.get(label, ""), "", stats)
