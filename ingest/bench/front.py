"""What stands around results in people's files: bold fields, list items, machine listings.

Owns turning "Model: X", "GPU: 2x Y" and the like into facts. Must not read results.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ingest.bench import cells, names
from ingest.bench.identity import Facts
from ingest.bench.quantities import words_of
from ingest.bench.rows import place

_PAIR = re.compile(
    r"^\s*(?:[-*+]\s+)?(?:\*\*|__)?(?P<key>[A-Za-z][\w /.()#-]{0,40}?)(?:\*\*|__)?\s*[:：=]"
    r"(?:\*\*|__)?\s+(?P<value>\S.*?)\s*$"
)
_SMI_GPU = re.compile(r"^\|\s+\d+\s+(?P<name>(?:NVIDIA|Tesla|GeForce|Quadro)[^|]*?)\s+(?:On|Off|N/A)\s+\|")
_SMI_HEAD = re.compile(r"Driver Version: (?P<driver>[\d.]+)\s+CUDA Version: (?P<cuda>[\d.]+)")
_DEVICE = re.compile(
    r"Device \d+: (?P<name>[^,]+), (?:compute capability|gfx)|found device: (?P<metal>Apple \S.*)$"
)
_VERSION_KEYS = re.compile(r"^(vllm|sglang|tensorrt llm|trt llm|trtllm|llama cpp|tgi|lmdeploy)(?: version)?$")


def facts_of(pairs: Iterable[tuple[str, str]], base: Facts | None = None) -> Facts:
    """Facts from (key, value) pairs; the first mention of a fact counts."""
    facts = base or Facts()
    for key, raw in pairs:
        value = cells.plain(raw).strip("\"'")
        if cells.is_nothing(value) or value.lower() in ("not installed", "not set"):
            continue
        _take(facts, key, value)
    return facts


def _take(facts: Facts, key: str, value: str) -> None:
    engine = _VERSION_KEYS.match(words_of(key))
    where = place(key)
    if engine and re.match(r"v?\d", value):
        facts.engine = facts.engine or names.engine(engine[1].replace(" ", "-"))
        facts.engine_version = facts.engine_version or value.removeprefix("v").split(" ")[0]
    elif where is None:
        return
    elif where[0] == "settings":
        number = cells.whole(value) if re.fullmatch(r"\d+", value) else None
        facts.settings.setdefault(where[1], value if number is None else number)
    elif where[0] == "identity" and where[1] != "engine_version":
        _identity(facts, where[1], value)


def _identity(facts: Facts, key: str, value: str) -> None:
    if key == "gpu_count":
        facts.gpu_count = facts.gpu_count or (int(cells.number(value) or 0) or None)
    elif key == "engine":
        found = re.match(r"^(.+?)[\s=]+v?(\d[\w.+-]*)$", value)
        facts.engine = facts.engine or names.engine(found[1].rstrip("=: ") if found else value)
        facts.engine_version = facts.engine_version or (found[2] if found else None)
    else:
        short = re.sub(r"\s*\((?![x×]\d)[^()]*\)\s*$", "", value) if key == "gpu" else value
        setattr(facts, key, getattr(facts, key) or short)


def pairs_in(lines: Iterable[str]) -> list[tuple[str, str]]:
    """(key, value) of bold fields, list items and plain "key: value" lines."""
    found = (_PAIR.match(line) for line in lines if len(line) < 240)
    return [(one["key"], one["value"]) for one in found if one]


def machine_in(lines: Iterable[str], facts: Facts) -> Facts:
    """Adds what an nvidia-smi block or llama.cpp's device list in the text tells."""
    gpus: list[str] = []
    for line in lines:
        head, row, device = _SMI_HEAD.search(line), _SMI_GPU.match(line), _DEVICE.search(line)
        if head:
            facts.driver, facts.cuda = facts.driver or head["driver"], facts.cuda or head["cuda"]
        elif row:
            gpus.append(row["name"])
        elif device:
            gpus.append((device["name"] or device["metal"]).strip())
    if gpus and facts.gpu is None:
        facts.gpu, facts.gpu_count = gpus[0], len(gpus)
    return facts


def scalars(value: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(key, text) of an object's scalar members."""
    return [
        (k, str(v)) for k, v in value.items() if isinstance(v, str | int | float) and not isinstance(v, bool)
    ]
