"""``npu-smi info``: the table of Huawei's Ascend NPUs, once or repeated.

Owns that table: each chip has a row of its card's name, power and heat, and one of its load and memory.
"""

from __future__ import annotations

import re
from typing import Any

from ingest.formats import Format, Unreadable
from ingest.gpu_csv import to_number
from ingest.sources import Source
from ingest.tally import Cards
from ingest.traces import hardware_of, line_count, telemetry_of, trace_reading
from kb.model import Reading

_TITLE = re.compile(r"\|\s*npu-smi\s+(\S+)\s+Version:\s*(\S+)")
_HEADER = re.compile(r"\|\s*(?:NPU|Chip)\s.*(?:Power\(W\)\s+Temp\(C\)|AICore\(%\)\s+Memory-Usage\(MB\))")
_CARD = re.compile(
    r"\|\s*(?P<npu>\d+)\s+(?P<name>[A-Za-z0-9]\S*)\s*\|[^|]*\|\s*(?P<power>\S+)\s+(?P<heat>\S+)(?:\s[^|]*)?\|"
)
_CHIP = re.compile(
    r"\|\s*(?P<chip>\d+)(?:\s+(?P<phy>\d+))?\s*\|\s*(?P<bus>[0-9A-Fa-fx]+:[^|\s]+)\s*\|\s*(?P<load>\S+)"
    r"\s+(?P<memory>[\dNA/ ]+)\|"
)
_SHARE = re.compile(r"(\d+)\s*/\s*(\d+)")


def sniff(source: Source) -> float:
    """The table's own header, and a row of a chip."""
    head = source.head
    return 0.95 if _HEADER.search(head) and _CHIP.search(head) and "AICore(%)" in head else 0.0


def read(source: Source) -> Reading:
    """A sample of each chip per table."""
    cards, lines, version = Cards(source.samples), 0, None
    card: re.Match[str] | None = None
    for _, raw in source.lines():
        line = raw.strip()
        lines += bool(line)
        if title := _TITLE.match(line):
            version = title[1]
        elif (chip := _CHIP.match(line)) and card:
            _add(cards, card, chip)
            card = None
        else:
            card = _CARD.match(line) or card
    if not cards.rows:
        raise Unreadable("no row of a chip was found")
    found = telemetry_of(cards.by_key.values())
    return trace_reading(
        str(source.path),
        "npu_smi",
        found,
        hardware_of(found, driver=version),
        tool="npu-smi",
        tool_version=version,
        lines=line_count(lines),
    )


def _add(cards: Cards, card: re.Match[str], chip: re.Match[str]) -> None:
    """One chip. HBM stands last where it has some; the chip's own memory is then 0 of 0."""
    memory = [(float(used), float(whole)) for used, whole in _SHARE.findall(chip["memory"]) if int(whole)]
    used, whole = memory[-1] if memory else (None, None)
    sample: dict[str, float | None] = {
        "power_w": to_number(card["power"], "power_w"),
        "temperature_c": to_number(card["heat"], "temperature_c"),
        "utilization_pct": to_number(chip["load"], "utilization_pct"),
        "memory_used_mib": used,
        "memory_total_mib": whole,
    }
    index = chip["phy"] or (card["npu"] if chip["chip"] == "0" else None)
    name = card["name"] if card["name"].startswith("Ascend") else f"Ascend {card['name']}"
    who: dict[str, Any] = {"index": int(index) if index else None, "name": name}
    cards.add(f"{card['npu']}/{chip['chip']}", sample, **who)


FORMATS = [
    Format(
        name="npu_smi",
        kind="trace",
        version=2,
        sniff=sniff,
        read=read,
        docs="The table of `npu-smi info` (Ascend), once or repeated: a sample of each chip.",
    ),
]
