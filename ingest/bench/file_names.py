"""What the name of a result file tells: engine, widths, lengths, concurrency, precision.

Owns these hints, which fill only what the file itself leaves open. Must not override anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from ingest.bench import names
from ingest.bench.identity import Facts

_TOKENS = re.compile(r"[^A-Za-z0-9.]+")
_NUMBERED = (
    (r"(?:isl|in|input|ip)(\d{1,6}k?)", "input_len"),
    (r"(?:osl|out|output|op)(\d{1,6}k?)", "output_len"),
    (r"(?:conc|concurrency|mc|c|users)(\d{1,4})", "concurrency"),
    (r"(?:np|prompts|n)(\d{1,6})", "prompts"),
    (r"(?:bs|batch)(\d{1,5})", "batch_size"),
)
_CLIENT = re.compile(r"(?:vllm|sglang|trtllm|tgi)[_-](?:bench|serve)\w*")
_WIDTHS = re.compile(r"(tp|tep|dep|dp|ep|pp)(\d{1,3})$")


@dataclass(slots=True)
class Hints:
    """Facts and load that a name tells."""

    facts: Facts = field(default_factory=Facts)
    workload: dict[str, Any] = field(default_factory=dict)

    def as_extra(self) -> dict[str, Any]:
        """What was taken from the name, to be shown."""
        told = {"engine": self.facts.engine, "quantization": self.facts.quantization}
        found = {key: value for key, value in told.items() if value} | self.facts.settings | self.workload
        return {"from_file_name": found} if found else {}


def hints(name: str) -> Hints:
    """Hints of a file name such as ``glm5_fp8_vllm_tp8_isl1024_osl128_conc16.json``."""
    told = Hints()
    stem = re.sub(r"\.(?:jsonl?|csv|txt|log|md|out|gz|zst)$", "", name.lower())
    stem = _CLIENT.sub("", stem)
    for token in _TOKENS.split(stem):
        _token(told, token)
    return told


def _token(told: Hints, token: str) -> None:
    width = _WIDTHS.fullmatch(token)
    if width:
        _width(told.facts.settings, width[1], int(width[2]))
        return
    if names.known_engine(token):
        told.facts.engine = told.facts.engine or names.engine(token)
        return
    for pattern, key in _NUMBERED:
        found = re.fullmatch(pattern, token)
        if found:
            number = found[1].removesuffix("k")
            told.workload.setdefault(key, int(number) * (1024 if found[1].endswith("k") else 1))
            return
    if told.facts.quantization is None and len(token) < 9:
        told.facts.quantization = names.quantization(token)


def _width(settings: dict[str, Any], kind: str, width: int) -> None:
    """``tep8`` is tensor and expert parallel, ``dep8`` data (attention) and expert parallel."""
    common = {"tep": ("tp", "ep"), "dep": ("dp", "ep")}.get(kind, (kind,))
    for key in common:
        settings.setdefault(key, width)


def fill_facts(facts: Facts, told: Hints) -> Facts:
    """Facts with the name's hints where they say nothing themselves."""
    return replace(
        facts,
        engine=facts.engine or told.facts.engine,
        quantization=facts.quantization or told.facts.quantization,
        settings=told.facts.settings | facts.settings,
    )
