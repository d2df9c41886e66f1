"""What was recorded, as questions: so that records can be held against runs that happened.

Owns the way from an experiment (or folded runs) to a query, and the ranking of records that explain a
failure. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kb.model import Backend, Hardware, Model
from kb.vocab import engines, gpus, models, pins
from recommend.match import match
from recommend.question import Query, Resolution, Version

if TYPE_CHECKING:
    from kb.model import Experiment

Json = Mapping[str, Any]


def query_of(hardware: Hardware, model: Model, backend: Backend) -> Query:
    """The configuration of a recorded run as a question; resolved kernels count before requested ones."""
    entry = models.find_model(model.name) if model.name else None
    settings = engines.canonical_settings(backend.engine, backend.settings)
    common = engines.common_settings(backend.engine, settings)
    kv_dtype = common.get("kv_dtype")
    roles = {**backend.requested, **backend.resolved}
    return Query(
        hardware=hardware,
        gpu_facts=gpus.find_gpu(hardware.gpu) if hardware.gpu else None,
        model=model,
        entry=entry,
        engine=backend.engine,
        engine_version=backend.engine_version,
        dependencies=backend.dependencies,
        components=_components(backend),
        settings=settings,
        environment=backend.environment,
        requested=backend.requested,
        resolved={role: Resolution(kernel, "said") for role, kernel in roles.items()},
        common=common,
        kv_dtype=None if kv_dtype in (None, "auto") else str(kv_dtype),
        quantization=model.quantization,
        topology=hardware.topology,
    )


def _components(backend: Backend) -> dict[str, Version]:
    found: dict[str, Version] = {}
    if backend.engine and backend.engine_version:
        found.update(pins.pinned_spans(backend.engine, backend.engine_version))
        found[backend.engine] = backend.engine_version
    return found | dict(backend.dependencies)


def explain_failure(signature: str | None, experiment: Experiment, records: Iterable[Json]) -> str | None:
    """The id of the record that best explains a failure, or None.

    A record must tell of this signature and match the run, at least as far as the run is known; a sure match
    comes before an open one, a more specific one before a general one.
    """
    if not signature or signature == "unknown":
        return None
    query = query_of(experiment.hardware, experiment.model, experiment.backend)
    ranked = []
    for record in records:
        if record["good"] or all(outcome.get("signature") != signature for outcome in record["outcomes"]):
            continue
        found = match(record, query)
        if found and found.met:
            ranked.append(
                ((not found.sure, found.inherited, -len(found.chosen), -len(found.met)), record["id"])
            )
    return min(ranked)[1] if ranked else None
