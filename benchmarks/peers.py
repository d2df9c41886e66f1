"""What the scripts that ask other optimisers share: contexts, their past, the play, the table of tries.

Owns the fairness of the comparison: a peer sees the same offered choices, the same given tries and, where it
is told of the past, the runs of the most alike contexts of other (GPU, model shape) groups. Needs no peer and
nothing beyond numpy, so that each peer's own environment can run it.
"""

from __future__ import annotations

import csv
import hashlib
import math
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from splits import GIVEN, serving_contexts

from recommend.policy import Seen, Value
from recommend.recall import closeness, traits_of
from recommend.replay import Chooser, Context, Key, given_tries, play, playable

SEEDS = (0,)
# Every third context, by a hash of its key: some peers take seconds for a proposal.
SHARE = 3
ALIKE = 40
WORSE = 3.0
NAMES = ("policy", "task", "context", "given", "seed", "tries", "valid", "regret_after_1")


class Run(NamedTuple):
    """A run of another context: its choice and parts, facts of its context, log value over its level."""

    key: Key
    parts: Mapping[str, Value]
    facts: Mapping[str, Value]
    value: float


Make = Callable[[Context, Sequence[Run], int], Chooser]


def past_of(context: Context, known: Sequence[Context]) -> list[Run]:
    """The runs of the contexts most alike, none of them of the asked group, centred context by context."""
    others = [one for one in known if one.group != context.group]
    near = sorted(others, key=lambda one: (-alike(context, one), one.key))[:ALIKE]
    runs = []
    for one in near:
        level = statistics.fmean(trial.log_value for trial in one.trials if trial.log_value is not None)
        runs += [
            Run(trial.key, trial.parts, one.facts, trial.log_value - level)
            for trial in one.trials
            if trial.log_value is not None
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


def told(context: Context, seen: Sequence[Seen], past: Sequence[Run]) -> list[tuple[int, float]]:
    """What was seen here on the scale of the past: over the level that the past's mean effects leave."""
    effects: dict[Key, list[float]] = {}
    for run in past:
        effects.setdefault(run.key, []).append(run.value)
    added = {key: statistics.fmean(values) for key, values in effects.items()}
    good = [one for one in seen if one.log_value is not None]
    level = (
        statistics.fmean((one.log_value or 0.0) - added.get(context.trials[one.at].key, 0.0) for one in good)
        if good
        else 0.0
    )
    worst = min(((one.log_value or 0.0) - level for one in good), default=0.0) - WORSE
    return [(one.at, worst if one.log_value is None else one.log_value - level) for one in seen]


def untried(context: Context, seen: Sequence[Seen]) -> list[int]:
    gone = {one.at for one in seen}
    return [index for index in range(len(context.trials)) if index not in gone]


def first_at_random(context: Context, seed: int) -> int:
    """A cold start: nothing is known, so the first try is drawn."""
    return random.Random(f"{seed}|{context.key!r}").randrange(len(context.trials))


def numbers(parts: Mapping[str, Value]) -> dict[str, Value]:
    """Sizes by their logarithm, words as they are."""
    return {
        name: math.log2(1 + value) if isinstance(value, float) else value for name, value in parts.items()
    }


def asked_contexts(share: int = SHARE) -> tuple[list[Context], list[Context]]:
    """(all serving contexts, those that are asked)."""
    found = serving_contexts(fixed_precision=False)
    digest = {
        one.key: hashlib.blake2b(repr(one.key).encode(), digest_size=2).digest()[1] for one in playable(found)
    }
    return found, [one for one in playable(found) if digest[one.key] % share == 0]


def rows(policies: Mapping[str, tuple[Make, bool]]) -> Iterator[dict[str, object]]:
    """One row per policy (maker, whether it is told of the past), number of given tries and context."""
    known, asked = asked_contexts()
    for name, (make, with_past) in policies.items():
        for context in asked:
            past = past_of(context, known) if with_past else []
            for given in GIVEN:
                if len(context.trials) > len(given_tries(context, given)):
                    yield from _played(name, context, past, make, given)
        print(f"{name}: done", file=sys.stderr, flush=True)


def _played(
    name: str, context: Context, past: Sequence[Run], make: Make, given: int
) -> Iterator[dict[str, object]]:
    for seed in SEEDS:
        one = play(context, make(context, past, seed), given)
        first = next((value for value in one.regret if value is not None), math.nan)
        yield {
            "policy": name,
            "task": "e2e",
            "context": "|".join(context.key),
            "given": given,
            "seed": seed,
            "tries": one.tries,
            "valid": one.valid,
            "regret_after_1": round(first, 5),
        }


def write(path: Path, policies: Mapping[str, tuple[Make, bool]]) -> None:
    """Play all and write the table row by row, so that a run that is cut short is not lost."""
    with path.open("w", encoding="utf-8", newline="") as sink:
        writer = csv.DictWriter(sink, NAMES)
        writer.writeheader()
        for row in rows(policies):
            writer.writerow(row)
            sink.flush()
