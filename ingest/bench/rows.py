"""A row of named cells to a measurement: which cell names the server, which the load, which a result.

Owns the reading of people's own tables, whether they stand in CSV, Markdown or JSON, and of tools whose
labels follow the common grammar. Must not know any file format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ingest.bench import cells, loads, names
from ingest.bench.consistency import settle_times
from ingest.bench.directions import of_one_request, settle_direction
from ingest.bench.file_names import fill_by_test
from ingest.bench.identity import Facts
from ingest.bench.places import ENGINE_VERSION, VAGUE_ENGINE, place
from ingest.bench.placing import Row, copied, fits, is_engine, put, put_version
from ingest.bench.quantities import Quantity, is_plain, understand, words_of
from ingest.bench.relabel import relabelled
from ingest.bench.units import Units

_PLAIN_RATE = re.compile(r"qps|rps")


def read_row(record: Mapping[str, Any], units: Units | None = None, base: Facts | None = None) -> Row:
    """A record's cells, each put in its place. ``units`` decides labels that state no unit."""
    row, record = Row(facts=copied(base)), relabelled(record)
    stated = {label for label in record if understand(label) and not _plain_rate(label)}
    stated = set() if _is_closed_loop(record, stated) else stated
    for label, raw in sorted(record.items(), key=lambda cell: not _names_server(cell[0])):
        if isinstance(raw, dict | list) or not isinstance(label, str):
            continue
        _place_cell(row, label, raw, units or Units(), bool(stated - {label}))
    _take_bare_percentiles(row)
    _take_labelled_load(row, record)
    settle_direction(row)
    settle_times(row)
    _settle_score(row)
    _take_load_around(row)
    row.facts = fill_by_test(row.facts, row.workload.get("test"))
    _take_model_file(row, record)
    return row


_WIDTHS = ("concurrency", "batch_size", "prompts", "request_rate")


def _take_load_around(row: Row) -> None:
    """Lengths that the test's name tells, and the load that the surroundings tell, where the row does not."""
    lengths = loads.lengths_of_test(str(row.workload.get("test") or ""))
    if not any(name in row.workload for name in loads.LENGTHS):
        row.workload |= lengths
    own = any(name in row.workload for name in _WIDTHS)
    around = {name: one for name, one in row.facts.load.items() if not (own and name in _WIDTHS)}
    row.workload = around | row.workload


def _take_model_file(row: Row, record: Mapping[str, Any]) -> None:
    """A model under no label of one: by its file ("arquivo": "….gguf"), or a name with size and type."""
    files = {str(raw) for raw in row.rest.values() if str(raw).lower().endswith((".gguf", ".safetensors"))}
    if row.facts.model is None and len(files) == 1:
        row.facts.model = re.split(r"[/\\]", files.pop())[-1].rpartition(".")[0]
    name = str(record.get("name") or "")
    if row.facts.model is None and _SIZED.search(name) and names.quantization(name):
        row.facts.model, row.facts.quantization = name, row.facts.quantization or names.quantization(name)


_SIZED = re.compile(r"(?i)(?<![\w.])[\w.-]*?\d+(?:\.\d+)?B(?![a-z0-9])")


def _names_server(label: Any) -> bool:
    """Whether a label names whose settings the others may tell."""
    return isinstance(label, str) and (place(label) or ("",))[0] == "identity"


_BARE = re.compile(
    r"(?:summ(?:ary)? )?(?P<stat>p\d+|mean|avg|average|median)(?: (?P<unit>ms|s|sec|seconds))?"
)
_SHARE = re.compile(r"(?:error|success|failure|fail) rate")


def _take_bare_percentiles(row: Row) -> None:
    """Percentiles of nothing ("p50_s", "p99_s") beside other results are those of whole requests."""
    bare = {label: told for label in row.rest if (told := _BARE.fullmatch(words_of(label)))}
    beside = bool(row.metrics) or any(_SHARE.fullmatch(words_of(label)) for label in row.rest)
    if (
        len(bare) < (1 if "request_s" in row.metrics else 2)
        or not beside
        or any(name.startswith("e2e") for name in row.metrics)
    ):
        return
    for label, told in bare.items():
        cell = cells.read_cell(row.rest[label])
        unit = told["unit"] or (cell.rest if cell is not None else "")
        quantity = understand(f"{told['stat']} latency ({unit})")
        if quantity is not None and cell is not None and quantity.unit_stated:
            row.metrics[quantity.name] = cell.value * quantity.factor
            row.source_names[quantity.name] = label
            row.rest.pop(label)


_LABELLED_LOAD = re.compile(
    r"[(@]\s*(?:c|conc(?:urrency)?)\s?[= ]?\s?(?P<n>\d{1,5})\s*(?:\)|$)", re.IGNORECASE
)


def _take_labelled_load(row: Row, record: Mapping[str, Any]) -> None:
    """The load that a result's label names, where one alone is named: "Output tok/s (c32)"."""
    named = {int(found["n"]) for label in record if (found := _LABELLED_LOAD.search(str(label)))}
    if len(named) == 1:
        row.workload.setdefault("concurrency", named.pop())


def _is_closed_loop(record: Mapping[str, Any], stated: Iterable[str]) -> bool:
    """Whether a bare "qps" is a result: clients wait for answers, and no other label tells that rate."""
    told = (understand(label) for label in stated)
    rates = any(one and one.name.startswith("request_s") for one in told)
    return not rates and any(place(label) == ("workload", "concurrency") for label in record)


def _place_cell(row: Row, label: str, raw: Any, units: Units, has_other_rates: bool) -> None:
    named = ENGINE_VERSION.fullmatch(words_of(label))
    if named:
        put_version(row.facts, named["engine"], str(raw))
        return
    if (part := _PART.match(cells.plain(str(raw)))) and words_of(label) in (
        *_SUCCESSES,
        *_FAILURES,
        *_TOTALS,
    ):
        kinds = ("failed", "completed") if words_of(label) in _FAILURES else ("completed", "failed")
        row.metrics |= dict(zip(kinds, (float(part[1]), float(part[2]) - float(part[1])), strict=True))
        return
    where = place(label)
    if words_of(label) == "format" and names.quantization(str(raw)) is None:
        where = None  # of a file
    if where == ("identity", "engine") and VAGUE_ENGINE.search(label) and not is_engine(raw):
        where = None  # a back end may as well be a protocol or a kernel
    if where is None and _plain_rate(label) and has_other_rates:
        where = ("workload", "request_rate")
    if where is not None and not cells.is_nothing(raw) and fits(where[1], raw):
        put(row, *where, raw)
        return
    quantity = understand(label)
    cell = cells.read_cell(raw) if quantity else None
    if has_other_rates and words_of(label) == "toks" and cell is not None:
        row.metrics.setdefault("output_tokens", cell.value)
        return
    if (
        quantity is not None
        and cell is not None
        and (_is_tally(quantity, label, cell) or _is_share(quantity, cell))
    ):
        row.rest[label] = cell.value
        return
    if quantity is None or cell is None:
        if where is None and not cells.is_nothing(raw):
            row.rest[label] = raw
        return
    _add_metric(row, label, quantity, cell, units)


_PART = re.compile(r"(\d{1,7}) ?/ ?(\d{1,7})(?= *\(|$)")  # of how many requests
_FAILURES = ("failed", "failures", "errors", "failed requests")
_TOTALS = ("total requests", "requests")
_SUCCESSES = (
    "success",
    "successes",
    "successful",
    "completed",
    "ok",
    "succeeded",
    "successful requests",
    "ok scheduled",
)
_TALLIES = ("correct", "pass", "passed", "num correct", "num passed", "n correct")
_ASKED = ("total", "n", "count", "questions", "num questions", "num samples", "samples", "num total", "of")


def _is_tally(quantity: Quantity, label: str, cell: cells.Cell) -> bool:
    """Whether a score's label counts right answers ("correct": 52) instead of stating their share."""
    words = words_of(label)
    return quantity.name == "accuracy" and words in _TALLIES and (cell.value > 1 or words.startswith("n"))


def _is_share(quantity: Quantity, cell: cells.Cell) -> bool:
    """Whether a count of requests is told as a share of them."""
    return quantity.name in ("completed", "failed") and cell.rest.startswith("%")


_HUNDRED = 100
_GRADED = re.compile(  # tests whose score is the share of right answers
    r"(?i)\b(?:gpqa|mmlu|gsm8k|math[ -]?500|aime|humaneval|mbpp|arc|hellaswag|livecodebench|lcb|ifeval|bbh)"
)


def _named_test(row: Row) -> str:
    return f"{row.workload.get('test') or ''} {row.workload.get('dataset') or ''}".replace("_", " ")


def _settle_score(row: Row) -> None:
    """Right answers of how many: the share, where the row states none."""
    if "accuracy" in row.metrics:
        return
    points = cells.number(row.rest.get("score"))
    if points is not None and 0 < points <= _HUNDRED and _GRADED.search(_named_test(row)):
        row.metrics["accuracy"], row.source_names["accuracy"] = points / _HUNDRED, "score, of 100"
        return
    counted = {words_of(label): cells.number(raw) for label, raw in row.rest.items()}
    right = next((counted[name] for name in _TALLIES if counted.get(name) is not None), None)
    asked = next((counted[name] for name in _ASKED if counted.get(name)), row.workload.get("prompts"))
    if right is not None and isinstance(asked, int | float) and asked >= right > 0:
        row.metrics["accuracy"] = right / asked
        row.source_names["accuracy"] = "right answers / questions"


def _plain_rate(label: str) -> bool:
    return bool(_PLAIN_RATE.fullmatch(words_of(label)))


_BARE_RATE = ("throughput", "tput", "mean throughput", "avg throughput", "average throughput")
_ACCEPTED = re.compile(r"(?i)accept(?:ance)?$")
_LEAST_REQUEST = 0.1  # milliseconds
_MOST_SHARE = 1.5  # what is larger is no fraction, whatever was rounded


def _add_metric(row: Row, label: str, quantity: Quantity, cell: cells.Cell, units: Units) -> None:
    factor, name = units.factor(label, quantity, cell), quantity.name
    if cell.rest.startswith("%") and re.search(r"tok_s|request_s|_ms_", name):
        row.rest[label] = cell.value  # a share of another figure
        return
    if (
        name == "accuracy"
        and cell.value > _MOST_SHARE
        and "score" in words_of(label)
        and "%" not in label + cell.rest
    ):
        row.rest[label] = cell.value  # points of a scale that nobody names
        return
    if name == "accept_rate" and _ACCEPTED.search(label) and cell.value > 1 and "%" not in cell.rest:
        row.rest[label] = cell.value  # a rate or a length: nobody says
        return
    if (
        name in ("accept_rate", "accuracy", "cache_hit_rate")
        and factor == 1.0
        and (cell.rest.startswith("%") or _MOST_SHARE < cell.value <= 100)
    ):
        factor = 0.01  # a percentage without its sign
    if quantity.loose and name.startswith("e2e") and 0 < cell.value * factor < _LEAST_REQUEST:
        row.rest[label] = cell.value  # of a wire or a kernel
        return
    if name == "power_w" and cell.value > 10_000:
        factor, quantity = 1e-3, replace(quantity, loose=True)  # milliwatts, as NVML counts them
    _split_rates(row, name, label)
    if name in row.metrics and _is_vaguer(row.labels.get(name, label), label):
        row.rest[row.labels[name]] = row.metrics.pop(name)
    if name in row.metrics:
        if not quantity.loose:
            row.rest[label] = cell.value
        return
    row.metrics[name], row.labels[name] = cell.value * factor, label
    if cell.spread is not None:
        row.metrics[_spread_name(name)] = cell.spread * factor
    if quantity.loose or not quantity.unit_stated:
        row.source_names[name] = label


def _split_rates(row: Row, name: str, label: str) -> None:
    """A rate beside that of the whole is that of one request."""
    if name in ("tok_s", "output_tok_s") and of_one_request(row.labels.get(name, ""), label):
        one = row.metrics.pop(name, None)
        if one is not None:
            row.metrics[f"{name}_per_user"] = one
            row.labels[f"{name}_per_user"] = row.source_names[f"{name}_per_user"] = row.labels[name]


def _is_vaguer(before: str, label: str) -> bool:
    """Whether the label before says less: of a part, by a word that is no measure's, or of what it counts."""
    bare = words_of(before) in _BARE_RATE and words_of(label) not in _BARE_RATE
    bare = bare or (words_of(before) == "tps" and "tok" in words_of(label))  # transactions, then
    bare = bare or (words_of(before) == "request count" and "success" in words_of(label))
    return bare or (is_plain(label) and not is_plain(before))


def _spread_name(name: str) -> str:
    return re.sub(r"_(?:mean|p50)$", "", name) + "_std"
