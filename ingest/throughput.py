"""Speed as a server's own log shows it: windows of batch or statistics lines to measurements.

Owns what counts as a steady window. Must not mix it with what clients measured: the client is ``server-log``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median

from ingest.events import Event
from ingest.server_start import Start
from kb.model import Measurement

CLIENT = "server-log"
MAX_LEVELS = 12


def measurements(start: Start) -> tuple[Measurement, ...]:
    """Points of a start: those that the log states itself, and medians of windows per concurrency."""
    samples = [one for one in start.events if one.kind == "sample"]
    stated = [_stated(one) for one in samples if one.values.get("stated")]
    return (*stated, *_windows([one for one in samples if not one.values.get("stated")]))


def _stated(event: Event) -> Measurement:
    return Measurement(
        workload=event.values.get("workload") or {},
        metrics=event.values["metrics"],
        client=event.values.get("client", CLIENT),
        line=event.values.get("line", event.line),
    )


def _windows(samples: Sequence[Event]) -> Iterable[Measurement]:
    levels: dict[float, list[Event]] = defaultdict(list)
    for one in samples:
        speed = one.values["metrics"].get("output_tok_s")
        running = one.values["workload"].get("concurrency")
        if speed and running and math.isfinite(running):
            levels[running].append(one)
    accepted = [
        one.values["metrics"]["accept_length"] for one in samples if "accept_length" in one.values["metrics"]
    ]
    if not levels:
        yield from _prefill_only(samples)
    busiest = sorted(levels, key=lambda level: len(levels[level]), reverse=True)[:MAX_LEVELS]
    for level in sorted(busiest):
        yield _level(level, levels[level], accepted if len(levels) == 1 else ())


def _prefill_only(samples: Sequence[Event]) -> Iterable[Measurement]:
    """A server that only fills prompts (the prefill half of a pair): its input speed."""
    windows = [one for one in samples if one.values["metrics"].get("input_tok_s")]
    if len(windows) >= 2:
        speeds = [one.values["metrics"]["input_tok_s"] for one in windows]
        metrics: dict[str, float | None] = {"input_tok_s": round(median(speeds), 3)}
        yield Measurement(
            workload={"windows": len(windows)}, metrics=metrics, client=CLIENT, line=windows[0].line
        )


def _level(running: float, windows: Sequence[Event], accepted: Sequence[float]) -> Measurement:
    metrics: dict[str, float | None] = {}
    for name in ("output_tok_s", "input_tok_s", "accept_length"):
        values = [one.values["metrics"][name] for one in windows if one.values["metrics"].get(name)]
        if values:
            metrics[name] = round(median(_without_ramp(values)), 3)
    if accepted and "accept_length" not in metrics:
        metrics["accept_length"] = round(median(accepted), 3)
    workload = {"concurrency": int(running), "windows": len(windows)}
    return Measurement(workload=workload, metrics=metrics, client=CLIENT, line=windows[0].line)


def _without_ramp(values: Sequence[float]) -> Sequence[float]:
    """Windows without the first, which covers the idle time before it, where there are enough others."""
    return values[1:] if len(values) >= 3 else values
