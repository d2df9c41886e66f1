"""``nvidia-smi -q`` as text, whole or part by part (``-d``), once or repeated.

Owns the indented form. What the names mean is ingest.nvsmi's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ingest.formats import Format, Unreadable
from ingest.nvsmi import Machine, path_word
from ingest.sources import Source
from ingest.traces import line_count, telemetry_of, trace_reading
from kb.model import Problem, Reading

if TYPE_CHECKING:
    from ingest.samples import Samples

_MARK = "NVSMI LOG=="
_GPU = re.compile(r"^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]+)\s*$")
_PAIR = re.compile(r"^(\s*)(\S.*?)\s*:(?: (.*)|\s*)$")
_BODY = re.compile(
    r"^GPU [0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d\s*\n    \w[\w ]+?(?: {5,}: |\n {8})",
    re.MULTILINE,
)
_PROCESS_KEYS = {"process_id", "type", "name", "used_gpu_memory"}


def sniff(source: Source) -> float:
    """The report's own heading, or what stands below it where somebody cut it out."""
    at = source.head.find(_MARK)
    if at < 0:
        return 0.9 if _BODY.search(source.head[:4000]) else 0.0
    return 0.98 if source.head[:at].count("\n") <= 12 else 0.5


def read(source: Source) -> Reading:
    """Every report of the file."""
    reader = _Reports(source.samples)
    for number, line in source.lines():
        reader.take(number, line)
    reader.close()
    machine = reader.machine
    if not machine.seen and not machine.facts:
        raise Unreadable("the report names no driver and no GPU")
    found = telemetry_of(machine.cards.by_key.values(), first=machine.first, last=machine.last)
    return trace_reading(
        str(source.path),
        "nvidia_smi_q",
        found if machine.cards.rows else None,
        machine.hardware(found),
        tool="nvidia-smi",
        tool_version=machine.facts.get("driver"),
        lines=line_count(reader.lines, len(reader.problems)),
        problems=[*reader.problems[:20], *machine.health()[:20]],
        extra=reader.extra(),
    )


class _Reports:
    """State while reading lines: the open card, the open groups by indent, its fields so far."""

    def __init__(self, keep: Samples | None) -> None:
        self.machine = Machine(keep)
        self.problems: list[Problem] = []
        self.lines = 0
        self._above: dict[str, str] = {}
        self._bus: str | None = None
        self._groups: list[tuple[int, str]] = []
        self._fields: dict[str, str] = {}
        self._mig: dict[str, list[dict[str, str]]] = {}
        self._processes: dict[str, dict[str, Any]] = {}

    def take(self, number: int, line: str) -> None:
        """One line."""
        if not line.strip():
            return
        self.lines += 1
        if _MARK in line:
            self.close()
        elif card := _GPU.match(line):
            self._next_card(card[1])
        else:
            self._inside(number, line)

    def close(self) -> None:
        """The end of a report or of the file."""
        self._next_card(None)
        above, self._above = self._above, {}
        facts = {"driver": above.get("driver_version"), "cuda": above.get("cuda_version")}
        self.machine.told(above.get("timestamp"), facts, above.get("attached_gpus"))

    def extra(self) -> dict[str, Any]:
        """Details of each card, MIG devices and processes."""
        found: dict[str, Any] = {"cards": list(self.machine.kept.values())}
        if self._mig:
            found["mig_devices"] = [one for some in self._mig.values() for one in some]
        if self._processes:
            found["processes"] = list(self._processes.values())[:64]
        return found

    def _next_card(self, bus: str | None) -> None:
        if self._bus is not None and self._fields:
            self.machine.add(self._bus, self._fields)
        self._bus, self._fields, self._groups = bus, {}, []
        if bus is not None:
            self._mig.pop(bus, None)

    def _inside(self, number: int, line: str) -> None:
        pair = _PAIR.match(line)
        if self._bus is None:
            if pair and not pair[1]:
                self._above.setdefault(path_word(pair[2]), (pair[3] or "").strip())
            return
        indent = len(line) - len(line.lstrip())
        while self._groups and self._groups[-1][0] >= indent:
            self._groups.pop()
        if pair is None:
            self._groups.append((indent, path_word(line)))
            self._open(self._groups[-1][1])
        elif indent:
            self._keep(path_word(pair[2]), (pair[3] or "").strip(), indent)
        else:
            self.problems.append(
                Problem(line=number, what=f"does not belong to a card: {line.strip()[:120]}")
            )

    def _open(self, group: str) -> None:
        if group == "mig_device" and self._bus is not None:
            self._mig.setdefault(self._bus, []).append({"gpu": self._bus})

    def _keep(self, key: str, value: str, indent: int) -> None:
        groups = [word for _, word in self._groups]
        if groups[:1] == ["mig_device"] and self._bus in self._mig:
            self._mig[self._bus][-1]["/".join([*groups[1:], key])] = value
        elif "processes" in groups and key in _PROCESS_KEYS:
            self._process(key, value)
        else:
            self._fields.setdefault("/".join([*groups, key]), value)
        if key == "process_id":
            self._groups.append((indent, key))

    def _process(self, key: str, value: str) -> None:
        if key == "process_id":
            self._processes[f"{self._bus}/{value}"] = {"gpu": self._bus}
        if self._processes:
            list(self._processes.values())[-1][key] = value


FORMAT = Format(
    name="nvidia_smi_q",
    kind="trace",
    version=5,
    sniff=sniff,
    read=read,
    docs="Output of `nvidia-smi -q`, whole or in parts (`-d POWER,CLOCK`), of any driver, once or "
    "repeated: hardware, state of each card, reasons for lower clocks, MIG devices, processes.",
)
