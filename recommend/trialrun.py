"""Policies against each other on a table: leave groups out, learn from the rest, play, sum up.

Owns the experiment that ``kbctl replay`` runs: which policies, what each may know, and the report.
Learning is left to ``recommend.fit``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from recommend.baselines import most_frequent_best, nearest_sibling
from recommend.belief import Belief, Forecast, abstention, against, intervals, known_bad_share
from recommend.fit import naive_trees
from recommend.policy import Prior, Seen, most_worth, worth
from recommend.ranker import Ranker
from recommend.replay import Chooser, Context, Key, Played, at_random, by_order, play, playable, summary
from recommend.search import Space

RANDOM_SEEDS = 5
# Groups are left out one by one up to this number; more are left out several at a time, and in fewer turns
# where all turns together would learn from too many rows.
MOST_FOLDS, FEWEST_FOLDS, FOLD_ROWS = 20, 8, 400_000
# Candidates that the search policy weighs at each step; the rest waits behind them in order of worth.
MOST_WEIGHED = 200
Known = Callable[[Context], bool]
Maker = Callable[[Sequence[Context], Sequence[Context]], Chooser]


class Advisor:
    """The product's own policy: the ranker's priors, updated by what is seen, worth a try by gain per cost.

    ``beliefs`` is what it thought of each asked context before the first try.
    """

    def __init__(self, ranker: Ranker, asked: Sequence[Context]) -> None:
        learned = ranker.priors(asked)
        told = zip(asked, learned, strict=True)
        self.failing = {one.key: ranker.kin.of(one, [each.works for each in priors]) for one, priors in told}
        believed = zip(asked, learned, ranker.forecasts(asked), strict=True)
        self.beliefs = {
            one.key: self._belief(ranker, one, priors, forecasts) for one, priors, forecasts in believed
        }
        self.order = {key: _order(one.context, one.priors) for key, one in self.beliefs.items()}
        self.spaces: dict[Key, Space] = {}

    def __call__(self, context: Context, seen: Sequence[Seen]) -> int:
        """The next choice of an asked context."""
        priors, order = self.beliefs[context.key].priors, self.order[context.key]
        if seen and self.failing[context.key] is not None:
            priors = self._priors(context, priors, seen)
            order = _order(context, priors)
        if context.key not in self.spaces:
            self.spaces[context.key] = Space([one.parts for one in context.trials])
        return _weighed(self.spaces[context.key], priors, order, seen)

    def _belief(
        self, ranker: Ranker, context: Context, learned: Sequence[Prior], forecasts: Sequence[Forecast]
    ) -> Belief:
        priors = self._priors(context, learned, ())
        return Belief(context, priors, forecasts, sure=ranker.surety(context, priors))

    def _priors(self, context: Context, priors: Sequence[Prior], seen: Sequence[Seen]) -> Sequence[Prior]:
        """The priors with the chances to work that what failed and worked here leaves."""
        failing = self.failing[context.key]
        if failing is None:
            return priors
        return [
            one._replace(works=float(works)) for one, works in zip(priors, failing.works(seen), strict=True)
        ]


def _order(context: Context, priors: Sequence[Prior]) -> list[int]:
    """Choices by worth; of equal ones by lot, so that what nothing is known of is tried in all its parts."""
    lot = at_random(context, 0)
    return sorted(range(len(lot)), key=lambda at: (-worth(priors[at]), lot[at]))


def recommender(known: Sequence[Context], asked: Sequence[Context]) -> Chooser:
    """The policy that is measured."""
    alone = len({one.group for one in asked}) == 1
    return Advisor(Ranker(known, near=asked[0] if alone else None), asked)


def _weighed(space: Space, priors: Sequence[Prior], order: Sequence[int], seen: Sequence[Seen]) -> int:
    """The next choice among the most promising ones; the rest follows in order of worth."""
    tried = {one.at for one in seen}
    short = [index for index in order[:MOST_WEIGHED] if index not in tried]
    if not short:
        return next(index for index in order if index not in tried)
    level = _level(priors, seen)
    here = [one._replace(log_value=None if one.log_value is None else one.log_value - level) for one in seen]
    updated = space.posterior(priors, here, short)
    return short[most_worth(dict(enumerate(updated)), here)]


def _level(priors: Sequence[Prior], seen: Sequence[Seen]) -> float:
    """What the context gives beyond the priors, which know only how its choices differ."""
    errors = [one.log_value - priors[one.at].mean for one in seen if one.log_value is not None]
    return sum(errors) / len(errors) if errors else 0.0


def frequent(known: Sequence[Context], asked: Sequence[Context]) -> Chooser:  # noqa: ARG001 - one shape
    """Always the choice that was best most often."""
    return by_order(most_frequent_best(known))


def sibling(known: Sequence[Context], asked: Sequence[Context]) -> Chooser:  # noqa: ARG001 - one shape
    """The order of the nearest known context."""
    return by_order(nearest_sibling(known))


def trees(known: Sequence[Context], asked: Sequence[Context]) -> Chooser:
    """Extra trees on the plain columns."""
    scores = naive_trees(known, asked)
    return by_order(lambda context: scores[context.key])


POLICIES: Mapping[str, Maker] = {
    "recommender": recommender,
    "extra trees": trees,
    "nearest sibling": sibling,
    "most frequent best": frequent,
}


def replay(  # noqa: PLR0913 - what is hidden, who plays, what is told
    contexts: Sequence[Context],
    policies: Iterable[str] = POLICIES,
    *,
    held_out: Known | None = None,
    given: int = 0,
    most: int | None = None,
    beliefs: list[Belief] | None = None,
) -> dict[str, list[Played]]:
    """Each policy's plays on every playable context (of those ``held_out`` accepts), its group unseen.

    ``beliefs``, if given, receives what the recommender thought of each context beforehand.
    """
    asked = [one for one in playable(contexts) if held_out is None or held_out(one)]
    found: dict[str, list[Played]] = {"random": _chance(asked, given, most)}
    for groups in left_out_together(asked):
        known = [one for one in contexts if one.group not in groups]
        here = [one for one in asked if one.group in groups]
        for name in policies:
            chooser = POLICIES[name](known, here)
            found.setdefault(name, []).extend(play(one, chooser, given, most) for one in here)
            if beliefs is not None and isinstance(chooser, Advisor):
                bad = known_bad(known)
                beliefs += [one._replace(known_bad=bad) for one in chooser.beliefs.values()]
    return found


def left_out_together(asked: Sequence[Context]) -> list[set[Key]]:
    """Groups one by one; several at a time where there are more than ``MOST_FOLDS``, large ones apart."""
    sizes = Counter(one.group for one in asked)
    rows = sum(len(one.trials) for one in asked)
    most = min(max(FOLD_ROWS // max(rows, 1), FEWEST_FOLDS), MOST_FOLDS)
    folds: list[set[Key]] = [set() for _ in range(min(most, len(sizes)))]
    filled = [0] * len(folds)
    for group in sorted(sizes, key=lambda one: (-sizes[one], one)):
        at = filled.index(min(filled))
        folds[at].add(group)
        filled[at] += sizes[group]
    return sorted(folds, key=sorted)


def known_bad(known: Sequence[Context]) -> frozenset[Key]:
    """Choices that failed somewhere and worked nowhere."""
    trials = [trial for one in known for trial in one.trials]
    worked = {one.key for one in trials if one.log_value is not None}
    return frozenset({one.key for one in trials} - worked)


def _chance(asked: Sequence[Context], given: int, most: int | None) -> list[Played]:
    return [
        play(one, by_order(lambda context, seed=seed: at_random(context, seed)), given, most)  # type: ignore[misc]
        for one in asked
        for seed in range(RANDOM_SEEDS)
    ]


def experiment(
    contexts: Sequence[Context], *, given: int = 0, most: int | None = None, half: str | None = None
) -> dict[str, Any]:
    """The whole replay of a table as JSON: policies, paired differences, intervals, abstention, noise."""
    beliefs: list[Belief] = []
    held_out = None if half is None else lambda one: one.half == half
    plays = replay(contexts, held_out=held_out, given=given, most=most, beliefs=beliefs)
    told = {**report(plays), "half": half or "all"}
    if not told["contexts"]:
        return told
    bad = {one.context.key: one.known_bad for one in beliefs}
    for name, found in plays.items():
        told["policies"][name]["known_bad_share"] = known_bad_share(found, bad)
    first = {one.context.key: one for one in plays["recommender"]}
    return {
        **told,
        "against": {name: against(first, found) for name, found in plays.items() if name != "recommender"},
        "intervals": intervals(beliefs),
        "abstention": abstention(beliefs, first),
    }


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
