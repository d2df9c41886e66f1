"""Rows as aligned text columns for a terminal or a pipe.

Owns widths and cutting. Must not colour: the output is read by programs too.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence

GAP = "  "


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, stretch: int | None = None) -> list[str]:
    """Lines with a header; the column ``stretch`` is cut so that a terminal's width holds the rest."""
    widths = [max(len(row[at]) for row in (header, *rows)) for at in range(len(header))]
    if stretch is not None:
        room = (
            shutil.get_terminal_size((160, 24)).columns
            - sum(widths)
            + widths[stretch]
            - len(GAP) * (len(header) - 1)
        )
        widths[stretch] = max(12, min(widths[stretch], room))
    return [
        GAP.join(_cell(text, width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    ]


def _cell(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else text[: width - 1] + "…"


def number(value: float | None) -> str:
    """A measured value with about four digits; empty where it is unknown."""
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
