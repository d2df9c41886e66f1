"""Labels of measures to agreed metric names and units.

Owns the grammar: a label in any of the usual spellings ("P99 TTFT (ms)", ``median_ttft``, ``ttft_s_p50``,
"Output token throughput (tok/s)") is a statistic, a quantity and a unit. Must not know any file format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Quantity:
    """A metric's agreed name and the factor that turns the label's unit into the name's own.

    ``unit_stated`` is false where the label names no unit (a bare ``ttft``): the factor then assumes seconds
    for latencies. ``loose`` is true where the label leaves the definition open (a throughput that may count
    input tokens, a latency without a statistic), so that the source's own name must be kept.
    """

    name: str
    factor: float = 1.0
    unit_stated: bool = True
    loose: bool = False


# How the names of metrics begin that are results of serving.
RESULTS = ("ttft", "tpot", "itl", "e2e", "output_tok_s", "input_tok_s", "total_tok_s", "tok_s", "request_s")
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+(?:\.\d+)?|%|µ")
_BY_MINUTE = re.compile(r"/\s?min\b")
_PROPER = re.compile(r"(?i)vllm|sglang|tensorrt|trtllm|lmdeploy|mlperf|(?-i:\b[A-Z]{2,}s\b)")  # one word each
_LONGEST = 400  # longer text is no label
_LABELS = json.loads(Path(__file__).with_name("labels.json").read_text(encoding="utf-8"))
GRAMMAR = frozenset().union(*(_LABELS[group] for group in ("grammar", "statistics", "time_units")))
_SPOKEN: dict[str, str] = _LABELS["spoken"]
_SPOKEN_TERM = re.compile("|".join(sorted(map(re.escape, _SPOKEN), key=len, reverse=True)), re.IGNORECASE)
_BESIDE_HAN = re.compile(r"(?<=[\u4e00-\u9fff]) +(?=[A-Za-z])|(?<=[A-Za-z]) +(?=[\u4e00-\u9fff])")
_TIME_FACTORS: dict[str, float] = _LABELS["time_units"]
_STATISTICS: dict[str, str] = _LABELS["statistics"]
_TOKEN_RATE = re.compile("|".join(_LABELS["token_rate"]))
_REQUEST_RATE = re.compile("|".join(_LABELS["request_rate"]))
_INPUT = re.compile(r"\b(?:input|in|prompt|prefill|pp|inp|ingest|isl|eingabe)\b")
_OUTPUT = re.compile(
    r"\b(?:output|out|generated|generation|gen|decode|decoding|completion|tg|new|osl|ausgabe|generate|predicted|eval)\b"
)
_TOTAL = re.compile(r"\b(?:total|tot|overall|combined|input output|in out)\b")
_PER_GPU = re.compile(r"\b(?:per )?(?:gpu|gpus|device|chip|card|accelerator)\b")
_LLAMA_BENCH = re.compile(r"^(?:[a-z]+ )?(pp|tg) \d{1,7}(?: t s| tok s| tokens s| d \d+)?$")
_PER_WATT = re.compile(r"\b(?:per )?(?:w|watts?|joules?|k?wh)\b")
_PER_USER = re.compile(
    r"\b(?:per )?(?:user|users|request|req|stream|seq|sequence|(?<!\d )slot|client|session|interactivity)\b"
)
_DERIVED_FROM = re.compile(r" (?:from|via|based on) (?:mean |avg |average |median )?(?:itl|tpot|ttft|e2e)$")
_DERIVED = re.compile(
    r"\b(?:spread|half width|variance|var|cv|ci|drift|reduction|improve(?:d|ment)?|increase|decrease|stable"
    r"|attainment|delta|diff|difference|change|gain|speedup|overhead|penalty|regression|savings?|cost"
    r"|ratio|price|usd|dollars?|stderr|uplift|degradation|ceiling|saturation"
    r"|expected|projected|theoretical|hypothetical|simulated|above|below)\b|^warm ?up\b"
)
_TALLY = re.compile(
    r"\b(?:counts?|scores?|levels)\b"
)  # of a measure: how often it was taken, how it was rated, at which
_ASKED = re.compile(r"\b(?:timeout|threshold|budget|limit|deadline|slo|sla)\b")
_PLANNED = re.compile(r"\b(?:targets?(?! (?:model|only))|goals?|sol|roofline|ideal|speed of light)\b")
_CONDITION = re.compile(  # a limit under which something was measured: "@ SLO", "(SLO 500 ms)"
    rf"(?i)\s*@[^()@]*{_ASKED.pattern}[^()]*|(?<=[(,;])[^(),;]*{_ASKED.pattern}[^(),;]*\d[^(),;]*"
)
_OF_PROMPT = re.compile(r"(?i)\s*\((?:short|long|medium) (?:prompts?|context|inputs?)\)")  # which was asked
_DEVICE = re.compile(  # which of a machine's worked, no share of it: "Decode TPS (GPU)", "GPU decode TPS"
    r"(?i)\s*\((?:gpu|cpu)\)|^(?:gpu|cpu) (?=(?:decode|prefill|generation|prompt|output)\b)"
)
_ANOTHER_KIND = re.compile(
    r"\b(?:[tg]?flops?|tflop s|gflop s|images?(?: per)? (?:s|sec|second)|imgs? (?:s|sec)|fps"
    r"|(?:items?|docs?|documents?|embeddings?|rows?|sentences?|jobs?|tasks?)(?: per)? (?:s|sec|second)"
    r"|(?:tok(?:en)?s?|req(?:uest)?s?) (?:per )?(?:step|iter|pass|ticks?)"
    r"|[gmk]bps|(?:[gmk]i? ?b|(?:giga|mega|kilo)?(?:bits|bytes))(?: per)? (?:s|sec|second)"
    r"|(?:alg|bus) ?bw|bandwidth|training|epoch|compress\w*|tokeniz\w*|frames?(?: per)? (?:s|sec|second))\b"
)
_SERVED = re.compile(
    r"\b(?:ttft|tpot|itl|toks?|tokens?|tps|t s|rps|qps"
    r"|(?:requests?|reqs?|query|queries)(?: per)? (?:s|sec|second|throughput))\b"
)
_OF_PART = re.compile(  # the time of a part of the service
    r"\b(?:chunk|network|disk|db|database|retrieval|embedding|rerank|kernel|tool|tts|asr|stt) latency\b"
    r"|\b(?:prefill|prompt) ms (?:per )?tok(?:en)?\b"
)
_SECONDS_OF = re.compile(r"(?i)\d ?tok(?:en)?s? ?\(s(?:ec\w*)?\)")  # "decode 256tok (s)"
_SUM = re.compile(r"\bsum$")  # the time of all requests, as Prometheus counts it
_NO_TIME = re.compile(  # a count of a part, or a unit that is no time
    r"\b(?:(?:input|output|prompt|completion) tokens?|steps|iters|iterations|ticks|cycles)$"
    r"|^(?:pct|percent)\b|\b(?:pct|percent)$"
)
_WHOLE_REQUEST = re.compile(
    r"(?:total(?: time| request time)?|elapsed(?: time)?|(?:total )?wall(?: clock)?(?: time)?|duration)"
    r" (?:s|ms|sec|secs|seconds)"
    r"|(?:total )?time"
)
_SERIES = re.compile(r"\{\w+=\"|^(?:vllm|sglang):\w")  # of Prometheus, which counts since the start
Patterns = tuple[tuple[str, re.Pattern[str]], ...]
_COUNT_PATTERNS: Patterns = tuple(
    (name, re.compile("|".join(any_of))) for name, any_of in _LABELS["counts"].items()
)
_LATENCY_PATTERNS: Patterns = tuple(
    (name, re.compile("|".join(any_of))) for name, any_of in _LABELS["latencies"].items()
)
_TOKEN_LATENCIES = _LATENCY_PATTERNS[
    : next(i for i, (name, _) in enumerate(_LATENCY_PATTERNS) if name == "queue_ms")
]


def is_plain(label: str) -> bool:
    """Whether a label holds no word but those of measures, statistics and units."""
    return not set(words_of(label).split()) - GRAMMAR


def labels(group: str) -> dict[str, Any]:
    """One group of labels.json, where the spellings of labels stand as data."""
    found: dict[str, Any] = _LABELS[group]
    return found


def serves_tokens(names: Iterable[str]) -> bool:
    """Whether labels may be those of a language model: not a kernel's FLOPS, not images or frames.

    Labels of another kind may stand among those that tell of tokens or requests ("Memory bandwidth").
    """
    told = list(names)
    others = any(_ANOTHER_KIND.search(words_of(name)) for name in told)
    return not others or any(map(_is_served, told))


def _is_served(label: str) -> bool:
    found = understand(label)
    directed = found is not None and "tok_s" in found.name and not found.loose
    return directed or (found is not None and _SERVED.search(words_of(label)) is not None)


def words_of(label: str) -> str:
    """The label as lower-case words with single blanks: camel case and punctuation split, ``%`` kept."""
    return _words_of(label[:_LONGEST])


@lru_cache(maxsize=8192)
def _words_of(label: str) -> str:
    text = label.replace("μ", "µ").replace("²", "").replace("Δ", " delta ")
    if not text.isascii():
        text = _BESIDE_HAN.sub("", text)
        text = _SPOKEN_TERM.sub(lambda found: f" {_SPOKEN[found[0].lower()]} ", text)
    text = _PROPER.sub(lambda found: f" {found[0].lower()} ", text)
    text = re.sub(r"(?<![A-Za-z])[Ee]2[Ee][Ll]?", " eel ", text)  # so that the digit does not split the word
    text = re.sub(r"(?<![A-Za-z])[Pp]_?(\d+)", r"P\1", text)
    text = _BY_MINUTE.sub(" per minute", text) if "/" in text else text
    words = [word.lower() for word in _WORD.findall(text)]
    joined = re.sub(r"\bp (\d)", r"p\1", " ".join(words))
    joined = re.sub(r"\bpre (fill\w*)\b", r"pre\1", joined)
    joined = re.sub(r"µ s\b", "µs", joined)
    joined = re.sub(r"\bt s\b", "t s", joined)
    return re.sub(r"\beel\b", "e2e", joined)


@lru_cache(maxsize=4096)
def understand(label: str) -> Quantity | None:
    """The quantity a label names, or ``None`` when it names none."""
    label = _DEVICE.sub("", _OF_PROMPT.sub("", _CONDITION.sub("", label[:_LONGEST])))
    words = _DERIVED_FROM.sub("", words_of(label))
    if not words or len(words) > 120:
        return None
    if (
        _is_no_figure(words)
        or _OF_PART.search(words)
        or _SECONDS_OF.search(label)
        or _SERIES.search(label)
        or "$" in label
        or "€" in label
    ):
        return _count(words, label)
    if "throughput" not in words and (found := _latency(words, _TOKEN_LATENCIES)):
        return found  # before rates: "time per output token (s/token)" holds the words of one
    return _rate(words) or _latency(words, _LATENCY_PATTERNS) or _whole(words) or _count(words, label)


def _is_no_figure(words: str) -> bool:
    """Whether it is derived from a measure, asked of one (as goodput is not), or not of a service."""
    asked = _ASKED.search(words) and "goodput" not in words
    asked = asked or (_PLANNED.search(words) and not _REQUEST_RATE.search(words))
    summed = _SUM.search(words) and "throughput" not in words
    return bool(asked or summed or any(one.search(words) for one in (_DERIVED, _TALLY, _ANOTHER_KIND)))


def _whole(words: str) -> Quantity | None:
    """A statistic of "total_s" is over requests; without one it may be the duration of a run."""
    statistic, rest = _statistic(words)
    if statistic is None or not _WHOLE_REQUEST.fullmatch(rest):
        return None
    factor = _time_factor(rest)
    return Quantity(f"e2e_ms_{statistic}", factor or 1e3, unit_stated=factor is not None)


def _statistic(words: str) -> tuple[str | None, str]:
    """(statistic, words without it)."""
    found = re.search(
        r"\bp ?(\d{1,2}(?:\.\d+)?|100|999)\b|\b(\d{1,2}(?:\.\d+)?)(?: ?th| ?%)? percentile\b"
        r"|\bpercentile (?P<of>\d{1,2}(?:\.\d+)?)\b",
        words,
    )
    if found:
        number = found[1] or found[2] or found["of"]
        number = number.rstrip("0").rstrip(".") if "." in number else number
        return "p" + {"999": "99.9"}.get(number, number).replace(".", "_"), _without(words, found)
    for word in words.split():
        if word in _STATISTICS:
            return _STATISTICS[word], re.sub(rf"\b{word}\b ?", "", words, count=1).strip()
    return None, words


def _without(words: str, found: re.Match[str]) -> str:
    return re.sub(r"\s+", " ", words[: found.start()] + " " + words[found.end() :]).strip()


_PIPELINE = re.compile(r"(?<=\b[tde]p \d )pp \d\b|\bpp \d\b(?= [tde]p \d\b)")  # "TP4 PP2": widths
_LONGEST_OF = {"worst": "max", "slowest": "max", "longest": "max", "fastest": "min", "shortest": "min"}
_EXTREMES = re.compile(rf"\b(?:{'|'.join(_LONGEST_OF)})\b")


def _latency(words: str, patterns: Patterns) -> Quantity | None:
    statistic, rest = _statistic(_EXTREMES.sub(lambda found: _LONGEST_OF[found[0]], words))
    for name, pattern in patterns:
        found = pattern.search(rest)
        if found and not _NO_TIME.search(_without(rest, found)):
            factor = _time_factor(_without(rest, found) if name not in ("tpot_ms", "ntpot_ms") else rest)
            return Quantity(
                f"{name}_{statistic or 'mean'}",
                1e3 if factor is None else factor,
                unit_stated=factor is not None,
                loose=statistic is None,
            )
    return None


def _time_factor(words: str) -> float | None:
    for word in reversed(words.split()):
        if word in _TIME_FACTORS:
            return _TIME_FACTORS[word]
    return None


def _rate(words: str) -> Quantity | None:
    if "accept" in words or "hit rate" in words or "error" in words:
        return None
    bench = _LLAMA_BENCH.search(words)
    if bench:  # "pp512": a test of llama-bench heads the column of its rates
        return Quantity("input_tok_s" if bench[1] == "pp" else "output_tok_s")
    spoken = f"{words} | {_statistic(words)[1]}"  # "tok_med_s": a statistic may part the unit
    requests = bool(_REQUEST_RATE.search(spoken))
    tokens = bool(_TOKEN_RATE.search(spoken.replace("tput", "") if requests else spoken))
    if not tokens and not requests and "throughput" not in words and "durchsatz" not in words:
        return None
    if requests and not tokens:
        return _request_rate(words)
    return _token_rate(words)


def _request_rate(words: str) -> Quantity:
    per_gpu = "_per_gpu" if _PER_GPU.search(words) else ""
    if "goodput" in words:
        return Quantity("goodput_request_s" + per_gpu)
    if "scheduled" in words or "configured" in words or "target" in words:
        return Quantity("offered_request_s")
    per_minute = bool(re.search(r"\b(?:minute|min)\b", words))
    return Quantity("request_s" + per_gpu, 1 / 60 if per_minute else 1.0)


def _token_rate(words: str) -> Quantity:
    statistic, rest = _statistic(words)
    scope, bare = _scope(rest)
    direction = _direction(bare)
    name = f"{direction}tok_s{scope}"
    if "last" in words.split():
        name = "last_" + name
    if statistic == "max" and ("peak" in words.split() or "max" in words.split()):
        name = "peak_" + name
    elif statistic not in (None, "mean"):  # over requests or over runs: the label does not say which
        name = f"{name}_{statistic}"
    return Quantity(name, 1 / 60 if "minute" in words.split() else 1.0, loose=not direction)


def _scope(words: str) -> tuple[str, str]:
    if _PER_GPU.search(words):
        return "_per_gpu", _PER_GPU.sub("", words)
    if _PER_USER.search(words):
        return "_per_user", _PER_USER.sub("", words)
    if _PER_WATT.search(words):
        return "_per_w", _PER_WATT.sub("", words)
    return "", words


def _direction(words: str) -> str:
    words = words.replace("prompt eval", "prompt")  # as llama.cpp and Ollama call reading
    words = re.split(r"(?<=.)\b(?:during|while)\b", words)[0]  # what else went on
    words = _PIPELINE.sub(" ", words)
    given, made = bool(_INPUT.search(words)), bool(_OUTPUT.search(words))
    if (given and made) or (_TOTAL.search(words) and not given and not made):
        return "total_"
    return "output_" if made else "input_" if given else ""


def _count(words: str, label: str) -> Quantity | None:
    plain = re.sub(
        r"\b(?:s|sec|seconds|secs|ms|msec|w|watts?|percent|pct|tokens per (?:step|iter))$| %$", "", words
    ).strip()
    shared = "%" in label or "percent" in words or "pct" in words
    for name, pattern in _COUNT_PATTERNS:
        if pattern.fullmatch(words) or pattern.fullmatch(plain):
            if shared and name in ("completed", "failed"):
                return None  # a share of them
            return Quantity(name, _count_factor(name, words, label))
    return None


def _count_factor(name: str, words: str, label: str) -> float:
    if name == "duration_s":
        factor = _time_factor(words)
        return 1.0 if factor is None else factor / 1e3
    percent = "%" in label or "percent" in words or "pct" in words
    return 0.01 if percent and name in ("accuracy", "accept_rate", "cache_hit_rate") else 1.0
