"""Load the rows of a delimited GPU trace into the table of samples with DuckDB, part by part.

Owns how DuckDB reads them and what becomes of rows that it refuses. Must not decide what a column means.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kb.store.database import Store, open_store
from kb.store.samples import TABLES, tables_of
from kb.store.tallies import HUGE, Tally, sums_of, tallies_of

ACTIVE = "Active"
COUNTED_BYTES = 64 << 20
MEMORY = "120MB"
_LOOK_BYTES = 16 << 10
_BLOCK_BITS = 6  # blocks of rows, in which every card has its turns
_WIDE = "wide_sample"
_BRACKET = b"["  # what begins the cells that tell no number
_NO_ROW = b"?\n"  # ends each part: refused whatever the columns, its number tells how many lines came before


@dataclass(frozen=True, slots=True, kw_only=True)
class RowForm:
    """How the rows of a trace are read.

    ``metrics`` maps a metric to (position, factor to our unit); ``flags`` a position to the bit of the
    throttle reason that it tells; ``mask`` is the position of all such bits. ``units`` are the characters
    of units, which count as blanks; ``nothing`` the cells without a value, beside empty ones. A row is under
    load where ``utilization_pct`` is at least ``least``.
    """

    width: int
    delimiter: str
    card: int
    by_index: bool
    time: int | None
    metrics: Mapping[str, tuple[int, float]]
    flags: Mapping[int, int]
    mask: int | None
    units: bytes
    nothing: Sequence[str]
    least: float

    @property
    def columns(self) -> list[str]:
        """What a row tells in numbers: metrics, and ``throttle``."""
        return [*self.metrics, *(["throttle"] if self.flags or self.mask is not None else [])]

    @property
    def fits(self) -> bool:
        """Whether the tables of samples have a column for every number."""
        return set(self.columns) <= {one for columns in TABLES.values() for one in columns}


class Loader:
    """Rows of one trace on their way into a store, in its transaction. ``size`` is the file's in bytes."""

    def __init__(self, store: Store, trace: int, form: RowForm, size: int, folder: Path) -> None:
        self._store, self._trace, self._form = store, trace, form
        self._share = 1 + size // COUNTED_BYTES
        self._folder, self._parts = folder, 0
        self._file: io.FileIO | None = None
        self._ended = True
        self._blanks = bytes(32 if one in form.units + b"\r" else one for one in range(256))
        self._tables = tables_of(form.columns)
        self._into = self._tables[0] if len(self._tables) == 1 else _WIDE
        self._seen = [""]
        self._unseen = {_blanked(one, self._blanks).strip() for one in form.nothing}
        store.rows("SET threads = 1")  # a part is read by one anyway, and more only wait for each other
        store.rows(f"SET memory_limit = '{MEMORY}'")
        self._drop()
        if self._into == _WIDE:
            self._make_wide()
        self._sql = self._insert()

    def add(self, rows: bytes) -> int:
        """Take in more of a part, which is to end with a whole line; how many cells will be refused, about.

        DuckDB holds each of them with its row and a message, some 2 kB, until the part is loaded.
        """
        blanked = bytearray(rows).translate(self._blanks)  # half the time of that of bytes
        if self._file is None:
            self._parts += 1
            # Never one name twice: DuckDB may remember.
            self._file = (self._folder / f"{self._trace}-{self._parts}.csv").open("wb", buffering=0)
            self._learn(blanked[:_LOOK_BYTES].decode("utf-8", "replace"))
        self._file.write(blanked)
        self._ended = rows.endswith(b"\n")
        known = [one.encode() for one in self._seen if _BRACKET in one.encode()]
        return blanked.count(_BRACKET) - sum(map(blanked.count, known))

    def load(self) -> tuple[int, list[int]]:
        """Load the part; the count of its lines, and which of them, from 0, are no rows."""
        file, self._file = self._file, None
        if file is None:
            return 0, []
        with file:
            file.write(_NO_ROW if self._ended else b"\n" + _NO_ROW)
        try:
            self._store.rows(self._sql, [str(file.name)])
        finally:
            Path(file.name).unlink()
        *refused, lines = self._refused_now()
        return lines, refused

    def tallies(self) -> list[Tally]:
        """What all rows sum up to; medians by every n-th block of a large file's samples."""
        sums = sums_of(self._store.rows, self._relation(), (), self._form.columns)
        beyond = {metric for (*_, metric), one in sums.items() if one.n and max(-one.low, one.high) >= HUGE}
        for metric in beyond:
            where = f"WHERE trace = {self._trace} AND abs({metric}) >= {HUGE}"
            self._store.rows(f"UPDATE {self._into} SET {metric} = NULL {where}")  # noqa: S608
        if beyond:
            sums = sums_of(self._store.rows, self._relation(), (), self._form.columns)
        return tallies_of(sums, self._store.rows, self._relation(self._share), (), self._share)

    def finish(self) -> None:
        """Put rows with many columns where they belong; the store is as it was else."""
        if self._into == _WIDE:
            for table in self._tables:
                names = ", ".join(self._columns_of(table))
                self._store.rows(f"INSERT INTO {table} BY NAME SELECT {names} FROM {_WIDE}")  # noqa: S608
            self._store.rows(f"DROP TABLE {_WIDE}")
        self._reset()

    def give_up(self) -> None:
        """Delete what was loaded."""
        self._drop()
        self._reset()

    def _refused_now(self) -> list[int]:
        latest = "scan_id = (SELECT max(scan_id) FROM reject_scans)"
        each = "SELECT line, any_value(csv_line) FROM reject_errors"  # of a line, every cell may be refused
        found = self._store.rows(f"{each} WHERE {latest} GROUP BY line ORDER BY line")
        if self._unseen:
            self._learn("\n".join(text for _, text in found))
        return [line - 1 for line, _ in found]

    def _learn(self, rows: str) -> None:
        """From now on, cells without a value as these rows have them are no reason to refuse one.

        DuckDB compares each cell with each such text: it is told only of those that were seen.
        """
        cells = {cell.strip() for row in rows.split("\n") for cell in row.split(self._form.delimiter)}
        new = self._unseen & cells
        if new:
            self._unseen -= new
            self._seen += sorted(new)
            self._sql = self._insert()

    def _insert(self) -> str:
        rows = _rows(self._form, self._trace, self._blanks, self._seen)
        return f"INSERT INTO {self._into} BY NAME {rows}"

    def _drop(self) -> None:
        for table in TABLES:
            self._store.rows(f"DELETE FROM {table} WHERE trace = ?", [self._trace])  # noqa: S608

    def _reset(self) -> None:
        for setting in ("threads", "memory_limit"):
            self._store.rows(f"RESET {setting}")

    def _columns_of(self, table: str) -> list[str]:
        mine = [one for one in TABLES[table] if one in self._form.columns]
        return ["trace", "sampled_at", "gpu" if self._form.by_index else "card", *mine]

    def _make_wide(self) -> None:
        names = dict.fromkeys(one for table in self._tables for one in self._columns_of(table))
        kinds = {"trace": "BIGINT", "sampled_at": "TIMESTAMP", "gpu": "INTEGER", "card": "VARCHAR"}
        columns = ", ".join(
            f"{one} {kinds.get(one, 'BIGINT' if one == 'throttle' else 'FLOAT')}" for one in names
        )
        self._store.rows(f"CREATE OR REPLACE TEMP TABLE {_WIDE} ({columns})")

    def _relation(self, share: int = 1) -> str:
        card = "gpu" if self._form.by_index else "card"
        busy = f"coalesce(utilization_pct >= {self._form.least}, false)"
        some = f" AND (rowid >> {_BLOCK_BITS}) % {share} = 0" if share > 1 else ""
        names = ", ".join(self._form.columns)
        columns, mine = f"{card} AS card, {busy} AS busy, {names}", f"trace = {self._trace}{some}"
        return f"(SELECT {columns} FROM {self._into} WHERE {mine})"  # noqa: S608


@contextmanager
def scratch_store() -> Iterator[tuple[Store, Path]]:
    """A store for one reading that nobody keeps, and its folder."""
    with (
        tempfile.TemporaryDirectory(prefix="kbctl-") as folder,
        open_store(Path(folder) / "scratch.duckdb", write=True) as store,
        store.transaction(),
    ):
        yield store, Path(folder)


def _rows(form: RowForm, trace: int, blanks: bytes, nothing: Sequence[str]) -> str:
    types = dict.fromkeys(range(form.width), "VARCHAR")
    types |= {at: "FLOAT" if factor == 1.0 else "DOUBLE" for at, factor in form.metrics.values()}
    types[form.card] = "INTEGER" if form.by_index else "VARCHAR"
    types |= {at: kind for at, kind in ((form.time, "TIMESTAMP"), (form.mask, "BIGINT")) if at is not None}
    empty = [_text(before + one) for one in nothing for before in ("", " ")]
    columns = ", ".join(f"'c{at}': '{kind}'" for at, kind in types.items())
    options = (
        f"auto_detect = false, header = false, delim = {_text(form.delimiter)}, quote = '', escape = '', "
        f"strict_mode = true, null_padding = false, nullstr = [{', '.join(empty)}], new_line = '\\n', "
        f"ignore_errors = true, store_rejects = true, columns = {{{columns}}}"
    )
    values = [
        f"c{at} AS {metric}" if factor == 1.0 else f"c{at} * {factor} AS {metric}"
        for metric, (at, factor) in form.metrics.items()
    ]
    card = f"c{form.card} AS gpu" if form.by_index else f"trim(c{form.card}) AS card"
    time = ["NULL::TIMESTAMP AS sampled_at" if form.time is None else f"c{form.time} AS sampled_at"]
    told = ", ".join([f"{trace}::BIGINT AS trace", *time, card, *values, *_throttle(form, blanks)])
    return f"SELECT {told} FROM read_csv(?, {options})"  # noqa: S608


def _throttle(form: RowForm, blanks: bytes) -> list[str]:
    if form.mask is not None:
        return [f"c{form.mask} AS throttle"]
    active = _text(_blanked(ACTIVE, blanks))
    bits = " + ".join(f"(trim(c{at}) = {active})::BIGINT * {bit}" for at, bit in form.flags.items())
    return [f"{bits} AS throttle"] if bits else []


def _blanked(text: str, blanks: bytes) -> str:
    return text.encode().translate(blanks).decode()


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
