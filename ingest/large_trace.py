"""A large trace in one pass: slices of it counted by DuckDB, each a segment of time, all together the whole.

Owns cutting the file and putting slices together. Lines that DuckDB's strict reading refuses are counted as
those of any trace are (ingest/gpu_count.py), slice by slice, so that both ways tell the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ingest.gpu_count import Summary, count_slice, counts_of, merged_summary
from ingest.gpu_csv import BLOCK_BYTES, TraceLayout, layout
from ingest.segments import LONG_S, MOST_SEGMENTS
from ingest.sources import Source, utf16_of
from ingest.traces import seconds_between, summary_reading, telemetry_of
from kb.model import Reading
from kb.wire import telemetry_to_wire

LARGE_BYTES = 24 << 20
SLICE_BYTES = 4 << 20


def is_large(source: Source, found: TraceLayout) -> bool:
    """Whether a trace is worth it, and its table such that cells alone tell what to count."""
    if source.size < LARGE_BYTES or layout(source.raw_head) != found:
        return False
    start = next(source.blocks(512), b"")
    return utf16_of(start) is None and counts_of(found) is not None


def read_large(source: Source, found: TraceLayout, name: str, tool: str) -> Reading:
    """The reading of a large trace, with ``extra["segments"]`` where it is long."""
    slices = list(_summaries(source, found))
    whole = merged_summary(slices)
    reading = summary_reading(str(source.path), name, tool, whole, [one.name for one in found.columns])
    if (seconds_between(whole.first_time, whole.last_time) or 0.0) < LONG_S:
        return replace(reading, extra={**reading.extra, "segments": []})
    return replace(reading, extra={**reading.extra, "segments": [_segment(one) for one in slices]})


def _segment(one: Summary) -> dict[str, object]:
    telemetry = telemetry_of(one.gpus.values(), rows=one.rows, first=one.first_time, last=one.last_time)
    return telemetry_to_wire(replace(telemetry, extra={}))


def _summaries(source: Source, found: TraceLayout) -> Iterator[Summary]:
    from kb.store.cells import CellCounter  # noqa: PLC0415 - loads DuckDB, which small traces do not need

    cells = counts_of(found)
    if cells is None:
        return
    with CellCounter(cells) as counter:
        line = 1
        for data in _slices(source):
            one = count_slice(data, line, found, counter.count)
            line += one.lines
            yield one


def _slices(source: Source) -> Iterator[bytes]:
    """The file in at most about a hundred parts of whole lines."""
    size, held = max(SLICE_BYTES, source.size // MOST_SEGMENTS), list[bytes]()
    length = 0
    for block in source.blocks(min(size, BLOCK_BYTES)):
        at = block.rfind(b"\n") + 1 if length + len(block) > size else 0
        if at:
            yield b"".join([*held, block[:at]])
            held, length = [], 0
        held.append(block[at:])
        length += len(block) - at
    if length:
        yield b"".join(held)
