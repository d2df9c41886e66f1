"""Samples of GPU traces in the store, and what they tell of a span of time.

Owns the table ``sample``. Must not parse traces nor judge what they show.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from kb.store.database import Store
from kb.store.tallies import Tally, sums_of, tallies_of

# Table -> its columns of numbers. The second is filled only where a trace has any of them beside the load.
TABLES = {
    "sample": (
        "utilization_pct",
        "memory_utilization_pct",
        "memory_used_mib",
        "memory_total_mib",
        "power_w",
        "power_limit_w",
        "temperature_c",
        "sm_clock_mhz",
        "memory_clock_mhz",
        "throttle",
    ),
    "sample_more": (
        "utilization_pct",
        "memory_free_mib",
        "memory_reserved_mib",
        "memory_temperature_c",
        "power_instant_w",
        "power_average_w",
        "power_enforced_limit_w",
        "power_max_limit_w",
        "power_default_limit_w",
        "graphics_clock_mhz",
        "graphics_clock_max_mhz",
        "sm_clock_max_mhz",
        "graphics_active_pct",
        "sm_active_pct",
        "sm_occupancy_pct",
        "tensor_active_pct",
        "dram_active_pct",
        "power_violation_pct",
        "thermal_violation",
        "pcie_rx_mb_s",
        "pcie_tx_mb_s",
        "fan_pct",
    ),
}
WHERE = {"trace": "BIGINT", "sampled_at": "TIMESTAMP", "gpu": "INTEGER", "card": "VARCHAR"}


def tables_of(names: Iterable[str]) -> list[str]:
    """The tables that samples with these columns of numbers go to."""
    told = set(names) - {"utilization_pct"}
    return [table for table, columns in TABLES.items() if table == "sample" or told & set(columns)]


def trace_number(identity: str) -> int:
    """What the samples of a source are found by."""
    return int(identity[:15], 16)


def put_samples(store: Store, files: Iterable[str]) -> None:
    """Take in files of samples, inside a transaction.

    Their names end in the table's, with all of its columns in order.
    """
    names = list(files)
    for table in TABLES:
        some = [one for one in names if one.endswith(f"-{table}.csv")]
        if some:
            store.rows(f"INSERT INTO {table} BY NAME SELECT * FROM {_reader(table)}", [some])  # noqa: S608


def drop_samples(store: Store, identities: Sequence[str]) -> None:
    """Delete the samples of these sources, inside the caller's transaction."""
    sql = "SELECT trace FROM source WHERE identity IN (SELECT unnest(?)) AND trace IS NOT NULL"
    drop_traces(store, [trace for (trace,) in store.rows(sql, [list(identities)])])


def drop_traces(store: Store, traces: Sequence[int]) -> None:
    """The same by what the samples are found by."""
    for table in TABLES if traces else ():
        store.rows(f"DELETE FROM {table} WHERE trace IN (SELECT unnest(?))", [list(traces)])  # noqa: S608


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
    found: list[Tally] = []
    for table, columns in TABLES.items():
        store.rows(
            "CREATE OR REPLACE TEMP TABLE part AS SELECT * EXCLUDE (trace, gpu, card), "  # noqa: S608
            "coalesce(card, gpu::VARCHAR, '') AS card, coalesce(utilization_pct >= ?, false) AS busy "
            f"FROM {table} WHERE trace = ? AND sampled_at BETWEEN ? AND ?",
            [least, trace_number(identity), first, last],
        )
        if table == "sample":
            ((begin, end),) = store.rows("SELECT min(sampled_at), max(sampled_at) FROM part")
        sums = sums_of(store.rows, "part", (), columns)
        told = {key: one for key, one in sums.items() if one.n or key[2] == "utilization_pct"}
        found += tallies_of(told, store.rows, "part")
    mine = {(one.card, one.busy, one.metric): one for one in reversed(found)}
    return Span(first=begin, last=end, tallies=tuple(mine.values())) if begin else None


def _reader(table: str) -> str:
    kinds = WHERE | {one: "BIGINT" if one == "throttle" else "FLOAT" for one in TABLES[table]}
    columns = ", ".join(f"'{name}': '{told}'" for name, told in kinds.items())
    return (
        f"read_csv(?, auto_detect = false, header = false, delim = ',', quote = '', columns = {{{columns}}})"
    )
