"""How sure it is that a source speaks about a run, and why.

Owns the weights of each kind of evidence and what rules a pair out. Must not change a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from ingest.agreement import common
from ingest.namesakes import Named, fitting
from ingest.windows import Window, overlap, window
from kb.model import Experiment, Reading, Telemetry

NAMED, TIMES, PORT, MODEL, NAME, ALONE, FOLDER = 0.95, 0.7, 0.5, 0.3, 0.4, 0.85, 0.3
NAMESAKE, PLAIN_NAMESAKE, SETTINGS, USUAL_PORT = 0.8, 0.5, 0.6, 0.2
USUAL_PORTS = frozenset({8000, 8080, 30000, 11434})  # an engine's own choice, on every machine
ENOUGH_HERE, ENOUGH_ELSEWHERE, MARGIN = 0.3, 0.6, 0.05
OVERLAP = "times overlap"
REACHED_READY = frozenset({"ready", "serve", "load_test", "quality"})
AFTER = "named after it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One stored reading: where it lies and what it tells."""

    identity: str
    path: str
    folder: str
    part: str
    reading: Reading


@dataclass(slots=True, kw_only=True)
class Draft:
    """A run while it is being assembled.

    ``facts`` is what a recorder wrote beside it (exit status, who stopped it, its clients' files);
    ``attached`` its sources as (identity, path, how, 0..1); ``alone``: a benchmark without its server;
    ``crowded``: benchmarks of many kinds lie in its folder, so that lying there says nothing of a benchmark.
    """

    anchor: str
    ordinal: int
    site: str
    folder: str
    name: str
    experiment: Experiment
    attached: list[tuple[str, str, str, float]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    probes: list[dict[str, Any]] = field(default_factory=list)
    traces: list[Piece] = field(default_factory=list)
    kernel: list[dict[str, Any]] = field(default_factory=list)
    alone: bool = False
    crowded: bool = False
    imported: bool = False

    def attach(self, piece: Piece, how: str, sure: float) -> None:
        """Note a source of the run, once."""
        if all(one[0] != piece.identity for one in self.attached):
            self.attached.append((piece.identity, piece.path, how, round(sure, 2)))


@dataclass(frozen=True, slots=True)
class Match:
    """A run that a source speaks about, how sure that is (0..1), and why."""

    draft: Draft
    sure: float
    how: str


def told_by(piece: Piece) -> Experiment | None:
    """What a piece says of the run that it belongs to; a trace says at least when it was."""
    told = next(iter(piece.reading.experiments), None)
    telemetry = piece.reading.telemetry
    if piece.part != "trace" or telemetry is None:
        return told
    told = told or Experiment()
    hardware = told.hardware._replace(count=_busy_gpus(telemetry))
    return replace(told, hardware=hardware, started=telemetry.started, ended=telemetry.ended)


def _busy_gpus(telemetry: Telemetry) -> int | None:
    """How many GPUs of a trace worked; a trace of one GPU is of one, busy or not."""
    if len(telemetry.gpus) == 1:
        return 1
    return sum(1 for one in telemetry.gpus if one.busy.get("samples")) or None


def best_match(piece: Piece, told: Experiment | None, drafts: Sequence[Draft], *, near: bool) -> Match | None:
    """The run that a source speaks about, or None where none is sure enough or two are equally so.

    ``told`` is what the source says of the run (None: nothing); ``near``: it lies in the runs' site.
    """
    found = sorted(matches(piece, told, drafts, near=near), key=lambda one: -one.sure)
    if not found or found[0].sure < (ENOUGH_HERE if near else ENOUGH_ELSEWHERE):
        return None
    rivals = [one for one in found if found[0].sure - one.sure < MARGIN]
    return found[0] if len(rivals) == 1 else _last_ready(rivals)


def matches(piece: Piece, told: Experiment | None, drafts: Sequence[Draft], *, near: bool) -> list[Match]:
    """Every run that nothing rules out, with the evidence for it."""
    found = []
    names = fitting(piece.path, [one.attached[0][1] for one in drafts]) if len(drafts) > 1 else {}
    for at, draft in enumerate(drafts):
        if not _ruled_out(told, draft.experiment):
            reasons = [*_reasons(piece, told, draft, drafts, near), *_named(names.get(at))]
            if reasons:
                doubt = 1.0
                for weight, _ in reasons:
                    doubt *= 1 - weight
                found.append(Match(draft, 1 - doubt, ", ".join(words for _, words in reasons)))
    return found


def span(experiment: Experiment) -> Window | None:
    """The time that an experiment covers."""
    return window(experiment.started, experiment.ended)


def _last_ready(rivals: Sequence[Match]) -> Match | None:
    if len({one.draft.anchor for one in rivals}) > 1:
        return None
    ready = [one for one in rivals if one.draft.experiment.outcome.stage in REACHED_READY]
    chosen = max(ready, key=lambda one: one.draft.ordinal, default=None)
    if chosen is None:
        return None
    return Match(chosen.draft, chosen.sure / len(ready), f"{chosen.how}, the last start that became ready")


def _ruled_out(told: Experiment | None, run: Experiment) -> bool:
    if told is None:
        return False
    pairs = (
        (told.port, run.port),
        (told.backend.engine, run.backend.engine),
        (told.model.id, run.model.id),
        (told.hardware.arch, run.hardware.arch),
    )
    return (
        any(a is not None and b is not None and a != b for a, b in pairs)
        or overlap(span(told), span(run)) is False
        or common(told.backend.settings, run.backend.settings)[1] > 0
    )


def _reasons(
    piece: Piece, told: Experiment | None, draft: Draft, drafts: Sequence[Draft], near: bool
) -> Iterable[tuple[float, str]]:
    if PurePosixPath(piece.path).name in draft.facts.get("files", ()) and piece.folder == draft.folder:
        yield NAMED, "named by the run's own record"
    if near:
        yield from _place(piece, draft, drafts)
    if told is not None:
        if overlap(span(told), span(draft.experiment)):
            yield TIMES, OVERLAP
        if told.port is not None and told.port == draft.experiment.port:
            yield USUAL_PORT if told.port in USUAL_PORTS else PORT, f"port {told.port}"
        if same_model(told, draft.experiment):
            yield MODEL, "same model"
        if common(told.backend.settings, draft.experiment.backend.settings)[0] > 1:
            yield SETTINGS, "same settings"


def _named(name: Named | None) -> Iterable[tuple[float, str]]:
    if name is not None:
        weight = NAME if not name.fully else NAMESAKE if name.telling else PLAIN_NAMESAKE
        yield weight, AFTER if name.fully else "similar names"


def _place(piece: Piece, draft: Draft, drafts: Sequence[Draft]) -> Iterable[tuple[float, str]]:
    here = [one for one in drafts if one.folder == piece.folder]
    if draft.crowded and piece.part == "measurement":
        return
    if piece.folder == draft.folder:
        yield (ALONE, "the only run in its folder") if len(here) == 1 else (FOLDER, "same folder")
    elif len(drafts) == 1:
        yield ALONE - 0.1, "the only run above its folder"
    elif not here:
        yield FOLDER - 0.1, "below the run's folder"


def same_model(a: Experiment, b: Experiment) -> bool:
    """Whether two experiments name one model: by catalog, by name, or by the name it is served as."""
    if a.model.id is not None and a.model.id == b.model.id:
        return True
    names_a, names_b = _names(a), _names(b)
    return bool(names_a & names_b)


def _names(experiment: Experiment) -> set[str]:
    served = experiment.backend.settings.get("served_model_name")
    told = [experiment.model.name, *(served if isinstance(served, list | tuple) else [served])]
    return {PurePosixPath(str(one)).name.lower() for one in told if one}
