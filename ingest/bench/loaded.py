"""Labels that name a load beside their measure: "tok/s @ c=4", "4k-1k 64并发 - mean TTFT (ms)".

Owns taking such a record apart: one record for each load. Must not read cells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ingest.bench import loads
from ingest.bench.places import place
from ingest.bench.quantities import RESULTS, understand

_BEHIND = re.compile(r"(?P<rest>[^@]{2,80}?)\s*@\s*(?P<load>[^@()]{1,30}?)(?P<aside>\s*\([^()]*\))?")
_BEFORE = re.compile(r"(?P<load>.{1,40}?)\s+[-–—:|]\s+(?P<rest>.{2,80})")
_BEFORE_PLAIN = re.compile(r"(?P<load>(?:C|BS|conc)[ =]?\d{1,5})\s+(?P<rest>.{2,80})", re.IGNORECASE)
_ASIDE = re.compile(  # "tok/s (c=4, per-stream)"
    r"(?P<rest>[^()]{2,60}?)\s*\(c(?:onc(?:urrency)?)?\s?=\s?(?P<n>\d{1,5}), (?P<whose>per[- ]\w+)\)",
    re.IGNORECASE,
)
_SIZED = re.compile(
    r"(?:(?P<size>\d{1,4}k)\s+)?(?P<way>pp|tg)(?(size)|\s?@\s?(?P<behind>\d{1,4}k))"
    r"(?:\s*\(?(?:tok(?:en)?s?/s|t/s)\)?)?",
    re.IGNORECASE,
)
_LOAD = re.compile(
    r"(?P<key>c|conc|concurrency|bs|batch|batch size)[ =:]*(?P<n>\d{1,5})"
    r"|(?P<users>\d{1,5})[ -]?(?:并发|users?|concurrent|streams?|clients?)",
    re.IGNORECASE,
)
_NAMES = {"b": "batch size", "c": "concurrency"}


def split(record: Mapping[str, Any], plain: bool = False) -> list[dict[str, Any]]:
    """The record alone, or one record for each load that its labels name; ``plain`` takes "C4 TTFT" too."""
    told = {label: found for label in record if (found := _taken(label, plain)) is not None}
    if not told:
        return [dict(record)]
    shared = {label: raw for label, raw in record.items() if label not in told and not _is_figure(label)}
    left = {label: raw for label, raw in record.items() if label not in told and _is_figure(label)}
    groups: dict[str, dict[str, Any]] = {}
    for label, (load, rest) in told.items():
        one = groups.setdefault(repr(load), _without(shared, load) | load)
        one[rest if rest not in one else label] = record[label]
    return [*groups.values(), *([shared | left] if left else [])]


def names_loads(labels: list[str]) -> bool:
    """Whether every label names its load with its measure."""
    return len(labels) > 1 and all(_taken(label, True) is not None for label in labels)


def without_load(label: str) -> str:
    """A label without the load that it names."""
    told = _taken(label, False)
    return told[1] if told else label


@lru_cache(maxsize=2048)
def _taken(label: str, plain: bool) -> tuple[dict[str, str], str] | None:
    """(load, label without it) of a label that names both."""
    if sized := _SIZED.fullmatch(label.strip()):  # "4K pp", as llama.cpp calls reading prompts
        return {"input tokens": sized["size"] or sized["behind"]}, f"{sized['way'].lower()} tok/s"
    if (aside := _ASIDE.fullmatch(label.strip())) and _is_figure(f"{aside['rest']} {aside['whose']}"):
        return {"concurrency": aside["n"]}, f"{aside['rest']} {aside['whose']}"
    for pattern in (_BEHIND, _BEFORE, *([_BEFORE_PLAIN] if plain else [])):
        found = pattern.fullmatch(label.strip())
        if found and (load := _load_in(found["load"])) and _is_figure(found["rest"]):
            return load, found["rest"] + (found.groupdict().get("aside") or "")
    return None


def _load_in(text: str) -> dict[str, str]:
    """The load that a text is, nothing else in it; empty where it is not."""
    told: dict[str, str] = {}
    rest = _LOAD.sub(lambda found: _noted(found, told), text)
    for word in re.split(r"[\s,;]+", rest.strip(" ,;()")):
        both = loads.lengths(re.sub(r"(?i)^(\d+k)-(\d+k)$", r"\1/\2", word))
        if word and not both:
            return {}
        told |= {key.replace("_", " "): str(one) for key, one in both.items()}
    return told


def _noted(found: re.Match[str], told: dict[str, str]) -> str:
    told[_NAMES[(found["key"] or "c")[0].lower()]] = found["n"] or found["users"]
    return " "


def _without(shared: Mapping[str, Any], load: Mapping[str, str]) -> dict[str, Any]:
    named = {place(key) for key in load}
    return {label: raw for label, raw in shared.items() if place(label) not in named}


def _is_figure(label: Any) -> bool:
    told = understand(label) if isinstance(label, str) and place(label) is None else None
    return told is not None and told.name.startswith(RESULTS)
