"""The formats that can be read: one module per format in this folder, found by listing it.

Owns recognition: every format says how sure it is of a source, the surest one reads it. Adding a format is
adding a module with a ``FORMAT`` (or ``FORMATS``) and its samples under tests/formats/<name>/, three at least
and a near miss. Must not know any format by name.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import PurePath

from ingest.programs import is_program
from ingest.sources import Source
from kb.errors import KbctlError
from kb.model import Problem, Reading

LEAST = 0.3
SURE = 0.8
CERTAIN = 1.0
MOST_READ_AGAIN = 64 << 20
_ENDLESS = re.compile(rb"\d{300,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How to recognise and read one kind of file.

    ``sniff`` returns confidence 0..1 from ``Source.head`` and the name alone (cheap, never raises on bad
    input): 0 is no, 0.5 looks like it, 0.9 carries this format's own marker, 1 cannot be anything else.
    ``read`` returns a Reading; it may raise ``Unreadable`` with a reason. Neither should raise anything else;
    where one does, ``recognise`` and ``read_source`` hold that against this format alone.
    ``version`` grows when the parser's reading of the same bytes changes, so that ``rebuild`` re-reads.
    ``docs`` is a Markdown paragraph for docs/formats.md. ``read_with_columns`` reads a table without a
    header by the column names that the user gives.
    """

    name: str
    kind: str
    sniff: Callable[[Source], float]
    read: Callable[[Source], Reading]
    version: int = 1
    docs: str = ""
    read_with_columns: Callable[[Source, Sequence[str]], Reading] | None = None


class Unreadable(Exception):  # noqa: N818 - a finding about a file, not an error of ours
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
    best = max(_candidates(source), key=lambda one: one[1], default=(None, 0.0))
    return best if best[1] >= LEAST else (None, best[1])


def read_source(source: Source, columns: Sequence[str] = ()) -> Reading:
    """What one source tells; an unknown or refused one is a Reading that says so.

    Where the surest format finds that it cannot read the source, the next one that is sure has its turn,
    unless the first was certain: then nothing else is meant.
    """
    refused: Reading | None = None
    best = 0.0
    for found, sure in sorted(_candidates(source), key=lambda one: -one[1]):
        if sure < (LEAST if refused is None else SURE) or (refused is not None and best >= CERTAIN):
            break
        best = max(best, sure)
        try:
            return read_as(found, source, columns)
        except Unreadable as error:
            refused = refused or _refused(source, found, str(error))
        except (KbctlError, MemoryError, OSError):
            raise
        except Exception as error:
            refused = refused or _refused(source, found, _fault(error))
    return refused or _unknown(source)


def read_as(found: Format, source: Source, columns: Sequence[str] = ()) -> Reading:
    """What a source tells as this format; raises as the format's ``read`` does.

    Python turns no more than 4,300 digits into a number, and no more than 308 into a float, wherever a
    parser meets them: a source for which it refuses is read again without any that nobody can mean so.
    """
    try:
        return _read_as(found, source, columns)
    except (ValueError, OverflowError) as error:
        too_long = isinstance(error, OverflowError) or "set_int_max_str_digits" in str(error)
        if not too_long or source.size > MOST_READ_AGAIN:
            raise
    told = _read_as(found, _with_data(source, _ENDLESS.sub(b"null", source.data)), columns)
    left_out = Problem(line=None, what="numbers of 300 digits and more are left out")
    return replace(told, problems=(*told.problems, left_out))


def _read_as(found: Format, source: Source, columns: Sequence[str]) -> Reading:
    if columns and found.read_with_columns is not None:
        return found.read_with_columns(source, columns)
    return found.read(source)


def _with_data(source: Source, data: bytes) -> Source:
    other = Source(source.path, data, source.name)
    other.samples, other.trouble = source.samples, source.trouble
    return other


def _candidates(source: Source) -> list[tuple[Format, float]]:
    """Every format that may read a source; of a program only what it configures."""
    formats = all_formats()
    if is_program(source.head):
        formats = tuple(one for one in formats if one.kind == "config")
    return [(one, sure) for one in formats if (sure := _sureness(one, source)) > 0]


def _sureness(one: Format, source: Source) -> float:
    try:
        return one.sniff(source)
    except (KbctlError, MemoryError, OSError):
        raise
    except Exception:
        return 0.0


def _fault(error: Exception) -> str:
    """Where a parser gave up, in one line: enough for a report, without a traceback or the file's text."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" at {PurePath(one.filename).name}:{one.lineno}" for one in last)
    return (
        f"its parser failed on this file ({type(error).__name__}{where}): a defect of kbctl, please report it"
    )


def _refused(source: Source, found: Format, reason: str) -> Reading:
    return Reading(
        path=str(source.path),
        format=found.name,
        kind=found.kind,
        status="refused",
        problems=(Problem(line=None, what=reason),),
    )


def _unknown(source: Source) -> Reading:
    reason = "no known format: nothing in its first lines is a marker that any parser knows"
    reason = reason if source.head.strip() else source.trouble or "the file is empty"
    problems = (Problem(line=None, what=reason),)
    return Reading(path=str(source.path), format="unknown", status="unknown", problems=problems)
