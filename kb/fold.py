"""Own runs folded per configuration: how often it was tried, how it ended, what it measured.

Owns what makes two runs the same configuration. Standard library only; must not read the store.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from kb.model import Backend, Ending, Experiment, Measurement, Model, Outcome, Point, Tried

MOST_RUNS = 20
MOST_WARNINGS = 20
# What names a place, a port or a draw of lots rather than a choice.
NO_CHOICE = frozenset(
    {
        "api_key",
        "api_key_file",
        "config",
        "device_id",
        "dist_init_addr",
        "download_dir",
        "host",
        "log_file",
        "log_level",
        "log_level_http",
        "master_addr",
        "master_port",
        "model",
        "model_path",
        "model_tag",
        "nccl_port",
        "port",
        "random_seed",
        "seed",
        "served_model_name",
        "tokenizer",
        "tokenizer_path",
        "weight_version",
    }
)
SERVER_LOG = "server-log"
WORKLOAD = (
    "input_len",
    "output_len",
    "concurrency",
    "request_rate",
    "dataset",
    "depth",
    "batch_size",
    "test",
)


def fold(runs: Iterable[Experiment]) -> list[Tried]:
    """One Tried per configuration, by key; of what varies inside one, the newest run speaks."""
    groups: dict[str, list[Experiment]] = {}
    for run in runs:
        groups.setdefault(key_of(run), []).append(run)
    return [
        _folded(key, sorted(group, key=_newest_first, reverse=True)) for key, group in sorted(groups.items())
    ]


def key_of(run: Experiment) -> str:
    """The stable hash of a run's hardware, model and backend."""
    hardware, model = run.hardware, run.model
    told = (
        (hardware.gpu or hardware.arch, hardware.count, hardware.power_limit_w, hardware.topology),
        (model.id or model.name, model.quantization),
        [getattr(run.backend, name) for name in run.backend._fields if name != "settings"],
        choices(run.backend.settings),
    )
    text = json.dumps(told, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()


def choices(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that make a configuration."""
    return {name: value for name, value in settings.items() if name not in NO_CHOICE}


def _newest_first(run: Experiment) -> tuple[str, str]:
    return run.started or "", run.run


def _folded(key: str, runs: Sequence[Experiment]) -> Tried:
    newest = runs[0]
    return Tried(
        key=key,
        hardware=newest.hardware,
        model=_model(runs),
        backend=_backend(newest.backend),
        endings=_endings(runs),
        points=_points(runs),
        conditions=_conditions(runs),
        warnings=_warnings(runs),
        runs=tuple(one.run for one in runs[:MOST_RUNS]),
        date=_date(newest),
    )


def _model(runs: Sequence[Experiment]) -> Model:
    return next((one.model for one in runs if one.model.name), runs[0].model)


def _backend(backend: Backend) -> Backend:
    return backend._replace(settings=choices(backend.settings))


def _date(run: Experiment) -> str | None:
    return run.started[:10] if run.started else None


def _endings(runs: Sequence[Experiment]) -> tuple[Ending, ...]:
    groups: dict[tuple[Any, ...], list[Experiment]] = {}
    for run in runs:
        groups.setdefault(_ending_key(run.outcome), []).append(run)
    return tuple(_ending(group) for group in groups.values())


def _ending_key(outcome: Outcome) -> tuple[Any, ...]:
    signature = outcome.failure.signature if outcome.failure else None
    return outcome.stage, outcome.effect, outcome.blame, signature


def _ending(runs: Sequence[Experiment]) -> Ending:
    outcome = runs[0].outcome
    failure = outcome.failure
    return Ending(
        stage=outcome.stage,
        effect=outcome.effect,
        blame=outcome.blame,
        signature=failure.signature if failure else None,
        cause=failure.cause if failure else None,
        text=failure.text if failure else None,
        n=len(runs),
        date=_date(runs[0]),
        runs=tuple(one.run for one in runs[:MOST_RUNS]),
    )


def _points(runs: Sequence[Experiment]) -> tuple[Point, ...]:
    groups: dict[str, list[tuple[Experiment, Measurement]]] = {}
    for run in runs:
        for one in client_points(run):
            told = {name: one.workload[name] for name in WORKLOAD if one.workload.get(name) is not None}
            groups.setdefault(json.dumps(told, sort_keys=True, default=str), []).append((run, one))
    return tuple(_point(json.loads(key), group) for key, group in groups.items())


def client_points(run: Experiment) -> tuple[Measurement, ...]:
    """What clients measured; only where none did, what the server printed of itself."""
    clients = tuple(one for one in run.measurements if one.client != SERVER_LOG)
    return clients or run.measurements


def _point(workload: Mapping[str, Any], group: Sequence[tuple[Experiment, Measurement]]) -> Point:
    values: dict[str, list[float]] = {}
    for _, one in group:
        for name, value in one.metrics.items():
            if value is not None:
                values.setdefault(name, []).append(value)
    dates = [date for run, _ in group if (date := _date(run))]
    return Point(
        workload=workload,
        metrics={name: median(found) for name, found in values.items()},
        n=len(group),
        spread={name: (min(found), max(found)) for name, found in values.items() if len(found) > 1},
        date=max(dates, default=None),
        runs=tuple(dict.fromkeys(run.run for run, _ in group))[:MOST_RUNS],
    )


def _conditions(runs: Sequence[Experiment]) -> dict[str, int]:
    counted = Counter(
        name for run in runs if run.telemetry for name in {one.name for one in run.telemetry.conditions}
    )
    return dict(sorted(counted.items()))


def _warnings(runs: Sequence[Experiment]) -> tuple[str, ...]:
    told = (one.meaning or one.text for run in runs for one in run.outcome.warnings)
    return tuple(dict.fromkeys(told))[:MOST_WARNINGS]
