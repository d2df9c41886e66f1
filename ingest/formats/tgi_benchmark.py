"""TGI's ``text-generation-benchmark``: its parameters and its tables of steps.

Owns how they stand together in one output. Must not read TGI's server logs.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from ingest.bench import cells, note_tables, step_tables, tables
from ingest.bench.identity import Facts, benchmark, grouped
from ingest.bench.sniffing import below_pages, needing
from ingest.formats import Format, Unreadable
from ingest.formats.llama_bench import count_of
from ingest.sources import Source
from kb.model import Measurement, Reading

_HEAD = re.compile(r"^\|\s*Step\s*\|\s*Batch Size\s*\|\s*Average\s*\|", re.MULTILINE)
_LENGTHS = {"Sequence Length": "input_len", "Decode Length": "output_len"}


@below_pages
@needing("Batch Size")
def _sniff(source: Source) -> float:
    return 0.96 if _HEAD.search(source.head) else 0.0


def _read(source: Source) -> Reading:
    lines = list(source.lines())
    facts, load = Facts(), dict[str, Any]()
    pairs: list[tuple[Facts, Measurement]] = []
    for table in tables.pipe_tables(lines):
        if table.header[:2] == ["Parameter", "Value"]:  # what follows was run with these
            told = {row["Parameter"]: cells.plain(row["Value"]) for _, row in table.records()}
            facts, load = Facts(model=told.get("Model")), _lengths(told)
        elif step_tables.is_steps(table):
            points = step_tables.rows(table)
            pairs += [(facts, replace(point, workload={**load, **point.workload})) for point in points]
    if not pairs:
        raise Unreadable("the tables of steps have no rows")
    return benchmark(
        source,
        "tgi_benchmark",
        grouped(note_tables.merged(pairs)),
        tool=step_tables.TOOL,
        lines=count_of(lines, len(pairs)),
    )


def _lengths(told: dict[str, str]) -> dict[str, Any]:
    found = {name: cells.whole(told.get(key)) for key, name in _LENGTHS.items()}
    return {name: value for name, value in found.items() if value is not None}


FORMAT = Format(
    name="tgi_benchmark",
    kind="benchmark",
    sniff=_sniff,
    read=_read,
    docs=(
        "What TGI's `text-generation-benchmark` prints: a point per batch size with the latencies of "
        "prefill and decode and the rate of generated tokens. The throughput of its prefill counts one "
        "token per prompt and is left out."
    ),
)
