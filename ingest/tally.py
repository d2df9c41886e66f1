"""Samples of GPUs, added one by one or in columns, to a summary per GPU with flat memory.

Owns the statistics of a trace: smallest, mean, median, largest, apart for samples under load and the
rest, and the shares of throttle reasons. Must not know any file format, nor judge (ingest/telemetry.py does).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import mul
from typing import TYPE_CHECKING, Any

from ingest.gpu_columns import Column
from kb.model import GpuTrace
from kb.vocab.conditions import threshold

if TYPE_CHECKING:
    from ingest.samples import Samples
    from kb.store.tallies import Tally

BUSY_UTILIZATION_PCT = threshold("busy_utilization_pct")
_SATURATED_PCT = threshold("saturated_utilization_pct")
HUGE = 2147483632.0  # from here on, numbers that tools print for "no value"
_BINS = 4096
REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
# A number without unit: (metric, larger than this cannot be our unit, so it is this metric, factor).
OUT_OF_SCALE = (
    ("memory_utilization_pct", 150.0, "memory_used_mib", 1.0),
    ("memory_used_mib", 2.0**24, "memory_used_mib", 2.0**-20),
    ("memory_total_mib", 2.0**24, "memory_total_mib", 2.0**-20),
    ("memory_free_mib", 2.0**24, "memory_free_mib", 2.0**-20),
    ("power_w", 20000.0, "power_w", 1e-3),
    ("power_limit_w", 20000.0, "power_limit_w", 1e-3),
    ("sm_clock_mhz", 1e6, "sm_clock_mhz", 1e-6),
    ("memory_clock_mhz", 1e6, "memory_clock_mhz", 1e-6),
    ("temperature_c", 1000.0, "temperature_c", 1e-3),
    ("sm_active_pct", 150.0, "sm_active_pct", 1e-2),
    ("tensor_active_pct", 150.0, "tensor_active_pct", 1e-2),
    ("dram_active_pct", 150.0, "dram_active_pct", 1e-2),
    ("graphics_active_pct", 150.0, "graphics_active_pct", 1e-2),
)


class Histogram:
    """How often each value came: exact count, sum, ends; the median to about three digits at most coarse."""

    def __init__(self) -> None:
        self.counts: Counter[float] = Counter()
        self.n, self.total = 0, 0.0
        self.low, self.high = float("inf"), float("-inf")

    def add(self, values: Mapping[float, int]) -> None:
        """Count values (finite numbers), each with how often it came."""
        if not values:
            return
        self.n += sum(values.values())
        self.total += sum(map(mul, values, values.values()))
        self.low, self.high = min((self.low, *values)), max((self.high, *values))
        self._count(values)

    @classmethod
    def of(cls, told: Tally) -> Histogram:
        """Values that were counted elsewhere, with their exact sum and ends."""
        new = cls()
        if not told.sums.n:
            return new
        _, new.n, new.total, new.low, new.high = told.sums
        new.counts = Counter(dict(zip(told.values, told.times, strict=True)))
        return new

    def absorb(self, other: Histogram) -> None:
        """Add another's values; sum and ends stay exact."""
        self.n, self.total = self.n + other.n, self.total + other.total
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self._count(other.counts)

    def merged(self, other: Histogram) -> Histogram:
        """Both together, as a new one."""
        both = Histogram()
        both.absorb(self)
        both.absorb(other)
        return both

    def scaled(self, factor: float) -> Histogram:
        """The same in another unit."""
        new = Histogram()
        new.add({value * factor: times for value, times in self.counts.items()})
        return new

    def stats(self) -> dict[str, float]:
        """min, mean, p50, max; empty without samples."""
        if not self.n:
            return {}
        return {
            "min": _short(self.low),
            "mean": _short(self.total / self.n),
            "p50": _short(self._median()),
            "max": _short(self.high),
        }

    def share_at_least(self, limit: float) -> float:
        """Share (0..1) of samples at or above ``limit``; 0 without samples."""
        hits = sum(times for value, times in self.counts.items() if value >= limit)
        return hits / max(self.counts.total(), 1)

    def _median(self) -> float:
        seen, values, counted = 0, sorted(self.counts), self.counts.total()
        for value in values:
            seen += self.counts[value]
            if 2 * seen >= counted:
                return value
        return values[-1]

    def _count(self, values: Mapping[float, int]) -> None:
        self.counts.update(values)
        if len(self.counts) > _BINS:
            self._coarsen()

    def _coarsen(self) -> None:
        step = max((self.high - self.low) / (_BINS / 4), 1e-9)
        coarse: Counter[float] = Counter()
        for value, times in self.counts.items():
            coarse[round(value / step) * step] += times
        self.counts = coarse


@dataclass(slots=True)
class GpuTally:
    """Samples of one GPU. ``parts[True]`` holds those under load, ``parts[False]`` the rest."""

    index: int | None = None
    name: str | None = None
    uuid: str | None = None
    rows: Counter[bool] = field(default_factory=Counter)
    parts: dict[bool, dict[str, Histogram]] = field(default_factory=lambda: {True: {}, False: {}})
    reasons: dict[bool, Counter[str]] = field(default_factory=lambda: {True: Counter(), False: Counter()})
    vague: set[str] = field(default_factory=set)

    def absorb(self, other: GpuTally) -> None:
        """Add another's samples; who it is, stays."""
        for busy in (True, False):
            self.rows[busy] += other.rows[busy]
            self.count_reasons(busy, other.reasons[busy])
            for metric, part in other.parts[busy].items():
                self.parts[busy].setdefault(metric, Histogram()).absorb(part)

    def add(self, sample: Mapping[str, float], reasons: Mapping[str, int]) -> None:
        """One sample: metric -> value in our units; throttle reason -> 1 if active in it, 0 if not."""
        busy = sample.get("utilization_pct", 0.0) >= BUSY_UTILIZATION_PCT
        self.rows[busy] += 1
        for metric, value in sample.items():
            self.count(busy, metric, {value: 1})
        self.count_reasons(busy, reasons)

    def count(self, busy: bool, metric: str, values: Mapping[float, int]) -> None:
        """Samples of one metric, value -> how often; the caller counts rows itself."""
        part = self.parts[busy]
        if metric not in part:
            part[metric] = Histogram()
        part[metric].add(values)

    def take(self, told: Tally) -> None:
        """Samples that were counted elsewhere (kb/store/tallies.py)."""
        if told.metric == "utilization_pct":
            self.rows[told.busy] += told.sums.rows
        if told.metric == "throttle":
            for mask, times in zip(told.values, told.times, strict=True):
                self.count_reasons(told.busy, dict.fromkeys(reasons_of_mask(int(mask)), times))
        elif told.sums.n or told.metric == "utilization_pct":
            self.parts[told.busy].setdefault(told.metric, Histogram()).absorb(Histogram.of(told))

    def count_reasons(self, busy: bool, times: Mapping[str, int]) -> None:
        """Throttle reasons -> samples that showed them; a reason with 0 is known to be absent."""
        for reason, n in times.items():
            self.reasons[busy][reason] += n

    def result(self) -> GpuTrace:
        """The summary of this GPU."""
        self._rescale()
        total = self.rows.total()
        reasons = Counter(self.reasons[True])
        reasons.update(self.reasons[False])
        return GpuTrace(
            index=self.index,
            name=self.name,
            uuid=self.uuid,
            samples=total,
            metrics={metric: one.stats() for metric, one in self._whole().items() if one.n},
            throttle={reason: round(times / total, 4) for reason, times in sorted(reasons.items())},
            busy=self._busy(),
        )

    def _whole(self) -> dict[str, Histogram]:
        busy, idle, empty = self.parts[True], self.parts[False], Histogram()
        names = dict.fromkeys((*busy, *idle))
        return {name: busy.get(name, empty).merged(idle.get(name, empty)) for name in names}

    def _busy(self) -> dict[str, float]:
        part, rows, whole = self.parts[True], self.rows[True], self.rows.total()
        if not whole or "utilization_pct" not in (self.parts[True] | self.parts[False]):
            return {}
        found = {"samples": float(rows), "share": round(rows / whole, 4)}
        found |= {metric: _short(one.total / one.n) for metric, one in part.items() if one.n}
        if rows:
            found["saturated_share"] = round(part["utilization_pct"].share_at_least(_SATURATED_PCT), 4)
            found |= {f"throttle:{why}": round(n / rows, 4) for why, n in self.reasons[True].items()}
        return found | self._idle()

    def _idle(self) -> dict[str, float]:
        part = self.parts[False]
        clock, power = part.get("sm_clock_mhz"), part.get("power_w")
        top = self._top_clock()
        found = {}
        if clock and clock.n and top:
            found["idle_full_clock_share"] = round(clock.share_at_least(0.9 * top), 4)
        if power and power.n:
            found["idle_power_w"] = _short(power.total / power.n)
        return found

    def _top_clock(self) -> float:
        """The largest clock the card can run at, or the largest seen where it was seen to vary; else 0."""
        said = [one["sm_clock_max_mhz"].high for one in self.parts.values() if "sm_clock_max_mhz" in one]
        if said:
            return max(said)
        seen = [one["sm_clock_mhz"] for one in self.parts.values() if "sm_clock_mhz" in one]
        high, low = max((one.high for one in seen), default=0.0), min((one.low for one in seen), default=0.0)
        return high if high > 1.5 * low else 0.0

    def _rescale(self) -> None:
        for metric, limit, meant, factor in OUT_OF_SCALE:
            high = max((one[metric].high for one in self.parts.values() if metric in one), default=0.0)
            if metric in self.vague and high > limit:
                for part in self.parts.values():
                    if metric in part:
                        part[meant] = part.pop(metric).scaled(factor)


def mask_of(text: str) -> int | None:
    """The bits in ``clocks_event_reasons.active`` (``0x0000000000000005``); None where it holds no number."""
    try:
        return int(text.strip(), 0)
    except ValueError:
        return None


def reasons_of_mask(mask: int | None) -> tuple[str, ...]:
    """The names of the reasons whose bits are set."""
    return tuple(name for bit, name in REASONS.items() if mask and mask & bit)


def bit_of(role: str) -> int:
    """The bit of the reason in ``throttle:<reason>``; 0 where it has none."""
    return next((bit for bit, name in REASONS.items() if role == f"throttle:{name}"), 0)


def reasons_in(role: str, cells: Mapping[str, int]) -> Counter[str]:
    """How often each reason was active in a column whose cells came so often."""
    if role == "throttle_mask":
        shares: Counter[str] = Counter()
        for cell, times in cells.items():
            shares.update(dict.fromkeys(reasons_of_mask(mask_of(cell)), times))
        return shares
    active = sum(times for cell, times in cells.items() if cell.strip() == "Active")
    return Counter({role.removeprefix("throttle:"): active})


def masks_of(role: str, cells: Sequence[str]) -> list[int | None]:
    """The reasons that each cell of a column shows, as bits."""
    if role != "throttle_mask":
        bits = {"Active": bit_of(role), "Not Active": 0}
        return [bits.get(cell.strip()) for cell in cells]
    known = {cell: mask_of(cell) for cell in set(cells)}
    return [known[cell] for cell in cells]


def vague_roles(columns: Iterable[Column]) -> set[str]:
    """Metrics whose column names no unit: their scale is judged by their size."""
    return {one.role for one in columns if one.is_metric and not one.unit}


def _short(value: float) -> float:
    return round(value, 3)


class Cards:
    """Tallies by card, for formats that tell one sample of one card at a time; ``keep`` gets every sample."""

    def __init__(self, keep: Samples | None) -> None:
        self.by_key: dict[str, GpuTally] = {}
        self.rows = 0
        self._keep = keep

    def add(
        self,
        key: str,
        sample: Mapping[str, float | None],
        reasons: Mapping[str, int] | None = None,
        at: str = "",
        **who: Any,
    ) -> None:
        """One sample of one card; ``who`` are its index, name, uuid; reasons map to 1 (active) or 0.

        ``at`` is its time as printed, or "" where only their order is known.
        """
        tally = self.by_key.get(key)
        if tally is None:
            tally = self.by_key[key] = GpuTally(**who)
        self.rows += 1
        known = {metric: value for metric, value in sample.items() if value is not None}
        tally.add(known, reasons or {})
        if self._keep is not None:
            mask = sum(bit_of(f"throttle:{why}") for why, active in (reasons or {}).items() if active)
            card = tally.index, None if tally.index is not None else tally.uuid or key
            masks = [[mask]] if reasons is not None else []
            self._keep.add([at], [card], {name: [value] for name, value in known.items()}, masks, known)
