"""Delimited GPU traces: where the table starts, what its columns mean, and how to read on.

Owns ``layout`` (which the store uses too, to load the same samples), cells and blocks of text. Must not
decide which tool wrote the file, and must not count (ingest/gpu_count.py does).
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from ingest.gpu_columns import Column, is_unit_of, recognise_column, unit_factor
from ingest.sources import Source

BLOCK_BYTES = 1 << 20
LARGE_BYTES = 4 << 20  # from here on DuckDB is worth its start
HEADER_SEARCH_LINES = 40
_LONGEST_LINE = 4 << 20
_LONGEST_NAME = 80
_MOST_BLANKS = 6
_DELIMITERS = (",", ";", "\t", "|")
_NUMBER = re.compile(r"\s*([-+]?(?:\d++(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)\s*([A-Za-z%°/]*)\s*$")
_FIGURE = r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z%°]*)\s*"
_SHARE_OF_WHOLE = re.compile(rf"{_FIGURE}/{_FIGURE}")
_APART = re.compile(r"(?<=[A-Za-z%])[\s,|]+")
_TWO = 2
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_FRACTION = re.compile(r".*\d:\d\d,\d{3,9}(?:Z|[+-]\d\d:?\d\d)?\s*$")
_TWICE = re.compile(r"(?:\s*\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d[^,]*(?:,|$)){2}")
_NAMES = re.compile(r"(?i)#.*\b(?:gpu|entity)\b")
# What a shell or a note puts around pasted output.
_AROUND = re.compile(r"\s*(?:```|[$>%] \S|\S+@\S+[:~ ].*[$#] )")
_PLACES = ("time", "epoch", "elapsed", "date", "index", "uuid", "bus")
_STILL = ("_total_mib", "_limit_w", "_max_mhz")
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


@lru_cache(maxsize=16)
def layout(head: str) -> TraceLayout | None:
    """The layout of the first table of GPU columns in a file's head, or None when no line is its header."""
    head = _closed(head)
    for number, line in enumerate(head.split("\n")[:HEADER_SEARCH_LINES]):
        text = line.strip("\r \ufeff")
        if text[:1] in ("{", "["):
            continue
        for delimiter in _DELIMITERS:
            cells = split_cells(text, delimiter)
            columns = tuple(recognise_column(cell) for cell in cells)
            if len(cells) > 1 and _looks_like_header(columns):
                rest = head.split("\n")[number + 1 :]
                columns = _as_wide_as_rows(columns, rest, text, delimiter)
                if not columns:
                    continue
                return TraceLayout(columns, delimiter, _decimal(delimiter, rest), text, number + 1)
    return None


def given_layout(columns: Sequence[str], head: str) -> TraceLayout:
    """The layout of a file without header, by the names that the user gave its columns."""
    first = next((line for line in head.split("\n") if line.strip()), "")
    delimiter = next((one for one in _DELIMITERS if len(split_cells(first, one)) == len(columns)), ",")
    named = tuple(recognise_column(one) for one in columns)
    return TraceLayout(named, delimiter, _decimal(delimiter, [first]), "", 0)


def to_number(text: str, role: str, factor: float = 1.0, decimal: str = ".") -> float | None:
    """A cell in the unit of ``role``; its own unit beats the header's ``factor``. None if it says nothing."""
    if decimal == ",":
        text = text.replace(",", ".")
    found = _NUMBER.match(_THOUSANDS.sub("", text)) or _one_of_two(text, role)
    if not found:
        return None
    value = float(found[1])
    if found[2]:
        factor = unit_factor(role, found[2])
    if abs(value) >= _BLANK[2] or _BLANK[1] <= value <= _BLANK[1] + 15 or value == _BLANK[0]:
        return None
    return value * factor


def _one_of_two(text: str, role: str) -> re.Match[str] | None:
    """The figure that is meant where a cell holds two: ``30 / 80 GiB`` of use and whole, ``45C 120W``."""
    pair = _SHARE_OF_WHOLE.fullmatch(text)
    if pair:
        figure, unit = pair[3] if role.endswith(("_total_mib", "_limit_w")) else pair[1], pair[2] or pair[4]
        return _NUMBER.match(figure + unit) if not unit or is_unit_of(role, unit) else None
    figures = [one for one in map(_NUMBER.match, _APART.split(text.strip())) if one]
    mine = [one for one in figures if is_unit_of(role, one[2])]
    return mine[0] if len(figures) == _TWO and len(mine) == 1 else None


def is_around(line: str) -> bool:
    """Whether a line is a shell's prompt with its command, or a fence: no row, and nothing wrong."""
    return _AROUND.match(line) is not None


def is_names_line(line: str) -> bool:
    """Whether a line behind ``#`` names columns, not their units."""
    return _NAMES.match(line) is not None


def is_listing(found: TraceLayout) -> bool:
    """Whether rows name cards and what does not change of them: no time, no number, no state."""
    placed = any(found.position(role) is not None for role in _PLACES)
    still = all(one.role.endswith(_STILL) for one in found.columns if one.is_metric)
    return found.position("name") is not None and still and not placed


def table_in(source: Source) -> TraceLayout | None:
    """The table that a source's head shows, as it stands or behind outer prefixes."""
    return layout(source.raw_head) or layout(source.head)


def blocks(source: Source) -> Iterator[str]:
    """Text of a source in blocks of a few megabytes, each of whole lines and without its last line break."""
    with source.open() as stream:
        data = stream.read(BLOCK_BYTES)
        decoder = codecs.getincrementaldecoder(_encoding(data))("replace")
        rest = ""
        while data:
            text = rest + _closed(decoder.decode(data).replace("\r\n", "\n"))
            whole, found, rest = text.rpartition("\n")
            if found or len(rest) > _LONGEST_LINE:
                yield whole if found else rest
                rest = rest if found else ""
            data = stream.read(BLOCK_BYTES)
        last = rest + decoder.decode(b"", final=True)
        if last:
            yield last


def _closed(text: str) -> str:
    """Text without the hole that a file has where it was emptied while a loop went on writing."""
    return re.sub("\0+", "\n", text) if "\0" in text else text


def clean_blocks(source: Source) -> Iterator[str]:
    """The same without outer prefixes (docker, kubectl): slower, for a trace that a container printed."""
    lines = (line for _, line in source.lines())
    while block := list(islice(lines, 20_000)):
        yield "\n".join(block)


def find_table(
    source: Source, find: Callable[[str], TraceLayout | None]
) -> tuple[TraceLayout, Iterator[str]] | None:
    """The table of a source and its lines: raw where that gives the same columns, else without prefixes."""
    raw, clean = find(source.raw_head), find(source.head)
    if raw and (clean is None or raw.columns == clean.columns or raw.columns[0].role != "other"):
        return raw, blocks(source)
    return (clean, clean_blocks(source)) if clean else None


def _looks_like_header(columns: Sequence[Column]) -> bool:
    known = [one for one in columns if one.role != "other"]
    numbers = sum(1 for one in columns if re.fullmatch(r"[-+\d.,:/ ]+", one.name))
    if any(len(one.name) > _LONGEST_NAME or one.name.count(" ") > _MOST_BLANKS for one in columns):
        return False
    if any("--query" in one.name for one in columns):
        return False  # the command itself, as a shell shows it
    return len(known) >= 2 and numbers == 0 and (any(one.is_metric for one in known) or len(known) >= 3)


def _as_wide_as_rows(
    columns: tuple[Column, ...], rest: Sequence[str], header: str, delimiter: str
) -> tuple[Column, ...]:
    """The columns that the rows after a header have; none where these are no rows. Prose has commas, too.

    Some loops never write the last column that they name, or end each row with a delimiter.
    """
    some = [line for line in rest[:20] if line.strip() and line.strip("\r \ufeff") != header]
    if not some:
        return columns
    cut = [split_cells(line.strip("\r"), delimiter) for line in some if re.search(r"\d|N/A", line)]
    rows = [row for row in cut if any(cell.strip() for cell in row[1:])]
    widths = {len(row) for row in rows}
    if len(columns) in widths:
        return columns
    if len(columns) > 2 and widths == {len(columns) - 1}:
        return columns[:-1] if all(_in_place(columns, row) for row in rows) else ()
    if widths == {len(columns) + 1} and not any(row[-1].strip() for row in rows):
        return (*columns, Column("", "other"))
    return _with_more_time(columns, rows) if widths == {len(columns) + 1} else ()


def _with_more_time(columns: tuple[Column, ...], rows: Sequence[list[str]]) -> tuple[Column, ...]:
    """The columns where a time takes two cells: as ``date -Ins`` writes it, a comma parts its seconds from
    their fraction; or a loop writes its own time before that of the tool.
    """
    at = next((at for at, one in enumerate(columns) if one.role == "time"), None)
    if at is None:
        return ()
    for role, form in (("fraction", _FRACTION), ("other", _TWICE)):
        if all(form.match(",".join(row[at : at + 2])) for row in rows):
            return (*columns[: at + 1], Column("", role), *columns[at + 1 :])
    return ()


def _in_place(columns: Sequence[Column], row: Sequence[str]) -> bool:
    """Whether times and indices of a narrow row stand where the header has them."""
    wanted = {
        "time": r"\s*\S*\d{2}[-/:.]?\d{2}.*|\s*\d+(?:\.\d+)?\s*",
        "index": r"(?i)\s*(?:gpu|card)?\s*\d{1,3}\s*",
    }
    told = zip(columns, row, strict=False)
    return all(re.fullmatch(wanted[one.role], cell) for one, cell in told if one.role in wanted)


def split_cells(text: str, delimiter: str) -> list[str]:
    """The cells of one line; quotes are honoured where there are any."""
    if '"' not in text:
        return text.split(delimiter)
    try:
        return next(csv.reader([text], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:
        return text.split(delimiter)


def _decimal(delimiter: str, rest: Sequence[str]) -> str:
    """The decimal mark; commas before three digits each are taken for it only between semicolons."""
    if delimiter == ",":
        return "."
    sample = "\n".join(rest[:20])
    commas, points = (len(re.findall(rf"\d{mark}\d", sample)) for mark in (",", r"\."))
    digits = r"\d+" if delimiter == ";" else r"(?!\d{3}(?!\d))\d+"
    told = re.search(rf"\d,{digits}\s*(?:W|[;\t|]|$)", sample)
    return "," if commas > 0 and commas >= points / 2 and told else "."


def _encoding(data: bytes) -> str:
    return "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
