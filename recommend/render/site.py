"""The knowledge as a browsable site: an index, the tables of what works, a page for each record and own run.

Owns the HTML and its quoting: every text is untrusted and is escaped, links go to http(s) and to pages of the
site alone. Must not read or write files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from markdown_it import MarkdownIt

from recommend import compatibility, remedy
from recommend.explain import alternative_text, fixes, outcome_text, range_text
from recommend.findings import other_side, status_of, trust_of
from recommend.question import Query
from recommend.render.listing import rows
from recommend.render.verdict import evidence_text, remedy_lines

Json = Mapping[str, Any]
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem }
nav a { margin-right: 1rem }
table { border-collapse: collapse }
td, th { padding: .2rem .6rem; text-align: left; vertical-align: top; border-bottom: 1px solid #8884 }
pre { white-space: pre-wrap; background: #8881; padding: .8rem }
input { padding: .3rem; width: 24rem }
.broken { color: #b00020 } .disputed { color: #9a6700 } .works { color: #1a7f37 }
"""
_FILTER = """
const box = document.querySelector('input'), rows = [...document.querySelectorAll('tbody tr')];
box.oninput = () => {
  const words = box.value.toLowerCase().split(' ');
  rows.forEach(row => { row.hidden = !words.every(word => row.textContent.toLowerCase().includes(word)) });
};
"""


class RunPage(NamedTuple):
    """An own run: its id, the cells of its row in the table (texts), and the lines of its page."""

    run: str
    cells: Sequence[str]
    lines: Sequence[str]


def pages(
    records: Sequence[Json], prose: Mapping[str, str], runs: Sequence[RunPage], columns: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """(path in the site, HTML). ``prose`` is Markdown by record id; ``columns`` head the table of runs."""
    yield "index.html", _page("What is known", _records_table(records), script=_FILTER)
    yield "table.html", _page("What works where", _markdown("\n".join(compatibility.page(records))))
    for record in records:
        body = _record(record, prose.get(record["id"], ""))
        yield f"records/{record['id']}.html", _page(record["title"], body, up="../")
    yield "runs.html", _page("Own runs", _runs_table(runs, columns), script=_FILTER)
    for run in runs:
        lines = escape("\n".join(run.lines))
        yield f"runs/{_slug(run.run)}.html", _page(run.run, f"<pre>{lines}</pre>", up="../")


def _page(title: str, body: str, *, up: str = "", script: str = "") -> str:
    found = f"<input placeholder='words to look for' autofocus>{body}" if script else body
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width'>"
        f"<title>{escape(title)} · kbctl</title><style>{_STYLE}</style>"
        f"<nav><a href='{up}index.html'>records</a><a href='{up}table.html'>what works where</a>"
        f"<a href='{up}runs.html'>own runs</a></nav><h1>{escape(title)}</h1>{found}"
        + (f"<script>{script}</script>" if script else "")
        + "</html>\n"
    )


def _records_table(records: Sequence[Json]) -> str:
    told = rows(records)
    body = [
        [
            f"<a href='records/{escape(one['record'])}.html'>{escape(one['record'])}</a>",
            f"<span class='{escape(one['side'])}'>{escape(one['side'])}</span>",
            escape(one["effect"]),
            escape(", ".join(one["arch"]) or "any"),
            escape(one["title"]),
        ]
        for one in told
    ]
    return f"<p>{len(told)} records.</p>" + _table(("record", "side", "effect", "GPUs", "what"), body)


def _runs_table(runs: Sequence[RunPage], columns: Sequence[str]) -> str:
    body = []
    for run in runs:
        first, *rest = [escape(cell) for cell in run.cells]
        body.append([f"<a href='runs/{_slug(run.run)}.html'>{first}</a>", *rest])
    return (
        _table(columns, body) if body else "<p>No runs recorded. Next: <code>kbctl ingest FOLDER</code></p>"
    )


def _table(header: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(one)}" for one in header)
    lines = "".join("<tr>" + "".join(f"<td>{cell}" for cell in row) for row in body)
    return f"<table><thead><tr>{head}<tbody>{lines}</table>"


def _record(record: Json, prose: str) -> str:
    status = "disputed" if other_side(record) else status_of(record, fixes(record))
    remedies = [
        " ".join(line.strip() for line in remedy_lines(remedy.rendered(one, Query()), ""))
        for one in record["instead"]
    ]
    ranges = [range_text(name, one) for name, events in record["ranges"].items() for one in events]
    sections = (
        ("Holds for", [escape(alternative_text(one)) for one in record["matches"]]),
        ("Versions", map(escape, ranges)),
        ("Shows as", [escape(outcome_text(one)) for one in record["outcomes"]]),
        ("Do instead", map(escape, remedies)),
        ("Evidence against", map(_evidence, _of_side(record, "against"))),
        ("Evidence for", map(_evidence, _of_side(record, "for"))),
        ("Also as", map(escape, record["aliases"])),
    )
    told = f"{status}; trust: {trust_of(record)}; last checked {record['checked']}"
    lists = "".join(_section(title, list(items)) for title, items in sections)
    return (
        f"<p>{escape(record['cause'])}</p><p><code>{escape(record['id'])}</code> · {escape(told)}</p>"
        f"{lists}{_markdown(prose)}"
    )


def _of_side(record: Json, side: str) -> list[Json]:
    return [one for one in record["evidence"] if one["side"] == side]


def _section(title: str, items: Sequence[str]) -> str:
    return f"<h3>{title}</h3><ul>{''.join(f'<li>{one}' for one in items)}</ul>" if items else ""


def _evidence(one: Json) -> str:
    url = str(one.get("url") or "")
    text = escape(evidence_text({**one, "url": None}))
    safe = url.startswith(("https://", "http://"))
    return f"<a href='{escape(url)}' rel='noreferrer'>{text}</a>" if safe else text


def _markdown(text: str) -> str:
    """Markdown as HTML: raw HTML in it is shown as text, links between records lead to their pages."""
    made = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    return re.sub(r'href="(?:\.\./)?(?:records/)?([\w.-]+)\.md"', r'href="records/\1.html"', made)


def _slug(name: str) -> str:
    return re.sub(r"[^\w.-]", "-", name)
