"""YAML of untrusted origin: plain data only, with bounds.

Owns the one call of the YAML library. Must not know what a document means.
"""

from __future__ import annotations

import re
from typing import Any

LARGEST_BYTES = 2 << 20
_ANCHORS = 200


def documents(text: str) -> tuple[list[Any], str | None]:
    """Every document of a text as plain data, and what stopped reading early (or None).

    Aliases that would multiply data, templates (``{{ … }}``) and oversized texts are told, never expanded.
    """
    import yaml  # noqa: PLC0415 - costs 20 ms, and only a few formats need it

    if len(text) > LARGEST_BYTES:
        return [], "the YAML is larger than any configuration"
    if len(re.findall(r"(?m)(?:^|[\s\[{,:-])\*\w", text)) > _ANCHORS:
        return [], "the YAML repeats itself by aliases more often than any configuration"
    plain = re.sub(r"^(\s*)\{\{.*\}\}\s*$", "", text.lstrip("\ufeff"), flags=re.MULTILINE)
    found: list[Any] = []
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        found.extend(yaml.load_all(plain, Loader=loader))
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, AttributeError) as error:
        return found, f"the YAML is damaged: {' '.join(str(error).split())[:200]}"
    return found, None
