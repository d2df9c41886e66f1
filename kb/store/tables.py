"""Read foreign tables of measurements (Parquet, CSV, TSV, JSON lines) as rows.

Owns the reading through DuckDB. Must not store anything: what is read here is only looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

from kb.errors import KbctlError


def rows(path: Path, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """A table's rows, or some of its columns. Raises KbctlError for what is no table or lacks a column."""
    if not path.is_file():
        raise KbctlError(
            "no such table", where=str(path), tip="a .parquet, .csv, .tsv or .jsonl file, or a store"
        )
    with duckdb.connect() as base:
        try:
            relation = base.sql("SELECT * FROM " + _source(path))  # noqa: S608 - quoted in _source
            missing = [name for name in columns or () if name not in relation.columns]
            if missing:
                raise KbctlError(
                    f"the table has no column {', '.join(missing)}",
                    where=str(path),
                    tip=f"it has {', '.join(relation.columns)}",
                )
            wanted = list(columns) if columns else relation.columns
            found = relation.project(", ".join(f'"{name}"' for name in wanted)).fetchall()
        except duckdb.Error as error:
            what = str(error).splitlines()[0]
            raise KbctlError(
                f"not readable as a table: {what}", where=str(path), tip="try .parquet or .csv"
            ) from error
    return [dict(zip(wanted, row, strict=True)) for row in found]


def _source(path: Path) -> str:
    quoted = "'" + str(path).replace("'", "''") + "'"
    name = path.name.removesuffix(".gz").removesuffix(".zst").lower()
    if name.endswith(".parquet"):
        return f"read_parquet({quoted})"
    if name.endswith((".jsonl", ".ndjson", ".json")):
        return f"read_json_auto({quoted})"
    delimiter = ", delim = '\t'" if name.endswith(".tsv") else ""
    return f"read_csv({quoted}, header = true, all_varchar = true{delimiter})"
