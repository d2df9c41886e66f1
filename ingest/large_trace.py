"""A large trace in one pass: slices of it read by DuckDB, all together the whole.

Owns which traces can be read so, cutting the file, and putting slices together. Lines that DuckDB's strict
reading refuses are counted as those of any trace are (ingest/gpu_count.py), slice by slice, so that both ways
tell the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ingest.gpu_count import MOST_TOLD, Pass, Summary
from ingest.gpu_csv import TraceLayout, layout
from ingest.sources import Source, utf16_of
from ingest.tally import BUSY_UTILIZATION_PCT, GpuTally, bit_of
from ingest.traces import summary_reading
from kb.model import Reading
from kb.store.slices import RowForm, SliceReader

SLICE_BYTES = 12 << 20
_OF_NUMBERS = re.compile(r"[\d.:,;+-]")
NOTHING = ("", "[N/A]", "N/A", "[Not Supported]", "[Unknown]", "-")


def read_large(source: Source, found: TraceLayout, name: str, tool: str) -> Reading | None:
    """The reading of a large trace; None where its table is not one of plain numbers."""
    if layout(source.raw_head) != found:
        return None
    form = form_of(found)
    if form is None or utf16_of(next(source.blocks(512), b"")) is not None:
        return None
    whole = merged_summary(list(_summaries(source, found, form)))
    return summary_reading(str(source.path), name, tool, whole, [one.name for one in found.columns])


def form_of(found: TraceLayout) -> RowForm | None:
    """How DuckDB can read the rows of a long table whose load has a unit; None for any other table."""
    view = Pass(found, Summary()).views[0]
    load = None if view.load is None else found.columns[view.load]
    roles = [one.role for _, one in view.metrics]
    card = next((role for role in ("index", "uuid") if view.words.get(role) == view.key is not None), None)
    if len(found.delimiter) != 1 or found.decimal != "." or view.card is not None or card is None:
        return None
    if load is None or not load.unit or len(set(roles)) < len(roles) or not _has_plain_time(found):
        return None
    units = "".join(one.unit for _, one in view.metrics)
    if _OF_NUMBERS.search(units):
        return None
    return RowForm(
        width=len(found.columns),
        delimiter=found.delimiter,
        card=view.words[card],
        by_index=card == "index",
        time=found.position("time"),
        metrics={one.role: (at, one.factor) for at, one in view.metrics},
        flags={at: bit for at, one in view.reasons if (bit := bit_of(one.role))},
        mask=next((at for at, one in view.reasons if one.role == "throttle_mask"), None),
        units=units.encode("ascii", "ignore"),
        nothing=NOTHING,
        least=BUSY_UTILIZATION_PCT,
    )


def merged_summary(parts: Sequence[Summary]) -> Summary:
    """Consecutive parts of one trace as one."""
    whole = Summary()
    for part in parts:
        for key, tally in part.gpus.items():
            same = GpuTally(index=tally.index, name=tally.name, uuid=tally.uuid, vague=tally.vague)
            whole.gpus.setdefault(key, same).absorb(tally)
        whole.facts = {**part.facts, **whole.facts}
        whole.trouble += [one for one in part.trouble if one[0] is not None or one not in whole.trouble]
    whole.rows, whole.lines, whole.odd_lines = (
        sum(getattr(part, name) for part in parts) for name in ("rows", "lines", "odd_lines")
    )
    whole.trouble = whole.trouble[:MOST_TOLD]
    whole.sessions = 1 + sum(part.sessions - 1 for part in parts)
    whole.first_time = next((part.first_time for part in parts if part.first_time), "")
    whole.last_time = next((part.last_time for part in reversed(parts) if part.last_time), "")
    return whole


def _has_plain_time(found: TraceLayout) -> bool:
    return all(found.position(role) is None for role in ("date", "epoch", "elapsed"))


def _summaries(source: Source, found: TraceLayout, form: RowForm) -> Iterator[Summary]:
    with SliceReader(form) as reader:
        line = 1
        for data in _slices(source):
            one = _summary(data, line, source, found, reader)
            line += one.lines
            yield one


def _summary(data: bytes, first: int, source: Source, found: TraceLayout, reader: SliceReader) -> Summary:
    """The summary of whole lines, by DuckDB where it can, else line by line."""
    skip = max(found.skip - first + 1, 0)
    rows = data.split(b"\n", skip)[-1] if skip else data
    summary = Summary()
    told = reader.read(rows)
    if told and Pass(found, summary).take_tallies(told, rows):
        _note_absent(summary, found)
        if source.samples is not None:
            reader.keep(source.samples.next_file(".parquet"), source.samples.trace)
    else:
        text = rows.decode("utf-8", "replace").replace("\r\n", "\n").removesuffix("\n")
        Pass(found, summary, source.samples).take(text, first + skip)
    summary.lines = data.count(b"\n") + (not data.endswith(b"\n"))
    return summary


def _note_absent(summary: Summary, found: TraceLayout) -> None:
    """A reason with a column of its own is known to be absent where it was not active."""
    reasons = [
        one.role.removeprefix("throttle:") for one in found.columns if one.role.startswith("throttle:")
    ]
    for tally in summary.gpus.values():
        for busy in tally.rows:
            tally.count_reasons(busy, dict.fromkeys(reasons, 0))


def _slices(source: Source) -> Iterator[bytes]:
    """The file in parts of whole lines."""
    held, length = list[bytes](), 0
    for block in source.blocks(SLICE_BYTES):
        at = block.rfind(b"\n") + 1
        if at:
            yield b"".join([*held, block[:at]])
            held, length = [], 0
        held.append(block[at:])
        length += len(block) - at
    if length:
        yield b"".join(held)
