"""Who was measured: names of GPUs, models, engines and parallel widths as any source prints them.

Owns turning printed names into the words of ``kb.model`` and building experiments and readings from them.
Must not know any file format. A name that the vocabulary does not know is kept as printed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ingest.bench import names
from ingest.sources import Source
from kb.model import (
    Backend,
    Experiment,
    Hardware,
    LineCount,
    Measurement,
    Model,
    Outcome,
    Reading,
    Telemetry,
    Warning,  # noqa: A004
)

_COUNTED = re.compile(r"^(?P<count>\d{1,3})\s*[x×*]\s*(?P<name>.+)$", re.IGNORECASE)
_COUNT_AFTER = re.compile(
    r"^(?P<name>.+?)\s*(?:\([x×](?P<a>\d{1,3})\)|[x×*]\s?(?P<b>\d{1,3}))$", re.IGNORECASE
)


_TEXTS = (
    "model",
    "gpu",
    "engine",
    "engine_version",
    "quantization",
    "driver",
    "cuda",
    "started",
)


@dataclass(slots=True)
class Facts:
    """What a source says about the server that was measured. Everything may be unknown.

    ``settings`` uses common names (tp, pp, ep, dp, kv_dtype, …) or an engine's own. ``load`` is what the
    source says once of the load of all its points.
    """

    model: str | None = None
    gpu: str | None = None
    gpu_count: int | None = None
    engine: str | None = None
    engine_version: str | None = None
    quantization: str | None = None
    driver: str | None = None
    cuda: str | None = None
    started: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    dependencies: dict[str, str] = field(default_factory=dict)
    warnings: list[Warning] = field(default_factory=list)
    load: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Names are texts: a number is one as it is printed, anything else says nothing."""
        for name in _TEXTS:
            told: object = getattr(self, name)
            if told is not None and not isinstance(told, str):
                is_number = isinstance(told, int | float) and not isinstance(told, bool)
                setattr(self, name, str(told) if is_number else None)

    def key(self) -> str:
        """Equal for facts that describe the same server."""
        named = {
            name: getattr(self, name)
            for name in self.__slots__
            if name not in ("warnings", "started", "load")
        }
        return repr({k: sorted(v.items(), key=str) if isinstance(v, dict) else v for k, v in named.items()})


def experiment(facts: Facts, measurements: Iterable[Measurement]) -> Experiment:
    """An experiment with an unknown server start, from what a benchmark says about it."""
    facts = replace(facts)  # what was set since they were made is checked, too
    engine = names.engine(facts.engine)
    return Experiment(
        hardware=hardware(facts),
        model=model(facts.model, facts.quantization),
        backend=Backend(
            engine=engine,
            engine_version=facts.engine_version,
            settings=plain_json(names.settings(engine, facts.settings)),
            environment=facts.environment,
            dependencies=facts.dependencies,
        ),
        outcome=Outcome(warnings=tuple(facts.warnings)),
        measurements=tuple(_finite(one) for one in measurements),
        started=facts.started,
    )


def _finite(one: Measurement) -> Measurement:
    """A point without figures that are no numbers (infinities of damaged or empty runs)."""
    metrics = {
        key: value for key, value in one.metrics.items() if value is not None and abs(value) < math.inf
    }
    load = {
        key: value for key, value in one.workload.items() if not (isinstance(value, float) and value - value)
    }
    return replace(one, metrics=metrics, workload=load)


def hardware(facts: Facts) -> Hardware:
    """Hardware from a printed GPU name, with a count in it ("8x H100", "H100 (x8)") taken apart."""
    if facts.gpu is None:
        return Hardware(count=facts.gpu_count, driver=facts.driver, cuda=facts.cuda)
    count, printed = split_count(facts.gpu)
    bare = re.sub(r"\s*\([^()]*\)", "", printed)  # remarks name what it is not ("not Max-Q")
    known = names.gpu(bare) or names.gpu(printed)
    listed = [part.strip() for part in printed.split(", ")]
    if len({one.name for part in listed if (one := names.gpu(part))}) > 1:  # a mixed machine is no one card
        known, count = None, len(listed)
    return Hardware(
        gpu=known.name if known and known.source != "class entry" else printed,
        arch=known.arch if known else names.arch(printed) if len(listed) == 1 else None,
        memory_gib=known.memory_gib if known else None,
        count=facts.gpu_count if facts.gpu_count is not None else count,
        driver=facts.driver,
        cuda=facts.cuda,
    )


def split_count(printed: str) -> tuple[int | None, str]:
    """(count, name) of "8x NVIDIA H100", "NVIDIA H100 (x8)", or (None, name)."""
    text = " ".join(printed.replace("`", "").split())
    if text.count("_") > 1:  # an instance type: "gpu_2x_h100"
        text = re.sub(r"^gpus? ", "", text.replace("_", " "))
    found = _COUNTED.match(text)
    if found:
        return int(found["count"]), found["name"].strip()
    after = _COUNT_AFTER.match(text)
    if after:
        return int(after["a"] or after["b"]), after["name"].strip()
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 1 and len(set(parts)) == 1:
        return len(parts), parts[0]
    return None, text


def model(printed: str | None, quantization: str | None = None) -> Model:
    """A model by the name a source prints, with what the catalog knows about it."""
    entry = names.model(printed)
    return Model(
        name=printed,
        id=getattr(entry, "id", None),
        family=getattr(entry, "family", None),
        architecture=getattr(entry, "architecture", None),
        quantization=quantization or names.quantization(printed),
    )


def grouped(pairs: Sequence[tuple[Facts, Measurement]]) -> tuple[Experiment, ...]:
    """One experiment for each distinct server among (facts, measurement) pairs, in order of appearance."""
    groups: dict[str, tuple[Facts, list[Measurement]]] = {}
    for facts, measurement in pairs:
        groups.setdefault(facts.key(), (facts, []))[1].append(measurement)
    return tuple(experiment(facts, measurements) for facts, measurements in groups.values())


def benchmark(source: Source, form: str, experiments: Iterable[Experiment], **fields: Any) -> Reading:
    """A benchmark's reading; ``partial`` where there are problems.

    ``fields`` are further fields of ``Reading`` (tool, kind, problems, lines, extra …), and ``rows``:
    how many rows a table held.
    """
    rows = fields.pop("rows", None)
    problems = tuple(fields.pop("problems", ()))
    if "lines" not in fields:  # a document is understood as a whole
        total = sum(block.count(b"\n") for block in source.blocks()) + 1
        fields["lines"] = LineCount(total=total, understood=total)
    return Reading(
        **{"kind": "benchmark", "status": "partial" if problems else "parsed"}
        | fields
        | {"extra": plain_json(fields.get("extra") or {})},
        path=str(source.path),
        format=form,
        experiments=tuple(experiments),
        telemetry=None if rows is None else Telemetry(rows=rows, extra={"lines": fields["lines"].total}),
        problems=problems,
    )


def plain_json(value: Any) -> Any:
    """A value with infinities and NaN as ``None``, so that it can be written as JSON."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain_json(one) for key, one in value.items()}
    return [plain_json(one) for one in value] if isinstance(value, list | tuple) else value
