"""Plain text for terminals: wrapped, aligned, and free of anything a terminal would obey.

Owns quoting and wrapping only. Text of logs, records and names is untrusted: control and bidirectional
characters are shown, not sent.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

_UNSAFE = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
WIDTH = 100


def safe(text: object) -> str:
    """Text with control and direction characters written out; newlines and tabs become spaces."""
    words = str(text)
    if words.isprintable():
        return words
    flat = re.sub(r"[\r\n\t]+", " ", words)
    return re.sub(_UNSAFE, lambda found: found[0].encode("unicode_escape").decode(), flat)


def row(label: str, text: object, *, indent: int = 2, gutter: int = 10) -> Iterator[str]:
    """A labelled paragraph: the label in its column, the text wrapped beside it. Nothing for empty text."""
    words = "" if text is None else safe(text).strip()
    if not words:
        return
    lead = " " * indent + label.ljust(gutter)
    yield from textwrap.wrap(
        words,
        width=WIDTH,
        initial_indent=lead,
        subsequent_indent=" " * (indent + gutter),
        break_long_words=False,
        break_on_hyphens=False,
    )


def paste(label: str, text: object, *, indent: int = 2, gutter: int = 10) -> Iterator[str]:
    """A labelled line that is never wrapped, because it is there to be pasted."""
    if text:
        yield " " * indent + label.ljust(gutter) + safe(text)


def rows(label: str, texts: Iterable[object], *, indent: int = 2, gutter: int = 10) -> Iterator[str]:
    """Several paragraphs under one label."""
    for number, text in enumerate(texts):
        yield from row(label if number == 0 else "", text, indent=indent, gutter=gutter)
