"""Find and open sources: folders, globs, archives, compression, encodings, outer prefixes.

Owns what is true of every file before a format looks at it. Must not know any format.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import zstandard

HEAD_BYTES = 64 * 1024
TAIL_BYTES = 16 * 1024


class Source:
    """One readable thing: a file, a member of an archive, or standard input.

    ``path`` is what the user sees; ``size`` its bytes on disk. All text is decoded (BOM, UTF-16, replacement
    for invalid bytes), and ``lines`` gives it without outer prefixes (docker, kubectl, journald), without ANSI
    sequences, and with carriage-return frames split, numbered from 1 as an editor would number them.
    """

    def __init__(self, path: Path, raw: bytes | None = None, name: str | None = None) -> None:
        self.path = path
        self.name = name or path.name
        self._raw = raw

    @property
    def size(self) -> int:
        """Bytes on disk (or of the archive member)."""
        return len(self._raw) if self._raw is not None else self.path.stat().st_size

    def open(self) -> BinaryIO:
        """The decompressed bytes as a stream; the caller closes it."""
        stream: BinaryIO = io.BytesIO(self._raw) if self._raw is not None else self.path.open("rb")
        magic = stream.read(4)
        stream.seek(0)
        if magic[:2] == b"\x1f\x8b":
            return gzip.GzipFile(fileobj=stream)  # type: ignore[return-value]
        if magic == b"\x28\xb5\x2f\xfd":
            return zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)  # type: ignore[return-value]
        return stream

    @cached_property
    def data(self) -> bytes:
        """Everything, decompressed. For small files (JSON, CSV); logs and traces stream instead."""
        with self.open() as stream:
            return stream.read()

    @cached_property
    def head(self) -> str:
        """The first 64 KiB as text, outer prefixes stripped."""
        with self.open() as stream:
            return "\n".join(_clean(decode(stream.read(HEAD_BYTES))))

    @property
    def text(self) -> str:
        """Everything as text, as it stands (no prefix stripped)."""
        return decode(self.data)

    def lines(self) -> Iterator[tuple[int, str]]:
        """(line number, clean text) for every line."""
        yield from enumerate(_clean(self.text), start=1)


def decode(data: bytes) -> str:
    """Text of bytes in UTF-8 or UTF-16 (by BOM); invalid bytes become U+FFFD."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "replace")


def _clean(text: str) -> list[str]:
    return text.replace("\r\n", "\n").split("\n")


def find_sources(paths: list[Path]) -> Iterator[Source]:
    """Every source under the given files and folders, in a stable order."""
    for path in paths:
        if path.is_dir():
            yield from (Source(one) for one in sorted(path.rglob("*")) if one.is_file())
        else:
            yield Source(path)
