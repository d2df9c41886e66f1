"""Labels that the figures beside them tell more of: whose rate, whose time, how many of how many.

Owns renaming the labels of a record before it is read. Must not read a record's meaning otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ingest.bench import cells
from ingest.bench.quantities import understand, words_of

_NEAR = 0.02
_PLAIN_RATE = re.compile(r"(?:rps|qps)")
_REQUEST_RATE = "request throughput (req/s)"
_MEASURED = re.compile(r"\d*\.\d{3,}")  # nobody asks for a rate to a thousandth
_RUN = re.compile(r"total (?:request )?latency(?: (?:ms|s|sec|seconds))?")
_WINDOW = re.compile(r"(?:n |max )?(?:ctx|context)(?: len| length| size)?")
_PROMPT = re.compile(r"(?:avg |mean |actual )?(?:prompt|input) (?:len|length|tok|toks|tokens)|isl")
_TALLY = re.compile(r"pass|passed|correct")
_ASKED = re.compile(r"total|n|count|(?:num )?(?:questions|samples|total)|of")


def relabelled(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record under labels that say what its figures show."""
    names = {label: label for label in record if isinstance(label, str)}
    _rates(record, names)
    _run(names)
    _tallies(record, names)
    _tokens(names)
    _loads(names)
    taken = {new for old, new in names.items() if new != old} & record.keys()
    return {
        label if names.get(label) in taken else names.get(label, label): raw for label, raw in record.items()
    }


def _rates(record: Mapping[str, Any], names: dict[str, str]) -> None:
    """Requests per second: a bare throughput that is answers over time, a measured "rps"."""
    answers, seconds = (_figure(record, name) for name in ("completed", "duration_s"))
    for label in names:
        words, value = words_of(label), cells.number(record[label])
        counted = value and seconds and abs(answers / seconds - value) < _NEAR * value
        plain = _PLAIN_RATE.fullmatch(words) and _is_measured(record[label])
        if ((words == "throughput" and counted) or plain) and _REQUEST_RATE not in names.values():
            names[label] = _REQUEST_RATE


def _figure(record: Mapping[str, Any], name: str) -> float:
    told = ((understand(label), raw) for label, raw in record.items() if isinstance(label, str))
    found = (
        number * one.factor
        for one, raw in told
        if one and one.name == name and (number := cells.number(raw)) is not None
    )
    return next(found, 0.0)


def _is_measured(raw: Any) -> bool:
    return _MEASURED.fullmatch(cells.plain(str(raw))) is not None


def _run(names: dict[str, str]) -> None:
    """A total latency beside the mean of single ones is the time of the run."""
    whole = [label for label in names if _RUN.fullmatch(words_of(label))]
    single = any(
        (told := understand(label)) and told.name == "e2e_ms_mean" for label in names if label not in whole
    )
    if not single and not whole and _tells_one(names):
        for label in [one for one in names if _TOTAL.fullmatch(words_of(one))]:
            names[label] = words_of(label).replace("total", "duration").replace(" time", "")
    for label in whole if single else ():
        names[label] = (
            words_of(label).replace("total request latency", "total latency").replace("latency", "duration")
        )


_TOTAL = re.compile(r"total(?: time)? (?:s|sec|secs|seconds|ms)")


def _tells_one(names: Mapping[str, str]) -> bool:
    """Whether a time to the first token and a rate stand beside a total, which is then a time too."""
    told = {one.name for label in names if (one := understand(label))}
    return "ttft_ms_mean" in told and any("tok_s" in name for name in told)


def _tokens(names: dict[str, str]) -> None:
    """ "total_toks" beside another rate counts tokens."""
    counted = [label for label in names if words_of(label) in ("total toks", "num toks", "n toks")]
    rated = any(
        (told := understand(label)) and "tok_s" in told.name for label in names if label not in counted
    )
    for label in counted if rated else ():
        names[label] = "total tokens"


def _loads(names: dict[str, str]) -> None:
    """A context beside a prompt's length is the window; "N" beside the speed of one client counts clients."""
    prompts = [label for label in names if _PROMPT.fullmatch(words_of(label))]
    single = any((told := understand(label)) and told.name.endswith("_per_user") for label in names)
    for label in names:
        words = words_of(label)
        if prompts and _WINDOW.fullmatch(words):
            names[label] = "context window"
        elif single and words == "n":
            names[label] = "clients"


def _tallies(record: Mapping[str, Any], names: dict[str, str]) -> None:
    """ "pass": 1 of "total": 10 counts, and is no share."""
    asked = [cells.number(record[label]) or 0 for label in names if _ASKED.fullmatch(words_of(label))]
    for label in names:
        value = cells.number(record[label]) if _TALLY.fullmatch(words_of(label)) else None
        if (
            value is not None
            and value.is_integer()
            and max(asked, default=0) > 1
            and "%" not in str(record[label])
        ):
            names[label] = "num correct"
