"""The possible forms of the regression held against each other, on published and own points.

Owns the comparison that ``kbctl fit --compare`` prints. Learns through ``recommend.fit`` only.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from recommend.fit import FORMS, UNIT_LOG, Array, matrix, target
from recommend.replay import Context, Played, Trial, by_order, figure, play, regret_after
from recommend.samples import Sample
from recommend.score import METRICS


def compare(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """Each form's error and regret when whole (GPU, model shape) groups are left out, as JSON rows."""
    return [_row(name, samples) for name in FORMS]


def _row(name: str, samples: Sequence[Sample]) -> dict[str, Any]:
    begun = time.process_time()
    guess = [float(value) for value in left_out(samples, FORMS[name])]
    errors = [
        abs(value - math.log(one.metrics["output_tok_s"])) for value, one in zip(guess, samples, strict=True)
    ]
    played = played_by(samples, guess)
    return {
        "form": name,
        "contexts": len(played),
        "regret": figure(played, regret_after(1)).mean,
        "tries": figure(played, lambda one: float(one.tries)).mean,
        "median_error": statistics.median(errors),
        "rms_error": math.sqrt(statistics.fmean(error**2 for error in errors)),
        "cpu_s": time.process_time() - begun,
    }


def left_out(samples: Sequence[Sample], make: Callable[[], Any], metric: str = "output_tok_s") -> Array:
    """Each sample's predicted log metric from a model that never saw its (GPU, model shape) group."""
    _, x = matrix(samples)
    y = target(samples, metric)
    out = np.zeros(len(samples))
    groups = np.array(["|".join(one.group) for one in samples])
    for group in np.unique(groups):
        test = groups == group
        out[test] = make().fit(x[~test], y[~test]).predict(x[test])
    physics = np.array([one.features[METRICS[metric]] for one in samples])
    return np.asarray(out + physics + UNIT_LOG[metric])


def played_by(samples: Sequence[Sample], guess: Sequence[float]) -> list[Played]:
    """Contexts of equal hardware, model, load and GPU count, played in the order of the guesses."""
    grouped: dict[tuple[Any, ...], dict[tuple[str, ...], list[int]]] = {}
    for index, one in enumerate(samples):
        grouped.setdefault((one.group, one.load, one.gpus), {}).setdefault(one.choice, []).append(index)
    played = []
    for (group, load, gpus), choices in sorted(grouped.items()):
        if len(choices) < 2:
            continue
        trials = tuple(_trial(key, rows, samples) for key, rows in sorted(choices.items()))
        scores = [statistics.fmean(guess[index] for index in rows) for _, rows in sorted(choices.items())]
        context = Context(key=(*group, *map(str, load), str(gpus)), group=group, trials=trials)
        played.append(play(context, by_order(_fixed(scores))))
    return played


def _fixed(scores: Sequence[float]) -> Callable[[Context], Sequence[float]]:
    return lambda _: scores


def _trial(key: tuple[str, ...], rows: Sequence[int], samples: Sequence[Sample]) -> Trial:
    values = [math.log(samples[index].metrics["output_tok_s"]) for index in rows]
    return Trial(key=key, parts={}, features={}, log_value=statistics.median(values))
