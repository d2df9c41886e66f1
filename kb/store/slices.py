"""Read slices of a delimited GPU trace with DuckDB: every row as numbers, summed up, and kept if asked.

Owns the reading of one slice and the file that its samples are kept in; touches no store. Must not decide
what a column means.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import duckdb

from kb.store.samples import METRICS
from kb.store.tallies import Tally, tallies

MEMORY = "160MB"
ACTIVE = "Active"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowForm:
    """How the rows of a trace are read.

    ``metrics`` maps a metric to (position, factor to our unit); ``flags`` a position to the bit of the
    throttle reason that it tells; ``mask`` is the position of all such bits. ``units`` are the characters
    of units, which count as blanks; ``nothing`` the cells without a value. A row is under load where
    ``utilization_pct`` is at least ``least``.
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


class SliceReader:
    """One connection in memory, for any number of slices of one file. Closes as a context manager."""

    def __init__(self, form: RowForm) -> None:
        self._form = form
        self._folder = tempfile.TemporaryDirectory(prefix="kbctl-")
        self._path = str(Path(self._folder.name) / "slice.csv")
        self._blanks = bytes(32 if one in form.units + b"\r" else one for one in range(256))
        self._sql = _load(form, self._path, self._blanks)
        self._throttled = ["throttle"] if form.flags or form.mask is not None else []
        self._connection = duckdb.connect()
        for setting in ("threads = 1", f"memory_limit = '{MEMORY}'", "enable_external_file_cache = false"):
            self._connection.execute(f"SET {setting}")

    def __enter__(self) -> SliceReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        self._folder.cleanup()

    def read(self, rows: bytes) -> list[Tally] | None:
        """The tallies of whole lines; None where any of them is no row of this form."""
        Path(self._path).write_bytes(rows.translate(self._blanks))
        try:
            self._connection.execute(self._sql)
            return tallies(self._run, "slice", (), [*self._form.metrics, *self._throttled])
        except duckdb.Error:
            return None

    def keep(self, path: Path, trace: int) -> None:
        """Write the samples of the slice that was read last as a Parquet file."""
        names = [name for name in METRICS if name in self._form.metrics]
        card = "gpu" if self._form.by_index else "card"
        columns = [f"{trace}::BIGINT AS trace", "sampled_at", f"card AS {card}"]
        columns += [f"{name}::FLOAT AS {name}" for name in names] + self._throttled
        target = _text(str(path))
        options = "FORMAT parquet, COMPRESSION uncompressed"
        self._run(f"COPY (SELECT {', '.join(columns)} FROM slice) TO {target} ({options})", ())  # noqa: S608

    def _run(self, sql: str, parameters: Sequence[object]) -> list[tuple[object, ...]]:
        return self._connection.execute(sql, parameters or None).fetchall()


def _load(form: RowForm, path: str, blanks: bytes) -> str:
    types = dict.fromkeys(range(form.width), "VARCHAR")
    types |= {at: "DOUBLE" for at, _ in form.metrics.values()}
    types[form.card] = "INTEGER" if form.by_index else "VARCHAR"
    types |= {at: kind for at, kind in ((form.time, "TIMESTAMP"), (form.mask, "BIGINT")) if at is not None}
    nothing = [_text(before + _blanked(one, blanks)) for one in form.nothing for before in ("", " ")]
    columns = ", ".join(f"'c{at}': '{kind}'" for at, kind in types.items())
    options = (
        f"auto_detect = false, header = false, delim = {_text(form.delimiter)}, quote = '', escape = '', "
        f"strict_mode = true, null_padding = false, nullstr = [{', '.join(nothing)}], new_line = '\\n', "
        f"columns = {{{columns}}}"
    )
    card = f"c{form.card}" if form.by_index else f"trim(c{form.card})"
    values = [
        f"c{at} AS {metric}" if factor == 1.0 else f"c{at} * {factor} AS {metric}"
        for metric, (at, factor) in form.metrics.items()
    ]
    load, factor = form.metrics["utilization_pct"]
    busy = f"coalesce(c{load} * {factor} >= {form.least}, false) AS busy"
    time = "NULL::TIMESTAMP" if form.time is None else f"c{form.time}"
    told = ", ".join([f"{time} AS sampled_at", f"{card} AS card", busy, *values, *_throttle(form, blanks)])
    return f"CREATE OR REPLACE TEMP TABLE slice AS SELECT {told} FROM read_csv({_text(path)}, {options})"  # noqa: S608


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
