"""An ordered plan of tries for the hours there are, and a rule for when to stop.

Owns the order: gain × chance per minute, as if each forecast came true. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from recommend import policy
from recommend.advice import Pick

# Below this expected improvement (times chance) another try is not worth its minutes.
LEAST_GAIN = 0.02
Z90 = 1.645


class Step(NamedTuple):
    """One try: which pick (1-based), minutes so far, what it is for, and what it may gain (fraction)."""

    pick: int
    minutes: float
    purpose: str
    gain: float | None


class Plan(NamedTuple):
    """The steps that fit into the hours, and when to stop earlier."""

    hours: float
    steps: tuple[Step, ...]
    stop: str


def plan(picks: Sequence[Pick], hours: float) -> Plan:
    """The picks in the order in which they are worth a try, as long as time and hope last."""
    choices = [_parts(pick) for pick in picks]
    priors = [_prior(pick) for pick in picks]
    seen: list[policy.Seen] = []
    steps: list[Step] = []
    minutes = 0.0
    left = 0.0
    while len(seen) < len(picks):
        index, left = _next(choices, priors, seen, picks)
        if index is None or (seen and left < LEAST_GAIN):
            break
        minutes += picks[index].cost_min
        if minutes > hours * 60:
            break
        steps.append(Step(index + 1, minutes, _purpose(picks[index], first=not seen), left if seen else None))
        seen.append(policy.Seen(at=index, log_value=priors[index].mean))
    stop = f"Stop when a try gains less than {LEAST_GAIN:.0%}: further tries are unlikely to gain more."
    return Plan(hours, tuple(steps), stop)


def _next(
    choices: Sequence[policy.Choice],
    priors: Sequence[policy.Prior],
    seen: Sequence[policy.Seen],
    picks: Sequence[Pick],
) -> tuple[int | None, float]:
    """The try with the most expected gain per minute, and that gain; the first pick before all others."""
    if not seen:
        return (0 if picks else None), 0.0
    tried = {one.at for one in seen}
    left = [index for index in range(len(picks)) if index not in tried]
    after = policy.posterior(choices, priors, seen, left)
    best = max(one.log_value for one in seen if one.log_value is not None)
    gains = {index: policy.gain(after[index], best) for index in left}
    index = max(left, key=lambda one: (gains[one] / picks[one].cost_min, -one), default=None)
    return index, gains[index] if index is not None else 0.0


def _parts(pick: Pick) -> dict[str, policy.Value]:
    return {
        "engine": pick.engine,
        **dict(pick.roles),
        **{key: str(value) for key, value in pick.settings.items()},
    }


def _prior(pick: Pick) -> policy.Prior:
    one = pick.predicted
    if one is None:
        return policy.Prior(mean=0.0, deviation=0.3, works=pick.p_works)
    deviation = max(math.log(one.high / one.low) / (2 * Z90), 0.02)
    return policy.Prior(mean=math.log(one.value), deviation=deviation, works=pick.p_works)


def _purpose(pick: Pick, *, first: bool) -> str:
    if first:
        return "the baseline: everything else is compared with it"
    if pick.teaches:
        return f"to learn {pick.teaches}"
    disputed = any(one.text.startswith("Disputed") for one in pick.why)
    return "disputed; this would settle it here" if disputed else "an alternative that works elsewhere"


def lines(made: Plan, picks: Sequence[Pick]) -> Iterator[str]:
    """The plan for people."""
    for number, step in enumerate(made.steps, 1):
        pick = picks[step.pick - 1]
        gain = f", may gain {step.gain:.0%}" if step.gain is not None else ""
        where = f"pick {step.pick} ({pick.engine}), by minute {step.minutes:.0f}{gain}"
        yield f"{number}. {where}: {step.purpose}"
    yield made.stop


def to_wire(made: Plan) -> dict[str, Any]:
    """The plan as JSON."""
    steps = [step._asdict() for step in made.steps]
    return {"hours": made.hours, "steps": steps, "stop": made.stop}
