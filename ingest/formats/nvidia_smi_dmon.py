"""``nvidia-smi dmon`` and ``pmon``: blank-separated (or CSV) columns under two ``#`` header lines.

Owns both. Columns go by name, since drivers and ``-s`` choose them; the header comes again every screenful.
"""

from __future__ import annotations

import re

from ingest.bench.sniffing import below_pages
from ingest.formats import Format, Unreadable
from ingest.gpu_columns import recognise_column
from ingest.gpu_count import summarise
from ingest.gpu_csv import TraceLayout, find_table, is_around
from ingest.sources import Source
from ingest.traces import line_count, summary_reading, telemetry_of, trace_reading
from kb.model import Problem, Reading

_HEADER = re.compile(
    r"^#\s*(?:(?:Date|Time)\b[\s,]*)*gpu\b(?=[\s,]+\w)[^:=()\n]*$", re.MULTILINE | re.IGNORECASE
)
_UNITS = re.compile(r"[ \r]*\n#\s*((?:YYYYMMDD[\s,]*|HH:MM:SS[\s,]*)*Idx\b[^\n]*)")
_CELL = re.compile(r"\s*(?:-|[\d:./]+)\s*$")
_TOOL = "nvidia-smi"
_SHARES = (("sm", "utilization_pct_max"), ("mem", "memory_utilization_pct_max"), ("fb", "memory_mib_max"))


@below_pages
def sniff_dmon(source: Source) -> float:
    """The names line with ``gpu`` first, and no process column."""
    header = _header(source.head)
    return 0.97 if header and "pid" not in _names(header) and len(_names(header)) > 2 else 0.0


def sniff_pmon(source: Source) -> float:
    """The names line with ``gpu`` and ``pid``."""
    header = _header(source.head)
    return 0.97 if header and {"gpu", "pid"} <= set(_names(header)) else 0.0


def read_dmon(source: Source) -> Reading:
    """Samples of every GPU."""
    table = find_table(source, dmon_layout)
    if table is None:
        raise Unreadable("no dmon header line was found")
    found, lines = table
    summary = summarise(lines, found, source.samples)
    return summary_reading(
        str(source.path), "nvidia_smi_dmon", _TOOL, summary, [one.name for one in found.columns]
    )


def dmon_layout(head: str) -> TraceLayout | None:
    """The layout of a dmon file, or None when its head has no names line."""
    header = _header(head)
    if header is None:
        return None
    columns = tuple(recognise_column(name) for name in _with_units(head, header))
    before = head[: head.index(header)].split("\n")[:-1]
    return TraceLayout(
        columns, "," if "," in header else "", ".", header, _first_row(before, header, len(columns))
    )


def _first_row(before: list[str], header: str, width: int) -> int:
    """How many lines to skip: the tail of a longer trace has rows before its first header, too."""
    delimiter = "," if "," in header else None
    rows = (line.split(delimiter) for line in before)
    is_row = (len(row) == width and all(_CELL.match(cell) for cell in row) for row in rows)
    return next((at for at, told in enumerate(is_row) if told), len(before) + 1)


def read_pmon(source: Source) -> Reading:
    """Processes with their share of a GPU; a GPU without a process prints a row of dashes."""
    header = _header(source.head)
    if header is None:
        raise Unreadable("no pmon header line was found")
    names, reader = _names(header), _Processes()
    for number, line in source.lines():
        if again := _header(line):
            names = _names(again)  # a command with other columns
        if line.strip():
            reader.take(number, line, names, "," in header)
    return trace_reading(
        str(source.path),
        "nvidia_smi_pmon",
        telemetry_of([], rows=reader.rows),
        tool=_TOOL,
        lines=line_count(reader.lines, len(reader.problems)),
        problems=reader.problems[:20],
        extra={"columns": names, "processes": list(reader.found.values())},
    )


class _Processes:
    """What rows of pmon say of each process on each GPU."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, object]] = {}
        self.problems: list[Problem] = []
        self.rows = self.lines = 0

    def take(self, number: int, line: str, names: list[str], is_csv: bool) -> None:
        """One line that is not blank: a header, a row, or neither."""
        self.lines += 1
        if line.startswith("#") or is_around(line):
            return
        cells = line.split("," if is_csv else None, len(names) - 1)
        if len(cells) != len(names) or not re.fullmatch(r"[-\d: ]+", cells[0]):
            what = f"is no row of the table: {line.strip()[:120]}"
            self.problems.append(Problem(line=number, what=what))
            return
        self.rows += 1
        self._keep(dict(zip(names, (cell.strip() for cell in cells), strict=True)))

    def _keep(self, cells: dict[str, str]) -> None:
        pid = cells.get("pid", "-")
        if pid == "-":
            return
        one = self.found.setdefault(
            f"{cells.get('gpu')}/{pid}",
            {"gpu": cells.get("gpu"), "pid": pid, "type": cells.get("type"), "name": cells.get("command")},
        )
        for name, metric in _SHARES:
            value = cells.get(name, "-")
            if re.fullmatch(r"\d{1,9}", value):
                before = one.get(metric)
                one[metric] = max(int(value), before) if isinstance(before, int) else int(value)


def _header(head: str) -> str | None:
    found = _HEADER.search(head)
    return found[0].rstrip("\r ") if found else None


def _names(header: str) -> list[str]:
    return header.lstrip("# ").lower().replace(",", " ").split()


def _with_units(head: str, header: str) -> list[str]:
    """The names, with those units beside them that the line below gives to metrics of ``--gpm-metrics``."""
    names, units = _names(header), _UNITS.match(head, head.index(header) + len(header))
    words = units[1].replace(",", " ").split() if units else []
    if len(words) != len(names):
        return names
    pairs = zip(names, words, strict=True)
    return [f"{name} [{unit[4:]}]" if unit.startswith("GPM:") else name for name, unit in pairs]


FORMATS = [
    Format(
        name="nvidia_smi_dmon",
        kind="trace",
        version=5,
        sniff=sniff_dmon,
        read=read_dmon,
        docs="Output of `nvidia-smi dmon`, any `-s` groups, with `-o DT`, or as CSV: "
        "a row per GPU and sample.",
    ),
    Format(
        name="nvidia_smi_pmon",
        kind="trace",
        sniff=sniff_pmon,
        read=read_pmon,
        docs="Output of `nvidia-smi pmon`: processes and their largest share of a GPU.",
    ),
]
