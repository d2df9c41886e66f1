"""``rocm-smi``: ``--json``, and the concise table that it prints by default (old and new layouts).

Owns both; its CSV is a table like any other loop's. Key names change between ROCm releases, so they are
recognised by their words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ingest.formats import Format, Unreadable
from ingest.gpu_columns import recognise_column
from ingest.gpu_csv import to_number
from ingest.machine import known
from ingest.sources import Source
from ingest.tally import Cards
from ingest.traces import hardware_of, line_count, telemetry_of, trace_reading
from kb.model import Reading

_CARD = re.compile(r'"card\d+"\s*:\s*\{')
_HEADER = re.compile(r"^(?:GPU|Device)\s.*(?:SCLK|Temp).*(?:GPU%|GPU use)", re.MULTILINE)
_CLOCK = re.compile(r"\((\d+)\s*Mhz\)", re.IGNORECASE)
_NAMES = (
    "card series",
    "card model name",
    "product name",
    "market name",
    "device name",
    "card model",
)
_FIRST = {
    "temperature_c": ("temperature (sensor edge) (c)", "temperature (sensor junction) (c)"),
    "power_w": (
        "average graphics package power (w)",
        "current socket graphics package power (w)",
        "current graphics package power (w)",
        "graphics package power (w)",
    ),
}


def sniff_json(source: Source) -> float:
    """``card0`` at the top of a JSON object, with the tool's own key names."""
    head = source.head.lstrip("\ufeff \t\r\n")
    own = any(
        word in head
        for word in ("(Sensor ", "VRAM Total", "GPU use (%)", "Card ", "VBIOS version", "Power (W)")
    )
    return 0.96 if head[:1] in ("{", "[") and _CARD.search(head) and own else 0.0


def read_json(source: Source) -> Reading:
    """One look at every card, or several as JSON lines."""
    cards, driver, lines, odd = Cards(source.samples), None, 0, 0
    kept: dict[str, dict[str, str]] = {}
    for raw in _objects(source.text):
        lines += 1
        if not isinstance(raw, dict):
            odd += 1
            continue
        for name, card in raw.items():
            number = re.fullmatch(r"(?:card|gpu)(\d+)", str(name))
            if number and isinstance(card, dict):
                _add(cards, int(number[1]), card)
                kept[str(name)] = _kept(card)
        driver = driver or _driver(raw.get("system"))
    if not cards.rows:
        raise Unreadable("the JSON holds no card with its state")
    found = telemetry_of(cards.by_key.values())
    return trace_reading(
        str(source.path),
        "rocm_smi",
        found,
        hardware_of(found, driver=driver),
        tool="rocm-smi",
        lines=line_count(source.text.count("\n") + 1, odd),
        extra={"cards": kept},
    )


def sniff_table(source: Source) -> float:
    """The heading of the table and its columns."""
    head = source.head
    titled = "ROCm System Management Interface" in head or "ROCM-SMI" in head
    return 0.93 if titled and _HEADER.search(head) and "NVIDIA-SMI" not in head else 0.0


def read_table(source: Source) -> Reading:
    """A sample of every card per table; the unit stands in each cell."""
    cards, names, lines, odd = Cards(source.samples), list[str](), 0, 0
    for _, line in source.lines():
        lines += bool(line.strip())
        if _HEADER.match(line):
            names = re.split(r"\s{2,}", line.strip())
        elif names and re.match(r"^\s*\d+\s", line):
            odd += not _add_row(cards, names, re.split(r"\s{2,}", line.strip()))
    if not cards.rows:
        raise Unreadable("the table has no row of a card")
    found = telemetry_of(cards.by_key.values())
    return trace_reading(
        str(source.path),
        "rocm_smi_table",
        found,
        hardware_of(found),
        tool="rocm-smi",
        lines=line_count(lines, odd),
    )


def _objects(text: str) -> Iterable[Any]:
    plain = text.lstrip("\ufeff")
    try:
        whole = json.loads(plain)
        return whole if isinstance(whole, list) else [whole]
    except (ValueError, RecursionError):
        return [_object(line) for line in plain.split("\n") if line.strip()]


def _object(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _add(cards: Cards, index: int, card: Mapping[str, Any]) -> None:
    low = {str(key).lower().rstrip(": "): value for key, value in card.items()}
    sample: dict[str, float | None] = {}
    for key, value in low.items():
        clock = _CLOCK.search(str(value)) if key.startswith(("sclk", "mclk")) else None
        column = recognise_column(key)
        if clock:
            role = "sm_clock_mhz" if key.startswith("sclk") else "memory_clock_mhz"
            sample.setdefault(role, float(clock[1]))
        elif column.is_metric and column.role not in _FIRST and "vis_vram" not in key:
            sample.setdefault(column.role, to_number(str(value), column.role, column.factor))
    for role, keys in _FIRST.items():
        sample[role] = next(
            (n for key in keys if (n := to_number(str(low.get(key, "")), role)) is not None), None
        )
    name = next((word for key in _NAMES if (word := known(low.get(key))) and not word.startswith("0x")), None)
    cards.add(str(index), sample, index=index, name=_product(name), uuid=known(low.get("unique id")))


def _product(name: str | None) -> str | None:
    """``Arcturus GL-XL [Instinct MI100]`` -> ``AMD Instinct MI100``; other names as they stand."""
    inner = re.search(r"\[([^\]]+)\]", name or "")
    word = inner[1] if inner else name
    return f"AMD {word}" if word and word.startswith(("Instinct", "Radeon")) else word


def _kept(card: Mapping[str, Any]) -> dict[str, str]:
    """The tool's own words for what identifies a card and its limits."""
    wanted = re.compile(
        r"(?i)^(?:card |device name|gfx version|gpu id|vbios|gpu use|max graphics|average graphics|.*vram )"
    )
    return {str(key): str(value)[:80] for key, value in card.items() if wanted.match(str(key))}


def _driver(system: Any) -> str | None:
    version = system.get("Driver version") if isinstance(system, dict) else None
    return known(version)


def _add_row(cards: Cards, names: list[str], cells: list[str]) -> bool:
    """Whether the row was read. Cells are told by their units, since two header words may share a column."""
    text = "  ".join(cells)
    found = {
        "temperature_c": re.search(r"(?<![\d.])(\d{1,9}(?:\.\d+)?)\s*°?c\b", text, re.IGNORECASE),
        "power_w": re.search(r"(?<![\d.])(\d{1,9}(?:\.\d+)?)W\b", text),
    }
    sample = {role: float(match[1]) for role, match in found.items() if match}
    watts = re.findall(r"(?<![\d.])(\d{1,9}(?:\.\d+)?)W\b", text)
    clocks = re.findall(r"(\d+)Mhz", text, re.IGNORECASE)
    shares = re.findall(r"(\d+)%", text)
    if len(watts) > 1:
        sample["power_limit_w"] = float(watts[-1])
    if clocks:
        sample["sm_clock_mhz"] = float(clocks[0])
    if len(clocks) > 1:
        sample["memory_clock_mhz"] = float(clocks[1])
    if names[-1].upper().startswith("GPU%") and shares:
        sample["utilization_pct"] = float(shares[-1])
    if not sample:
        return False
    index = int(cells[0]) if re.fullmatch(r"[0-9]{1,4}", cells[0]) else None
    if index is None:
        return False
    cards.add(str(index), sample, index=index)
    return True


FORMATS = [
    Format(
        name="rocm_smi",
        kind="trace",
        version=2,
        sniff=sniff_json,
        read=read_json,
        docs="Output of `rocm-smi --json` of any ROCm release, once or as JSON lines.",
    ),
    Format(
        name="rocm_smi_table",
        kind="trace",
        version=2,
        sniff=sniff_table,
        read=read_table,
        docs="The concise table of `rocm-smi`, once or repeated.",
    ),
]
