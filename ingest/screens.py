"""What ``watch`` wrote for a terminal, replayed: the screens that somebody saw, as plain text.

Owns the few control sequences that curses sends, and rows that the screen's width broke. Must not know what
was watched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MAGIC = b"\x1b["
_EVERY = re.compile(rb"Every \d+[.,]\d+s: ")
_TOKEN = re.compile(
    r"\x1b\[([0-9;?]{0,16})([@-~])|\x1b[()][0-9A-Za-z]|\x1b[=>78M]|([^\x00-\x1f\x7f-\x9f]+)|([\r\n\b])"
)
_BORDER = ("|", "+")
_WIDEST, _TALLEST = 500, 300


def is_recorded(head: bytes) -> bool:
    """Whether first bytes are those of ``watch`` on a terminal: its title behind control sequences."""
    return head.startswith(MAGIC) and _EVERY.search(head) is not None


def replay(text: str) -> Iterator[str]:
    """Each screen once it is complete: the next one begins with the time in its first row."""
    screen, is_below = _Screen(), False
    for found in _TOKEN.finditer(text):
        if found[3]:
            screen.put(found[3])
        elif found[4]:
            screen.step(found[4])
        elif found[2]:
            screen.control(found[1], found[2])
            if is_below and screen.row == 0:
                yield screen.text()
            is_below = screen.row > 0
    if is_below and screen.rows:
        yield screen.text()


class _Screen:
    """Rows from the top, and where the cursor stands; both count from 0."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self.row = self.column = self.width = 0

    def put(self, letters: str) -> None:
        """Letters of one row at the cursor, over what stood there."""
        end = min(self.column + len(letters), _WIDEST)
        self.rows += [""] * (self.row + 1 - len(self.rows))
        row = self.rows[self.row]
        self.rows[self.row] = row[: self.column].ljust(self.column) + letters[: end - self.column] + row[end:]
        self.width = max(self.width, end)
        self._move(self.row, end)

    def step(self, letter: str) -> None:
        """A line's end, a carriage return or a step back."""
        self._move(self.row + (letter == "\n"), self.column - 1 if letter == "\b" else 0)

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
            del self.rows[0 if first else self.row :]
        elif kind in "KX":
            self._clear(kind, first)

    def text(self) -> str:
        """The rows from the top, those joined that a narrow screen broke."""
        joined: list[str] = []
        for line in map(str.rstrip, self.rows):
            if joined and self._is_rest(line) and joined[-1][:1] in _BORDER:
                joined[-1] = joined[-1].ljust(self.width) + line
            else:
                joined.append(line)
        return "\n".join(joined) + "\n"

    def _is_rest(self, line: str) -> bool:
        return line[-1:] in _BORDER and line[:1] not in _BORDER

    def _clear(self, kind: str, told: int) -> None:
        if self.row >= len(self.rows):
            return
        row, at = self.rows[self.row], self.column
        if kind == "X":
            told = min(told or 1, _WIDEST)
            row = row[:at] + " " * len(row[at : at + told]) + row[at + told :]
        elif told == 0:
            row = row[:at]
        else:
            row = " " * len(row[: at + 1]) + row[at + 1 :] if told == 1 else ""
        self.rows[self.row] = row

    def _move(self, row: int, column: int) -> None:
        self.row = min(max(row, 0), _TALLEST)
        self.column = min(max(column, 0), _WIDEST)
