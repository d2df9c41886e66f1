"""``xpu-smi stats``: the table and the JSON of Intel's GPUs. (Its ``dump`` is a CSV like any other loop's.)

Owns both. Where a card has several tiles, their figures are left out: which is the card's is not told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ingest.formats import Format, Unreadable
from ingest.sources import Source
from ingest.tally import Cards
from ingest.traces import hardware_of, line_count, telemetry_of, trace_reading
from kb.model import Reading

_ROW = re.compile(r"\|\s*([A-Z][\w ]*\w(?: \([^)|]+\))?)\s*\|\s*(\d+(?:\.\d+)?)\s*\|$")
_DEVICE = "Device ID"
_ROWS: Mapping[str, str] = {
    "GPU Utilization (%)": "utilization_pct",
    "GPU Power (W)": "power_w",
    "GPU Frequency (MHz)": "sm_clock_mhz",
    "GPU Core Temperature (C)": "temperature_c",
    "GPU Memory Temperature (C)": "memory_temperature_c",
    "GPU Memory Used (MiB)": "memory_used_mib",
}
_STATS: Mapping[str, str] = {
    "XPUM_STATS_GPU_UTILIZATION": "utilization_pct",
    "XPUM_STATS_POWER": "power_w",
    "XPUM_STATS_GPU_FREQUENCY": "sm_clock_mhz",
    "XPUM_STATS_GPU_CORE_TEMPERATURE": "temperature_c",
    "XPUM_STATS_MEMORY_TEMPERATURE": "memory_temperature_c",
}
_MEMORY = "XPUM_STATS_MEMORY_USED"  # releases differ: in MiB, or in bytes, which are then many
_MOST_MIB, _FEWEST_BYTES = 1e6, 1e7
_NEW_STATS: Mapping[tuple[str, str], str] = {
    ("utilization", "gpu_percent"): "utilization_pct",
    ("power", "gpu_power_w"): "power_w",
    ("frequency", "gpu_frequency_mhz"): "sm_clock_mhz",
    ("temperature", "gpu_core_celsius"): "temperature_c",
    ("temperature", "memory_celsius"): "memory_temperature_c",
    ("memory", "used_mib"): "memory_used_mib",
}
_DEEPEST = 6


def sniff_table(source: Source) -> float:
    """A device's number, and rows that tell its state."""
    told = {row[0] for line in source.head.split("\n") if (row := _row(line))}
    return 0.94 if _DEVICE in told and len(told & _ROWS.keys()) >= 2 else 0.0


def read_table(source: Source) -> Reading:
    """A sample of each device per table."""
    lines, looks = 0, list[tuple[int, dict[str, float | None]]]()
    for _, line in source.lines():
        lines += bool(line.strip())
        label, value = _row(line) or ("", 0.0)
        if label == _DEVICE:
            looks.append((int(value), {}))
        elif label in _ROWS and looks:
            looks[-1][1].setdefault(_ROWS[label], value)
    return _reading(source, "xpu_smi_stats", looks, lines)


def sniff_json(source: Source) -> float:
    """The tool's own lists and names of metrics."""
    head = source.head
    if '"device_level"' in head and '"XPUM_STATS_' in head:
        return 0.95
    return 0.95 if '"pci_bdf"' in head and ('"gpu_power_w"' in head or '"gpu_frequency_mhz"' in head) else 0.0


def read_json(source: Source) -> Reading:
    """A sample of each device, or several as JSON lines."""
    looks = list[tuple[int, dict[str, float | None]]]()
    for raw in _objects(source.text):
        looks += _devices(raw)
    return _reading(source, "xpu_smi_stats_json", looks, source.text.count("\n") + 1)


def _row(line: str) -> tuple[str, float] | None:
    found = _ROW.match(line.strip())
    return (found[1], float(found[2])) if found else None


def _objects(text: str) -> Iterator[Any]:
    """Each JSON value of the text, one after another."""
    decoder, at, plain = json.JSONDecoder(), 0, text.lstrip("\ufeff").strip()
    try:
        while at < len(plain):
            value, end = decoder.raw_decode(plain, at)
            yield value
            at = end + len(plain[end:]) - len(plain[end:].lstrip())
    except (ValueError, RecursionError) as error:
        if not at:
            raise Unreadable(f"the JSON is damaged or cut: {error}") from None


def _devices(raw: Any, depth: int = 0) -> Iterator[tuple[int, dict[str, float | None]]]:
    if isinstance(raw, dict) and isinstance(raw.get("device_level"), list):
        if isinstance(raw.get("device_id"), int):
            yield raw["device_id"], _state(raw["device_level"])
    elif isinstance(raw, dict) and isinstance(raw.get("device_index"), int) and "pci_bdf" in raw:
        yield raw["device_index"], _new_state(raw)
    elif isinstance(raw, dict | list) and depth < _DEEPEST:
        for inner in raw.values() if isinstance(raw, dict) else raw:
            yield from _devices(inner, depth + 1)


def _state(levels: list[Any]) -> dict[str, float | None]:
    told: dict[str, float | None] = {}
    for one in levels:
        name, value = (str(one.get("metrics_type")), one.get("value")) if isinstance(one, dict) else ("", 0)
        if not isinstance(value, int | float) or isinstance(value, bool):
            continue
        if name in _STATS:
            told[_STATS[name]] = float(value)
        elif name == _MEMORY and not _MOST_MIB <= value < _FEWEST_BYTES:
            told["memory_used_mib"] = float(value) if value < _MOST_MIB else value / 2**20
    return told


def _new_state(device: Mapping[str, Any]) -> dict[str, float | None]:
    """A device as version 2 tells it: each quantity per tile, as its mean alone or with least and most."""
    told: dict[str, float | None] = {}
    for (group, name), metric in _NEW_STATS.items():
        inner = device.get(group)
        tiles = inner.get(name) if isinstance(inner, dict) else None
        if isinstance(tiles, dict) and len(tiles) == 1:
            (tile,) = tiles.values()
            value = tile.get("avg") if isinstance(tile, dict) else tile
            if isinstance(value, int | float) and not isinstance(value, bool):
                told[metric] = float(value)
    return told


def _reading(
    source: Source, form: str, looks: list[tuple[int, dict[str, float | None]]], lines: int
) -> Reading:
    cards = Cards(source.samples)
    for device, sample in looks:
        cards.add(str(device), sample, index=device)
    if not any(sample for _, sample in looks):
        raise Unreadable("no device with its state was found")
    found = telemetry_of(cards.by_key.values())
    return trace_reading(
        str(source.path), form, found, hardware_of(found), tool="xpu-smi", lines=line_count(lines)
    )


FORMATS = [
    Format(
        name="xpu_smi_stats",
        kind="trace",
        version=1,
        sniff=sniff_table,
        read=read_table,
        docs="The table of `xpu-smi stats` (Intel), once or repeated: a sample of each device.",
    ),
    Format(
        name="xpu_smi_stats_json",
        kind="trace",
        version=2,
        sniff=sniff_json,
        read=read_json,
        docs="`xpu-smi stats -j`, versions 1 and 2, once or one after another.",
    ),
]
