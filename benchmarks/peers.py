"""What asking other optimisers has in common: contexts, their past, the play, the table of tries.

Owns the fairness of the comparison: a peer sees the same offered choices, the same given tries and, where it
is told of the past, the runs of the most alike contexts of other (GPU, model shape) groups. Needs no peer and
nothing beyond numpy, so that each peer's own environment can run it.
"""

from __future__ import annotations

import csv
import json
import math
import random
import statistics
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from splits import GIVEN, HERE, serving_contexts, tuner_contexts

from recommend.policy import Seen, Value
from recommend.recall import closeness, traits_of
from recommend.replay import Chooser, Context, Key, given_tries, play, playable

SEED = 0
ALIKE = 40
WORSE = 3.0
MOST = 100
LOAD = ("isl", "osl", "concurrency", "gpus")
NAMES = ("policy", "task", "context", "given", "tries", "valid")
Row = dict[str, Value]


class Run(NamedTuple):
    """A run of another context: its choice as a row with its load, and its log value over its level."""

    key: Key
    row: Row
    value: float


@dataclass(frozen=True)
class Asked:
    """What a peer knows before a try. Values are logs over the level of their context.

    ``offered`` are all choices here, ``left`` the places of those not yet tried, ``seen`` the values of the
    others; ``before`` and ``values_before`` are the runs of alike contexts (none for a cold start).
    """

    offered: Sequence[Row]
    left: Sequence[int]
    seen: Mapping[int, float]
    before: Sequence[Row]
    values_before: Sequence[float]
    seed: int = SEED


Peer = Callable[[Asked], int]


def chooser(context: Context, past: Sequence[Run], peer: Peer) -> Chooser:
    """A peer as a policy of the replay; where nothing at all is known the first try is drawn."""
    load = _numbers({name: context.facts.get(name, 0.0) for name in LOAD}) if past else {}
    offered = [{**_numbers(trial.parts), **load} for trial in context.trials]
    before, values = [run.row for run in past], [run.value for run in past]

    def choose(here: Context, seen: Sequence[Seen]) -> int:
        told = values_here(here, seen, past)
        left = [index for index in range(len(here.trials)) if index not in told]
        if len(left) == 1:
            return left[0]
        if not told and not past:
            return random.Random(f"{SEED}|{here.key!r}").randrange(len(here.trials))
        return peer(Asked(offered, left, told, before, values))

    return choose


def past_of(context: Context, known: Sequence[Context]) -> list[Run]:
    """The runs of the contexts most alike, none of them of the asked group, centred context by context."""
    others = [one for one in known if one.group != context.group]
    near = sorted(others, key=lambda one: (-alike(context, one), one.key))[:ALIKE]
    runs = []
    for one in near:
        good = [trial for trial in one.trials if trial.log_value is not None]
        level = statistics.fmean(trial.log_value or 0.0 for trial in good)
        load = _numbers({name: one.facts.get(name, 0.0) for name in LOAD})
        runs += [
            Run(trial.key, {**_numbers(trial.parts), **load}, (trial.log_value or 0.0) - level)
            for trial in good
        ]
    return runs


def alike(one: Context, other: Context) -> float:
    """Likeness of two contexts: catalog traits, then the numbers and words of the context itself."""
    names = one.facts.keys() | other.facts.keys()
    apart = sum(_apart(one.facts.get(name), other.facts.get(name)) for name in names)
    return closeness(traits_of(one), traits_of(other)) * math.exp(-apart / 4)


def _apart(one: Value | None, other: Value | None) -> float:
    if one == other:
        return 0.0
    if isinstance(one, float) and isinstance(other, float):
        return min(abs(math.log2((1 + abs(one)) / (1 + abs(other)))), 4.0)
    return 1.0


def values_here(context: Context, seen: Sequence[Seen], past: Sequence[Run]) -> dict[int, float]:
    """What was seen here on the scale of the past: over the level that the past's mean effects leave.

    A failure is told as a value worse than any that worked.
    """
    effects: dict[Key, list[float]] = {}
    for run in past:
        effects.setdefault(run.key, []).append(run.value)
    added = {key: statistics.fmean(values) for key, values in effects.items()}
    good = {one.at: one.log_value for one in seen if one.log_value is not None}
    gaps = [value - added.get(context.trials[at].key, 0.0) for at, value in good.items()]
    level = statistics.fmean(gaps) if gaps else 0.0
    worst = min((value - level for value in good.values()), default=0.0) - WORSE
    return {one.at: good[one.at] - level if one.at in good else worst for one in seen}


def _numbers(parts: Mapping[str, Value]) -> Row:
    """Sizes by their logarithm, words as they are."""
    return {
        name: math.log2(1 + value) if isinstance(value, float) else value for name, value in parts.items()
    }


def plays(policies: Mapping[str, Peer], tuners: Collection[str]) -> Iterator[tuple[object, ...]]:
    """Rows of ``NAMES``: every policy, cold and told of the past, on every serving context."""
    known = serving_contexts(fixed_precision=False)
    for name, peer in policies.items():
        for context in playable(known):
            told = {"cold": (), "told of the past": past_of(context, known)}
            for start, past in told.items():
                yield from _played(f"{name}, {start}", "e2e", context, chooser(context, past, peer), GIVEN)
        for kernel in ("convolution", "dedispersion") if name in tuners else ():
            for context in playable(tuner_contexts(kernel)):
                yield from _played(
                    f"{name}, cold", f"tuner-{kernel}", context, chooser(context, (), peer), (0,)
                )
        print(f"{name}: done", file=sys.stderr, flush=True)


def _played(
    policy: str, task: str, context: Context, choose: Chooser, given: Sequence[int]
) -> Iterator[tuple[object, ...]]:
    for count in given:
        if len(context.trials) > len(given_tries(context, count)):
            one = play(context, choose, count, MOST)
            yield policy, task, "|".join(context.key), count, one.tries, one.valid


def write(name: str, version: str, policies: Mapping[str, Peer], tuners: Collection[str]) -> None:
    """Play all and write the table row by row, as it comes; then how it was made."""
    with (HERE / f"{name}.csv").open("w", encoding="utf-8", newline="") as sink:
        writer = csv.writer(sink, lineterminator="\n")
        writer.writerow(NAMES)
        for row in plays(policies, tuners):
            writer.writerow(row)
            sink.flush()
    _told(name, {"version": version, "seed": SEED, "past": ALIKE, "command": f"make peers PEERS={name}"})


def _told(name: str, how: Mapping[str, object]) -> None:
    path = HERE / "peers.json"
    told = json.loads(path.read_text("utf-8")) if path.exists() else {}
    told[name] = how
    path.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n", encoding="utf-8")
