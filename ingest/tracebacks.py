"""Errors in a stream of log lines: tracebacks put together, chains recognised, repeats counted.

Owns which lines are errors and how they hang together. Must not decide which of them was the cause: that
needs the whole run (ingest.classify).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ingest.frame_stages import later, stage_of
from ingest.logline import Line
from kb.model import Stage
from kb.symptoms import Match, Table

TRACEBACK = "Traceback (most recent call last)"
CHAINED = (
    "During handling of the above exception, another exception occurred",
    "The above exception was the direct cause of the following exception",
)
# Classes that say that something broke and not why: a later line of the same message may say it.
VAGUE = frozenset({"unknown-model-error", "jit-failed", "missing-module", "internal-assert"})
_THROWN = "what():"  # C++ says so what it was that nobody caught
MAX_TAIL_LINES = 24
MAX_BLOCK_LINES = 5000
MAX_FINDINGS = 4000
MAX_TEXT = 4000

ERRORISH = re.compile(
    r"[Ee]rror|ERROR|[Ff]ailed|[Ff]ailure|FATAL|[Ff]atal|[Aa]bort|[Aa]ssert|what\(\)|xception|Killed|refused"
    r"|[Cc]annot|[Uu]nable|[Nn]ot supported|[Nn]ot enough|[Oo]ut of|OutOf|[Ii]nvalid|died|timed? ?out|exceeds"
)
EXCEPTION = re.compile(
    r"(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,80}?"
    r"(?:Error|Exception|Exit|Failure|Timeout|Interrupt|OutOfResources)(?:\(.{0,20}\))?(?::|$)"
)
# A paste often loses its indentation: its source lines then stand where an error would.
_SOURCE = re.compile(r'raise\b|return\b|File "|\^+$|self\.|\w+ = |with |await |[\w.]+\($')
_STRIPPED = re.compile(r'File "[^"]{1,400}", line \d+')
_ABORTED = re.compile(
    r"(?:\[ *\d{1,5}\] )?\S{1,200}\.(?:cpp|cc|cu|cuh|c|h|hpp|m):\d{1,6}: (?!warning|note|error:)\S"
)
_PYDANTIC = re.compile(r"[\w.]*ValidationError: \d+ validation errors? for ")
_RULE = re.compile(r"[-=*]{40,}\s*$")  # another program's words begin
# What a dying process leaves by itself is no part of the message above it.
_LAST_WORDS = re.compile(
    r"(?:\[[\w.: -]{1,80}\] )?(?:Caught signal \d|Fatal Python error: |Segmentation fault|Aborted\b|Killed\b)"
)
_RETURNED = re.compile(r"Error: [A-Z][a-z]\w{1,60}(?:\(|$)")  # what a program in Rust ended with
_AHEAD = re.compile(r"while processing method (?P<method>\w{1,80}): (?P<said>\S.*), Traceback \(")
_DIGITS = re.compile(r"\d+|0x[0-9a-f]+")
_FRAME = re.compile(
    r'\s*(?:\| )?File "(?P<file>[^"]{1,400})", line (?P<line>\d+), in (?P<function>\S{1,120})'
)


@dataclass(slots=True)
class Finding:
    """An error as the log shows it.

    ``chain`` is a number that the blocks of one exception chain share (0: no traceback), ``block`` the
    place in that chain, ``begun`` the line where the traceback begins; ``stage`` is what its frames show.
    ``more`` are the lines of the message after its first. ``count`` and ``last``
    tell repeats. ``is_cut`` is the last line of a traceback whose exception the log no longer shows.
    """

    line: int
    text: str
    process: str
    level: str | None
    is_exception: bool
    chain: int = 0
    block: int = 0
    begun: int = 0
    count: int = 1
    last: int = 0
    more: list[tuple[int, str]] = field(default_factory=list)
    frame: str | None = None
    stage: Stage | None = None
    is_noise: bool = False
    is_cut: bool = False
    match: Match | None = None
    matched: tuple[int, str] | None = None

    def classify(self, table: Table) -> None:
        """Find the row of the symptom table that the message matches, in its first line or a later one."""
        quiet = self.level in ("warning", "info", "debug") and not self.chain
        for number, text in [(self.line, self.text), *self.more]:
            found = table.match(text, is_error=False)
            if found is None or found.symptom.kind not in ("noise", "echo"):
                found = table.match(text, is_error=not quiet)
            if found is not None and self._is_better(found, table):
                self.match, self.matched = found, (number, text)
                if found.symptom.kind == "cause" and found.symptom.name not in VAGUE:
                    break
        if self.match is None and _PYDANTIC.match(self.text):
            self.matched = next(
                (row for row in self.more if row[1].lstrip().startswith("Value error, ")), None
            )

    def _is_better(self, found: Match, table: Table) -> bool:
        """Whether a later line's row says more: a cause, and one that stands before in the table."""
        if self.match is None or self.match.symptom.kind != "cause":
            return self.match is None or found.symptom.kind == "cause"
        return found.symptom.kind == "cause" and table.is_before(found.symptom, self.match.symptom)


@dataclass(slots=True)
class _Block:
    owner: str
    level: str | None
    chain: int
    place: int
    line: int
    last: tuple[int, str]
    rows: int = 0
    frame: str | None = None
    stage: Stage | None = None
    is_noise: bool = False
    is_cut: bool = False
    is_stripped: bool = False
    candidate: tuple[int, str] | None = None


class Tracebacks:
    """Collects findings from lines, one stream per writer; lines must come in order."""

    def __init__(self, table: Table) -> None:
        self.findings: list[Finding] = []
        self._table = table
        self._open: dict[tuple[str, bool], _Block] = {}
        self._tails: dict[tuple[str, bool], Finding] = {}
        self._chained: dict[tuple[str, bool], tuple[int, int]] = {}
        self._last: dict[tuple[str, bool], tuple[int, int]] = {}
        self._noisy: dict[tuple[str, bool], int] = {}
        self._fresh: tuple[str, bool] | None = None
        self._seen: dict[str, Finding] = {}
        self._chains = 0

    @property
    def is_open(self) -> bool:
        """Whether the next lines may belong to an error that began above."""
        return bool(self._open or self._tails)

    def new_start(self) -> None:
        """A server started anew: what repeats from now on is no repeat of the earlier start's errors."""
        self._seen.clear()

    def finish(self) -> list[Finding]:
        """All findings, classified; a traceback that the log cuts off gives the last exception it named."""
        for block in self._open.values():
            number, text = block.candidate or block.last
            told = Finding(number, text[:MAX_TEXT], block.owner, block.level, True, block.chain)
            told.stage, told.is_cut = block.stage, block.candidate is None
            told.is_noise = told.is_cut or block.is_noise
            self._add(told)
        self._open.clear()
        for finding in self.findings:
            finding.classify(self._table)
        return self.findings

    def feed(self, line: Line) -> bool:
        """Take a line; whether it is (part of) an error."""
        key = (line.process, line.level is not None or (not line.is_plain and not line.process))
        if any(mark in line.text for mark in CHAINED):
            self._expect_chained(key)
            return True
        if TRACEBACK in line.text:
            self._begin(key, line)
            return True
        block = self._block_of(key, line) or self._headless(key, line)
        if block is not None:
            return self._inside(key, block, line)
        tail = self._tails.get(key)
        if tail is not None and self._extend(key, tail, line):
            return True
        return self._alone(key, line)

    def _block_of(self, key: tuple[str, bool], line: Line) -> _Block | None:
        fresh, self._fresh = self._fresh, None
        if key in self._open:
            return self._open[key]
        if fresh is None or not line.is_plain or line.text[:1] not in " \t":
            return None
        block = self._open.pop(fresh, None)
        if block is not None:
            self._open[key] = block
        return block

    def _headless(self, key: tuple[str, bool], line: Line) -> _Block | None:
        """A traceback that was pasted from its middle on: its first frame begins it."""
        if 'File "' not in line.text or _FRAME.match(line.text) is None:
            return None
        self._begin(key, line)
        self._open[key].is_cut = True
        return self._open[key]

    def _begin(self, key: tuple[str, bool], line: Line) -> None:
        self._tails.pop(key, None)
        chain, place = self._chained.pop(key, (0, 0))
        if chain == 0:
            self._chains += 1
            chain = self._chains
        block = _Block(line.process, line.level, chain, place, line.number, (line.number, line.text))
        after_noise = line.number - self._noisy.get(key, -10) <= 3 and line.text.lstrip().startswith(
            TRACEBACK
        )
        block.is_noise = after_noise or self._table.is_noise(line.text)
        if ahead := _AHEAD.search(line.text):
            block.candidate, block.stage = (line.number, ahead["said"]), stage_of(ahead["method"])
        self._open[key] = block
        self._fresh = key

    def _expect_chained(self, key: tuple[str, bool]) -> None:
        self._tails.pop(key, None)
        if key in self._last:
            chain, place = self._last[key]
            self._chained[key] = (chain, place + 1)

    def _inside(self, key: tuple[str, bool], block: _Block, line: Line) -> bool:
        block.rows += 1
        text = line.text
        if block.rows > MAX_BLOCK_LINES:
            del self._open[key]
            return False
        if self._is_body(block, text):
            block.last = (line.number, text) if text.strip(" \t^~|") else block.last
            if found := _FRAME.match(text):
                block.frame = f"{found['file']}:{found['line']} in {found['function']}"
                block.stage = later(block.stage, stage_of(found["function"]))
                block.is_noise = block.is_noise or self._table.is_noise(found["file"])
            elif EXCEPTION.match(text.lstrip()):
                block.candidate = (line.number, text.strip())
            return True
        del self._open[key]
        if block.is_cut and not EXCEPTION.match(text) and not text.startswith("Exception: "):
            return self._alone(key, line)
        finding = Finding(line.number, text[:MAX_TEXT], block.owner or line.process, block.level, True)
        finding.chain, finding.block, finding.frame = block.chain, block.place, block.frame
        finding.stage, finding.is_noise, finding.begun = block.stage, block.is_noise, block.line
        self._add(finding)
        self._tails[key] = finding
        self._last[key] = (block.chain, block.place)
        return True

    @staticmethod
    def _is_body(block: _Block, text: str) -> bool:
        if not text.strip() or text[:1] in " \t|+":
            return True
        block.is_stripped = block.is_stripped or _STRIPPED.match(text) is not None
        return block.is_stripped and EXCEPTION.match(text) is None

    def _extend(self, key: tuple[str, bool], tail: Finding, line: Line) -> bool:
        ends = (one.match(line.text) for one in (EXCEPTION, _RULE, _LAST_WORDS, _RETURNED))
        if any(ends) or len(tail.more) >= MAX_TAIL_LINES:
            del self._tails[key]
            return False
        if line.text.strip():
            tail.more.append((line.number, line.text[:MAX_TEXT]))
        return True

    def _alone(self, key: tuple[str, bool], line: Line) -> bool:
        text = line.text
        if line.level is None and _SOURCE.match(text):
            return False
        if line.level == "error" and text[:2] == "  " and not text.lstrip().startswith(_THROWN):
            return False  # of a traceback whose head is cut off
        is_exception = (
            EXCEPTION.match(text) is not None
            or text.lstrip().startswith(_THROWN)
            or (line.is_plain and (_ABORTED.match(text) or _RETURNED.match(text)) is not None)
        )
        is_error = line.level == "error" or bool(
            line.level is None and (is_exception or (text[:1] not in " \t|" and ERRORISH.search(text)))
        )
        found = self._table.match(text, is_error=is_error)
        if found is not None and found.symptom.kind == "noise":
            self._noisy[key] = line.number
        if found is None and not (is_error and (is_exception or line.level == "error")):
            return False
        finding = Finding(line.number, text[:MAX_TEXT], line.process, line.level, is_exception)
        self._add(finding)
        return True

    def _add(self, finding: Finding) -> None:
        finding.last = finding.line
        shape = _DIGITS.sub("#", finding.text[:300])
        first = self._seen.setdefault(shape, finding)
        if first is not finding:
            first.count += 1
            first.last = finding.line
            return
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(finding)
