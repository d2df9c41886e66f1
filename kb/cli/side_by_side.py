"""Two runs compared: fields that differ, and metrics at the same workload.

Owns the shape of ``compare --json``. Must not judge which is better.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kb.fold import WORKLOAD, choices, client_points
from kb.model import Experiment
from kb.wire import experiment_to_wire

PLAIN = (
    "engine",
    "engine_version",
    "model",
    "quantization",
    "gpu",
    "arch",
    "gpu_count",
    "driver",
    "cuda",
    "stage",
    "effect",
    "blame",
)
MAPPINGS = ("dependencies", "environment", "requested", "resolved")


def compared(a: Experiment, b: Experiment) -> dict[str, Any]:
    """``runs``, ``differs`` {field: [a, b]} and ``points`` [{workload, metrics: {name: [a, b, b/a]}}]."""
    left, right = experiment_to_wire(a), experiment_to_wire(b)
    differs: dict[str, list[Any]] = {
        name: [left[name], right[name]] for name in PLAIN if left[name] != right[name]
    }
    for name in MAPPINGS:
        differs |= _differing(name, left[name], right[name])
    differs |= _differing("settings", choices(left["settings"]), choices(right["settings"]))
    return {"runs": [a.run, b.run], "differs": differs, "points": _points(a, b)}


def _differing(name: str, left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, list[Any]]:
    keys = sorted({*left, *right})
    return {
        f"{name}.{key}": [left.get(key), right.get(key)] for key in keys if left.get(key) != right.get(key)
    }


def _points(a: Experiment, b: Experiment) -> list[dict[str, Any]]:
    theirs = {_load(one.workload): one for one in client_points(b)}
    found = []
    for one in client_points(a):
        other = theirs.get(_load(one.workload))
        if other is not None:
            datasets = [one.workload.get("dataset"), other.workload.get("dataset")]
            metrics = _metrics(one.metrics, other.metrics)
            found.append({"workload": _load(one.workload), "datasets": datasets, "metrics": metrics})
    return found


def _load(told: Mapping[str, Any]) -> str:
    """The size of a workload; data sets are told beside it, since clients name one differently."""
    sizes = (name for name in WORKLOAD if name != "dataset")
    return ", ".join(f"{name} {told[name]}" for name in sizes if told.get(name) is not None) or "(unknown)"


def _metrics(
    left: Mapping[str, float | None], right: Mapping[str, float | None]
) -> dict[str, list[float | None]]:
    found: dict[str, list[float | None]] = {}
    for name, a in left.items():
        b = right.get(name)
        if a is not None and b is not None:
            found[name] = [a, b, b / a if a else None]
    return found
