"""Results that stand inside a server log: a benchmark client writing to the same stream.

Owns finding such tables and rows line by line; what a table's rows mean is the benchmark reader's
(ingest.bench). Must not read files.
"""

from __future__ import annotations

import re

from ingest.bench.serving import HEADING, batch_load, block_measurement, blocks, namespace
from ingest.events import Values
from ingest.logline import Line

MAX_ROWS = 120
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
        return [
            (
                "sample",
                {
                    "metrics": dict(one.metrics),
                    "workload": dict(one.workload),
                    "client": one.client,
                    "stated": True,
                },
            )
            for one in (block_measurement(block, "serving benchmark") for block in blocks(self._rows))
            if one.metrics
        ]


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
