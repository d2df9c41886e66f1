"""Read foreign tables of measurements (Parquet, CSV, TSV, JSON lines) as rows.

Owns the reading through DuckDB. Must not store anything: what is read here is only looked at.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

from kb.errors import KbctlError

# Rows that are read of a large table at most; so many contexts are read all the same, if not all of each.
MOST_ROWS, FEWEST_CONTEXTS = 60_000, 60
DELIMITERS = ",;\t|"
RAGGED = "null_padding = true, strict_mode = false"


class Draw(NamedTuple):
    """Which rows to read of a large table: whole contexts, at most ``most``, evenly from each group.

    Of contexts that hold too many rows all the same, some choices are read: the same in each context.
    """

    context: Sequence[str]
    group: Sequence[str]
    choice: Sequence[str]
    most: int


class Drawn(NamedTuple):
    """What was read of what there is (contexts of two and more rows): contexts, and the share of choices."""

    contexts: int
    of: int
    share: float


def columns(path: Path) -> list[str]:
    """A table's column names. Raises KbctlError for what is no table."""
    with _opened(path) as relation:
        return list(relation.columns)


def rows(path: Path, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Some columns of a table's rows. Raises KbctlError for no table or a missing column."""
    with _opened(path) as relation:
        return _read(relation, path, columns)


def drawn(path: Path, columns: Sequence[str], draw: Draw) -> tuple[list[dict[str, Any]], Drawn]:
    """The same of the rows that ``draw`` picks, and what was picked."""
    with _opened(path) as relation:
        _check(relation, path, (*columns, *draw.context, *draw.group, *draw.choice))
        picked = _extent(relation, draw)
        return _read(_picked(relation, draw, picked), path, columns), picked


def _read(relation: duckdb.DuckDBPyRelation, path: Path, columns: Sequence[str]) -> list[dict[str, Any]]:
    _check(relation, path, columns)
    wanted = list(dict.fromkeys(columns))
    found = relation.project(", ".join(_quoted(name) for name in wanted)).fetchall()
    return [dict(zip(wanted, row, strict=True)) for row in found]


def _check(relation: duckdb.DuckDBPyRelation, path: Path, columns: Sequence[str]) -> None:
    missing = [name for name in dict.fromkeys(columns) if name not in relation.columns]
    if missing:
        raise KbctlError(
            f"the table has no column {', '.join(missing)}",
            where=str(path),
            tip=f"it has {', '.join(relation.columns)}",
        )


@contextmanager
def _opened(path: Path) -> Iterator[duckdb.DuckDBPyRelation]:
    if not path.is_file():
        raise KbctlError(
            "no such table", where=str(path), tip="a .parquet, .csv, .tsv or .jsonl file, or a store"
        )
    with duckdb.connect() as base:
        try:
            relation = base.sql("SELECT * FROM " + _source(path))  # noqa: S608 - quoted in _source
            if len(relation.columns) == 1 and (mark := _delimiter(relation.columns[0])):
                # Rows of several lengths: the reader found no delimiter that holds for all of them.
                relation = base.sql("SELECT * FROM " + _source(path, f", delim = '{mark}', {RAGGED}"))  # noqa: S608
            yield relation
        except duckdb.Error as error:
            what = str(error).splitlines()[0]
            raise KbctlError(
                f"not readable as a table: {what}", where=str(path), tip="try .parquet or .csv"
            ) from error


def _extent(relation: duckdb.DuckDBPyRelation, draw: Draw) -> Drawn:
    """How many contexts to read, so that not too many rows come of them, and what share of their choices."""
    counted = f"SELECT count(*) AS held FROM whole GROUP BY {_joined(draw.context)} HAVING count(*) > 1"  # noqa: S608 - quoted
    told = _query(relation, f"SELECT count(*), coalesce(sum(held), 0) FROM ({counted})").fetchall()  # noqa: S608
    contexts, held = (int(one) for one in told[0])
    each = held / max(contexts, 1)
    most = min(draw.most, contexts, max(int(MOST_ROWS / max(each, 1)), FEWEST_CONTEXTS))
    return Drawn(most, contexts, min(MOST_ROWS / max(most * each, 1), 1.0))


def _picked(relation: duckdb.DuckDBPyRelation, draw: Draw, picked: Drawn) -> duckdb.DuckDBPyRelation:
    """The rows of contexts of two and more rows, by turns from each group, ordered by a hash."""
    key, group, choice = _joined(draw.context), _joined(draw.group), _joined(draw.choice)
    return _query(
        relation,
        f"""
        SELECT * FROM whole
        WHERE md5_number_upper({choice}) < {int(picked.share * 2**64)}::UINT128 AND {key} IN (
          SELECT key FROM (
            SELECT key, belongs, row_number() OVER (PARTITION BY belongs ORDER BY md5(key)) AS place
            FROM (SELECT {key} AS key, min({group}) AS belongs FROM whole GROUP BY key HAVING count(*) > 1))
          ORDER BY place, md5(belongs), key LIMIT {picked.contexts:d})
    """,  # noqa: S608 - names are quoted, the numbers are numbers
    )


def _query(relation: duckdb.DuckDBPyRelation, query: str) -> duckdb.DuckDBPyRelation:
    found = relation.query("whole", query)
    if found is None:  # only what is no SELECT gives none
        raise duckdb.InvalidInputException(query)
    return found


def _joined(names: Sequence[str]) -> str:
    cells = (f"coalesce(CAST({_quoted(name)} AS VARCHAR), '')" for name in names)
    return "concat_ws(chr(31), " + ", ".join(cells) + ")"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _source(path: Path, how: str = "") -> str:
    quoted = "'" + str(path).replace("'", "''") + "'"
    name = path.name.removesuffix(".gz").removesuffix(".zst").lower()
    if name.endswith(".parquet"):
        return f"read_parquet({quoted})"
    if name.endswith((".jsonl", ".ndjson", ".json")):
        return f"read_json_auto({quoted})"
    how = how or (", delim = '\t'" if name.endswith(".tsv") else "")
    if name == path.name.lower():
        how += f", encoding = '{_encoding(path)}'"
    return f"read_csv({quoted}, header = true, all_varchar = true{how})"


def _delimiter(header: str) -> str | None:
    """What most likely divides the one column that a header was taken for."""
    mark = max(DELIMITERS, key=header.count)
    return mark if mark in header else None


def _encoding(path: Path) -> str:
    """How a file's text is written. Raises KbctlError for what is empty or no text at all."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as source:
        start = source.read(2)
        if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "utf-16"
        if not start or start == b"PK":
            what = "the table is empty" if not start else "no table but an archive (.zip, .xlsx)"
            raise KbctlError(what, where=str(path), tip="save it as .csv with a header line")
        try:
            decoder.decode(start)
            for chunk in iter(lambda: source.read(1 << 20), b""):
                decoder.decode(chunk)
        except UnicodeDecodeError:
            return "latin-1"
    return "utf-8"
