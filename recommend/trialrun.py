"""Policies against each other on a table: leave groups out, learn from the rest, play, sum up.

Owns the experiment that ``kbctl replay`` runs: which policies, what each may know, and the report.
Learning is left to ``recommend.fit``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from recommend.baselines import most_frequent_best, nearest_sibling
from recommend.fit import Ranker, naive_trees
from recommend.policy import Prior, Seen, next_choice, worth
from recommend.replay import Chooser, Context, Key, Played, at_random, by_order, play, playable, summary

RANDOM_SEEDS = 5
# Candidates that the search policy weighs at each step; the rest waits behind them in order of worth.
MOST_WEIGHED = 200
Known = Callable[[Context], bool]
Maker = Callable[[Sequence[Context], Sequence[Context]], Chooser]


def recommender(known: Sequence[Context], asked: Sequence[Context]) -> Chooser:
    """The product's own policy: the ranker's prior, updated by what is seen, worth a try by gain × chance."""
    ranker = Ranker(known, near=asked[0])
    prepared: dict[Key, tuple[list[Prior], list[int]]] = {}

    def choose(context: Context, seen: Sequence[Seen]) -> int:
        if context.key not in prepared:
            priors = ranker.priors(context)
            prepared[context.key] = (
                priors,
                sorted(range(len(priors)), key=lambda at: (-worth(priors[at]), at)),
            )
        return _weighed(context, *prepared[context.key], seen)

    return choose


def _weighed(context: Context, priors: Sequence[Prior], order: Sequence[int], seen: Sequence[Seen]) -> int:
    """The next choice among the most promising ones; the rest follows in order of worth."""
    tried = {one.at for one in seen}
    short = [*tried, *(index for index in order[:MOST_WEIGHED] if index not in tried)]
    place = {index: at for at, index in enumerate(short)}
    here = [Seen(at=place[one.at], log_value=one.log_value) for one in seen]
    parts = [context.trials[index].parts for index in short]
    found = next_choice(parts, [priors[index] for index in short], here)
    if found is not None:
        return short[found]
    return next(index for index in order if index not in tried)


def frequent(known: Sequence[Context], asked: Sequence[Context]) -> Chooser:  # noqa: ARG001 - one shape
    """Always the choice that was best most often."""
    return by_order(most_frequent_best(known))


def sibling(known: Sequence[Context], asked: Sequence[Context]) -> Chooser:  # noqa: ARG001 - one shape
    """The order of the nearest known context."""
    return by_order(nearest_sibling(known))


def trees(known: Sequence[Context], asked: Sequence[Context]) -> Chooser:  # noqa: ARG001 - one shape
    """Extra trees on the plain columns."""
    return by_order(naive_trees(known))


POLICIES: Mapping[str, Maker] = {
    "recommender": recommender,
    "extra trees": trees,
    "nearest sibling": sibling,
    "most frequent best": frequent,
}


def replay(
    contexts: Sequence[Context],
    policies: Iterable[str] = POLICIES,
    *,
    held_out: Known | None = None,
    given: int = 0,
    most: int | None = None,
) -> dict[str, list[Played]]:
    """Each policy's plays on every playable context (of those ``held_out`` accepts), its group unseen."""
    asked = [one for one in playable(contexts) if held_out is None or held_out(one)]
    found: dict[str, list[Played]] = {"random": _chance(asked, given, most)}
    for group in sorted({one.group for one in asked}):
        known = [one for one in contexts if one.group != group]
        here = [one for one in asked if one.group == group]
        for name in policies:
            chooser = POLICIES[name](known, here)
            found.setdefault(name, []).extend(play(one, chooser, given, most) for one in here)
    return found


def _chance(asked: Sequence[Context], given: int, most: int | None) -> list[Played]:
    return [
        play(one, by_order(lambda context, seed=seed: at_random(context, seed)), given, most)  # type: ignore[misc]
        for one in asked
        for seed in range(RANDOM_SEEDS)
    ]


def report(found: Mapping[str, Sequence[Played]], half: str | None = None) -> dict[str, Any]:
    """The figures of each policy, of one half of the contexts or of all."""
    chosen = {
        name: [one for one in plays if half in (None, one.context.half)] for name, plays in found.items()
    }
    first = next(iter(chosen.values()), [])
    return {
        "contexts": len({one.context.key for one in first}),
        "groups": len({one.context.group for one in first}),
        "half": half or "all",
        "policies": {name: summary(plays) for name, plays in chosen.items() if plays},
    }
