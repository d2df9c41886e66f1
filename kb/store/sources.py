"""What was read: sources, their readings, and the folders that still await assembly.

Owns replacing a source's earlier reading as a whole. Must not know what a reading means.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kb.store.claims import Claim, add_claims
from kb.store.database import Store, now
from kb.store.samples import drop_samples, put_samples, trace_number


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One source as it goes into the store.

    ``identity`` is the keyed hash of path and head, ``source`` the BLAKE3 of the bytes, ``reading`` its JSON
    (empty where there is nothing to keep), ``part`` what assembly uses it for, ``size`` in bytes,
    ``samples`` the files that hold its trace's samples until they are stored, ``loaded`` whether samples are
    stored already.
    """

    identity: str
    source: str
    path: str
    folder: str
    name: str
    size: int
    format: str
    kind: str
    parser_version: int
    status: str
    reason: str | None
    part: str
    same_as: str | None
    reading: str
    samples: tuple[str, ...] = ()
    loaded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the store holds about a path: enough to tell a new file from a grown and from an unchanged one."""

    identity: str
    source: str
    size: int
    format: str
    parser_version: int
    status: str
    reason: str | None


def known_sources(store: Store) -> dict[str, Known]:
    """The newest source of every path."""
    columns = "path, identity, source, size, format, parser_version, status, reason"
    found = store.records(f"SELECT {columns} FROM source ORDER BY read_at, identity")  # noqa: S608
    return {one["path"]: Known(**{k: v for k, v in one.items() if k != "path"}) for one in found}


def add_sources(store: Store, taken: Sequence[Taken], claims: Iterable[Claim] = ()) -> None:
    """Store sources in place of their earlier readings, in the caller's transaction; their folders wait."""
    identities = [one.identity for one in taken]
    drop_samples(store, [one.identity for one in taken if not one.loaded])
    store.delete("source", "identity", identities)
    store.delete("reading", "identity", identities)
    store.load("source", (_source_row(one) for one in taken))
    store.load("reading", (_reading_row(one) for one in taken if one.reading))
    put_samples(store, (path for one in taken for path in one.samples))
    told = [one for one in claims if add_claims(store, [one])]
    mark_pending(store, (one.folder for one in taken if one.reading))
    mark_pending(store, _folders_of(store, [one.target for one in told]))


def mark_pending(store: Store, folders: Iterable[str]) -> None:
    """Say that the runs of these folders must be assembled again."""
    store.load("pending", [{"folder": one} for one in dict.fromkeys(folders)], unless=["folder"])


def pending_folders(store: Store) -> list[str]:
    """Folders with sources that await assembly."""
    return [folder for (folder,) in store.rows("SELECT DISTINCT folder FROM pending ORDER BY folder")]


def folder_parts(store: Store) -> dict[str, set[str]]:
    """folder -> the parts that its sources play in assembly (those with a reading only)."""
    sql = (
        "SELECT DISTINCT folder, part FROM source WHERE same_as IS NULL "
        "AND identity IN (SELECT identity FROM reading) ORDER BY folder, part"
    )
    found: dict[str, set[str]] = {}
    for folder, part in store.rows(sql):
        found.setdefault(folder, set()).add(part)
    return found


def readings_of(store: Store, folders: Iterable[str]) -> list[dict[str, Any]]:
    """identity, path, folder and reading (JSON text) of the sources in the folders, by path."""
    sql = (
        "SELECT source.identity, source.path, source.folder, source.part, reading.reading FROM source "
        "JOIN reading USING (identity) WHERE source.folder IN (SELECT unnest(?)) AND source.same_as IS NULL "
        "ORDER BY source.path, source.identity"
    )
    return store.records(sql, [list(dict.fromkeys(folders))])


def first_of_bytes(store: Store, hashes: Iterable[str]) -> dict[tuple[str, str], str]:
    """(source hash, file name) -> identity of the first source with those bytes."""
    sql = "SELECT source, name, identity FROM source WHERE same_as IS NULL AND source IN (SELECT unnest(?))"
    return {
        (source, name): one for source, name, one in store.rows(f"{sql} ORDER BY path DESC", [list(hashes)])
    }


def _folders_of(store: Store, identities: Sequence[str]) -> list[str]:
    if not identities:
        return []
    sql = "SELECT DISTINCT folder FROM source WHERE identity IN (SELECT unnest(?)) ORDER BY folder"
    return [folder for (folder,) in store.rows(sql, [list(identities)])]


def _source_row(one: Taken) -> dict[str, Any]:
    names = (
        "identity",
        "source",
        "path",
        "folder",
        "name",
        "size",
        "format",
        "kind",
        "parser_version",
        "status",
        "reason",
        "part",
        "same_as",
    )
    trace = trace_number(one.identity) if one.samples or one.loaded else None
    return {**{name: getattr(one, name) for name in names}, "trace": trace, "read_at": now()}


def _reading_row(one: Taken) -> dict[str, Any]:
    return {"identity": one.identity, "source": one.source, "reading": one.reading}
