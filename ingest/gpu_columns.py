"""What a column of a GPU trace means: its name in any spelling, to role, metric and unit.

Owns the words of GPU telemetry (``utilization.gpu [%]``, ``gpu_util``, ``pwr``, ``SMCLK``; as data in
``gpu_columns.json``) and the factors to our units. Must not read traces or their values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

_DATA = json.loads(Path(__file__).with_name("gpu_columns.json").read_text(encoding="utf-8"))
# Names that tools print, and that the word rules below would read wrongly: lower case, without unit.
_EXACT: dict[str, str] = {name: role for role, names in _DATA["names"].items() for name in names}
_KINDS: dict[str, dict[str, float]] = _DATA["units"]
_UNITS = frozenset(unit for units in _KINDS.values() for unit in units)
_TOOL_NAMES = frozenset(name for name in _EXACT if "." in name) | frozenset(_DATA["tool_names"])
_NOT_GPU = frozenset(_DATA["not_gpu"])
_NOT_NOW = frozenset(_DATA["not_now"])
_THROTTLE = re.compile(r"^clocks_(?:event|throttle)_reasons\.(\w+)$")
_UNIT = re.compile(r"\s*[\[(]\s*([^\])]*?)\s*[\])]\s*$")
_OF_GPU = re.compile(
    r"(?:^(?:gpu|card|device|cuda)[ _:.]?(\d{1,2})(?=[ _.:/-]|$)|[:_\[]\s*(?:gpu|card)?(\d{1,2})\]?$)",
    re.IGNORECASE,
)
# As nvitop's collector names them: ``run/cuda:0 (gpu:0)/gpu_utilization (%)/mean``.
_COLLECTED = re.compile(
    r"(?:^|/)(?:cuda:\d{1,2} \()?gpu:(?P<gpu>\d{1,2})\)?/(?P<name>\w+ ?\([^)]{1,12}\))"
    r"(?:/(?P<what>mean|min|max|last))?$"
)
_ENDINGS = (
    ("_mib", "memory"),
    ("_w", "power"),
    ("_mhz", "clock"),
    ("_pct", "share"),
    ("_c", "heat"),
    ("elapsed", "time"),
    ("epoch", "time"),
    ("time", "time"),
)
_PLAIN = {"power": "power_w", "heat": "temperature_c", "clock": "sm_clock_mhz", "share": "utilization_pct"}
# Words of a time's name, of whose clock it is, of a count of seconds, and of a card's number.
_TIME = frozenset(("timestamp", "time", "datetime", "ts", "utc"))
_CLOCKS = frozenset(_DATA["clocks"])
_SINCE = frozenset(("elapsed", "relative", "rel", "since", "sec", "secs", "seconds"))
_NUMBER_OF = frozenset(("index", "idx", "id"))
_CARD = frozenset(("gpu", "card", "device"))
_GRAPHICS = frozenset(("gpu", "graphics", "socket", "gfx"))  # whose package; else it is the CPU's
_WORD = re.compile(r"[KMGk]i?B\b|[KMGk]?Hz\b|[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|%|°C")
LONGEST_NAME = 200  # what is longer names no column


@dataclass(frozen=True, slots=True)
class Column:
    """One column. ``role`` is a metric of ours, ``throttle:<reason>``, or a word such as time, index, other.

    ``factor`` turns a bare number into our unit; ``unit`` is as the header wrote it ("" when it did not);
    ``gpu`` is the card that a wide layout names in the column itself; ``exact`` tells a name that is known
    as a whole from one that was understood by its words.
    """

    name: str
    role: str
    unit: str = ""
    factor: float = 1.0
    gpu: int | None = None
    exact: bool = False

    @property
    def is_metric(self) -> bool:
        """Whether cells are numbers of the GPU's state."""
        return (
            self.role.endswith(("_pct", "_w", "_mhz", "_mib", "_c", "_mb_s"))
            or self.role == "thermal_violation"
        )


@lru_cache(maxsize=4096)
def recognise_column(text: str) -> Column:
    """The column that a header cell names; role ``other`` when it is none of ours."""
    shown = text.strip().strip('"').strip()
    if len(shown) > LONGEST_NAME:
        return Column(shown[:LONGEST_NAME], "other")
    bare, unit = _split_unit(shown.lstrip("#").strip())
    exact = _exact(bare.lower(), unit)
    if exact:
        unit = unit or (bare.lower().rpartition("_")[2] if exact in ("elapsed", "epoch") else "")
        return Column(shown, exact, unit, _factor(exact, unit), exact=True)
    if collected := _COLLECTED.search(bare):
        mean = collected["what"] in (None, "mean")
        inner = recognise_column(collected["name"]) if mean else Column(shown, "other")
        return replace(inner, name=shown, gpu=int(collected["gpu"]) if inner.is_metric else None)
    if bare.endswith("/timestamp"):
        return Column(shown, "time")
    bare = bare.removeprefix("system/").removeprefix("system.")
    gpu, rest = _split_gpu(bare)
    if gpu is not None and rest:
        role = _EXACT.get(bare.lower().replace(f".{gpu}.", ".n."))
        inner = Column(rest, role) if role else _of_card(rest, unit)
        return replace(inner, name=shown, gpu=None if inner.role == "other" else gpu)
    role, found = _by_words(bare, unit)
    return Column(shown, role, unit or found, _factor(role, unit or found))


def is_tool_name(text: str) -> bool:
    """Whether a header cell is spelled as ``nvidia-smi --query-gpu`` prints its fields."""
    bare, _ = _split_unit(text.strip().strip('"'))
    return bare.lower() in _TOOL_NAMES or bool(_THROTTLE.match(bare.lower()))


def unit_factor(role: str, unit: str) -> float:
    """Factor from a number written with ``unit`` to the unit of ``role``; 1 for unknown units."""
    return _factor(role, unit)


def is_unit_of(role: str, unit: str) -> bool:
    """Whether a unit measures what the metric does."""
    return any(role.endswith(ending) and unit.lower() in _KINDS[kind] for ending, kind in _ENDINGS)


def _exact(bare: str, unit: str) -> str | None:
    reason = _THROTTLE.match(bare)
    role = (
        _EXACT.get(bare)
        or _EXACT.get(bare.replace(" ", "_"))
        or (f"throttle:{reason[1]}" if reason else None)
    )
    kind = _kind(unit)
    if role == "index" and kind:
        return _PLAIN.get(kind)
    meant = next((kind for ending, kind in _ENDINGS if role and role.endswith(ending)), kind)
    return role if not kind or kind == meant else None


def _kind(unit: str) -> str:
    return next((kind for kind, factors in _KINDS.items() if unit.lower() in factors), "")


def _split_unit(text: str) -> tuple[str, str]:
    found = _UNIT.search(text)
    if found and (found[1].lower() in _UNITS or not found[1].isdigit()):
        return text[: found.start()].strip(), "%" if found[1].endswith("%") else found[1]
    return text, ""


def _split_gpu(text: str) -> tuple[int | None, str]:
    found = _OF_GPU.search(text)
    if not found:
        return None, text
    rest = (text[: found.start()] + " " + text[found.end() :]).strip(" _:.-/")
    return int(found[1] or found[2]), rest


def _of_card(rest: str, unit: str) -> Column:
    """What a column holds that names a card; a unit alone (``gpu0_w``) tells it, too."""
    inner = recognise_column(f"{rest} [{unit}]" if unit else rest)
    kind = _kind(rest)
    if inner.role != "other" or kind not in _PLAIN:
        return inner
    return Column(rest, _PLAIN[kind], rest, _factor(_PLAIN[kind], rest))


def _by_words(text: str, unit: str) -> tuple[str, str]:
    words = [word.lower() for word in _WORD.findall(text)]
    found = unit.lower() or next((word for word in reversed(words) if len(words) > 1 and word in _UNITS), "")
    kind = _kind(found)
    have = set(words)
    told = _place(have - {found}, kind)
    if told or not words or have & (_NOT_GPU - {"fan"}) or ("package" in have and not have & _GRAPHICS):
        return told or "other", found
    return _metric(have, kind) or "other", found


def _place(have: set[str], kind: str) -> str | None:
    """The role of a name that says when or which card; nothing else may stand in it."""
    if kind not in ("", "time"):
        return None
    if have & _SINCE and have <= _SINCE | _TIME | {"start"}:
        return "elapsed"
    if have & _TIME and have <= _TIME | _CLOCKS:
        return "time"
    return "index" if have & _NUMBER_OF and have & _CARD and have <= _NUMBER_OF | _CARD else None


def _metric(have: set[str], kind: str) -> str | None:
    for words, of_kind, told in _SUBJECTS:
        if have & words or kind == of_kind:
            return told(have) if kind in ("", of_kind) else None
    if kind == "time":
        return None
    if "fan" in have:
        return "fan_pct" if kind == "share" and not have & _NOT_NOW else None
    if have & _MEMORY or (kind == "memory" and have <= _PARTS):
        return _memory(have, kind)
    if have & {"util", "utilization", "utilisation", "usage", "use", "busy", "load", "utl"}:
        return None if have & (_NOT_NOW | {"user", "users"}) else "utilization_pct"
    return "utilization_pct" if kind == "share" and "gpu" in have and have <= _SHARE else None


def _heat(have: set[str]) -> str | None:
    if have & _NOT_NOW:
        return None
    return "memory_temperature_c" if have & _MEMORY else "temperature_c"


def _power(have: set[str]) -> str | None:
    if have & {"limit", "cap", "tdp", "enforced"} or {"max", "package"} <= have:
        return "power_limit_w"
    return None if have & {"min", "max", "default", "peak", "total", "sum"} else "power_w"


def _clock(have: set[str]) -> str | None:
    if have & {*_MEMORY, "mclk"}:
        return None if have & {"max", "min"} else "memory_clock_mhz"
    if have & {"video", "uvd", "vcn", "soc", "fclk", "socclk", "dcefclk", "min"}:
        return None
    return "sm_clock_max_mhz" if "max" in have else "sm_clock_mhz"


def _memory(have: set[str], kind: str) -> str | None:
    if kind == "share" or (not kind and have & {"util", "utilization", "utilisation", "busy"}):
        return "memory_utilization_pct"
    for word, role in (
        ("total", "memory_total_mib"),
        ("free", "memory_free_mib"),
        ("reserved", "memory_reserved_mib"),
    ):
        if word in have and "used" not in have:
            return role
    if have & {"used", "use", "usage", "allocated"} or kind == "memory":
        return None if have & (_NOT_NOW - {"total"}) else "memory_used_mib"
    return None


# A unit of memory tells that a part is one of memory, where nothing else is said (``Used_MB``).
_PARTS = frozenset(("used", "total", "free", *_KINDS["memory"]))
_SHARE = frozenset(("gpu", *_KINDS["share"]))
_MEMORY = frozenset(("mem", "memory", "vram", "fb", "hbm", "framebuffer"))
# Words of a subject, the kind of its unit, and the metric that further words tell.
_SUBJECTS: tuple[tuple[frozenset[str], str, Callable[[set[str]], str | None]], ...] = (
    (frozenset(("power", "pwr", "watt", "watts")), "power", _power),
    (frozenset(("temp", "temperature", "tmp", "heat", "junction", "hotspot")), "heat", _heat),
    (frozenset(("clock", "clk", "clocks", "freq", "frequency", "sclk", "mclk")), "clock", _clock),
)


def _factor(role: str, unit: str) -> float:
    if role.endswith(("_active_pct", "_occupancy_pct")) and not unit:
        return 100.0  # DCGM's profiling fields are shares of one
    for ending, kind in _ENDINGS:
        if role.endswith(ending):
            return _KINDS[kind].get(unit.lower(), 1.0)
    return 1.0
