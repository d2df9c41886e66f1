"""Runs that can be shown to strangers: what happened and on what, without where, whose and when exactly.

Owns what is hidden. Must not change a number that was measured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from kb.vocab.models import find_model

HIDDEN = "<hidden>"
_PATH = re.compile(r"(?<![\w.:/<])(?:~|\.{0,2})/(?:[\w.@+=<>-]+/)+[\w.@+=<>-]*|\b[A-Za-z]:\\\S+")
_ADDRESS = re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}\b")
_HOST = re.compile(r"\b(?:[\w-]+\.)+(?:local|internal|lan|corp|intra|home)\b")
_PLACES = frozenset({"sources", "joined", "notes"})
_PLAIN_VALUE = re.compile(r"(?i)\d[\d.,:]*|true|false|yes|no|on|off|auto|[a-z][a-z0-9_.]{0,31}")
_OWN_NAMES = re.compile(
    r"name|path|dir|file|host|addr|url|user|token|key|secret|config$|ssl|template|project|entity"
)


def anonymised(runs: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """(runs without places, people and exact times; sentences on what was kept and what was hidden)."""
    found = [_run(one) for one in runs]
    models = sorted({str(one["model"]) for one in found})
    hidden = sum(str(one).count(HIDDEN) for one in found)
    return found, [
        f"{len(found)} runs; hidden: paths, addresses, notes, times of day, own names ({hidden} values)",
        f"kept: models {', '.join(models)}",
        f"kept: settings {', '.join(_names(found, 'settings')) or 'none'}",
        f"kept: environment {', '.join(_names(found, 'environment')) or 'none'}",
        "kept: error lines and warnings as text, with paths and addresses hidden: read them",
    ]


def _run(run: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: value for name, value in run.items() if name not in _PLACES}
    shown |= {
        "model": _model(run),
        "settings": _values(run["settings"]),
        "environment": _values(run["environment"]),
        "started": _day(run.get("started")),
        "ended": _day(run.get("ended")),
        "port": None,
        "sources": [],
        "joined": [],
        "notes": [],
    }
    if shown.get("telemetry"):
        shown["telemetry"] = _telemetry(shown["telemetry"])
    return {name: _scrubbed(value) for name, value in shown.items()}


def _model(run: Mapping[str, Any]) -> str:
    if run.get("model_id"):
        return str(run["model_id"])
    entry = find_model(str(run.get("model") or ""))
    return entry.id if entry is not None else HIDDEN


def _values(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _value(name, value) for name, value in values.items()}


def _value(name: str, value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)
    private = _OWN_NAMES.search(name.lower()) or name.lower() in ("model", "tokenizer", "model_tag")
    return text if not private and _PLAIN_VALUE.fullmatch(text) else HIDDEN


def _telemetry(telemetry: Mapping[str, Any]) -> dict[str, Any]:
    gpus = [{**gpu, "uuid": None} for gpu in telemetry.get("gpus") or ()]
    return {**telemetry, "gpus": gpus, "started": None, "ended": None, "extra": {}}


def _scrubbed(value: Any) -> Any:
    if isinstance(value, str):
        return _HOST.sub(HIDDEN, _ADDRESS.sub(HIDDEN, _PATH.sub(_last_name, value)))
    if isinstance(value, Mapping):
        return {name: _scrubbed(one) for name, one in value.items() if name != "path"}
    return [_scrubbed(one) for one in value] if isinstance(value, list | tuple) else value


def _last_name(found: re.Match[str]) -> str:
    """A path's last part, where it names code; that is what an error is recognised by."""
    name = PurePath(found[0]).name
    return f"…/{name}" if name.endswith((".py", ".cu", ".cuh", ".cpp", ".h", ".so", ".json")) else HIDDEN


def _day(moment: str | None) -> str | None:
    return moment[:10] if moment else None


def _names(runs: Sequence[Mapping[str, Any]], field: str) -> list[str]:
    return sorted({name for run in runs for name, value in run[field].items() if value != HIDDEN})[:40]
