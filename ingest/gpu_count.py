"""One pass over a delimited GPU trace: from blocks of text to a tally per GPU.

Owns counting. A block is cut into columns and each column is counted as strings, GPU by GPU and apart for
samples under load, so that a value is converted once per block and memory does not grow with the file. Must
not decide which columns there are (ingest/gpu_csv.py) nor what a trace shows (ingest/telemetry.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import compress, count
from typing import TYPE_CHECKING

from ingest.gpu_columns import Column
from ingest.gpu_csv import TraceLayout, is_around, is_listing, is_names_line, split_cells, to_number
from ingest.tally import BUSY_UTILIZATION_PCT, HUGE, GpuTally, masks_of, reasons_in, vague_roles

_TROUBLE = re.compile(r"(?i)lost|unknown error|err!|insufficient permission|not found")
_WORDS = frozenset(("index", "uuid", "bus", "name", "driver", "cuda", "host", "compute_cap"))
_FACTS = ("driver", "cuda", "host", "compute_cap")
_TIMES = ("time", "epoch", "elapsed")
_MEMORY = ("memory_used_mib", "memory_total_mib", "memory_free_mib")
_MOST_CARDS = 4096
MOST_TOLD = 20
_MOST_TURNS = 64
_END = "\x00"
HEAD = 32 * 1024

if TYPE_CHECKING:
    from ingest.samples import Samples

Columns = Sequence[Sequence[str]]


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
    empty_lines: int = 0


def summarise(texts: Iterable[str], found: TraceLayout, keep: Samples | None = None) -> Summary:
    """Count every sample of a trace with this layout; texts as ``blocks`` or ``clean_blocks`` give them.

    ``keep`` gets every sample as numbers.
    """
    summary = Summary()
    pass_ = Pass(found, summary, keep)
    for text in texts:
        lines = text.count("\n") + 1
        at = summary.lines
        summary.lines += lines
        skip = max(found.skip - at, 0)
        if skip < lines:
            pass_.take(text.split("\n", skip)[skip] if skip else text, count(at + skip + 1))
    return summary


class Pass:
    """The state of one pass: which columns to count for which GPU, and what cells meant so far."""

    def __init__(self, found: TraceLayout, summary: Summary, keep: Samples | None = None) -> None:
        self.layout, self.summary, self.keep = found, summary, keep
        self.time = next((at for role in _TIMES if (at := found.position(role)) is not None), None)
        self.tick = found.columns[self.time].factor if self.time is not None else 1.0
        self.date, self.fraction = found.position("date"), found.position("fraction")
        self.listing = is_listing(found)
        self.columns = (*found.columns, Column("", "index")) if self.listing else found.columns
        cards = dict.fromkeys(one.gpu for one in found.columns if one.gpu is not None)
        self.views = [_View(self, card) for card in (cards or [None])]
        self.told: set[str] = set()
        self.foreign = False  # below a header with other names

    def take(self, text: str, numbers: Iterable[int]) -> None:
        """Count a block of lines, which have these numbers."""
        columns = self._aligned(text) or self._checked(text, numbers)
        if not columns or not columns[0]:
            return
        if self.listing:
            columns = [*columns, [str(self.summary.rows + at) for at in range(len(columns[0]))]]
        self.summary.rows += len(columns[0])
        self.summary.first_time = self.summary.first_time or self._when(columns, 0)
        self.summary.last_time = self._when(columns, -1) or self.summary.last_time
        for view in self.views:
            view.take(columns)

    def see(self, head: str, tail: str) -> tuple[str, str]:
        """Note the cards that the first rows of a part name; the times of its first and last row, or ""."""
        some, end = (
            self._aligned(one) or Pass(self.layout, Summary())._checked(one, count(1)) for one in (head, tail)
        )
        if some and some[0]:
            self.views[0].see(some)
        return self._when(some, 0) if some and some[0] else "", self._when(end, -1) if end and end[0] else ""

    def stranger(self, name: str) -> GpuTally:
        """The tally of a card that no first row of a part names."""
        return self.views[0].stranger(name)

    def tell(self, cell: str, column: Column) -> None:
        """Note a cell that reports trouble, once per column and text."""
        if ("[" not in cell and "!" not in cell) or not _TROUBLE.search(cell):
            return
        what = f"{column.name}: {cell.strip()[:120]}"
        if what not in self.told and len(self.told) < MOST_TOLD:
            self.told.add(what)
            self.summary.trouble.append((None, what))

    def _aligned(self, text: str) -> Columns | None:
        """The columns of a block in which every line is a row: one cut for all, steps through its cells."""
        delimiter, width, header = self.layout.delimiter, len(self.layout.columns), self.layout.header
        if (
            delimiter in ("", "|")
            or '"' in text
            or _END in text
            or header[:1] == "#"
            or (header and header in text)
        ):
            return None
        cells = text.replace("\n", _END + delimiter).split(delimiter)
        cells[-1] += _END
        last = cells[width - 1 :: width]
        if len(cells) != width * len(last) or "".join(last).count(_END) != len(last):
            return None
        if text.count("\n") + 1 != len(last):
            return None
        return [*(cells[at::width] for at in range(width - 1)), [cell.rstrip(_END) for cell in last]]

    def _checked(self, text: str, numbers: Iterable[int]) -> Columns:
        delimiter, rows = self.layout.delimiter, list[list[str]]()
        for number, line in zip(numbers, text.split("\n"), strict=False):
            row = split_cells(line, delimiter) if delimiter else line.removeprefix("^C").split()
            if self._is_row(line, row, number):
                rows.append(row)
        return list(zip(*rows, strict=True))

    def _is_row(self, line: str, row: list[str], number: int) -> bool:
        if not line.strip(self.layout.delimiter + "\t\r :-"):
            return False  # blank, or the rule below a header
        if line.strip("\r \ufeff") == self.layout.header and self.layout.header[:1] != "#":
            self.summary.sessions += 1
            return False
        if self.layout.header[:1] == "#" and line[:1] == "#":
            self._see_names(line, number)
            return False
        if len(row) == len(self.layout.columns) and not self.foreign:
            return True
        if len(row) > 1 and not any(cell.strip() for cell in row[1:]):
            self.summary.empty_lines += 1  # a stamp alone: the loop had no card to write in this round
        elif not is_around(line):
            self._tell_odd(line, row, number)
        return False

    def _tell_odd(self, line: str, row: list[str], number: int) -> None:
        self.summary.odd_lines += 1
        if len(self.summary.trouble) < MOST_TOLD and not self.foreign:
            other = "more" if len(row) > len(self.layout.columns) else "fewer"
            what = f"has {other} columns than the header" if len(row) > 1 else "is no row of the table"
            self.summary.trouble.append((number, f"{what}: {line.strip()[:120]}"))

    def _see_names(self, line: str, number: int) -> None:
        """Note a further names line: below one with other names, cells mean something else."""
        if not is_names_line(line):
            return
        self.foreign = line.lower().split() != self.layout.header.lower().split()
        if self.foreign and len(self.summary.trouble) < MOST_TOLD:
            what = f"another header; what stands below it was not read: {line.strip()[:120]}"
            self.summary.trouble.append((number, what))

    def times(self, columns: Columns) -> Sequence[str]:
        """The time of each row of a block as it is printed."""
        return [self._when(columns, at) for at in range(len(columns[0]))]

    def _when(self, columns: Columns, at: int) -> str:
        time = columns[self.time][at].strip().strip('"') if self.time is not None else ""
        if self.fraction is not None:
            time += f",{columns[self.fraction][at].strip()}"
        if self.tick != 1.0:
            with suppress(ValueError):
                time = f"{float(time) * self.tick:.6f}"
        return f"{columns[self.date][at].strip()} {time}" if self.date is not None else time


class _View:
    """One GPU of a wide table, or all GPUs of a long one: its columns, and the tallies they fill."""

    def __init__(self, owner: Pass, card: int | None) -> None:
        columns = owner.columns
        mine = [(at, one) for at, one in enumerate(columns) if one.gpu is None or one.gpu == card]
        self.owner, self.card = owner, card
        self.metrics = _one_of_each(mine)
        reasons = [(at, one) for at, one in mine if one.role.startswith("throttle")]
        self.reasons = [one for one in reasons if one[1].role != "throttle_mask"] or reasons
        self.words = {one.role: at for at, one in reversed(mine) if one.role in _WORDS}
        self.load = next((at for at, one in mine if one.role == "utilization_pct"), None)
        self.key = next((self.words[role] for role in ("index", "uuid", "bus") if role in self.words), None)
        self.vague = vague_roles(one for _, one in mine)
        self.scale = 0.0
        self.groups = _Groups(self)

    def take(self, columns: Columns) -> None:
        """Count the rows of a block."""
        self._see_scale(columns)
        if self.owner.keep is not None:
            self._keep(self.owner.keep, columns)
        names = columns[self.key] if self.key is not None else ()
        for start, step in _turns(names):
            self._take_some(columns if step == 1 else [column[start::step] for column in columns])

    def see(self, rows: Columns) -> None:
        """Note the cards that these rows name."""
        names = [name.strip() for name in rows[self.key]] if self.key is not None else []
        for name in dict.fromkeys(names):
            self._tally(name, rows, names.index(name))

    def stranger(self, name: str) -> GpuTally:
        """A tally of a card of which nothing but its key is known."""
        return GpuTally(index=self._index(name), vague=self.vague)

    def _take_some(self, columns: Columns) -> None:
        blank = ("",) * len(columns[0])
        names = columns[self.key] if self.key is not None else blank
        loads = columns[self.load] if self.load is not None else blank
        ids = list(map(self.groups.__getitem__, zip(names, loads, strict=True)))
        for one in dict.fromkeys(ids):
            chosen = [one == other for other in ids]
            name, busy = self.groups.known[one]
            tally = self._tally(name, columns, ids.index(one))
            self._count(tally, busy, columns, None if all(chosen) else chosen)

    def group(self, name: str, load: str) -> tuple[str, bool]:
        """(card, whether under load) of two cells."""
        value = to_number(load, "utilization_pct", self.scale, self.owner.layout.decimal)
        return name.strip(), value is not None and value >= BUSY_UTILIZATION_PCT

    def _count(self, tally: GpuTally, busy: bool, columns: Columns, chosen: Sequence[bool] | None) -> None:
        tally.rows[busy] += len(columns[0]) if chosen is None else sum(chosen)
        for at, column in self.metrics:
            cells = _counted(columns[at], chosen)
            tally.count(busy, column.role, self._values(cells, column))
        for at, column in self.reasons:
            cells = _counted(columns[at], chosen)
            tally.count_reasons(busy, reasons_in(column.role, cells))

    def _values(self, cells: Mapping[str, int], column: Column) -> dict[float, int]:
        found = dict[float, int]()
        for cell, value in self._numbers(cells, column).items():
            if value is not None:
                found[value] = found.get(value, 0) + cells[cell]
        return found

    def _numbers(self, cells: Iterable[str], column: Column) -> dict[str, float | None]:
        """Cells -> numbers in our unit; None for those that hold none, of which trouble is told."""
        suffix, factor, decimal = " " + column.unit, column.factor, self.owner.layout.decimal
        cut, found = -len(suffix), dict[str, float | None]()
        for cell in cells:
            # Nearly every cell is a number with the header's own unit: no pattern is needed for those.
            try:
                value: float | None = float(cell[:cut] if cell.endswith(suffix) else cell) * factor
            except ValueError:
                value = to_number(cell, column.role, factor, decimal)
            if value is None:
                self.owner.tell(cell, column)
            elif abs(value) >= HUGE:  # bytes where nobody named a unit, else what tools print for no value
                value = to_number(cell, column.role, factor, decimal) if column.role in self.vague else None
            found[cell] = value
        return found

    def _keep(self, keep: Samples, columns: Columns) -> None:
        names = columns[self.key] if self.key is not None else ("",) * len(columns[0])
        keys = {name: name.strip() if self.card is None else str(self.card) for name in set(names)}
        who = {
            name: (index := self._index(key), None if index is not None else key)
            for name, key in keys.items()
        }
        values: dict[str, Sequence[float | None]] = {}
        for at, column in reversed(self.metrics):
            numbers = self._numbers(set(columns[at]), column)
            values[column.role] = [numbers[cell] for cell in columns[at]]
        masks = [masks_of(one.role, columns[at]) for at, one in self.reasons]
        keep.add(self.owner.times(columns), [who[name] for name in names], values, masks, self.vague)

    def _see_scale(self, columns: Columns) -> None:
        """Whether load is a share of one: told by the first block, where the header names no unit."""
        if self.scale or self.load is None:
            return
        column, decimal = self.owner.layout.columns[self.load], self.owner.layout.decimal
        told = (to_number(cell, "", 1.0, decimal) for cell in set(columns[self.load]))
        values = [value for value in told if value is not None]
        is_ratio = not column.unit and max(values, default=0.0) <= 1.0 and any(0 < v < 1 for v in values)
        self.scale = 100.0 if is_ratio else column.factor
        if is_ratio:
            ratio = replace(column, factor=100.0)
            self.metrics = [(at, ratio if at == self.load else one) for at, one in self.metrics]

    def _tally(self, name: str, columns: Columns, row: int) -> GpuTally:
        key = name if self.card is None else str(self.card)
        found = self.owner.summary.gpus.get(key)
        if found is None:
            found = GpuTally(index=self._index(key), vague=self.vague)
            found.name = self._word("name", columns, row) or self._product(key)
            found.uuid = self._word("uuid", columns, row)
            self.owner.summary.gpus[key] = found
            for role in _FACTS:
                word = self._word(role, columns, row)
                if word:
                    self.owner.summary.facts.setdefault(role, word)
        return found

    def _index(self, key: str) -> int | None:
        digits = re.fullmatch(r"(?:gpu|card|cuda)?[ :]?(\d{1,4})", key.strip('" ').lower())
        return int(digits[1]) if digits and (self.card is not None or "index" in self.words) else None

    def _product(self, key: str) -> str | None:
        """A card's key where it is a product: some loops write that under ``GPU``."""
        return key if " " in key and self._index(key) is None and "index" in self.words else None

    def _word(self, role: str, columns: Columns, row: int) -> str | None:
        at = self.words.get(role)
        word = columns[at][row].strip().strip('"').strip() if at is not None else ""
        return word if word and not word.startswith("[") and word.upper() not in ("N/A", "-") else None


class _Groups(dict[tuple[str, str], int]):
    """Cells of card and load -> the number of their group; ``known`` tells what a number stands for."""

    def __init__(self, view: _View) -> None:
        self.view = view
        self.known: list[tuple[str, bool]] = []

    def __missing__(self, cells: tuple[str, str]) -> int:
        group = self.view.group(*cells)
        if group not in self.known:
            if len(self.known) >= _MOST_CARDS:
                return 0
            self.known.append(group)
        self[cells] = number = self.known.index(group)
        return number


def _one_of_each(columns: Sequence[tuple[int, Column]]) -> list[tuple[int, Column]]:
    """The column of each metric: the one that is named for it, else for a GPU, else the first.

    Where the same of memory is told twice, once for a GPU by name, then the rest is the host's.
    """
    best: dict[tuple[str, int | None], tuple[int, Column]] = {}
    told = {(one.role, _is_of_gpu(one)) for _, one in columns if one.role in _MEMORY}
    mixed = any((role, not named) in told for role, named in told)
    for at, one in columns:
        before = best.get((one.role, one.gpu))
        foreign = mixed and one.role in _MEMORY and not (one.exact or _is_of_gpu(one))
        if one.is_metric and not foreign and (before is None or _fitness(one) > _fitness(before[1])):
            best[one.role, one.gpu] = at, one
    return sorted(best.values(), key=lambda found: found[0])


def _fitness(column: Column) -> tuple[bool, bool]:
    return column.exact, _is_of_gpu(column)


def _is_of_gpu(column: Column) -> bool:
    return column.gpu is not None or any(word in column.name.lower() for word in ("gpu", "vram", "cuda"))


def _turns(names: Sequence[str]) -> list[tuple[int, int]]:
    """(start, step) of each card where cards take turns row by row, as nvidia-smi writes them; else all."""
    step = next((at for at, name in enumerate(names[: _MOST_TURNS + 1]) if at and name == names[0]), 0)
    if step < 2:
        return [(0, 1)]
    turns = [names[at::step] for at in range(step)]
    regular = all(len(some) == some.count(some[0]) for some in turns)
    return [(at, step) for at in range(step)] if regular else [(0, 1)]


def _counted(column: Sequence[str], chosen: Sequence[bool] | None) -> Mapping[str, int]:
    some = column if chosen is None else list(compress(column, chosen))
    # Limits and totals stand still for a whole block: one look along it is cheaper than counting.
    return {some[0]: len(some)} if some.count(some[0]) == len(some) else Counter(some)
