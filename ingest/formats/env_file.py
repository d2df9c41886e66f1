"""``.env`` files: environment variables of a server, one a line.

Owns only files in which variables that an engine or its libraries read stand.
"""

from __future__ import annotations

import re

from ingest.formats import Format, Unreadable
from ingest.machine import supplies
from ingest.sources import Source
from ingest.traces import line_count
from kb.model import Backend, Hardware, Reading

_LINE = re.compile(r"^(?:export\s+)?([A-Za-z_]\w*)=(.*)$")
_OURS = re.compile(
    r"^(?:VLLM|SGLANG|SGL|NCCL|CUDA|TORCH|HF|HIP|ROCM|TRTLLM|TLLM|FLASHINFER|LLAMA|GGML|TRITON|UCX|NVSHMEM|RCCL|"
    r"AITER|PYTORCH|TOKENIZERS|TRANSFORMERS|DG|OMP)_\w+$"
)
_ENGINES = (
    ("VLLM_", "vllm"),
    ("SGLANG_", "sglang"),
    ("SGL_", "sglang"),
    ("TRTLLM_", "tensorrt-llm"),
    ("LLAMA_", "llama.cpp"),
)


def sniff(source: Source) -> float:
    """Nothing but assignments and comments, at least one of a known server's variables."""
    lines = [line.strip() for line in source.head.split("\n")[:200]]
    lines = [line for line in lines if line and not line.startswith("#")]
    pairs = [found[1] for line in lines if (found := _LINE.match(line))]
    if not lines or len(pairs) < len(lines) or not any(_OURS.match(name) for name in pairs):
        return 0.0
    return 0.9 if source.name.endswith(".env") or ".env" in source.name else 0.75


def read(source: Source) -> Reading:
    """The variables that a server reads; others are counted only."""
    found, lines, other = dict[str, str](), 0, 0
    for _, raw in source.lines():
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        lines += 1
        pair = _LINE.match(line)
        if pair and _OURS.match(pair[1]):
            found[pair[1]] = re.sub(r"\s+#.*$", "", pair[2]).strip().strip("\"'")
        else:
            other += 1
    if not found:
        raise Unreadable("no variable that a known server reads")
    engines = {engine for prefix, engine in _ENGINES for name in found if name.startswith(prefix)}
    backend = Backend(engine=engines.pop() if len(engines) == 1 else None, environment=found)
    return Reading(
        path=str(source.path),
        format="env_file",
        kind="config",
        experiments=supplies(Hardware(), backend),
        lines=line_count(lines),
        extra={"other_variables": other} if other else {},
    )


FORMAT = Format(
    name="env_file",
    kind="config",
    sniff=sniff,
    read=read,
    docs="`.env` files with variables that an engine or its libraries read.",
)
