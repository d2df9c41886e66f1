"""Templates that nobody filled in: cells such as ``<TTFT>``, ``XX.X``, ``TBD``, ``{{ value }}``.

Owns telling a template from results. Must not look at single odd cells: real tables have those too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_BLANK = re.compile(
    r"^(?:<[^<>]{1,40}>|\{\{.*\}\}|\$\{\w+\}|\[[A-Z _]{2,30}\]|_{2,}|\.{3,}|…"
    r"|[xX]{1,4}(?:[.,][xX]{1,3})?\s*(?:ms|s|tok/s|t/s|%)?"
    r"|TBD|TODO|FIXME|to be (?:done|filled|measured)|your[ _-].*|fill me.*|pending|\?{1,3}"
    r"|[Nn]{2,4}(?:\.[Nn]{1,3})?|\#+)$",
    re.IGNORECASE,
)


def is_placeholder(cell: str) -> bool:
    """Whether a cell stands for a value that is still to come."""
    return bool(_BLANK.match(cell.strip().strip("*`~ ")))


def reason(cells: Iterable[str]) -> str | None:
    """Why the cells are a template's, or ``None``: most of those that could hold a value are placeholders."""
    held = [cell for cell in cells if cell.strip() and len(cell) < 60]
    blank = [cell for cell in held if is_placeholder(cell)]
    figures = [cell for cell in held if re.search(r"\d", cell) and not is_placeholder(cell)]
    if len(blank) >= 2 and len(blank) > len(figures):
        shown = ", ".join(sorted({cell.strip() for cell in blank})[:3])
        return f"a template with placeholder values ({shown}), not results: fill it in first"
    return None
