"""Tell a new file from one that grew and from one already read.

Owns the two hashes of a source: its bytes, and its identity (path and head). Must not parse.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from blake3 import blake3

from ingest.redact import redact
from ingest.sources import STDIN, Source

HEAD_BYTES = 4096
CHUNK_BYTES = 1 << 20
DIGEST_BYTES = 20
KEY = b"kbctl identity of a source, 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """``source``: BLAKE3 of the bytes; ``identity``: keyed hash of path and head; ``size`` in bytes.

    ``grown`` is whether the first bytes are exactly those of the earlier reading.
    """

    source: str
    identity: str
    size: int
    grown: bool = False


def fingerprint(source: Source, earlier: tuple[str, int] | None = None) -> Fingerprint:
    """Hash one source; ``earlier`` is (source hash, size) of what was read at its path before."""
    whole, prefix = blake3(), ""
    head, size = b"", 0
    with closing(_stream(source)) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            head = head or chunk[:HEAD_BYTES]
            if earlier and size <= earlier[1] < size + len(chunk):
                start = whole.copy()
                start.update(chunk[: earlier[1] - size])
                prefix = start.hexdigest(DIGEST_BYTES)
            whole.update(chunk)
            size += len(chunk)
    return Fingerprint(
        source=whole.hexdigest(DIGEST_BYTES),
        identity=identity(stored_path(source), head),
        size=size,
        grown=bool(earlier) and prefix == (earlier or ("", 0))[0],
    )


def identity(path: str, head: bytes) -> str:
    """The keyed hash that stays the same while a file grows."""
    told = hashlib.blake2b(key=KEY, digest_size=16)
    told.update(path.encode("utf-8", "surrogateescape") + b"\0" + head)
    return told.hexdigest()


def stored_path(source: Source) -> str:
    """The path as the store keeps it: absolute, the user's home folder as ``~``, no other user's name."""
    if str(source.path) == STDIN:
        return STDIN
    return _kept_path(os.path.abspath(source.path), _home())  # noqa: PTH100 - links stay as the user named them


def _home() -> str:
    return os.path.expanduser("~")  # noqa: PTH111 - asked for every file, and far cheaper than a Path


def _folded(path: str, home: str) -> str:
    inside = len(home) > 1 and (path == home or path.startswith(home + os.sep))
    return "~" + path[len(home) :] if inside else path


@lru_cache(maxsize=4096)
def _kept_path(path: str, home: str) -> str:
    return redact(_folded(path, home))


def unfold_home(path: str) -> Path:
    """The file that a stored path stands for."""
    return Path(path).expanduser() if path.startswith("~") else Path(path)


def _stream(source: Source) -> BinaryIO:
    return source.path.open("rb") if source.path.is_file() else source.open()
