"""Answers to fixed prompts, compared: do two backends compute the same function?

Owns the verdicts and what broken output looks like. Must not read files; ``ingest.formats.probe`` makes the
digests. At temperature 0 rounding alone may split two right backends at a step where the best two tokens are
nearly tied, so where sequences part decides nothing; the log-probabilities before and at that place do.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any, Literal

Verdict = Literal["same", "near-tie", "different", "unknown"]

# In nats. bf16 and FP8 differ by hundredths; a wrong kernel by whole units.
NEAR_TIE_GAP = 0.3
SAME_NOISE = 0.15
GARBAGE_RUN = 16
GARBAGE_SHARE = 0.6
_OF_NAN = {0, "!", "\x00"}


@dataclass(frozen=True, slots=True)
class Compared:
    """The verdict over all prompts in common, and a sentence per prompt that bears it out."""

    verdict: Verdict
    evidence: tuple[str, ...]
    prompts: int = 0


def compare(a: Mapping[str, Any], b: Mapping[str, Any]) -> Compared:
    """Two digests (``extra["probe"]`` of two readings): do they show the same function?

    ``same``: equal tokens throughout. ``near-tie``: they agree until they part where the best two tokens were
    nearly tied. ``different``: the log-probabilities disagree, or one side is broken output. ``unknown``:
    no prompt in common, or nothing to tell by.
    """
    pairs = [
        (mine, theirs)
        for mine in a.get("answers", ())
        for theirs in b.get("answers", ())
        if mine.get("prompt_key") and mine["prompt_key"] == theirs.get("prompt_key")
    ]
    verdicts = [_compare_one(mine, theirs) for mine, theirs in pairs]
    order: tuple[Verdict, ...] = ("different", "unknown", "near-tie", "same")
    told = {verdict for verdict, _ in verdicts}
    worst: Verdict = next((verdict for verdict in order if verdict in told), "unknown")
    return Compared(worst, tuple(text for _, text in verdicts), len(pairs))


def broken(answer: Mapping[str, Any]) -> str | None:
    """Why an answer is broken output (NaN, ``!!!!``), or None.

    One token over and over is broken where it is the one that NaN logits give (the first of the vocabulary);
    else a model may loop by itself, which ``repeats`` tells. Odd wording is not broken.
    """
    if answer.get("broken"):
        return str(answer["broken"])
    logprobs = answer.get("logprobs") or []
    if any(isinstance(one, float) and math.isnan(one) for one in logprobs):
        return "its log-probabilities are NaN"
    tokens, text = answer.get("tokens") or [], str(answer.get("text") or "").strip()
    told = repeats(answer)
    if told and (
        set(tokens[-GARBAGE_RUN:]) <= _OF_NAN or (not tokens and set(text[-GARBAGE_RUN:]) <= _OF_NAN)
    ):
        return f"{told}, as NaN logits give"
    return None


def repeats(answer: Mapping[str, Any]) -> str | None:
    """How an answer repeats one token or character, or None. Alone it proves nothing: a model may loop."""
    tokens, text = answer.get("tokens") or [], str(answer.get("text") or "").strip()
    return _repeats(tokens, "token") or _repeats(text, "character")


def common_prefix(a: Sequence[Any], b: Sequence[Any]) -> int:
    """How many leading items are equal."""
    return next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _compare_one(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[Verdict, str]:
    wrong = [why for why in (broken(a), broken(b)) if why]
    if len(wrong) == 1:
        return "different", f"one side is broken output: {wrong[0]}"
    tokens = _sequence(a), _sequence(b)
    if not tokens[0] or not tokens[1]:
        return "unknown", "one side has no answer"
    agreed = common_prefix(*tokens)
    noise = _noise(a, b, agreed)
    if noise is not None and noise > SAME_NOISE:
        return "different", f"log-probabilities of equal tokens differ by {noise:.2f} on average"
    if agreed == min(map(len, tokens)):
        return "same", f"all {agreed} tokens agree"
    return _at_parting(agreed, _gap(a, b, agreed))


def _at_parting(agreed: int, gap: float | None) -> tuple[Verdict, str]:
    if gap is None:
        return "unknown", f"{agreed} tokens agree, then they part; no log-probabilities tell why"
    if gap <= NEAR_TIE_GAP:
        return "near-tie", f"{agreed} tokens agree, then two tokens {gap:.3f} apart split them"
    return "different", f"after {agreed} equal tokens they choose tokens {gap:.2f} apart: no near tie"


def _sequence(answer: Mapping[str, Any]) -> Sequence[Any]:
    return answer.get("tokens") or str(answer.get("text") or "").split()


def _noise(a: Mapping[str, Any], b: Mapping[str, Any], agreed: int) -> float | None:
    """Median difference of the log-probabilities of the tokens in common; None without any."""
    both = zip(a.get("logprobs") or (), b.get("logprobs") or (), strict=False)
    deltas = [abs(x - y) for x, y in list(both)[:agreed] if _is_number(x) and _is_number(y)]
    return median(deltas) if deltas else None


def _gap(a: Mapping[str, Any], b: Mapping[str, Any], at: int) -> float | None:
    """How far apart the two choices were at the place where they part, by the kindest measure there is.

    The runner-up's distance on either side where it was recorded; else the difference of the two best values,
    which are equal when both sides compute the same function and the choice was a toss-up.
    """
    found = [value for one in (a, b) if (value := _item(one.get("runner_up_gap"), at)) is not None]
    mine, theirs = _item(a.get("logprobs"), at), _item(b.get("logprobs"), at)
    if not found and mine is not None and theirs is not None:
        found = [abs(mine - theirs)]
    return min(found) if found else None


def _item(values: Any, at: int) -> float | None:
    value = values[at] if isinstance(values, list | tuple) and at < len(values) else None
    return float(value) if isinstance(value, int | float) and _is_number(value) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _repeats(items: Sequence[Any], what: str) -> str | None:
    if len(items) < GARBAGE_RUN:
        return None
    run = longest = 1
    for before, after in pairwise(items):
        run = run + 1 if before == after else 1
        longest = max(longest, run)
    commonest, times = Counter(_hashable(items)).most_common(1)[0]
    if longest >= GARBAGE_RUN and commonest not in (" ", "\n", "-", "=", "_", "*", "#"):
        return f"the same {what} {longest} times in a row"
    if what == "token" and times >= GARBAGE_SHARE * len(items):
        return f"{times} of {len(items)} tokens are the same"
    return None


def _hashable(items: Iterable[Any]) -> list[Any]:
    return [one if isinstance(one, int | str) else repr(one) for one in items]
