"""Results that stand inside a server log: a benchmark client writing to the same stream.

Owns finding such tables and rows line by line; what a table's rows mean is the benchmark reader's
(ingest.bench). Must not read files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable

from ingest.bench import printed, trees
from ingest.bench.rows import read_row
from ingest.bench.serving import (
    HEADING,
    arguments_workload,
    batch_load,
    block_measurement,
    blocks,
    calls_client,
    complete,
    namespace,
)
from ingest.bench.units import Units
from ingest.events import Reader, Values
from ingest.logline import Line
from kb.model import Measurement

MAX_ROWS = 120
MAX_OBJECT_LINES = 400
_LONGEST_ROW = 60
_RATES = ("output_tok_s", "total_tok_s", "request_s")
_LATENCY = re.compile(
    r"Avg latency: (?P<mean>\d+(?:\.\d+)?) seconds|(?P<p>\d+)% percentile latency: (?P<value>\d+(?:\.\d+)?) s"
)
_CLOSING = re.compile(r"\s*={10,}\s*$")


class BenchmarkTable:
    """Collects the lines of a result table; gives it as a stated sample when its closing line has come.

    The client's arguments or its command, where they stand before the table, tell its load.
    """

    def __init__(self) -> None:
        self.active = False
        self._rows: list[tuple[int, str]] = []
        self._asked: list[tuple[int, str]] = []

    def feed(self, line: Line) -> list[tuple[str, Values]]:
        """Take a line; a sample once the table is complete."""
        if not self.active:
            if calls_client(line.text):
                self._asked = [(line.number, line.text)]
            if "==" not in line.text or HEADING.match(line.text) is None:
                return []
            self.active, self._rows = True, self._asked
            self._asked = []
        self._rows.append((line.number, line.text))
        if _CLOSING.match(line.text):
            return self._done()
        if len(self._rows) > MAX_ROWS:
            self.active = False
        return []

    def _done(self) -> list[tuple[str, Values]]:
        self.active = False
        points = (block_measurement(block, "serving benchmark") for block in blocks(self._rows))
        told = [_sample(one) for one in points if one.metrics]
        answered = any(values["metrics"].get("completed") for _, values in told)
        return [("served", {}), *told] if answered else told


class ResultObject:
    """A JSON object that a client prints on one line or over several: the points that it holds.

    Servers print objects of their own (configurations, requests): a result holds a rate and something else.
    A result and an answer to a prompt both prove that requests were served.
    """

    def __init__(self) -> None:
        self.active = False
        self._rows: list[str] = []

    def feed(self, line: Line) -> list[tuple[str, Values]]:
        """Take a line; samples once the object is closed."""
        if not self.active:
            if not line.is_plain or line.text[:1] != "{":
                return []
            if line.text.startswith('{"') and line.text.rstrip().endswith("}"):
                return _told(line.text)
            self.active, self._rows = line.text.rstrip() == "{", []
        if not self.active:
            return []
        self._rows.append(line.text)
        if line.text[:1] in "{} \t" and len(self._rows) <= MAX_OBJECT_LINES:
            return self._done() if line.text.rstrip() == "}" else []
        self.active = False
        return []

    def _done(self) -> list[tuple[str, Values]]:
        self.active = False
        return _told("\n".join(self._rows))


def _told(text: str) -> list[tuple[str, Values]]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []
    found = [_sample(one) for one in _points(value) if len(one.metrics) > 1 and _has_rate(one)]
    answered = isinstance(value, dict) and {"choices", "usage"} <= value.keys()
    return [("served", {}), *found] if found or answered else []


def _points(value: object) -> Iterable[Measurement]:
    rows = trees.find_rows(value).rows
    units = Units.of(rows)
    return (complete(read_row(row, units).measurement("result object")) for row in rows)


def _has_rate(one: Measurement) -> bool:
    return any(name in one.metrics for name in _RATES)


def _sample(one: Measurement) -> tuple[str, Values]:
    """What a benchmark states, with the line of its first row."""
    told = {"metrics": dict(one.metrics), "workload": dict(one.workload), "client": one.client}
    return "sample", {**told, "stated": True} | ({"line": one.line} if one.line else {})


def _served(one: Measurement) -> list[tuple[str, Values]]:
    return [("served", {}), _sample(one)]


class LatencyRows:
    """Collects the rows of a batch latency benchmark; gives a stated sample at its last percentile."""

    def __init__(self) -> None:
        self.active = False
        self._first = 0
        self._metrics: dict[str, float | None] = {}
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
            self._first, self._metrics = line.number, {}
        name = "mean" if found["mean"] else f"p{found['p']}"
        self._metrics[f"e2e_ms_{name}"] = float(found["mean"] or found["value"]) * 1e3
        self.active = found["p"] != "99"
        return [] if self.active else self._done()

    def _done(self) -> list[tuple[str, Values]]:
        metrics, self._metrics = self._metrics, {}
        return _served(
            Measurement(workload=self._load, metrics=metrics, client="batch latency", line=self._first)
        )


class ThroughputRows:
    """The row of an offline throughput benchmark with the totals after it; given at the next other line."""

    def __init__(self) -> None:
        self.active = False
        self._first = 0
        self._metrics: dict[str, float | None] = {}
        self._load: Values = {}

    def feed(self, line: Line) -> list[tuple[str, Values]]:
        """Take a line; a sample once the rows have ended."""
        if line.text.startswith("Namespace("):
            self._load = arguments_workload(namespace(line.text))
        told = printed.throughput(line.text) if "hroughput: " in line.text or self.active else {}
        if told and (self.active or "request_s" in told):
            self._first = self._first if self.active else line.number
            self._metrics |= told
            self.active = True
            return []
        if not self.active:
            return []
        metrics, self._metrics, self.active = self._metrics, {}, False
        return _served(
            Measurement(workload=self._load, metrics=metrics, client="offline throughput", line=self._first)
        )


class BatchRows:
    """The phases of one static batch, run in process; the warm-up has the same rows and is left out."""

    def __init__(self) -> None:
        self.active = False  # every row is told from its own text
        self._warm = False
        self._metrics: dict[str, float | None] = {}
        self._load: Values = {}

    def feed(self, line: Line) -> list[tuple[str, Values]]:
        """Take a line; a sample at the last phase."""
        self._warm = printed.batch_warms_up(line.text, self._warm)
        if "latency:" not in line.text or not printed.batch_row(line.text, self._metrics, self._load):
            return []
        if printed.ENDS_BATCH not in line.text:
            return []
        (metrics, load), (self._metrics, self._load) = (self._metrics, self._load), ({}, {})
        return (
            []
            if self._warm
            else _served(Measurement(workload=load, metrics=metrics, client="one batch", line=line.number))
        )


class ScoreRows:
    """The few rows of an accuracy script; given at the next other line, where a score is among them."""

    def __init__(self) -> None:
        self.active = False
        self._first = 0
        self._metrics: dict[str, float | None] = {}

    def feed(self, line: Line) -> list[tuple[str, Values]]:
        """Take a line; a sample once the rows have ended."""
        text = line.text.strip()
        row = printed.score_row(text) if len(text) < _LONGEST_ROW else None
        if row and row[0] not in self._metrics:
            self._first = self._first if self._metrics else line.number
            self._metrics[row[0]] = row[1]
            self.active = True
            return []
        first, self._first = self._first, line.number
        metrics, self._metrics = self._metrics, dict([row] if row else [])
        self.active = bool(row)
        if "accuracy" not in metrics:
            return []
        return _served(Measurement(metrics=metrics, client="accuracy test", line=first))


READERS: tuple[Callable[[], Reader], ...] = (
    BenchmarkTable,
    LatencyRows,
    ResultObject,
    ThroughputRows,
    BatchRows,
    ScoreRows,
)
