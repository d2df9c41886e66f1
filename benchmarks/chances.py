"""Hold the learned chance of working against the hand-set one, on groups of tries that were left out.

    python benchmarks/chances.py [choose|report]

Settings were chosen on the half ``choose``; the page docs/recommender.md shows the half ``report``. Groups
are records that rest on one thread, or one recorded configuration.
"""

from __future__ import annotations

import math
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from tries import by_hand

from recommend import chance, hazard, tries
from recommend.chance import STEPS
from recommend.tries import Try

Array = NDArray[np.float64]
FOLDS, DRAWS = 5, 2000
HALVES = {"choose": 0, "report": 1}
DOCS = Path(__file__).parents[1] / "docs"
PAGE, PLOT = DOCS / "chances.md", DOCS / "chances.svg"
MARKS = ("<!-- results: python benchmarks/chances.py -->", "<!-- end of results -->")
BINS = (0.0, 0.35, 0.5, 0.65, 1.0)


class Forecast(NamedTuple):
    """A try with the chances to pass each step, learned without its group, and as they were set by hand."""

    one: Try
    learned: Sequence[float]
    by_hand: Sequence[float]

    def reached(self, passed: Sequence[float]) -> float:
        """The chance to pass the step at which the try ended, and all before it."""
        return math.prod(passed[: STEPS.index(self.one.step) + 1])


def number(group: str) -> int:
    """A number that a group keeps."""
    return int(blake2b(group.encode(), digest_size=4).hexdigest(), 16)


def forecasts(rows: Sequence[Try], source: str, half: str, settings: hazard.Settings) -> list[Forecast]:
    """Forecasts for the tries of one source, fold by fold; recorded ones are few, so both halves are told."""
    arrays = hazard.Rows(rows)
    keys = np.array([number(one.group) for one in rows])
    asked = np.array([one.source == source for one in rows])
    if source == "record":
        asked &= keys % 2 == HALVES[half]
    folds = keys // 2 % FOLDS if source == "record" else keys
    found: list[Forecast] = []
    for fold in sorted(set(folds[asked])):
        out = asked & (folds == fold)
        groups = {rows[at].group for at in np.flatnonzero(out)}
        used = np.array([one.group not in groups for one in rows])
        if half == "choose":
            used &= ~(np.isin(arrays.source, ("record", "published")) & (keys % 2 != HALVES[half]))
        part = hazard.learn(rows, {}, settings, used, arrays)
        found += [_forecast(rows[at], part, arrays.share) for at in np.flatnonzero(out)]
    return found


def _forecast(one: Try, part: hazard.Model, share: Array) -> Forecast:
    whole = by_hand(one.features)
    return Forecast(one, list(chance.steps(part, one.features).values()), [whole**each for each in share])


def failed_before(found: Iterable[tuple[str, float, bool]]) -> dict[str, float]:
    """Record -> tries that fail before the first that works, if its examples are tried by chance.

    Equal chances are tried in any order.
    """
    by_record: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for name, value, failed in found:
        by_record[name].append((value, failed))
    return {name: _failed(rows) for name, rows in by_record.items() if len({bad for _, bad in rows}) > 1}


def _failed(rows: Sequence[tuple[float, bool]]) -> float:
    lost = 0.0
    for value in sorted({value for value, _ in rows}, reverse=True):
        bad = sum(failed for one, failed in rows if one == value)
        good = sum(not failed for one, failed in rows if one == value)
        if good:
            return lost + bad / (good + 1)
        lost += bad
    return lost


def policies(found: Sequence[Forecast]) -> dict[str, list[float]]:
    """Failed tries before the first that works, record by record, for each way to order them."""
    names = [one.one.id.partition("#")[0] for one in found]
    failed = [one.one.worked == 0 for one in found]
    orders = {
        "learned": [math.prod(one.learned) for one in found],
        "set by hand": [math.prod(one.by_hand) for one in found],
        "random": [0.0 for _ in found],
    }
    return {
        name: list(failed_before(zip(names, values, failed, strict=True)).values())
        for name, values in orders.items()
    }


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and its 95 % interval, by drawing records again."""
    draw = random.Random(0)
    means = sorted(float(np.mean(draw.choices(values, k=len(values)))) for _ in range(DRAWS))
    return float(np.mean(values)), means[DRAWS // 40], means[-DRAWS // 40]


def of_records(found: Sequence[Forecast]) -> Iterable[str]:
    """The ranking inside a record, and how well each step tells its failures from what passed it."""
    lost = policies(found)
    yield "| policy | failed tries before the first that works |"
    yield "| --- | ---: |"
    for name, values in lost.items():
        mean, low, high = interval(values)
        yield f"| {name} | {mean:.3f} ({low:.3f} … {high:.3f}) |"
    yield ""
    yield f"{len(lost['learned'])} records, {len(found)} examples that no other record condemns."
    yield ""
    yield "| step | failures | AUC, learned | AUC, by hand |"
    yield "| --- | ---: | ---: | ---: |"
    for place, step in enumerate(STEPS):
        here = [one for one in found if STEPS.index(one.one.step) >= place]
        passed = [one.one.worked if one.one.step == step else 1.0 for one in here]
        weight = [one.one.weight for one in here]
        scores = ([one.learned[place] for one in here], [one.by_hand[place] for one in here])
        told = (roc_auc_score(passed, score, sample_weight=weight) for score in scores)
        yield f"| {step} | {passed.count(0.0)} | " + " | ".join(f"{one:.3f}" for one in told) + " |"


def of_recorded(found: Sequence[Forecast]) -> Iterable[str]:
    """Log loss, Brier score and calibration on recorded runs."""
    worked = np.array([one.one.worked for one in found])
    scores = {
        "learned": np.array([one.reached(one.learned) for one in found]),
        "set by hand": np.array([one.reached(one.by_hand) for one in found]),
        "their own rate": np.full(len(found), worked.mean()),
    }
    yield "| chance | log loss | Brier score |"
    yield "| --- | ---: | ---: |"
    for name, values in scores.items():
        loss = -np.log(np.where(worked == 1, values, 1 - values)).mean()
        yield f"| {name} | {loss:.3f} | {((values - worked) ** 2).mean():.3f} |"
    yield ""
    yield "| learned chance | tries | mean chance | passed |"
    yield "| --- | ---: | ---: | ---: |"
    for low, high in pairwise(BINS):
        here = (scores["learned"] >= low) & (scores["learned"] < high)
        if here.any():
            mean, rate = scores["learned"][here].mean(), worked[here].mean()
            yield f"| {low:.0%} … {high:.0%} | {here.sum()} | {mean:.0%} | {rate:.0%} |"


def placed(page: str, told: Sequence[str]) -> str:
    """The page with these results between its marks."""
    begin, end = page.index(MARKS[0]) + len(MARKS[0]), page.index(MARKS[1])
    return page[:begin] + "\n\n" + "\n".join(told) + "\n\n" + page[end:]


def plot(lost: dict[str, list[float]]) -> str:
    """Bars with their intervals, as SVG."""
    body = []
    for row, (name, values) in enumerate(lost.items()):
        mean, low, high = (1000 * one for one in interval(values))
        top = 20 + 40 * row
        body += [
            f'<text x="0" y="{top + 15}">{name}</text>',
            f'<rect x="100" y="{top}" width="{mean:.0f}" height="22" fill="#4a7ab5"/>',
            f'<path d="M{100 + low:.0f} {top + 11}H{100 + high:.0f}" stroke="#222" stroke-width="2"/>',
            f'<text x="{112 + high:.0f}" y="{top + 15}">{mean / 1000:.3f}</text>',
        ]
    size = f'width="520" height="{30 + 40 * len(lost)}" font-family="sans-serif" font-size="13"'
    title = "<title>Failed tries before the first that works</title>"
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n{title}\n' + "\n".join(body) + "\n</svg>\n"


def main() -> None:
    """Print the tables of one half; those of ``report`` go into the page, with its plot."""
    half = sys.argv[1] if len(sys.argv) > 1 else "report"
    rows, settings = tries.shipped(), hazard.Settings()
    reported = forecasts(rows, "record", half, settings)
    told = [*of_records(reported), "", *of_recorded(forecasts(rows, "recorded", half, settings))]
    print("\n".join(told))
    if half == "report":
        PAGE.write_text(placed(PAGE.read_text(encoding="utf-8"), told), encoding="utf-8")
        PLOT.write_text(plot(policies(reported)), encoding="utf-8")


if __name__ == "__main__":
    main()
