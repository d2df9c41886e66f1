"""Runs that ``kbctl export`` wrote, read back whole.

Owns recognising and reading that file. Must not judge its runs: they come as they were exported.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import Experiment, Problem, Reading
from kb.wire import experiment_from_wire, experiment_to_wire

SCHEMA = '"schema": "kbctl.export/1"'


def is_export(path: Path) -> bool:
    """Whether a file begins as an export does."""
    return sniff(Source(path)) > 0


def sniff(source: Source) -> float:
    """The schema's name stands in the first lines."""
    return 1.0 if SCHEMA in source.head[:200] else 0.0


def read(source: Source) -> Reading:
    """Every run of the file, with its id."""
    try:
        runs = json.loads(source.text)["runs"]
    except (ValueError, KeyError, TypeError) as error:
        raise Unreadable(f"the export is damaged ({error}); export it again") from None
    found: list[Experiment] = []
    problems = []
    for at, one in enumerate(runs if isinstance(runs, list) else []):
        try:
            found.append(_experiment(one, str(source.path)))
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            problems.append(Problem(line=None, what=f"run {at} of the export cannot be read: {error!r}"))
    return Reading(
        path=str(source.path),
        format="kbctl-export",
        kind="import",
        tool="kbctl",
        status="partial" if problems else "parsed",
        experiments=tuple(found),
        problems=tuple(problems),
    )


def _experiment(wire: dict[str, object], path: str) -> Experiment:
    experiment = experiment_from_wire(wire)
    if not experiment.run.startswith("run:"):
        raise ValueError("it has no run id")
    experiment_to_wire(experiment)  # what cannot be written again was not read
    return replace(experiment, sources=(path,), joined=())


FORMAT = Format(
    name="kbctl-export",
    kind="import",
    sniff=sniff,
    read=read,
    docs="What `kbctl export` writes: whole runs with their ids, from another store.",
)
