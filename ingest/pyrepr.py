"""Values that Python programs print of their own objects: dict reprs, dataclass reprs, argparse namespaces.

Owns reading them without evaluating anything. What is no literal (an enum, an object) stays its text. Never
raises; text that is cut off gives what stood before the cut.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from typing import Any

MAX_CHARS = 200_000
_OPEN, _CLOSE = "([{<", ")]}>"
_KEY = re.compile(r"""\s*(?:['"](?P<quoted>[\w.\-]{1,120})['"]\s*:|(?P<plain>[A-Za-z_]\w{0,120})\s*=)\s*""")
_ENUM = re.compile(r"<(?P<cls>[A-Za-z_]\w*)\.(?P<name>\w+): (?P<value>.+)>$", re.DOTALL)


def parse_mapping(text: str) -> dict[str, Any]:
    """Keys and values of ``{...}``, ``Name(a=1, ...)`` or ``a=1, b='x'``; {} where there are none."""
    body = text[:MAX_CHARS].strip()
    opening = re.match(r"(?:[A-Za-z_][\w.]*\s*)?[({]", body)
    if opening is not None:
        body = body[opening.end() :]
    found: dict[str, Any] = {}
    for item in split_items(body):
        key = _KEY.match(item)
        value = literal(item[key.end() :]) if key is not None else None
        if key is not None and not _is_cut(value):
            found[key["quoted"] or key["plain"]] = value
    return found


def _is_cut(value: Any) -> bool:
    """Whether the text broke off inside of a string: its quote still stands in front."""
    return isinstance(value, str) and value[:1] in ("'", '"') and value[:1] not in value[1:]


def literal(text: str) -> Any:
    """A Python literal's value; an enum's value; otherwise the text itself."""
    text = text.strip()
    enum = _ENUM.match(text)
    if enum is not None:
        return literal(enum["value"])
    try:
        with warnings.catch_warnings(action="ignore"):
            value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return {"inf": "inf", "nan": "nan"}.get(text, text)
    return list(value) if isinstance(value, (tuple, set, frozenset)) else value


def split_items(text: str) -> Iterator[str]:
    """The parts between top-level commas, up to the bracket that closes what the text is inside of."""
    depth, start, quote, at = 0, 0, "", 0
    while at < len(text):
        char = text[at]
        if quote:
            if char == "\\":
                at += 1
            elif char == quote:
                quote = ""
        elif char in "'\"" and (at == 0 or not text[at - 1].isalnum()):
            quote = char
        elif char in _OPEN and not (char == "<" and text[at + 1 : at + 2] in " =<0123456789"):
            depth += 1
        elif char in _CLOSE and not (char == ">" and depth == 0):
            if depth == 0:
                break
            depth -= 1
        elif char == "," and depth == 0:
            yield text[start:at].strip()
            start = at + 1
        at += 1
    if last := text[start:at].strip():
        yield last
