"""Read foreign tables of measurements (Parquet, CSV, TSV, JSON lines) as rows.

Owns the reading through DuckDB. Must not store anything: what is read here is only looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

from kb.errors import KbctlError


class Draw(NamedTuple):
    """Which rows to read of a large table: whole contexts, at most ``most``, evenly from each group."""

    context: Sequence[str]
    group: Sequence[str]
    most: int


def columns(path: Path) -> list[str]:
    """A table's column names. Raises KbctlError for what is no table."""
    with _opened(path) as relation:
        return list(relation.columns)


def rows(path: Path, columns: Sequence[str] | None = None, draw: Draw | None = None) -> list[dict[str, Any]]:
    """A table's rows, or some columns and contexts. Raises KbctlError for no table or a missing column."""
    with _opened(path) as relation:
        asked = [*(columns or ()), *((*draw.context, *draw.group) if draw else ())]
        missing = [name for name in dict.fromkeys(asked) if name not in relation.columns]
        if missing:
            raise KbctlError(
                f"the table has no column {', '.join(missing)}",
                where=str(path),
                tip=f"it has {', '.join(relation.columns)}",
            )
        wanted = list(dict.fromkeys(columns)) if columns else list(relation.columns)
        chosen = _drawn(relation, draw) if draw else relation
        found = chosen.project(", ".join(_quoted(name) for name in wanted)).fetchall()
    return [dict(zip(wanted, row, strict=True)) for row in found]


@contextmanager
def _opened(path: Path) -> Iterator[duckdb.DuckDBPyRelation]:
    if not path.is_file():
        raise KbctlError(
            "no such table", where=str(path), tip="a .parquet, .csv, .tsv or .jsonl file, or a store"
        )
    with duckdb.connect() as base:
        try:
            yield base.sql("SELECT * FROM " + _source(path))  # noqa: S608 - quoted in _source
        except duckdb.Error as error:
            what = str(error).splitlines()[0]
            raise KbctlError(
                f"not readable as a table: {what}", where=str(path), tip="try .parquet or .csv"
            ) from error


def _drawn(relation: duckdb.DuckDBPyRelation, draw: Draw) -> duckdb.DuckDBPyRelation:
    """The rows of contexts of two and more rows, the first by a hash of their key, so many of each group."""
    key, group = _joined(draw.context), _joined(draw.group)
    query = f"""
        SELECT * FROM whole WHERE {key} IN (
          SELECT key FROM (
            SELECT key, row_number() OVER (PARTITION BY belongs ORDER BY md5(key)) AS place,
                   count(*) OVER () AS contexts, belongs
            FROM (SELECT {key} AS key, min({group}) AS belongs FROM whole GROUP BY key HAVING count(*) > 1))
          WHERE contexts <= {draw.most:d}
             OR place <= greatest({draw.most:d} // (SELECT count(DISTINCT {group}) FROM whole), 20))
    """  # noqa: S608 - names are quoted, the number is a number
    found = relation.query("whole", query)
    if found is None:  # only what is no SELECT gives none
        raise duckdb.InvalidInputException(query)
    return found


def _joined(names: Sequence[str]) -> str:
    cells = (f"coalesce(CAST({_quoted(name)} AS VARCHAR), '')" for name in names)
    return "concat_ws(chr(31), " + ", ".join(cells) + ")"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _source(path: Path) -> str:
    quoted = "'" + str(path).replace("'", "''") + "'"
    name = path.name.removesuffix(".gz").removesuffix(".zst").lower()
    if name.endswith(".parquet"):
        return f"read_parquet({quoted})"
    if name.endswith((".jsonl", ".ndjson", ".json")):
        return f"read_json_auto({quoted})"
    delimiter = ", delim = '\t'" if name.endswith(".tsv") else ""
    return f"read_csv({quoted}, header = true, all_varchar = true{delimiter})"
