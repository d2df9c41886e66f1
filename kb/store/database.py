"""Open the DuckDB file, bring its tables up to date, run transactions and bulk loads.

Owns connecting (with waiting for other processes), migrations, retries and the one way in for rows. Must not
know what the tables mean.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import duckdb

from kb.errors import KbctlError, StoreError

CONFIG: dict[str, Any] = {"storage_compatibility_version": "v1.5.0"}
LIMIT = "maximum_object_size := 1073741824"
WAIT_S = 120.0
NEW_FILE_S = 5.0
Row = Mapping[str, Any]
Notice = Callable[[str], None]


def default_path() -> Path:
    """The store used when neither ``--store`` nor ``KBCTL_STORE`` names one."""
    from platformdirs import user_data_path  # noqa: PLC0415 - costs start-up time where a path is given

    return user_data_path("kbctl", appauthor=False) / "kb.duckdb"


class Store:
    """An open store. Rows go in through ``load`` and come out through ``rows`` and ``records``."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, path: Path) -> None:
        self.connection = connection
        self.path = path

    def rows(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query (or of a statement: none)."""
        with _told(self.path):
            return self.connection.execute(sql, parameters or None).fetchall()

    def records(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[dict[str, Any]]:
        """All rows of a query, each by column name."""
        with _told(self.path):
            found = self.connection.execute(sql, parameters or None)
            names = [column[0] for column in found.description or ()]
            return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def ask(self, sql: str, parameters: Mapping[str, Any]) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Column names and rows of a user's query, which can reach nothing but this store.

        Raises KbctlError for a query that cannot be run.
        """
        tip = "kbctl sql 'SHOW TABLES' lists the tables"
        try:
            self.connection.execute("SET enable_external_access = false")
            found = self.connection.execute(sql, dict(parameters) or None)
            if found is None:  # an empty text, or only comments
                raise KbctlError("there is no query in it", where=sql or "''", tip=tip)
            return [column[0] for column in found.description or ()], found.fetchall()
        except duckdb.Error as error:
            raise KbctlError(f"the query cannot be run: {error}", tip=tip) from None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All statements of the block, or none."""
        self.rows("BEGIN TRANSACTION")
        try:
            yield
        except BaseException:
            self.rows("ROLLBACK")
            raise
        self.rows("COMMIT")

    def load(self, table: str, rows: Iterable[Row], unless: Sequence[str] = ()) -> None:
        """Insert rows by column name; those whose ``unless`` columns equal a stored row's are left out.

        Values are scalars; JSON goes in as text. Goes through one NDJSON file, whatever the number of rows.
        """
        types = self._columns(table)
        with _ndjson(rows) as path:
            if path is None:
                return
            names = ", ".join(f'"{name}"' for name in types)
            read = f"read_json(?, format := 'newline_delimited', columns := {_struct(types)}, {LIMIT})"
            insert = f'INSERT INTO "{table}" ({names}) SELECT {names} FROM {read} new'  # noqa: S608
            self.rows(insert + _anti_join(table, unless), [path])

    def delete(self, table: str, column: str, values: Iterable[str]) -> None:
        """Delete the rows whose column is one of the values."""
        wanted = list(dict.fromkeys(values))
        if wanted:
            self.rows(f'DELETE FROM "{table}" WHERE "{column}" IN (SELECT unnest(?))', [wanted])  # noqa: S608

    def close(self) -> None:
        """Close the file, which lets other processes in."""
        self.connection.close()

    def _columns(self, table: str) -> dict[str, str]:
        sql = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = ?"
        return dict(self.rows(f"{sql} ORDER BY ordinal_position", [table]))


def existing(path: Path | None = None) -> Path:
    """The file of a store that is there. Raises StoreError where nothing was ingested yet."""
    place = path or default_path()
    if not place.exists():
        raise StoreError("there is no store yet", where=str(place), tip="kbctl ingest FOLDER makes it")
    return place


@contextmanager
def open_store(
    path: Path | None = None, *, write: bool = False, notice: Notice | None = None, wait_s: float = WAIT_S
) -> Iterator[Store]:
    """The store at ``path`` (default: per user), made when ``write`` and missing.

    While another process writes, waits up to ``wait_s`` seconds and says so through ``notice``. Raises
    StoreError when it cannot be opened, is no store, or was written by a newer release.
    """
    place = path or default_path()
    if not write:
        existing(place)
    connection = _connect(place, write, notice or (lambda _: None), time.monotonic() + wait_s)
    store = Store(connection, place)
    try:
        _migrate(store, write)
        yield store
    finally:
        store.close()


def _connect(place: Path, write: bool, notice: Notice, deadline: float) -> duckdb.DuckDBPyConnection:
    if write:
        _make_folder(place)

    def attempt() -> duckdb.DuckDBPyConnection:
        return duckdb.connect(place, read_only=not write, config=dict(CONFIG))

    with _told(place):
        return retry(attempt, place, notice, deadline)


def retry(
    attempt: Callable[[], duckdb.DuckDBPyConnection], place: Path, notice: Notice, deadline: float
) -> duckdb.DuckDBPyConnection:
    """What ``attempt`` returns, tried again while another process holds the store, until the deadline."""
    pause, told = 0.02, False
    while True:
        try:
            return attempt()
        except (duckdb.IOException, duckdb.ConnectionException, duckdb.TransactionException) as error:
            if not (_is_contention(error) or _is_being_made(error, place)):
                raise
            if time.monotonic() > deadline:
                tip = "wait for it to end, or name another store with --store"
                raise StoreError(
                    f"another process{_holder(error)} is using the store", where=str(place), tip=tip
                ) from None
        if not told and pause > 0.3:
            told = True
            notice("waiting for another kbctl process to finish with the store …")
        time.sleep(pause)
        pause = min(pause * 1.5, 1.0)


def _is_contention(error: Exception) -> bool:
    return bool(
        re.search(r"set lock on file|Conflicting lock|[Cc]onflict on|different configuration", str(error))
    )


def _is_being_made(error: Exception, place: Path) -> bool:
    """Whether another process may just be writing the first blocks of a new store."""
    if "not a valid DuckDB database" not in str(error):
        return False
    try:
        return time.time() - place.stat().st_mtime < NEW_FILE_S
    except OSError:
        return False


def _holder(error: Exception) -> str:
    found = re.search(r"PID (\d+)", str(error))
    return f" (process {found[1]})" if found else ""


def _make_folder(place: Path) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"cannot make the store's folder: {error.strerror}",
            where=str(place.parent),
            tip="name another with --store",
        ) from None


@contextmanager
def _told(place: Path) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        what = str(error).strip().splitlines()[0]
        tip = (
            "kbctl doctor checks the store; --store names another"
            if isinstance(error, duckdb.IOException)
            else None
        )
        raise StoreError(f"the store refused: {what}", where=str(place), tip=tip) from error


def migrations() -> list[tuple[int, str, str]]:
    """(number, name, SQL) of every step, in order."""
    folder = resources.files("kb.store").joinpath("migrations")
    files = sorted((one for one in folder.iterdir() if one.name.endswith(".sql")), key=lambda one: one.name)
    return [(int(one.name.split("_")[0]), one.name, one.read_text("utf-8")) for one in files]


def _migrate(store: Store, write: bool) -> None:
    done = _applied(store)
    steps = migrations()
    if done and max(done) > steps[-1][0]:
        raise StoreError("the store was written by a newer kbctl", where=str(store.path), tip="upgrade kbctl")
    missing = [step for step in steps if step[0] not in done]
    if missing and not write:
        raise StoreError(
            "the store is of an older kbctl", where=str(store.path), tip="kbctl rebuild brings it up to date"
        )
    if missing:
        with store.transaction():
            _apply(store, missing, first=not done)


def _apply(store: Store, steps: list[tuple[int, str, str]], first: bool) -> None:
    if first:
        store.rows("CREATE TABLE migration (version INTEGER, name VARCHAR, applied_at TIMESTAMP)")
    for number, name, sql in steps:
        for statement in sql.split(";\n"):
            if statement.strip():
                store.rows(statement)
        store.load("migration", [{"version": number, "name": name, "applied_at": now()}])


def _applied(store: Store) -> set[int]:
    tables = {name for (name,) in store.rows("SELECT table_name FROM information_schema.tables")}
    if "migration" in tables:
        return {number for (number,) in store.rows("SELECT version FROM migration")}
    if tables:
        raise StoreError(
            "this DuckDB file is no kbctl store", where=str(store.path), tip="name another with --store"
        )
    return set()


def now() -> str:
    """The time of writing, UTC, as the store keeps it."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")


def _anti_join(table: str, unless: Sequence[str]) -> str:
    if not unless:
        return ""
    same = " AND ".join(f'old."{name}" IS NOT DISTINCT FROM new."{name}"' for name in unless)
    return f' WHERE NOT EXISTS (SELECT 1 FROM "{table}" old WHERE {same})'  # noqa: S608


def _struct(types: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"\"{name}\": '{kind}'" for name, kind in types.items()) + "}"


@contextmanager
def _ndjson(rows: Iterable[Row]) -> Iterator[str | None]:
    handle, path = tempfile.mkstemp(prefix="kbctl-", suffix=".ndjson")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as stream:
            for row in rows:
                stream.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
            empty = stream.tell() == 0
        yield None if empty else path
    finally:
        Path(path).unlink(missing_ok=True)
