"""GPU traces of people's own loops as tables whose columns say what they hold.

Owns recognising and reading them; what makes a table a trace is ingest.trace_marks'.
"""

from __future__ import annotations

from ingest.blank_tables import find_layout as find_blank
from ingest.formats import Format, Unreadable
from ingest.gpu_columns import is_tool_name
from ingest.gpu_count import summarise
from ingest.gpu_csv import TraceLayout, blocks, find_table, layout, table_in
from ingest.pair_cells import apart, as_meant
from ingest.sources import Source
from ingest.trace_marks import TIMES, is_trace, names_gpu
from ingest.traces import summary_reading
from kb.model import Reading


def sniff_csv(source: Source) -> float:
    """Enough columns of a GPU's state and none of a result."""
    found = table_in(source) or find_blank(source.raw_head)
    if found is None or not is_trace(found.columns, names_gpu(source.path.name)):
        return 0.0
    if sum(1 for one in found.columns if is_tool_name(one.name) and "." in one.name) >= 2:
        return 0.0
    return 0.85 if any(found.position(role) is not None for role in TIMES) else 0.6


def read_csv(source: Source) -> Reading:
    """Samples of every GPU."""
    table = find_table(source, layout)
    if table is None and (aligned := find_blank(source.raw_head)):
        table = aligned, blocks(source)
    if table is None:
        raise Unreadable("no header line of GPU columns was found")
    found, lines = apart(as_meant(table[0], source.raw_head), table[1], source.raw_head)
    summary = summarise(lines, found, source.samples)
    reading = summary_reading(str(source.path), "gpu_loop_csv", "own loop", summary, _names(found))
    if not summary.rows:
        raise Unreadable("a header of GPU columns, but no row of samples")
    return reading


def _names(found: TraceLayout) -> list[str]:
    return [one.name for one in found.columns]


FORMAT = Format(
    name="gpu_loop_csv",
    kind="trace",
    version=7,
    sniff=sniff_csv,
    read=read_csv,
    docs="CSV of people's own loops around nvidia-smi, NVML or rocm-smi: columns are recognised by name "
    "and unit (`power_w`, `gpu_util`, `mem_used_mb`, `GPU0 Temp (C)`), long or wide, with times or "
    "seconds.",
)
