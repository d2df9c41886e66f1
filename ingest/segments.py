"""Long traces in pieces of time, so that a run gets the part of a trace that it lasted for.

Owns cutting a trace file into segments and putting segments together again. Must not know any format: each
segment is read by whatever reads the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ingest.sources import Source
from ingest.windows import Window, overlap, window
from kb.model import GpuTrace, Reading, Telemetry
from kb.wire import telemetry_from_wire, telemetry_to_wire

LONG_S = 900.0
SEGMENT_S = 60.0
MOST_SEGMENTS = 120
HEADER_LINES = 4


def with_segments(reading: Reading, source: Source, read: Callable[[Source], Reading]) -> Reading:
    """The reading of a long trace with ``extra["segments"]``: what each part of its time tells."""
    telemetry = reading.telemetry
    lasted = window(telemetry.started, telemetry.ended) if telemetry else None
    if "segments" in reading.extra or telemetry is None or lasted is None or telemetry.samples < 2:
        return reading
    seconds = (lasted.end - lasted.start).total_seconds()
    if seconds < LONG_S:
        return reading
    count = int(min(MOST_SEGMENTS, seconds / SEGMENT_S))
    parts = (read(Source(source.path, raw=raw)).telemetry for raw in _cut(source, count))
    segments = [telemetry_to_wire(replace(one, extra={})) for one in parts if one is not None and one.started]
    return replace(reading, extra={**reading.extra, "segments": segments})


def part_of_trace(reading: Reading, lasted: Window | None) -> Telemetry | None:
    """What a trace tells of a span of time; all of it where it was not cut or times cannot be compared."""
    telemetry = reading.telemetry
    segments = [telemetry_from_wire(one) for one in reading.extra.get("segments") or ()]
    if telemetry is None or not segments or lasted is None:
        return telemetry
    inside = [one for one in segments if one and overlap(window(one.started, one.ended), lasted)]
    return merged(telemetry, inside) if inside else telemetry


def merged(whole: Telemetry, segments: Sequence[Telemetry]) -> Telemetry:
    """Segments put together: lowest, highest, and means weighted by samples (a median too is such a mean)."""
    gpus: dict[Any, list[GpuTrace]] = {}
    for segment in segments:
        for gpu in segment.gpus:
            gpus.setdefault((gpu.index, gpu.uuid), []).append(gpu)
    return replace(
        whole,
        samples=sum(one.samples for one in segments),
        rows=sum(one.rows for one in segments),
        started=segments[0].started,
        ended=segments[-1].ended,
        gpus=tuple(_gpu(parts) for parts in gpus.values()),
        conditions=(),
    )


def _gpu(parts: Sequence[GpuTrace]) -> GpuTrace:
    names = dict.fromkeys(name for part in parts for name in part.metrics)
    weights = [float(part.samples) for part in parts]
    busy_weights = [part.busy.get("samples", 0.0) for part in parts]
    busy = {**_means((part.busy for part in parts), busy_weights), "samples": sum(busy_weights)}
    busy["share"] = sum(busy_weights) / max(1.0, sum(weights))
    return replace(
        parts[0],
        samples=sum(part.samples for part in parts),
        metrics={name: _stats([part.metrics.get(name) or {} for part in parts], weights) for name in names},
        throttle=_means((part.throttle for part in parts), weights),
        busy=busy if any(busy_weights) else {},
    )


def _stats(parts: Sequence[Mapping[str, float]], weights: Sequence[float]) -> dict[str, float]:
    told = {**_means(parts, weights)}
    lowest = [part["min"] for part in parts if "min" in part]
    highest = [part["max"] for part in parts if "max" in part]
    return {**told, **({"min": min(lowest)} if lowest else {}), **({"max": max(highest)} if highest else {})}


def _means(parts: Iterable[Mapping[str, float]], weights: Sequence[float]) -> dict[str, float]:
    sums: dict[str, tuple[float, float]] = {}
    for part, weight in zip(parts, weights, strict=True):
        for name, value in part.items():
            total, seen = sums.get(name, (0.0, 0.0))
            sums[name] = total + value * weight, seen + weight
    return {name: round(total / seen, 4) for name, (total, seen) in sums.items() if seen}


def _cut(source: Source, count: int) -> Iterator[bytes]:
    """The file in about ``count`` parts of whole lines, each with the file's first lines before it."""
    size = max(1, sum(len(block) for block in source.blocks()) // count)
    header, held = b"", b""
    for block in source.blocks():
        held += block
        header = header or b"\n".join(held.split(b"\n")[:HEADER_LINES]) + b"\n"
        while len(held) > size and (at := held.find(b"\n", size)) >= 0:
            yield _headed(header, held[: at + 1])
            held = held[at + 1 :]
    if held.strip():
        yield _headed(header, held)


def _headed(header: bytes, part: bytes) -> bytes:
    """A part with the lines of the header that hold no numbers of their own."""
    lines = [line for line in header.split(b"\n") if line.strip() and _is_words(line)]
    return part if part.startswith(header) else b"\n".join([*lines, part])


def _is_words(line: bytes) -> bool:
    """Whether a line names columns rather than giving values."""
    first = line.replace(b"#", b"").strip().split(b",")[0].split()[:1]
    return bool(first) and not first[0][:1].isdigit()
