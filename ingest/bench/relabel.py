"""Labels that the figures beside them tell more of: whose rate, whose time, how many of how many.

Owns renaming the labels of a record before it is read. Must not read a record's meaning otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ingest.bench import cells
from ingest.bench.places import place
from ingest.bench.quantities import understand, words_of

MADE = "output tokens of the requests listed"  # not a label of theirs
_NEAR = 0.02
_PLAIN_RATE = re.compile(r"(?:rps|qps)(?: (?:value|label))?")
_REQUEST_RATE = "request throughput (req/s)"
_MEASURED = re.compile(r"\d*\.\d{3,}")  # nobody asks for a rate to a thousandth
_RUN = re.compile(r"total (?:request )?latency(?: (?:ms|s|sec|seconds))?")
_WINDOW = re.compile(r"(?:n |max )?(?:ctx|context)(?: len| length| size)?")
_SIZE = re.compile(r"(?:n )?ctx(?: len| length| size)?|(?:max |n )?context (?:len|length|size)")
_PROMPT = re.compile(
    r"(?:avg |mean |actual )?(?:prompt|input) (?:len|length|tok|toks|tokens)|isl|n prompt|prompt n"
)
_TOKEN_RATES = ("tok_s", "output_tok_s", "total_tok_s")
_WHOLE = re.compile(r"total(?: time)? (?:ms|s|sec|seconds)")
_WIDTHS = ("concurrency", "batch_size", "prompts")
_ANSWER = re.compile(r"(?:n |num |avg |mean )?tokens(?: avg| mean| generated)?")
_TALLY = re.compile(r"pass|passed|correct")
_ASKED = re.compile(r"total|n|count|(?:num )?(?:questions|samples|total)|of")


def relabelled(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record under labels that say what its figures show."""
    record = _whole_answer(record)
    names = {label: label for label in record if isinstance(label, str)}
    _over_runs(names)
    _of_prompt(names)
    _rates(record, names)
    _speeds(record, names)
    _times(names)
    _run(record, names)
    _tallies(record, names)
    _tokens(names)
    _totals(record, names)
    _loads(record, names)
    taken = {new for old, new in names.items() if new != old} & record.keys()
    return {
        label if names.get(label) in taken else names.get(label, label): raw
        for label, raw in record.items()
        if label != MADE
    }


_TIME = re.compile(r"total time|total|elapsed(?: time)?")
_LONGEST_START = 30  # seconds to the first token: what is more counts in another unit


def _is_sum(record: Mapping[str, Any], label: str) -> bool:
    """Whether a total without a unit is the time to the first token and that of the rest, in seconds."""
    if not _TIME.fullmatch(words_of(label)):
        return False
    parts = {
        one.name: cells.number(record[other])
        for other in record
        if isinstance(other, str) and (one := understand(other)) and not one.unit_stated
    }
    first, rest, whole = parts.get("ttft_ms_mean"), parts.get("decode_ms_mean"), cells.number(record[label])
    if not first or not rest or not whole or first > _LONGEST_START:
        return False
    return abs(first + rest - whole) <= _NEAR * whole


def _is_whole(label: str, raw: Any) -> bool:
    """Whether a label is "total" with a unit of time, its own or that of its cell."""
    if words_of(label) not in ("total", "total time"):
        return _WHOLE.fullmatch(words_of(label)) is not None
    cell = cells.read_cell(raw)
    return cell is not None and cell.rest in ("s", "ms", "sec", "seconds")


def _whole_answer(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The record with the total time of one answer, beside its first token or its length, as its latency."""
    labels = [label for label in record if isinstance(label, str)]
    told = {one.name for label in labels if (one := understand(label))}
    rated = any("tok_s" in name for name in told)  # then its time is settled by arithmetic
    whole = [
        label
        for label in labels
        if (words_of(label) == "total seconds" and not rated)
        or (_is_whole(label, record[label]) and understand(label) is None)
        or _is_sum(record, label)
    ]
    lone = any(name.startswith("ttft") for name in told) or any(
        _ANSWER.fullmatch(words_of(one)) for one in labels
    )
    crowd = (cells.number(record[label]) for label in labels if (place(label) or ("", ""))[1] in _WIDTHS)
    if (
        len(whole) != 1
        or not lone
        or "e2e_ms_mean" in told
        or max((one or 1 for one in crowd), default=1) > 1
    ):
        return record
    return {f"latency {label}" if label == whole[0] else label: raw for label, raw in record.items()}


def _of_prompt(names: dict[str, str]) -> None:
    """A rate beside llama.cpp's prompt and batch alone ("n_prompt", "n_ubatch") is that of reading."""
    told = {words_of(label) for label in names}
    made = any(place(label) == ("workload", "output_len") for label in names)
    if "n prompt" not in told or made or not told & {"n batch", "n ubatch"}:
        return
    for label in names:
        if (found := understand(label)) is not None and found.name == "tok_s":
            names[label] = "prompt tok/s"


_OF_RUNS = re.compile(r"\b(?:p\d+|mean|avg) (?:median|mean|avg)$")
_LAST = re.compile(r"[_ ](?:median|mean|avg)$", re.IGNORECASE)


def _over_runs(names: dict[str, str]) -> None:
    """A statistic over runs stands behind those over requests: "ttft_p95_median", "throughput_median"."""
    if sum(_OF_RUNS.search(words_of(label)) is not None for label in names) > 1:
        for label in names:
            names[label] = _LAST.sub("", label)


def _rates(record: Mapping[str, Any], names: dict[str, str]) -> None:
    """Requests per second: a bare throughput that is answers over time, a measured "rps"."""
    answers, seconds = (_figure(record, name) for name in ("completed", "duration_s"))
    for label in names:
        words, value = words_of(label), cells.number(record[label])
        counted = value and (
            (seconds and _is_near(answers / seconds, value)) or _makes_answers(record, names, value)
        )
        plain = is_plain_rate(label) and is_measured(record[label])
        if value and _BARE_THROUGHPUT.fullmatch(words):
            plain = plain or _is_offered(record, value)
        if ((words == "throughput" and counted) or plain) and _REQUEST_RATE not in names.values():
            names[label] = _REQUEST_RATE


_BARE_THROUGHPUT = re.compile(r"(?:\w+ )?(?:raw |measured |achieved )?throughput")
_SLACK = 0.15


def _is_offered(record: Mapping[str, Any], value: float) -> bool:
    """Whether a bare throughput is about the rate that clients asked for, beside how many met a limit."""
    rates = [
        cells.number(raw)
        for label, raw in record.items()
        if place(str(label)) == ("workload", "request_rate")
    ]
    good = any((told := understand(str(label))) and told.name == "goodput_request_s" for label in record)
    return good and len(rates) == 1 and bool(rates[0]) and abs(value / (rates[0] or 1) - 1) < _SLACK


def _makes_answers(record: Mapping[str, Any], names: dict[str, str], value: float) -> bool:
    """Whether a bare throughput gives, with the length of an answer, the rate of tokens beside it."""
    made = next(
        (cells.number(record[one]) for one in names if place(one) == ("workload", "output_len")), None
    )
    rates = (
        cells.number(record[one]) for one in names if (told := understand(one)) and told.name in _TOKEN_RATES
    )
    return bool(made and made > 1 and any(rate and _is_near(value * made, rate) for rate in rates))


def _speeds(record: Mapping[str, Any], names: dict[str, str]) -> None:
    """Which of several token rates is the whole's and which is one request's, where others tell it."""
    rates = {
        label: value
        for label in names
        if (told := understand(label))
        and told.name in _TOKEN_RATES
        and (value := cells.number(record[label]))
    }
    seconds = _figure(record, "duration_s")
    made = cells.number(record.get(MADE)) or _figure(record, "output_tokens") or _answer(record)
    whole = [one for one in rates if made and seconds and _is_near(made / seconds, rates[one])]
    single = [one for one in rates if _is_single(record, rates[one])]
    total = [one for one in single if _is_total(one)]
    if total and "input" not in words_of(total[0]) and _answer(record) > 0:
        names[total[0]] = "output token throughput (tok/s)"  # over the total time
    elif len(rates) > 1 and len(chosen := [one for one in whole if _is_total(one)] or whole) == 1:
        names[chosen[0]] = "aggregate output token throughput (tok/s)"
        for label in rates:
            if _is_total(chosen[0]) and _MEAN_RATE.match(words_of(label)):
                names[label] = "output tok/s per user"
    elif len(single) == 1 and any(one not in single and not _is_total(one) for one in rates):
        names[single[0]] = "output tok/s per user"


_MEAN_RATE = re.compile(r"(?:avg|mean|average) ")  # beside that of all: over requests
_TIME_OF_ONE = re.compile(
    r"(?:avg |average |mean )?(?:inference |response |request )?time (?:s|ms|sec|secs|seconds)"
)


def _times(names: dict[str, str]) -> None:
    """The one time beside a rate of tokens is that of an answer."""
    times = [label for label in names if _TIME_OF_ONE.fullmatch(words_of(label))]
    told = [one.name for label in names if label not in times and (one := understand(label))]
    rated = any(name in _TOKEN_RATES for name in told)
    if len(times) == 1 and rated and not any("_ms" in name or name == "duration_s" for name in told):
        names[times[0]] = f"latency {times[0]}"


def _is_total(label: str) -> bool:
    told = understand(label)
    return told is not None and told.name == "total_tok_s"


def _is_single(record: Mapping[str, Any], value: float) -> bool:
    """Whether a rate is the inverse of the time per token, or what one answer gives over its latency."""
    step, took, made = _figure(record, "tpot_ms_mean"), _figure(record, "e2e_ms_mean"), _answer(record)
    return bool(step and _is_near(1e3 / step, value)) or bool(
        took and made and _is_near(made * 1e3 / took, value)
    )


def _is_near(one: float, other: float) -> bool:
    return abs(one - other) < _NEAR * other


def _answer(record: Mapping[str, Any]) -> float:
    """The tokens of one answer."""
    told = (
        cells.number(raw)
        for label, raw in record.items()
        if isinstance(label, str) and _ANSWER.fullmatch(words_of(label))
    )
    asked = (
        cells.number(raw)
        for label, raw in record.items()
        if isinstance(label, str) and place(label) == ("workload", "output_len")
    )
    return next((one for one in (*told, *asked) if one), 0.0)


def _figure(record: Mapping[str, Any], name: str) -> float:
    told = ((understand(label), raw) for label, raw in record.items() if isinstance(label, str))
    found = (
        number * one.factor
        for one, raw in told
        if one and one.name == name and (number := cells.number(raw)) is not None
    )
    return next(found, 0.0)


def is_plain_rate(label: str) -> bool:
    """Whether a label is a bare "rps" or "qps", asked or measured."""
    return _PLAIN_RATE.fullmatch(words_of(label)) is not None


def is_measured(raw: Any) -> bool:
    """Whether a rate is told so finely that nobody asked for it."""
    return _MEASURED.fullmatch(cells.plain(str(raw))) is not None


def _run(record: Mapping[str, Any], names: dict[str, str]) -> None:
    """A total latency beside the mean of single ones is that of the run, as one that explains the rate."""
    whole = [label for label in names if _RUN.fullmatch(words_of(label))]
    single = any(
        (told := understand(label)) and told.name == "e2e_ms_mean" for label in names if label not in whole
    )
    if not single and not whole and _tells_one(names):
        for label in [one for one in names if _TOTAL.fullmatch(words_of(one))]:
            names[label] = words_of(label).replace("total", "duration").replace(" time", "")
    for label in whole if single or _makes_rate(record, names, whole) else ():
        names[label] = (
            words_of(label).replace("total request latency", "total latency").replace("latency", "duration")
        )


def _makes_rate(record: Mapping[str, Any], names: Mapping[str, str], whole: list[str]) -> bool:
    """Whether all tokens over a lone total latency, in seconds, are the rate beside it."""
    made, seconds = _figure(record, "output_tokens"), [cells.number(record[label]) for label in whole]
    if len(seconds) != 1 or not made or not seconds[0]:
        return False
    rates = (
        cells.number(record[one]) for one in names if (told := understand(one)) and told.name in _TOKEN_RATES
    )
    return any(rate and _is_near(made / seconds[0], rate) for rate in rates)


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


def _totals(record: Mapping[str, Any], names: dict[str, str]) -> None:
    """Tokens that give the measured rate over the whole time are those of all requests, not of one."""
    seconds, answers = _figure(record, "duration_s"), _figure(record, "completed")
    asked = (cells.number(record[label]) or 0 for label in names if place(label) == ("workload", "prompts"))
    if not seconds or max(answers, *asked, 0) <= 1:
        return
    rates = [
        value
        for label in names
        if (told := understand(label))
        and told.name in _TOKEN_RATES
        and (value := cells.number(record[label]))
    ]
    made = [
        label
        for label in names
        if place(label) == ("workload", "output_len")
        and any(_is_near((cells.number(record[label]) or 0) / seconds, rate) for rate in rates)
    ]
    for label in made:
        names[label] = "total output tokens"
    for label in names if made else ():
        if _PROMPT.fullmatch(words_of(label)):
            names[label] = "total input tokens"


def _loads(record: Mapping[str, Any], names: dict[str, str]) -> None:
    """A context beside a prompt's length or an answer's limit is the window.

    "N" beside the speed of one client counts clients.
    """
    prompts = [label for label in names if _PROMPT.fullmatch(words_of(label))]
    limits = [label for label in names if words_of(label) == "max tokens"] if not _reads(names) else []
    single = any((told := understand(label)) and told.name.endswith("_per_user") for label in names)
    for label in names:
        words = words_of(label)
        if (prompts and _WINDOW.fullmatch(words)) or (limits and _SIZE.fullmatch(words)):
            names[label] = "context window"
        elif (single and words == "n") or (words == "level" and _sweeps_clients(record)):
            names[label] = "clients"


def _reads(names: Iterable[str]) -> bool:
    """Whether something of reading is told, which the context given may have set."""
    told = [one.name for label in names if (one := understand(label))]
    return any("input_tok_s" in name or name.startswith(("ttft", "prefill")) for name in told)


def _sweeps_clients(record: Mapping[str, Any]) -> bool:
    """Whether the test's name says that its levels are those of concurrency."""
    return any(isinstance(raw, str) and "concurrency" in raw.lower() for raw in record.values())


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
