"""Named states of GPUs and the thresholds that make them, as data (``conditions.json``).

Owns reading that file. Must not look at traces: ingest/telemetry.py applies the rules.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

_DATA = Path(__file__).with_name("conditions.json")
_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
}


@dataclass(frozen=True, slots=True)
class Test:
    """One comparison of a quantity with a threshold."""

    quantity: str
    sign: str
    threshold: float

    def holds(self, values: Mapping[str, float]) -> bool | None:
        """Whether it holds; ``None`` when the quantity is not known."""
        value = values.get(self.quantity)
        return None if value is None else _OPERATORS[self.sign](value, self.threshold)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A named state: all of ``needs`` must be known and hold, none of ``unless`` may hold.

    ``tokens`` says what the state presupposes: tokens were flowing (``yes``), were not (``no``), or nothing.
    ``text`` is a format string over the quantities.
    """

    name: str
    needs: tuple[Test, ...]
    unless: tuple[Test, ...] = ()
    tokens: Literal["yes", "no"] | None = None
    text: str = ""


@cache
def rules() -> tuple[Rule, ...]:
    """Every rule, in the order of the file; the first of a name that holds for a GPU is the one told."""
    return tuple(_rule(one) for one in _data()["conditions"])


def threshold(name: str) -> float:
    """A named number of the file: busy_utilization_pct, saturated_utilization_pct, min_busy_samples."""
    return float(_data()[name])


@cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(_DATA.read_text(encoding="utf-8"))
    return data


def _rule(row: Mapping[str, Any]) -> Rule:
    tests = {key: tuple(Test(*one) for one in row.get(key, ())) for key in ("needs", "unless")}
    return Rule(name=row["name"], tokens=row.get("tokens"), text=row["text"], **tests)
