"""What a trace shows: named states of the GPUs, by the rules in kb/vocab/conditions.json.

Owns the quantities that the rules speak about. Must not hold a threshold, and must not read traces.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from kb.model import Condition, GpuTrace, Telemetry
from kb.vocab.conditions import Rule, rules, threshold

_HEAT = ("hw_thermal_slowdown", "sw_thermal_slowdown")
_POWER = ("sw_power_cap", "hw_power_brake_slowdown")


def diagnose_trace(
    telemetry: Telemetry,
    tokens_flowing: bool | None = None,
    power_limit_w: float | None = None,
) -> tuple[Condition, ...]:
    """The states that the GPUs of a trace show, strongest rules first, one of a name per GPU.

    ``tokens_flowing`` is whether the server produced tokens meanwhile (None: unknown, and the text says so);
    ``power_limit_w`` stands in for a trace without a limit. Shares are of the samples under load, not of
    the idle head and tail.
    """
    found: list[Condition] = []
    for gpu in telemetry.gpus:
        values = quantities(gpu, telemetry.gpus, power_limit_w)
        names: set[str] = set()
        for rule in rules():
            if rule.name not in names and _holds(rule, values, tokens_flowing):
                names.add(rule.name)
                found.append(_condition(rule, gpu, values, tokens_flowing))
    return tuple(found)


def quantities(
    gpu: GpuTrace, all_gpus: tuple[GpuTrace, ...], power_limit_w: float | None = None
) -> dict[str, float]:
    """What the rules can ask about one GPU; a quantity that the trace cannot tell is absent."""
    values: dict[str, float] = {}
    if gpu.busy:
        values["busy_share_pct"] = 100 * gpu.busy.get("share", 0.0)
    for key in ("idle_full_clock_share", "saturated_share"):
        if key in gpu.busy:
            values[f"{key}_pct"] = 100 * gpu.busy[key]
    if "idle_power_w" in gpu.busy:
        values["idle_power_w"] = gpu.busy["idle_power_w"]
    _add_share(values, "memory_share_pct", _stat(gpu, "memory_used_mib"), _stat(gpu, "memory_total_mib"))
    if gpu.busy.get("samples", 0.0) >= min(threshold("min_busy_samples"), gpu.samples):
        values |= _under_load(gpu, power_limit_w) | _beside_peers(gpu, all_gpus)
    else:
        values.pop("saturated_share_pct", None)
    return values


def _under_load(gpu: GpuTrace, power_limit_w: float | None) -> dict[str, float]:
    busy, values = gpu.busy, {}
    if "power_w" in busy:
        values["power_w"] = busy["power_w"]
        limit = _stat(gpu, "power_limit_w") or _stat(gpu, "power_enforced_limit_w") or power_limit_w
        _add_share(values, "power_share_pct", busy["power_w"], limit)
    top = _stat(gpu, "sm_clock_max_mhz") or _stat(gpu, "sm_clock_mhz")
    _add_share(values, "clock_share_pct", busy.get("sm_clock_mhz"), top)
    heat, power = (sum(busy.get(f"throttle:{why}", 0.0) for why in whys) for whys in (_HEAT, _POWER))
    if gpu.throttle:
        values |= {"thermal_share_pct": 100 * min(heat, 1), "power_cap_share_pct": 100 * min(power, 1)}
        values["throttle_share_pct"] = 100 * min(heat + power, 1)
    if "thermal_violation" in busy:
        values["thermal_share_pct"] = 100 * max(busy["thermal_violation"], heat)
    if "power_violation_pct" in busy:
        values["power_cap_share_pct"] = max(busy["power_violation_pct"], 100 * power)
    return values


def _beside_peers(gpu: GpuTrace, all_gpus: tuple[GpuTrace, ...]) -> dict[str, float]:
    peers = [one for one in all_gpus if one is not gpu and one.busy.get("samples")]
    values: dict[str, float] = {}
    clocks = [one.busy["sm_clock_mhz"] for one in peers if "sm_clock_mhz" in one.busy]
    if clocks and "sm_clock_mhz" in gpu.busy:
        _add_share(values, "clock_of_peers_pct", gpu.busy["sm_clock_mhz"], median(clocks))
    loads = [one.busy["utilization_pct"] for one in peers if "utilization_pct" in one.busy]
    if loads and "utilization_pct" in gpu.busy:
        values["utilization_of_peers_points"] = gpu.busy["utilization_pct"] - median(loads)
    return values


def _holds(rule: Rule, values: Mapping[str, float], tokens_flowing: bool | None) -> bool:
    if rule.tokens and tokens_flowing is not None and (rule.tokens == "yes") != tokens_flowing:
        return False
    return all(test.holds(values) for test in rule.needs) and not any(
        test.holds(values) for test in rule.unless
    )


def _condition(
    rule: Rule, gpu: GpuTrace, values: Mapping[str, float], tokens_flowing: bool | None
) -> Condition:
    text = rule.text.format_map(_Known(values))
    if rule.tokens and tokens_flowing is None:
        wanted = "flowed" if rule.tokens == "yes" else "did not flow"
        text += f" (Holds if tokens {wanted} meanwhile, which this trace does not tell.)"
    asked = {test.quantity for test in (*rule.needs, *rule.unless)}
    kept = {key: round(value, 2) for key, value in values.items() if key in asked or key == "power_w"}
    return Condition(name=rule.name, gpu=gpu.index, text=text, values=kept)


class _Known(dict[str, float]):
    def __missing__(self, key: str) -> float:
        return float("nan")


def _stat(gpu: GpuTrace, metric: str, stat: str = "max") -> float | None:
    return gpu.metrics.get(metric, {}).get(stat)


def _add_share(values: dict[str, float], name: str, part: float | None, whole: float | None) -> None:
    if part is not None and whole:
        values[name] = 100 * part / whole
