"""What ``nvidia-smi -q`` says of one card, as text or as XML: one tree of names, so one table reads both.

Owns the paths (lower case, ``_`` for blanks, joined by ``/``) and their metrics. Must not parse either form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ingest.gpu_csv import to_number
from ingest.machine import known
from ingest.tally import Cards
from ingest.traces import hardware_of
from kb.model import Hardware, Problem, Telemetry

if TYPE_CHECKING:
    from ingest.samples import Samples

_POWER = ("gpu_power_readings", "power_readings")
_METRICS: Mapping[str, tuple[str, ...]] = {
    "memory_total_mib": ("fb_memory_usage/total",),
    "memory_used_mib": ("fb_memory_usage/used",),
    "memory_free_mib": ("fb_memory_usage/free",),
    "memory_reserved_mib": ("fb_memory_usage/reserved",),
    "utilization_pct": ("utilization/gpu_util", "utilization/gpu"),
    "memory_utilization_pct": ("utilization/memory_util", "utilization/memory"),
    "temperature_c": ("temperature/gpu_temp", "temperature/gpu_current_temp", "temperature/gpu"),
    "memory_temperature_c": (
        "temperature/memory_temp",
        "temperature/memory_current_temp",
        "temperature/memory",
    ),
    "power_w": tuple(
        f"{group}/{name}"
        for group in _POWER
        for name in ("power_draw", "average_power_draw", "instantaneous_power_draw", "instant_power_draw")
    ),
    "power_limit_w": tuple(
        f"{group}/{name}"
        for group in _POWER
        for name in ("current_power_limit", "power_limit", "enforced_power_limit")
    ),
    "sm_clock_mhz": ("clocks/sm_clock", "clocks/sm"),
    "memory_clock_mhz": ("clocks/mem_clock", "clocks/memory"),
    "sm_clock_max_mhz": ("max_clocks/sm_clock", "max_clocks/sm"),
    "fan_pct": ("fan_speed",),
}
_REASON = re.compile(
    r"clocks_(?:event|throttle)_reasons/(?:\w+/)?(?:clocks_(?:event|throttle)_reason_)?(\w+)$"
)
_LONGEST = 5
_KEPT = (
    "product_architecture", "product_brand", "performance_state", "mig_mode/current", "mig_mode/current_mig",
    "addressing_mode", "persistence_mode", "vbios_version", "compute_mode", "gpu_recovery_action",
    "fabric/state", "ecc_mode/current_ecc", "ecc_mode/current",
)  # fmt: skip

# What a card says of its own health: where, the word that is bad news (None: any), and what it means.
_HEALTH: tuple[tuple[tuple[str, ...], str | None, str], ...] = (
    (
        (
            "retired_pages/pending_page_blacklist",
            "retired_pages/pending_blacklist",
            "retired_pages/pending_retirement",
        ),
        "Yes",
        "memory pages with errors wait to be retired; they are at the next reset of the GPU",
    ),
    (
        ("remapped_rows/pending", "remapped_rows/remapped_row_pending"),
        "Yes",
        "memory rows with errors wait to be remapped; they are at the next reset of the GPU",
    ),
    (
        ("remapped_rows/remapping_failure_occurred", "remapped_rows/remapped_row_failure"),
        "Yes",
        "memory rows with errors could not be remapped: the card is to be replaced",
    ),
    (("fabric/state",), "In Progress", "the NVLink fabric is not up, so CUDA does not start on it"),
    (("gpu_recovery_action",), None, "the driver asks for recovery"),
)


def path_word(name: str) -> str:
    """A name of the text form as a path element of the XML form (``GPU Power Readings`` ->
    ``gpu_power_readings``).
    """
    return re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")


class Machine:
    """Cards of one or more ``-q`` reports and the facts around them."""

    def __init__(self, keep: Samples | None) -> None:
        self.cards = Cards(keep)
        self.seen: set[str] = set()
        self.facts: dict[str, str] = {}
        self.kept: dict[str, dict[str, Any]] = {}
        self.attached: int | None = None
        self._health: dict[str, None] = {}
        self.first = self.last = ""
        self._open: list[tuple[str, Mapping[str, str]]] = []

    def add(self, bus: str, fields: Mapping[str, str]) -> None:
        """One card of the report that is being read: path -> value as printed."""
        self.seen.add(bus)
        self._open.append((bus, fields))

    def told(self, stamp: str | None, facts: Mapping[str, str | None], attached: str | None) -> None:
        """The end of a report, and what stands above its cards: time, driver, CUDA, how many there are."""
        self.last = known(stamp) or self.last
        self.first = self.first or self.last
        self.facts |= {key: word for key, value in facts.items() if (word := known(value))}
        # Cards are listed by index; of a choice of them (-i) only their minor numbers are told.
        there = int(attached) if attached and attached.isdecimal() and len(attached) < _LONGEST else None
        self.attached = there or self.attached
        is_whole = there is None or there <= len(self._open)
        for at, (bus, fields) in enumerate(self._open):
            minor = fields.get("minor_number", "")
            index = at if is_whole else int(minor) if minor.isdecimal() else None
            self._take(index, bus, fields, known(stamp) or "")
        self._open = []

    def _take(self, index: int | None, bus: str, fields: Mapping[str, str], at: str) -> None:
        sample = {metric: _first_number(fields, paths, metric) for metric, paths in _METRICS.items()}
        name = known(fields.get("product_name"))
        uuid = known(fields.get("uuid") or fields.get("gpu_uuid"))
        self.cards.add(bus, sample, _reasons(fields), at=at, index=index, name=name, uuid=uuid)
        self.kept[bus] = {"bus_id": bus} | _details(fields)
        self._health |= dict.fromkeys(f"GPU {bus}: {what}" for what in _trouble(fields))

    def hardware(self, found: Telemetry) -> Hardware:
        """What reports tell of the machine; they count its cards even where they show some of them."""
        told = hardware_of(found, **self.facts)
        return told._replace(count=self.attached) if self.attached else told

    def health(self) -> list[Problem]:
        """What cards say is wrong with them, each once."""
        return [Problem(line=None, what=what) for what in self._health]


def _trouble(fields: Mapping[str, str]) -> Iterator[str]:
    for paths, bad, meaning in _HEALTH:
        words = [word for path in paths if (word := known(fields.get(path)))]
        if bad in words:
            yield meaning
        elif bad is None and words:
            yield f"{meaning}: {words[0][:60]}"


def _first_number(fields: Mapping[str, str], paths: tuple[str, ...], metric: str) -> float | None:
    for path in paths:
        value = to_number(fields.get(path, ""), metric)
        if value is not None:
            return value
    return None


def _reasons(fields: Mapping[str, str]) -> dict[str, int]:
    found = {}
    for path, value in fields.items():
        named = _REASON.search(path)
        if named and value in ("Active", "Not Active"):
            found[_SAME.get(named[1], named[1])] = int(value == "Active")
    return found


_SAME = {"idle": "gpu_idle", "display_clocks_setting": "display_clock_setting"}


def _details(fields: Mapping[str, str]) -> dict[str, Any]:
    return {path: word for path in _KEPT if (word := known(fields.get(path)))}
