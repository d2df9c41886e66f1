"""Find and open sources: folders, globs, archives, pipes, compression, encodings, outer prefixes.

Owns what is true of every file before a format looks at it. Must not know any format. Memory stays flat: a
log of any size, and a line of any length, is read in chunks.
"""

from __future__ import annotations

import bz2
import codecs
import glob
import gzip
import io
import lzma
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import zstandard

from ingest.archives import DAMAGED, is_archive, members
from ingest.prefixes import Wrapper, clean_lines, find_wrappers
from ingest.screens import is_recorded, replay
from kb.errors import KbctlError

if TYPE_CHECKING:
    from ingest.samples import Samples

HEAD_BYTES = 64 * 1024
CHUNK_BYTES = 4 * 1024 * 1024
MAX_LINE_BYTES = 64 * 1024 * 1024
_MAGIC_BYTES = 512
_MOST_RECORDED = 1 << 20
_MOST_REPLAYED = 16 << 20
STDIN = "-"
BROKEN = DAMAGED
SKIPPED_FOLDERS = frozenset({".git", "__pycache__", ".venv", "node_modules", ".mypy_cache", ".ruff_cache"})


class Source:
    """One readable thing: a file, a member of an archive, or standard input.

    ``path`` is what the user sees; ``size`` its bytes on disk. All text is decoded (BOM, UTF-16,
    replacement for invalid bytes), and ``lines`` gives it without outer prefixes (docker, kubectl,
    journald), without ANSI sequences, and with carriage-return frames split, numbered from 1 as an editor
    would number them.
    ``trouble`` says why reading stopped early (a damaged archive, a vanished file), or is None.
    ``samples`` is where a trace's samples go; None where nobody keeps them.
    """

    def __init__(
        self,
        path: Path,
        raw: bytes | None = None,
        name: str | None = None,
        opener: Callable[[], BinaryIO] | None = None,
        size: int | None = None,
    ) -> None:
        self.path = path
        self.name = name or path.name
        self.trouble: str | None = None
        self.samples: Samples | None = None
        self._raw = raw
        self._opener = opener
        self._size = size

    @property
    def size(self) -> int:
        """Bytes on disk (or of the archive member)."""
        if self._size is not None:
            return self._size
        return len(self._raw) if self._raw is not None else self.path.stat().st_size

    def open(self) -> BinaryIO:
        """The decompressed bytes as a stream, a terminal's recording replayed; the caller closes it."""
        stream = self._open_raw()
        magic = stream.read(_MAGIC_BYTES)
        stream.seek(0)
        return self._replayed(stream) if is_recorded(magic) else decompressed(stream, magic)

    def _replayed(self, stream: BinaryIO) -> BinaryIO:
        """The screens that ``watch`` wrote for a terminal, one below the other."""
        with stream:
            data = stream.read(_MOST_RECORDED)
            is_cut = bool(stream.read(1))
        screens = io.BytesIO()
        for screen in replay(decode(data)):
            is_cut = is_cut or screens.tell() > _MOST_REPLAYED
            if screens.tell() > _MOST_REPLAYED:
                break
            screens.write(screen.encode())
        if is_cut:
            self.trouble = "of the recorded screens only the first were read"
        screens.seek(0)
        return screens

    def _open_raw(self) -> BinaryIO:
        if self._raw is not None:
            return io.BytesIO(self._raw)
        return self._opener() if self._opener is not None else self.path.open("rb")

    @cached_property
    def data(self) -> bytes:
        """Everything, decompressed. For small files (JSON, CSV); logs and traces stream instead."""
        return b"".join(self.blocks())

    def blocks(self, size: int = CHUNK_BYTES) -> Iterator[bytes]:
        """The decompressed bytes in blocks; ends early, with ``trouble`` set, where they cannot be read."""
        try:
            with self.open() as stream:
                while block := stream.read(size):
                    yield block
        except BROKEN as error:
            self.trouble = f"reading stopped early: {type(error).__name__}: {error}"

    @cached_property
    def head(self) -> str:
        """The first 64 KiB as text, outer prefixes stripped."""
        return "\n".join(
            text for _, text, _ in self._cleaned(enumerate(decode(self._head_bytes).split("\n"), 1))
        )

    @cached_property
    def raw_head(self) -> str:
        """The first 64 KiB as text, as it stands: for tables, whose rows may begin with a time."""
        return decode(self._head_bytes)

    @cached_property
    def _head_bytes(self) -> bytes:
        return next(self.blocks(HEAD_BYTES), b"")

    @cached_property
    def wrappers(self) -> tuple[Wrapper, ...]:
        """The outer prefixes that the first lines carry, outermost first."""
        return find_wrappers(decode(self._head_bytes).split("\n"))

    @property
    def text(self) -> str:
        """Everything as text, as it stands (no prefix stripped)."""
        return decode(self.data)

    def start(self, most: int) -> str:
        """Its first ``most`` bytes as text, as it stands: for what is small when it is what it seems."""
        if self.size <= most and "data" in self.__dict__:
            return self.text
        held, size = list[bytes](), 0
        for block in self.blocks():
            held.append(block[: most - size])
            size += len(block)
            if size >= most:
                break
        return decode(b"".join(held))

    def lines(self) -> Iterator[tuple[int, str]]:
        """(line number, clean text) for every line."""
        for number, text, _ in self.stamped_lines():
            yield number, text

    def stamped_lines(self) -> Iterator[tuple[int, str, str | None]]:
        """(line number, clean text, outer prefix's time as printed) for every line."""
        return self._cleaned(self._numbered())

    def _cleaned(self, numbered: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str, str | None]]:
        return clean_lines(((number, line.rstrip("\r")) for number, line in numbered), self.wrappers)

    def _numbered(self) -> Iterator[tuple[int, str]]:
        for first, lines in self.chunks():
            for number, line in enumerate(lines, first):
                yield number, line.decode("utf-8", "replace")

    def chunks(self, limit: int = MAX_LINE_BYTES) -> Iterator[tuple[int, list[bytes]]]:
        """(number of the first line, raw UTF-8 lines) a few MiB at a time; long ones are cut at ``limit``."""
        number, held, size = 1, [b""], 0
        for block in self._utf8_blocks():
            lines = block.split(b"\n")
            if size < limit:
                held.append(lines[0][: limit - size])
            if len(lines) == 1:
                size += len(block)
                continue
            lines[0] = b"".join(held)
            held = [lines.pop()]
            size = len(held[0])
            yield number, lines
            number += len(lines)
        if last := b"".join(held):
            yield number, [last]

    def _utf8_blocks(self) -> Iterator[bytes]:
        blocks = self.blocks()
        first = next(blocks, b"")
        encoding = utf16_of(first)
        if encoding is None:
            yield first.removeprefix(codecs.BOM_UTF8)
            yield from blocks
            return
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        yield decoder.decode(first).lstrip("\ufeff").encode("utf-8", "replace")
        for block in blocks:
            yield decoder.decode(block).encode("utf-8", "replace")


def decompressed(stream: BinaryIO, magic: bytes) -> BinaryIO:
    """The stream behind gzip, zstd, bzip2 or xz; as it is where its first bytes are none of these."""
    if magic[:2] == b"\x1f\x8b":
        return cast(BinaryIO, gzip.GzipFile(fileobj=stream))
    if magic[:4] == b"\x28\xb5\x2f\xfd":
        return cast(BinaryIO, zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True))
    if magic[:3] == b"BZh":
        return cast(BinaryIO, bz2.BZ2File(stream))
    if magic[:6] == b"\xfd7zXZ\x00":
        return cast(BinaryIO, lzma.LZMAFile(stream))
    return stream


def utf16_of(data: bytes) -> str | None:
    """The UTF-16 codec that these first bytes need, by BOM or by their zero bytes; None for anything else."""
    if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16-le" if data[:2] == codecs.BOM_UTF16_LE else "utf-16-be"
    sample = data[:512]
    if len(sample) < 8 or sample.count(0) < len(sample) * 0.4:
        return None
    if sample[1::2].count(0) >= 0.8 * len(sample[1::2]) and sample[0::2].count(0) == 0:
        return "utf-16-le"
    if sample[0::2].count(0) >= 0.8 * len(sample[0::2]) and sample[1::2].count(0) == 0:
        return "utf-16-be"
    return None


def decode(data: bytes) -> str:
    """Text of bytes in UTF-8 or UTF-16; invalid bytes become U+FFFD."""
    encoding = utf16_of(data)
    if encoding is None:
        return data.decode("utf-8-sig", "replace")
    return data.decode(encoding, "replace").lstrip("\ufeff")


def find_sources(paths: list[Path]) -> Iterator[Source]:
    """Every source under the given files, folders, globs, archives, and ``-``, in a stable order.

    Raises KbctlError for a path that is not there and for a glob that matches nothing.
    """
    for path in paths:
        if str(path) == STDIN:
            yield _spooled(Path(STDIN), sys.stdin.buffer)
        else:
            yield from _found(path)


def _found(path: Path) -> Iterator[Source]:
    if path.is_dir():
        yield from (source for one in _files_under(path) for source in _opened(one))
    elif path.exists():
        yield from _opened(path)
    elif matches := sorted(glob.glob(str(path), recursive=True)):  # noqa: PTH207 - the pattern may be absolute
        yield from (source for one in matches for source in _found(Path(one)))
    else:
        what = "no file matches" if glob.has_magic(str(path)) else "no such file or folder"
        raise KbctlError(
            f"{what}: {path}", where=str(path), tip="check the spelling; `-` reads standard input"
        )


def _files_under(folder: Path) -> Iterator[Path]:
    for one in sorted(folder.rglob("*")):
        if one.is_file() and not SKIPPED_FOLDERS.intersection(one.relative_to(folder).parts):
            yield one


def _opened(path: Path) -> Iterator[Source]:
    if not path.is_file():
        with path.open("rb") as stream:
            yield _spooled(path, stream)
    elif is_archive(path):
        yield from _unpacked(path)
    else:
        yield Source(path)


def _unpacked(path: Path) -> Iterator[Source]:
    """The members of an archive; one whose contents cannot be told is a source without text that says so."""
    count, what = 0, "no file is in it"
    try:
        for name, size, opener in members(path):
            count += 1
            yield Source(path / name, name=Path(name).name or path.name, opener=opener, size=size)
    except DAMAGED as error:
        what = f"{type(error).__name__}: {error}"
    if not count:
        empty = Source(path, b"", size=path.stat().st_size)
        empty.trouble = f"the archive is damaged or empty: {what}"
        yield empty


def _spooled(path: Path, stream: BinaryIO) -> Source:
    """A source of a pipe: its bytes go to a temporary file, so that they can be read twice in flat memory."""
    spool = tempfile.NamedTemporaryFile(prefix="kbctl-")  # noqa: SIM115 - lives as long as the source
    shutil.copyfileobj(stream, spool, CHUNK_BYTES)
    spool.flush()

    def reopen() -> BinaryIO:
        return Path(spool.name).open("rb")

    return Source(path, name="stdin" if str(path) == STDIN else path.name, opener=reopen, size=spool.tell())
