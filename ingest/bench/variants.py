"""Rows that measure several setups side by side: "vLLM TPS | SGLang TPS", ``ngram_tok_s``.

Owns telling such a row from one setup's row and taking it apart: one record for each setup, with what names
it. Must not read cells, and must not decide what a label measures.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from ingest.bench import cells, loads, names
from ingest.bench.places import place
from ingest.bench.quantities import GRAMMAR, understand, words_of

_MEASURED = ("ttft", "tpot", "itl", "e2e", "output_tok_s", "input_tok_s", "total_tok_s", "tok_s", "request_s")
_LOAD = re.compile(
    r"(?P<key>c|conc|concurrency|bs|batch|b|users?|n|isl|ctx|input) ?(?P<n>0|[1-9]\d{0,6})(?P<k> ?k)?"
)
_LOADS = {
    "c": "concurrency",
    "conc": "concurrency",
    "users": "concurrency",
    "user": "concurrency",
    "n": "concurrency",
}
_LENGTHS = {"isl": "input len", "ctx": "input len", "input": "input len"}
_SPOKEN = {"llama server": "llama.cpp", "llama cpp": "llama.cpp", "llama": None}
_TESTS = re.compile(r"\b(?:pp|tg) \d+\b")
_STATES = frozenset({"cold", "warm"})  # of a cache, both of which a row may measure
_COUNTED_USERS = re.compile(r"(?P<n>\d{1,6}) ?(?:users?|clients?|streams?|concurrent)")


def setups(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The record alone, or one record for each setup that its labels tell apart.

    Every new record holds the labels of no setup, those of its own, and a label for what names it:
    ``engine``, a load (``concurrency``, ``batch size``, ``input len``), or ``test``.
    """
    owned = _owners(tuple(label for label in record if isinstance(label, str)))
    if not owned:
        return [dict(record)]
    shared = {label: raw for label, raw in record.items() if label not in owned and not _measures(label)}
    kinds = {named(setup)[0] for setup in owned.values()} - {"engine"}
    told = []
    for setup in dict.fromkeys(owned.values()):
        own = {label: raw for label, raw in record.items() if owned.get(label) == setup}
        name = named(setup)
        # setups that seem to be of several loads ("B0", "C11") bear names
        told.append(
            _with_name(shared, *(name if len(kinds) < 2 or name[0] == "engine" else ("test", setup))) | own
        )
    left = {label: raw for label, raw in record.items() if label not in owned and _measures(label)}
    return [*told, shared | left] if left and not _is_empty(left) else told


def _is_empty(left: Mapping[str, Any]) -> bool:
    """Whether all that no setup owns is empty."""
    return all(cells.is_nothing(raw) for raw in left.values())


def _with_name(shared: Mapping[str, Any], key: str, value: str) -> dict[str, Any]:
    if key == "test":
        return dict(shared) | {"test name" if "test" in shared else "test": value}
    kept = {label: raw for label, raw in shared.items() if place(label) != place(key)}
    return kept | {key: value}


@lru_cache(maxsize=512)
def named(setup: str) -> tuple[str, str]:
    """(label, value) that says which setup it is: an engine, a load, or a test by that name."""
    engine = engine_in(setup)
    if engine is not None:
        return "engine", engine
    words = words_of(setup)
    load = _LOAD.fullmatch(words)
    if load is not None:
        key = load["key"]
        count = loads.tokens(load["n"], load["k"] or "")
        return _LOADS.get(key) or _LENGTHS.get(key) or "batch size", str(count)
    users = _COUNTED_USERS.fullmatch(words)
    return ("concurrency", users["n"]) if users else ("test", setup)


@lru_cache(maxsize=512)
def engine_in(text: str) -> str | None:
    """The engine that a setup's name is or begins with ("vLLM 0.11", "TRT-LLM + CUDA graphs")."""
    words = re.sub(r"(?<!llama) \b(?:server|serve|engine|runtime|backend)$", "", words_of(text)).split()
    for length in (3, 2, 1):
        found = _SPOKEN.get(" ".join(words[:length])) or names.known_engine(" ".join(words[:length]))
        if found in names.SERVERS and len(words) - length <= 4:
            return found
    aside = re.search(r"\(([^()]+)\)", text)  # "Baseline (vLLM BF16)"
    return engine_in(aside[1]) if aside and not re.search(r"\bvs\b", text) else None


@lru_cache(maxsize=256)
def _owners(labels_: tuple[str, ...]) -> dict[str, str]:
    """Label → the setup it belongs to, for the labels of a row that holds several setups.

    Where the setups are neither engines nor loads, every result of the row must belong to one of them.
    """
    groups: dict[str, list[str]] = {}
    for label in labels_:
        if _measures(label):
            groups.setdefault(_measured(label), []).append(label)
    owned: dict[str, str] = {}
    for same in groups.values():
        owned |= _told_apart(same)
    for label in labels_:
        if label not in owned and _measures(label):  # "C1 TTFT" beside "C1 decode" and "C8 decode"
            spoken = f" {words_of(label)} "
            at = {setup for setup in owned.values() if f" {words_of(setup)} " in spoken}
            owned |= {label: at.pop()} if len(at) == 1 else {}
    known = all(named(setup)[0] != "test" for setup in owned.values())
    whole = all(label in owned for same in groups.values() for label in same if len(same) > 1)
    return owned if len(set(owned.values())) > 1 and (known or whole) else {}


def _measured(label: str) -> str:
    told = understand(label)
    return told.name if told is not None else ""


def _measures(label: Any) -> bool:
    return isinstance(label, str) and _measured(label).startswith(_MEASURED) and place(label) is None


def _told_apart(same: Iterable[str]) -> dict[str, str]:
    """Labels of one measure by the words that only they have; none where those are words of the measure."""
    spoken = {label: words_of(label).split() for label in same}
    if len(spoken) < 2:
        return {}
    common = set.intersection(*(set(words) for words in spoken.values()))
    own = {label: _own_words(words, common) for label, words in spoken.items()}
    if any(not text or (set(_TESTS.sub("", text).split()) - _STATES) & GRAMMAR for text in own.values()):
        return {}
    if max(Counter(own.values()).values()) > 1:
        return {}
    return {label: _as_written(label, text) for label, text in own.items()}


def _as_written(label: str, own: str) -> str:
    """A setup's words as the label has them: all before a unit in brackets, or those that are its own."""
    if named(own)[0] != "test":
        return own
    written = re.sub(r"\s*\([^()]*\)$", "", label)
    if written != label and (words_of(written) == own or understand(written) is None):
        return written
    parts = label.split()
    slices = (" ".join(parts[at:end]) for at in range(len(parts)) for end in range(at + 1, len(parts) + 1))
    return next((one for one in slices if words_of(one) == own), own)


def _own_words(words: list[str], common: set[str]) -> str:
    """Words of one label only; a number keeps the word before it ("c 16")."""
    kept = [at for at, word in enumerate(words) if word not in common]
    if kept and all(words[at].isdecimal() for at in kept):
        kept = [near for at in kept for near in ((at - 1, at) if at else (at,))]
    return " ".join(words[at] for at in kept)
