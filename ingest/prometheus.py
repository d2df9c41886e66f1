"""The text form in which servers and exporters publish metrics: samples with labels.

Owns that syntax. Must not know any metric.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

_SAMPLE = re.compile(
    r'^(?P<name>[A-Za-z_:][\w:]*)\s*(?:\{(?P<labels>(?:[^"}]|"(?:[^"\\]|\\.)*+")*+)\})?'
    r"\s+(?P<value>[-+]?(?:\d[\d.]*(?:[eE][-+]?\d+)?|NaN|\+?Inf))"
    r"(?:\s+(?P<stamp>\d+))?(?:\s+[#←].*)?\s*$"
)
_LABEL = re.compile(r'([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r'\\["\\n]')
_ESCAPES = {r"\"": '"', r"\\": "\\", r"\n": "\n"}


@dataclass(frozen=True, slots=True)
class Sample:
    """One line: a metric's name, its labels, its value (NaN and infinities included), its line number.

    ``stamp`` is its time as printed, milliseconds since 1970; "" for none.
    """

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    line: int = 0
    stamp: str = ""


def parse_sample(text: str, line: int = 0) -> Sample | None:
    """The sample that a line holds, or None for comments and anything else.

    Behind it a note or an exemplar may stand.
    """
    found = _SAMPLE.match(text.strip()) if not text.startswith("#") else None
    if not found:
        return None
    try:
        value = float(found["value"])
    except ValueError:
        return None
    return Sample(found["name"], value, _labels(found["labels"] or ""), line, found["stamp"] or "")


def parse_samples(lines: Iterable[tuple[int, str]]) -> Iterator[Sample]:
    """Every sample of numbered lines."""
    for number, text in lines:
        sample = parse_sample(text, number)
        if sample:
            yield sample


def quantile(buckets: Mapping[float, float], share: float) -> float | None:
    """A quantile of a cumulative histogram (upper bound -> count), linear inside a bucket.

    None when it is empty, or when the value lies in the lowest bucket: then all that is known is its bound.
    """
    bounds = sorted(buckets)
    total = buckets[bounds[-1]] if bounds else 0.0
    if total <= 0:
        return None
    wanted, low, below = share * total, 0.0, 0.0
    for bound in bounds:
        if buckets[bound] >= wanted:
            if bound == bounds[0]:
                return None
            if math.isinf(bound) or buckets[bound] == below:
                return low if math.isinf(bound) else bound
            return low + (bound - low) * (wanted - below) / (buckets[bound] - below)
        low, below = bound, buckets[bound]
    return low


def _labels(text: str) -> dict[str, str]:
    return {key: _ESCAPED.sub(lambda one: _ESCAPES[one[0]], value) for key, value in _LABEL.findall(text)}
