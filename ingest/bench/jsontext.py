"""JSON as people's tools leave it: appended, cut, with NaN, duplicate keys, a BOM, or UTF-16.

Owns getting every readable document out of a source, with what could not be read. Must not know what any
document means.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ingest.formats import Unreadable
from ingest.sources import Source, decode
from kb.model import Problem

_LONG = 4096
_RUN_BYTES = b"0123456789 \t\r\n.,eE+-[]nulNaInfty"
_LONG_RUN = re.compile(rb"[%s]{%d,}" % (re.escape(_RUN_BYTES), _LONG))
_BIG_BYTES = 16 << 20
_MOST_DOCUMENTS = 50_000
_MOST_BYTES = 80 << 20  # once its long arrays are left out
_SPACE = re.compile(r"[\s,\x1e]*")
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{},:]', re.DOTALL)
_OPENING = re.compile(r'[\ufeff\s]*(?:\{\s*(?:"|\}|$)|\[\s*(?:[\[{"\]]|$))')
_CLOSERS = {"{": "}", "[": "]"}


@dataclass(slots=True)
class Documents:
    """JSON documents of one source in file order: (1-based line where each starts, value)."""

    found: list[tuple[int, Any]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def first(self) -> Any:
        """The first document's value, or ``None``."""
        return self.found[0][1] if self.found else None

    def objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """(line, object) for every object: a top-level one, or an element of a top-level array."""
        for line, value in self.found:
            if isinstance(value, dict):
                yield line, value
            elif isinstance(value, list):
                yield from ((line, one) for one in value if isinstance(one, dict))


def load(source: Source) -> Documents:
    """Every JSON document in a source. Raises ``Unreadable`` when there is none."""
    text = source.text if source.size < _BIG_BYTES else _without_long_arrays(source)
    reader = _Reader(text.lstrip("\ufeff"))
    reader.read_all()
    if not reader.out.found:
        where = reader.out.problems[0].what if reader.out.problems else "the file is empty"
        raise Unreadable(f"no JSON document could be read: {where}")
    return reader.out


def _without_long_arrays(source: Source) -> str:
    """The text with long runs of numbers cut down to their brackets, read block by block.

    Arrays of single requests may be a hundred times as long as the summary that follows them.
    """
    out: list[bytes] = []
    carry, run, kept = b"", _Run(), 0
    for block in source.blocks():
        if len(block) > _LONG and block.strip(_RUN_BYTES) and not re.search(rb'["\\\n\[\]{}]', block):
            continue  # inside one endless text
        piece = carry + block
        if run.open:
            rest = piece.lstrip(_RUN_BYTES)
            out.append(run.feed(piece[: len(piece) - len(rest)], ends=bool(rest)))
            piece = rest
        body = piece.rstrip(_RUN_BYTES)
        out.append(_LONG_RUN.sub(lambda found: _Run().feed(found[0], ends=True), body))
        kept += len(out[-1])
        if kept > _MOST_BYTES:
            return decode(b"".join(out))
        carry = piece[len(body) :]
        if len(carry) >= _LONG:
            out.append(run.feed(carry, ends=False))
            carry = b""
    return decode(b"".join([*out, carry]))


class _Run:
    """A long run of numbers on its way: which bracket was written last, and what stood last."""

    def __init__(self) -> None:
        self.open = False
        self._bracket = self._end = b""

    def feed(self, part: bytes, *, ends: bool) -> bytes:
        """The brackets of the next part, with the commas that they need."""
        brackets = re.sub(rb"\](?=\[)", b"],", self._bracket + re.sub(rb"[^\[\]]+", b"", part))
        new = brackets[len(self._bracket) :]
        self._bracket = brackets[-1:] or self._bracket
        self._end = part.rstrip()[-1:] or self._end
        self.open = not ends
        comma = b"," if ends and self._end == b"," and self._bracket == b"]" else b""
        if ends:
            self._bracket = self._end = b""
        return new + comma


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.out = Documents()
        self._decoder = json.JSONDecoder(
            object_pairs_hook=self._pairs, parse_constant=self._constant, strict=False
        )
        self._noted: set[str] = set()

    def read_all(self) -> None:
        position, line = 0, 1
        while True:
            start = _SPACE.match(self.text, position).end()  # type: ignore[union-attr]
            line += self.text.count("\n", position, start)
            if start >= len(self.text):
                return
            if len(self.out.found) >= _MOST_DOCUMENTS:
                self._problem(line, f"only its first {_MOST_DOCUMENTS} JSON documents were read")
                return
            end = self._read_one(start, line)
            line += self.text.count("\n", start, end)
            position = end

    def _read_one(self, start: int, line: int) -> int:
        """Reads the document at ``start``; where it is broken, what can be saved; returns where to go on."""
        try:
            value, end = self._decoder.raw_decode(self.text, start)
        except RecursionError:
            self._problem(line, "nested too deeply to be read")
            return len(self.text)
        except json.JSONDecodeError as error:
            return self._skip_broken(start, line, error)
        if isinstance(value, dict | list):
            self.out.found.append((line, value))
            return end
        self._note(line, "text between the JSON documents was left out")
        return self._end_of_line(end)

    def _skip_broken(self, start: int, line: int, error: json.JSONDecodeError) -> int:
        stop = self._end_of_line(start)
        rest = self.text[stop:].strip()
        if self.text[start] not in "{[":
            self._note(line, "text between the JSON documents was left out")
            return stop
        reason, broken_line = error.msg, line + self.text.count("\n", start, error.pos)
        if rest[:1] == "{" and self.text[start:stop].strip()[:2] != "{":
            self._problem(line, f"this line is not valid JSON ({reason}); it was left out")
            return stop
        return self._save_cut(start, broken_line, reason)

    def _save_cut(self, start: int, line: int, reason: str) -> int:
        mended = close_cut(self.text[start:])
        try:
            value = self._decoder.decode(mended)
        except (json.JSONDecodeError, RecursionError):
            self._problem(line, f"not valid JSON ({reason})")
            return len(self.text)
        self._problem(
            line, f"the JSON breaks off or is broken here ({reason}); what stands before it was read"
        )
        if value:
            self.out.found.append((line, value))
        return len(self.text)

    def _end_of_line(self, position: int) -> int:
        stop = self.text.find("\n", position)
        return len(self.text) if stop < 0 else stop + 1

    def _pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs):
            names = [name for name, _ in pairs]
            twice = sorted({name for name in names if names.count(name) > 1})
            self._note(None, f"the key {twice[0]!r} stands more than once in an object; the last one counts")
        return value

    def _constant(self, name: str) -> float | None:
        if name == "NaN":
            self._note(None, "NaN stands where a number is expected; read as not measured")
            return None
        return -math.inf if name.startswith("-") else math.inf

    def _note(self, line: int | None, what: str) -> None:
        if what not in self._noted:
            self._noted.add(what)
            self._problem(line, what)

    def _problem(self, line: int | None, what: str) -> None:
        self.out.problems.append(Problem(line=line, what=what))


def close_cut(text: str) -> str:
    """A cut JSON text up to its last whole value, closed. Returns ``{}`` when nothing whole is left."""
    stack: list[str] = []
    whole, closers = 0, ""
    for found in _TOKEN.finditer(text):
        mark = found[0]
        if mark in _CLOSERS:
            stack.append(_CLOSERS[mark])
            whole, closers = found.end(), "".join(reversed(stack))
        elif mark in "}]":
            if not stack or stack.pop() != mark:
                break
            whole, closers = found.end(), "".join(reversed(stack))
        elif mark[0] == '"' and (len(mark) == 1 or mark[-1] != '"'):
            break  # the text ends inside a string
        elif mark == ",":
            whole, closers = found.start(), "".join(reversed(stack))
    return text[:whole] + closers or "{}"


@lru_cache(maxsize=4)
def looks_like_json(head: str) -> bool:
    """Whether a text starts as a JSON object, or an array of objects, arrays or texts."""
    return bool(_OPENING.match(head))


_TOP_KEY = re.compile(r'"((?:[^"\\]|\\.){1,80})"\s*:')


@lru_cache(maxsize=16)
def keys_in(head: str, limit: int = 400) -> frozenset[str]:
    """Names used as keys in the start of a JSON text, at any depth (cheap: for sniffing)."""
    return frozenset(_keys(head)[:limit])


@lru_cache(maxsize=2)
def _keys(head: str) -> list[str]:
    return _TOP_KEY.findall(head)


@lru_cache(maxsize=4)
def outer_keys(head: str) -> frozenset[str]:
    """Names of the members of the outermost objects: a top-level one, or those in a top-level array."""
    try:
        whole = json.loads(head.lstrip("\ufeff"))
    except (ValueError, RecursionError):
        return _outer_keys(head)
    return frozenset(key for one in (whole if isinstance(whole, list) else [whole]) for key in _names(one))


def _names(value: Any) -> Iterable[str]:
    return value if isinstance(value, dict) else ()


def _outer_keys(head: str) -> frozenset[str]:
    """The same of a text that is cut, or of several documents."""
    found: set[str] = set()
    depth = objects = 0
    before = ""
    for hit in _TOKEN.finditer(head):
        mark = hit[0]
        if mark in _CLOSERS:
            depth += 1
            objects += mark == "{"
        elif mark in "}]":
            depth -= 1
            objects -= mark == "}"
        elif mark == ":" and objects == 1 and depth < 3 and before:
            found.add(before)
        before = mark[1:-1] if mark[:1] == '"' else ""
    return frozenset(found)
