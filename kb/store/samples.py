"""Samples of GPU traces in the store, and what they tell of a span of time.

Owns the table ``sample``. Must not parse traces nor judge what they show.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from kb.store.database import Store
from kb.store.tallies import Tally, tallies

METRICS = (
    "utilization_pct",
    "memory_utilization_pct",
    "memory_used_mib",
    "power_w",
    "power_limit_w",
    "temperature_c",
    "memory_temperature_c",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "sm_active_pct",
    "tensor_active_pct",
    "dram_active_pct",
)
COLUMNS = ("trace", "sampled_at", "gpu", "card", *METRICS, "throttle")


def trace_number(identity: str) -> int:
    """What the samples of a source are found by."""
    return int(identity[:15], 16)


def put_samples(store: Store, files: Iterable[str]) -> None:
    """Take in files of samples (Parquet or CSV, columns by the table's names), inside a transaction."""
    names = list(files)
    for suffix, reader in ((".parquet", "read_parquet"), (".csv", "read_csv")):
        some = [one for one in names if Path(one).suffix == suffix]
        if some:
            _put(store, some, reader)


def drop_samples(store: Store, identities: Sequence[str]) -> None:
    """Delete the samples of these sources, inside the caller's transaction."""
    sql = "SELECT trace FROM source WHERE identity IN (SELECT unnest(?)) AND trace IS NOT NULL"
    traces = [trace for (trace,) in store.rows(sql, [list(identities)])]
    if traces:
        store.rows("DELETE FROM sample WHERE trace IN (SELECT unnest(?))", [traces])


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The samples of a part of a trace, which begins at ``first`` and ends at ``last``."""

    first: datetime
    last: datetime
    tallies: tuple[Tally, ...]


def samples_between(
    store: Store, identity: str, first: datetime, last: datetime, least: float
) -> Span | None:
    """A source's samples from ``first`` to ``last`` (without zone: UTC, or the trace's clock); None if none.

    ``card`` is the index of a GPU, or its UUID or bus where the trace tells no index; a sample is under load
    at a utilization of ``least`` or more. Metrics without a value are left out.
    """
    store.rows(
        "CREATE OR REPLACE TEMP TABLE part AS SELECT * EXCLUDE (trace, gpu, card), "
        "coalesce(card, gpu::VARCHAR, '') AS card, coalesce(utilization_pct >= ?, false) AS busy "
        "FROM sample WHERE trace = ? AND sampled_at BETWEEN ? AND ?",
        [least, trace_number(identity), first, last],
    )
    ((begin, end),) = store.rows("SELECT min(sampled_at), max(sampled_at) FROM part")
    found = tallies(store.rows, "part", (), [*METRICS, "throttle"]) if begin else None
    if not found:
        return None
    told = tuple(one for one in found if one.n or one.metric == "utilization_pct")
    return Span(first=begin, last=end, tallies=told)


def _put(store: Store, files: Sequence[str], reader: str) -> None:
    options = "union_by_name = true"
    if reader == "read_csv":
        kinds = {
            "trace": "BIGINT",
            "sampled_at": "TIMESTAMP",
            "gpu": "INTEGER",
            "card": "VARCHAR",
            "throttle": "BIGINT",
        }
        columns = ", ".join(f"'{name}': '{kinds.get(name, 'FLOAT')}'" for name in COLUMNS)
        options = f"auto_detect = false, header = false, delim = ',', quote = '', columns = {{{columns}}}"
    store.rows(f"INSERT INTO sample BY NAME SELECT * FROM {reader}(?, {options})", [list(files)])  # noqa: S608
