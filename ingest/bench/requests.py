"""Rows that are single requests of a load test: telling them from results, and folding them into points.

Owns the statistics over requests. Must not know any file format, and must not decide what a label measures.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ingest.bench import cells, names
from ingest.bench.places import place
from ingest.bench.placing import Row
from ingest.bench.quantities import Quantity, labels, understand, words_of
from ingest.bench.units import Units

Record = Mapping[str, Any]
FOLDED = "folded requests"  # the member of a folded record that says of how many it was made
_ONES: dict[str, str] = {word: kind for kind, words in labels("requests").items() for word in words}
_LATENCIES = ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms")
_FEWEST = 3  # requests at one load; what is measured once is a result
_FEWEST_ROWS = 5
_MANY = 20
_LIST = re.compile(
    r"(?:per_|raw_|individual_|all_)?(?:requests?|responses|completions)(?:_results|_details|_metrics)?"
)
_TOKENS = ("tokens", "num tokens", "n tokens", "token count", "tokens generated", "generated tokens")
_NUMBERED = re.compile(r"\d$|^[0-9a-f]{8,}|^[0-9a-f-]{20,}$")  # names of single requests
_APART = (
    "backend",
    "prompt type",
    "type",
    "prompt name",
    "prompt set",
    "quant",
    "model size",
    "runtime",
    "provider",
)
_NO = ("0", "0.0", "no", "n", "false", "none")
_FAILURES = ("failed", "fail", "failure", "error", "timeout", "aborted", "cancelled", "rejected")
_REFUSED = re.compile(r"\b[45]\d\d\b")  # codes of HTTP
_BUSY = 0.05  # requests in flight: with fewer, the clock counts in another unit than it seems
_STATISTIC = re.compile(r"_(?:p\d+|min|max|std)$")
_STATED = re.compile(r"(?:_mean|_per_user)$")
_WHOLE_RUN = ("request_s", "completed", "failed", "accept", "goodput", "peak_", "total_tok_s", "input_tok_s")


def are_requests(rows: Sequence[Record], listed_as: str = "") -> bool:
    """Whether rows are single requests: each is marked as one, none states a statistic, loads repeat.

    ``listed_as`` is the name of the list that they stand in, which may say so.
    """
    named = _LIST.fullmatch(listed_as.lower()) is not None
    keys = _labels(rows)
    kinds = {_ONES.get(words_of(key)) for key in keys}
    marked = kinds >= {"id", "success"} and len(_groups(rows, _about(rows))) == 1
    if len(rows) < (1 if named or marked else _FEWEST_ROWS):
        return False
    told = [one for key in keys if (one := _measured(key))]
    means = any(one.name.startswith(("ttft", "e2e")) and not one.loose for one in told)
    timed = any(one.name.startswith(_LATENCIES) for one in told)
    streamed = any(one.name.startswith("ttft") for one in told)
    alone = len(rows) >= _MANY and not any(place(key) for key in keys)  # nothing tells a load or a test
    marks = {"id", "start", "end", "text"} | ({"success", "error"} if streamed or alone else set())
    if not timed or means or not (named or kinds & marks or _is_timing(rows, told)):
        return False
    if named:
        return not any(_STATISTIC.search(one.name) for one in told)
    of_one = (one for one in told if one.name != "total_tokens")  # both kinds, as APIs count a request
    if any(not _STATED.search(one.name) and not one.name.endswith("tok_s") for one in of_one):
        return False
    if any(one.name.startswith(_WHOLE_RUN) for one in told) or sum(one.name == "tok_s" for one in told) > 1:
        return False
    return marked or len(rows) >= _FEWEST * len(_groups(rows, _about(rows)))


def _is_timing(rows: Sequence[Record], told: Sequence[Quantity]) -> bool:
    """Whether rows time one answer each (first token, whole, tokens), and nothing else tells them apart."""
    kinds = {one.name.partition("_ms")[0] for one in told}
    counted = any(
        words_of(key) in _TOKENS or place(key) == ("workload", "output_len") for key in _labels(rows)
    )
    return {"ttft", "e2e"} <= kinds and counted and len(_groups(rows, _about(rows))) == 1


def kinds_of(keys: Iterable[str]) -> set[str]:
    """What labels tell of single requests: ``id``, ``success``, ``start`` …"""
    return {kind for key in keys if (kind := _ONES.get(words_of(key)))}


def fold(rows: Sequence[Record], units: Units) -> list[dict[str, Any]]:
    """One record for each load (and server) of the requests, under labels of the common grammar."""
    rows = _alike(rows)
    about = _about(rows)
    return [_folded(group, units, about) for group in _groups(rows, about)]


def _alike(rows: Sequence[Record]) -> list[Record]:
    """The rows that share a label with most of them: a summary that ends their list is no request."""
    times = Counter(key for row in rows for key in row)
    usual = {key for key in _labels(rows) if 2 * times[key] >= len(rows)}
    return [row for row in rows if usual & row.keys()]


def distribution(values: Iterable[float | None]) -> dict[str, float]:
    """Mean and percentiles (linear between neighbours) under ``mean``, ``p50``, ``p90``, ``p95``, ``p99``."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return {}
    return {"mean": sum(known) / len(known)} | {f"p{q}": _percentile(known, q) for q in (50, 90, 95, 99)}


def _percentile(known: Sequence[float], q: int) -> float:
    at = (len(known) - 1) * q / 100
    low = int(at)
    high = min(low + 1, len(known) - 1)
    return known[low] + (known[high] - known[low]) * (at - low)


def _labels(rows: Iterable[Record]) -> list[str]:
    return list(dict.fromkeys(key for row in rows for key in row if isinstance(key, str)))


def _measured(label: str) -> Quantity | None:
    """What a label measures of a request: its duration is its end-to-end latency."""
    kind = _ONES.get(words_of(label))
    told = understand(label)
    if kind == "whole" or (told is not None and told.name == "duration_s"):
        return understand(f"latency {label}")
    return None if kind is not None or place(label) is not None else told


def _about(rows: Sequence[Record]) -> list[str]:
    """Labels of what names a load or a server: words that repeat, not the numbers of single requests."""
    return [key for key in _labels(rows) if _names_group(key, rows)]


def _groups(rows: Sequence[Record], about: Sequence[str]) -> list[list[Record]]:
    groups: dict[str, list[Record]] = {}
    for row in rows:
        groups.setdefault(repr([row.get(key) for key in about]), []).append(row)
    return list(groups.values())


def _names_group(key: str, rows: Sequence[Record]) -> bool:
    where = place(key)
    kind = _ONES.get(words_of(key))
    if kind is not None and kind != "id":
        return False
    if where is None or where[1] in ("input_len", "output_len", "prompts"):
        return kind is None and where is None and (words_of(key) in _APART or names.is_option(key))
    if where[1] not in ("test", "dataset"):
        return kind is None
    values = {str(row[key]) for row in rows if row.get(key) is not None}
    repeated = kind is None and len(values) * _FEWEST <= len(rows)
    return repeated or not all(_NUMBERED.search(value) for value in values)


def _folded(group: Sequence[Record], units: Units, about: Sequence[str]) -> dict[str, Any]:
    good = [row for row in group if not _failed(row)]
    record: dict[str, Any] = {key: group[0][key] for key in about if key in group[0]}
    lengths = {way: [_length(row, way) for row in good] for way in ("input_len", "output_len")}
    record |= {"completed": len(good), "failed": len(group) - len(good)}
    for name, values in _times(good, units, lengths["output_len"]).items():
        record |= {f"{stat} {name} ms": value for stat, value in distribution(values).items()}
    for way, label in (("input_len", "input"), ("output_len", "output")):
        known = [value for value in lengths[way] if value is not None]
        if known and len(known) == len(good):
            record |= {f"{label} len": round(sum(known) / len(known)), f"total {label} tokens": sum(known)}
    speeds = [value for row in good if (value := _speed(row)) is not None]
    record |= {"output tok/s per user": sum(speeds) / len(speeds)} if speeds else {}
    return record | _rates(good, units, record) | {FOLDED: f"computed over {len(group)} requests"}


def label_computed(row: Row) -> None:
    """Says of a folded record's figures that they were computed, and over how many requests."""
    made = row.rest.pop(FOLDED, None)
    if made is not None:
        row.source_names = dict.fromkeys(row.metrics, str(made))


def _times(good: Sequence[Record], units: Units, made: Sequence[float | None]) -> dict[str, list[Any]]:
    """Latencies in ms of each request, by measure; TPOT from the others where none is stated."""
    found: dict[str, list[Any]] = {}
    for label in _labels(good):
        told = _measured(label)
        if (
            told is not None
            and told.name.startswith(_LATENCIES)
            and told.name.removesuffix("_mean") not in found
        ):
            found[told.name.removesuffix("_mean")] = [_in_ms(row, label, told, units) for row in good]
    first, whole = found.get("ttft_ms"), found.get("e2e_ms")
    if first and whole and "tpot_ms" not in found:
        found["tpot_ms"] = [_per_token(*one) for one in zip(first, whole, made, strict=True)]
    return {name.removesuffix("_ms"): values for name, values in found.items()}


def _per_token(first: float | None, whole: float | None, made: float | None) -> float | None:
    """Time per output token after the first, where answers are long enough to tell."""
    if first is None or whole is None or made is None or made < 2 or whole < first:
        return None
    return (whole - first) / (made - 1)


def _in_ms(row: Record, label: str, told: Quantity, units: Units) -> float | None:
    cell = cells.read_cell(row.get(label))
    return None if cell is None else cell.value * units.factor(label, told, cell)


def _length(row: Record, way: str) -> float | None:
    labelled = (key for key in row if isinstance(key, str) and place(key) == ("workload", way))
    asked = (key for key in labelled if not re.search(r"\b(?:max|target)\b", words_of(key)))
    return next((value for key in asked if (value := cells.number(row[key])) is not None), None)


def _speed(row: Record) -> float | None:
    """Tokens per second of one request, where it states them."""
    for key, raw in row.items():
        told = understand(key) if isinstance(key, str) else None
        if told is not None and told.name in (
            "tok_s",
            "output_tok_s",
            "output_tok_s_per_user",
            "tok_s_per_user",
        ):
            return cells.number(raw)
    return None


def _failed(row: Record) -> bool:
    """Whether a request says that it failed, or took no time at all."""
    took = [cells.number(raw) for key, raw in row.items() if isinstance(key, str) and _measured(key)]
    if took and not any(took):
        return True
    for key, raw in row.items():
        kind = _ONES.get(words_of(str(key)))
        said = str(raw).strip().lower()
        if kind == "success" and raw is not None and said in (*_NO, *_FAILURES):
            return True
        if kind == "error" and not cells.is_nothing(raw) and said not in _NO:
            return True
        if kind in ("success", "code") and _REFUSED.search(said):
            return True
    return False


def _rates(good: Sequence[Record], units: Units, record: Record) -> dict[str, Any]:
    """Rates over the whole run, where the requests say when they started and how long they took."""
    spans = [span for row in good if (span := _span(row, units)) is not None]
    if not spans or len(spans) < len(good):
        return {}
    seconds = (max(span.end for span in spans) - min(span.start for span in spans)) * _clock(spans)
    if seconds <= 0 or sum(span.took or math.inf for span in spans) / 1e3 < seconds * _BUSY:
        return {}
    made = record.get("total output tokens")
    return {"duration_s": seconds, "request throughput (req/s)": len(good) / seconds} | (
        {"output token throughput (tok/s)": made / seconds} if made else {}
    )


def _clock(spans: Sequence[_Span]) -> float:
    """Seconds in a unit of the clock, by the latencies stated beside its times; 0 where they disagree."""
    told = sorted((span.end - span.start) * 1e3 / span.took for span in spans if span.took)
    middle = told[len(told) // 2] if told else 1.0
    return next((scale for scale in (1.0, 1e-3, 1e-6, 1e-9) if 0.5 < middle * scale < 2), 0.0)


@dataclass(frozen=True, slots=True)
class _Span:
    """Start and end of a request by a clock whose unit is seconds if nothing tells, its latency in ms."""

    start: float
    end: float
    took: float | None


def _span(row: Record, units: Units) -> _Span | None:
    at: dict[str, float] = {}
    for key, raw in row.items():
        kind = _ONES.get(words_of(str(key)))
        if kind in ("start", "end") and (moment := _moment(raw)) is not None:
            at.setdefault(kind, moment)
    if "start" not in at:
        return None
    took = next((one for one in _times([row], units, [None]).get("e2e", [])), None)
    if "end" not in at:
        if took is None:
            return None
        at["end"] = at["start"] + took / 1e3
    return _Span(at["start"], at["end"], took)


def _moment(raw: Any) -> float | None:
    """Seconds of a clock: a number (seconds, or milliseconds to nanoseconds since 1970) or ISO 8601."""
    if isinstance(raw, str) and not re.fullmatch(r"[\d.]+", raw.strip()):
        try:
            return datetime.fromisoformat(raw.strip()).timestamp()
        except ValueError:
            return None
    value = cells.number(raw)
    if value is None:
        return None
    return next(
        (value / scale for least, scale in ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3)) if value > least), value
    )
