"""What stands around a table says of it: the measure that a heading or a caption names, lengths, loads.

Owns reading headings and captions. Must not read the cells of a table for what they measure.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ingest.bench import cells, loads
from ingest.bench.places import place
from ingest.bench.quantities import RESULTS, Quantity, understand
from ingest.bench.spread_tables import is_derived, is_statistic
from ingest.bench.tables import Table

_HEADING_LOADS = re.compile(
    r"(?<![/\w])"
    r"(?P<key>ISL|OSL|input|output|concurrency(?: level)?|conc|batch(?:[ _]size)?|bs|C|TP|context|users)"
    r"(?:\s*[=:]\s*|(?<=SL)\s+|(?<=[_ ]size)\s+|(?<=concurrency)\s+)"
    r"(?P<value>\d+(?:,\d{3})*k?)",
    re.IGNORECASE,
)
_COUNTED = re.compile(r"\b(\d[\d,]*k?)[ -](input|prompt|output|generated) tok(?:en)?s?\b(?!/)", re.IGNORECASE)
_UNIT_IN_BRACKETS = re.compile(
    r"[^.()]{1,60}\((?=[^()]*(?:/|\b(?:m?s|sec|seconds|tps|rps|qps|per)\b|[秒速]))[^()]{1,20}\)",
    re.IGNORECASE,
)
_WIDE = str.maketrans("（）：，", "():,")
_RATE_SAID = re.compile(
    r"(?i)\b(?:(?:output|total|input|decode|prefill|generat\w+) )?tok(?:en)?s?"
    r"(?: ?/ ?s(?:ec(?:ond)?s?)?| per second)\b"
)
_LONGEST_CAPTION = 140
_LONGEST_PROSE = 400
_EQUALS = re.compile(r"\b([a-z_]{3,24})=(\d{1,7})\b")
_SPOKEN = (  # in sentences
    ("batch size", re.compile(r"\bbatch size(?: of)?[ =]+(\d{1,4})\b", re.IGNORECASE)),
    (
        "input tokens",
        re.compile(
            r"\b(\d[\d,]*k?)[ -]token (?:[\w-]{1,20} ){0,2}(?:prefills?|prompts?|inputs?)\b", re.IGNORECASE
        ),
    ),
    (
        "output tokens",
        re.compile(r"\b(\d[\d,]*k?)[ -]token (?:decodes?|outputs?|generations?)\b", re.IGNORECASE),
    ),
)
SETUP_LOAD = re.compile(
    r"(\d+)[- ]?(?:users?\b|concurren(?:cy|t)\b|clients?\b|streams?\b|并发)"
    r"|(?<!-)\bc(?:onc(?:urrency)?)?[ =:]*(\d+)\b",
    re.IGNORECASE,
)
FIGURES = (*RESULTS, "accuracy")


def heading_load(heading: str) -> dict[str, str]:
    """The load that the innermost heading names, or one above that is nothing but a load."""
    parts = heading.split(" / ")
    lengths = {key.replace("_", " "): str(one) for key, one in loads.lengths_in(parts[-1]).items()}
    lengths |= _counted(parts[-1])
    alone = (found for part in reversed(parts) if (found := SETUP_LOAD.fullmatch(part.strip())))
    told = next(({"concurrency": found[1] or found[2]} for found in alone), {})
    return (
        lengths
        | told
        | {found["key"].lower(): found["value"] for found in _HEADING_LOADS.finditer(parts[-1])}
    )


def _counted(text: str) -> dict[str, str]:
    """Lengths spelt out: "Throughput (128 output tokens)"."""
    return {f"{found[2].lower()} tokens": found[1] for found in _COUNTED.finditer(text)}


def caption_load(caption: str) -> dict[str, str]:
    """The load that a short caption names."""
    lengths = {key.replace("_", " "): str(one) for key, one in loads.lengths_in(caption).items()}
    return lengths | {found["key"].lower(): found["value"] for found in _HEADING_LOADS.finditer(caption)}


def spoken_load(caption: str) -> dict[str, str]:
    """The load that prose right before a table spells out, each part of it once."""
    told: dict[str, str] = {}
    for key, pattern in _SPOKEN:
        found = {one[1] for one in pattern.finditer(caption[:_LONGEST_PROSE])}
        told |= {key: found.pop()} if len(found) == 1 else {}
    pairs = [(key, one) for key, one in _EQUALS.findall(caption[:_LONGEST_PROSE]) if _is_length(key)]
    return told | (dict(pairs) if len({key for key, _ in pairs}) == len(pairs) else {})


def _is_length(label: str) -> bool:
    return place(label) in (("workload", "input_len"), ("workload", "output_len")) and "_" in label


def short_caption(table: Table) -> str:
    """The line before a table where it is no prose: "**NAME on H100, batch=32:**"; else empty."""
    caption = cells.plain(table.caption).strip()
    whole = table.caption.startswith("**") and table.caption.rstrip().endswith("**")
    return (
        caption.rstrip(": ") if len(caption) < _LONGEST_CAPTION and (whole or caption.endswith(":")) else ""
    )


def measured(table: Table) -> Table:
    """The table with the measure that its heading names in labels that are statistics alone: "P50 (ms)"."""
    bare = [at for at, label in enumerate(table.header) if at and _ends_in_statistic(cells.plain(label))]
    others = [*table.header, *(row[0] for _, row in table.rows if row)]
    measure = _measure(table.heading) if len(bare) > 1 else ""
    if not measure or any(understand(cells.plain(one)) for one in others):
        return table
    header = [f"{label} {measure}" if at in bare else label for at, label in enumerate(table.header)]
    return replace(table, header=header)


def _ends_in_statistic(label: str) -> bool:
    """Whether a label is a statistic, perhaps behind a name: "P50", "Small P50"."""
    return is_statistic(label) or is_statistic(label.rpartition(" ")[2])


def _measure(heading: str) -> str:
    """A measure with its unit of a heading above, or a latency without one of the innermost heading."""
    if told := headed(heading):
        return re.sub(r"^(?:mean|p50) ", "", label_of(told))
    inner = understand(f"mean {cells.plain(heading.rsplit(' / ', 1)[-1])}")
    if inner and inner.name in ("output_tok_s", "input_tok_s"):  # "Token-generation throughput"
        return label_of(inner)
    return inner.name.partition("_ms_")[0] if inner and "_ms_" in inner.name else ""


def headed(heading: str) -> Quantity | None:
    """The metric of the innermost heading that names one with its unit."""
    for part in reversed(heading.split(" / ")):
        first = re.split(r"\s\+\s", part)[0]  # "Aggregate tok/s + TTFT/ITL": cells begin with that
        found = understand(first) if re.search(r"\(|/s\b|\bms\b|tps", first) else None
        if found and found.name.startswith(FIGURES) and found.unit_stated:
            return found
    return None


def captioned(caption: str) -> Quantity | None:
    """The metric that a caption states with its unit in brackets, such as "Average speed (tokens/s) of …"."""
    caption = caption.translate(_WIDE).strip()
    found = _UNIT_IN_BRACKETS.match(caption) or _UNIT_IN_BRACKETS.match(caption.rsplit("。", 1)[-1].strip())
    told = headed(found[0]) if found else None
    made = re.search(r"(?i)\b(?:generat|decod|output)", caption)
    read = re.search(r"(?i)\b(?:prompt|prefill|input)", caption)
    if told is None or told.name != "tok_s" or bool(made) == bool(read):
        return told
    return replace(told, name="output_tok_s" if made else "input_tok_s")


def stated(table: Table) -> Quantity | None:
    """The rate that the line before a table of bare figures states, which is no sentence of its own."""
    caption = cells.plain(table.caption).strip()
    told = {found[0] for found in _RATE_SAID.finditer(caption)}
    if len(told) != 1 or len(caption) > _LONGEST_CAPTION or caption.endswith(".") or not holds_figures(table):
        return None
    named = any(understand(cells.plain(label)) or re.search(r"\(", label) for label in table.header)
    return None if named else understand(told.pop())


def said(table: Table) -> Quantity | None:
    """The rate that the line before a table states, whatever stands in its first columns."""
    caption = cells.plain(table.caption).strip()
    told = {found[0] for found in _RATE_SAID.finditer(caption)}
    if len(told) != 1 or len(caption) > _LONGEST_CAPTION or caption.endswith("."):
        return None
    found = understand(told.pop())
    way = re.search(r"(?i)\b(?:(generat\w+|decod\w+|output)|prompt|prefill|input)\b", caption)
    if found is None or found.name != "tok_s" or way is None:
        return found
    return replace(found, name="output_tok_s" if way[1] else "input_tok_s")


def holds_figures(table: Table) -> bool:
    """Whether all cells but the first ones, and those that compare, are figures without a unit."""
    kept = [at for at, label in enumerate(table.header) if at and not is_derived(label)]
    inner = [row[at] for _, row in table.rows for at in kept if len(row) > at]
    return bool(inner) and all(one is not None and not one.rest for one in map(cells.read_cell, inner))


_TIMES = {1.0: "ms", 1e3: "s", 1e-3: "us", 1e-6: "ns", 6e4: "minutes"}


def label_of(quantity: Quantity) -> str:
    """A label that means the quantity, in the unit that it was stated in."""
    if "_ms_" in quantity.name:
        base, _, stat = quantity.name.partition("_ms_")
        return f"{stat} {base} {_TIMES.get(quantity.factor, 'ms')}"
    return {
        "tok_s": "tok/s",
        "output_tok_s": "output tok/s",
        "input_tok_s": "input tok/s",
        "total_tok_s": "total tok/s",
        "request_s": "req/s",
    }.get(quantity.name, quantity.name)
