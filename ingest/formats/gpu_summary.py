"""Summaries of GPU traces that people's own runners wrote: JSON with cards and, per card, quantities with a
statistic in their name (``power_draw_w_max``).

Owns recognising them. The samples are gone, so no state that needs them can be told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ingest.formats import Format, Unreadable
from ingest.gpu_columns import recognise_column
from ingest.sources import Source
from ingest.traces import hardware_of, iso_time, line_count, trace_reading
from kb.model import GpuTrace, Reading, Telemetry

_STATS = {"max": "max", "peak": "max", "avg": "mean", "mean": "mean", "average": "mean", "min": "min",
          "median": "p50", "p50": "p50"}  # fmt: skip
_STAT = re.compile(r"^(?P<name>.+?)_(?P<stat>" + "|".join(_STATS) + r")(?P<unit>_[a-z%]+)?$")
_STAT_FIRST = re.compile(r"^(?P<stat>" + "|".join(_STATS) + r")_(?P<name>.+)$")
_HOLDERS = ("gpus", "per_gpu")
_RESULT = re.compile(r"(?i)throughput|ttft|tpot|tok_s|tok(?:en)?s_per|requests?_per|latency")
_TIMES = ("timestamp_start", "timestamp_end")
_NEEDED = {"utilization_pct", "power_w"}


def sniff(source: Source) -> float:
    """Several quantities of a GPU with a statistic behind them, under a list of cards."""
    head = source.head.lstrip("\ufeff \t\r\n")[:16000]
    if not head.startswith("{") or not any(f'"{name}"' in head for name in _HOLDERS):
        return 0.0
    keys = re.findall(r'"(\w+)"\s*:', head)
    roles = {told[0] for key in keys if (told := _quantity(key))}
    if any(_RESULT.search(key) for key in keys):
        return 0.0
    return 0.9 if len(roles) >= 2 and roles & _NEEDED else 0.0


def read(source: Source) -> Reading:
    """Per card what was summarised."""
    try:
        raw = json.loads(source.text.lstrip("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"the JSON is damaged or cut: {error}") from None
    cards = list(_cards(raw))
    gpus = tuple(_trace(at, key, card) for at, (key, card) in enumerate(cards))
    if not any(gpu.metrics for gpu in gpus):
        raise Unreadable("no card with summarised quantities was found")
    times = [
        time
        for _, card in cards
        for key in ("timestamp_start", "timestamp_end")
        if (time := _time(card, key))
    ]
    found = Telemetry(
        samples=max((gpu.samples for gpu in gpus), default=0),
        rows=sum(gpu.samples for gpu in gpus),
        started=min(times, default=None),
        ended=max(times, default=None),
        gpus=gpus,
    )
    return trace_reading(
        str(source.path),
        "gpu_summary_json",
        found,
        hardware_of(found),
        tool="own summary",
        lines=line_count(source.text.count("\n") + 1),
    )


def _cards(raw: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(key, card) of each card; the key is its number where cards stand under their numbers."""
    holders = (raw.get(name) for name in _HOLDERS) if isinstance(raw, dict) else ()
    told = next((one for one in holders if isinstance(one, dict | list)), ())
    pairs = told.items() if isinstance(told, dict) else enumerate(told)
    for key, card in pairs:
        if isinstance(card, dict):
            yield str(key), card


def _trace(at: int, key: str, card: Mapping[str, Any]) -> GpuTrace:
    metrics: dict[str, dict[str, float]] = {}
    for name, value in card.items():
        told = _quantity(str(name))
        if told and isinstance(value, int | float) and not isinstance(value, bool):
            metrics.setdefault(told[0], {})[told[1]] = round(value * told[2], 3)
    index, samples = str(card.get("index", key)), card.get("samples", card.get("sample_count"))
    return GpuTrace(
        index=int(index) if index.isdecimal() else at,
        name=card["name"] if isinstance(card.get("name"), str) else None,
        uuid=card["uuid"] if isinstance(card.get("uuid"), str) and card["uuid"] else None,
        samples=samples if isinstance(samples, int) else 0,
        metrics=metrics,
    )


def _quantity(key: str) -> tuple[str, str, float] | None:
    """(metric, statistic, factor) of ``power_draw_w_max``, ``power_avg_w`` or ``avg_power_w``."""
    found = _STAT.match(key.lower()) or _STAT_FIRST.match(key.lower())
    if not found:
        return None
    column = recognise_column(found["name"] + (found.groupdict().get("unit") or ""))
    return (column.role, _STATS[found["stat"]], column.factor) if column.is_metric else None


def _time(card: Mapping[str, Any], key: str) -> str | None:
    return iso_time(card[key]) if isinstance(card.get(key), str) else None


FORMAT = Format(
    name="gpu_summary_json",
    kind="trace",
    version=2,
    sniff=sniff,
    read=read,
    docs="Summaries of GPU traces in JSON, as people's own runners write them: cards, and per card "
    "quantities such as `power_draw_w_max`.",
)
