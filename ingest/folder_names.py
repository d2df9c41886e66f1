"""What the name of a folder tells of the benchmarks in it, where their files leave it open.

Owns that order (a file, its folder, the one above) and which fields a name may fill. Must not read files.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath

from ingest.bench.file_names import hints
from ingest.enrich import filled
from ingest.machine import hardware
from kb.model import Experiment, Hardware, Model

_LEVELS = 2


def named_by(folder: str, run: Experiment) -> tuple[Experiment, tuple[str, ...]]:
    """The run with GPUs, engine and precision as its folders' names tell, and which of these they gave."""
    names: list[str] = []
    for name in PurePosixPath(folder).parts[: -_LEVELS - 1 : -1]:
        told = _told(name)
        before = _fields(run)
        if run.hardware.gpu is not None:
            told = replace(told, hardware=Hardware())
        run = replace(
            run,
            hardware=filled(run.hardware, told.hardware),
            model=filled(run.model, told.model),
            backend=run.backend._replace(engine=run.backend.engine or told.backend.engine),
        )
        names += [key for key, value in _fields(run).items() if value != before[key]]
    return run, tuple(dict.fromkeys(names))


def _told(name: str) -> Experiment:
    facts = hints(name).facts
    card = hardware([facts.gpu], count=facts.gpu_count) if facts.gpu else Hardware()
    found = Experiment(hardware=card, model=Model(quantization=facts.quantization))
    return replace(found, backend=found.backend._replace(engine=facts.engine))


def _fields(run: Experiment) -> dict[str, object]:
    return {
        "gpu": run.hardware.gpu,
        "gpu_count": run.hardware.count,
        "engine": run.backend.engine,
        "quantization": run.model.quantization,
    }
