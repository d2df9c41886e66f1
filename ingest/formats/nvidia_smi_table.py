"""The plain table of ``nvidia-smi``, in every layout, once or repeated (``-l``), bare or pasted in prose.

Owns that table and the sentences that the tool prints instead when it fails. Product names are cut in old
layouts, so they only name the GPU where what is left fits one product.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ingest.formats import Format
from ingest.formats.nvidia_smi_list import GPU_LINE
from ingest.formats.nvidia_smi_topo import describe, matrix
from ingest.machine import hardware, known
from ingest.sources import Source
from ingest.tally import Cards
from ingest.traces import hardware_of, line_count, telemetry_of, trace_reading
from kb.model import Hardware, Problem, Reading, Telemetry

if TYPE_CHECKING:
    from ingest.samples import Samples

_VERSIONS = re.compile(
    r"NVIDIA-SMI\s+(?P<tool>\S+).*?(?:(?:Driver|KMD) Version:\s*(?P<driver>\S+))"
    r"(?:.*?CUDA(?: UMD)? Version:\s*(?P<cuda>\S+))?"
)
_DATE = re.compile(r"^[\s>]*([A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\s*$")
_NAMED = re.compile(
    r"^\|\s+(?P<index>\d{1,4})\s+(?P<name>\S.*?)\s+(?P<mode>On|Off|N/A|WDDM|TCC|MCDM|ERR!)\s*\|"
    r"\s*(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)"
)
_STATE = re.compile(
    r"^\|\s*(?P<fan>\d+%|N/A|ERR!)\s+(?P<temp>\d+C|N/A|ERR!)\s+(?P<perf>P\d+|N/A|ERR!|Unknown)\s+"
    r"(?P<power>\d+W|N/A|ERR!|Unknown Error)\s*/\s*(?P<limit>\d+W|N/A|ERR!)\s*\|"
    r"\s*(?:(?P<used>\d+)MiB\s*/\s*(?P<total>\d+)MiB|[^|]*?)\s*\|\s*(?P<load>\d+%|N/A|ERR!?)?"
)
_MIG = re.compile(
    r"^\|\s+(?P<gpu>\d+)\s+(?P<gi>\d+)\s+(?P<ci>\d+)\s+(?P<dev>\d+)\s+\|"
    r"\s+(?P<used>\d+)MiB\s*/\s*(?P<total>\d+)MiB\s*\|\s*(?P<sm>\d+)"
)
_PROCESS = re.compile(
    r"^\|\s+(?P<gpu>\d+)\s+(?:(?:\d+|N/A)\s+(?:\d+|N/A)\s+)?(?P<pid>\d+)\s+(?P<type>C|G|C\+G|M\+C)\s+"
    r"(?P<name>.*?)\s+(?P<memory>\d+MiB|N/A)\s*\|"
)
_MOST_PROSE = 2000
_FAILURES = re.compile(
    r"^(?:NVIDIA-SMI has failed because .*|No devices were found|Failed to initialize NVML: .*|"
    r"Unable to determine the device handle for .*|Insufficient Permissions|"
    r'Field "[^"]*" is not a valid field to query\.|ERROR: Option .* is missing its value.*|'
    r"nvidia-smi: command not found|.*: nvidia-smi: (?:command )?not found)\s*$",
    re.MULTILINE,
)


def sniff_table(source: Source) -> float:
    """The box with the tool's and the driver's version, and a header row of the GPU columns."""
    head = source.head
    found = _VERSIONS.search(head)
    if not found or not re.search(r"\|\s*GPU\s+Name\b", head):
        return 0.0
    return 0.9 if head[: found.start()].count("\n") <= 12 else 0.6


def read_table(source: Source) -> Reading:
    """Every table of the file: a sample of every GPU each."""
    reader = _Tables(source.samples)
    for number, line in source.lines():
        reader.take(number, line)
    found = telemetry_of(reader.cards.by_key.values(), first=reader.first, last=reader.last)
    return trace_reading(
        str(source.path),
        "nvidia_smi_table",
        found if reader.cards.rows else None,
        reader.hardware(found),
        tool="nvidia-smi",
        tool_version=reader.versions.get("tool"),
        lines=line_count(reader.lines, reader.odd),
        problems=reader.problems[:20],
        extra=reader.extra(),
    )


def sniff_failure(source: Source) -> float:
    """One of the tool's sentences of failure among the first lines of a short text."""
    head = source.head
    found = _FAILURES.search(head[:2000])
    return 0.8 if found and len(head) < 4000 and head[: found.start()].count("\n") <= 3 else 0.0


def read_failure(source: Source) -> Reading:
    """What the tool said instead of answering."""
    found = _FAILURES.search(source.head)
    what = found[0].strip() if found else ""
    lines = source.head.count("\n") + 1
    return trace_reading(
        str(source.path),
        "nvidia_smi_failure",
        None,
        hardware(),
        tool="nvidia-smi",
        status="partial",
        lines=line_count(lines),
        problems=[Problem(line=1, what=f"nvidia-smi gave no answer: {what}")],
        extra={"failure": what},
    )


class _Tables:
    """State while reading lines: versions, the card whose second row comes next, processes, prose between."""

    def __init__(self, keep: Samples | None) -> None:
        self.cards = Cards(keep)
        self.versions: dict[str, str] = {}
        self.first = self.last = ""
        self.prose: list[str] = []
        self.raw: list[str] = []
        self.problems: list[Problem] = []
        self.mig: dict[str, dict[str, str]] = {}
        self.processes: dict[str, dict[str, Any]] = {}
        self.open: re.Match[str] | None = None
        self.lines = self.tables = self.odd = 0

    def take(self, number: int, line: str) -> None:
        """One line."""
        if not line.strip():
            return
        self.lines += 1
        if line.lstrip()[:1] in "|+":
            self._row(number, line.strip())
        elif date := _DATE.match(line):
            self.first, self.last = self.first or date[1], date[1]
        else:
            self.odd += 1
            if len(self.prose) < _MOST_PROSE:
                self.prose.append(line.strip()[:200])
                self.raw.append(line[:2000])

    def hardware(self, found: Telemetry) -> Hardware:
        """The machine; ``-L`` and ``topo -m`` of the same session add whole names and the links."""
        listed = [card[2] for line in self.prose if (card := GPU_LINE.match(line))]
        links, _ = matrix(self.raw)
        told = hardware_of(found, driver=self.versions.get("driver"), cuda=self.versions.get("cuda"))
        whole = hardware(listed) if listed and told.gpu is None else told
        return told._replace(gpu=whole.gpu, arch=whole.arch or told.arch, topology=describe(links))

    def extra(self) -> dict[str, Any]:
        """What has no place of its own: MIG devices, processes, tables read, words around them."""
        found = {"tables": self.tables, "mig_devices": list(self.mig.values()), "prose": self.prose[:40]}
        found["processes"] = list(self.processes.values())[:64]
        return {key: value for key, value in found.items() if value}

    def _row(self, number: int, line: str) -> None:
        versions = _VERSIONS.search(line)
        if versions:
            self.tables += 1
            self.versions |= {key: value for key, value in versions.groupdict().items() if known(value)}
            return
        named = _NAMED.match(line)
        if named:
            self.open = named
            return
        state = _STATE.match(line) if self.open else None
        if state and self.open:
            self._sample(number, self.open, state)
            self.open = None
            return
        mig, process = _MIG.match(line), _PROCESS.match(line)
        if mig:
            self.mig[f"{mig['gpu']}/{mig['gi']}/{mig['ci']}"] = mig.groupdict()
        elif process:
            self.processes[f"{process['gpu']}/{process['pid']}"] = process.groupdict()

    def _sample(self, number: int, named: re.Match[str], state: re.Match[str]) -> None:
        sample = {
            "temperature_c": _number(state["temp"]),
            "power_w": _number(state["power"]),
            "power_limit_w": _number(state["limit"]),
            "memory_used_mib": _number(state["used"]),
            "memory_total_mib": _number(state["total"]),
            "utilization_pct": _number(state["load"]),
            "fan_pct": _number(state["fan"]),
        }
        self.cards.add(named["bus"], sample, at=self.last, index=int(named["index"]), name=named["name"])
        bad = [key for key, cell in state.groupdict().items() if cell and "ERR" in cell]
        if bad:
            what = f"GPU {named['index']} answers ERR! for {', '.join(bad)}"
            self.problems.append(Problem(line=number, what=what))


def _number(cell: str | None) -> float | None:
    found = re.match(r"\d+", cell or "")
    return float(found[0]) if found else None


FORMATS = [
    Format(
        name="nvidia_smi_table",
        kind="trace",
        version=3,
        sniff=sniff_table,
        read=read_table,
        docs="The plain `nvidia-smi` table of any driver: MIG devices, WDDM, unified memory "
        "(`Not Supported`), `ERR!` cells, repeated with `-l`, or pasted into notes. "
        "Words around it are kept, not interpreted.",
    ),
    Format(
        name="nvidia_smi_failure",
        kind="trace",
        sniff=sniff_failure,
        read=read_failure,
        docs="What `nvidia-smi` prints when it cannot answer: no driver, no device, GPU lost.",
    ),
]
