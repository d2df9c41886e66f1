"""Tables in text: Markdown pipes, Unicode and ASCII boxes, and delimited values.

Owns finding tables and splitting them into cells with line numbers. Must not know what a column means.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_RULE = re.compile(r"^[\s|+:=┃│┏┓┗┛┡┩┢┪├┤┼╇╈┳┻┯┷━─═╪╞╡╭╮╰╯┌┐└┘╒╕╘╛╤╧-]+$")
_BOX_BAR = re.compile(r"[┃│|║]")
_PIPE = re.compile(r"(?<!\\)\|")


@dataclass(slots=True)
class Table:
    """A header and its rows. ``line`` is the header's 1-based line; a row is (line, cells).

    ``heading`` are the headings above it, ``caption`` the paragraph right before it.
    """

    header: list[str]
    line: int
    rows: list[tuple[int, list[str]]] = field(default_factory=list)
    heading: str = ""
    caption: str = ""

    def records(self) -> Iterator[tuple[int, dict[str, str]]]:
        """(line, column → cell) for each row; a second column of the same name gets `` #2``."""
        names = _unique(self.header)
        for line, cells in self.rows:
            yield line, dict(zip(names, cells + [""] * (len(names) - len(cells)), strict=False))


def pipe_tables(lines: Iterable[tuple[int, str]]) -> list[Table]:
    """Markdown tables: a header row, a rule of dashes, rows; the nearest heading above names each."""
    found: list[Table] = []
    heading, before, table = "", None, None
    for number, line in lines:
        text = line.strip()
        if text.startswith("#"):
            heading = text.lstrip("#").strip()
        if table is not None and text.startswith("|"):
            table.rows.append((number, split_pipes(text)))
        elif "|" in text and "-" in text and _is_rule(text) and before is not None:
            table = Table(split_pipes(before[1]), before[0], heading=heading)
            found.append(table)
        else:
            table = None
        before = (number, text) if "|" in text else None
    return found


def _is_rule(text: str) -> bool:
    return bool(re.fullmatch(r"\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?", text))


def split_pipes(text: str) -> list[str]:
    """Cells of one Markdown row, at least one; ``\\|`` stays a bar inside a cell."""
    parts = _PIPE.split(text.strip())
    if parts and not parts[0].strip():
        parts = parts[1:]
    if parts and not parts[-1].strip():
        parts = parts[:-1]
    return [part.strip().replace("\\|", "|") for part in parts] or [""]


def box_tables(lines: Iterable[tuple[int, str]]) -> list[Table]:
    """Tables drawn with box characters. A row with empty cells may continue the one above."""
    found: list[Table] = []
    table: Table | None = None
    ruled = False  # whether the line before was a rule: in a grid one stands between any two rows
    for number, line in lines:
        text = line.strip()
        if text and _RULE.match(text) and text[0] in "┏┌╭+╔╒":
            table = None if table is None or text[0] != "+" or ruled else table
            ruled = True
            continue
        ruled = False
        if not _is_box_row(text):
            table = table if text and _RULE.match(text) else None
        elif table is None or len(_box_cells(text)) != len(table.header):
            table = Table(_box_cells(text), number)
            found.append(table)
        else:
            _add_box_row(table, number, _box_cells(text))
    return [one for one in found if one.rows]


def _is_box_row(text: str) -> bool:
    return text[:1] in "┃│|║" and len(text) > 1 and len(_BOX_BAR.findall(text)) > 1 and not _RULE.match(text)


def _box_cells(text: str) -> list[str]:
    return [cell.strip() for cell in _BOX_BAR.split(text)[1:-1]]


def _add_box_row(table: Table, number: int, cells: list[str]) -> None:
    into = table.rows[-1][1] if table.rows else table.header
    wrapped = (
        len(cells) == len(into)
        and sum(bool(cell) for cell in cells) < len(cells)
        and (not cells[0] or (any(cells[0:1]) and not any(cells[1:])))
    )
    if wrapped and (table.rows or not all(cells)) and _continues(into, cells):
        for index, cell in enumerate(cells):
            into[index] = f"{into[index]} {cell}".strip()
    else:
        table.rows.append((number, cells))


def _continues(into: list[str], cells: list[str]) -> bool:
    return all(into[index] for index, cell in enumerate(cells) if cell)


def sniff_delimiter(header: str) -> str:
    """The delimiter of a header line: the most frequent of comma, semicolon, tab and bar outside quotes."""
    bare = re.sub(r'"[^"]*"', "", header)
    return max(",;\t|", key=bare.count)


def delimited(text: str) -> list[list[str]]:
    """Rows of a delimited text (header first), by the csv rules; never raises."""
    lines = text.splitlines()
    first = next((line for line in lines if line.strip()), "")
    reader = csv.reader(io.StringIO(text.replace("\0", "")), delimiter=sniff_delimiter(first))
    rows: list[list[str]] = []
    with contextlib.suppress(csv.Error):
        rows.extend(reader)
    return rows


def _unique(names: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return out
