"""What ``watch`` wrote for a terminal, replayed: the screens that somebody saw, as plain text.

Owns the few control sequences that curses sends, and rows that the screen's width broke. Must not know what
was watched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MAGIC = b"\x1b["
_EVERY = re.compile(rb"Every \d+[.,]\d+s: ")
_TOKEN = re.compile(r"\x1b\[([0-9;?]{0,16})([@-~])|\x1b[()][0-9A-Za-z]|\x1b[=>78M]|([^\x1b])", re.DOTALL)
_BORDER = ("|", "+")
_WIDEST, _TALLEST = 1000, 500


def is_recorded(head: bytes) -> bool:
    """Whether first bytes are those of ``watch`` on a terminal: its title behind control sequences."""
    return head.startswith(MAGIC) and _EVERY.search(head) is not None


def replay(text: str) -> Iterator[str]:
    """Each screen once it is complete: the next one begins with the time in its first row."""
    screen, is_below = _Screen(), False
    for found in _TOKEN.finditer(text):
        if found[3]:
            screen.put(found[3])
        elif found[2]:
            screen.control(found[1], found[2])
            if is_below and screen.row == 0:
                yield screen.text()
            is_below = screen.row > 0
    if is_below and screen.rows:
        yield screen.text()


class _Screen:
    """Cells by row, and where the cursor stands; both count from 0."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[int, str]] = {}
        self.row = self.column = self.width = 0

    def put(self, letter: str) -> None:
        """One letter, or a control character, at the cursor."""
        if letter in "\r\n\b":
            self._move(self.row + (letter == "\n"), self.column - 1 if letter == "\b" else 0)
        elif letter.isprintable():
            self.rows.setdefault(self.row, {})[self.column] = letter
            self.width = max(self.width, self.column + 1)
            self._move(self.row, self.column + 1)

    def control(self, parameters: str, kind: str) -> None:
        """A sequence that moves the cursor or clears; others change nothing that can be read."""
        told = [int(one) for one in parameters.split(";") if one.isdecimal()]
        first, second = (*told, 0, 0)[:2]
        if kind == "H":
            self._move(first - 1, second - 1)
        elif kind in "dG":
            self._move(*((first - 1, self.column) if kind == "d" else (self.row, first - 1)))
        elif kind in "ABCD":
            down, right = {"A": (-1, 0), "B": (1, 0), "C": (0, 1), "D": (0, -1)}[kind]
            self._move(self.row + down * (first or 1), self.column + right * (first or 1))
        elif kind == "J" and first in (0, 2):
            self.rows = {} if first else {at: one for at, one in self.rows.items() if at < self.row}
        elif kind == "K":
            self._clear_row(first)
        elif kind == "X":
            for at in range(self.column, self.column + (first or 1)):
                self.rows.get(self.row, {}).pop(at, None)

    def text(self) -> str:
        """The rows from the top, those joined that a narrow screen broke."""
        lines = [self._line(at) for at in range(max(self.rows, default=-1) + 1)]
        joined: list[str] = []
        for line in lines:
            if joined and self._is_rest(line) and joined[-1][:1] in _BORDER:
                joined[-1] = joined[-1].ljust(self.width) + line
            else:
                joined.append(line)
        return "\n".join(joined) + "\n"

    def _is_rest(self, line: str) -> bool:
        return line[-1:] in _BORDER and line[:1] not in _BORDER

    def _line(self, row: int) -> str:
        cells = self.rows.get(row, {})
        return "".join(cells.get(at, " ") for at in range(max(cells, default=-1) + 1)).rstrip()

    def _clear_row(self, part: int) -> None:
        cells = self.rows.get(self.row, {})
        kept = {0: range(self.column), 1: range(self.column + 1, _WIDEST)}.get(part, range(0))
        self.rows[self.row] = {at: one for at, one in cells.items() if at in kept}

    def _move(self, row: int, column: int) -> None:
        self.row = min(max(row, 0), _TALLEST)
        self.column = min(max(column, 0), _WIDEST)
