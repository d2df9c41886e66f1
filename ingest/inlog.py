"""Results that stand inside a server log: a benchmark client writing to the same stream.

Owns finding such tables and rows line by line; what a table's rows mean is the benchmark reader's
(ingest.bench). Must not read files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from ingest.bench import trees
from ingest.bench.rows import read_row
from ingest.bench.serving import HEADING, batch_load, block_measurement, blocks, complete, namespace
from ingest.bench.units import Units
from ingest.events import Values
from ingest.logline import Line
from kb.model import Measurement

MAX_ROWS = 120
MAX_OBJECT_LINES = 400
_RATES = ("output_tok_s", "total_tok_s", "request_s")
_LATENCY = re.compile(
    r"Avg latency: (?P<mean>\d+(?:\.\d+)?) seconds|(?P<p>\d+)% percentile latency: (?P<value>\d+(?:\.\d+)?) s"
)
_CLOSING = re.compile(r"\s*={10,}\s*$")


class BenchmarkTable:
    """Collects the lines of a result table; gives it as a stated sample when its closing line has come."""

    def __init__(self) -> None:
        self.active = False
        self._rows: list[tuple[int, str]] = []

    def feed(self, line: Line) -> list[tuple[str, Values]]:
        """Take a line; a sample once the table is complete."""
        if not self.active:
            if "==" not in line.text or HEADING.match(line.text) is None:
                return []
            self.active, self._rows = True, []
        self._rows.append((line.number, line.text))
        if len(self._rows) > 1 and _CLOSING.match(line.text):
            return self._done()
        if len(self._rows) > MAX_ROWS:
            self.active = False
        return []

    def _done(self) -> list[tuple[str, Values]]:
        self.active = False
        points = (block_measurement(block, "serving benchmark") for block in blocks(self._rows))
        return [_sample(one) for one in points if one.metrics]


class ResultObject:
    """Collects a JSON object that a client prints over several lines; gives the points that it holds.

    Servers print objects of their own (configurations, requests): a result holds a rate and something else.
    """

    def __init__(self) -> None:
        self.active = False
        self._rows: list[str] = []

    def feed(self, line: Line) -> list[tuple[str, Values]]:
        """Take a line; samples once the object is closed."""
        if not self.active:
            self.active, self._rows = line.is_plain and line.text.rstrip() == "{", []
        if not self.active:
            return []
        self._rows.append(line.text)
        if line.text[:1] in "{} \t" and len(self._rows) <= MAX_OBJECT_LINES:
            return self._done() if line.text.rstrip() == "}" else []
        self.active = False
        return []

    def _done(self) -> list[tuple[str, Values]]:
        self.active = False
        try:
            value = json.loads("\n".join(self._rows))
        except (ValueError, RecursionError):
            return []
        return [_sample(one) for one in _points(value) if len(one.metrics) > 1 and _has_rate(one)]


def _points(value: object) -> Iterable[Measurement]:
    rows = trees.find_rows(value).rows
    units = Units.of(rows)
    return (complete(read_row(row, units).measurement("result object")) for row in rows)


def _has_rate(one: Measurement) -> bool:
    return any(name in one.metrics for name in _RATES)


def _sample(one: Measurement) -> tuple[str, Values]:
    told = {"metrics": dict(one.metrics), "workload": dict(one.workload), "client": one.client}
    return "sample", {**told, "stated": True}


class LatencyRows:
    """Collects the rows of a batch latency benchmark; gives a stated sample at its last percentile."""

    def __init__(self) -> None:
        self.active = False
        self._metrics: dict[str, float] = {}
        self._load: Values = {}

    def feed(self, line: Line) -> list[tuple[str, Values]]:
        """Take a line; a sample once the 99th percentile has come."""
        if line.text.startswith("Namespace("):
            self._load = batch_load(namespace(line.text))
        if "latency: " not in line.text:
            return []
        found = _LATENCY.match(line.text.strip())
        if found is None:
            return []
        if found["mean"]:
            self._metrics = {}
        name = "mean" if found["mean"] else f"p{found['p']}"
        self._metrics[f"e2e_ms_{name}"] = float(found["mean"] or found["value"]) * 1e3
        self.active = found["p"] != "99"
        return [] if self.active else self._done()

    def _done(self) -> list[tuple[str, Values]]:
        metrics, self._metrics = self._metrics, {}
        sample = {"metrics": metrics, "workload": self._load, "client": "batch latency", "stated": True}
        return [("served", {}), ("sample", sample)]
