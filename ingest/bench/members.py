"""Measures whose figures stand in an object of their own: statistics, directions, named cases.

Owns spreading such an object over labels of the common grammar. Must not walk a document.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ingest.bench import cells, relabel
from ingest.bench.families import statistic
from ingest.bench.places import place
from ingest.bench.quantities import RESULTS, understand

_DIRECTED = ("input_tok_s", "output_tok_s", "total_tok_s")


def spread(value: Mapping[str, Any]) -> dict[str, Any]:
    """Statistics of a measure that stand in an object of their own: "ttft_ms": {"mean": 1, "p99": 2}."""
    spread: dict[str, Any] = {}
    for key, one in value.items():
        if isinstance(one, Mapping) and str(key).lower() == "usage":  # as OpenAI's API counts a request
            spread |= {name: one[name] for name in ("prompt_tokens", "completion_tokens") if name in one}
        if isinstance(one, Mapping) and (understand(str(key)) or understand(f"mean {key}")):
            stats = {
                name: raw
                for name, raw in one.items()
                if _statistic(str(name)) and cells.number(raw) is not None
            }
            unit = one.get("unit") or one.get("units") or ""
            spread |= _over_runs(str(key), stats) or {
                f"{name} {key} {unit}".strip(): raw for name, raw in stats.items()
            }
            spread |= directed(str(key), one)
        spread |= _percentiles(str(key), one)
    return spread


_TALLIES = ("duration_s", "completed", "failed", "input_tokens", "output_tokens", "total_tokens")
_STATED = re.compile(r"_(?:p\d+|max|min)$")


def _over_runs(key: str, stats: Mapping[str, Any]) -> dict[str, Any]:
    """The figure of a run among statistics over runs: of a count, or of what is a statistic of requests."""
    told = understand(key)
    if told is None or not (told.name in _TALLIES or _STATED.search(told.name)):
        return {}
    best = next((name for name in ("mean", "avg", "average", "median") if name in stats), None)
    return {key: stats[best]} if best else {}


_PERCENTILES = re.compile(r"percentiles_(?P<measure>\w+)")


def _percentiles(key: str, value: Any) -> dict[str, Any]:
    """Pairs of a percentile and its value: "percentiles_ttft_ms": [[50.0, 12.3], [99.0, 45.6]]."""
    named = _PERCENTILES.fullmatch(key)
    if named is None or not isinstance(value, list):
        return {}
    pairs = [one for one in value if isinstance(one, list) and len(one) == 2]
    return {
        f"p{at:g}_{named['measure']}": raw
        for at, raw in pairs
        if isinstance(at, int | float) and not isinstance(raw, list | Mapping)
    }


_UNIT = re.compile(r"_(?:ms|s|sec|secs|seconds)$")


def _statistic(name: str) -> str | None:
    """The statistic that a member names, its unit beside it or not ("p99", "p99_ms")."""
    return statistic(name) or statistic(_UNIT.sub("", name))


def directed(key: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Rates of an object that says their unit: "tokens_per_second": {"generation": 80, "processing": 900}."""
    told = {}
    whole = understand(key)
    if whole is None or not whole.name.startswith("tok_s"):
        return {}
    for name, raw in value.items():
        spoken = str(name).replace("processing", "prompt processing")
        found = understand(f"{spoken} {key}")
        if found is not None and found.name.startswith(_DIRECTED) and isinstance(raw, int | float):
            told[f"{spoken} {key}"] = raw
    return told if len({understand(label) for label in told}) > 1 else {}


def is_spread(key: str, value: Mapping[str, Any]) -> bool:
    """Whether an object holds nothing but rates that the one around it tells as its own."""
    return len(directed(str(key), value)) == len(value) > 0


_COUNTS = ("count", "n", "num", "samples", "num_samples", "size")  # of what was measured


_REQUESTS = re.compile(r"(?:per_|single_)?requests?(?:_details|_results)?|(?:request|individual)_results")


def made_by_each(value: Mapping[str, Any]) -> dict[str, float]:
    """How many tokens the requests made that an object lists one by one, for the arithmetic of its rates."""
    for key, listed in value.items():
        if isinstance(listed, list) and _REQUESTS.fullmatch(str(key).lower()):
            made = [one.get("output_tokens") if isinstance(one, Mapping) else None for one in listed]
            numbers = [one for one in made if isinstance(one, int | float)]
            asked = (value.get(name, len(made)) for name in ("num_requests", "n_requests", "total_requests"))
            if numbers and len(numbers) == len(made) and all(one == len(made) for one in asked):
                return {relabel.MADE: sum(numbers)}
    return {}


def by_cases(value: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """One record for each case of a measure that names its cases: "generation_tok_s": {"short": 62.9, …}."""
    cases: dict[str, dict[str, Any]] = {}
    for key, one in value.items():
        if not isinstance(one, Mapping) or len(one) < 2 or any(map(_statistic, map(str, one))):
            continue
        if not _measures(str(key)) or directed(str(key), one):
            continue
        for case, raw in one.items():
            told = _statistic(str(case)) or understand(str(case)) or place(str(case))
            if (
                told is None
                and str(case).lower() not in _COUNTS
                and not str(case).isdecimal()
                and isinstance(raw, int | float)
                and raw is not True
            ):
                cases.setdefault(str(case), {"test name": str(case)})[str(key)] = raw
    return list(cases.values())


def _measures(key: str) -> bool:
    told = understand(key)
    return told is not None and told.name.startswith(RESULTS)
