"""What a label names beside a measure: a load, who was measured, a setting.

Owns the tables of such labels. Must not read cells, and must not decide what a label measures.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ingest.bench.quantities import labels, words_of

_TABLES = tuple(
    (kind, tuple((key, re.compile("|".join(any_of))) for key, any_of in labels(kind).items()))
    for kind in ("workload", "identity", "settings")
)
ENGINE_VERSION = re.compile(
    r"(?P<engine>vllm|sglang|tensorrt llm|trt llm|trtllm|llama cpp|tgi|lmdeploy|ollama)(?: git)?(?: version)?"
)
VAGUE_ENGINE = re.compile(r"(?i)backend|stack|tool|library|runtime")
_FLAG = re.compile(r"-([a-z]{1,3})")  # as the command line spells an option
_FLAGS: dict[str, str] = labels("flags")
_BOTH_LENGTHS = re.compile(
    r"(?:sequence length )?(?:input output|in out|isl osl|prompt gen|prompt output)"
    r"(?: len(?:gth)?s?| tokens)?"
)


@lru_cache(maxsize=4096)
def place(label: str) -> tuple[str, str] | None:
    """("workload" | "identity" | "settings", key) of a label, or ``None``."""
    if flag := _FLAG.fullmatch(label.strip()):
        return ("settings", _FLAGS[flag[1]]) if flag[1] in _FLAGS else None
    words = re.sub(r"^[#%] ", "", words_of(label))
    words = re.sub(r"(?<=\w )in tokens?$", "tokens", words)
    for kind, patterns in _TABLES:
        for key, pattern in patterns:
            if pattern.fullmatch(words):
                return kind, key
    if _BOTH_LENGTHS.fullmatch(words):
        return "workload", "input_output_len"
    return None
