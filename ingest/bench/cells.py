"""Cells of tables to numbers: thousands commas, "mean ± std", units, approximations, empty markers.

Owns what one cell says. Must not know what its column means.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_NOTHING = {
    "",
    "-",
    "–",
    "—",
    "n/a",
    "na",
    "nan",
    "none",
    "null",
    "not set",
    "not measured",
    "x",
    "?",
    "tbd",
    "unknown",
}
_LARGEST = 1e30  # what is larger is damage, not a measurement
_NUMBER = re.compile(
    r"^(?:[~≈<>≥≤=+@]|ca\.?|about|approx\.?|up to)*\s*"
    r"(?P<number>[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?|[+-]?\.\d+)"
    r"(?P<thousand>[kKM](?![a-zA-Z]))?"
    r"(?:\s*(?:±|\+/-|\+-)\s*(?P<spread>\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?))?"
    r"\s*(?P<rest>.*)$",
    re.DOTALL,
)
_CUT = re.compile(r"\d[.,]?…")  # a column too narrow for its number
_DECIMAL_COMMA = re.compile(r"^[+-]?\d{1,3}(?:\.\d{3})*,\d+(?!\d)")
_PARTED = re.compile(r"^[+-]?\d{1,3}(?:[ '’]\d{3})+(?:[.,]\d+)?+(?![\d'’]|\s*%)")  # "1 702,1", "1'702.1"
_PARTING = re.compile(r"(?<=\d)[ '’](?=\d{3}(?!\d))")
_LINK = re.compile(r"\[([^\[\]]{1,200})\]\([^()\s]{1,300}\)")
_ESCAPED = re.compile(r"\\([_*`|#~\[\]<>()+.!-])")  # of Markdown
_MARKUP = re.compile(r"\*\*|__|`|<[^>]{1,20}>|[🏆⭐✅🥇🔥]")


@dataclass(frozen=True, slots=True)
class Cell:
    """A number and what stood beside it: spread ("± 3"), the text after it (a unit, a remark)."""

    value: float
    spread: float | None = None
    rest: str = ""


def read_cell(raw: Any) -> Cell | None:
    """The number in a cell, or ``None`` where it holds none (empty, "n/a", words, several numbers)."""
    if isinstance(raw, bool) or raw is None:
        return None
    if isinstance(raw, int | float):
        return Cell(float(raw)) if abs(raw) < _LARGEST else None
    text = plain(str(raw))
    if text.lower() in _NOTHING or len(text) > 80 or _lists_sizes(text) or _CUT.search(text):
        return None
    if _PARTED.match(text):
        text = _PARTING.sub("", text).replace(",", ".")
    if _DECIMAL_COMMA.match(text) and not re.match(r"^[+-]?\d{1,3},\d{3}(?!\d)", text):
        text = text.replace(".", "").replace(",", ".")
    found = _NUMBER.match(text)
    if (
        not found
        or re.match(
            r"^\s*[-–/:x×→·•]\s*\d|^\.\d|^[x×] [A-Z]|^[a-zµ/]{1,8}\s*[-–]\s*\d", found["rest"]
        )  # several, a version, or things
        or (found["rest"][:1].isalpha() and _is_name(found))
    ):
        return None
    factor = {"k": 1e3, "K": 1e3, "M": 1e6, None: 1.0}[found["thousand"]]
    if not abs(_float(found["number"])) < _LARGEST:
        return None
    spread = None if found["spread"] is None else _float(found["spread"])
    return Cell(_float(found["number"]) * factor, spread, found["rest"].strip())


def number(raw: Any) -> float | None:
    """The number alone."""
    cell = read_cell(raw)
    return None if cell is None else cell.value


def whole(raw: Any) -> int | float | None:
    """The number, as an integer where it is one."""
    value = number(raw)
    if value is None:
        return None
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


def plain(text: str) -> str:
    """A cell's text without Markdown and HTML decoration."""
    bare = _MARKUP.sub("", _LINK.sub(r"\1", text) if "](" in text else text)
    return " ".join((_ESCAPED.sub(r"\1", bare) if "\\" in bare else bare).split())


def is_nothing(raw: Any) -> bool:
    """Whether a cell says that there is no value."""
    return raw is None or (isinstance(raw, str) and plain(raw).lower() in _NOTHING)


def _lists_sizes(text: str) -> bool:
    """Whether numbers are sizes one after another ("128 256 512"), not the thousands of one."""
    groups = text.split(" ")
    return len(groups) > 2 and all(one.isdecimal() and one[0] != "0" and _is_size(int(one)) for one in groups)


def _is_size(value: int) -> bool:
    return value & (value - 1) == 0 or value % 50 == 0


def _float(text: str) -> float:
    return float(text.replace(",", "") or "nan")


def _is_name(found: re.Match[str]) -> bool:
    """A number glued to letters that are no unit is a name (``8xH100``, ``4bit``, ``2B``)."""
    end = found.end("thousand" if found["thousand"] else "number")
    glued = found.string[end : end + 1]
    return glued.isalpha() and not re.match(
        r"(?:ms|s|sec|us|tok|t/s|tps|x|req|GiB|GB|W|C|MHz|rps|qps)\b", found["rest"]
    )
