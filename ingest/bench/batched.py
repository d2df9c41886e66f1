"""The tables of llama-batched-bench, and of sweep-bench, which fills the cache step by step.

Owns their columns, which name loads and times by letters. Must not find tables, nor know who ran them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ingest.bench import cells
from ingest.bench.tables import Table
from kb.model import Measurement

TOOL = "llama-batched-bench"
_COLUMNS = {
    "PP": "pp",
    "TG": "tg",
    "B": "pl",
    "N_KV": "n_kv",
    "S_PP t/s": "speed_pp",
    "S_TG t/s": "speed_tg",
    "S t/s": "speed",
    "T s": "t",
    "T_PP s": "t_pp",
}
_RATES = {"speed_pp": "input_tok_s", "speed_tg": "output_tok_s", "speed": "total_tok_s"}
_SECONDS = {"t": "e2e_ms_mean", "t_pp": "prefill_ms_mean"}


def is_batched(table: Table) -> bool:
    """Whether a table is one of these: with the width of the batch (``B``), or one request at a time."""
    return table.header[:2] == ["PP", "TG"] and "N_KV" in table.header[2:4]


def rows(table: Table) -> Iterable[Measurement]:
    """A point for each row."""
    for line, row in table.records():
        told = {_COLUMNS[key]: cells.number(raw) for key, raw in row.items() if key in _COLUMNS}
        yield point(told, line)


def point(row: Mapping[str, Any], line: int | None) -> Measurement:
    """One row, by the names of the JSON lines; without a width, ``n_kv`` is what the cache held before."""
    rates = {name: cells.number(row.get(key)) for key, name in _RATES.items()}
    times = {name: cells.number(row.get(key)) for key, name in _SECONDS.items()}
    load = {"input_len": "pp", "output_len": "tg"} | (
        {"batch_size": "pl"} if "pl" in row else {"depth": "n_kv"}
    )
    return Measurement(
        workload={key: cells.whole(row.get(name)) for key, name in load.items()},
        metrics={key: value for key, value in rates.items() if value is not None}
        | {key: value * 1e3 for key, value in times.items() if value is not None},
        client=TOOL,
        line=line,
    )
