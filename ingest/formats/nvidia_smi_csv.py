"""``nvidia-smi --query-gpu=… --format=csv``, in any choice of columns, and ``--query-compute-apps``.

Owns recognising these two. The table itself is ingest.gpu_csv's. A file without a header is refused with what
would help: its columns were chosen by whoever asked, so they are not guessed. A loop that stamps its rounds
is its author's own table, read as far as units tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile

from ingest.bare_rows import find_layout as find_bare
from ingest.bare_rows import likely_columns
from ingest.formats import Format, Unreadable
from ingest.formats.nvidia_smi_topo import describe, matrix
from ingest.gpu_columns import is_tool_name
from ingest.gpu_count import summarise
from ingest.gpu_csv import (
    LARGE_BYTES,
    TraceLayout,
    blocks,
    find_table,
    given_layout,
    layout,
    table_in,
)
from ingest.machine import hardware, known
from ingest.rounds import in_rounds, with_times
from ingest.sources import Source
from ingest.traces import line_count, summary_reading, telemetry_of, trace_reading
from kb.model import Problem, Reading

_TOOL = "nvidia-smi"
_LONG_TEXT = 24  # lines
_STAMP = re.compile(r"^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}$")
_PRODUCT = re.compile(r"^(?:NVIDIA |Tesla |GeForce |Quadro |GRID )")
_VALUE = re.compile(
    r"^(?:-?[\d.]+ (?:%|MiB|W|MHz|us)|\[(?:N/A|Not Supported|Unknown Error)\]|P\d\d?|GPU-[0-9a-f-]{36})$"
)


def sniff_query(source: Source) -> float:
    """Header cells spelled as the tool prints its fields; at least two, or all of them."""
    found = table_in(source)
    if found is None or _is_apps(found):
        return 0.0
    mine = [one for one in found.columns if is_tool_name(one.name)]
    dotted = [one for one in mine if "." in one.name]
    if len(mine) >= 2 and dotted:
        by_the_way = _is_aside(source.raw_head, found) or _is_aside(source.head, found)
        return 0.6 if by_the_way else 0.97
    return 0.75 if len(mine) >= 2 and found.metrics() == 0 and found.position("name") is not None else 0.0


def _is_aside(text: str, found: TraceLayout) -> bool:
    """Whether a long text shows the table by the way: a job that lists its cards, then starts a server."""
    before, _, after = text.partition(found.header or "\0")
    wide = len(found.columns) - 1
    rest = [line for line in after.split("\n")[1:] if line.strip()]
    rows = sum(1 for _ in takewhile(lambda line: line.count(found.delimiter) == wide, rest))
    others = before.count("\n") + len(rest) - rows
    return bool(rows) and others >= _LONG_TEXT and rows * 10 < others


def sniff_bare(source: Source) -> float:
    """Rows of values in the tool's own writing, and nothing else before them."""
    if table_in(source) is None and likely_columns(source.raw_head):
        return 0.9
    lines = [line for line in source.head.split("\n")[:5] if line.strip()]
    return 0.9 if lines and lines[0][:1] != "{" and all(_is_bare_row(line) for line in lines) else 0.0


def sniff_apps(source: Source) -> float:
    """A header of process columns."""
    found = table_in(source)
    return 0.97 if found is not None and _is_apps(found) else 0.0


def read(source: Source) -> Reading:
    """Samples of a trace with a header."""
    table = find_table(source, layout)
    if table is None:
        raise Unreadable("no header line of nvidia-smi columns was found")
    found, lines = table
    if rounds := in_rounds(found, source.raw_head):
        summary = summarise(_rows(source, found.header), rounds, source.samples)
        return summary_reading(str(source.path), "nvidia_smi_csv", _TOOL, summary, _names(found))
    if source.size >= LARGE_BYTES:
        from ingest.large_trace import read_large  # noqa: PLC0415 - loads DuckDB

        if large := read_large(source, found, "nvidia_smi_csv", _TOOL):
            return large
    summary = summarise(lines, found, source.samples)
    if topology := describe(matrix(source.head.split("\n"))[0]):
        summary.facts["topology"] = topology  # of the same session
    return summary_reading(str(source.path), "nvidia_smi_csv", _TOOL, summary, _names(found))


def read_with_columns(source: Source, columns: Sequence[str]) -> Reading:
    """Samples of a trace without header, by the column names that the user gave, in order."""
    found = given_layout(columns, source.raw_head)
    summary = summarise(blocks(source), found, source.samples)
    if not summary.rows:
        raise Unreadable(f"no row has the {len(columns)} columns that --columns names")
    return summary_reading(
        str(source.path), "nvidia_smi_csv", _TOOL, summary, [one.name for one in found.columns]
    )


def read_bare(source: Source) -> Reading:
    """Samples of a stamped loop whose units tell its columns; else refuse: the columns are not known."""
    if found := _bare(source):
        return _read_by_units(source, found)
    count = len(next(line for line in source.head.split("\n") if line.strip()).split(","))
    likely = ",".join(likely_columns(source.raw_head))
    example = "such as timestamp,index,name,utilization.gpu,power.draw"
    raise Unreadable(
        f"rows of nvidia-smi values without a header: name the {count} columns with --columns "
        f"(as they stood in --query-gpu, {f'which looks like {likely}' if likely else example})"
    )


def _read_by_units(source: Source, found: TraceLayout) -> Reading:
    summary = summarise(_rows(source), found, source.samples)
    roles = [one.role for one in found.columns]
    told = ", ".join(roles)
    what = f"rows without a header: their cells tell the columns, {told}; --columns names them otherwise"
    summary.trouble.append((None, what))
    return summary_reading(str(source.path), "nvidia_smi_csv_bare", _TOOL, summary, roles)


def _bare(source: Source) -> TraceLayout | None:
    """What the cells of rows tell, where no header does."""
    return find_bare(source.raw_head) if table_in(source) is None else None


def _rows(source: Source, header: str = "") -> Iterator[str]:
    """Blocks of rows with what stands before them."""
    lines = with_times((line for text in blocks(source) for line in text.split("\n")), header)
    return iter(lambda: "\n".join(islice(lines, 20_000)), "")


def _names(found: TraceLayout) -> list[str]:
    return [one.name for one in found.columns]


def read_apps(source: Source) -> Reading:
    """Processes and the memory each holds: hardware names and, per process, the largest memory seen."""
    found = layout(source.head) or table_in(source)  # as its lines are read
    if found is None:
        raise Unreadable("no header line of process columns was found")
    reader = _Apps(found)
    for number, line in source.lines():
        reader.take(number, line)
    names = list(dict.fromkeys(reader.names))
    machine = hardware(names=names, count=len(reader.uuids) or None)
    telemetry = telemetry_of([], rows=reader.rows, first=reader.first, last=reader.last)
    return trace_reading(
        str(source.path),
        "nvidia_smi_compute_apps",
        telemetry,
        machine,
        tool=_TOOL,
        lines=line_count(reader.lines, len(reader.problems)),
        problems=reader.problems[:20],
        extra={"processes": list(reader.processes.values())},
    )


class _Apps:
    """Rows of ``--query-compute-apps``: a process name may hold commas, so columns are cut from both ends."""

    def __init__(self, found: TraceLayout) -> None:
        self.layout = found
        self.where = {one.role: at for at, one in enumerate(found.columns)}
        self.rows = self.lines = 0
        self.names: list[str] = []
        self.uuids: set[str] = set()
        self.processes: dict[tuple[str | None, str | None], dict[str, object]] = {}
        self.problems: list[Problem] = []
        self.first = self.last = ""

    def take(self, number: int, line: str) -> None:
        """One line: a row, the header (again), or nothing."""
        if not line.strip():
            return
        self.lines += 1
        if number <= self.layout.skip or line.strip() == self.layout.header:
            return
        cells = self._cut(line)
        if cells is None:
            self.problems.append(Problem(line=number, what=f"is no row of the table: {line.strip()[:120]}"))
            return
        self.rows += 1
        self._keep(cells)

    def _cut(self, line: str) -> list[str] | None:
        cells = [cell.strip() for cell in line.split(self.layout.delimiter)]
        spare = len(cells) - len(self.layout.columns)
        at = self.where.get("process")
        if spare > 0 and at is not None:
            cells[at : at + spare + 1] = [", ".join(cells[at : at + spare + 1])]
        return cells if len(cells) == len(self.layout.columns) else None

    def _keep(self, cells: list[str]) -> None:
        at = {role: known(cells[place]) for role, place in self.where.items()}
        self.last = at.get("time") or self.last
        self.first = self.first or self.last
        if at.get("name"):
            self.names.append(str(at["name"]))
        if at.get("uuid") or at.get("bus"):
            self.uuids.add(str(at.get("bus")) + str(at.get("uuid")))
        memory = re.match(r"\d+", at.get("process_memory") or at.get("memory_used_mib") or "")
        key = at.get("pid"), at.get("process")
        before = self.processes.get(key, {}).get("memory_mib")
        used = int(memory[0]) if memory else None
        if isinstance(before, int) and (used is None or before > used):
            used = before
        self.processes[key] = {"pid": key[0], "name": key[1], "memory_mib": used}


def _is_apps(found: TraceLayout) -> bool:
    return found.position("pid") is not None and (
        found.position("process") is not None or found.position("process_memory") is not None
    )


def _is_bare_row(line: str) -> bool:
    cells = [cell.strip() for cell in line.split(",")]
    told = sum(1 for cell in cells if _STAMP.match(cell) or _PRODUCT.match(cell) or _VALUE.match(cell))
    return len(cells) >= 3 and told >= 2


FORMATS = [
    Format(
        name="nvidia_smi_csv",
        kind="trace",
        version=6,
        sniff=sniff_query,
        read=read,
        docs="Output of `nvidia-smi --query-gpu=… --format=csv`, any columns, with or without units, "
        "repeated with `-l`. Spreadsheet round trips (`;`, decimal comma, BOM) and restarts with a second "
        "header are read; cells that report trouble and cut rows become problems.",
    ),
    Format(
        name="nvidia_smi_csv_bare",
        kind="trace",
        version=4,
        sniff=sniff_bare,
        read=read_bare,
        read_with_columns=read_with_columns,
        docs="The same with `noheader`: refused until `--columns` names its columns, and told what they look "
        "like. Where a loop's stamps stand before rows or between them, they are read as far as units tell.",
    ),
    Format(
        name="nvidia_smi_compute_apps",
        kind="trace",
        sniff=sniff_apps,
        read=read_apps,
        docs="Output of `nvidia-smi --query-compute-apps=…`: processes and the memory each holds.",
    ),
]
