"""What stands behind the ids of numbers: serving points, write-ups, catalogs, the fitted model.

Owns their description for ``kbctl explain``. Must not judge them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from kb import measurements
from kb.vocab import options

Json = dict[str, Any]
Told = tuple[Json, list[str]]


def explained(name: str) -> Told | None:
    """The JSON object and the lines about an id such as ``serving:593dc7b1``, or ``None`` for any other."""
    kind, colon, rest = name.partition(":")
    make = _KINDS.get(kind)
    found = make(name, rest) if colon and make else None
    if found is None:
        return None
    title, rows = found
    width = max(len(key) for key in rows) + 2
    lines = [f"{name}: {title}", *(f"  {key:{width}}{_plain(value)}" for key, value in rows.items())]
    return {"schema": "kbctl.explain/1", "kind": kind, "name": name, "title": title, **rows}, lines


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {one}" for key, one in value.items() if one is not None) or "nothing said"
    return "unknown" if value in (None, "") else str(value)


Found = tuple[str, Json]


def _serving(name: str, _: str) -> Found | None:
    point = next((one for one in measurements.serving() if one.id == name), None)
    if point is None:
        return None
    source = measurements.sources().get("serving.tsv", {})
    rows = {
        "gpu": f"{point.gpus or 'unknown number of'} x {point.gpu}",
        "model": point.model,
        "engine": f"{point.engine} {point.version or '(release unknown)'}",
        "precision": point.precision,
        "parallel": f"tp {point.tp}, pp {point.pp}, dp {point.dp}, ep {point.ep} {point.split}".strip(),
        "load": f"{point.concurrency} in flight, {point.input_len} in, {point.output_len} out",
        "output_tok_s": round(point.output_tok_s, 1),
        "ttft_ms": point.ttft_ms,
        "tpot_ms": point.tpot_ms,
        "repeats": f"{point.n}, {point.low:g} … {point.high:g} output tok/s",
        "date": point.date,
        "source": source.get("attribution"),
        "url": source.get("url"),
        "licence": source.get("licence"),
    }
    return "a published serving measurement", rows


def _writeup(name: str, _: str) -> Found | None:
    one = next((row for row in measurements.writeups() if row["id"] == name), None)
    if one is None:
        return None
    names = ("gpu", "count", "model", "engine", "engine_version", "date", "roles", "settings", "workload")
    rows = {key: one.get(key) for key in (*names, "metrics", "telemetry") if key in one}
    return "a measured point of a write-up", {**rows, "told": one.get("evidence")}


def _catalog(_: str, rest: str) -> Found | None:
    engine, _dash, version = rest.rpartition("-")
    if version not in options.releases(engine):
        return None
    known = options.catalog(engine, version)
    return "the options of one release", {"engine": engine, "release": version, "pins": dict(known.pins)}


def _model(_: str, rest: str) -> Found | None:
    model = measurements.fitted_model()
    if model is None or rest not in ("physics+regression", "chance"):
        return None
    if rest == "chance":
        return _chance(model.get("chance") or {"tries": 0, "steps": {}})
    widths: Mapping[str, float] = model["metrics"]["output_tok_s"]["interval"]
    rows = {
        "samples": model["samples"],
        "groups": len(model["seen"]),
        "made from": model["made_from"],
        "intervals": {name: f"x{math.exp(half):.2f}" for name, half in widths.items()},
        "described in": "docs/recommender.md",
    }
    return "the roofline estimate and the regression that corrects it", rows


def _kernels(_: str, rest: str) -> Found | None:
    source = measurements.sources().get(f"{rest}_kernels.tsv")
    return (f"published times of {rest} kernels by GPU, shape and load", dict(source)) if source else None


def _chance(part: Mapping[str, Any]) -> Found:
    """What moves the log-odds to pass each step, strongest first."""
    rows: Json = {"tries": part["tries"]}
    for step, row in part["steps"].items():
        ranked = sorted(row["coef"].items(), key=lambda one: -abs(one[1]))
        rows[step] = ", ".join(f"{name} {value:+.2f}" for name, value in ranked[:_MOST])
    rows["described in"] = "docs/chances.md"
    return "the chance to pass each step of a try, and what moves its log-odds most", rows


_MOST = 8
_KINDS: dict[str, Callable[[str, str], Found | None]] = {
    "serving": _serving,
    "writeup": _writeup,
    "catalog": _catalog,
    "model": _model,
    "kernels": _kernels,
}
