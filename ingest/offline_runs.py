"""Programs that run an engine in their own process: how far it came, and what its progress bar measured.

Owns the lines that vLLM prints for such programs alone. Must not read what a server prints.
"""

from __future__ import annotations

import re

from ingest.events import Values
from ingest.logline import Line

MAX_BATCHES = 12
LEAST = 8  # prompts: fewer are a smoke test and measure a single stream's start
_DONE = re.compile(
    r"Processed prompts: 100%\|[^|]{0,80}\| (?P<prompts>\d+)/(?P=prompts) \[.*?"
    r"est\. speed input: (?P<input>[\d.]+) toks/s, output: (?P<output>[\d.]+) toks/s"
)


class Offline:
    """What the engine tells last before its work is what it can do."""

    active = False

    def __init__(self) -> None:
        self._serves = False

    def feed(self, line: Line) -> list[tuple[str, Values]]:
        """Take a line; ready once such a program's engine is (a server goes on and says so otherwise)."""
        self._serves = self._serves or "API server" in line.text or line.process.startswith("APIServer")
        done = not self._serves and line.text.startswith(("Supported_tasks: ", "Supported tasks: "))
        return [("ready", {})] if done else []


class Batches:
    """The progress bar of a batch of prompts: done at 100 %, with the batch's own rates."""

    active = False

    def __init__(self) -> None:
        self._last: tuple[str, ...] = ()
        self._told = 0

    def feed(self, line: Line) -> list[tuple[str, Values]]:
        """Take a line; that prompts were answered, and what a whole batch of them measured."""
        found = _DONE.search(line.text) if "Processed prompts: 100%" in line.text else None
        if found is None:
            return []
        shown, self._last = self._last, found.groups()
        if int(found["prompts"]) < LEAST or shown == self._last or self._told >= MAX_BATCHES:
            return [("served", {})]
        self._told += 1
        metrics = {"input_tok_s": float(found["input"]), "output_tok_s": float(found["output"])}
        sample = {
            "metrics": metrics,
            "workload": {"prompts": int(found["prompts"])},
            "client": "offline engine",
        }
        return [("served", {}), ("sample", {**sample, "stated": True})]
