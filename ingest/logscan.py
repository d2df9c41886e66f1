"""One pass over a server log of any size: events, errors, samples, and a count of its lines.

Owns speed and flat memory: lines that make up most of a log are skipped by a literal test and sampled; a line
whose shape (its text without digits) told nothing before is skipped; only the rest is taken apart. Must not
know an engine, nor judge an outcome.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ingest import prefixes
from ingest.events import Bulk, Event, Grammar, Reader, apply
from ingest.inlog import READERS
from ingest.logline import Line, split
from ingest.skim import without_marked
from ingest.sources import Source
from ingest.tracebacks import Finding, Tracebacks
from kb.symptoms import table

LINE_LIMIT = 256 * 1024
DIGITS = b"0123456789"
HEX = re.compile(rb"(?:[0-9a-f]{4,}|[0-9]+)[0-9a-f]*")
MANY_SHAPES = 2_000
MAX_SHAPES = 50_000
MAX_SAMPLES = 20_000
MAX_ALIKE = 200
SAMPLES_FIRST = 4000
SAMPLES_PER_CHUNK = 128
UNKNOWN_EXAMPLES = 5


@dataclass(slots=True)
class Scan:
    """What a pass found. ``progress`` are numbers of lines that prove that requests were being served;
    ``taken`` some of those that say that one was taken up.
    """

    events: list[Event] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    progress: Sequence[int] = ()
    taken: list[int] = field(default_factory=list)
    total: int = 0
    understood: int = 0
    unknown: int = 0
    unknown_examples: list[tuple[int, str]] = field(default_factory=list)
    started: str | None = None
    ended: str | None = None
    last: Line | None = None

    def progress_after(self, line: int, until: int) -> bool:
        """Whether requests were served between two lines."""
        at = bisect_right(self.progress, line)
        return at < len(self.progress) and self.progress[at] <= until

    def taken_between(self, line: int, until: int) -> bool:
        """Whether a request was taken up between two lines."""
        return any(line < one < until for one in self.taken)


def scan(source: Source, grammar: Grammar) -> Scan:
    """Read a log once with an engine's grammar."""
    return _Scanner(source, grammar).run()


class _Scanner:
    def __init__(self, source: Source, grammar: Grammar) -> None:
        self._source, self._grammar = source, grammar
        self._wrappers = source.wrappers
        self._errors = Tracebacks(table())
        self._readers: list[Reader] = [one() for one in (*READERS, *grammar.readers)]
        self._inside = False  # whether a reader is inside of what spans several lines
        self._markers = [one.marker for one in grammar.bulk]
        self._dull: dict[bytes, bool] = {}
        self._alike: Counter[tuple[str, bytes]] = Counter()
        self._samples: list[Event] = []
        self._sample_stride, self._sample_count = 1, 0
        self._progress = array("q")
        self._held = ""
        self._chunks = self._ended_line = 0
        self._started_line = 1 << 62
        self.result = Scan()

    def run(self) -> Scan:
        for first, lines in self._source.chunks(LINE_LIMIT):
            self.result.total += len(lines)
            rest = without_marked(first, lines, self._markers)
            if len(rest) < len(lines):
                self._bulk(first, lines)
                self.result.understood += len(lines) - len(rest)
            self._read(rest)
            self._chunks += 1
        return self._finish()

    def _finish(self) -> Scan:
        result = self.result
        if self._inside:
            self._line(Line(result.total, "", is_plain=False), b"")  # ends what the last line left open
        result.findings = self._errors.finish()
        result.events = sorted([*result.events, *self._samples], key=lambda one: one.line)
        result.progress = array("q", sorted(self._progress))
        return result

    def _read(self, rest: list[tuple[int, bytes]]) -> None:
        dull, errors = self._dull, self._errors
        for number, raw in rest:
            shape = raw.translate(None, DIGITS)
            known = dull.get(shape)
            if known is None and len(dull) > MANY_SHAPES:
                shape = HEX.sub(b"", raw)
                known = dull.get(shape)
            if known is not None and not errors.is_open and not self._inside:
                self.result.understood += known
                self.result.unknown += not known
                continue
            self._take(number, raw, shape)

    def _take(self, number: int, raw: bytes, shape: bytes) -> None:
        one = prefixes.unwrap(raw.decode("utf-8", "replace").rstrip("\r"), self._wrappers)
        if one.partial and len(self._held) < LINE_LIMIT:
            self._held += one.text
            return
        text, self._held = self._held + one.text, ""
        told = understood = False
        for frame in prefixes.frames(text):
            line = split(number, frame, one.time)
            told = self._line(line, shape) or told
            understood = understood or not line.is_plain or not line.text.strip()
        understood = understood or told
        self.result.understood += understood
        self.result.unknown += not understood
        if not understood and len(self.result.unknown_examples) < UNKNOWN_EXAMPLES:
            self.result.unknown_examples.append((number, text[:200]))
        if not told:
            if len(self._dull) >= MAX_SHAPES:
                self._dull.clear()
            self._dull[shape] = understood

    def _line(self, line: Line, shape: bytes) -> bool:
        if line.time is not None:
            self._clock(line)
        if line.text.strip():
            self.result.last = line
        in_error = self._errors.is_open
        told = [] if in_error and line.text[:1] in " \t" else apply(self._grammar.rules, line.text)
        for reader in self._readers:
            told += reader.feed(line)
        for kind, values in told:
            self._keep(Event(kind, line.number, line.process, values, line.text, line.time), shape)
        self._inside = any(one.active for one in self._readers)
        return self._errors.feed(line) or bool(told) or in_error or self._inside

    def _clock(self, line: Line) -> None:
        result = self.result
        if line.number < self._started_line:
            result.started, self._started_line = line.time, line.number
        if line.number >= self._ended_line:
            result.ended, self._ended_line = line.time, line.number

    def _keep(self, event: Event, shape: bytes) -> None:
        if event.kind == "start":
            self._errors.new_start()
            self._alike.clear()
        if event.kind == "sample":
            self._sample(event)
            return
        if event.kind == "taken":
            self.result.taken.append(event.line)
        if event.kind == "served":
            self._progress.append(event.line)
        self._alike[event.kind, shape] += 1
        if self._alike[event.kind, shape] <= MAX_ALIKE:
            self.result.events.append(event)

    def _bulk(self, first: int, lines: list[bytes]) -> None:
        wanted = SAMPLES_PER_CHUNK if self._chunks else SAMPLES_FIRST
        stride = len(lines) // wanted | 1  # odd, so that lines of a fixed rhythm are all met
        for at in range(0, len(lines), stride):
            raw = lines[at]
            for kind in self._grammar.bulk:
                if kind.marker in raw:
                    self._bulk_line(kind, first + at, raw)
                    break
        self._clock_of(first, lines[0])
        self._last_progress(first, lines)

    def _bulk_line(self, kind: Bulk, number: int, raw: bytes) -> None:
        if kind.is_progress(raw) and (not self._progress or number > self._progress[-1]):
            self._progress.append(number)
        if kind.taken:
            self.result.taken.append(number)
        if kind.read is None:
            return
        text = raw.decode("utf-8", "replace")
        values = kind.read(prefixes.unwrap(text, self._wrappers).text if self._wrappers else text)
        if values is not None:
            self._sample(Event("sample", number, values.pop("process", ""), values))

    def _last_progress(self, first: int, lines: list[bytes]) -> None:
        for at in range(len(lines) - 1, -1, -1):
            if any(kind.marker in lines[at] and kind.is_progress(lines[at]) for kind in self._grammar.bulk):
                if not self._progress or first + at > self._progress[-1]:
                    self._progress.append(first + at)
                self._clock_of(first + at, lines[at])
                return

    def _clock_of(self, number: int, raw: bytes) -> None:
        one = prefixes.unwrap(raw.decode("utf-8", "replace"), self._wrappers)
        line = split(number, one.text, one.time)
        if line.time is not None:
            self._clock(line)

    def _sample(self, event: Event) -> None:
        self._sample_count += 1
        if self._sample_count % self._sample_stride:
            return
        self._samples.append(event)
        if len(self._samples) > MAX_SAMPLES:
            del self._samples[::2]
            self._sample_stride *= 2
