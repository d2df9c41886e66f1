"""``kbctl.toml``: what a user says of the files in a folder and below it.

Owns that file's keys. What they mean for a run is ingest.hints' and ingest.enrich's business.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from ingest.formats import Format, Unreadable
from ingest.sources import Source
from ingest.traces import line_count
from kb.model import Problem, Reading
from kb.said import said_fields

NAME = "kbctl.toml"
_WORDS = ("gpu", "engine", "engine_version", "model", "quantization")
_LARGEST = 1 << 20


def sniff(source: Source) -> float:
    """By its name alone."""
    return 1.0 if source.name == NAME else 0.0


def read(source: Source) -> Reading:
    """``extra``: said (fields of a run), separate (file patterns), join (file pattern -> log pattern)."""
    try:
        told = tomllib.loads(source.text[:_LARGEST])
    except ValueError as error:  # no TOML, or a number beyond all bounds
        raise Unreadable(f"it is no TOML: {error}") from None
    except RecursionError:
        raise Unreadable("it is nested too deeply") from None
    problems = list[str]()
    extra = {
        "said": _said(told, problems),
        "separate": _separate(told, problems),
        "join": _join(told, problems),
    }
    known = {*_WORDS, "gpus", "separate", "join"}
    problems += [
        f"{key}: no key of {NAME}; it has {', '.join(sorted(known))}" for key in told if key not in known
    ]
    return Reading(
        path=str(source.path),
        format="kbctl_toml",
        kind="config",
        status="partial" if problems else "parsed",
        lines=line_count(source.text.count("\n") + 1),
        problems=tuple(Problem(line=None, what=what) for what in problems),
        extra=extra,
    )


def _said(told: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    words = dict[str, str]()
    for name in _WORDS:
        if isinstance(told.get(name), str) and told[name].strip():
            words[name] = told[name].strip()
        elif name in told:
            problems.append(f'{name}: a text is expected, such as {name} = "…"')
    version, gpus = words.pop("engine_version", None), told.get("gpus")
    if "gpus" in told and (not isinstance(gpus, int) or isinstance(gpus, bool) or gpus < 1):
        problems.append("gpus: a number of at least 1 is expected")
        gpus = None
    return said_fields(**words, gpus=gpus) | ({"engine_version": version} if version else {})


def _separate(told: Mapping[str, Any], problems: list[str]) -> list[str]:
    found = told.get("separate", [])
    if isinstance(found, list) and all(isinstance(one, str) for one in found):
        return found
    problems.append('separate: a list of file names is expected, such as ["other_*.json"]')
    return []


def _join(told: Mapping[str, Any], problems: list[str]) -> dict[str, str]:
    found = told.get("join", {})
    if isinstance(found, dict) and all(isinstance(one, str) for one in found.values()):
        return found
    problems.append('join: a table of file names is expected, such as {"bench_*.json" = "server.log"}')
    return {}


FORMAT = Format(
    name="kbctl_toml",
    kind="config",
    sniff=sniff,
    read=read,
    docs="`kbctl.toml`, written by a user beside recorded files: `gpu`, `gpus`, `engine`, `engine_version`, "
    "`model` and `quantization` for what no file tells, `join` and `separate` for how files are joined.",
)
