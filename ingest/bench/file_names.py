"""What the name of a result file tells: engine, widths, lengths, concurrency, precision.

Owns these hints, which fill only what the file itself leaves open. Must not override anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from ingest.bench import loads, names
from ingest.bench.identity import Facts

_TOKENS = re.compile(r"[^A-Za-z0-9.]+")
_NUMBERED = (
    (r"(?:isl|in|input|ip)(\d{1,6}k?)", "input_len"),
    (r"(?:osl|out|output|op)(\d{1,6}k?)", "output_len"),
    (r"(?:conc|concurrency|mc|c|users)(\d{1,4})", "concurrency"),
    (r"(?:np|prompts|n)(\d{1,6})", "prompts"),
    (r"(?:bs|batch)(\d{1,5})", "batch_size"),
)
_CLIENT = re.compile(r"(?:vllm|sglang|trtllm|tgi)(?:[_-](?:bench|serve)|\s+bench)\w*")
_WEIGHTS = re.compile(r"(?:\d+b|chat|instruct|base|it)[-_]hf(?![a-z0-9])")  # of a model in their layout
_CARD = re.compile(
    r"(?:(?P<count>\d{1,2})x)?(?P<name>(?:rtx|gtx)?[abhklptv]\d{2,3}[a-z]{0,2}|gh?b?200|gb300|mi\d{3}[axp]?|rtx\w{4,8}|l4|t4)"
)
_LONGEST_NAME = 40
_SERVERS = ("vllm", "sglang", "tensorrt-llm", "llama.cpp", "tgi", "lmdeploy", "ollama")
_WIDTHS = re.compile(r"(tp|tep|dep|dp|ep|pp)(\d{1,3})$")


@dataclass(slots=True)
class Hints:
    """Facts and load that a name tells."""

    facts: Facts = field(default_factory=Facts)
    workload: dict[str, Any] = field(default_factory=dict)

    def as_extra(self) -> dict[str, Any]:
        """What was taken from the name, to be shown."""
        told = {
            "engine": self.facts.engine,
            "quantization": self.facts.quantization,
            "gpu": self.facts.gpu,
            "gpu_count": self.facts.gpu_count,
        }
        found = {key: value for key, value in told.items() if value} | self.facts.settings | self.workload
        return {"from_file_name": found} if found else {}


def hints(name: str) -> Hints:
    """Hints of a file name such as ``glm5_fp8_vllm_tp8_isl1024_osl128_conc16.json``."""
    told = Hints()
    stem = re.sub(r"\.(?:jsonl?|csv|txt|log|md|out|gz|zst)$", "", name.lower())
    stem = _CLIENT.sub("", stem)
    tokens = _TOKENS.split(stem)
    for token in tokens:
        _token(told, token)
    told.facts.engine = _one_server(_WEIGHTS.sub(" ", stem).split())
    if {"vs", "versus"} & set(tokens):  # it names what is compared
        return replace(told, facts=Facts(settings=told.facts.settings))
    return told


def _one_server(words: Iterable[str]) -> str | None:
    """The one server among a name's words; none where a project and a server are named, or two servers."""
    named = {one for word in words for one in names.engines_among(_TOKENS.split(word)) if one != "hf"}
    served = named - {"dynamo"} or named
    return served.pop() if len(served) == 1 else None


def _token(told: Hints, token: str) -> None:
    width = _WIDTHS.fullmatch(token)
    if width:
        _width(told.facts.settings, width[1], int(width[2]))
        return
    if names.known_engine(token):
        return
    card = _CARD.fullmatch(token)
    if card and names.gpu(card["name"]):
        told.facts.gpu = told.facts.gpu or card["name"]
        told.facts.gpu_count = told.facts.gpu_count or (int(card["count"]) if card["count"] else None)
        return
    for pattern, key in _NUMBERED:
        found = re.fullmatch(pattern, token)
        if found:
            number = found[1].removesuffix("k")
            told.workload.setdefault(key, loads.tokens(number, found[1].removeprefix(number)))
            return
    if told.facts.quantization is None and len(token) < 9:
        told.facts.quantization = names.quantization(token)


def _width(settings: dict[str, Any], kind: str, width: int) -> None:
    """``tep8`` is tensor and expert parallel, ``dep8`` data (attention) and expert parallel."""
    common = {"tep": ("tp", "ep"), "dep": ("dp", "ep")}.get(kind, (kind,))
    for key in common:
        settings.setdefault(key, width)


_PRECISION = re.compile(
    r"(?i)(?:fp|int|nvfp|mxfp|bf|w\da)\d{1,2}\w{0,4}|awq|gptq\w*|(?:ud-)?i?q\d_[\w-]{1,8}|nf4"
)


def is_precision(name: str) -> bool:
    """Whether a name is nothing but that of a precision ("W8A8", "awq")."""
    return _PRECISION.fullmatch(name) is not None and names.quantization(name) is not None


def fill_by_test(facts: Facts, test: Any) -> Facts:
    """Facts with the engine and the precision that a test's short name tells ("trtllm_fp8_v2")."""
    name = test.split(" / ")[0] if isinstance(test, str) else ""
    if facts.quantization is None and is_precision(name):
        facts = replace(facts, quantization=names.quantization(name))
    if facts.engine is not None or not 0 < len(name) < _LONGEST_NAME:
        return facts
    told, alone = hints(name), names.known_engine(name)
    if told.facts.engine not in _SERVERS and alone not in names.SERVERS:
        return facts
    return replace(
        facts,
        engine=alone or told.facts.engine,
        quantization=facts.quantization or told.facts.quantization,
    )


def fill_load(load: dict[str, Any], told: Hints) -> dict[str, Any]:
    """A point's load with the width and the lengths of the file's name, where it says none."""
    known = ("concurrency", "batch_size", "input_len", "output_len")
    return {key: one for key, one in told.workload.items() if key in known} | load


def fill_facts(facts: Facts, told: Hints) -> Facts:
    """Facts with the name's hints where they say nothing themselves."""
    return replace(
        facts,
        engine=facts.engine or told.facts.engine,
        quantization=facts.quantization or told.facts.quantization,
        gpu=facts.gpu or told.facts.gpu,
        gpu_count=facts.gpu_count or (told.facts.gpu_count if facts.gpu is None else None),
        settings=told.facts.settings | facts.settings,
    )
