"""Quantities of a trace that no single GPU reaches: another unit than the name says, or a sum over cards.

Owns the limits. What lies beyond is left out and told, never converted: by size alone a unit is not known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kb.model import GpuTrace, Problem

# Generous beside what is sold: a limit is here to catch a factor of a thousand.
_LIMITS = {
    "power_w": 5000.0,
    "power_limit_w": 5000.0,
    "temperature_c": 200.0,
    "memory_temperature_c": 200.0,
    "utilization_pct": 150.0,
    "sm_clock_mhz": 20_000.0,
    "memory_clock_mhz": 60_000.0,
}


def within_reach(gpus: Iterable[GpuTrace]) -> tuple[tuple[GpuTrace, ...], list[Problem]]:
    """The cards without what none can reach, and a problem per quantity that was left out."""
    kept, beyond = list[GpuTrace](), dict[str, float]()
    for gpu in gpus:
        mine = {name for name, limit in _LIMITS.items() if gpu.metrics.get(name, {}).get("max", 0.0) > limit}
        for name in mine:
            beyond[name] = max(beyond.get(name, 0.0), gpu.metrics[name]["max"])
        kept.append(_without(gpu, mine) if mine else gpu)
    what = "{} reaches {:,.0f}, more than one GPU does: another unit, or a sum over cards; it was left out"
    return tuple(kept), [Problem(line=None, what=what.format(*one)) for one in beyond.items()]


def _without(gpu: GpuTrace, names: set[str]) -> GpuTrace:
    gone = names | ({"idle_power_w"} if "power_w" in names else set())
    return replace(
        gpu,
        metrics={name: stats for name, stats in gpu.metrics.items() if name not in names},
        busy={name: value for name, value in gpu.busy.items() if name not in gone},
    )
