"""Take secrets and private names out of text before anything is stored.

Owns what counts as a secret: keys and tokens by their shape or by the name in front of them, passwords in
URLs, private addresses, home folders of users. Must not change anything else: ``redact(redact(x)) ==
redact(x)``, and text without secrets comes back as it was.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar

from kb.model import Reading

SECRET = "<secret>"  # noqa: S105 - the placeholder itself
ADDRESS = "<private-address>"
USER = "<user>"

KEPT_FIELDS = frozenset({"path", "sources", "joined"})
MAX_DEPTH = 40
_SHORT = 200

_SHAPES = (
    r"\bhf_[A-Za-z0-9]{16,}",
    r"\bsk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{16,}",
    r"\bgh[pousr]_[A-Za-z0-9]{20,}",
    r"\bgithub_pat_[A-Za-z0-9_]{20,}",
    r"\bglpat-[A-Za-z0-9_-]{16,}",
    r"\bnvapi-[A-Za-z0-9_-]{16,}",
    r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"\bAIza[A-Za-z0-9_-]{30,}",
    r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
    r"-----BEGIN [A-Z ]{0,40}KEY-----[A-Za-z0-9+/=\s\\]{0,8000}(?:-----END [A-Z ]{0,40}KEY-----)?",
)
_SHAPE = re.compile("|".join(_SHAPES))

_NAME = (
    r"(?:(?i:[A-Za-z0-9_-]{0,40}?(?:api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|auth[_-]?token"
    r"|access[_-]?token|refresh[_-]?token|session[_-]?token|hf[_-]?token|hub[_-]?token|gh[_-]?token"
    r"|github[_-]?token|bearer[_-]?token|client[_-]?secret|passw(?:or)?d|passphrase))"
    r"|TOKEN|[A-Z][A-Z0-9_]{0,40}_(?:SECRET|PASS))"
)
_VALUE = r"(?P<quote>[\"']?)(?P<value>[^\s\"'\\,;&)}\]<>]{3,512})(?P=quote)"
_NAMED = re.compile(rf"(?P<name>(?<![A-Za-z0-9]){_NAME}[\"']?\s?(?:[:=]|\s)\s?\[?){_VALUE}")
_HEADER = re.compile(
    r"(?i)(?P<name>\b(?:authorization|proxy-authorization)\b[\"']?\s?[:=]\s?[\"']?)(?P<value>(?:bearer|basic|token)?\s?[^\s\"'<>,]{3,2048})"
)
_BEARER = re.compile(r"(?i)(?P<name>\bbearer\s)(?P<value>[A-Za-z0-9._~+/-]{12,}=*)")
_URL = re.compile(
    r"(?P<name>\b[a-z][a-z0-9+.-]{1,20}://)(?P<value>[^\s/@:\"'<>]{1,128}:[^\s/@\"'<>]{1,256})@"
)
_NOBODY = (  # accounts that images ship with, and folders that several share
    r"(?!(?:ubuntu|ec2-user|azureuser|jovyan|runner|models?|data|shared)(?:[/\\]|$))"
)
_HOME = re.compile(
    rf"(?P<name>/home/|/Users/|(?i:[a-z]:\\{{1,2}}users\\{{1,2}})){_NOBODY}(?P<value>[^\s/\\:\"'<>,;|)\]}}]{{1,64}})"
)
_OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_IPV4 = re.compile(
    r"(?<![\w.=-])(?:10\.O|172\.(?:1[6-9]|2\d|3[01])|192\.168|169\.254|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7]))"
    r"\.O\.O(?![\w]|\.\d)".replace("O", _OCTET)
)
_IPV6 = re.compile(r"(?i)(?<![\w:])(?:f[cd][0-9a-f]{2}|fe80):[0-9a-f:]{2,40}(?![\w:])")

# Words that stand where a secret would and say that there is none, or that mean something else.
_HARMLESS = re.compile(
    r"(?i)^(?:none|null|true|false|empty|unset|\*+|x{3,}|-?\d{1,9}(?:\.\d+)?|auto|default|required|not|is|for|and|the|to|as|in|or)$"
)

T = TypeVar("T")


def redact(text: str) -> str:
    """The text with secrets, private addresses and user names replaced by placeholders."""
    if len(text) < 5:
        return text
    return _redact_short(text) if len(text) < _SHORT else _redact(text)


def _redact(text: str) -> str:
    text = _SHAPE.sub(SECRET, text)
    text = _URL.sub(rf"\g<name>{SECRET}@", text)
    text = _HEADER.sub(rf"\g<name>{SECRET}", text)
    text = _BEARER.sub(rf"\g<name>{SECRET}", text)
    text = _NAMED.sub(_hide_named, text)
    text = _HOME.sub(rf"\g<name>{USER}", text)
    return _IPV6.sub(ADDRESS, _IPV4.sub(ADDRESS, text))


# The same keys, names and words come in file after file.
_redact_short = lru_cache(maxsize=16384)(_redact)


def _hide_named(found: re.Match[str]) -> str:
    if _HARMLESS.match(found["value"]):
        return found[0]
    return f"{found['name']}{found['quote']}{SECRET}{found['quote']}"


def redact_value(value: Any, name: str = "", depth: int = 0) -> Any:
    """A value of any shape with every text in it redacted; ``name`` is the key that it stands under."""
    if isinstance(value, str):
        return _redact_under(name, value)
    if value is None or isinstance(value, float | int) or depth > MAX_DEPTH:
        return value
    if isinstance(value, dict | Mapping):
        return {_key(key): redact_value(inner, str(key), depth + 1) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        if hasattr(value, "_fields"):
            return _redact_named(value, depth)
        return type(value)(redact_value(inner, name, depth + 1) for inner in value)
    known = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return _redact_fields(value, depth) if known else value


def redact_reading(reading: Reading) -> Reading:
    """The reading without secrets. Paths of files stay: the user named them."""
    return _redact_fields(reading, 0)


def _redact_fields(value: T, depth: int) -> T:
    changes = {
        name: redact_value(inner, name, depth + 1)
        for name in _fields_of(type(value))  # type: ignore[arg-type]
        if (inner := getattr(value, name)) is not None and not isinstance(inner, int | float)
    }
    return dataclasses.replace(value, **changes)  # type: ignore[type-var]


def _redact_named(value: Any, depth: int) -> Any:
    told = {name: inner for name, inner in value._asdict().items() if name not in KEPT_FIELDS}
    return value._replace(**{name: redact_value(inner, name, depth + 1) for name, inner in told.items()})


@lru_cache(maxsize=256)
def _fields_of(kind: type[Any]) -> tuple[str, ...]:
    return tuple(one.name for one in dataclasses.fields(kind) if one.name not in KEPT_FIELDS)


def _redact_under(name: str, text: str) -> str:
    if not name or text.startswith("<") or not _names_secret(name):
        return redact(text)
    return text if _HARMLESS.match(text) or not text else SECRET


@lru_cache(maxsize=4096)
def _names_secret(name: str) -> bool:
    return _NAMED.match(f"{name}={'v' * 8}") is not None


def _key(key: Any) -> Any:
    return redact(key) if isinstance(key, str) else key
