"""Which benchmark files without a server belong to one run.

Owns the key that such files share. Must not join them to a server.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from ingest.homes import LOAD, home, of_loads
from ingest.matching import Piece
from kb.model import Experiment

CROWD = 6
NOTES = frozenset({"run", "meta"})  # keys of what a runner's note tells beside settings


def notes_of_folders(pieces: Iterable[Piece]) -> dict[str, Experiment]:
    """What a folder's one note of its run says of it, for every folder with exactly one."""
    found: dict[str, list[Experiment]] = {}
    for piece in pieces:
        if piece.part == "config" and piece.reading.experiments and NOTES & piece.reading.extra.keys():
            found.setdefault(piece.folder, []).append(piece.reading.experiments[0])
    return {folder: told[0] for folder, told in found.items() if len(told) == 1}


def crowded_folders(pieces: Iterable[Piece]) -> set[str]:
    """Folders in which benchmarks of so many names lie that they are hardly all of one server."""
    names: dict[str, set[str]] = {}
    for piece in pieces:
        if piece.part == "measurement":
            names.setdefault(piece.folder, set()).add(_stem(piece))
    return {folder for folder, stems in names.items() if len(stems) >= CROWD}


def _stem(piece: Piece) -> str:
    """A file's name without the number after the name of a load, or at its end."""
    name = PurePosixPath(piece.path).name.split(".")[0].lower()
    return re.sub(LOAD, r"\1", name)


def note_for(piece: Piece, notes: Mapping[str, Experiment]) -> tuple[str, Experiment | None]:
    """(folder, note): the note of the run that a benchmark file belongs to, and where it lies."""
    folder = next((one for one in (piece.folder, home(piece.folder)) if one in notes), piece.folder)
    return folder, notes.get(folder)


def series_key(piece: Piece, told: Experiment, folder: str, noted: Experiment | None) -> str:
    """One key for benchmark files of a folder that differ only in a number after the name of a load.

    A ``folder`` with a note of its run holds one run, as far as nothing in a file speaks against it.
    """
    if noted is not None and may_be(told, noted):
        return hashlib.blake2b(repr((folder, "noted")).encode(), digest_size=16).hexdigest()
    stem = _stem(piece)
    hardware, model, backend = told.hardware, told.model, told.backend
    facts = (of_loads(piece.folder), stem, model.name, backend.engine, hardware.gpu, hardware.count)
    return hashlib.blake2b(repr(facts).encode(), digest_size=16).hexdigest()


def may_be(told: Experiment, noted: Experiment) -> bool:
    """Whether what a file says of its server agrees with the note beside it."""
    pairs = (
        (told.backend.engine, noted.backend.engine),
        (told.model.id, noted.model.id),
        (told.hardware.gpu, noted.hardware.gpu),
    )
    return all(a is None or b is None or a == b for a, b in pairs)
