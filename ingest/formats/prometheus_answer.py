"""Answers of Prometheus' HTTP API: series of an exporter's GPU metrics, at one time or over a range.

Owns that JSON (``/api/v1/query``, ``/api/v1/query_range``). What a metric means is prometheus_gpu's.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from ingest.formats import Format, Unreadable
from ingest.formats.prometheus_gpu import card_of, facts_of, meaning, with_total
from ingest.prometheus import Sample
from ingest.sources import Source
from ingest.tally import Cards
from ingest.traces import hardware_of, telemetry_of, trace_reading
from kb.model import Reading

_LARGEST = 64 << 20
_FACTS = ("driver", "cuda", "compute_cap")


def sniff(source: Source) -> float:
    """A JSON document with series that name themselves, one of them a GPU's."""
    head = source.head
    if head.lstrip("\ufeff \t\r\n")[:1] not in ("{", "[") or source.size > _LARGEST:
        return 0.0
    is_answer = '"metric"' in head and ('"values"' in head or '"value"' in head)
    words = head.split('"__name__"')[1:] if is_answer else []
    names = (word.split('"')[1] for word in words if word.count('"') > 1)
    return 0.97 if any(meaning(name) for name in names) else 0.0


def read(source: Source) -> Reading:
    """A sample of each card at each time."""
    try:
        document = json.loads(source.text.lstrip("\ufeff"))
    except (ValueError, RecursionError):
        raise Unreadable("is no whole JSON document") from None
    samples: dict[tuple[float, str], dict[str, float]] = {}
    facts: dict[str, dict[str, str]] = defaultdict(dict)
    for series in _series(document):
        _take(series, samples, facts)
    if not samples:
        raise Unreadable("series of metrics stand here, but none of a GPU")
    cards, times = Cards(source.samples), sorted({time for time, _ in samples})
    for time, card in sorted(samples, key=lambda one: one[0]):
        about = facts[card]
        index = about.get("index", "")
        who: dict[str, Any] = {
            "index": int(index) if index.isdecimal() else None,
            "name": about.get("name"),
            "uuid": about.get("uuid"),
        }
        cards.add(card, with_total(samples[time, card]), at=f"{time:.3f}", **who)
    found = telemetry_of(cards.by_key.values(), first=f"{times[0]:.3f}", last=f"{times[-1]:.3f}")
    told = {key: next((one[key] for one in facts.values() if key in one), None) for key in _FACTS}
    return trace_reading(
        str(source.path), "prometheus_answer", found, hardware_of(found, **told), tool="prometheus"
    )


def _series(document: Any) -> Iterator[Mapping[str, Any]]:
    """Every series, wherever in the document the list of them stands."""
    if isinstance(document, list):
        for one in document:
            yield from _series(one)
    elif isinstance(document, dict):
        if isinstance(document.get("metric"), dict):
            yield document
            return
        for value in document.values():
            if isinstance(value, dict | list):
                yield from _series(value)


def _take(
    series: Mapping[str, Any],
    samples: dict[tuple[float, str], dict[str, float]],
    facts: dict[str, dict[str, str]],
) -> None:
    labels = {str(key): str(value) for key, value in series["metric"].items()}
    name = labels.get("__name__", "")
    told, card = meaning(name), card_of(Sample(name, 0.0, labels))
    if told is None or card is None:
        return
    card = "/".join((labels.get("Hostname") or labels.get("instance") or "", card))
    facts[card] = facts_of(labels) | facts[card]
    metric, factor = told
    for time, value in _points(series):
        samples.setdefault((time, card), {}).setdefault(metric, value * factor)


def _points(series: Mapping[str, Any]) -> Iterator[tuple[float, float]]:
    values = series.get("values")
    points: list[Any] = values if isinstance(values, list) else [series.get("value")]
    for point in points:
        try:
            time, value = float(point[0]), float(point[1])
        except (TypeError, ValueError, IndexError, KeyError):
            continue
        if math.isfinite(value) and math.isfinite(time):
            yield time, value


FORMAT = Format(
    name="prometheus_answer",
    kind="trace",
    sniff=sniff,
    read=read,
    docs="Answers of Prometheus' HTTP API (`query`, `query_range`) with series of dcgm-exporter and the "
    "other exporters of GPU metrics.",
)
