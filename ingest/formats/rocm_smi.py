"""``rocm-smi``: ``--json``, the concise table that it prints by default (old and new layouts), and the list
of keys per card (``GPU[0] : GPU use (%): 0``) that its other options print.

Owns these; its CSV is a table like any other loop's. Key names change between ROCm releases, so they are
recognised by their words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ingest.formats import Format, Unreadable
from ingest.gpu_columns import recognise_column
from ingest.gpu_csv import to_number
from ingest.machine import known
from ingest.sources import Source
from ingest.tally import Cards
from ingest.traces import hardware_of, line_count, telemetry_of, trace_reading
from kb.model import Reading

if TYPE_CHECKING:
    from ingest.samples import Samples

_CARD = re.compile(r'"card\d+"\s*:\s*\{')
_HEADER = re.compile(r"^[# ]*(?:GPU|Device)\s.*(?:SCLK|Temp).*(?:GPU%|GPU use|MCLK OD).*$", re.MULTILINE)
_OWN_HEADER = re.compile(r"^[# ]*(?:GPU|Device)\s.*\bSCLK\s+MCLK\s+Fan\s+Perf\s", re.MULTILINE)
_PAIR = re.compile(r"^[# \t]*GPU\[(\d+)\][ \t]*:[ \t]*([A-Za-z][^:\n]*?)[ \t]*:[ \t]+(\S.*)$", re.MULTILINE)
_DRIVER = re.compile(r"^\s*Driver version:\s*(\S+)\s*$", re.IGNORECASE)
# Unit of a cell -> the columns that have it, and their metrics ("" for none of ours).
_COLUMNS: tuple[tuple[str, dict[str, str]], ...] = (
    (r"°?[cC]\b", {"Temp": "temperature_c"}),
    (r"W\b", {"AvgPwr": "power_w", "Power": "power_w", "PwrCap": "power_limit_w"}),
    (r"M[hH]z", {"SCLK": "sm_clock_mhz", "MCLK": "memory_clock_mhz"}),
    ("%", {"Fan": "fan_pct", "VRAM%": "", "GPU%": "utilization_pct", "GPU use": "utilization_pct"}),
)
_CELL = r"(?<![\d.])(\d{1,9}(?:\.\d+)?) ?"
_CLOCK = re.compile(r"\((\d+)\s*Mhz\)", re.IGNORECASE)
_CLOCK_KEYS = ("sclk", "mclk", "gpu clock level", "gpu memory clock level")
_NAMES = (
    "card series",
    "card model name",
    "product name",
    "market name",
    "device name",
    "card model",
)
_ACTIVITY = {
    "average_gfx_activity (%)": "utilization_pct",
    "average_umc_activity (%)": "memory_utilization_pct",
}
_FIRST = {
    "temperature_c": (
        "temperature (sensor edge) (c)",
        "temperature (sensor junction) (c)",
        "temperature",
        "temperature_edge (c)",
        "temperature_hotspot (c)",
    ),
    "power_w": (
        "average graphics package power (w)",
        "current socket graphics package power (w)",
        "current graphics package power (w)",
        "graphics package power (w)",
        "average graphics package power",
        "average_socket_power (w)",
        "current_socket_power (w)",
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
    """The heading of the table and its columns, or lines that name a card and a key each."""
    head = source.head
    if "NVIDIA-SMI" in head:
        return 0.0
    titled = "ROCm System Management Interface" in head or "ROCM-SMI" in head
    told = len(_PAIR.findall(head))
    if (titled and (_HEADER.search(head) or told)) or told >= 2:
        return 0.93
    return 0.9 if _OWN_HEADER.search(head) and _HEADER.search(head) else 0.0


def read_table(source: Source) -> Reading:
    """A sample of every card per table or list."""
    reader = _Lines(source.samples)
    for _, line in source.lines():
        reader.take(line)
    reader.close()
    if not reader.cards.by_key:
        raise Unreadable("no row of a card was found")
    found = telemetry_of(reader.cards.by_key.values())
    return trace_reading(
        str(source.path),
        "rocm_smi_table",
        found if reader.cards.rows else None,
        hardware_of(found, driver=reader.driver),
        tool="rocm-smi",
        lines=line_count(reader.lines, reader.odd),
    )


class _Lines:
    """State while reading lines: the columns of the table, and what the list told of each card so far."""

    def __init__(self, keep: Samples | None) -> None:
        self.cards = Cards(keep)
        self.driver: str | None = None
        self.lines = self.odd = 0
        self._header = self._below = self._row = ""
        self._open: dict[int, dict[str, str]] = {}

    def take(self, line: str) -> None:
        """One line: a header, a row below it, a key of a card, or words around them."""
        self.lines += bool(line.strip())
        pair, driver = _PAIR.match(line), _DRIVER.match(line)
        if pair:
            self._pair(int(pair[1]), pair[2].strip(), pair[3].strip())
        elif driver:
            self.driver = driver[1]
        elif header := _HEADER.search(line):
            self._header, self._below, self._row = header.string.rstrip(), "", ""
        elif self._header and (row := re.match(r"^[# ]*(\d{1,4})\s", line)):
            self._row = row[1]
            self.odd += not _add_row(self.cards, self._header, line.rstrip())
        elif self._header and line[:4] == "    ":
            self._second(line)

    def close(self) -> None:
        """The end of a list, or of the file: one look at each card that it named."""
        for index, card in self._open.items():
            _add(self.cards, index, card)
        self._open = {}

    def _second(self, line: str) -> None:
        """The second line of the header, or of a row: some releases print the product there."""
        if not self._row:
            self._below = line
        elif self._below.strip().startswith("Name") and self._row in self.cards.by_key:
            words = re.split(r"\s{2,}", line.strip())
            self.cards.by_key[self._row].name = known(words[0])

    def _pair(self, index: int, key: str, value: str) -> None:
        card = self._open.setdefault(index, {})
        if key in card and _is_state(key):
            self.close()
            card = self._open.setdefault(index, {})
        card.setdefault(key, value)


def _is_state(key: str) -> bool:
    """Whether a key tells a card's state: it comes again with the next look, others within one."""
    low = key.lower().rstrip(": ")
    known_keys = any(low in keys for keys in _FIRST.values()) or low.startswith(("sclk", "mclk"))
    return known_keys or recognise_column(low).is_metric


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
        clock = _CLOCK.search(str(value)) if key.startswith(_CLOCK_KEYS) else None
        column = recognise_column(key)
        if clock:
            role = "memory_clock_mhz" if key[:1] == "m" or "memory" in key else "sm_clock_mhz"
            sample.setdefault(role, float(clock[1]))
        elif key in _ACTIVITY:
            sample.setdefault(_ACTIVITY[key], to_number(str(value), _ACTIVITY[key]))
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


def _add_row(cards: Cards, header: str, row: str) -> bool:
    """Whether the row was read. A cell belongs to the nearest column of its unit: any may be empty."""
    index = re.match(r"[# ]*(\d{1,4})\s", row)
    sample: dict[str, float | None] = {}
    for unit, columns in _COLUMNS:
        places = [(header.index(word), metric) for word, metric in columns.items() if word in header]
        for cell in re.finditer(_CELL + unit, row) if places else ():
            sample.setdefault(min(places, key=lambda one: abs(one[0] - cell.start()))[1], float(cell[1]))
    sample.pop("", None)
    if index and sample:
        cards.add(index[1], sample, index=int(index[1]))
    return bool(index and sample)


FORMATS = [
    Format(
        name="rocm_smi",
        kind="trace",
        version=3,
        sniff=sniff_json,
        read=read_json,
        docs="Output of `rocm-smi --json` of any ROCm release, once or as JSON lines.",
    ),
    Format(
        name="rocm_smi_table",
        kind="trace",
        version=5,
        sniff=sniff_table,
        read=read_table,
        docs="The concise table of `rocm-smi`, and the lists (`GPU[0] : GPU use (%): 0`) that its options "
        "print, once or repeated.",
    ),
]
