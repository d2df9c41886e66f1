"""Which runs a file is named after: what the log of a run is called stands in its name, or in its folder's.

Owns how names of files and folders are compared. Must not look at what files hold.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import PurePosixPath
from typing import NamedTuple

# Words of a log's name that say what it is, not of which run.
_GENERIC = re.compile(
    r"servers?|serve|serving|logs?|out|outputs?|std(?:out|err)|err(?:ors?)?|bench(?:mark)?s?|results?|runs?|"
    r"jsonl?|txt|csv|md|gz|zst|tests?|start(?:ed|up)?|launch|boot|engine|container|docker|console|final|raw|full"
)
_FEW = 2


class Named(NamedTuple):
    """How a file's name fits a run's: ``fully`` named after it, and if so by words that are ``telling``."""

    fully: bool
    telling: bool = True


def fitting(path: str, logs: Sequence[str]) -> dict[int, Named]:
    """Of several runs' logs, those that a file's name fits best, by their place in the sequence.

    A file that is named after one log (all its telling words stand in the file's name or in that of a folder
    that the log does not lie in) speaks of no log that is named less fully.
    """
    keys = [_key(one) for one in logs]
    words = [_words(path, one) for one in logs]
    whole = {at: len(key) for at, key in enumerate(keys) if key and key <= words[at]}
    if whole and len({frozenset(key) for key in keys}) > 1:
        most = max(whole.values())
        return {at: Named(fully=True, telling=_tells(keys[at])) for at, size in whole.items() if size == most}
    shared = {at: len(_telling(keys[at]) & words[at]) for at in range(len(logs))}
    most = max(shared.values(), default=0)
    return {at: Named(fully=False) for at, size in shared.items() if size == most > 0}


def _tells(key: frozenset[str]) -> bool:
    """Whether a log's words are enough to find it by: several, or one that is no plain word or number."""
    return len(key) >= _FEW or any(re.search(r"\d", one) and len(one) > 5 for one in key)


def _telling(key: frozenset[str]) -> frozenset[str]:
    return frozenset(one for one in key if len(one) > 1 and not one.isdecimal())


@lru_cache(maxsize=4096)
def _key(log: str) -> frozenset[str]:
    """The telling words of a log's name; those of its folder, where the name has none."""
    path = PurePosixPath(log)
    return _split(_stem(path)) or _split(path.parent.name)


@lru_cache(maxsize=16384)
def _words(path: str, log: str) -> frozenset[str]:
    """The words of a file's name and of the folders that lead to it from where the log lies."""
    mine, theirs = PurePosixPath(path), PurePosixPath(log)
    apart = [one for one in mine.parent.parts if one not in theirs.parent.parts]
    return frozenset().union(*(_split(one) for one in (_stem(mine), *apart)))


def _stem(path: PurePosixPath) -> str:
    return re.sub(r"(?:\.[a-z]{1,7}\d?)+$", "", path.name.lower())


def _split(name: str) -> frozenset[str]:
    words = re.split(r"[^a-z0-9]+", name.lower())
    return frozenset(one for one in words if one and not _GENERIC.fullmatch(one))
