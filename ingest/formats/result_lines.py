"""Logs of people's own runners: result lines made of key=value pairs, and progress of a test series.

Owns lines such as ``scenario c=4 ttft=0.5s decode=18 tok/s`` and START/END marks. Must not read server logs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from ingest.bench import file_names, front, jsontext, stanzas
from ingest.bench.identity import Facts, benchmark, grouped
from ingest.bench.places import place
from ingest.bench.quantities import RESULTS, understand
from ingest.bench.rows import read_row
from ingest.bench.sniffing import below_pages, needing
from ingest.bench.units import Units
from ingest.formats import Format, Unreadable
from ingest.pyrepr import parse_mapping
from ingest.sources import Source
from ingest.tally import Cards
from ingest.traces import telemetry_of
from kb.model import Experiment, LineCount, Reading

_UNIT = (
    r"(?:ms|s|sec|secs|seconds|us|%"
    r"|(?:tok|toks|token|tokens|t|req|reqs|requests)(?:/| per )(?:s|sec|second)|tps|rps|qps|TPS|RPS|QPS)"
)
_VALUE = r"[~≈]?\d[\d,]*(?:\.\d+)?"
_PAIR = re.compile(
    r"(?:(?P<word>[A-Za-z][\w./%-]{0,40})\s?=|(?P<key>[A-Za-z][\w /%-]{0,30}?)\s*:)\s*"
    rf"(?P<value>{_VALUE})\s*(?P<unit>{_UNIT})?(?=[\s,;:|)\]]|\.(?:\s|$)|$)"
)
_BARE = re.compile(
    r"(?:(?P<key>\b(?:(?:mean|avg|median|p\d\d)[ _])?(?:TTFT|TPOT|ITL|E2E|ttft|tpot|itl|e2e|latency)"
    r"(?:[ _](?:mean|avg|median|p\d\d))?\b)[ ]{1,3})?"
    rf"(?<![\w.])(?P<value>{_VALUE})\s?"
    r"(?:(?P<way>decode|prefill|PP|TG|output|input|gen|generation|prompt|total) )?"
    rf"(?P<unit>{_UNIT})(?![\w/])"
    r"(?:\s\(?(?P<kind>[Pp]refill|[Pp]rompt|[Ii]nput|[Dd]ecode|[Gg]en(?:eration)?|[Oo]utput|[Tt]otal)\b)?"
)
_LENGTH = re.compile(
    r"(?<![\w.])(?P<n>\d[\d,]*) (?P<way>prompt|input|output|completion) tok(?:en)?s?(?![\w/]| per )"
)
_HINT = re.compile(r"(?i)ttft|tok|tps|latency|throughput|itl|tpot|e2e|t/s|req/s")
_LEVEL = re.compile(
    r"\b(?:INFO|WARNING|ERROR|DEBUG)\b|(?:Decode|Prefill) batch|Avg prompt throughput|\[TP\d"
    r"|^\s*(?:Prefill|Decode|Total)\.\s+(?:median )?latency:"  # phases of one static batch, not requests
)
_STEP = re.compile(r"(?P<mark>START|BEGIN|END|DONE|FAIL(?:ED)?)\s+(?P<name>[\w.-]+)(?:\s*\((?P<s>\d+)s\))?")
_EXIT = re.compile(r"\bexit=(?P<code>-?\d+)(?:.*?wall_s=(?P<s>\d+(?:\.\d+)?))?")
_MOST_LINES = 200_000
_SAMPLE = re.compile(
    r"GPU (?P<util>\d+)%, (?P<power>\d+(?:\.\d+)?) ?W, (?P<temp>\d+) ?C, (?P<clock>\d+) ?MHz"
)
_GPU_METRICS = (
    ("util", "utilization_pct"),
    ("power", "power_w"),
    ("temp", "temperature_c"),
    ("clock", "sm_clock_mhz"),
)


def _record(text: str) -> dict[str, Any] | None:
    """The pairs of a result line under labels with their units, or ``None`` where it holds no result."""
    if len(text) > 400 or not _HINT.search(text) or _LEVEL.search(text):
        return None
    found = list(_PAIR.finditer(text))
    if len(found) < 2:
        return None
    record = {_label(pair): pair["value"] for pair in found}
    if not _has_result(record):
        return None
    return record | _named(text[: found[0].start()])


def _loose_record(text: str) -> dict[str, Any] | None:
    """What a line tells that need not hold two pairs: ``C= 8: 248 tok/s``, ``TTFT 35 ms, 248 tok/s``."""
    if len(text) > 400 or not _HINT.search(text) or _LEVEL.search(text):
        return None
    pairs = list(_PAIR.finditer(text))
    record = {_label(pair): pair["value"] for pair in pairs}
    taken = [pair.span("value") for pair in pairs]
    bare = [
        one
        for one in _BARE.finditer(text)
        if not any(start < one.end("value") and one.start("value") < end for start, end in taken)
        and (one["key"] or "/" in one["unit"] or " per " in one["unit"] or one["unit"][1:].lower() == "ps")
    ]
    for one in bare:
        way = one["way"] or one["kind"] or ""
        label = f"{one['key']} ({one['unit']})" if one["key"] else f"{way} {one['unit']}".strip()
        record.setdefault(label, one["value"])
    if not _has_result(record):
        return None
    record |= _answered(text)
    record |= {f"{one['way']} tokens": one["n"] for one in _LENGTH.finditer(text)}
    first = min(one.start() for one in (*pairs, *bare))
    return record | _named(text[:first])


_ANSWERED = re.compile(
    r"(?<![\w.=])(?P<s>\d+(?:\.\d+)?) ?s\b\W+(?P<n>\d+) tokens\W+"
    r"(?P<rate>\d+(?:\.\d+)?) ?(?:tok/s|t/s|tokens/s)"
)
_NEAR = 0.03


def _answered(text: str) -> dict[str, Any]:
    """Time and length of one answer before its rate, which they make: ``2.23s, 64 tokens, 28.7 tok/s``."""
    found = _ANSWERED.search(text)
    if found is None or not float(found["s"]) or not float(found["rate"]):
        return {}
    if abs(int(found["n"]) / float(found["s"]) / float(found["rate"]) - 1) > _NEAR:
        return {}
    return {"latency (s)": found["s"], "output tokens": found["n"]}


_LOADS = ("concurrency", "input_len", "output_len", "batch_size", "request_rate")


_CROWD = re.compile(  # a title that says how many there are: "=== 4 concurrent streams, 2 runs each ==="
    r"^[\s=#*_>-]*(?P<n>\d{1,5})[ -](?:concurrent |parallel |simultaneous )?"
    r"(?:streams?|users?|requests|clients?)\b"
)


def _load(text: str) -> dict[str, Any]:
    """The load that a line announces without a result: ``Config 3: ISL=128, OSL=512``, ``concurrency: 8``."""
    if len(text) > 300 or _LEVEL.search(text) or ("=" not in text and ":" not in text and "#" not in text):
        return {}
    if crowd := _CROWD.match(text):
        return {"concurrency": crowd["n"]}
    pairs = {_label(pair): pair["value"] for pair in _PAIR.finditer(text)}
    told = {key: value for key, value in pairs.items() if (place(key) or ("",))[0] == "workload"}
    return told if any((place(key) or ("", ""))[1] in _LOADS for key in told) else {}


_FEWEST = 3  # measures: an object with fewer is of something else


def _mapping(text: str) -> dict[str, Any]:
    """The figures of an object printed at the end of a line: ``metrics: {'p50Latency': 1200.1, …}``."""
    start = text.find("{")
    if start < 0 or not text.rstrip().endswith("}") or text[start + 1 : start + 2] not in ("'", '"'):
        return {}
    found = {
        key: one for key, one in parse_mapping(text[start:]).items() if isinstance(one, int | float | str)
    }
    told = sum(understand(key) is not None and not isinstance(one, str) for key, one in found.items())
    return found if told >= _FEWEST and _has_result(found) else {}


def _has_result(record: Mapping[str, Any]) -> bool:
    told = [understand(label) for label in record]
    return any(one and one.name.startswith(RESULTS) for one in told)


_SCORE = re.compile(
    r"(?i)\b(?P<key>accuracy|exact[_ ]match|pass@1)\s*[:=]\s*(?P<value>\d{1,3}(?:\.\d+)?)\s*(?P<unit>%)?"
)


def _score(text: str) -> dict[str, Any]:
    """A line that states a share of right answers: ``Accuracy: 0.6667``, behind whatever a logger prints."""
    found = _SCORE.search(text) if len(text) < 300 else None
    share = found is not None and (found["unit"] or float(found["value"]) <= 1)
    return {f"accuracy ({found['unit'] or ''})": found["value"]} if found and share else {}


def _named(before: str) -> dict[str, Any]:
    name = re.sub(
        r"^[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]+ (?:\w+ )?\d{4}\b|^\[?[\d-]+[T ][\d:.,]+Z?\]?", "", before
    )
    name = name.strip(" :-|[]>=#*")
    return {"scenario": name} if name and re.search(r"[A-Za-z]", name) else {}


def _label(pair: re.Match[str]) -> str:
    key = (pair["word"] or pair["key"]).strip()
    return f"{key} ({pair['unit']})" if pair["unit"] else key


@below_pages
@needing("ttft", "TTFT", "tok", "Tok", "tps", "atency", "hroughput", "itl", "tpot", "ccuracy")
def _sniff(source: Source) -> float:
    lines = source.head.split("\n")[:300]
    if jsontext.looks_like_json(source.head):
        return 0.0
    if sum(_LEVEL.search(line) is not None for line in lines[:60]) > 12:
        return 0.0  # a log of a server or client, whatever single lines look like
    results = sum(_record(line) is not None for line in lines)
    logged = sum(_LEVEL.search(line) is not None for line in lines)
    written = sum(bool(line.strip()) for line in lines)
    if results >= 3 and logged <= results:
        clear = results >= 5 and logged * 4 <= results and results * 5 >= written
        return 0.96 if clear else 0.5  # a server's last lines may be quoted among them
    if re.search(r"(?i)accuracy", source.head) and sum(bool(_score(line)) for line in lines) >= 1 > logged:
        return 0.4
    if (
        any(map(_mapping, lines))
        or logged <= sum(len(one.lines) for one in stanzas.stanzas(enumerate(lines, 1))) > 0
    ):
        return 0.44
    loose = sum(_loose_record(line) is not None for line in lines)
    return 0.42 if loose >= 2 and logged <= loose and loose * 12 >= written else 0.0


def _read(source: Source) -> Reading:
    records: list[tuple[int, dict[str, Any]]] = []
    load: dict[str, Any] = {}
    lines = list(islice(source.lines(), _MOST_LINES))
    runs = {one.lines[0]: one for one in stanzas.stanzas(lines)}
    taken = {number for one in runs.values() for number in one.lines}
    total = lines[-1][0] if lines else 0
    for number, text in lines:
        if number in taken:
            records += [(number, _run(runs[number]))] if number in runs else []
            continue
        record = (
            _mapping(text)
            or _record(text)
            or _loose_record(text)
            or _score(text)
            or (load and stanzas.of_each(text))
            or None
        )
        if record is not None:
            _take(records, number, record, load)
        elif announced := _load(text):
            load = announced
    if not records:
        raise Unreadable("no line with results")
    units = Units.of(record for _, record in records)
    told = file_names.hints(source.name)
    head = (text for _, text in zip(range(200), source.head.split("\n"), strict=False))
    facts = front.facts_of(front.pairs_in(line.lstrip("# ") for line in head), told.facts)
    facts.model = facts.model or _loaded(source.head)
    facts.load |= front.load_of(front.pairs_in(source.head.split("\n")[:200])) if runs else {}
    models = _announced(lines)
    rows = [(number, read_row(record, units, _of_model(facts, models, number))) for number, record in records]
    used = len(taken) + sum(number not in taken for number, _ in rows)
    return benchmark(
        source,
        "result_lines",
        grouped([(row.facts, row.measurement("runner", number)) for number, row in rows if row.metrics]),
        lines=LineCount(total=total, understood=used, unknown=total - used),
        extra=({"units": units.notes} if units.notes else {}) | told.as_extra(),
    )


_ANNOUNCED = re.compile(r"^[\W_]*[Mm]odel(?: name| id)?\s*[:=]\s*(?P<name>[\w./:-]{3,100})\W*$")


def _announced(lines: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """Where a log that tests several models names each of them; empty where it names one."""
    told = [(number, found["name"]) for number, text in lines if (found := _ANNOUNCED.match(text))]
    return told if len({name for _, name in told}) > 1 else []


def _of_model(facts: Facts, models: Iterable[tuple[int, str]], line: int) -> Facts:
    """What is known of the server at a line: its model is the last one that was named before."""
    named = [name for number, name in models if number < line]
    return replace(facts, model=named[-1], quantization=None) if named else facts


_MODEL = re.compile(
    r"(?:^|\s)--?(?:model|model[-_]path)[ =]([\w./:-]+)|(?:^|\s)model=([\w./:-]{3,})"
    r"|(?:^|\s)ollama run ([a-z][\w./:-]+)",
    re.MULTILINE,
)


def _loaded(head: str) -> str | None:
    """The one model that commands and lines of a log's start name."""
    told = {(one[1] or one[2] or one[3]).strip("'\"") for one in _MODEL.finditer(head)}
    name = told.pop() if len(told) == 1 else None
    return (
        (name.rstrip("/").rpartition("/")[2] if name.startswith(("/", "~", ".")) else name) if name else None
    )


def _run(one: stanzas.Stanza) -> dict[str, Any]:
    answered = any(key.startswith("eval rate") for key in one.record)  # ollama prints it below an answer
    return one.record | ({"scenario": one.title} if one.title and not answered else {})


@below_pages
@needing("START", "BEGIN", "exit=")
def _sniff_progress(source: Source) -> float:
    head = source.head
    if jsontext.looks_like_json(head):
        return 0.0
    steps = [] if _LEVEL.search(head) else [*_STEP.finditer(head)]
    begun = {one["name"] for one in steps if one["mark"] in ("START", "BEGIN")}
    ended = {one["name"] for one in steps if one["mark"] not in ("START", "BEGIN")}
    series = begun and ended and (len(begun & ended) > 1 or any(one["s"] for one in steps))
    return 0.45 if series or len(_EXIT.findall(head)) >= 2 else 0.0


def _read_progress(source: Source) -> Reading:
    steps: list[dict[str, Any]] = []
    cards = Cards(source.samples)
    total = used = 0
    for number, text in source.lines():
        total = number
        step, left, sample = _STEP.search(text), _EXIT.search(text), _SAMPLE.search(text)
        used += bool(step or left or sample)
        if sample:
            cards.add("", {name: float(sample[key]) for key, name in _GPU_METRICS})
        elif step and step["mark"] not in ("START", "BEGIN"):
            done: dict[str, Any] = {"step": step["name"], "seconds": _seconds(step["s"]), "line": number}
            steps.append(done | ({"failed": True} if step["mark"].startswith("FAIL") else {}))
        elif left:
            steps.append({"exit_code": int(left["code"]), "seconds": _seconds(left["s"]), "line": number})
    return Reading(
        path=str(source.path),
        format="runner_log",
        kind="note",
        experiments=(Experiment(),) if cards.rows else (),
        telemetry=telemetry_of(cards.by_key.values()) if cards.rows else None,
        lines=LineCount(total=total, understood=used, unknown=total - used),
        extra={"steps": steps[:500]},
    )


def _take(
    records: list[tuple[int, dict[str, Any]]], number: int, record: dict[str, Any], load: Mapping[str, Any]
) -> None:
    """Keep a record with the load announced before it; lines of one figure each under it are one record."""
    placed = {place(label) for label in record}
    own = any(one is not None and one[0] == "workload" and one[1] != "test" for one in placed)
    if own or not load:
        records.append((number, record))
        return
    whole = dict(load) | record
    before = records[-1][1] if records else {}
    joins = all(before.get(key) == value for key, value in load.items()) and not record.keys() & before.keys()
    if joins and before and "scenario" not in record:
        before.update(record)
    else:
        records.append((number, whole))


def _seconds(text: str | None) -> float | None:
    return float(text) if text else None


FORMATS = [
    Format(
        name="result_lines",
        kind="benchmark",
        sniff=_sniff,
        read=_read,
        version=4,
        docs=(
            "Logs in which single lines are results: `name c=4 ttft=0.55s decode=18.3 tok/s`. Keys and "
            "units are read by the same grammar as columns; what stands before the first pair names the "
            "test. A load that a line before announces (`ISL=128, OSL=512`) holds for the results after "
            "it. Lines of one figure each that stand together (`Mean TTFT: 35 ms`) are one result. A rate "
            "whose key does not say which tokens it counts keeps its own name beside it."
        ),
    ),
    Format(
        name="runner_log",
        kind="note",
        sniff=_sniff_progress,
        read=_read_progress,
        version=3,
        docs=(
            "The progress log of a series of tests: steps with their seconds or exit codes, and GPU "
            "samples (utilisation, power, temperature, clock) where it prints them."
        ),
    ),
]
