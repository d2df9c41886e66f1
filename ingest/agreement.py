"""Whether two descriptions of a server ask for the same settings.

Owns which settings can decide that: those that are numbers, switches or plain words, never a path or a name
that differs between a host and its container. Must not know an engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ELSEWHERE = frozenset(
    {
        "host",
        "port",
        "api_key",
        "served_model_name",
        "seed",
        "download_dir",
        "chat_template",
        "log_level",
        "model",
    }
)


def common(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[int, int]:
    """(how many settings both ask for alike, how many differently)."""
    alike = different = 0
    for key in a.keys() & b.keys() - _ELSEWHERE:
        mine, theirs = _plain(a[key]), _plain(b[key])
        if mine is not None and theirs is not None:
            alike += mine == theirs
            different += mine != theirs
    return alike, different


def _plain(value: Any) -> float | str | None:
    """A value as it can be compared across a command line, YAML and a log; None where it cannot."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return float(value)
    if not isinstance(value, str) or "/" in value or value[:1] in "[{$":
        return None
    try:
        return float(value)
    except ValueError:
        return value.strip().lower().replace("-", "_")
