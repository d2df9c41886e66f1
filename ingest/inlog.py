"""Results that stand inside a server log: a benchmark client writing to the same stream.

Owns finding such tables line by line; what their rows mean is the benchmark reader's (ingest.bench). Must not
read files.
"""

from __future__ import annotations

import re

from ingest.bench.serving import HEADING, block_measurement, blocks
from ingest.events import Values
from ingest.logline import Line

MAX_ROWS = 120
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
