"""Units of latencies whose labels state none: decided by the size of the values of a whole table.

Owns that decision and what is said of it. Must not place cells, and must not know any file format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ingest.bench import cells
from ingest.bench.places import place
from ingest.bench.quantities import Quantity, labels, understand


def _is_core(label: str) -> bool:
    told = understand(label)
    return told is not None and told.name.startswith(("ttft", "tpot", "itl", "e2e"))


def _is_first(label: str) -> bool:
    told = understand(label)
    return told is not None and told.name.startswith("ttft")


def _is_brief(seen: Iterable[float]) -> bool:
    """Whether the least of some times to the first token is too short for milliseconds over any network."""
    return 0 < min((one for one in seen if one > 0), default=0) < 1


def _limits(label: str) -> tuple[float, float]:
    """(least that can be milliseconds, most that can be seconds) for a latency, at the median."""
    quantity = understand(label)
    name = quantity.name if quantity else ""
    if name.startswith(("tpot", "itl", "icl", "ntpot")):
        return 0.5, 1.0
    return (20.0, 600.0) if name.startswith("e2e") else (2.0, 30.0)


def _timed_with_answers(records: Iterable[Mapping[str, Any]]) -> set[str]:
    """First tokens within the seconds of their one answer, where its tokens and its rate prove those."""
    within, over = set[str](), set[str]()
    for record in records:
        seconds = _seconds_of_one(record)
        for label, raw in record.items() if seconds else ():
            first = cells.number(raw) if isinstance(label, str) and _is_first(label) else None
            if first is not None:
                (within if first <= seconds else over).add(label)
    return within - over


def _seconds_of_one(record: Mapping[str, Any]) -> float:
    """The time of one answer: its tokens over it give the rate that stands beside them; else nothing."""
    took, made, rates = 0.0, 0.0, []
    for label, raw in record.items():
        told, value = understand(str(label)), cells.number(raw)
        if value and told and told.name == "duration_s":
            took = value * told.factor
        elif value and place(str(label)) == ("workload", "output_len"):
            made = value
        elif value and told and told.name.endswith("tok_s"):
            rates.append(value)
    return took if took and made and any(abs(made / took / one - 1) < _NEAR for one in rates) else 0.0


_NEAR = 0.02
_FACTORS: dict[str, float] = labels("time_units")
_MINUTES = 60e3
_OWN = re.compile(rf"(?:{'|'.join(sorted(_FACTORS, key=len, reverse=True))}|mins?)\b")  # of a cell
_ABSURD = 10  # times what a median may be in seconds: minutes to the first token


@dataclass(slots=True)
class Units:
    """Units of labels that state none, decided once for a whole table by the size of its values.

    A latency that is too long to be seconds makes its whole table milliseconds, except for columns that are
    too short for that. What was decided is said in ``notes``.
    """

    decided: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]]) -> Units:
        """Decide for every unitless latency label of some records."""
        records = list(records)
        values: dict[str, list[float]] = {}
        for record in records:
            for label, raw in record.items():
                quantity = understand(label) if isinstance(label, str) else None
                cell = cells.read_cell(raw) if quantity and not quantity.unit_stated else None
                if cell is not None and not isinstance(raw, bool) and not _OWN.match(cell.rest):
                    values.setdefault(label, []).append(cell.value)
        units = cls()
        middles = {label: sorted(seen)[len(seen) // 2] for label, seen in values.items()}
        core = {label: middle for label, middle in middles.items() if _is_core(label)}
        long = {label: max(seen) >= _ABSURD * _limits(label)[1] for label, seen in values.items()}
        brief = {
            label
            for label, seen in values.items()
            if _is_first(label) and _is_brief(seen) and not long[label]
        }
        firsts = {label for label in core if _is_first(label)}
        if brief or firsts & _timed_with_answers(records):  # statistics of one measure share its unit
            brief |= firsts
        any_ms = any(
            (middle >= _limits(label)[1] and label not in brief) or long[label]
            for label, middle in (core or middles).items()
        )
        for label, middle in middles.items():
            least, most = _limits(label)
            if label in brief:
                units._decide(label, middle, is_ms=False)
                continue
            if core and label not in core:  # a sum over requests may be of any size
                units._decide(label, middle, any_ms)
                continue
            units._decide(
                label, middle, middle >= most or long[label] or (any_ms and (middle >= least or middle == 0))
            )
        return units

    def _decide(self, label: str, middle: float, is_ms: bool) -> None:
        self.decided[label] = 1.0 if is_ms else 1e3
        unit = "milliseconds" if is_ms else "seconds"
        self.notes.append(f"{label!r} states no unit; read as {unit} (median {middle:g})")

    def factor(self, label: str, quantity: Quantity, cell: cells.Cell) -> float:
        """The factor for one cell: its own unit, else the label's, else what was decided."""
        own = _OWN.match(cell.rest) if quantity.name.rpartition("_ms_")[1] else None
        if own:
            return _MINUTES if own[0].startswith("min") else _FACTORS[own[0]]
        if quantity.unit_stated:
            return quantity.factor
        return self.decided.get(label, quantity.factor)
