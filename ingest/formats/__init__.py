"""The formats that can be read: one module per format in this folder, found by listing it.

Owns recognition: every format says how sure it is of a source, the surest one reads it. Adding a format is
adding a module with a ``FORMAT`` (or ``FORMATS``) and its samples under tests/formats/<name>/. Must not know
any format by name.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from ingest.sources import Source
from kb.model import Problem, Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How to recognise and read one kind of file.

    ``sniff`` returns confidence 0..1 from ``Source.head`` and the name alone (cheap, never raises on bad
    input): 0 is no, 0.5 looks like it, 0.9 carries this format's own marker, 1 cannot be anything else.
    ``read`` returns a Reading; it may raise ``Unreadable`` with a reason, and must not raise anything else.
    ``version`` grows when the parser's reading of the same bytes changes, so that ``rebuild`` re-reads.
    ``docs`` is a Markdown paragraph for docs/formats.md.
    """

    name: str
    kind: str
    sniff: Callable[[Source], float]
    read: Callable[[Source], Reading]
    version: int = 1
    docs: str = ""


class Unreadable(Exception):
    """A source cannot be read as the format that recognised it; the message says why and what would help."""


@cache
def all_formats() -> tuple[Format, ...]:
    """Every format, by name."""
    found: list[Format] = []
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        found += getattr(module, "FORMATS", None) or [module.FORMAT]
    return tuple(sorted(found, key=lambda one: one.name))


def recognise(source: Source) -> tuple[Format | None, float]:
    """The surest format for a source and how sure it is; (None, best guess) below 0.3."""
    best, sure = None, 0.0
    for one in all_formats():
        confidence = one.sniff(source)
        if confidence > sure:
            best, sure = one, confidence
    return (best, sure) if sure >= 0.3 else (None, sure)


def read_source(source: Source) -> Reading:
    """What one source tells; an unknown or refused one is a Reading that says so."""
    found, _ = recognise(source)
    if found is None:
        reason = "no known format: nothing in its first lines is a marker that any parser knows"
        return Reading(path=str(source.path), format="unknown", status="unknown", problems=(Problem(line=None, what=reason),))
    try:
        return found.read(source)
    except Unreadable as error:
        return Reading(
            path=str(source.path),
            format=found.name,
            kind=found.kind,
            status="refused",
            problems=(Problem(line=None, what=str(error)),),
        )
