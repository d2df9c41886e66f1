"""A run gets the part of a long trace that it lasted for.

Owns when a part is asked for and what it tells beside the whole. Must not open the store: whoever assembles
runs hands in where samples are found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from ingest.tally import GpuTally
from ingest.traces import telemetry_of
from ingest.windows import SLACK, Window, overlap, window
from kb.model import GpuTrace, Telemetry
from kb.store.samples import Span

LONG_S = 900.0
Find = Callable[[str, datetime, datetime], Span | None]


def nothing_kept(identity: str, first: datetime, last: datetime) -> None:
    """Where no samples are kept, the whole trace speaks."""


def part_of_trace(
    identity: str, whole: Telemetry | None, lasted: Window | None, find: Find
) -> Telemetry | None:
    """What a trace tells of a span of time; all of it where it is short, inside, or cannot be compared."""
    covered = window(whole.started, whole.ended) if whole else None
    if whole is None or covered is None or lasted is None or not overlap(covered, lasted):
        return whole
    first, last = _plain(lasted.start) - SLACK, _plain(lasted.end) + SLACK
    if (covered.end - covered.start).total_seconds() < LONG_S:
        return whole
    if first <= _plain(covered.start) and _plain(covered.end) <= last:
        return whole
    span = find(identity, first, last)
    return whole if span is None else during(whole, span)


def during(whole: Telemetry, span: Span) -> Telemetry:
    """The summary of a span of the trace; what stood still all along holds in it, too."""
    known = {name: gpu for gpu in whole.gpus for name in (str(gpu.index), gpu.uuid) if name}
    cards: dict[str, GpuTally] = {}
    for one in span.tallies:
        name = str(one.card)
        gpu = known.get(name) or (whole.gpus[0] if len(whole.gpus) == 1 else GpuTrace(index=None))
        cards.setdefault(name, GpuTally(index=gpu.index, name=gpu.name, uuid=gpu.uuid)).take(one)
    first, last = (one.isoformat(" ") + _zone(whole) for one in (span.first, span.last))
    part = telemetry_of(cards.values(), first=first, last=last, extra=whole.extra)
    return replace(part, gpus=tuple(_with_constants(one, known) for one in part.gpus))


def _with_constants(gpu: GpuTrace, known: Mapping[str, GpuTrace]) -> GpuTrace:
    whole = known.get(str(gpu.index)) or known.get(gpu.uuid or "")
    if whole is None:
        return gpu
    still = {name: told for name, told in whole.metrics.items() if told.get("min") == told.get("max")}
    return replace(
        gpu,
        metrics={**still, **gpu.metrics},
        throttle={**dict.fromkeys(whole.throttle, 0.0), **gpu.throttle},
    )


def _plain(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(tzinfo=None) if at.tzinfo else at


def _zone(whole: Telemetry) -> str:
    started = datetime.fromisoformat(whole.started) if whole.started else None
    return "+00:00" if started is not None and started.tzinfo else ""
