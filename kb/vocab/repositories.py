"""Where the source of engines and libraries stands: ``repositories.json``, name → owner/name on GitHub.

Owns also the addresses of what is cited from there. Must not reach the network.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path


def repository(name: str) -> str | None:
    """The repository of an engine or a library (``sglang`` → sgl-project/sglang), or ``None``."""
    return _known().get(name.lower())


@cache
def _known() -> dict[str, str]:
    known: dict[str, str] = json.loads(Path(__file__).with_name("repositories.json").read_text("utf-8"))
    return known


def url_of(ref: str) -> str | None:
    """Where a reference such as ``flashinfer#2045`` or ``owner/name:path`` can be read, or ``None``."""
    if ref.startswith(("https://", "http://")):
        return ref
    issue = re.fullmatch(r"([\w.-]+/)?([\w.-]+)#(\d+)", ref)
    if issue and (found := _whole(issue[1], issue[2])):
        return f"https://github.com/{found}/issues/{issue[3]}"
    file = re.fullmatch(r"([\w.-]+/)?([\w.-]+):(\S+)", ref)
    if file and (found := _whole(file[1], file[2])):
        return f"https://github.com/{found}/blob/HEAD/{file[3]}"
    return None


def _whole(owner: str | None, name: str) -> str | None:
    return f"{owner}{name}" if owner else repository(name)
