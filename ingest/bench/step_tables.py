"""The tables of TGI's ``text-generation-benchmark``: a step of a static batch in each row.

Owns their steps and units. Must not find tables, nor know who ran them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ingest.bench import cells
from ingest.bench.tables import Table
from kb.model import Measurement

TOOL = "text-generation-benchmark"
_STATISTICS = {"Average": "mean", "Lowest": "min", "Highest": "max", "p50": "p50", "p90": "p90", "p99": "p99"}
_STEPS = {"Prefill": "prefill_ms", "Decode (token)": "tpot_ms", "Decode (total)": "decode_ms"}
_MILLISECONDS = {"ms": 1.0, "s": 1e3, "µs": 1e-3, "us": 1e-3}
_CELL = re.compile(r"(?P<value>\d+(?:\.\d+)?) ?(?P<unit>ms|s|µs|us|tokens/secs?)")


def is_steps(table: Table) -> bool:
    """Whether a table is one of these: of latencies, or of throughputs."""
    return table.header[:3] == ["Step", "Batch Size", "Average"]


def rows(table: Table) -> Iterable[Measurement]:
    """A point for each row; a step's name stands in its first row alone.

    Throughput of the prefill counts the one token that it makes for each prompt, so it is left out.
    """
    step = ""
    for line, row in table.records():
        step = cells.plain(row.get("Step", "")) or step
        size = cells.whole(row.get("Batch Size"))
        metrics: dict[str, float | None] = {}
        for label, statistic in _STATISTICS.items():
            if found := _CELL.fullmatch(cells.plain(row.get(label, ""))):
                metrics |= _figure(step, statistic, float(found["value"]), found["unit"])
        if metrics and size is not None:
            yield Measurement(workload={"batch_size": size}, metrics=metrics, client=TOOL, line=line)


def _figure(step: str, statistic: str, value: float, unit: str) -> dict[str, float | None]:
    if unit in _MILLISECONDS:
        return {f"{_STEPS[step]}_{statistic}": value * _MILLISECONDS[unit]} if step in _STEPS else {}
    if step != "Decode":
        return {}
    return {"output_tok_s" if statistic == "mean" else f"output_tok_s_{statistic}": value}
