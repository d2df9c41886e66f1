"""People's own result tables as CSV: columns are recognised by their labels and units.

Owns what makes a delimited file a table of results. Must not read GPU traces, which have no throughput.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ingest.bench import (
    cells,
    file_names,
    flattened,
    front,
    names,
    note_tables,
    placeholders,
    remarks,
    requests,
    serving,
    spread_tables,
    tables,
    variants,
)
from ingest.bench.identity import Facts, benchmark, grouped
from ingest.bench.places import place
from ingest.bench.placing import Row
from ingest.bench.quantities import RESULTS, serves_tokens, understand, words_of
from ingest.bench.rows import read_row
from ingest.bench.sniffing import is_page
from ingest.bench.units import Units
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import LineCount, Measurement, Problem, Reading

_CLIENT = "table"
_MOST_BYTES = 4 << 20


def results_in(header: Iterable[str]) -> int:
    """How many labels name a result: a latency or a throughput."""
    found = (understand(label) for label in header)
    return len({one.name for one in found if one and one.name.startswith(RESULTS)})


def _sniff(source: Source) -> float:
    head = "" if is_page(source) else remarks.without(source.head).lstrip("\n")
    first = head.split("\n", 1)[0]
    if not first or first[0] in "{[#|=" or len(first) > 4000 or not any(mark in first for mark in ",;\t"):
        return 0.0
    header = tables.delimited(first)[0]
    table = _table_in(head)
    if table is not None and (turned := note_tables.is_turned(table) or spread_tables.unpivoted(table)):
        return 0.9 if turned is True else 0.7
    results = results_in(header)
    placed = sum(place(label) is not None for label in header)
    shown = sum(_is_shown(label) for label in header) if source.name.lower().endswith(_TABLE_NAMES) else 0
    if not results and _is_quality(header):
        return 0.55
    if not results and _tells_servers(source, table):
        return 0.32
    if len(header) < 3 or not results or _is_prose(header) or not serves_tokens(header):
        return 0.0
    several = results > 1 and placed > 1  # above plain text
    return 0.7 if several else 0.6 if results + placed + shown > 1 else 0.0


def _is_shown(label: str) -> bool:
    """Whether a label names a figure that stands beside results of serving: a share of accepted tokens."""
    told = understand(label)
    return told is not None and told.name.startswith(("accept", "cache_hit"))


def _table_in(head: str) -> tables.Table | None:
    """The first rows as a table, which may stand on its side: measures down, setups or statistics across."""
    rows = tables.delimited(head[:6000])
    return tables.Table(rows[0], 1, list(enumerate(rows[1:], 2))) if len(rows) > 2 else None


_PER_STEP = re.compile(r"\breq(?:uest)?s per step\b")
_TOKENS = {"total_tokens", "input_tokens", "output_tokens"}


def _is_simulated(row: Mapping[str, Any]) -> bool:
    """Whether a cell says that a row was simulated, not measured."""
    return any(isinstance(raw, str) and raw.strip().lower() == "simulated" for raw in row.values())


def _counts_more_than_tokens(point: Measurement) -> bool:
    return bool(point.metrics.keys() - _TOKENS)


_KNOWN: dict[str, Callable[[str], object]] = {"model": names.model, "engine": names.known_engine}
_TABLE_NAMES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")


def _tells_servers(source: Source, table: tables.Table | None) -> bool:
    """Whether rows are runs of named models or servers, whatever they measure of them."""
    if table is None or not source.name.lower().endswith(_TABLE_NAMES) or not serves_tokens(table.header):
        return False
    for at, label in enumerate(table.header):
        named = [row[at] for _, row in table.rows[:5] if at < len(row) and row[at].strip()]
        told = (place(label) or ("", ""))[1]
        known = sum(_KNOWN[told](one) is not None for one in named) if told in _KNOWN else 0
        if 2 * known > len(named):
            return sum(cells.number(cell) is not None for cell in table.rows[0][1]) > 0
    return False


def _is_quality(header: Sequence[str]) -> bool:
    """Whether scores stand beside the names of models and of what they were tested with."""
    places = {place(label) for label in header}
    tested = places & {("workload", "test"), ("workload", "dataset")}
    scored = any((told := understand(label)) is not None and told.name == "accuracy" for label in header)
    return scored and bool(tested) and ("identity", "model") in places


def _is_prose(header: Sequence[str]) -> bool:
    return any(len(cell) > 60 for cell in header) or not any(cell.strip() for cell in header)


def _read(source: Source) -> Reading:
    text = source.start(_MOST_BYTES)
    around, text = remarks.fields(text), remarks.without(text)
    rows = [(i, row) for i, row in enumerate(tables.delimited(text), 1)]
    full = [(i, row) for i, row in rows if any(cell.strip() for cell in row)]
    if not full:
        raise Unreadable("the table is empty")
    table = flattened.unflattened(tables.Table(full[0][1], full[0][0], rows=full[1:]))
    reason = placeholders.reason(cell for _, row in table.rows[:50] for cell in row)
    if reason:
        raise Unreadable(reason)
    records = [(line, row) for line, row in table.records() if not _is_simulated(row)]
    if any(_PER_STEP.search(words_of(label)) for label in table.header):
        records = []  # of a simulation, whose clock counts steps
    simulated = len(table.rows) - len(records)
    told = file_names.hints(source.name)
    told.facts = file_names.fill_facts(front.facts_of(around), told)
    told.facts.load |= front.load_of(around)
    if note_tables.is_turned(table) or spread_tables.unpivoted(table) is not None:
        kept = note_tables.points(table, told.facts or Facts(), _CLIENT)
        return benchmark(source, "bench_csv", grouped(kept), rows=len(records), extra=told.as_extra())
    rows_only = [row for _, row in records]
    units = Units.of(rows_only)
    if requests.are_requests(rows_only):
        records = [(full[0][0], one) for one in requests.fold(rows_only, units)]
    pairs = [_row(line, one, units, told) for line, row in records for one in variants.setups(row)]
    kept = [pair for pair in pairs if _counts_more_than_tokens(pair[1])]
    full_lines = {pair[1].line for pair in kept}
    dropped = [
        Problem(line=line, what="no result in this row") for line, _ in records if line not in full_lines
    ]
    if dropped and not kept and not results_in(table.header):
        dropped = [Problem(line=table.line, what="no column names a known result: rows are counted only")]
    if simulated:
        dropped.append(Problem(line=table.line, what="rows of a simulation are counted, and no results"))
    return benchmark(
        source,
        "bench_csv",
        grouped(kept),
        problems=[*_cut(text), *_ragged(table), *dropped[:20]],
        lines=LineCount(total=len(rows), understood=len(rows) - len(dropped), unknown=len(dropped)),
        rows=len(table.rows),
        extra=_notes(table, units) | told.as_extra(),
    )


def _row(
    line: int, row: Mapping[str, Any], units: Units, told: file_names.Hints
) -> tuple[Facts, Measurement]:
    found = read_row(_with_name(row), units, told.facts)
    take_options(found)
    requests.label_computed(found)
    found.workload = file_names.fill_load(found.workload, told)
    point = serving.complete(found.measurement(_CLIENT, line))
    return found.facts, point


def _with_name(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row under no label of a load or a server, with its first cell as the test that it names."""
    first = next(iter(row), "")
    text = str(row.get(first) or "").strip()
    told = any(place(label) or names.is_option(label) for label in row)
    if told or not text or understand(first) is not None or cells.number(text) is not None:
        return row
    return {"test": text, **row}


def take_options(found: Row) -> None:
    """Cells that no rule placed but whose label is an engine's option are settings."""
    for label, raw in list(found.rest.items()):
        if names.is_option(label, found.facts.engine):
            found.facts.settings.setdefault(label.strip().replace("-", "_"), _typed(raw))
            found.rest.pop(label)


def _typed(raw: Any) -> Any:
    text = str(raw).strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch(r"-?\d{1,9}\.\d{1,9}", text):
        return float(text)
    return int(text) if len(text) < 19 and text.lstrip("-").isdecimal() else text


def _cut(text: str) -> Iterable[Problem]:
    if len(text.encode()) >= _MOST_BYTES:
        yield Problem(line=None, what=f"only its first {_MOST_BYTES >> 20} MiB were read")


def _ragged(table: tables.Table) -> Iterable[Problem]:
    """Rows longer or shorter than the header: said once, at the first one."""
    wide = len(table.header)
    odd = [line for line, row in table.rows if len(row) != wide]
    if odd:
        yield Problem(line=odd[0], what=f"{len(odd)} rows have not the header's {wide} cells")


def _notes(table: tables.Table, units: Units) -> dict[str, Any]:
    unnamed = [
        label for label in table.header if not (understand(label) or place(label) or names.is_option(label))
    ]
    notes: dict[str, Any] = {"columns": table.header}
    notes |= {"units": units.notes} if units.notes else {}
    return notes | ({"columns_not_read": [one for one in unnamed if one.strip()]} if unnamed else {})


FORMAT = Format(
    name="bench_csv",
    kind="benchmark",
    sniff=_sniff,
    read=_read,
    version=7,
    docs=(
        "Any delimited table of results (comma, semicolon, tab; BOM and UTF-16 are fine): columns are "
        "recognised by label and unit, so that vLLM sweep summaries, copies of printed tables and "
        "people's own columns are read alike. Each row is a point; rows that name hardware, model or "
        "engine are grouped by them; columns named as an engine option are settings. A throughput that "
        "does not say which tokens it counts is settled by arithmetic where lengths, batch and time allow "
        "it. Rows of single requests are folded to a point for each load and setting, said to be computed. "
        "Rows whose results are empty (a failed run) are kept if they count requests, and otherwise listed."
    ),
)
