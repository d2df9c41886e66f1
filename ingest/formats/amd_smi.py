"""``amd-smi``: the indented text of ``static`` and ``metric``, its JSON, ``monitor``, and the default box.

Owns these forms. Values carry their unit behind them (text) or beside them (JSON).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ingest.formats import Format, Unreadable
from ingest.gpu_csv import to_number
from ingest.machine import known
from ingest.sources import Source
from ingest.tally import Cards
from ingest.traces import hardware_of, line_count, telemetry_of, trace_reading
from kb.model import Reading

if TYPE_CHECKING:
    from ingest.samples import Samples

_GPU = re.compile(r"^GPU: (\d+)\s*$")
_PAIR = re.compile(r"^(\s*)([A-Z][\w /()-]*?):(?:\s+(.*?))?\s*$")
_BOX = re.compile(r"AMD-SMI (?P<tool>\S+)\s+amdgpu version: (?P<driver>\S+)\s+ROCm version: (?P<rocm>\S+)")
_BOX_CARD = re.compile(
    r"^\|\s*(?P<bdf>[0-9a-f]{4}:[0-9a-f:.]+)\s+(?P<name>\S.*?)\s*\|\s*(?P<mem>\d+ ?%|N/A)"
    r"\s+(?P<temp>\d+ ?°?C|N/A)"
)
_BOX_STATE = re.compile(
    r"^\|\s*(?P<index>\d+)\s+.*?\|\s*(?P<load>\d+ ?%|N/A)\s+.*?(?P<used>\d+)/(?P<total>\d+) ?MB.*\|\s*$"
)
_BOX_POWER = re.compile(r"(\d+)/(\d+) ?W")
_VERSIONS = re.compile(
    r"AMDSMI Tool: (?P<tool>\S+) .*ROCm version: (?P<rocm>\S+) .*amdgpu version: (?P<driver>\S+)"
)
# The unit after its number, and the whole after the slash, stand in one cell with them.
_SPACE_WITHIN = re.compile(
    r"(?:(?<=\d)|(?<=N/A)) (?=(?:W|°C|MHz|%|[MG]B|[KMG]b/s|[KMG]B/s)(?:\s|$))|(?<=\d/)\s+(?=\d)"
)
_USED_OF_WHOLE = ("memory_used_mib", "memory_total_mib")
_MONITOR = re.compile(r"^[ \t]*(?:TIMESTAMP[ \t]+)?GPU[ \t].*POWER", re.MULTILINE)
# Paths of the text form (lower case, joined by "/"), in order of preference; metric -> paths.
_METRICS: Mapping[str, tuple[str, ...]] = {
    "power_w": ("power/socket_power", "power/average_socket_power", "power/current_socket_power"),
    "power_limit_w": ("limit/socket_power", "limit/max_power", "power_cap/power_cap", "limit/power_cap"),
    "utilization_pct": ("usage/gfx_activity", "usage/gfx_usage"),
    "memory_utilization_pct": ("usage/umc_activity", "usage/mem_usage"),
    "temperature_c": ("temperature/edge", "temperature/hotspot"),
    "memory_temperature_c": ("temperature/mem", "temperature/vram"),
    "memory_total_mib": ("mem_usage/total_vram", "vram/size", "vram/vram_size"),
    "memory_used_mib": ("mem_usage/used_vram",),
    "memory_free_mib": ("mem_usage/free_vram",),
    "sm_clock_mhz": ("clock/gfx_0/clk", "clock/gfx/clk", "clock/gfx/cur_clk"),
    "sm_clock_max_mhz": ("clock/gfx_0/max_clk", "clock/gfx/max_clk"),
    "memory_clock_mhz": ("clock/mem_0/clk", "clock/mem/clk"),
}
_MONITOR_COLUMNS = {
    "POWER": "power_w", "PWR": "power_w", "PWR_CAP": "power_limit_w",
    "GPU_T": "temperature_c", "GPU_TEMP": "temperature_c", "MEM_T": "memory_temperature_c",
    "MEM_TEMP": "memory_temperature_c", "GFX_CLK": "sm_clock_mhz", "GFX_CLOCK": "sm_clock_mhz",
    "GFX%": "utilization_pct",
    "GFX_UTIL": "utilization_pct", "MEM%": "memory_utilization_pct", "MEM_UTIL": "memory_utilization_pct",
    "MEM_CLOCK": "memory_clock_mhz", "VRAM_USED": "memory_used_mib", "VRAM_TOTAL": "memory_total_mib",
    "VRAM_FREE": "memory_free_mib",
}  # fmt: skip


def sniff_text(source: Source) -> float:
    """Indented keys under ``GPU: n`` with the tool's own groups."""
    head = source.head
    own = any(
        word in head for word in ("MARKET_NAME:", "GFX_ACTIVITY:", "SOCKET_POWER:", "    ASIC:", "    VRAM:")
    )
    return 0.95 if re.search(r"^GPU: \d+\s*$", head, re.MULTILINE) and own else 0.0


def read_text(source: Source) -> Reading:
    """State and identity of every card."""
    cards: list[tuple[int, dict[str, str]]] = []
    groups: list[tuple[int, str]] = []
    fields: dict[str, str] | None = None
    lines = odd = 0
    for _, line in source.lines():
        if not line.strip():
            continue
        lines += 1
        pair, card = _PAIR.match(line), _GPU.match(line)
        if card:
            fields, groups = {}, []
            cards.append((int(card[1]), fields))
        elif pair is None:
            odd += 1
        elif not pair[1]:
            fields = None  # a CPU or another top group begins
        elif fields is not None:
            _keep(fields, groups, pair)
    return _reading(source, "amd_smi", cards, lines, odd)


def sniff_json(source: Source) -> float:
    """A list (or ``gpu_data``) of cards with the tool's own groups."""
    head = source.head.lstrip("\ufeff \t\r\n")[:8000]
    own = sum(
        1
        for word in (
            '"gfx_activity"',
            '"asic"',
            '"usage"',
            '"power"',
            '"market_name"',
            '"mem_usage"',
            '"vram"',
        )
        if word in head
    )
    return 0.95 if head[:1] in ("[", "{") and '"gpu"' in head and own >= 2 and '"card0"' not in head else 0.0


def read_json(source: Source) -> Reading:
    """The same from ``--json``."""
    try:
        raw = json.loads(source.text.lstrip("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"the JSON is damaged or cut: {error}") from None
    rows = raw.get("gpu_data") if isinstance(raw, dict) else raw
    listed = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    listed = listed or ([raw] if isinstance(raw, dict) else [])
    cards = [(row["gpu"], dict(_flat(row, ""))) for row in listed if isinstance(row.get("gpu"), int)]
    return _reading(source, "amd_smi_json", cards, source.text.count("\n") + 1)


def sniff_monitor(source: Source) -> float:
    """The header of ``amd-smi monitor``, or the title of the default box."""
    if _BOX.search(source.head):
        return 0.95
    header = _MONITOR.search(source.head)
    line = source.head[header.start() :].split("\n", 1)[0].split() if header else []
    return 0.93 if sum(1 for name in line if name in _MONITOR_COLUMNS) >= 2 else 0.0


def read_monitor(source: Source) -> Reading:
    """A sample of every card per row or box."""
    reader = _Rows(source.samples)
    for _, line in source.lines():
        reader.take(line)
    if not reader.cards.rows:
        raise Unreadable("no row of a card was found")
    found = telemetry_of(reader.cards.by_key.values(), first=reader.first, last=reader.last)
    return trace_reading(
        str(source.path),
        "amd_smi_monitor",
        found,
        hardware_of(found, driver=reader.facts.get("driver")),
        tool="amd-smi",
        tool_version=reader.facts.get("tool"),
        lines=line_count(reader.lines),
        extra={"rocm": rocm} if (rocm := known(reader.facts.get("rocm"))) else {},
    )


class _Rows:
    """State while reading lines of ``monitor`` or of the box."""

    def __init__(self, keep: Samples | None) -> None:
        self.cards = Cards(keep)
        self.facts: dict[str, str] = {}
        self.lines = 0
        self.first = self.last = ""
        self._names: list[str] = []
        self._open: re.Match[str] | None = None

    def take(self, line: str) -> None:
        """One line."""
        self.lines += bool(line.strip())
        line = line.strip() if line.lstrip()[:1] == "|" else line
        title = _BOX.search(line) or _VERSIONS.search(line)
        if title:
            self.facts |= title.groupdict()
        elif card := _BOX_CARD.match(line):
            self._open = card
        elif (state := _BOX_STATE.match(line)) and self._open:
            self._of_box(self._open, state, line)
        elif _MONITOR.match(line):
            self._names = line.split()
        elif self._names and re.match(r"^\s*\d+\s", line):
            self._of_row(line)

    def _of_row(self, line: str) -> None:
        # A unit stands apart from its number (``430 W``): joined, the cells count as the header's words do.
        cells = re.sub(_SPACE_WITHIN, "", line).split()
        row = dict(zip(self._names, cells, strict=False))
        if len(cells) != len(self._names) or not row["GPU"].isdecimal():
            return
        sample = {role: to_number(row[name], role) for name, role in _MONITOR_COLUMNS.items() if name in row}
        if "VRAM_USAGE" in row:
            sample |= {role: to_number(row["VRAM_USAGE"], role) for role in _USED_OF_WHOLE}
        self.last = row.get("TIMESTAMP", "")
        self.first = self.first or self.last
        self.cards.add(row["GPU"], sample, at=self.last, index=int(row["GPU"]))

    def _of_box(self, card: re.Match[str], state: re.Match[str], line: str) -> None:
        power = _BOX_POWER.search(card.string) or _BOX_POWER.search(line)
        sample = {
            "utilization_pct": to_number(state["load"], "utilization_pct"),
            "memory_utilization_pct": to_number(card["mem"], "memory_utilization_pct"),
            "memory_used_mib": float(state["used"]),
            "memory_total_mib": float(state["total"]),
            "temperature_c": to_number(card["temp"], "temperature_c"),
            "power_w": float(power[1]) if power else None,
            "power_limit_w": float(power[2]) if power else None,
        }
        name = None if card["name"].startswith("0x") else re.sub(r"\.{2,}$", "", card["name"])
        self.cards.add(card["bdf"], sample, index=int(state["index"]), name=name)
        self._open = None


def _keep(fields: dict[str, str], groups: list[tuple[int, str]], pair: re.Match[str]) -> None:
    indent, key, value = len(pair[1]), pair[2].lower().replace(" ", "_"), pair[3]
    while groups and groups[-1][0] >= indent:
        groups.pop()
    if value is None:
        groups.append((indent, key))
    else:
        fields.setdefault("/".join([*(word for _, word in groups), key]), value)


def _flat(row: Mapping[str, Any], path: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    for key, value in row.items():
        inner = f"{path}/{key}".strip("/").lower()
        if isinstance(value, dict) and "value" in value:
            yield inner, f"{value['value']} {value.get('unit') or ''}".strip()
        elif isinstance(value, dict) and depth < 6:
            yield from _flat(value, inner, depth + 1)
        elif isinstance(value, str | int | float):
            yield inner, str(value)


def _looks(told: Iterable[tuple[int, dict[str, str]]]) -> list[tuple[int, dict[str, str]]]:
    """A mapping for each look at a card: what two commands tell of it is one, what comes again another."""
    looks: list[tuple[int, dict[str, str]]] = []
    latest: dict[int, dict[str, str]] = {}
    for index, fields in told:
        if index in latest and not latest[index].keys() & fields.keys():
            latest[index] |= fields
        else:
            latest[index] = fields
            looks.append((index, fields))
    return looks


def _reading(
    source: Source, form: str, told: Iterable[tuple[int, dict[str, str]]], lines: int, odd: int = 0
) -> Reading:
    cards, driver = Cards(source.samples), None
    kept: dict[str, dict[str, str]] = {}
    looks = _looks(told)
    times = [time for _, fields in looks if (time := known(fields.get("timestamp")))]
    for index, fields in looks:
        sample = {role: _first(fields, paths, role) for role, paths in _METRICS.items()}
        name = known(fields.get("board/product_name")) or known(fields.get("asic/market_name"))
        who: dict[str, Any] = {"index": index, "name": _product(name), "uuid": known(fields.get("uuid"))}
        cards.add(str(index), sample, at=known(fields.get("timestamp")) or "", **who)
        driver = driver or known(fields.get("driver/version")) or known(fields.get("driver/driver_version"))
        kept[str(index)] = {key: fields[key] for key in _KEPT if known(fields.get(key))}
    if not kept:
        raise Unreadable("no card was found")
    found = telemetry_of(cards.by_key.values(), first=(times or [""])[0], last=(times or [""])[-1])
    return trace_reading(
        str(source.path),
        form,
        found,
        hardware_of(found, driver=driver),
        tool="amd-smi",
        lines=line_count(lines, odd),
        extra={"cards": kept},
    )


_KEPT = (
    "asic/market_name",
    "partition/compute_partition",
    "partition/memory_partition",
    "vram/type",
    "bus/bdf",
)


def _product(name: str | None) -> str | None:
    inner = re.search(r"\[([^\]]+)\]", name or "")
    word = inner[1] if inner else name
    return (
        f"AMD {word}"
        if word and not word.startswith("AMD") and re.match(r"Instinct|Radeon|MI\d", word)
        else word
    )


def _first(fields: Mapping[str, str], paths: tuple[str, ...], role: str) -> float | None:
    return next(
        (number for path in paths if (number := to_number(fields.get(path, ""), role)) is not None), None
    )


FORMATS = [
    Format(
        name="amd_smi",
        kind="trace",
        version=3,
        sniff=sniff_text,
        read=read_text,
        docs="Text of `amd-smi static` and `amd-smi metric`: identity, limits and state of each card.",
    ),
    Format(
        name="amd_smi_json",
        kind="trace",
        version=3,
        sniff=sniff_json,
        read=read_json,
        docs="`amd-smi static --json` and `amd-smi metric --json`.",
    ),
    Format(
        name="amd_smi_monitor",
        kind="trace",
        version=5,
        sniff=sniff_monitor,
        read=read_monitor,
        docs="`amd-smi monitor` and the box that `amd-smi` prints by default.",
    ),
]
