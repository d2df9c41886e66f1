"""A large trace in one pass: parts of it loaded by DuckDB, and summed up from the table of samples.

Owns which traces can be read so, cutting the file, and putting what was found together. Lines that DuckDB's
strict reading refuses are counted as those of any trace are (ingest/gpu_count.py), so that both ways tell the
same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ingest.gpu_count import HEAD, MOST_TOLD, Pass, Summary
from ingest.gpu_csv import LARGE_BYTES, TraceLayout, layout, table_in
from ingest.samples import Samples
from ingest.sources import Source, utf16_of
from ingest.tally import BUSY_UTILIZATION_PCT, GpuTally, bit_of
from ingest.traces import summary_reading
from kb.model import Reading
from kb.store.loading import Loader, RowForm, scratch_store

PART_BYTES = 16 << 20
BLOCK_BYTES = 256 << 10  # read, made blank and written before it leaves the processor's cache
ODD_BYTES = 600  # of a part: what a cell that is refused counts as, so that not too many are held at once
MOST_ODD = 0.25  # of the first part: beyond, this is no table for DuckDB
_OF_NUMBERS = re.compile(r"[\d.:,;+-]")
NOTHING = ("", "[N/A]", "N/A", "[Not Supported]", "[Unknown]", "-")


def is_large_trace(source: Source) -> bool:
    """Whether DuckDB should read this source, whose samples then go straight into the store."""
    try:
        found = table_in(source) if source.size >= LARGE_BYTES else None
    except OSError:
        return False
    return found is not None and form_of(found) is not None


def read_large(source: Source, found: TraceLayout, name: str, tool: str) -> Reading | None:
    """The reading of a large trace; None where its table is not one of plain numbers.

    Its samples go into the store of ``source.samples``; where there is none, nobody keeps them.
    """
    form = form_of(found) if layout(source.raw_head) == found else None
    if form is None or utf16_of(next(source.blocks(512), b"")) is not None:
        return None
    whole = _loaded(source, found, form, source.samples)
    if whole is None:
        return None
    return summary_reading(str(source.path), name, tool, whole, [one.name for one in found.columns])


def _loaded(source: Source, found: TraceLayout, form: RowForm, keep: Samples | None) -> Summary | None:
    if keep is not None and keep.store is not None:
        loader = Loader(keep.store, keep.trace, form, source.size, keep.folder)
        whole = _Parts(source, found, loader).read()
        keep.loaded = whole is not None
        return whole
    if keep is not None:
        return None
    with scratch_store() as (store, folder):
        return _Parts(source, found, Loader(store, 0, form, source.size, folder)).read()


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
    form = RowForm(
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
    return form if form.fits else None


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


class _Parts:
    """A file in parts of whole lines, each loaded by DuckDB; what it refuses is counted line by line."""

    def __init__(self, source: Source, found: TraceLayout, loader: Loader) -> None:
        self._source, self._found, self._loader = source, found, loader
        self._summed, self._odd = Summary(), Summary()
        self._pass = Pass(found, self._summed)
        self._odd_pass = Pass(found, self._odd, source.samples)
        self._lines = 0
        self._held, self._size = list[bytes](), 0

    def read(self) -> Summary | None:
        """What the whole file tells; None, with nothing loaded, where too many of its lines are odd."""
        if not all(self._take() for _ in self._parts()):
            self._loader.give_up()
            return None
        self._sum_up()
        self._loader.finish()
        return merged_summary([self._summed, self._odd])

    def _parts(self) -> Iterator[None]:
        """Hold one part after the other."""
        rest = b""
        for block in self._blocks():
            rows, rest = rest + block, b""
            end = rows.rfind(b"\n") + 1
            if not end or self._size + end < PART_BYTES:
                self._add(rows)
                continue
            self._add(rows[:end])
            yield
            rest = rows[end:]
        self._add(rest)
        if self._held:
            yield

    def _blocks(self) -> Iterator[bytes]:
        """The file behind its header."""
        for block in self._source.blocks(min(BLOCK_BYTES, PART_BYTES)):
            rows = block
            while rows and self._lines < self._found.skip:
                _, end, rows = rows.partition(b"\n")
                self._lines += len(end)
            yield rows

    def _add(self, rows: bytes) -> None:
        if rows:
            self._held.append(rows)
            self._size += len(rows) + ODD_BYTES * self._loader.add(rows)

    def _take(self) -> bool:
        held, first = self._held, self._lines <= self._found.skip
        self._held, self._size = [], 0
        lines, odd = self._loader.load()
        if first and len(odd) > MOST_ODD * lines:
            return False
        if odd:
            rows = "\n".join(map(_text, _lines_at(held, odd)))
            self._odd_pass.take(rows, [self._lines + at + 1 for at in odd])
        self._see(b"".join(held[:2])[:HEAD], b"".join(held[-2:])[-HEAD:])
        self._lines += lines
        return True

    def _see(self, head: bytes, tail: bytes) -> None:
        """Note the cards and the times at the ends of a part."""
        whole = head[: head.rfind(b"\n") + 1] or head
        first, last = self._pass.see(_text(whole), _text(tail[tail.find(b"\n", 0, -1) + 1 :]))
        self._summed.first_time = self._summed.first_time or first
        self._summed.last_time = last or self._summed.last_time

    def _sum_up(self) -> None:
        columns, whole = self._found.columns, self._summed
        seen, whole.gpus = whole.gpus, {}
        for one in self._loader.tallies():
            name = str(one.card) if one.card is not None else ""
            whole.gpus.setdefault(name, seen.get(name) or self._pass.stranger(name)).take(one)
        reasons = [one.role.partition(":")[2] for one in columns if one.role.startswith("throttle:")]
        for tally in whole.gpus.values():
            for busy in tally.rows:  # a reason with a column of its own is known to be absent
                tally.count_reasons(busy, dict.fromkeys(reasons, 0))
        whole.rows = sum(tally.rows.total() for tally in whole.gpus.values())
        whole.lines = self._lines - self._odd.lines
        if whole.first_time:
            self._odd.first_time = self._odd.last_time = ""  # odd rows at the ends were seen there


def _lines_at(blocks: Sequence[bytes], wanted: Sequence[int]) -> Iterator[bytes]:
    """The lines with these numbers, from 0 and ascending, of a text in blocks."""
    count, rest, numbers = 0, b"", iter(wanted)
    number = next(numbers, None)
    for block in (*blocks, b"\n"):
        *lines, rest = (rest + block).split(b"\n")
        while number is not None and number < count + len(lines):
            yield lines[number - count]
            number = next(numbers, None)
        count += len(lines)


def _text(rows: bytes) -> str:
    return rows.decode("utf-8", "replace").replace("\r\n", "\n").rstrip("\r\n")
