"""``gpustat`` (text and ``--json``) and ``nvitop -1``: one look at all GPUs, or several after one another.

Owns these three.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ingest.bench import jsontext
from ingest.formats import Format, Unreadable
from ingest.gpu_columns import recognise_column
from ingest.gpu_csv import to_number
from ingest.sources import Source
from ingest.tally import Cards
from ingest.traces import hardware_of, line_count, telemetry_of, trace_reading
from kb.model import Problem, Reading

if TYPE_CHECKING:
    from ingest.samples import Samples

_ROW = re.compile(
    r"^\[(?P<index>\d+)\]\s+(?P<name>\S.*?)\s*\|\s*(?P<temp>\d+|\?\?)\s*(?:'|°)C,\s*(?:(?P<fan>\d+|\?\?)\s*%,)?"
    r"\s*(?P<load>\d+|\?\?)\s*%(?:,\s*(?P<power>\d+|\?\?)\s*/\s*(?P<limit>\d+|\?\?)\s*W)?\s*"
    r"\|\s*(?P<used>\d+)\s*/\s*(?P<total>\d+)\s*M"
)
_TITLE = re.compile(
    r"^(?:(?P<host>\S+)\s+)?(?P<time>\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})"
    r"(?:\s+(?P<driver>\d[\d.]+))?\s*$"
)
_NVITOP = re.compile(
    r"NVITOP (?P<tool>\S+)\s+Driver Version: (?P<driver>\S+)\s+CUDA Driver Version: (?P<cuda>\S+)"
)
_NVITOP_CARD = re.compile(r"^│\s*(?P<index>\d+)\s+(?P<name>\S.*?)\s+(?:On|Off|N/A|WDDM|TCC)\s*│")
# The compact form puts a card's number before its state, and no name.
_NVITOP_STATE = re.compile(
    r"^│\s*(?:(?P<index>\d+)\s+)?(?P<fan>\d+%|N/A|MAX)\s+(?P<temp>\d+C|N/A)\s+(?P<perf>P\d+|N/A)\s+(?P<power>\d+W|N/A)\s*/\s*(?P<limit>\d+W|N/A)"
    r"\s*│\s*(?P<used>[\d.]+[KMG]?i?B|N/A)\s*/\s*(?P<total>[\d.]+[KMG]?i?B|N/A)\s*│\s*(?P<load>\d+%|MAX|N/A)"
)
_NO_NAME = re.compile(r"\(\((.+)\)\)")
_CELLS = {
    "temp": "temperature_c", "load": "utilization_pct", "power": "power_w", "limit": "power_limit_w",
    "used": "memory_used_mib", "total": "memory_total_mib", "fan": "fan_pct",
}  # fmt: skip


def sniff_text(source: Source) -> float:
    """A row of gpustat, or nvitop's title."""
    lines = source.head.split("\n")[:40]
    plain = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in lines]
    if any(_NVITOP.search(line) for line in plain):
        return 0.95
    return 0.95 if any(_ROW.match(line) for line in plain) else 0.0


def read_text(source: Source) -> Reading:
    """A sample of every card per look."""
    reader = _Looks(source.samples)
    for _, line in source.lines():
        reader.take(re.sub(r"\x1b\[[\d;]*m", "", line))
    if not reader.cards.rows:
        raise Unreadable("no row of a card was found")
    found = telemetry_of(reader.cards.by_key.values(), first=reader.first, last=reader.last)
    return trace_reading(
        str(source.path),
        "gpustat",
        found,
        hardware_of(found, driver=reader.facts.get("driver"), cuda=reader.facts.get("cuda")),
        tool="nvitop" if "tool" in reader.facts else "gpustat",
        tool_version=reader.facts.get("tool"),
        lines=line_count(reader.lines, reader.odd),
    )


def sniff_json(source: Source) -> float:
    """gpustat's own top keys."""
    head = source.head.lstrip("\ufeff \t\r\n")[:4000]
    known = '"gpus"' in head and ('"query_time"' in head or '"utilization.gpu"' in head)
    return 0.95 if head.startswith("{") and known and not _has_lines(source.head) else 0.0


def read_json(source: Source) -> Reading:
    """One look, as ``gpustat --json`` writes it, or several after one another."""
    cards, times = Cards(source.samples), list[str]()
    problems, driver = list[Problem](), None
    documents = jsontext.load(source)
    for _, look in documents.objects():
        if isinstance(gpus := look.get("gpus"), list) and gpus:
            times.append(str(look.get("query_time", "")).split(".")[0])
            driver = told if isinstance(told := look.get("driver_version"), str) else driver
            problems += _take_look(cards, gpus, times[-1])
    if not cards.rows:
        raise Unreadable("the JSON lists no GPU, or is damaged")
    problems += documents.problems
    found = telemetry_of(cards.by_key.values(), first=times[0], last=times[-1])
    return trace_reading(
        str(source.path),
        "gpustat_json",
        found,
        hardware_of(found, driver=driver),
        tool="gpustat",
        lines=line_count(source.text.count("\n") + 1),
        problems=tuple(problems[:20]),
        status="partial" if problems else "parsed",
    )


def _take_look(cards: Cards, gpus: list[Any], time: str) -> Iterator[Problem]:
    """A sample of each card; one that cannot be asked has a message where its name would stand."""
    for at, gpu in enumerate(gpus):
        if not isinstance(gpu, dict):
            continue
        index = gpu.get("index") if isinstance(gpu.get("index"), int) else at
        name = gpu.get("name")
        if isinstance(name, str) and (lost := _NO_NAME.fullmatch(name)):
            yield Problem(line=None, what=f"GPU {index} could not be asked: {lost[1]}")
            name = None
        cards.add(str(index), _sample(gpu), at=time, index=index, name=name, uuid=gpu.get("uuid"))


class _Looks:
    """State while reading lines of either tool."""

    def __init__(self, keep: Samples | None) -> None:
        self.cards = Cards(keep)
        self.facts: dict[str, str] = {}
        self.first = self.last = ""
        self.lines = self.odd = 0
        self._open: tuple[int, str] | None = None

    def take(self, line: str) -> None:
        """One line without colours."""
        if not line.strip():
            return
        self.lines += 1
        row, title, head = _ROW.match(line), _TITLE.match(line), _NVITOP.search(line)
        if row:
            self._add(int(row["index"]), row["name"], row)
        elif title:
            self.last = title["time"]
            self.first = self.first or self.last
            self.facts |= {"driver": title["driver"]} if title["driver"] else {}
        elif head:
            self.facts |= head.groupdict()
        elif card := _NVITOP_CARD.match(line):
            self._open = int(card["index"]), card["name"]
        elif state := _NVITOP_STATE.match(line):
            index, name = self._open or (state["index"], None)
            if index is not None:
                self._add(int(index), name, state)
            self._open = None
        elif line[:1] not in "│╒╞├╘╰╭╤═└┌":
            self.odd += 1

    def _add(self, index: int, name: str | None, cells: re.Match[str]) -> None:
        told = cells.groupdict()
        sample = {role: to_number(_full(told[key]), role) for key, role in _CELLS.items() if told.get(key)}
        self.cards.add(str(index), sample, at=self.last, index=index, name=name)


def _full(cell: str) -> str:
    return "100" if cell == "MAX" else cell


def _sample(gpu: dict[str, Any]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for key, value in gpu.items():
        column = recognise_column(key)
        if column.is_metric and isinstance(value, int | float):
            found[column.role] = float(value)
    if "power_enforced_limit_w" in found:
        found.setdefault("power_limit_w", found["power_enforced_limit_w"])
    return found


def _has_lines(head: str) -> bool:
    """Whether whole objects follow one another, a line each: then it is a loop's JSON lines."""
    lines = [line for line in head.split("\n") if line.strip()]
    return len(lines) > 1 and all(line.lstrip().startswith("{") for line in lines[:3])


FORMATS = [
    Format(
        name="gpustat",
        kind="trace",
        version=4,
        sniff=sniff_text,
        read=read_text,
        docs="The text of `gpustat` and `nvitop -1`, once or repeated.",
    ),
    Format(
        name="gpustat_json",
        kind="trace",
        version=4,
        sniff=sniff_json,
        read=read_json,
        docs="Output of `gpustat --json`: state, memory and power of each card, once or in a loop.",
    ),
]
