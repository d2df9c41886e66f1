"""Snapshots of machines (nvidia-smi, topology, drivers) to the runs that ran on them.

Owns when a snapshot may speak: those that reach a run must describe one machine, which could be the run's.
A machine's number of GPUs is not that of a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ingest.enrich import enrich
from ingest.matching import Draft, Piece
from kb.model import Hardware, Outcome


def describe_machines(pairs: Iterable[tuple[Draft, Piece]]) -> None:
    """Give every run the facts of the machine snapshots that reach it, those of its own folder first."""
    near: dict[int, list[Piece]] = {}
    far: dict[int, list[Piece]] = {}
    drafts: dict[int, Draft] = {}
    for draft, piece in pairs:
        drafts[id(draft)] = draft
        (near if piece.folder == draft.folder else far).setdefault(id(draft), []).append(piece)
    for pieces_of in (near, far):
        for key, pieces in pieces_of.items():
            _describe(drafts[key], pieces)


def _describe(draft: Draft, pieces: Sequence[Piece]) -> None:
    told = [(piece, one) for piece in pieces for one in piece.reading.experiments]
    machines = [one.hardware for _, one in told]
    if not _one_machine([draft.experiment.hardware, *machines]):
        return
    for piece, one in told:
        alone = one.hardware.count == 1
        hardware = one.hardware if alone else one.hardware._replace(count=None)
        draft.experiment = enrich(draft.experiment, replace(one, hardware=hardware, outcome=Outcome()))
        draft.attach(piece, "describes the machine", 0.7)


def _one_machine(told: Iterable[Hardware]) -> bool:
    """Whether nothing that is told of GPU, architecture, driver contradicts itself."""
    for name in ("gpu", "arch", "driver"):
        values = {value for one in told if (value := getattr(one, name)) is not None}
        if len(values) > 1:
            return False
    return True
