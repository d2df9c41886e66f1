"""Every server start that a file of commands tells of, each with its line.

Owns the question "what does this file launch?", which ``check`` asks of scripts, compose files, manifests and
engine YAML. Must not judge a launch, and must not run anything. Secrets are taken out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from ingest.formats import container_specs, launch_script
from ingest.pipeline import read
from ingest.redact import redact_value
from ingest.sources import Source, find_sources
from kb.model import Hardware, Reading
from kb.vocab.engines import Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One server start. ``checkpoint`` is the local folder of its model, where the command names one."""

    launch: Launch
    hardware: Hardware = field(default_factory=Hardware)
    checkpoint: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What one file tells: its starts in order, and ``notes`` on what could not be read."""

    path: Path
    starts: tuple[Start, ...] = ()
    notes: tuple[str, ...] = ()


def told_by(path: Path) -> Told:
    """What a file launches. A file that launches nothing gives no starts, and notes that say what it is."""
    starts: list[Start] = []
    notes: list[str] = []
    for source in find_sources([path]):
        reading = read(source)
        starts += _starts(source, reading)
        notes += [problem.what for problem in reading.problems]
    return Told(
        path=path,
        starts=tuple(_hidden(one) for one in starts),
        notes=tuple(dict.fromkeys(notes)),
    )


def _starts(source: Source, reading: Reading) -> Iterator[Start]:
    if reading.format == launch_script.FORMAT.name:
        for launch in launch_script.launches(source.text):
            yield Start(launch=launch, checkpoint=_checkpoint(launch.model))
    elif reading.format == container_specs.FORMAT.name:
        for launch, hardware in container_specs.launches(source.text):
            yield Start(launch=launch, hardware=hardware)
    else:
        for experiment in reading.experiments:
            backend = experiment.backend
            if backend.engine:
                launch = Launch(
                    engine=backend.engine,
                    version=backend.engine_version,
                    model=experiment.model.name,
                    settings=backend.settings,
                    environment=backend.environment,
                )
                yield Start(launch=launch, hardware=experiment.hardware)


def _checkpoint(model: str | None) -> Path | None:
    """The folder that a model's name is, when it is one on this machine."""
    folder = Path(model) if model else None
    return folder if folder and folder.is_absolute() and (folder / "config.json").is_file() else None


def _hidden(start: Start) -> Start:
    return replace(start, launch=redact_value(start.launch))
