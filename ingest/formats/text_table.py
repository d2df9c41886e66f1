"""Result tables in plain text and logs: drawn with blanks, bars or boxes, or comma lists under a title.

Owns finding them where no tool is recognised. Must not read Markdown pages, and must not read a server's log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ingest.bench import devices, file_names, front, note_tables, placeholders, tables
from ingest.bench.aligned import aligned_tables
from ingest.bench.identity import Facts, benchmark, grouped
from ingest.bench.places import place
from ingest.bench.quantities import RESULTS, understand, words_of
from ingest.bench.sniffing import is_page, needing
from ingest.bench.spread_tables import is_statistic
from ingest.bench.tables import Table
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import LineCount, Measurement, Problem, Reading

_CLIENT = "table"
_LEVEL = re.compile(r"\b(?:INFO|WARNING|ERROR|DEBUG)\b|(?:Decode|Prefill) batch|\[TRT-LLM\]|\[TP\d")
_MOST_LINES = 200_000
_FRAME = re.compile(r"^\s*[│┃║]\s?|\s*[│┃║]\s*$")  # of a panel around what a run says of itself
_HEADED = re.compile(r"^[\s#=*_+|-]*(?P<title>[A-Za-z][^=|]{2,90}?)[\s#=*_+|:-]*$")


def is_header(cells: Sequence[str]) -> bool:
    """Whether a line of labels names a result, and beside it a load, the server, or another result."""
    if any(len(cell) > 50 for cell in cells):
        return False
    if len(cells) > 3 and sum(map(is_statistic, cells)) > 1:
        return True
    if words_of(cells[0]) in note_tables.METRIC_WORDS and not any(map(understand, cells[1:])):
        return True  # measures down, setups across
    told = [understand(cell) for cell in cells]
    results = sum(one is not None and one.name.startswith(RESULTS) for one in told)
    known = sum(one is not None or place(cell) is not None for one, cell in zip(told, cells, strict=True))
    return results >= 1 and known >= 2 and known * 4 >= len(cells)


def _sniff_lines(source: Source) -> list[tuple[int, str]]:
    return list(enumerate(source.head.split("\n")[:400], 1))


@needing(
    "tok", "Tok", "TOK", "TTFT", "ttft", "hroughput", "HROUGHPUT", "TPS", "tps", "t/s", "atency", "req/s"
)
def _sniff(source: Source) -> float:
    head = source.head
    if is_page(source) or head.lstrip()[:1] in "{[<":
        return 0.0
    lines = _sniff_lines(source)
    logged = sum(_LEVEL.search(line) is not None for _, line in lines)
    found = _tables(lines)
    rows = sum(len(one.rows) for one in found)
    if not found or logged > rows + 3:
        return 0.0
    return 0.48 if rows >= 2 else 0.35


def _tables(lines: Iterable[tuple[int, str]]) -> list[Table]:
    """Every kind of table, each line in one of them only; the title above names it."""
    kept = list(lines)
    aligned = aligned_tables(kept, is_header)
    found = [one for one in aligned if not _is_turned(one) or note_tables.is_result_table(one)]
    barred = [one for one in (*tables.pipe_tables(kept), *tables.box_tables(kept)) if one.header]
    found += [one for one in _titled(barred, kept) if note_tables.is_result_table(one)]
    found += _listed(kept)
    taken: set[int] = set()
    single = []
    for one in sorted(found, key=lambda table: table.line):
        if one.line not in taken:
            single.append(one)
            taken |= {one.line, *(line for line, _ in one.rows)}
    return _titled(single, kept)


def _is_turned(table: Table) -> bool:
    """Whether a header names no result itself: its rows must, beside statistics or setups."""
    return any(map(is_statistic, table.header)) or words_of(table.header[0]) in note_tables.METRIC_WORDS


def _listed(lines: Sequence[tuple[int, str]]) -> list[Table]:
    """Comma lists: a header of labels, and rows of as many values."""
    found: list[Table] = []
    table: Table | None = None
    for number, text in lines:
        parts = tables.delimited(text)[0] if text.count(",") >= 2 and len(text) < 2000 else []
        if table is not None and parts and len(parts) == len(table.header):
            table.rows.append((number, [part.strip() for part in parts]))
            continue
        table = None
        if (
            len(parts) > 2
            and is_header(parts)
            and not any(re.fullmatch(r"[\d.]+", one.strip()) for one in parts)
        ):
            table = Table([part.strip() for part in parts], number)
            found.append(table)
    return [one for one in found if one.rows]


def _titled(found: Iterable[Table], lines: Sequence[tuple[int, str]]) -> list[Table]:
    texts = dict(lines)
    for one in found:
        above = (texts.get(one.line - back, "") for back in (1, 2, 3))
        title = next((told["title"] for text in above if (told := _HEADED.match(text)) and _names(text)), "")
        one.heading = one.heading or title.strip()
    return list(found)


def _names(text: str) -> bool:
    """Whether a line above a table is its title or its load, not a fact about the server."""
    told = front.pairs_in([text])
    return not told or (place(told[0][0]) or ("",))[0] == "workload"


def _read(source: Source) -> Reading:
    lines = [(number, text) for number, text in source.lines() if number <= _MOST_LINES]
    around = [_FRAME.sub("", text) for _, text in lines[:400]]
    base = devices.machine_in(around, file_names.hints(source.name).facts)
    base = front.facts_of(front.pairs_in(around), base)
    found = _tables(lines)
    pairs: list[tuple[Facts, Measurement]] = []
    blank: list[Problem] = []
    for table in found:
        reason = placeholders.reason(cell for _, row in table.rows for cell in row)
        if reason:
            blank.append(Problem(line=table.line, what=reason))
        else:
            pairs += note_tables.points(table, front.headed(table.heading, base), _CLIENT)
    if not pairs:
        raise Unreadable(blank[0].what if blank else "no table of results in this text")
    used = sum(len(one.rows) + 1 for one in found)
    total = lines[-1][0] if lines else 0
    return benchmark(
        source,
        "text_table",
        grouped(note_tables.merged(pairs)),
        problems=blank,
        lines=LineCount(total=total, understood=used, unknown=total - used),
    )


FORMAT = Format(
    name="text_table",
    kind="benchmark",
    sniff=_sniff,
    read=_read,
    version=6,
    docs=(
        "Result tables in plain text, in logs of runners, or captured from a terminal: columns parted by "
        "blanks, by bars or drawn as a box, and comma lists under a title. Labels are read as those of "
        "`bench_csv` and `bench_markdown`; `key: value` lines around them tell model and hardware."
    ),
)
