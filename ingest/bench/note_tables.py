"""Tables in write-ups: which way round they stand, which columns are the choice and which the outcome.

Owns the four shapes (rows, columns, one metric, fields). Must not find tables in text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any

from ingest.bench import (
    arrows,
    cell_units,
    cells,
    corners,
    layers,
    loaded,
    loads,
    names,
    paired,
    rate_cells,
    serving,
    variants,
    wide_tables,
)
from ingest.bench.around import (
    FIGURES,
    SETUP_LOAD,
    caption_load,
    captioned,
    headed,
    heading_load,
    holds_figures,
    label_of,
    measured,
    said,
    short_caption,
    spoken_load,
    stated,
)
from ingest.bench.identity import Facts
from ingest.bench.places import place
from ingest.bench.placing import Row
from ingest.bench.quantities import RESULTS, Quantity, labels, serves_tokens, understand, words_of
from ingest.bench.rows import read_row
from ingest.bench.sections import sectioned
from ingest.bench.spread_tables import is_derived, statistics_down, unpivoted
from ingest.bench.tables import Table
from ingest.bench.units import Units
from kb.model import Measurement

Pair = tuple[Facts, Measurement]
_RESULTS = (*RESULTS, "peak_", "accept_", "accuracy", "completed", "goodput", "prefill_ms", "decode_ms")
_OTHER_RATE = re.compile(r"\b(?:agg|aggregate|decode|prefill)\b")  # beside setups: another measure
_FORESEEN = re.compile(r"(?i)\b(?:expected (?:\w+ )?results?|projected|hypothetical|theoretical|predicted)\b")
_UNMEASURED = re.compile(
    r"(?i)\b(?:performance expectations?|estimated (?:\w+ )?(?:performance|results|throughput|speeds?)"
    r"|(?:training|fine-?tuning) (?:throughput|speed|performance))\b"
    r"|(?:^| / )(?:(?:pre-?)?training|fine-?tuning)$"
)
_AIMS = re.compile(  # lists that ask for figures, or repeat those of other places
    r"(?i)\b(?:targets?|goals?|slos?|slas?|requirements?|thresholds?|baselines?|budgets?|summary|findings)\b"
)
_OF_EXPERTS = {"dispatch", "combine"}  # times of a layer's parts, not of requests
_MOST_ROWS = 5000  # of one table in a page: what is longer is no write-up
METRIC_WORDS = frozenset(labels("corners")["metric"])
_FIELD_WORDS = frozenset(labels("corners")["field"])


def points(table: Table, base: Facts, client: str) -> list[Pair]:
    """The points of a table, or none when it holds no results."""
    inner = table.heading.rsplit(" / ", 1)[-1]
    if (
        not table.rows
        or len(table.header) < 2
        or _FORESEEN.search(inner)
        or _UNMEASURED.search(table.heading)
        or {words_of(cells.plain(label)) for label in table.header} >= _OF_EXPERTS
    ):
        return []
    table = measured(_with_units(paired.split(arrows.split(table))))
    if not serves_tokens(map(cells.plain, [*table.header, *(row[0] for _, row in table.rows if row)])):
        return []
    told = headed(table.heading) or captioned(table.caption) or stated(table)
    measure = label_of(told) if told else None
    spread = (
        layers.flattened(table, measure)
        or corners.spread(table)
        or corners.labelled(table)
        or unpivoted(table, measure)
    )
    if spread is not None:
        found = _by_rows(spread, base, client)
    elif (joined := statistics_down(table)) is not None:
        found = _by_rows(joined, base, client)
    elif _results(table.header, FIGURES):
        found = _by_rows(table, base, client)
    elif is_turned(table):
        found = _by_columns(table, base, client)
    elif (rates := rate_cells.spread(table)) is not None:
        found = _by_rows(rates, base, client)
    elif told is None and (laid := wide_tables.laid_out(table, said(table))) is not None:
        found = _by_rows(laid, base, client)
    else:
        found = _one_metric(table, base, client)
    return [pair for pair in found if _holds(pair[1])]


def _with_units(table: Table) -> Table:
    """Rates named as such in the rows where these name measures, else in the columns."""
    if words_of(table.header[0]) not in METRIC_WORDS:
        return cell_units.with_units(table)
    down = cell_units.with_units_down(table)
    bare = not table.header[0].strip() and down.rows == table.rows  # rows may be setups under an empty corner
    return cell_units.with_units(table) if bare else down


def is_result_table(table: Table) -> bool:
    """Whether its columns or its rows name results."""
    named = bool(_results(table.header, FIGURES)) or is_turned(table) or unpivoted(table) is not None
    return bool(table.rows) and (named or _is_grid(table))


def _is_grid(table: Table) -> bool:
    """Whether loads stand down and across, under a title that names the measure."""
    return _corner(cells.plain(table.header[0]))[1] != "test" and headed(table.heading) is not None


def _holds(point: Measurement) -> bool:
    return any(name.startswith(_RESULTS) for name in point.metrics)


def _results(labels: list[str], wanted: tuple[str, ...]) -> int:
    told = [understand(loaded.without_load(cells.plain(label))) for label in labels]
    return sum(one is not None and one.name.startswith(wanted) for one in told)


def is_turned(table: Table) -> bool:
    """Whether rows name the measures and columns the setups."""
    first = [row[0] for _, row in table.rows if row]
    named = _results(first, _RESULTS)
    corner = words_of(table.header[0]) if table.header else None
    fewest = 5 if corner in ("metric", "metrics") else 2  # beside measures that nobody else takes
    told = corner in METRIC_WORDS or loaded.names_loads([cells.plain(one) for one in first])
    beside = sum(_is_of_run(cells.plain(one)) for one in first)
    few = named == 1 and beside > 1 and corner in ("metric", "metrics")  # with its load and its duration
    return (named >= 2 or few) and named * (7 if few else fewest) >= len(first) and told


def _by_rows(table: Table, base: Facts, client: str) -> Iterator[Pair]:
    table = sectioned(table)
    records = [
        (line, {cells.plain(k): v for k, v in row.items()})
        for line, row in islice(table.records(), _MOST_ROWS)
        if row
    ]
    _carry_down([record for _, record in records])
    units = Units.of(row for _, row in records)
    serial = _is_serial(table)
    for line, record in records:
        whole = _full(record, table, serial)
        for one in (setup for part in loaded.split(whole) for setup in variants.setups(part)):
            if "test name" in one and one.get("test") == table.heading[-100:] and headed(table.heading):
                del one["test"]  # it names the measure, and no test
            row = read_row(one, units, _for_engine(one.get("engine"), base))
            yield row.facts, _point(row, client, line)


def _carry_down(records: list[dict[str, str]]) -> None:
    """An empty first cell that names a model, a card or a server means that of the row above."""
    for above, record in pairwise(records):
        label = next(iter(record))
        if not record[label].strip() and (place(label) or ("",))[0] == "identity":
            record[label] = above[label]


def _for_engine(engine: Any, base: Facts) -> Facts:
    """The page's facts, without those of its engine where a row names another."""
    if not isinstance(engine, str) or names.engine(engine) == base.engine:
        return base
    return replace(base, engine=None, engine_version=None, settings={}, environment={})


def _is_serial(table: Table) -> bool:
    """Whether the first cells number the setups ("C1", "C2", "C3") instead of telling their load."""
    told = [re.fullmatch(r"[A-Za-z]+ ?(\d+)", cells.plain(row[0])) for _, row in table.rows if row]
    return len(told) > 2 and [one and int(one[1]) for one in told] == list(range(1, len(told) + 1))


def _full(record: Mapping[str, str], table: Table, serial: bool) -> dict[str, str]:
    """A record with the load that its heading names, and its first cell as test where nothing else is."""
    around = spoken_load(table.caption) | caption_load(short_caption(table)) | heading_load(table.heading)
    told = {key: value for key, value in around.items() if _missing(record, key)}
    named = [place(label) for label in record]
    first = next(iter(record))
    name = next((one for one in record if words_of(one) == "run"), "")
    tested = ("workload", "test") in named
    if words_of(first) in _NUMBERED and name:
        told["test"] = record[name]
    elif named[0] is None and understand(first) is None and record[first] and not tested:
        told["test"] = f"{first} {record[first]}" if _OF_KERNEL.search(words_of(first)) else record[first]
    elif table.heading and not tested:
        told["test"] = table.heading[-100:]
    apart = serial or _OF_KERNEL.search(words_of(first)) or not _missing(record, "concurrency")
    loads = {} if apart else _load_of(record[first])
    return told | loads | dict(record)


_OF_KERNEL = re.compile(r"\b(?:tiles?|blocks?|grid|shapes?)\b")  # "128x128" of one is no pair of lengths
_NUMBERED = ("date", "day", "time", "timestamp", "rank", "no", "")  # a first column that names no setup


def _missing(record: Mapping[str, str], key: str) -> bool:
    return place(key) not in {place(label) for label in record}


def _point(row: Row, client: str, line: int | None) -> Measurement:
    return serving.complete(row.measurement(client, line))


def _by_columns(table: Table, base: Facts, client: str) -> Iterator[Pair]:
    """Rows are metrics, columns are setups: each column is a record under its header."""
    beside = _loads_beside(table)
    for index, setup in enumerate(table.header[1:], 1):
        if is_derived(setup) or setup in beside:
            continue
        record: dict[str, Any] = {
            cells.plain(row[0]): row[index] for _, row in table.rows if len(row) > index
        }
        around = heading_load(table.heading) | beside | _load_of(setup) | _setup_name(setup)
        own = _for_engine(variants.engine_in(cells.plain(setup)), base)
        for one in loaded.split(record, plain=True):
            row = read_row(around | one, Units.of([one]), own)
            yield row.facts, _point(row, client, table.line)


def _loads_beside(table: Table) -> dict[str, str]:
    """Columns between measures and setups that tell the load of all rows: "concurrency" over 4, 4, 4."""
    told: dict[str, str] = {}
    for at, label in enumerate(table.header):
        values = {row[at] for _, row in table.rows if at < len(row)}
        named = place(cells.plain(label)) if at else None
        if named is not None and named[0] == "workload" and named[1] != "test" and len(values) == 1:
            told[label] = values.pop()
    return told


def _setup_name(setup: str) -> dict[str, str]:
    """What the header of a setup's column names: an engine, or a test by that name."""
    name = cells.plain(setup)
    if name.lower() in ("value", "result", "", "值", "数值", "结果"):
        return {}
    engine = variants.engine_in(name)
    if names.gpu(name):
        served = names.engine_within(name)
        return {"gpu": name} | ({"engine": served, "test": name} if served else {})
    if card := _SETUP_CARD.fullmatch(name):  # "B200 TP1 (FP4)"
        told = {"gpu": card["gpu"], "tp": card["tp"], "quantization": card["quantization"] or ""}
        return {key: one for key, one in told.items() if one} if names.gpu(card["gpu"]) else {"test": name}
    rest = words_of(name) != words_of(engine or "")
    weights = names.quantization(name) if engine and rest else None
    told = {"engine": engine, "quantization": weights, "test": name if rest or not engine else None}
    return {key: one for key, one in told.items() if one}


_SETUP_CARD = re.compile(
    r"(?P<gpu>[A-Z][\w -]{2,30}?)\s*(?:<br ?/?>)?\s*TP ?=?(?P<tp>\d{1,2})"
    r"(?:\s*(?:<br ?/?>)?\s*\((?P<quantization>[\w-]+)\))?"
)


def _load_of(setup: str) -> dict[str, str]:
    """A setup's header may carry the load: "K=64 (8-user)", "c=16", "bs 4"."""
    found = SETUP_LOAD.search(setup)
    lengths = {key.replace("_", " "): str(one) for key, one in loads.lengths(cells.plain(setup)).items()}
    return lengths | ({"concurrency": found[1] or found[2]} if found else {})


def _one_metric(table: Table, base: Facts, client: str) -> Iterator[Pair]:
    """One metric, named by a heading or the caption, over a load or a card (rows) and setups (columns).

    A first header such as "ctx \\ conc" names what the rows and what the columns count.
    """
    quantity = headed(table.heading) or captioned(table.caption) or stated(table)
    down, across = _corner(cells.plain(table.header[0]))
    load = place(down)
    if quantity is not None and load is None and _is_crossed(table):
        yield from _crossed(table, quantity, base, client)
    if quantity is None or load is None or not (load[0] == "workload" or load[1] in ("gpu", "model")):
        return
    if load[1] == "gpu":
        base = replace(base, gpu=None, gpu_count=None, driver=None)  # the rows name the cards
    elif load[1] == "model":
        base = replace(base, model=None, quantization=None)
    on_cpu = cells.plain(table.caption).strip(": ").lower() == "cpu"
    for line, row in table.rows:
        for setup, raw in zip(table.header[1:], row[1:], strict=False):
            cell = cells.read_cell(raw)
            if (
                cell is None
                or cell.rest.startswith("%")
                or is_derived(setup)
                or _OTHER_RATE.search(words_of(setup))
            ):
                continue
            record = {
                down: _load_cell(row[0], load[1]) if load[0] == "workload" else cells.plain(row[0]),
                label_of(quantity): cell.value,
            } | (_setup_name(setup) if across == "test" else {across: cells.plain(setup)})
            if on_cpu and "gpu" in record:
                record = {**record, "gpu": "cpu", "test": record["gpu"]}  # of the machine, which did nothing
            own = _for_engine(variants.engine_in(cells.plain(setup)), base) if across == "test" else base
            told = read_row(heading_load(table.heading) | record, None, own)
            yield told.facts, _point(told, client, line)


def _is_crossed(table: Table) -> bool:
    """Whether every cell but the first of each row is a figure, under the heading that names its measure."""
    innermost = headed(table.heading.rsplit(" / ", 1)[-1]) or stated(table)
    return innermost is not None and len(table.header) > 2 and holds_figures(table)


def _crossed(table: Table, quantity: Quantity, base: Facts, client: str) -> Iterator[Pair]:
    """Two choices crossed, neither of them a load: each cell is a setup by both names."""
    for line, row in table.rows:
        for setup, raw in zip(table.header[1:], row[1:], strict=False):
            if not is_derived(setup):
                test = f"{cells.plain(table.header[0])} {cells.plain(row[0])} / {cells.plain(setup)}"
                told = read_row({"test": test, label_of(quantity): raw}, None, base)
                yield told.facts, _point(told, client, line)


def _corner(label: str) -> tuple[str, str]:
    """What the rows and the columns of a cross table are."""
    parts = [one.strip() for one in re.split(r"\s*[\\×/↓→]+\s*", label) if one.strip()]
    both = len(parts) == 2 and all((place(one) or ("",))[0] == "workload" for one in parts)
    return (parts[0], parts[1]) if both else (label, "test")


def _load_cell(raw: str, key: str) -> str:
    if key == "input_output_len":
        return cells.plain(raw)
    found = re.match(r"\s*([\d,.]+\s*k?)\s*(?:users?|req\w*|tokens?|clients?)?\b", cells.plain(raw))
    return found[1] if found else cells.plain(raw)


_VALUE = re.compile(
    r"[~≈]?\d[\d.,]*(?: ?± ?[\d.,]+)?(?: ?(?:%|[A-Za-zµ][A-Za-zµ/ ]{0,20}))?(?: ?\([^()]{1,60}\))?"
)


def listed_results(table: Table) -> Table | None:
    """The fields below a heading that are loads and figures, where these are results of one run."""
    told = [(line, [cells.plain(one) for one in row]) for line, row in table.rows]
    kept = [(line, row) for line, row in told if _VALUE.fullmatch(row[1]) and _is_of_run(row[0])]
    labels = [row[0] for _, row in kept]
    if len(set(labels)) < len(labels) or _AIMS.search(table.heading.rsplit(" / ", 1)[-1]):
        return None
    return replace(table, rows=kept) if _results(labels, FIGURES) > 1 else None


def is_aim(heading: str) -> bool:
    """Whether a heading says that what follows was asked for or foreseen, not measured."""
    inner = heading.rsplit(" / ", 1)[-1]
    return bool(_AIMS.search(inner) or _FORESEEN.search(inner))


def _is_of_run(label: str) -> bool:
    return understand(label) is not None or (place(label) or ("",))[0] == "workload"


def field_pairs(table: Table) -> list[tuple[str, str]]:
    """(field, value) of a two-column table that describes the setup, or none."""
    if len(table.header) != 2 or words_of(table.header[0]) not in _FIELD_WORDS:
        return []
    header = [(table.header[0], table.header[1])] if not words_of(table.header[0]) else []
    return header + [(cells.plain(row[0]), row[1]) for _, row in table.rows if len(row) > 1]


def merged(pairs: list[Pair]) -> list[Pair]:
    """Points of one server at one load that several tables tell in parts, put together where they agree."""
    found: dict[str, Pair] = {}
    for facts, point in pairs:
        key = facts.key() + repr(sorted(point.workload.items(), key=str))
        before = found.get(key)
        if before is None or not point.workload or not _agree(before[1], point):
            found[key if before is None else f"{key} {len(found)}"] = (facts, point)
        else:
            metrics = {**point.metrics, **before[1].metrics}
            found[key] = (facts, replace(before[1], metrics=metrics))
    return list(found.values())


def _agree(one: Measurement, other: Measurement) -> bool:
    return all(other.metrics[name] == value for name, value in one.metrics.items() if name in other.metrics)
