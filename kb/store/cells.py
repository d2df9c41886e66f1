"""Count the cells of delimited text with DuckDB: how often each text came in each column, by group.

Owns that one query, which touches no store. Must not know what the columns mean.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import duckdb

MEMORY = "160MB"
NO_CELL = "\\x01"
Counts = list[tuple[str, bool, int, list[str], list[int]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """What to count: ``counted`` columns of ``width``, by the cell at ``key`` and by load.

    A row is under load where the number in its ``load`` cell, less ``suffix``, is at least ``least``.
    """

    width: int
    delimiter: str
    key: int | None
    load: int | None
    suffix: str
    least: float
    counted: Sequence[int]


class CellCounter:
    """One connection in memory, for any number of pieces of one file. Closes as a context manager."""

    def __init__(self, cells: Cells) -> None:
        self._connection = duckdb.connect()
        for setting in ("threads = 1", f"memory_limit = '{MEMORY}'"):
            self._connection.execute(f"SET {setting}")
        handle, self._path = tempfile.mkstemp(prefix="kbctl-", suffix=".csv")
        os.close(handle)
        self._sql = _query(cells, self._path)

    def __enter__(self) -> CellCounter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        Path(self._path).unlink(missing_ok=True)

    def count(self, rows: bytes) -> Counts | None:
        """(key, under load, column, its texts, how often each); None where a line is no row of that width."""
        Path(self._path).write_bytes(rows)
        try:
            return self._connection.execute(self._sql).fetchall()
        except duckdb.Error:
            return None


def _query(cells: Cells, path: str) -> str:
    columns = ", ".join(f"'c{at}': 'VARCHAR'" for at in range(cells.width))
    options = (
        f"auto_detect = false, header = false, delim = {_text(cells.delimiter)}, quote = '', escape = '', "
        f"strict_mode = true, null_padding = false, nullstr = '{NO_CELL}', new_line = '\\n', "
        f"columns = {{{columns}}}"
    )
    key = "''" if cells.key is None else f"c{cells.key}"
    number = f"try_cast(replace(c{cells.load}, {_text(cells.suffix)}, '') AS DOUBLE)"
    busy = "false" if cells.load is None else f"coalesce({number} >= {cells.least}, false)"
    rows = f"SELECT {key} k, {busy} b, * FROM read_csv({_text(path)}, {options})"  # noqa: S608 - our own names
    counts = " UNION ALL ".join(
        f"SELECT k, b, {at} i, c{at} c, count(*) n FROM x GROUP BY k, b, c{at}"  # noqa: S608
        for at in cells.counted
    )
    return (
        f"SELECT k, b, i, list(c), list(n) FROM (WITH x AS MATERIALIZED ({rows}) {counts}) "  # noqa: S608
        "GROUP BY k, b, i ORDER BY k, b, i"
    )


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
