"""Notes of a run as ``key=value`` lines, as people's own runners leave them (``run_info.txt``).

Owns telling such a text from ``.env`` files and logs. What the keys mean is ``run_meta``'s.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Any

from ingest.bench.names import is_option, known_engine
from ingest.formats import Format
from ingest.formats.run_meta import kind_of, reading_of
from ingest.sources import Source
from kb.model import Reading

_PAIR = re.compile(
    r"^\s*(?:[-*]\s+)?(?P<key>[A-Za-z][A-Za-z0-9_.-]{0,40})\s*(?:=|:\s)\s*(?P<value>\S.{0,400}?)\s*$"
)
_STAMP = re.compile(r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*$")
_MOST_LINES = 120


def _sniff(source: Source) -> float:
    head = source.head
    if head.count("\n") > _MOST_LINES or head.lstrip()[:1] in ("{", "[", "<", "#", "|"):
        return 0.0
    lines = [line for line in head.split("\n") if line.strip()]
    pairs = [found["key"] for line in lines if (found := _PAIR.match(line))]
    odd = sum(not _PAIR.match(line) and not _STAMP.match(line.strip()) for line in lines)
    kinds = {kind_of(key) for key in pairs} - {None}
    if len(pairs) < 3 or odd or "model" not in kinds or source.name.endswith((".yaml", ".yml", ".toml")):
        return 0.0
    return 0.8 if len(kinds) > 1 or any(_engine_of(line) for line in lines) else 0.4


def _engine_of(line: str) -> str | None:
    """The engine whose program a line's path ends in ("llama_server=/opt/bin/llama-server")."""
    found = _PAIR.match(line)
    name = PurePath(found["value"].split()[0]).name if found else ""
    return known_engine(name) if "-" in name else None


def _read(source: Source) -> Reading:
    raw: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for _, line in source.lines():
        found = _PAIR.match(line)
        if found is None:
            continue
        key, value = found["key"].lower(), found["value"]
        if key == "port" or (kind_of(key) is None and is_option(key)):
            settings[key] = value
        raw.setdefault(key, value)
        if (engine := _engine_of(line)) and not any(kind_of(one) == "engine" for one in raw):
            raw["engine"] = engine
    if settings:
        raw["settings"] = settings
    return reading_of(source, raw, "run_info")


FORMAT = Format(
    name="run_info",
    kind="config",
    sniff=_sniff,
    read=_read,
    docs="Notes of a run as `key=value` lines (`run_info.txt`): image or program (engine and version), "
    "model, options of the server, start and end.",
)
