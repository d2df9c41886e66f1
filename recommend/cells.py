"""What a cell of a foreign table says: a number with or without a unit, a failure, or nothing.

Owns reading numbers, units and words that mark a failed try. Pure; nothing is guessed: what is not understood
is nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

FAILED: Final = "failed"
# Tuners write such numbers where a configuration did not run.
SENTINEL = 1e18
_NUMBER = re.compile(r"([-+]?(?:\d[\d,_]*)?\.?\d+(?:e[-+]?\d+)?)\s*([^\d\s].*)?", re.IGNORECASE)
_PLAIN_COMMA = re.compile(r"[-+]?\d+(?:,\d+)?")
_TIME_MS = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "μs": 1e-3, "ms": 1.0, "s": 1e3, "sec": 1e3, "seconds": 1e3}
_TIMES = {"k": 1e3, "m": 1e6, "g": 1e9}
_BAD = re.compile(
    r"fail|error|invalid|crash|oom|out of memory|time[d -]?out|hang|hung|killed|refused|abort|segfault"
    r"|incompatible|unsupported|not supported|broken|exception|reject",
    re.IGNORECASE,
)
_GOOD = re.compile(
    r"(?:ok|okay|success\w*|succeeded|pass|passed|done|complete|completed|valid|correct|true|yes|1|1\.0|good|finished|)",
    re.IGNORECASE,
)
_FALSE = frozenset({"", "none", "nan", "null", "false", "no", "0", "0.0", "ok", "n/a", "-"})
# Columns that usually say how a try ended, the surest first; of the second kind any content is bad news.
STATUS = ("status", "outcome", "state", "result", "effect", "success", "succeeded", "valid", "passed", "ok")
TROUBLE = ("failure_class", "failure", "failed", "error", "error_message", "exception")


def measured(value: Any) -> float | str | None:
    """A number, ``FAILED``, or ``None`` where a cell says neither. Times with a unit come in milliseconds."""
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, str):
        return _of_text(value.strip())
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return _sane(number)


def _sane(number: float) -> float | str | None:
    if math.isnan(number):
        return None
    return FAILED if abs(number) >= SENTINEL else number


def _of_text(text: str) -> float | str | None:
    found = _NUMBER.fullmatch(text)
    if found:
        number = _plain(found[1])
        scale = _scale((found[2] or "").strip().lower())
        return None if number is None or scale is None else _sane(number * scale)
    if text.lower() in ("inf", "+inf", "infinity"):
        return FAILED
    return FAILED if _BAD.search(text) else None


def _plain(text: str) -> float | None:
    """A number with ``,`` between thousands, or as the decimal sign where it cannot be that."""
    whole, comma, rest = text.partition(",")
    decimal = comma and "," not in rest and "." not in text and len(rest) != 3
    try:
        return float(f"{whole}.{rest}" if decimal else text.replace(",", "").replace("_", ""))
    except ValueError:
        return None


def comma_is_decimal(texts: Iterable[str]) -> bool:
    """Whether a column writes ``0,935`` for 0.935: numbers alone, of which some cannot be thousands."""
    known = [one.strip() for one in texts if one.strip()]
    divided = [one.lstrip("+-").partition(",") for one in known if "," in one]
    plain = all(_PLAIN_COMMA.fullmatch(one) for one in known)
    return plain and any(whole == "0" or len(whole) > 3 or len(rest) != 3 for whole, _, rest in divided)


def _scale(unit: str) -> float | None:
    if unit in _TIME_MS:
        return _TIME_MS[unit]
    head, _, _ = unit.partition(" ")
    return _TIMES.get(head, 1.0)


def failing(column: str, values: Iterable[str]) -> frozenset[str] | None:
    """Which values of a column mark a failure; ``None`` where they are not of words that say so."""
    known = set(values)
    if column.lower() in TROUBLE:
        bad = {one for one in known if one.strip().lower() not in _FALSE}
        return frozenset(bad) if bad and bad != known else None
    bad = {one for one in known if _BAD.search(one) or (_is_truth(known) and one.strip().lower() in _FALSE)}
    good = {one for one in known - bad if _GOOD.fullmatch(one.strip())}
    return frozenset(bad) if bad and good and bad | good == known else None


def _is_truth(values: set[str]) -> bool:
    words = {one.strip().lower() for one in values}
    return words <= {"true", "false", "yes", "no", "0", "1", "0.0", "1.0"}


def may_tell(name: str) -> bool:
    """Whether a column's name has a word that columns of endings have (``run_status``, ``errors_l``)."""
    words = re.split(r"[^a-z]+", name.lower())
    return any(word.removesuffix("s") in (*STATUS, *TROUBLE) or word in STATUS for word in words)


def _rule(name: str, values: set[str]) -> str:
    """The usual column that a name is like: of trouble where it says so, and is no count or rate of it."""
    words = {word.removesuffix("s") for word in re.split(r"[^a-z]+", name)}
    counted = any(_NUMBER.fullmatch(one.strip()) for one in values) and not _is_truth(values - {""})
    return "error" if words & {*TROUBLE} and not counted else "status"


def status_column(
    rows: Iterable[Mapping[str, Any]], names: Iterable[str]
) -> tuple[str, frozenset[str]] | None:
    """The column that says which tries failed, and by which values; ``None`` where no column does.

    A name that is none of the usual ones counts only where each of its values is a word for good or bad.
    """
    table = list(rows)
    by_name = {name.lower(): name for name in names}
    usual = [word for word in (*STATUS, *TROUBLE) if word in by_name]
    for word in (*usual, *sorted(by_name.keys() - {*STATUS, *TROUBLE})):
        name = by_name[word]
        values = {str(row.get(name)) for row in table}
        bad = failing(word if word in usual else _rule(word, values), values)
        if bad:
            return name, bad
    return None
