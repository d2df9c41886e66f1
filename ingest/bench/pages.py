"""A Markdown page taken apart: headings, tables, fenced blocks, fields, and where its prose stands.

Owns the use of markdown-it-py. Must not know what a table means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from ingest.bench.front import pairs_in
from ingest.bench.tables import Table

if TYPE_CHECKING:
    from markdown_it.token import Token

_FRONT = re.compile(r"\A---\n(?P<inside>.*?)\n---\n", re.DOTALL)
_REPORTED = re.compile(r"(?i)\breported metric is:? [`\"*]*([A-Za-z][\w /]{4,60}\([\w /]{3,20}\))")
LARGEST = 1 << 19


@dataclass(slots=True)
class Fence:
    """A fenced block: 1-based line of its opening, its language word, its text."""

    line: int
    info: str
    text: str


@dataclass(slots=True)
class Page:
    """What a page holds. ``unread`` are [first, last] lines of prose; ``prose`` counts those lines."""

    title: str | None = None
    lines: int = 0
    prose: int = 0
    tables: list[Table] = field(default_factory=list)
    fences: list[Fence] = field(default_factory=list)
    fields: list[tuple[str, str]] = field(default_factory=list)
    unread: list[list[int]] = field(default_factory=list)
    headings: list[tuple[int, str]] = field(default_factory=list)
    metric: str = ""  # what the page says that its tables report
    paragraphs: list[str] = field(default_factory=list)
    listed: dict[str, Table] = field(default_factory=dict)  # fields below each heading, in two columns

    def heading_at(self, line: int) -> str:
        """The headings above a line, outermost first, as tables have them."""
        return next((path for start, path in reversed(self.headings) if start <= line), "")


def read_page(text: str) -> Page:
    """Takes a page apart. Only its first ``LARGEST`` characters are read."""
    page = Page(lines=text.count("\n") + 1)
    text = text[:LARGEST].replace("\r\n", "\n")
    front = _FRONT.match(text)
    if front:
        page.fields += pairs_in(front["inside"].split("\n"))
        text = "\n" * front[0].count("\n") + text[front.end() :]
    from markdown_it import MarkdownIt  # noqa: PLC0415 - costs 30 ms, and only pages need it

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.disable(["inline"])  # what stands inside lines is read as text
    tokens = parser.parse(text)
    headings: list[str] = []
    caption, stated = "", ""
    for index, token in enumerate(tokens):
        if token.type == "heading_open":
            _heading(page, headings, int(token.tag[1]), tokens[index + 1].content)
            page.headings.append(((token.map or [0])[0] + 1, _path(headings)))
        elif token.type == "table_open":
            above = [*headings, stated] if stated and stated != caption else headings
            page.tables.append(replace(_table(tokens, index, above), caption=caption))
        elif token.type in ("fence", "code_block"):
            page.fences.append(Fence((token.map or [0])[0] + 1, token.info.strip(), token.content))
        elif token.type == "paragraph_open":
            _paragraph(page, token, tokens[index + 1].content, _path(headings))
        if token.type in ("heading_open", "table_close", "fence", "paragraph_open"):
            caption = tokens[index + 1].content if token.type == "paragraph_open" else ""
            stated = _stated(token.type, caption, stated)
    return page


_BOLD = re.compile(r"\*\*[^*\n]{3,100}\([^*\n()]{1,60}\)\*\*:?")  # with a unit in brackets


def _stated(kind: str, caption: str, before: str) -> str:
    """The bold line that heads the tables below it, up to the next heading: "**Speed (tok/s)**"."""
    if kind == "heading_open":
        return ""
    return caption if _BOLD.fullmatch(caption.strip()) else before


def _heading(page: Page, headings: list[str], level: int, content: str) -> None:
    page.title = page.title or content
    del headings[level - 1 :]
    headings += [""] * (level - 1 - len(headings)) + [content]


def _path(headings: list[str]) -> str:
    return " / ".join(one for one in headings if one)


def _paragraph(page: Page, token: Token, content: str, heading: str) -> None:
    found = pairs_in(content.split("\n"))
    page.fields += found
    page.paragraphs.append(content)
    stated = _REPORTED.search(content)
    page.metric = page.metric or (stated[1] if stated else "")
    first, last = token.map or [0, 0]
    listed = page.listed.setdefault(heading, Table(["metric", "value"], first + 1, heading=heading))
    listed.rows += [(first + 1, list(pair)) for pair in pairs_in(content.replace("`", "").split("\n"))]
    left = (last - first) - len(found)
    if left > 0:
        page.prose += left
        page.unread.append([first + 1, last])


def _table(tokens: list[Token], start: int, headings: list[str]) -> Table:
    table = Table([], (tokens[start].map or [0])[0] + 1, heading=_path(headings))
    for cells, line in _rows(tokens, start):
        if not table.header:
            table.header = cells
        else:
            table.rows.append((line, cells))
    return table


def _rows(tokens: list[Token], start: int) -> Iterator[tuple[list[str], int]]:
    cells: list[str] = []
    line = 0
    for index, token in enumerate(islice(tokens, start, None), start):
        if token.type == "tr_open":
            cells, line = [], (token.map or [0])[0] + 1
        elif token.type in ("th_open", "td_open"):
            cells.append(tokens[index + 1].content.strip())
        elif token.type == "tr_close":
            yield cells or [""], line
        elif token.type == "table_close":
            return
