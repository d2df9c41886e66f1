"""Delimited GPU traces: where the table starts and what its columns mean, then a summary in one pass.

Owns ``layout`` (which the store uses too, to load the same samples) and ``summarise``. Memory stays flat:
text is read in blocks, and each block's columns are counted as strings, so that a value is converted once per
block. Must not decide which tool wrote the file.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice

from ingest.gpu_columns import Column, recognise_column, unit_factor
from ingest.sources import HEAD_BYTES, Source
from ingest.tally import BUSY_UTILIZATION_PCT, GpuTally, reasons_of_mask, vague_roles

BLOCK_BYTES = 4 << 20
HEADER_SEARCH_LINES = 40
_LONGEST_LINE = 4 << 20
_DELIMITERS = (",", ";", "\t", "|")
_NUMBER = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([A-Za-z%°/]*)\s*$")
_TROUBLE = re.compile(r"(?i)lost|unknown error|err!|insufficient permission|not found")
# Numbers that DCGM and NVML print for "no value": ends of int32, int64 and the float grid below 2**47.
_BLANK = (140737488355328.0, 2147483632.0, 9.2e18)


@dataclass(frozen=True, slots=True)
class TraceLayout:
    """Where samples stand in a delimited trace.

    ``delimiter`` is "" for columns set apart by blanks; lines that start with ``#`` are then no rows.
    ``skip`` is the number of lines before the first row of data, header included; ``decimal`` the decimal
    mark; ``header`` the header line itself ("" when there is none), which may come again after a restart.
    """

    columns: tuple[Column, ...]
    delimiter: str
    decimal: str = "."
    header: str = ""
    skip: int = 1

    def position(self, role: str) -> int | None:
        """The column with a role, or None."""
        return next((at for at, one in enumerate(self.columns) if one.role == role), None)

    def metrics(self) -> int:
        """How many different metrics of a GPU the columns hold."""
        return len({one.role for one in self.columns if one.is_metric})


@dataclass(slots=True)
class Summary:
    """What one pass over a trace found. ``trouble`` is (line, what); line numbers count from 1."""

    gpus: dict[str, GpuTally] = field(default_factory=dict)
    rows: int = 0
    first_time: str = ""
    last_time: str = ""
    sessions: int = 1
    facts: dict[str, str] = field(default_factory=dict)
    trouble: list[tuple[int | None, str]] = field(default_factory=list)
    lines: int = 0
    odd_lines: int = 0


@lru_cache(maxsize=16)
def layout(head: str) -> TraceLayout | None:
    """The layout of the first table of GPU columns in a file's head, or None when no line is its header."""
    for number, line in enumerate(head.split("\n")[:HEADER_SEARCH_LINES]):
        text = line.strip("\r \ufeff")
        if text[:1] in ("{", "["):
            continue
        for delimiter in _DELIMITERS:
            cells = _cells(text, delimiter)
            columns = tuple(recognise_column(cell) for cell in cells)
            if len(cells) > 1 and _looks_like_header(columns):
                rest = head.split("\n")[number + 1 :]
                return TraceLayout(columns, delimiter, _decimal(delimiter, rest), text, number + 1)
    return None


def given_layout(columns: Sequence[str], head: str) -> TraceLayout:
    """The layout of a file without header, by the names that the user gave its columns."""
    first = next((line for line in head.split("\n") if line.strip()), "")
    delimiter = next((one for one in _DELIMITERS if len(_cells(first, one)) == len(columns)), ",")
    named = tuple(recognise_column(one) for one in columns)
    return TraceLayout(named, delimiter, _decimal(delimiter, [first]), "", 0)


def to_number(text: str, role: str, factor: float = 1.0, decimal: str = ".") -> float | None:
    """A cell in the unit of ``role``; its own unit beats the header's ``factor``. None if it says nothing."""
    if decimal == ",":
        text = text.replace(",", ".")
    found = _NUMBER.match(text)
    if not found:
        return None
    value = float(found[1])
    if found[2]:
        factor = unit_factor(role, found[2])
    if value >= _BLANK[2] or _BLANK[1] <= value <= _BLANK[1] + 15 or value == _BLANK[0]:
        return None
    return value * factor


def raw_head(source: Source) -> str:
    """The first lines as they stand: what ``layout`` needs, since it counts lines."""
    with source.open() as stream:
        data = stream.read(HEAD_BYTES)
    return codecs.getincrementaldecoder(_encoding(data))("replace").decode(data)


def blocks(source: Source) -> Iterator[list[str]]:
    """Lines of a source in blocks of a few megabytes, decoded; a block ends at a line's end."""
    with source.open() as stream:
        data = stream.read(BLOCK_BYTES)
        decoder = codecs.getincrementaldecoder(_encoding(data))("replace")
        rest = ""
        while data:
            lines = (rest + decoder.decode(data)).replace("\r\n", "\n").split("\n")
            rest = lines.pop()
            if len(rest) > _LONGEST_LINE:
                lines, rest = [*lines, rest], ""
            yield lines
            data = stream.read(BLOCK_BYTES)
        last = rest + decoder.decode(b"", final=True)
        if last:
            yield [last]


def clean_blocks(source: Source) -> Iterator[list[str]]:
    """The same without outer prefixes (docker, kubectl): slower, for a trace that a container printed."""
    lines = (line for _, line in source.lines())
    while block := list(islice(lines, 20_000)):
        yield block


def find_table(
    source: Source, find: Callable[[str], TraceLayout | None]
) -> tuple[TraceLayout, Iterator[list[str]]] | None:
    """The table of a source and its lines: raw where that gives the same columns, else without prefixes."""
    raw, clean = find(raw_head(source)), find(source.head)
    if raw and (clean is None or raw.columns == clean.columns):
        return raw, blocks(source)
    return (clean, clean_blocks(source)) if clean else None


def summarise(lines_in_blocks: Iterable[list[str]], found: TraceLayout) -> Summary:
    """Count every sample of a trace with this layout; blocks as ``blocks`` or ``clean_blocks`` give them."""
    summary = Summary()
    pass_ = _Pass(found, summary)
    at = 0
    for lines in lines_in_blocks:
        fresh = lines[max(found.skip - at, 0) :] if at < found.skip else lines
        pass_.take(fresh, at + len(lines) - len(fresh) + 1)
        at += len(lines)
    summary.lines = at
    return summary


class _Pass:
    """The state of one pass: which columns to count for which GPU, and what cells meant so far."""

    def __init__(self, found: TraceLayout, summary: Summary) -> None:
        self.layout, self.summary = found, summary
        self.time = next(
            (p for role in ("time", "epoch", "elapsed") if (p := found.position(role)) is not None), None
        )
        self.date = found.position("date")
        cards = dict.fromkeys(one.gpu for one in found.columns if one.gpu is not None)
        self.views = [_View(self, card) for card in (cards or [None])]
        self.told: set[str] = set()

    def take(self, lines: list[str], first_line: int) -> None:
        """Count a block of lines, the first of which has this number."""
        rows = self._rows(lines, first_line)
        if not rows:
            return
        self.summary.rows += len(rows)
        self.summary.first_time = self.summary.first_time or self._when(rows[0])
        self.summary.last_time = self._when(rows[-1]) or self.summary.last_time
        for view in self.views:
            view.take(rows)

    def tell(self, cell: str, column: Column) -> None:
        """Note a cell that reports trouble, once per column and text."""
        what = f"{column.name}: {cell.strip()[:120]}"
        if (
            ("[" in cell or "!" in cell)
            and _TROUBLE.search(cell)
            and what not in self.told
            and len(self.told) < 20
        ):
            self.told.add(what)
            self.summary.trouble.append((None, what))

    def _rows(self, lines: list[str], first_line: int) -> list[list[str]]:
        delimiter, wanted = self.layout.delimiter or None, len(self.layout.columns)
        if self.layout.header[:1] == "#":
            kept = [(n, line) for n, line in enumerate(lines, first_line) if line[:1] != "#"]
            return self._checked([line for _, line in kept], [n for n, _ in kept])
        if delimiter and any('"' in line for line in lines):
            rows = [_cells(line, delimiter) for line in lines]
        else:
            rows = [line.split(delimiter) for line in lines]
        header = self.layout.header
        if set(map(len, rows)) == {wanted} and not (header and header in lines):
            return rows
        numbered = enumerate(zip(lines, rows, strict=True), first_line)
        return [row for number, (line, row) in numbered if self._is_row(line, row, number)]

    def _checked(self, lines: list[str], numbers: list[int]) -> list[list[str]]:
        rows = [line.split(self.layout.delimiter or None) for line in lines]
        return [
            row for line, row, at in zip(lines, rows, numbers, strict=True) if self._is_row(line, row, at)
        ]

    def _is_row(self, line: str, row: list[str], number: int) -> bool:
        if not line.strip():
            return False
        if line.strip("\r \ufeff") == self.layout.header:
            self.summary.sessions += 1
            return False
        if len(row) == len(self.layout.columns):
            return True
        self.summary.odd_lines += 1
        if len(self.summary.trouble) < 20:
            what = "has fewer columns than the header" if len(row) > 1 else "is no row of the table"
            self.summary.trouble.append((number, f"{what}: {line.strip()[:120]}"))
        return False

    def _when(self, row: list[str]) -> str:
        time = row[self.time].strip().strip('"') if self.time is not None else ""
        return f"{row[self.date].strip()} {time}" if self.date is not None else time


class _View:
    """One GPU of a wide table, or all GPUs of a long one: its columns, and the tallies they fill."""

    def __init__(self, owner: _Pass, card: int | None) -> None:
        columns = owner.layout.columns
        mine = [(at, one) for at, one in enumerate(columns) if one.gpu is None or one.gpu == card]
        self.owner, self.card = owner, card
        self.metrics = [(at, one) for at, one in mine if one.is_metric]
        self.reasons = [(at, one) for at, one in mine if one.role.startswith("throttle")]
        self.words = {one.role: at for at, one in reversed(mine) if one.role in _WORDS}
        self.load = next((at for at, one in mine if one.role == "utilization_pct"), None)
        self.key = next((self.words[role] for role in ("index", "uuid", "bus") if role in self.words), None)
        self.vague = vague_roles(one for _, one in mine)
        self.scale = 0.0

    def take(self, rows: list[list[str]]) -> None:
        """Count the rows of a block."""
        self._see_scale(rows)
        groups: dict[tuple[str, bool], list[list[str]]] = {}
        appends = _Appends(self._group, groups)
        key, load = self.key, self.load
        if key is None and load is None:
            groups["", False] = rows
        elif key is None or load is None:
            one = load if key is None else key
            assert one is not None  # noqa: S101 - for the type checker
            for row in rows:
                appends[row[one]](row)
        else:
            for row in rows:
                appends[row[key], row[load]](row)
        for (name, busy), some in groups.items():
            self._count(self._tally(name, some[0]), busy, some)

    def _see_scale(self, rows: list[list[str]]) -> None:
        if self.scale or self.load is None:
            return
        column, cells = self.owner.layout.columns[self.load], {row[self.load] for row in rows}
        values = [
            v for cell in cells if (v := to_number(cell, "", 1.0, self.owner.layout.decimal)) is not None
        ]
        is_ratio = not column.unit and max(values, default=0.0) <= 1.0 and any(0 < v < 1 for v in values)
        self.scale = 100.0 if is_ratio else column.factor
        if is_ratio:
            ratio = replace(column, factor=100.0)
            self.metrics = [(at, ratio if at == self.load else one) for at, one in self.metrics]

    def _group(self, cell: str | tuple[str, str]) -> tuple[str, bool]:
        name, load = cell if isinstance(cell, tuple) else ((cell, "") if self.load is None else ("", cell))
        value = to_number(load, "utilization_pct", self.scale, self.owner.layout.decimal)
        return name.strip(), value is not None and value >= BUSY_UTILIZATION_PCT

    def _tally(self, name: str, row: list[str]) -> GpuTally:
        key = name if self.card is None else str(self.card)
        found = self.owner.summary.gpus.get(key)
        if found is None:
            found = GpuTally(index=self._index(key), vague=self.vague)
            found.name, found.uuid = self._word("name", row), self._word("uuid", row)
            self.owner.summary.gpus[key] = found
            for role in ("driver", "cuda", "host", "compute_cap"):
                word = self._word(role, row)
                if word:
                    self.owner.summary.facts.setdefault(role, word)
        return found

    def _index(self, key: str) -> int | None:
        digits = re.fullmatch(r"(?:gpu|card|cuda)?[ :]?(\d{1,4})", key.strip('" ').lower())
        return int(digits[1]) if digits and (self.card is not None or "index" in self.words) else None

    def _word(self, role: str, row: list[str]) -> str | None:
        at = self.words.get(role)
        word = row[at].strip().strip('"').strip() if at is not None else ""
        return word if word and not word.startswith("[") and word.upper() not in ("N/A", "-") else None

    def _count(self, tally: GpuTally, busy: bool, rows: list[list[str]]) -> None:
        tally.rows[busy] += len(rows)
        for at, column in self.metrics:
            tally.count(busy, column.role, self._values(Counter([row[at] for row in rows]), column))
        for at, column in self.reasons:
            cells = Counter([row[at].strip() for row in rows])
            tally.count_reasons(busy, _reasons(column.role, cells))

    def _values(self, cells: Mapping[str, int], column: Column) -> dict[float, int]:
        suffix, factor, decimal = " " + column.unit, column.factor, self.owner.layout.decimal
        cut, found = -len(suffix), dict[float, int]()
        for cell, times in cells.items():
            # Nearly every cell is a number with the header's own unit: no pattern is needed for those.
            try:
                value: float | None = float(cell[:cut] if cell.endswith(suffix) else cell) * factor
            except ValueError:
                value = to_number(cell, column.role, factor, decimal)
            if value is None:
                self.owner.tell(cell, column)
            elif -_BLANK[2] < value < _BLANK[1]:
                found[value] = found.get(value, 0) + times
        return found


class _Appends(dict["str | tuple[str, str]", Callable[[list[str]], None]]):
    """Cells that say which group a row belongs to -> the append of that group's list."""

    def __init__(
        self,
        group: Callable[[str | tuple[str, str]], tuple[str, bool]],
        groups: dict[tuple[str, bool], list[list[str]]],
    ) -> None:
        self.group, self.groups = group, groups

    def __missing__(self, cell: str | tuple[str, str]) -> Callable[[list[str]], None]:
        self[cell] = found = self.groups.setdefault(self.group(cell), []).append
        return found


_WORDS = frozenset(("index", "uuid", "bus", "name", "driver", "cuda", "host", "compute_cap"))


def _reasons(role: str, cells: Mapping[str, int]) -> Counter[str]:
    if role == "throttle_mask":
        shares: Counter[str] = Counter()
        for cell, times in cells.items():
            shares.update(dict.fromkeys(reasons_of_mask(cell), times))
        return shares
    return Counter({role.removeprefix("throttle:"): cells.get("Active", 0)})


def _looks_like_header(columns: Sequence[Column]) -> bool:
    known = [one for one in columns if one.role != "other"]
    numbers = sum(1 for one in columns if re.fullmatch(r"[-+\d.,:/ ]*", one.name))
    return len(known) >= 2 and numbers == 0 and (any(one.is_metric for one in known) or len(known) >= 3)


def _cells(text: str, delimiter: str) -> list[str]:
    if '"' not in text:
        return text.split(delimiter)
    try:
        return next(csv.reader([text], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:
        return text.split(delimiter)


def _decimal(delimiter: str, rest: Sequence[str]) -> str:
    if delimiter == ",":
        return "."
    sample = "\n".join(rest[:20])
    commas, points = (len(re.findall(rf"\d{mark}\d", sample)) for mark in (",", r"\."))
    return (
        "," if commas > 0 and commas >= points / 2 and re.search(r"\d,\d+\s*(?:W|[;\t|]|$)", sample) else "."
    )


def _encoding(data: bytes) -> str:
    return "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
