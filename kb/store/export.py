"""Tables out of the store as Parquet or CSV files.

Owns which tables leave and how. Must not write into the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kb.errors import KbctlError
from kb.store.database import Store

TABLES = ("run", "measurement", "trace", "evidence_line")


def export_tables(store: Store, folder: Path, form: str, runs: Sequence[str]) -> list[str]:
    """Write one file per table into the folder, which is made; no ``runs`` means all. Returns the names."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise KbctlError(
            f"cannot make the folder: {error.strerror}", where=str(folder), tip="name another"
        ) from None
    options = "FORMAT parquet, COMPRESSION zstd" if form == "parquet" else "FORMAT csv, HEADER"
    names = []
    for table in TABLES:
        names.append(f"{table}.{form}")
        target = str(folder / names[-1]).replace("'", "''")
        only = " WHERE run IN (" + ", ".join(f"'{run}'" for run in runs) + ")" if runs else ""
        store.rows(f"COPY (SELECT * FROM {table}{only} ORDER BY ALL) TO '{target}' ({options})")  # noqa: S608
    return names
