"""Any table of measurements as contexts for replay: what is given, what is chosen, what came of it.

Owns how columns become features: numbers, words, JSON cells, and what the catalogs know of a GPU or a model
named in them. No files, no learning.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from kb.model import Tried
from kb.vocab import options
from kb.vocab.gpus import Gpu, find_gpu
from kb.vocab.models import ModelEntry, find_model
from recommend.cells import FAILED, measured
from recommend.features import Situation, features, hardware_features, model_features, position
from recommend.physics import Load
from recommend.policy import Value
from recommend.replay import Context, Trial
from recommend.samples import PRECISION_METHOD, layout_of

Row = Mapping[str, Any]
STORE_CONTEXT = ("gpu", "gpus", "model", "input_len", "output_len", "concurrency")
STORE_CHOICE = ("engine", "engine_version", "settings")
STORE_FAILED = ("ending", frozenset({"backend"}))
GPU = ("hw", "gpu", "accelerator", "hardware", "device")
MODEL = ("model", "model_id", "checkpoint")
NUMBERS = {
    "input_len": ("isl", "input_len", "io_len"),
    "output_len": ("osl", "output_len", "io_len"),
    "concurrency": ("concurrency", "batch_size"),
    "tp": ("tp", "tp_size", "tensor_parallel_size"),
    "pp": ("pp", "pp_size"),
    "ep": ("ep", "moe_ep_size", "ep_size"),
    "gpus": ("gpus", "n_gpus", "n_gpus_est", "n_devices", "gpu_count"),
}
MOST_FEATURES = 500
_WORD = re.compile(r"[a-z]+|\d+(?:\.\d+)?")


class Columns(NamedTuple):
    """Which columns say what. ``failed`` is (column, values) that mark a failed try, or ``None``.

    ``group`` is what is left out together; ``minimize`` where a smaller outcome is better.
    """

    context: Sequence[str]
    choice: Sequence[str]
    outcome: str
    group: Sequence[str]
    minimize: bool = False
    failed: tuple[str, frozenset[str]] | None = None
    date: str | None = None


def rows_of(tried: Iterable[Tried], context: Sequence[str], outcome: str) -> Iterator[dict[str, Any]]:
    """Own runs as a table's rows: one per measured point, and for what failed by its own fault one per load.

    ``ending`` says ``backend`` where a configuration failed by its own fault and never served. Such a failure
    would have come at every load, so it counts in each context of its hardware and model.
    """
    runs = list(tried)
    metrics = _metric_names(outcome)
    loads: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for one in runs:
        for point in one.points:
            if any(point.metrics.get(name) for name in metrics):
                load = {name: value for name, value in point.workload.items() if name in context}
                loads.setdefault(_where(one), {})[json.dumps(load, sort_keys=True, default=str)] = load
    for one in runs:
        row = _row(one)
        for point in one.points:
            value = next((point.metrics[name] for name in metrics if point.metrics.get(name)), None)
            if value is not None:
                yield {**row, **point.workload, **point.metrics, outcome: value, "ending": "ok"}
        if not one.points and any(ending.blame == "backend" for ending in one.endings):
            yield from ({**row, **load, "ending": "backend"} for load in loads.get(_where(one), {}).values())


def _metric_names(outcome: str) -> tuple[str, ...]:
    return (outcome, f"{outcome}_mean", f"{outcome}_p50", f"{outcome}_median")


def _row(one: Tried) -> dict[str, Any]:
    gpu, gpus, model = _where(one)
    return {
        **one.backend.settings,
        "gpu": gpu,
        "gpus": gpus,
        "model": model,
        "quantization": one.model.quantization,
        "engine": one.backend.engine,
        "engine_version": one.backend.engine_version,
        "settings": json.dumps(dict(one.backend.settings), sort_keys=True, default=str),
    }


def _where(one: Tried) -> tuple[Any, ...]:
    """Hardware and model; a local path is known by its last part: the same weights are served under both."""
    name = one.model.name
    known = name.rstrip("/").rpartition("/")[2] if name and name.startswith(("/", ".", "~")) else name
    return one.hardware.gpu or one.hardware.arch, one.hardware.count, known


def contexts(rows: Iterable[Row], columns: Columns) -> list[Context]:
    """The table's contexts; several rows of one choice become one trial with their median.

    Words of one column that differ in case or outer blanks alone are one word, as it was first written.
    """
    spelled = Spelling()
    grouped: dict[tuple[str, ...], dict[tuple[str, ...], list[Row]]] = {}
    for row in rows:
        where = tuple(spelled(name, row.get(name)) for name in columns.context)
        what = tuple(spelled(name, row.get(name)) for name in columns.choice)
        grouped.setdefault(where, {}).setdefault(what, []).append(row)
    found = (_context(key, choices, columns, spelled) for key, choices in sorted(grouped.items()))
    return [one for one in found if one.trials]


class Spelling:
    """One spelling per word of a column: the first that was met."""

    def __init__(self) -> None:
        self.first: dict[tuple[str, str], str] = {}

    def __call__(self, column: str, value: Any) -> str:
        """A cell as part of a key."""
        text = label(value)
        return self.first.setdefault((column, text.strip().casefold()), text)


def _context(
    key: tuple[str, ...], choices: Mapping[tuple[str, ...], list[Row]], columns: Columns, spelled: Spelling
) -> Context:
    first = next(iter(choices.values()))[0]
    trials = [_trial(what, rows, columns) for what, rows in sorted(choices.items())]
    facts = {name: value for name in columns.context if (value := cell(first.get(name))) is not None}
    return Context(
        key=key,
        group=tuple(spelled(name, first.get(name)) for name in columns.group),
        trials=tuple(one for one in trials if one is not None),
        facts={name: spelled(name, one) if isinstance(one, str) else one for name, one in facts.items()},
    )


def _trial(key: tuple[str, ...], rows: Sequence[Row], columns: Columns) -> Trial | None:
    values = [value for row in rows if (value := _log(row, columns)) is not None]
    failed = any(_failed(row, columns) for row in rows)
    if not values and not failed:
        return None
    parts = {name: value for column in columns.choice for name, value in cells(column, rows[0].get(column))}
    dates = [str(row[columns.date]) for row in rows if columns.date and row.get(columns.date)]
    return Trial(
        key=key,
        parts=parts,
        features=_mean([encode(row, (*columns.context, *columns.choice)) for row in rows]),
        log_value=statistics.median(values) if values else None,
        date=max(dates, default=None),
    )


def _mean(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Features of one choice whose rows differ in what was not chosen (a release)."""
    return {name: sum(row.get(name, value) for row in rows) / len(rows) for name, value in rows[0].items()}


def _log(row: Row, columns: Columns) -> float | None:
    if _failed(row, columns):
        return None
    value = measured(row.get(columns.outcome))
    if value is None and columns.failed and columns.outcome == columns.failed[0]:
        # The outcome is a word that is none of those for failures: it worked, and that is all there is.
        return 0.0
    if not isinstance(value, float) or value <= 0:
        return None
    return -math.log(value) if columns.minimize else math.log(value)


def _failed(row: Row, columns: Columns) -> bool:
    if columns.failed is not None and str(row.get(columns.failed[0])) in columns.failed[1]:
        return True
    return measured(row.get(columns.outcome)) == FAILED


def label(value: Any) -> str:
    """A cell as part of a key; a number that is none is an empty cell."""
    return "None" if isinstance(value, float) and math.isnan(value) else str(value)


def cell(value: Any) -> Value | None:
    """A cell as a number where it is one, as text otherwise; ``None`` for an empty one."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int | float):
        return float(value) if math.isfinite(value) else None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return number if math.isfinite(number) else None


def cells(column: str, value: Any) -> list[tuple[str, Value]]:
    """A cell as named parts: an object, or the JSON of one, gives one per key."""
    inner = _inner(value)
    if inner is not None:
        return [(f"{column}.{key}", part) for key, one in inner.items() if (part := cell(one)) is not None]
    plain = cell(value)
    return [] if plain is None else [(column, plain)]


def _inner(value: Any) -> dict[str, Any] | None:
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return value if isinstance(value, dict) else None


def encode(row: Row, columns: Sequence[str]) -> dict[str, float]:
    """Features of one row: physics where the row tells enough, catalog facts, numbers, words."""
    named: dict[str, float] = {}
    for column in columns:
        for name, value in cells(column, row.get(column)):
            named |= _encoded(name, value)
    gpu, entry = gpu_of(row), model_of(row)
    if gpu is not None:
        named |= hardware_features(gpu)
    if entry is not None:
        named |= model_features(entry)
    return named | (physics_of(row, gpu, entry) or {})


def _encoded(name: str, value: Value) -> dict[str, float]:
    if isinstance(value, float):
        return {f"{name}#": math.copysign(math.log2(1 + abs(value)), value)}
    if name in GPU or name in MODEL:
        return {}
    return {f"{name}={word}": 1.0 for word in words(value)}


def feature_names(trials: Iterable[Trial]) -> list[str]:
    """The names of all features; of too many the numbers and the most frequent words."""
    counts = Counter(name for one in trials for name in one.features)
    kept = sorted(counts, key=lambda name: ("=" in name, -counts[name], name))[:MOST_FEATURES]
    return sorted(kept)


@cache
def words(text: str) -> tuple[str, ...]:
    """The words of a label, so that alike kernels of different engines share some."""
    return tuple(dict.fromkeys(_WORD.findall(text.lower())))


def gpu_of(row: Row) -> Gpu | None:
    """The GPU that a row names, if the catalog knows it."""
    return next((found for name in GPU if row.get(name) and (found := _gpu(str(row[name])))), None)


def model_of(row: Row) -> ModelEntry | None:
    """The model that a row names, if the catalog knows it."""
    return next((found for name in MODEL if row.get(name) and (found := _model(str(row[name])))), None)


@cache
def _gpu(text: str) -> Gpu | None:
    return (
        find_gpu(text)
        or find_gpu(text.replace("_", " "))
        or find_gpu(text.rpartition("_")[0].replace("_", " "))
    )


@cache
def _model(text: str) -> ModelEntry | None:
    return find_model(text)


def physics_of(row: Row, gpu: Gpu | None, entry: ModelEntry | None) -> dict[str, float] | None:
    """The features of a serving configuration, where a row says all of it."""
    size = {name: _number(row, columns) for name, columns in NUMBERS.items()}
    if gpu is None or entry is None or not (size["input_len"] and size["output_len"] and size["concurrency"]):
        return None
    tp, pp = size["tp"] or 1, size["pp"] or 1
    method = str(row.get("precision") or row.get("quantization") or "")
    layout = layout_of(
        entry,
        PRECISION_METHOD.get(method, method),
        tp=tp,
        pp=pp,
        dp=max((size["gpus"] or tp * pp) // (tp * pp), 1),
        ep=size["ep"] or 1,
    )
    load = Load(input_len=size["input_len"], output_len=size["output_len"], concurrency=size["concurrency"])
    engine = {"trtllm": "tensorrt-llm"}.get(str(row.get("engine")), str(row.get("engine")))
    version = str(row.get("engine_version") or row.get("version") or "") or None
    release = position(version, options.releases(engine))
    return features(Situation(gpu=gpu, entry=entry, layout=layout, load=load, engine=engine, release=release))


def _number(row: Row, columns: Sequence[str]) -> int | None:
    for name in columns:
        value = cell(row.get(name))
        if isinstance(value, float) and value >= 1:
            return int(value)
    return None
