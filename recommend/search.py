"""The search of ``recommend.policy`` in arrays: what a context's tried choices tell of many others at once.

Owns how alike the choices of one context are, and their priors after what was seen. Needs numpy; the numbers
are those of ``policy.similarity`` and ``policy.posterior``, which answer without it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recommend.policy import NOISE, SHARED, STRENGTH, Choice, Prior, Seen

Array = NDArray[np.float64]
# Numbers that differ by so many octaves are as unlike as words.
OCTAVES = 2.0


class Space:
    """The choices of one context by their parts; remembers between tries how alike the others are to each."""

    def __init__(self, choices: Sequence[Choice]) -> None:
        self.size = len(choices)
        names = sorted({name for one in choices for name in one})
        self.parts = [_column([one.get(name) for one in choices]) for name in names]
        self.kept: dict[int, Array] = {}

    def alike(self, at: int) -> Array:
        """How alike each choice is to one of them: ``policy.similarity``."""
        if at not in self.kept:
            apart = np.zeros(self.size)
            for code, size in self.parts:
                near = np.minimum(np.abs(size - size[at]) / OCTAVES, 1.0)
                apart += np.where(code == code[at], 0.0, np.where(np.isnan(near), 1.0, near))
            self.kept[at] = np.exp(-apart / 2)
        return self.kept[at]

    def posterior(self, priors: Sequence[Prior], seen: Sequence[Seen], wanted: Sequence[int]) -> list[Prior]:
        """The priors of the ``wanted`` choices after what was seen: ``policy.posterior``."""
        before = [priors[at] for at in wanted]
        if not seen or not wanted:
            return before
        worked = [one for one in seen if one.log_value is not None]
        shift, spread = self._updated(priors, worked, wanted)
        works = self._chances(before, worked, [one for one in seen if one.log_value is None], wanted)
        return [Prior(*map(float, one)) for one in zip(shift, spread, works, strict=True)]

    def _updated(
        self, priors: Sequence[Prior], worked: Sequence[Seen], wanted: Sequence[int]
    ) -> tuple[Array, Array]:
        """(mean, deviation) of each wanted choice, by a Gaussian process over the errors of the priors."""
        mean = np.array([priors[at].mean for at in wanted])
        deviation = np.array([priors[at].deviation for at in wanted])
        if not worked:
            return mean, deviation
        tried = [one.at for one in worked]
        theirs = np.array([priors[at].deviation for at in tried])
        across = deviation[:, None] * theirs * self._shared(tried, wanted)
        among = theirs[:, None] * theirs * self._shared(tried, tried) + NOISE**2 * np.eye(len(tried))
        errors = np.array([(one.log_value or 0.0) - priors[one.at].mean for one in worked])
        factor = np.linalg.cholesky(among)
        explained = np.linalg.solve(factor, across.T)
        variance = deviation**2 - (explained**2).sum(axis=0)
        return mean + explained.T @ np.linalg.solve(factor, errors), np.sqrt(np.maximum(variance, 1e-6))

    def _shared(self, tried: Sequence[int], wanted: Sequence[int]) -> Array:
        alike = np.stack([self.alike(at)[np.asarray(wanted)] for at in tried], axis=1)
        return np.asarray(SHARED + (1 - SHARED) * alike)

    def _chances(
        self, before: Sequence[Prior], worked: Sequence[Seen], failed: Sequence[Seen], wanted: Sequence[int]
    ) -> Array:
        """The prior chances, moved by what alike choices did: each counts as much as it is alike."""
        good, bad = (
            sum((self.alike(one.at)[np.asarray(wanted)] ** 2 for one in some), np.zeros(len(wanted)))
            for some in (worked, failed)
        )
        prior = np.array([one.works for one in before])
        return np.asarray((prior * STRENGTH + good) / (STRENGTH + good + bad))


def _column(values: Sequence[str | float | None]) -> tuple[NDArray[np.int64], Array]:
    """(a code that equal values share, octaves of the numbers that are not negative) of one part."""
    code: dict[str | float | None, int] = {}
    codes = np.array([code.setdefault(value, len(code)) for value in values])
    numbers = [value if isinstance(value, int | float) and value >= 0 else np.nan for value in values]
    return codes, np.log2(1 + np.array(numbers, dtype=np.float64))
