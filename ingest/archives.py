"""Archives as folders: the members of zip and tar files (gzip, bzip2, xz, zstd), one opener each.

Owns unpacking. Must not write outside temporary files, must not know what members hold. A damaged archive
gives the members before the damage.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

ARCHIVE_SUFFIXES = (
    ".zip",
    ".tar",
    ".tgz",
    ".tar.gz",
    ".tbz2",
    ".tar.bz2",
    ".txz",
    ".tar.xz",
    ".tar.zst",
    ".tzst",
)
MAX_MEMBERS = 100_000
MAX_UNPACKED_BYTES = 64 << 30
COPY_BYTES = 4 << 20

DAMAGED = (
    OSError,
    EOFError,
    ValueError,
    OverflowError,
    RuntimeError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    zstandard.ZstdError,
    tarfile.TarError,
    zipfile.BadZipFile,
)

Member = tuple[str, int, Callable[[], BinaryIO]]


def is_archive(path: Path) -> bool:
    """Whether the file's name and its first bytes are those of an archive."""
    name = path.name.lower()
    if not name.endswith(ARCHIVE_SUFFIXES):
        return False
    return zipfile.is_zipfile(path) if name.endswith(".zip") else True


def members(path: Path) -> Iterator[Member]:
    """(name inside the archive, size in bytes, opener) of each regular member, in the archive's order.

    Raises one of ``DAMAGED`` where a zip's directory cannot be read; a tar gives what stands before the
    damage.
    """
    return _zip_members(path) if path.name.lower().endswith(".zip") else _tar_members(path)


def _zip_members(path: Path) -> Iterator[Member]:
    with zipfile.ZipFile(path) as archive:
        named = [one for one in archive.infolist() if one.filename]  # damage can take a name away
    entries = [one for one in named if not one.is_dir()][:MAX_MEMBERS]
    for entry in sorted(entries, key=lambda one: one.filename):
        yield entry.filename, entry.file_size, partial(_open_zip_member, path, entry.filename)


def _open_zip_member(path: Path, name: str) -> BinaryIO:
    try:
        return cast(BinaryIO, zipfile.ZipFile(path).open(name))
    except (*DAMAGED, KeyError) as error:
        raise OSError(f"member {name} cannot be unpacked: {error}") from error


def _tar_members(path: Path) -> Iterator[Member]:
    plain = _plain_tar(path)
    found: list[tuple[str, int, int]] = []
    try:
        with plain.open() as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
            for entry in archive:
                if entry.isreg() and len(found) < MAX_MEMBERS:
                    found.append((entry.name, entry.size, entry.offset_data))
    except DAMAGED:
        pass  # what stood before the damage is still there
    for name, size, offset in sorted(found):
        yield name, size, partial(plain.member, offset, size)


class _PlainTar:
    """An uncompressed tar: the file itself, or a temporary copy that lives as long as its members."""

    def __init__(self, path: Path, copy: object = None) -> None:
        self._path, self._copy = path, copy

    def open(self) -> BinaryIO:
        return self._path.open("rb")

    def member(self, offset: int, size: int) -> BinaryIO:
        return cast(BinaryIO, io.BufferedReader(_Window(self._path, offset, size), 1 << 16))


class _Window(io.RawIOBase):
    """A part of a file as a seekable stream of its own."""

    def __init__(self, path: Path, offset: int, size: int) -> None:
        self._file, self._offset, self._size, self._at = path.open("rb"), offset, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, at: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, min(self._size, base + at))
        return self._at

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast(bytearray, buffer))[: self._size - self._at]
        self._file.seek(self._offset + self._at)
        count = self._file.readinto(view)
        self._at += count
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def _plain_tar(path: Path) -> _PlainTar:
    name = path.name.lower()
    if name.endswith(".tar"):
        return _PlainTar(path)
    copy = tempfile.NamedTemporaryFile(prefix="kbctl-")  # noqa: SIM115 - lives as long as the members
    try:
        with _decompress(path) as stream:
            _copy_bounded(stream, cast(BinaryIO, copy))
    except DAMAGED:
        pass  # a truncated archive still has its first members
    copy.flush()
    return _PlainTar(Path(copy.name), copy)


def _decompress(path: Path) -> BinaryIO:
    name = path.name.lower()
    if name.endswith((".tar.zst", ".tzst")):
        return cast(BinaryIO, zstandard.ZstdDecompressor().stream_reader(path.open("rb"), closefd=True))
    if name.endswith((".tbz2", ".tar.bz2")):
        return cast(BinaryIO, bz2.open(path))
    if name.endswith((".txz", ".tar.xz")):
        return cast(BinaryIO, lzma.open(path))
    return cast(BinaryIO, gzip.open(path))


def _copy_bounded(source: BinaryIO, target: BinaryIO) -> None:
    left = MAX_UNPACKED_BYTES
    while left > 0 and (block := source.read(min(COPY_BYTES, left))):
        target.write(block)
        left -= len(block)
