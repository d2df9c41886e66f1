"""Files into the store: skip what is known, read what is new, keep each source whole or not at all.

Owns the loop of an ingest and what it reports. Must not decide what belongs to which run (ingest.folders
does) nor how rows are stored. Stopping it at any moment loses nothing that a second ingest would not add.
"""

from __future__ import annotations

import json
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from ingest.assembly import Change, assemble_pending
from ingest.fingerprint import Fingerprint, fingerprint, stored_path, unfold_home
from ingest.folders import part_of
from ingest.formats import all_formats
from ingest.large_trace import is_large_trace
from ingest.pipeline import in_order, read
from ingest.samples import Samples
from ingest.sources import Source, find_sources
from kb.errors import KbctlError
from kb.model import Reading
from kb.store import Store, open_store
from kb.store.claims import Claim, said_of_sources
from kb.store.runs import effects
from kb.store.samples import drop_traces, trace_number
from kb.store.sources import (
    Known,
    Taken,
    add_sources,
    first_of_bytes,
    folder_parts,
    known_sources,
    mark_pending,
)
from kb.wire import compact, reading_to_wire

EXIT_STOPPED = 130
BATCH_S = 2.0
LONGEST_S = 15.0
WORTH = 20.0  # how much longer sources are read than a write of them took
BATCH_BYTES = 16 << 20
EDITED = frozenset({"kbctl.toml"})  # what a user changes is the same file still
OBSERVATIONS = frozenset({"anchor", "metadata", "measurement", "trace", "probe"})
Notice = Callable[[str], None]
Watch = Callable[["Look", int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One source to take in, with what the store knows about its path.

    Samples of a trace wait in the folder ``scratch``, or go into ``store``, which is open in a transaction.
    """

    source: Source
    known: Known | None
    versions: Mapping[str, int]
    again: bool = False
    columns: tuple[str, ...] = ()
    scratch: Path | None = None
    store: Store | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What came of one source: ``fate`` is new | grown | reread | known | unopened."""

    path: str
    fate: str
    size: int
    identity: str
    format: str
    status: str
    reason: str | None
    taken: Taken | None


@dataclass(slots=True, kw_only=True)
class Report:
    """What an ingest did, for the summary and ``--json``."""

    fates: Counter[str] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    not_understood: list[dict[str, str | None]] = field(default_factory=list)
    size: int = 0
    change: Change = field(default_factory=Change)
    effects: dict[str, int] = field(default_factory=dict)

    def add(self, look: Look) -> None:
        """Count one source."""
        self.fates[look.fate] += 1
        self.formats[look.format] += 1
        self.size += look.size
        if look.status in ("unknown", "refused"):
            self.not_understood.append({"path": look.path, "status": look.status, "reason": look.reason})


def ingest(
    paths: Iterable[Path],
    store_path: Path | None,
    *,
    said: Mapping[str, Any] | None = None,
    notice: Notice | None = None,
    watch: Watch | None = None,
) -> Report:
    """Take every source under the paths into the store and assemble the runs that this changes.

    ``said`` holds fields that the user supplies for these sources; ``watch`` is told (source, bytes so far,
    bytes in all) after each. Raises StoreError when the store cannot be written.
    """
    sources = _distinct(find_sources(list(paths)))
    with open_store(store_path, write=True, notice=notice) as store:
        known = known_sources(store)
    versions = parser_versions()
    columns = tuple((said or {}).get("columns", ()))
    jobs = [
        Job(source=one, known=known.get(stored_path(one)), versions=versions, columns=columns)
        for one in sources
    ]
    return _take_in(jobs, Batch(store_path, said or {}, notice), watch)


def rebuild(
    store_path: Path | None,
    *,
    everything: bool = False,
    notice: Notice | None = None,
    watch: Watch | None = None,
) -> Report:
    """Read again the files whose parser changed (or all of them), and assemble every run anew.

    A file that is gone keeps its earlier reading. Raises StoreError when the store cannot be written.
    """
    with open_store(store_path, write=True, notice=notice) as store:
        known = known_sources(store)
        said = said_of_sources(store)
        mark_pending(store, folder_parts(store))
    versions = parser_versions()
    jobs = [
        Job(
            source=Source(unfold_home(path)),
            known=one,
            versions=versions,
            again=True,
            columns=tuple(said.get(one.identity, {}).get("columns", ())),
        )
        for path, one in known.items()
        if (everything or not _is_current(one, versions)) and unfold_home(path).is_file()
    ]
    return _take_in(jobs, Batch(store_path, {}, notice), watch)


def _take_in(jobs: Sequence[Job], batch: Batch, watch: Watch | None) -> Report:
    report = Report()
    total = sum(one.source.size for one in jobs)
    with TemporaryDirectory(prefix="kbctl-") as scratch:
        mine = [replace(one, scratch=Path(scratch)) for one in jobs]
        try:
            for look in _looks(mine, batch, total):
                report.add(look)
                if watch is not None:
                    watch(look, report.size, total)
        except KeyboardInterrupt:
            batch.flush()
            what = f"stopped after {report.fates.total()} of {len(jobs)} files; these are kept"
            raise KbctlError(what, tip="the same command goes on from here", code=EXIT_STOPPED) from None
        with open_store(batch.store_path, write=True, notice=batch.notice) as store:
            batch.flush_into(store)
            report.change = assemble_pending(store)
            report.effects = effects(store)
    return report


def _looks(jobs: Sequence[Job], batch: Batch, total: int) -> Iterator[Look]:
    """What comes of every source, held or written already; large traces come last, one by one."""
    large = [one for one in jobs if is_large_trace(one.source)]
    rest = [one for one in jobs if one not in large] if large else jobs
    for look in in_order(look_at, rest, len(rest), total):
        batch.add(look)
        yield look
    for job in large:
        yield batch.take_large(job)


def parser_versions() -> dict[str, int]:
    """format -> version of its parser; what no format knows is of the version of all of them together."""
    versions = {one.name: one.version for one in all_formats()}
    return {"unknown": zlib.crc32(repr(sorted(versions.items())).encode()) >> 1, **versions}


def look_at(job: Job) -> Look:
    """Hash one source and, unless the store has these bytes from this parser already, read it."""
    known = job.known
    try:
        print_ = fingerprint(job.source, (known.source, known.size) if known else None)
    except OSError as error:
        return _unopened(job, f"cannot be opened: {error.strerror or error}")
    same = known is not None and known.source == print_.source
    helped = bool(job.columns) and known is not None and known.status == "refused"
    if known and same and not job.again and not helped and _is_current(known, job.versions):
        return _as_known(job, known, print_)
    edited = job.source.name in EDITED
    keep = known.identity if known and (same or print_.grown or edited) else print_.identity
    fate = "new" if known is None or keep != known.identity else "reread" if same else "grown"
    if job.scratch is not None:
        job.source.samples = Samples(job.scratch, trace_number(keep), job.store)
    return _look(job, take(read(job.source, job.columns), job, replace(print_, identity=keep)), fate)


def take(reading: Reading, job: Job, print_: Fingerprint) -> Taken:
    """A reading as the row that the store keeps."""
    path = stored_path(job.source)
    samples = job.source.samples
    useful = reading.status in ("parsed", "partial") and bool(
        reading.experiments or reading.telemetry or reading.extra or reading.kind != "unknown"
    )
    reason = "; ".join(problem.what for problem in reading.problems[:3]) or None
    return Taken(
        identity=print_.identity,
        source=print_.source,
        path=path,
        folder=str(PurePosixPath(path).parent),
        name=PurePosixPath(path).name,
        size=print_.size,
        format=reading.format,
        kind=reading.kind,
        parser_version=job.versions.get(reading.format, 0),
        status=reading.status,
        reason=reason,
        part=part_of(reading),
        same_as=None,
        reading=compact(reading_to_wire(replace(reading, path=path))) if useful else "",
        samples=samples.close() if samples is not None and useful else (),
        loaded=samples is not None and samples.loaded and useful,
    )


class Batch:
    """Sources on their way into the store, written whole, several to a transaction."""

    def __init__(self, store_path: Path | None, said: Mapping[str, Any], notice: Notice | None) -> None:
        self.store_path, self.notice = store_path, notice
        self.said = json.dumps(dict(said), sort_keys=True) if said else ""
        self.taken: list[Taken] = []
        self.claims: list[Claim] = []
        self.since, self.pause, self.held = time.monotonic(), BATCH_S, 0

    def add(self, look: Look) -> None:
        """Hold one source; write when enough are held."""
        self._hold(look)
        if self.held > BATCH_BYTES or time.monotonic() - self.since > self.pause:
            self.flush()

    def flush(self) -> None:
        """Write what is held."""
        if self.taken or self.claims:
            begun = time.monotonic()
            with open_store(self.store_path, write=True, notice=self.notice) as store:
                self.flush_into(store)
            self.pause = min(max(BATCH_S, WORTH * (time.monotonic() - begun)), LONGEST_S)
        self._forget_held()

    def flush_into(self, store: Store) -> None:
        """The same into a store that is open."""
        if self.taken or self.claims:
            with store.transaction():
                self._write(store)
        self._forget_held()

    def take_large(self, job: Job) -> Look:
        """Read a large trace straight into the store, in one transaction with all else about it."""
        self.flush()
        try:
            with open_store(self.store_path, write=True, notice=self.notice) as store, store.transaction():
                look = look_at(replace(job, store=store))
                self._hold(look)
                kept = self._write(store)
                samples = job.source.samples
                if samples is not None and samples.loaded and not any(one.loaded for one in kept):
                    drop_traces(store, [samples.trace])
        finally:
            self._forget_held()  # written, or undone as a whole
        return look

    def _hold(self, look: Look) -> None:
        if look.taken is not None:
            self.taken.append(look.taken)
            self.held += len(look.taken.reading)
        if self.said and look.identity:
            self.claims.append(Claim(kind="said", target=look.identity, value=self.said))

    def _write(self, store: Store) -> list[Taken]:
        marked = mark_same(store, self.taken)
        add_sources(store, marked, self.claims)
        return marked

    def _forget_held(self) -> None:
        for path in (path for one in self.taken for path in one.samples):
            Path(path).unlink(missing_ok=True)
        self.taken, self.claims, self.since, self.held = [], [], time.monotonic(), 0


def mark_same(store: Store, taken: list[Taken]) -> list[Taken]:
    """Sources whose bytes are stored from another place under their name point to the first and tell nothing.

    Only for what was observed once (a log, a recorder's file, a benchmark, a trace): the same configuration
    in two run folders speaks about both runs.
    """
    firsts = first_of_bytes(store, [one.source for one in taken])
    found = []
    for one in taken:
        first = firsts.setdefault((one.source, one.name), one.identity)
        if first != one.identity and one.part in OBSERVATIONS:
            found.append(_repeated(one, first))
        else:
            found.append(one)
    return found


def _repeated(one: Taken, first: str) -> Taken:
    empty = replace(one, reading="", samples=(), loaded=False)
    return replace(empty, same_as=first, status="same", reason="the same bytes as before")


def _distinct(sources: Iterable[Source]) -> list[Source]:
    return list({stored_path(one): one for one in sources}.values())


def _is_current(known: Known, versions: Mapping[str, int]) -> bool:
    """Whether today's parser would read the same from the same bytes."""
    if known.status in ("same", "forgotten"):
        return True
    return known.format in versions and versions[known.format] == known.parser_version


def _as_known(job: Job, known: Known, print_: Fingerprint) -> Look:
    return Look(
        path=str(job.source.path),
        fate="known",
        size=print_.size,
        identity=known.identity,
        format=known.format,
        status=known.status,
        reason=known.reason,
        taken=None,
    )


def _look(job: Job, taken: Taken, fate: str) -> Look:
    return Look(
        path=str(job.source.path),
        fate=fate,
        size=taken.size,
        identity=taken.identity,
        format=taken.format,
        status=taken.status,
        reason=taken.reason,
        taken=taken,
    )


def _unopened(job: Job, reason: str) -> Look:
    return Look(
        path=str(job.source.path),
        fate="unopened",
        size=0,
        identity="",
        format="unknown",
        status="refused",
        reason=reason,
        taken=None,
    )
