"""Results that benchmarks print as single rows, without a table: throughput, batch phases, scores.

Owns the grammar of those rows and their metrics. Must not decide which tool printed them, nor read files.
"""

from __future__ import annotations

import re
from typing import Any

_NUMBER = r"\d+(?:\.\d+)?"
_THROUGHPUT = re.compile(
    rf"Throughput: (?P<req>{_NUMBER}) requests/s, (?P<total>{_NUMBER}) (?:total )?tokens/s"
    rf"(?:, (?P<out>{_NUMBER}) output tokens/s)?"
)
_TOTALS = re.compile(r"Total num (?P<kind>prompt|output) tokens:\s+(?P<n>\d+)")
_BATCH = (
    (
        re.compile(rf"Prefill\. latency:\s+(?P<s>{_NUMBER}) s, throughput:\s+(?P<rate>{_NUMBER}) token/s"),
        ("prefill_ms_mean", "input_tok_s"),
    ),
    (
        re.compile(
            rf"Decode\.\s+median latency:\s+(?P<s>{_NUMBER}) s, "
            rf"median throughput:\s+(?P<rate>{_NUMBER}) token/s"
        ),
        ("itl_ms_p50", "output_tok_s"),
    ),
    (
        re.compile(rf"Total\. latency:\s+(?P<s>{_NUMBER}) s, throughput:\s+(?P<rate>{_NUMBER}) token/s"),
        ("e2e_ms_mean", "total_tok_s"),
    ),
)
_STEP = re.compile(r"Decode\s+\d+\. Batch size: (?P<bs>\d+), latency:")
_SCORE = (
    (re.compile(rf"(?:Average a|A)ccuracy: (?P<v>{_NUMBER})\s*$"), "accuracy"),
    (re.compile(rf"Score: (?P<v>{_NUMBER})\s*$"), "accuracy"),
    (re.compile(rf"Repeat: \d+, mean: (?P<v>{_NUMBER})"), "accuracy"),
    (re.compile(rf"Invalid: (?P<v>{_NUMBER})\s*$"), "invalid"),
    (re.compile(rf"(?:Total l|Mean l|L)atency: (?P<v>{_NUMBER})(?: s)?\s*$"), "duration_s"),
    (re.compile(rf"Output throughput: (?P<v>{_NUMBER}) token/s\s*$"), "output_tok_s"),
)
ENDS_BATCH = "Total. latency:"


def states_throughput(text: str) -> bool:
    """Whether a text holds the result row of an offline throughput benchmark."""
    return _THROUGHPUT.search(text) is not None


def throughput(text: str) -> dict[str, float | None]:
    """Metrics of an offline throughput benchmark's row, or of one of the two totals that may follow it."""
    if found := _THROUGHPUT.search(text):
        rates = {"request_s": found["req"], "total_tok_s": found["total"], "output_tok_s": found["out"]}
        return {name: float(one) for name, one in rates.items() if one}
    if found := _TOTALS.search(text):
        return {"input_tokens" if found["kind"] == "prompt" else "output_tokens": float(found["n"])}
    return {}


def batch_row(text: str, metrics: dict[str, float | None], load: dict[str, Any]) -> bool:
    """Whether a row tells a phase of one static batch; its figures go into ``metrics`` and ``load``."""
    for pattern, (latency, rate) in _BATCH:
        if found := pattern.search(text):
            metrics |= {latency: float(found["s"]) * 1e3, rate: float(found["rate"])}
            return True
    step = _STEP.search(text)
    if step:
        load["batch_size"] = int(step["bs"])
    return step is not None


def batch_warms_up(text: str, before: bool) -> bool:
    """Whether the rows after this one are those of a warm-up."""
    return text.startswith("Warmup ...") or (before and not text.startswith("Benchmark ..."))


def score_row(text: str) -> tuple[str, float] | None:
    """The metric of an accuracy script's row, scores as fractions."""
    for pattern, name in _SCORE:
        if found := pattern.match(text):
            return name, float(found["v"])
    return None
