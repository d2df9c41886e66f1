"""Command lines of benchmarks that stand in a text: what was asked of the client, or of the engine in it.

Owns finding such a line and its flags. Must not read servers' commands: ``kb.vocab.engines`` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ingest.bench import cells

_ENVIRONMENT = r"(?:[A-Z][A-Z_0-9]*=\S+\s+|(?:time|nohup|sudo|uv|run|exec)\s+)*"
_BEFORE = rf"[$>#+\s]*{_ENVIRONMENT}(?:\S*python\S*\s+(?:-m\s+)?)?\S*"
_SERVING = re.compile(
    _BEFORE + r"(?:vllm\s+bench\s+serve|bench_serving|benchmark_serving|bench_offline_throughput)(?:\.py)?"
    r"\s+(?:--|\\)"
)
_IN_PROCESS = re.compile(
    _BEFORE + r"(?:vllm\s+bench\s+(?:latency|throughput)|benchmark_(?:latency|throughput)(?:\.py)?"
    r"|bench_one_batch|bench_latency)\s+(?:--|\\)"
)
_FLAG = re.compile(r"(?<!\S)--(?P<key>[a-z][\w-]*)(?:[ =]+(?P<value>(?!--)\S+))?")
_ALIASES = (
    ("random_input", "random_input_len"),
    ("random_output", "random_output_len"),
    ("num_prompt", "num_prompts"),
    ("dataset", "dataset_name"),
)


def calls_serving(text: str) -> bool:
    """Whether a line is the command of a client of a server."""
    return _SERVING.match(text) is not None


def serving_command(before: str, text: str) -> str:
    """A client's command line as far as it goes; a backslash at its end continues it on the next line."""
    return _command(before, text, _SERVING)


def in_process(lines: Iterable[str]) -> dict[str, Any]:
    """Arguments of the commands in a text that run an engine for a benchmark, as far as all of them agree."""
    found: list[dict[str, Any]] = []
    command = ""
    for text in lines:
        command = _command(command, text, _IN_PROCESS)
        if command and not command.endswith("\\"):
            found.append(arguments(command))
    first = found[0] if found else {}
    return {key: value for key, value in first.items() if all(one.get(key) == value for one in found)}


def _command(before: str, text: str, tools: re.Pattern[str]) -> str:
    line = text.strip()
    if before.endswith("\\"):
        return before[:-1] + line
    return line if tools.match(line) else ""


def arguments(command: str) -> dict[str, Any]:
    """Arguments of a command line under the names that the client's own dump uses; a variable tells none."""
    told = ((found["key"], (found["value"] or "").strip("\"'")) for found in _FLAG.finditer(command))
    given: dict[str, Any] = {key.replace("-", "_"): value or True for key, value in told if "$" not in value}
    for short, full in _ALIASES:
        if short in given:
            given.setdefault(full, given[short])
    return {key: cells.whole(value) if str(value).isdecimal() else value for key, value in given.items()}
