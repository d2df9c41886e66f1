"""What a user will not go beyond (latency, speed for each user, power): how likely a pick keeps it.

Owns the chance of each limit. What nobody can tell is neither kept nor broken. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from kb.vocab.gpus import Gpu
from recommend.advice import Kept
from recommend.expect import Outlook
from recommend.physics import Load

Z90 = 1.645
# A limit that is surely broken leaves this chance, one that nothing is known of the other.
LEAST_CHANCE, UNKNOWN_CHANCE = 0.02, 0.5
# Below this chance a limit counts as broken.
BROKEN = 0.1
OPTIONS = {
    "ttft_ms": "--max-ttft-ms",
    "tpot_ms": "--max-tpot-ms",
    "tok_s_user": "--min-tok-s-user",
    "power_w": "--max-power-w",
}
_WORDS = {
    "ttft_ms": "at most {:g} ms to the first token",
    "tpot_ms": "at most {:g} ms per output token",
    "tok_s_user": "at least {:g} tokens/s for each user",
    "power_w": "at most {:g} W",
}


def kept(
    limits: Mapping[str, float], seen: Outlook, load: Load, gpu: Gpu | None, count: int | None
) -> tuple[Kept, ...]:
    """Each limit held against the outlook; power against what the boards may draw at most."""
    return tuple(
        _power(limit, gpu, count) if name == "power_w" else _speed(name, limit, seen, load)
        for name, limit in limits.items()
    )


def log_chance(found: Sequence[Kept]) -> float:
    """The sum of the logarithms of the chances: what limits take from a pick's worth."""
    chances = (UNKNOWN_CHANCE if one.chance is None else one.chance for one in found)
    return sum(math.log(max(chance, LEAST_CHANCE)) for chance in chances)


def _speed(name: str, limit: float, seen: Outlook, load: Load) -> Kept:
    metric = "tpot_ms" if name == "tok_s_user" else name
    one = seen.shown.get(metric)
    if one is not None:
        at_most = 1000 / limit if name == "tok_s_user" else limit
        value = 1000 / one.value if name == "tok_s_user" else one.value
        return Kept(name, limit, value, _below(at_most, one.value, one.low, one.high))
    whole = seen.shown.get("output_tok_s")
    if name == "tok_s_user" and whole is not None:
        users = load.concurrency
        chance = 1 - _below(limit * users, whole.value, whole.low, whole.high)
        return Kept(name, limit, whole.value / users, chance)
    return Kept(name, limit, None, None)


def _below(bound: float, value: float, low: float, high: float) -> float:
    """The chance of a log-normal value with this 90 % interval to lie below a bound."""
    deviation = max(math.log(high / low) / (2 * Z90), 1e-6) if low > 0 and math.isfinite(high) else 0.5
    return (1 + math.erf(math.log(bound / value) / deviation / math.sqrt(2))) / 2


def _power(limit: float, gpu: Gpu | None, count: int | None) -> Kept:
    if gpu is None or gpu.power_w is None or count is None:
        return Kept("power_w", limit, None, None)
    most = gpu.power_w * count
    return Kept("power_w", limit, most, 1.0 if most <= limit else 0.0)


def words(one: Kept) -> str:
    """A limit and its chance for people."""
    asked = _WORDS[one.metric].format(one.limit)
    if one.chance is None or one.value is None:
        return f"{asked}: unknown, nothing tells"
    if one.metric == "power_w":
        return f"{asked}: the boards may draw {one.value:g} W together"
    return f"{asked}: {one.chance:.0%} likely"


def advice(picks: Sequence[Sequence[Kept]], gpu: Gpu | None, count: int | None) -> Iterator[str]:
    """What to change where no pick is likely to keep a limit."""
    for name, option in OPTIONS.items():
        found = [one for limits in picks for one in limits if one.metric == name]
        if not found or any(one.chance is None or one.chance >= BROKEN for one in found):
            continue
        if name != "power_w":
            asked = f"{option} {found[0].limit:g}"
            yield f"No pick is likely to keep {asked}: try fewer requests in flight or more GPUs."
        elif gpu is not None and count:
            cap = found[0].limit / count
            yield (
                f"{count} boards draw up to {found[0].value:g} W: keep {option} {found[0].limit:g} by a cap "
                f"of {cap:.0f} W each (nvidia-smi -pl {cap:.0f}), slower than this, or take fewer."
            )
