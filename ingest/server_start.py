"""One server start of a log, and what was decided about it.

Owns the stage that a start had reached at a line. Must not judge (ingest.classify and ingest.endings do).
"""

from __future__ import annotations

from dataclasses import dataclass

from ingest.events import Event
from ingest.logline import Line
from ingest.logscan import Scan
from ingest.tracebacks import Finding
from kb.model import Outcome, Stage

MAX_TEXT = 600


@dataclass(slots=True)
class Start:
    """One server start's share of a log: lines ``first`` to ``last``, with what was found in them."""

    first: int
    last: int
    events: list[Event]
    findings: list[Finding]
    scan: Scan
    ending: Line | None = None

    def has_begun(self, line: int) -> bool:
        """Whether a server's beginning or any of its steps stands in the log up to a line."""
        served = self.scan.progress_after(self.first - 1, line)
        return served or any(
            one.kind in ("start", "stage", "ready") and one.line <= line for one in self.events
        )

    def line_of(self, kind: str) -> int | None:
        """The first line with an event of this kind."""
        return next((one.line for one in self.events if one.kind == kind), None)

    @property
    def is_idle(self) -> bool:
        """Whether it listens without a model and was asked for none: nothing is missing from its log."""
        kinds = {one.kind for one in self.events}
        return "idle" in kinds and not kinds & {"stage", "ready", "served"}

    def stage_at(self, line: int) -> Stage:
        """The furthest step that any process of the start had reached at a line."""
        ready = self.line_of("idle") if self.is_idle else self.line_of("ready")
        begun = self.first - 1 if ready is None else ready
        if begun < line and self.scan.progress_after(begun, line - 1):
            return "serve"
        if ready is not None and ready <= line:
            return "serve" if self.scan.taken_between(ready, line) else "ready"
        steps = [one for one in self.events if one.kind == "stage" and one.line <= line]
        reached = max(steps, key=lambda one: int(one.values["step"]), default=None)
        return "args" if reached is None else reached.values["stage"]

    def pending(self) -> str | None:
        """What the start was waiting for when its log ended: distributed, capture, or nothing known."""
        steps = sorted((one for one in self.events if one.kind == "stage"), key=lambda one: one.line)
        waits = [one.values.get("pending") for one in steps[-2:]]
        if waits == ["distributed", "init"]:
            return "distributed"  # an engine that begins with its peers not yet found
        return waits[-1] if waits else None


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome with what ``diagnose`` tells beside it."""

    outcome: Outcome
    echoes: tuple[Finding, ...] = ()
    rank: str = ""
    advice: str | None = None
    frame: str | None = None
    pending: str | None = None


def clip(text: str, limit: int = MAX_TEXT) -> str:
    """A text short enough to show."""
    text = text.strip()
    return text if len(text) <= limit else text[: limit - 1] + "…"
