"""``.env`` files: environment variables of a server, one a line.

Owns only files in which variables that an engine or its libraries read stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ingest.bench.names import is_option
from ingest.events import number
from ingest.formats import Format, Unreadable
from ingest.launches import experiment_of
from ingest.sources import Source
from ingest.traces import line_count
from kb.model import Reading
from kb.vocab.engines import Launch

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


_ANYBODYS = frozenset({"api_key", "log_level", "model_name", "log_file"})
_SHORT = {
    "port": "port",
    "vllm_port": "port",
    "dtype": "dtype",
    "tp": "tensor_parallel_size",
    "gpu_mem": "gpu_memory_utilization",
}
_MODEL = (
    "MODEL",
    "MODEL_ID",
    "MODEL_PATH",
    "MODEL_NAME",
    "HF_MODEL",
    "VLLM_MODEL",
    "SGLANG_MODEL",
    "TARGET_MODEL",
)
_PLACEHOLDER = re.compile(r"<[^<>]*>|\$\{?\w+\}?|")


def is_read_by_a_server(name: str) -> bool:
    """Whether a variable is one that an engine or a library under it reads."""
    return _OURS.match(name) is not None


def sniff(source: Source) -> float:
    """Nothing but assignments and comments, at least one of a known server's variables."""
    lines = [line.strip() for line in source.head.split("\n")[:200]]
    lines = [line for line in lines if line and not line.startswith("#")]
    pairs = [found[1] for line in lines if (found := _LINE.match(line))]
    if not lines or len(pairs) < len(lines) or not any(_OURS.match(name) for name in pairs):
        return 0.0 if len(pairs) < len(lines) or not _are_options(source, pairs) else 0.75
    return 0.9 if source.name.endswith(".env") or ".env" in source.name else 0.75


def _are_options(source: Source, names: list[str]) -> bool:
    """Whether an ``.env`` file is a server's by several variables that are called as its options."""
    told = {name.lower() for name in names if is_option(name.lower())} - _ANYBODYS
    models = {"model", "model_name", "model_id"} & {name.lower() for name in names}
    return ".env" in source.name and (len(told) > 1 or bool(told and models))


def read(source: Source) -> Reading:
    """The variables that a server reads, and those named as one of its options; others are counted only."""
    pairs = dict(_pairs(source))
    found = {name: value for name, value in pairs.items() if is_read_by_a_server(name)}
    engines = {engine for prefix, engine in _ENGINES for name in pairs if name.startswith(prefix)}
    engine = engines.pop() if len(engines) == 1 else None
    settings = _settings(pairs, engine)
    if not found and not settings:
        raise Unreadable("no variable that a known server reads")
    told = Launch(engine=engine, model=_model(pairs), settings=settings, environment=found)
    other = len(pairs) - len(found) - len(settings)
    return Reading(
        path=str(source.path),
        format="env_file",
        kind="config",
        experiments=(experiment_of(told),),
        lines=line_count(len(pairs)),
        extra={"other_variables": other} if other > 0 else {},
    )


def _pairs(source: Source) -> Iterator[tuple[str, str]]:
    """Every variable with a value; one that is left to be filled in has none."""
    for _, raw in source.lines():
        pair = _LINE.match(raw.strip())
        value = re.sub(r"\s+#.*$", "", pair[2]).strip().strip("\"'") if pair else ""
        if pair and not _PLACEHOLDER.fullmatch(value):
            yield pair[1], value


def _settings(pairs: Mapping[str, str], engine: str | None) -> dict[str, Any]:
    """Variables that are called as an option of a server ("MAX_MODEL_LEN"), by that option's name."""
    named = {name.lower(): value for name, value in pairs.items() if not is_read_by_a_server(name)}
    found = {name: one for name, one in named.items() if is_option(name, engine) and name not in _ANYBODYS}
    if found:
        every = {name.lower(): value for name, value in pairs.items()}
        found = {key: every[name] for name, key in _SHORT.items() if name in every} | found
    return {name: one if (value := number(one)) is None else value for name, one in found.items()}


def _model(pairs: Mapping[str, str]) -> str | None:
    told = (value for name, value in pairs.items() if name in _MODEL and "/" in value)
    return next(told, None)


FORMAT = Format(
    name="env_file",
    kind="config",
    sniff=sniff,
    read=read,
    docs="`.env` files with variables that an engine or its libraries read, or that are called as one of its "
    "options (`MAX_MODEL_LEN`).",
)
