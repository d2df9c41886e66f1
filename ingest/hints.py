"""What kbctl.toml says of the files of its folder and below: fields that they lack, and how they are joined.

Owns which file speaks of which (the nearest one above first). Must not read it, and must not change a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from ingest.matching import Draft, Piece

PART = "said"
HINTS = "separate"  # the key of a reading's extra that only kbctl.toml gives
HOW = "what kbctl.toml says of its folder"


@dataclass(frozen=True, slots=True)
class Hints:
    """The kbctl.toml files of a region, those of the deepest folders first."""

    files: tuple[Piece, ...] = ()

    @classmethod
    def among(cls, pieces: Iterable[Piece]) -> Hints:
        """The hints among these pieces."""
        found = {one.identity: one for one in pieces if one.part == PART}
        return cls(tuple(sorted(found.values(), key=lambda one: (-len(one.folder), one.path))))

    def of(self, folder: str) -> list[tuple[Piece, Mapping[str, Any]]]:
        """(file, its fields of a run) for everything said of a folder, nearest first."""
        return [(one, one.reading.extra.get("said") or {}) for one in self._above(folder)]

    def is_separate(self, piece: Piece) -> bool:
        """Whether a file is to be joined to no run."""
        names = (
            name for one in self._above(piece.folder) for name in one.reading.extra.get("separate") or ()
        )
        return any(_fits(piece.path, name) for name in names)

    def joined(self, piece: Piece, drafts: Sequence[Draft]) -> list[Draft]:
        """The runs that a file is to be joined to, by the name of the log that they start in."""
        logs = [
            log
            for one in self._above(piece.folder)
            for name, log in (one.reading.extra.get("join") or {}).items()
            if _fits(piece.path, name)
        ]
        return [one for one in drafts if any(_fits(one.attached[0][1], log) for log in logs)]

    def _above(self, folder: str) -> list[Piece]:
        return [one for one in self.files if folder == one.folder or folder.startswith(f"{one.folder}/")]


def _fits(path: str, pattern: str) -> bool:
    """Whether the end of a path is as a pattern says: a name, or a name below some folders."""
    parts = PurePosixPath(path).parts[-max(1, len(PurePosixPath(pattern).parts)) :]
    return fnmatchcase("/".join(parts), pattern)
