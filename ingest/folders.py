"""Readings of folders that belong together to runs: one server start is one run.

Owns what anchors a run, what is joined to it, and what a benchmark without a server becomes. Must not open
files or the store: the same readings give the same runs, whatever the order in which they came.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from ingest.enrich import completed, enrich, say
from ingest.folder_names import named_by
from ingest.hints import HINTS, HOW, PART, Hints
from ingest.homes import home
from ingest.matching import AFTER, OVERLAP, Draft, Match, Piece, best_match, matches, told_by
from ingest.namesakes import fitting
from ingest.nodes import united
from ingest.points import is_same_point, merged
from ingest.series import crowded_folders, may_be, note_for, notes_of_folders, series_key
from ingest.snapshots import describe_machines
from ingest.spans import Find, nothing_kept
from ingest.windows import longest
from kb.model import Experiment, Measurement, Reading
from kb.store.runs import ID_CHARACTERS, Assembled

ORDER = (
    "import",
    "metadata",
    "measurement",
    "config",
    "trace",
    "kernel",
    "probe",
    "metrics",
    "machine",
    "note",
    "other",
)
RECORDED = frozenset({"exit_code", "stopped_by", "killed_by", "ready", "ready_at", "timed_out", "benches"})
TELLING = frozenset({"metadata", "config", "trace", "machine", "metrics", "probe"})
QUOTING = (".md", ".py", ".rst", ".html", ".json", ".jsonl", ".ipynb", ".csv")
AGAIN = "describes its points again"
ALONE = "of the same benchmark, whose server is not here"
TWIN = "of the same name"


def part_of(reading: Reading) -> str:
    """What assembly uses a reading for: anchor, metadata, or one of the parts that join a run."""
    if reading.kind == "server_log":
        return "anchor" if any(_shows_a_server(one, reading.path) for one in reading.experiments) else "other"
    if "kernel" in reading.extra:
        return "kernel"
    if reading.kind == "config" and _records_a_start(reading):
        return "metadata"
    if reading.kind != "import" and any(one.measurements for one in reading.experiments):
        return "measurement"
    if reading.kind == "trace":
        timed = reading.telemetry is not None and reading.telemetry.samples > 1
        return "trace" if timed else "machine"
    part = PART if HINTS in reading.extra else reading.kind
    return {"benchmark": "measurement", "unknown": "other"}.get(part, part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """What the user said of sources.

    ``links`` maps a source to runs that it was linked to (True) or unlinked from (False); ``said`` a source
    to the fields that the user supplied with it.
    """

    links: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)
    said: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def assemble(
    sites: Mapping[str, Sequence[Piece]],
    outside: Sequence[Piece],
    reach: Callable[[str], Sequence[str]],
    claimed: Claimed,
    find: Find = nothing_kept,
) -> list[Assembled]:
    """The runs of a region, by id.

    ``outside`` pieces lie in no site; each may speak about the runs in ``reach`` of its folder. ``find``
    gives the samples of a trace between two times.
    """
    drafts: dict[str, list[Draft]] = {site: _anchored(site, pieces) for site, pieces in sites.items()}
    hints = Hints.among([*outside, *(one for pieces in sites.values() for one in pieces)])
    work = Work(drafts, claimed, hints)
    every_piece = [*outside, *(one for pieces in sites.values() for one in pieces)]
    work.noted = notes_of_folders(every_piece)
    work.benchmarks = frozenset(one.path for one in every_piece if one.part == "measurement")
    crowded = crowded_folders(every_piece)
    for draft in (one for found in drafts.values() for one in found):
        draft.crowded = draft.folder in crowded
    for part in ORDER:
        for site, pieces in sites.items():
            for piece in pieces:
                if piece.part == part:
                    work.join(piece, drafts[site], site, near=True)
        for piece in outside:
            if piece.part == part:
                near = [one for site in reach(piece.folder) for one in drafts.get(site, ())]
                work.join(piece, near, piece.folder, near=False)
    describe_machines(work.machines)
    every = [one for found in drafts.values() for one in found] + work.lone()
    return sorted(
        (_finished(one, claimed.said, hints, find) for one in every), key=lambda one: one.experiment.run
    )


class Work:
    """Joining pieces to drafts; what belongs to none waits to become runs of its own."""

    def __init__(self, drafts: Mapping[str, list[Draft]], claimed: Claimed, hints: Hints) -> None:
        self.drafts, self.links, self.hints = drafts, claimed.links, hints
        self.series: dict[str, Draft] = {}
        self.benchmarks, self.noted = frozenset[str](), dict[str, Experiment]()
        self.machines: list[tuple[Draft, Piece]] = []

    def join(self, piece: Piece, drafts: list[Draft], site: str, *, near: bool) -> None:
        """Give one piece to the run or runs that it speaks about."""
        linked = self.links.get(piece.identity, {})
        here = (
            [*drafts, *self._alone_in(piece.folder)]
            if piece.part not in ("metadata", "measurement")
            else drafts
        )
        allowed = [one for one in here if linked.get(run_id(one.anchor, one.ordinal)) is not False]
        allowed = [one for one in allowed if not self._is_of_another(piece, one)]
        forced = [one for one in here if linked.get(run_id(one.anchor, one.ordinal))]
        if not forced and (allowed := [] if self.hints.is_separate(piece) else allowed):
            forced = self.hints.joined(piece, allowed)
        if piece.part == "import":
            self._import(piece)
        elif piece.part == "measurement":
            self._join_measurements(piece, forced or allowed, near=near, forced=bool(forced))
        elif forced:
            _take(piece, Match(forced[0], 1.0, "linked by the user"))
        elif piece.part == "machine":
            self.machines += [(one, piece) for one in allowed]
        elif (
            not self._join_one(piece, allowed, near=near) and piece.part == "metadata" and site in self.drafts
        ):
            told = piece.reading.experiments[0]
            self.drafts[site].append(_draft(piece, 0, site, told))
            _take_facts(self.drafts[site][-1], piece)

    def lone(self) -> list[Draft]:
        """Benchmarks without a server, as drafts."""
        return list(self.series.values())

    def _is_of_another(self, piece: Piece, draft: Draft) -> bool:
        """Whether a benchmark lies below a run beside whose log one of the same name lies: the run's own."""
        below = piece.folder.startswith(f"{draft.folder}/") and home(piece.folder) != draft.folder
        own = f"{draft.folder}/{PurePosixPath(piece.path).name}"
        return piece.part == "measurement" and below and own in self.benchmarks

    def _alone_in(self, folder: str) -> list[Draft]:
        """Benchmarks without a server that lie in a folder; else those that are at home where it is."""
        lone = [one for one in self.series.values() if not one.imported]
        here = [one for one in lone if one.folder == folder]
        return here or [one for one in lone if home(one.folder) == home(folder)]

    def _import(self, piece: Piece) -> None:
        for at, told in enumerate(piece.reading.experiments):
            draft = _draft(piece, at, piece.folder, Experiment())
            draft.imported, draft.experiment = True, told
            self.series.setdefault(told.run, draft)

    def _join_one(self, piece: Piece, drafts: list[Draft], *, near: bool) -> bool:
        """Give a piece to its best match, or to every benchmark of its folder that it may describe."""
        told = told_by(piece)
        if piece.part == "trace" and len(drafts) > 1:
            covered = [one for one in matches(piece, told, drafts, near=near) if OVERLAP in one.how]
            covered = [one for one in covered if AFTER in one.how] or covered
            for one in covered:
                _take(piece, one)
            if covered:
                return True
        match = best_match(
            piece, told, drafts, near=near or any(one.folder == piece.folder for one in drafts)
        )
        if match is not None:
            _take(piece, match)
            return True
        alone = (
            matches(piece, told, self._alone_in(piece.folder), near=True)
            if piece.part in ("config", "trace")
            else []
        )
        for one in alone:
            _take(piece, one)
        return bool(alone)

    def _join_measurements(self, piece: Piece, drafts: list[Draft], *, near: bool, forced: bool) -> None:
        if not forced and _describes_again(piece, [*drafts, *self._alone_in(piece.folder)]):
            return
        for ordinal, told in enumerate(piece.reading.experiments):
            match = Match(drafts[0], 1.0, "linked by the user") if forced else None
            match = match or best_match(piece, told, drafts, near=near) or _again(told, drafts)
            match = match or self._lone(piece, ordinal, told)
            if match is not None:
                _take_points(piece, told, match)

    def _lone(self, piece: Piece, ordinal: int, told: Experiment) -> Match | None:
        if not told.measurements:
            return None
        near = [one for one in self._alone_in(piece.folder) if may_be(told, one.experiment)]
        owner = _owner(told.measurements[0], near)
        if owner is not None and len(told.measurements) == 1:
            return Match(owner, 0.9, AGAIN)
        own = PurePosixPath(piece.path).with_suffix("")
        twin = next((one for one in near if PurePosixPath(one.attached[0][1]).with_suffix("") == own), None)
        if twin is not None and len(piece.reading.experiments) == 1:
            return Match(twin, 0.9, TWIN)
        folder, noted = note_for(piece, self.noted)
        key, at = series_key(piece, told, folder, noted), 0
        if len(piece.reading.experiments) > 1:
            key, at = piece.identity, ordinal
        if f"{key} {at}" not in self.series:
            draft = _draft(piece, at, piece.folder, replace(told, measurements=()))
            draft.anchor, draft.alone, draft.folder = key, True, folder
            self.series[f"{key} {at}"] = draft
        return Match(self.series[f"{key} {at}"], 0.9, ALONE)


def run_id(anchor: str, ordinal: int) -> str:
    """The id of the run that is a given start in a given anchor."""
    told = hashlib.blake2b(f"{anchor} {ordinal}".encode(), digest_size=16)
    return "run:" + told.hexdigest()[:ID_CHARACTERS]


def _anchored(site: str, pieces: Iterable[Piece]) -> list[Draft]:
    found = [
        _draft(piece, ordinal, site, experiment)
        for piece in pieces
        if piece.part == "anchor"
        for ordinal, experiment in enumerate(piece.reading.experiments)
    ]
    return united(found)


def _draft(piece: Piece, ordinal: int, site: str, experiment: Experiment) -> Draft:
    outcome = experiment.outcome
    placed = replace(
        outcome,
        failure=None if outcome.failure is None else replace(outcome.failure, path=piece.path),
        warnings=tuple(replace(one, path=piece.path) for one in outcome.warnings),
    )
    draft = Draft(
        anchor=piece.identity,
        ordinal=ordinal,
        site=site,
        folder=piece.folder,
        name=PurePosixPath(piece.path).name,
        experiment=replace(experiment, outcome=placed, measurements=tuple(_with_path(experiment, piece))),
    )
    draft.attach(piece, "the run starts here", 1.0)
    return draft


def _shows_a_server(told: Experiment, path: str) -> bool:
    """Whether a log is of a server rather than of an installation or a tool, or a page that quotes one."""
    backend, outcome = told.backend, told.outcome
    facts = backend.engine_version or backend.settings or told.port or backend.resolved or told.model.name
    if facts or outcome.stage not in (None, "args", "install"):
        return True
    ended = outcome.failure is not None and outcome.effect not in ("killed", "unknown")
    return not path.endswith(QUOTING) and (ended or (outcome.stage == "args" and outcome.effect == "refused"))


def _records_a_start(reading: Reading) -> bool:
    """Whether a recorder wrote down how a server that it started ended."""
    return bool(reading.experiments) and not RECORDED.isdisjoint(reading.extra.get("run") or ())


def _take(piece: Piece, match: Match) -> None:
    """Add to a run what a piece tells of it."""
    draft = match.draft
    draft.attach(piece, match.how, match.sure)
    told = told_by(piece) if piece.part in TELLING else None
    if told is not None:
        timed = piece.part == "metadata"
        draft.experiment = enrich(
            draft.experiment, told if timed else replace(told, started=None, ended=None)
        )
    if piece.part == "metadata":
        _take_facts(draft, piece)
    if piece.part == "probe":
        draft.probes.append(dict(piece.reading.extra.get("probe") or {}))
    if piece.part == "trace":
        draft.traces.append(piece)
    if piece.part == "kernel":
        draft.kernel += list(piece.reading.extra["kernel"])


def _take_points(piece: Piece, told: Experiment, match: Match) -> None:
    draft = match.draft
    draft.attach(piece, match.how, match.sure)
    points = merged([*draft.experiment.measurements, *_with_path(told, piece)])
    if not draft.alone and draft.experiment.backend.settings:
        # What a client repeats of the server's arguments holds what the engine filled in.
        told = replace(told, backend=told.backend._replace(settings={}))
    known = enrich(draft.experiment, replace(told, started=None, ended=None))
    if draft.alone:
        started, ended = longest(draft.experiment, told)
        known = replace(known, started=started, ended=ended)
    draft.experiment = replace(known, measurements=tuple(points))


def _take_facts(draft: Draft, piece: Piece) -> None:
    run = piece.reading.extra.get("run") or {}
    draft.facts |= dict(run)
    draft.facts["files"] = sorted({*draft.facts.get("files", ()), *_file_names(run)})


def _file_names(value: Any) -> set[str]:
    """Every plain file name among the values of a recorder's facts."""
    if isinstance(value, str):
        return {value} if re.fullmatch(r"[\w.-]+\.(txt|jsonl?|csv|log)", value) else set()
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return {name for one in inner for name in _file_names(one)}


def _describes_again(piece: Piece, drafts: Sequence[Draft]) -> bool:
    """Whether most points of a source stand among the runs' own already: a table or a summary of them."""
    pairs = [
        (replace(told, measurements=(one,)), one)
        for told in piece.reading.experiments
        for one in told.measurements
    ]
    tellers, points = [told for told, _ in pairs], [point for _, point in pairs]
    named = fitting(piece.path, [one.attached[0][1] for one in drafts]) if len(drafts) > 1 else {}
    of_its_name = [drafts[at] for at, name in named.items() if name.fully]
    owners = [
        _owner(point, of_its_name or [one for one in drafts if not one.alone or may_be(told, one.experiment)])
        for told, point in zip(tellers, points, strict=True)
    ]
    if not points or sum(owner is not None for owner in owners) * 2 < len(points):
        return False
    if len(points) == 1 and piece.part == "measurement" and owners[0] and owners[0].folder == piece.folder:
        return False
    for told, owner in zip(tellers, owners, strict=True):
        if owner is not None and owner.alone:
            _take_points(piece, told, Match(owner, 0.9, AGAIN))
        elif owner is not None:
            owner.attach(piece, AGAIN, 0.9)
    return True


def _owner(point: Measurement, drafts: Sequence[Draft]) -> Draft | None:
    return next(
        (one for one in drafts if any(is_same_point(mine, point) for mine in one.experiment.measurements)),
        None,
    )


def _again(told: Experiment, drafts: Sequence[Draft]) -> Match | None:
    owner = _owner(told.measurements[0], drafts) if len(told.measurements) == 1 else None
    return Match(owner, 0.9, AGAIN) if owner is not None and may_be(told, owner.experiment) else None


def _with_path(told: Experiment, piece: Piece) -> list[Measurement]:
    return [replace(one, path=piece.path) for one in told.measurements]


def _finished(draft: Draft, said: Mapping[str, Mapping[str, Any]], hints: Hints, find: Find) -> Assembled:
    experiment = draft.experiment
    for identity, *_ in draft.attached:
        if identity in said:
            experiment = say(experiment, said[identity])
    for piece, fields in () if draft.imported else hints.of(draft.folder):
        experiment = say(experiment, fields)
        draft.attach(piece, HOW, 1.0)
    if draft.alone:
        experiment, names = named_by(draft.folder, experiment)
        experiment = replace(experiment, said=tuple(sorted({*experiment.said, *names})))
    sources = tuple(path for _, path, _, _ in draft.attached)
    joined = tuple((path, how, sure) for _, path, how, sure in draft.attached[1:])
    run = experiment.run if draft.imported else run_id(draft.anchor, draft.ordinal)
    experiment = replace(experiment, run=run, sources=sources, joined=joined)
    experiment = experiment if draft.imported else completed(experiment, draft, find)
    return Assembled(
        anchor=draft.anchor,
        ordinal=draft.ordinal,
        site=draft.site,
        experiment=experiment,
        imported=draft.imported,
        attached=tuple(draft.attached),
        probes=tuple(draft.probes),
    )
