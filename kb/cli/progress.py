"""Progress of a long read on stderr: one moving line on a terminal, a plain line now and then otherwise.

Owns its wording and pace. Must not print to stdout.
"""

from __future__ import annotations

import sys
import time

TERMINAL_S = 0.1
PLAIN_S = 10.0


class Progress:
    """Told the bytes done and in all after each file; says rate and time left."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.terminal = sys.stderr.isatty()
        self.started = self.said = time.monotonic()
        self.files = 0
        self.shown = False

    def step(self, done: int, total: int) -> None:
        """One more file."""
        self.files += 1
        now = time.monotonic()
        if not self.quiet and now - self.said > (TERMINAL_S if self.terminal else PLAIN_S):
            self.said = now
            self._show(self._line(done, total, now - self.started))

    def notice(self, text: str) -> None:
        """Something that the user should know while waiting."""
        if not self.quiet:
            self.clear()
            print(f"kbctl: {text}", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Remove the moving line."""
        if self.shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self.shown = False

    def _show(self, line: str) -> None:
        if self.terminal:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
            self.shown = True
        else:
            print(f"kbctl: {line}", file=sys.stderr, flush=True)

    def _line(self, done: int, total: int, seconds: float) -> str:
        rate = done / seconds if seconds > 0 else 0.0
        left = f", {duration(max(total - done, 0) / rate)} left" if rate else ""
        return f"{self.files} files, {size(done)} of {size(total)}, {size(rate)}/s{left}"


def size(count: float) -> str:
    """Bytes in the unit that people read."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit in ("B", "kB") else f"{count:.1f} {unit}"
        count /= 1000
    return ""


def duration(seconds: float) -> str:
    """Seconds, or minutes and seconds."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
