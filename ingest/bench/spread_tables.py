"""Tables that spread a figure over columns: its statistics across, or the loads across.

Owns turning such a table into one with a column for each measure. Must not read cells, and must not decide
what a label measures.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from ingest.bench import cells, variants
from ingest.bench.places import place
from ingest.bench.quantities import RESULTS, labels, understand, words_of
from ingest.bench.tables import Table

_STATISTICS: dict[str, str] = labels("statistics")
_UNITS = frozenset(labels("time_units"))
_COUNTS = frozenset(("n", "count", "samples", "num samples", "unit", "units", "notes", "note"))
_DERIVED = re.compile(
    r"delta|Δ|gain|speed ?up|improvement|diff|change|ratio|vs\.?$|^vs |saving|overhead|%$|notes?|comment"
    r"|relative|^(?:targets?|goals?|aims?|gap|expected|projected|slos?|slas?)$"
)
_VALUES = ("value", "result", "score", "values", "results", "measured")
Records = dict[str, tuple[int, dict[str, str]]]


def unpivoted(table: Table, measure: str | None = None) -> Table | None:
    """The table with a column for each measure, or ``None`` where it stands so already.

    ``measure`` is what a heading says of all its cells, for tables that name no measure themselves.
    """
    return _statistics_joined(table) or _spread(table, measure)


def _spread(table: Table, measure: str | None) -> Table | None:
    if len(table.header) < 3 or not table.rows:  # a name, and two columns to spread over
        return None
    statistics = {at: label for at, label in enumerate(table.header) if is_statistic(cells.plain(label))}
    if len(statistics) > 1 and (column := _measures(table, statistics)) is not None:
        return _built(table, _by_statistics(table, statistics, column))
    if (column := _metric_column(table)) is not None:
        return _built(table, _by_metrics(table, column))
    loads = {at: told for at, label in enumerate(table.header) if at and (told := _load(table, label))}
    others = (label for at, label in enumerate(table.header) if at and at not in loads)
    if len(loads) < 2 or any(map(_is_figure, others)):
        return None
    column = _measures(table, loads)
    if column is None and measure is None:
        return None
    return _built(table, _by_loads(table, loads, column, measure))


def _statistics_joined(table: Table) -> Table | None:
    """One row of a table whose rows are statistics and whose columns are measures of the same run."""
    percentiles = words_of(cells.plain(table.header[0])).startswith("percentile")
    told = {name: row for _, row in table.rows if row and (name := _statistic(row[0], percentiles))}
    columns = [at for at, label in enumerate(table.header) if at and _is_figure(f"mean {cells.plain(label)}")]
    if len(told) < 2 or len(told) < len(table.rows) or not columns or _is_figure(table.header[0]):
        return None
    if any(not is_loose(table.header[at]) for at in columns):
        return None
    record = {
        f"{stat} {cells.plain(table.header[at])}": row[at]
        for stat, row in told.items()
        for at in columns
        if len(row) > at and (stat == "mean" or not _is_rate(table.header[at]))
    }
    return _built(table, {"": (table.line, record)}) if record else None


def joined_rows(rows: Sequence[Mapping[str, object]]) -> dict[str, str]:
    """The record of objects that are statistics, one each, of the same measures; empty where they are not."""
    header = [str(key) for key in rows[0]] if rows else []
    if len(header) < 2 or len(rows) > _MOST_STATISTICS or any([*map(str, row)] != header for row in rows):
        return {}
    table = Table(header, 0, rows=[(0, [str(one) for one in row.values()]) for row in rows])
    joined = _statistics_joined(table)
    return dict(zip(joined.header, joined.rows[0][1], strict=True)) if joined is not None else {}


_MOST_STATISTICS = 40  # of one measure: longer lists are of something else


def _statistic(cell: str, percentiles: bool) -> str | None:
    text = cells.plain(cell)
    share = re.fullmatch(r"(\d{1,2}(?:\.\d+)?)\s*(?:%|th|)", text) if percentiles else None
    if share:
        return f"p{share[1]}"
    return _STATISTICS.get(words_of(text), text) if is_statistic(text) else None


def is_loose(label: str) -> bool:
    """Whether a label leaves open which statistic of its measure it is."""
    told = understand(cells.plain(label))
    return told is None or told.loose or "tok_s" in told.name or "request_s" in told.name


def _is_rate(label: str) -> bool:
    told = understand(f"mean {cells.plain(label)}")
    return told is not None and "_s" in told.name and "_ms_" not in told.name


def _metric_column(table: Table) -> int | None:
    """A column of that name, not the first, whose cells name measures for at least half of the rows."""
    for at, label in enumerate(table.header[:-1]):
        if at and words_of(cells.plain(label)) in ("metric", "metrics", "measure"):
            told = [row[at] for _, row in table.rows if len(row) > at and understand(cells.plain(row[at]))]
            return at if told and 2 * len(told) >= len(table.rows) else None
    return None


def _by_metrics(table: Table, column: int) -> Records:
    """A record for each row's other cells, and for each setup where several columns hold figures."""
    figures = [at for at in range(column + 1, len(table.header)) if not is_derived(table.header[at])]
    values = [at for at in figures if words_of(cells.plain(table.header[at])) in _VALUES]
    found: Records = {}
    for at in values[:1] or figures:
        label, value = ("", "") if values else variants.named(cells.plain(table.header[at]))
        for line, row in table.rows:
            if len(row) > at:
                record = _record(
                    found, table, line, row, {column, *range(column + 1, len(table.header))}, value
                )
                probe = cells.plain(row[0]) if label == "test" and column else ""  # what each was asked
                named = {label: f"{probe} / {value}" if probe else value} if label else {}
                record |= named | {cells.plain(row[column]): row[at]}
    return found


def statistics_down(table: Table) -> Table | None:
    """A table of one measure that its heading names, a statistic in each row: a row for each column."""
    measure = _headed(table.heading)
    if len(table.header) < 2 or not _is_timed(measure):
        return None
    told = {row[0]: row for _, row in table.rows if len(row) > 1 and is_statistic(_bare(row[0]))}
    if len(told) < 2 or 2 * len(told) < len(table.rows) or any(_is_figure(label) for label in table.header):
        return None
    columns: dict[str, int] = {}  # the first of those that differ in their unit alone
    for at, label in enumerate(table.header):
        if at and words_of(label) not in _COUNTS and not is_derived(label):
            columns.setdefault(_bare(label), at)
    found: Records = {}
    for name, at in columns.items():
        unit = next((word for word in words_of(table.header[at]).split() if word in _UNITS), "")
        record = {
            f"{_bare(stat)} {measure} {unit}".strip(): row[at] for stat, row in told.items() if len(row) > at
        }
        # the heading, which names the measure, names no test
        found[name] = (table.line, record | {"test": name if len(columns) > 1 else ""})
    return _built(table, found)


def _headed(heading: str) -> str:
    """The measure that the innermost heading names, and whose it is: "prefill: / latency:"."""
    *outer, inner = [cells.plain(part).strip(" :") for part in heading.split(" / ")]
    whose = understand(f"{outer[-1]} {inner}") if outer else None
    own = whose is not None and not whose.name.startswith("e2e") and understand(inner) != whose
    return f"{outer[-1]} {inner}" if own else inner


def _bare(name: str) -> str:
    return re.sub(r"\s*\([^()]*\)", "", cells.plain(name))


def is_derived(label: str) -> bool:
    """Whether a header names what compares other columns, or remarks on them."""
    return any(_DERIVED.search(text) for text in (words_of(label), label.strip().lower()))


def is_statistic(label: str) -> bool:
    """Whether a header names a statistic alone, with or without a unit ("P99", "Mean (ms)")."""
    name = " ".join(word for word in words_of(label).split() if word not in _UNITS)
    return name in _STATISTICS or re.fullmatch(r"p ?\d+(?:\.\d+)?|\d+(?:th)? percentile", name) is not None


_ASKED = re.compile(r"(\d+(?:\.\d+)?) ?(?:req(?:uest)?s?/s(?:ec)?|rps|qps)", re.IGNORECASE)


def _load(table: Table, label: str) -> tuple[str, str] | None:
    """(label, value) of a load that a header is: "bs=8", or a bare number where the corner names it."""
    text = cells.plain(label)
    corner = place(cells.plain(table.header[0]))
    if re.fullmatch(r"[\d.,]+[kK]?", text):
        if corner is not None and corner[0] == "workload":
            return cells.plain(table.header[0]), text
        if words_of(table.header[0]) in ("qps", "rps"):
            return "request rate", text
        beside = {variants.named(cells.plain(one))[0] for one in table.header} - {"test", "engine"}
        return (beside.pop(), text) if len(beside) == 1 else None  # "ctx=0 | 16k | 32k"
    if asked := _ASKED.fullmatch(text):
        return "request rate", asked[1]
    key, value = variants.named(text)
    return (key, value) if key not in ("test", "engine") else None


def _measures(table: Table, spread: Collection[int]) -> int | None:
    """The column whose cells name measures, for at least half of the rows."""
    for at in range(len(table.header)):
        if at not in spread:
            told = [
                row[at]
                for _, row in table.rows
                if len(row) > at
                and cells.read_cell(row[at]) is None  # "7,200 req/s" is a figure itself
                and _is_figure(f"mean {cells.plain(row[at])}")
            ]
            if told and 2 * len(told) >= len(table.rows):
                return at
    return None


def _is_timed(measure: str) -> bool:
    told = understand(f"mean {measure}")
    return told is not None and told.name.startswith((*RESULTS, "prefill", "decode"))


def _is_figure(label: str) -> bool:
    told = understand(cells.plain(label))
    return told is not None and told.name.startswith(RESULTS)


def _by_statistics(table: Table, statistics: dict[int, str], column: int) -> Records:
    unit = next((at for at, label in enumerate(table.header) if words_of(label) in ("unit", "units")), None)
    found: Records = {}
    for line, row in table.rows:
        if len(row) <= column:
            continue
        name = " ".join([row[column], row[unit] if unit is not None and len(row) > unit else ""]).strip()
        record = _record(found, table, line, row, {*statistics, column})
        record |= {f"{label} {name}": row[at] for at, label in statistics.items() if len(row) > at}
    return found


def _by_loads(
    table: Table, loads: dict[int, tuple[str, str]], column: int | None, measure: str | None
) -> Records:
    found: Records = {}
    bare = all(re.fullmatch(r"[\d.,]+[kK]?", cells.plain(table.header[at])) for at in loads)
    corner = {0} if bare else set[int]()
    for at, (label, value) in loads.items():
        for line, row in table.rows:
            if len(row) > max(at, column or 0):
                name = row[column] if column is not None else str(measure)
                taken = {*loads, *corner} | ({column} if column is not None else set())
                record = _record(found, table, line, row, taken, f"{label}={value}")
                record |= {label: value, name: row[at]}
    return found


def _record(  # noqa: PLR0913, PLR0917 - where a cell goes has as many sides
    found: Records, table: Table, line: int, row: Sequence[str], taken: Iterable[int], apart: str = ""
) -> dict[str, str]:
    """The record of a row's own cells, shared by rows that have the same ones."""
    without = {*taken}
    own = {
        label: row[at]
        for at, label in enumerate(table.header)
        if at not in without and len(row) > at and words_of(label) not in _COUNTS
    }
    return found.setdefault(f"{own!r} {apart}", (line, own))[1]


def _built(table: Table, found: Records) -> Table:
    header = list(dict.fromkeys(label for _, record in found.values() for label in record))
    rows = [(line, [record.get(label, "") for label in header]) for line, record in found.values()]
    return Table(header, table.line, rows=rows, heading=table.heading, caption=table.caption)
