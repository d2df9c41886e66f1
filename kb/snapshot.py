"""The user's own runs as one small file that the answering commands read without the store.

Owns the SQLite file beside the store: folded configurations by architecture and family, and one packed detail
per run for explanations. Standard library only; replaced as a whole, so a reader sees the old or the new one.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kb.errors import KbctlError
from kb.model import Backend, Ending, Hardware, Model, Point, Tried

FORMAT = 2
MOST_ROWS = (300, 100)  # of the nearest kind, and of each other; what is left out is older or further away
SIBLINGS: tuple[frozenset[str], ...] = (
    frozenset({"sm120", "sm121"}),
    frozenset({"sm100", "sm103"}),
    frozenset({"sm86", "sm89"}),
    frozenset({"gfx942", "gfx950"}),
)
_SCHEMA = """
CREATE TABLE stamp (format INTEGER, runs INTEGER, made_from TEXT);
CREATE TABLE tried (key TEXT PRIMARY KEY, arch TEXT, family TEXT, bad INTEGER, date TEXT, packed BLOB);
CREATE TABLE run (run TEXT PRIMARY KEY, key TEXT, digest TEXT, packed BLOB);
"""
# One for each order in which ``read`` asks: without, an answer's time would grow with the store.
_INDEXES = """
CREATE INDEX IF NOT EXISTS tried_by_arch ON tried (arch, family, bad DESC, date DESC);
CREATE INDEX IF NOT EXISTS tried_by_arch_alone ON tried (arch, bad DESC, date DESC);
CREATE INDEX IF NOT EXISTS tried_by_family ON tried (family, bad DESC, date DESC);
CREATE INDEX IF NOT EXISTS run_by_state ON run (run, key, digest);
"""


class Packed(NamedTuple):
    """What the snapshot was told of a run: the key that it is folded under (empty: none), and its digest."""

    key: str
    digest: str


class Draft:
    """A snapshot that is being written, before it takes the place of the old one."""

    def __init__(self, base: sqlite3.Connection) -> None:
        self.base = base

    def put_tried(self, tried: Iterable[Tried]) -> None:
        """Add or replace folded configurations."""
        self.base.executemany("INSERT OR REPLACE INTO tried VALUES (?, ?, ?, ?, ?, ?)", map(_row, tried))

    def drop_tried(self, keys: Iterable[str]) -> None:
        """Remove folded configurations."""
        self.base.executemany("DELETE FROM tried WHERE key = ?", ((one,) for one in keys))

    def put_runs(self, runs: Iterable[tuple[Mapping[str, Any], str, str]]) -> None:
        """Add or replace runs: (detail as JSON values with a ``run`` id, key, digest)."""
        rows = ((detail["run"], key, digest, _pack(detail)) for detail, key, digest in runs)
        self.base.executemany("INSERT OR REPLACE INTO run VALUES (?, ?, ?, ?)", rows)

    def drop_runs(self, runs: Iterable[str]) -> None:
        """Remove runs."""
        self.base.executemany("DELETE FROM run WHERE run = ?", ((one,) for one in runs))

    def stamp(self, count: int, made_from: str) -> None:
        """Say how many runs the snapshot is of, and which state of the store."""
        self.base.execute("DELETE FROM stamp")
        self.base.execute("INSERT INTO stamp VALUES (?, ?, ?)", (FORMAT, count, made_from))


def path_of(store: Path) -> Path:
    """The snapshot's file for a store."""
    return store.with_name(store.name + ".snapshot")


@contextmanager
def rewriting(store: Path, *, keep: bool = False) -> Iterator[Draft]:
    """A draft that replaces the snapshot of a store when the block ends well.

    ``keep`` starts from the old one. Raises OSError where the folder cannot be written.
    """
    target = path_of(store)
    fresh = target.with_name(f"{target.name}.{os.getpid()}.new")
    fresh.unlink(missing_ok=True)
    try:
        if keep:
            shutil.copyfile(target, fresh)
        with closing(sqlite3.connect(fresh)) as base:
            base.executescript(
                "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + ("" if keep else _SCHEMA) + _INDEXES
            )
            yield Draft(base)
            base.commit()
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)


def write(
    store: Path, tried: Iterable[Tried], details: Iterable[Mapping[str, Any]] = (), made_from: str = ""
) -> None:
    """Replace the snapshot of a store as a whole; ``details`` are JSON objects with a ``run`` id each."""
    with rewriting(store) as draft:
        draft.put_tried(tried)
        draft.put_runs((one, "", "") for one in details)
        count = draft.base.execute("SELECT count(*) FROM run").fetchone()[0]
        draft.stamp(count, made_from)


def packed_runs(store: Path) -> dict[str, Packed]:
    """run -> what the snapshot was told of it; empty where there is no snapshot to build on."""
    try:
        with _opened(store) as base:
            rows = base.execute("SELECT run, key, digest FROM run").fetchall() if base else []
    except KbctlError:
        return {}
    return {run: Packed(key, digest) for run, key, digest in rows}


def touch(store: Path) -> None:
    """Say that the snapshot is as new as the store, whatever the store's file says."""
    path_of(store).touch()


def read(store: Path, arch: str | None, family: str | None) -> tuple[Tried, ...]:
    """What was tried on an architecture or its siblings, or with a model family elsewhere; nearest first.

    Empty where there is no snapshot. At most MOST_ROWS of each kind of nearness, failures and newer ones
    first, so that the time does not grow with the store.
    """
    with _opened(store) as base:
        if base is None:
            return ()
        found: dict[str, bytes] = {}
        for at, (condition, values) in enumerate(_nearness(arch, family)):
            sql = f"SELECT key, packed FROM tried WHERE {condition}"  # noqa: S608 - conditions are written below
            for key, packed in base.execute(
                f"{sql} ORDER BY bad DESC, date DESC LIMIT {MOST_ROWS[at > 0]}", values
            ):
                found.setdefault(key, packed)
        return tuple(_tried(_unpack(packed)) for packed in found.values())


def run_detail(store: Path, prefix: str) -> dict[str, Any] | None:
    """One run as JSON with its evidence ``lines``, by id or the start of one; None where there is none.

    Raises KbctlError where several runs start so.
    """
    start = prefix if prefix.startswith("run:") else f"run:{prefix}"
    with _opened(store) as base:
        if base is None:
            return None
        sql = "SELECT run, packed FROM run WHERE run >= ? AND run < ? LIMIT 4"
        found = base.execute(sql, (start, start + "\x7f")).fetchall()
    if len(found) > 1:
        names = ", ".join(run for run, _ in found[:3])
        raise KbctlError("several runs start so", where=prefix, tip=f"for example {names}")
    return _unpack(found[0][1]) if found else None


def stamp(store: Path) -> dict[str, Any] | None:
    """What the snapshot was made from: ``runs`` and ``made_from``; None where there is none."""
    with _opened(store) as base:
        row = base.execute("SELECT runs, made_from FROM stamp").fetchone() if base else None
    return {"runs": row[0], "made_from": row[1]} if row else None


def siblings(arch: str) -> frozenset[str]:
    """An architecture and those whose behaviour it may share."""
    return next((group for group in SIBLINGS if arch in group), frozenset({arch}))


def _nearness(arch: str | None, family: str | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    near = tuple(sorted(siblings(arch) - {arch})) if arch else ()
    if arch and family:
        yield "arch = ? AND family = ?", (arch, family)
        yield from (("arch = ? AND family = ?", (one, family)) for one in near)
    if arch:
        yield "arch = ?", (arch,)
        yield from (("arch = ?", (one,)) for one in near)
    if family:
        yield "family = ?", (family,)
    if not arch and not family:
        yield "true", ()


@contextmanager
def _opened(store: Path) -> Iterator[sqlite3.Connection | None]:
    path = path_of(store)
    if not path.exists():
        yield None
        return
    try:
        with closing(sqlite3.connect(f"file:{_quoted(path)}?mode=ro&immutable=1", uri=True)) as base:
            known = base.execute("SELECT format FROM stamp").fetchone()
            yield base if known and known[0] == FORMAT else None
    except sqlite3.DatabaseError as error:
        tip = "kbctl rebuild makes it again"
        raise KbctlError(f"the snapshot of own runs is damaged ({error})", where=str(path), tip=tip) from None


def _quoted(path: Path) -> str:
    return str(path.absolute()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _row(one: Tried) -> tuple[Any, ...]:
    bad = any(ending.blame == "backend" and ending.effect != "ok" for ending in one.endings)
    return one.key, one.hardware.arch, one.model.family, int(bad), one.date or "", _pack(_plain_tried(one))


def _plain_tried(one: Tried) -> dict[str, Any]:
    parts = {
        "hardware": one.hardware._asdict(),
        "model": one.model._asdict(),
        "backend": one.backend._asdict(),
    }
    lists = {"endings": [x._asdict() for x in one.endings], "points": [x._asdict() for x in one.points]}
    return {**one._asdict(), **parts, **lists}


def _pack(value: Mapping[str, Any]) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_other)
    return zlib.compress(text.encode("utf-8", "replace"), 1)


def _other(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


def _unpack(packed: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(zlib.decompress(packed))
    return found


def _tried(wire: Mapping[str, Any]) -> Tried:
    return Tried(
        key=wire["key"],
        hardware=Hardware(**wire["hardware"]),
        model=Model(**wire["model"]),
        backend=Backend(**wire["backend"]),
        endings=tuple(Ending(**{**one, "runs": tuple(one["runs"])}) for one in wire["endings"]),
        points=tuple(_point(one) for one in wire["points"]),
        conditions=wire["conditions"],
        warnings=tuple(wire["warnings"]),
        runs=tuple(wire["runs"]),
        date=wire["date"],
    )


def _point(wire: Mapping[str, Any]) -> Point:
    spread = {name: (low, high) for name, (low, high) in wire["spread"].items()}
    return Point(**{**wire, "spread": spread, "runs": tuple(wire["runs"])})
