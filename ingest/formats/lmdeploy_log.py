"""LMDeploy logs (api_server): Python logger and TurboMind's C++ lines.

Owns what LMDeploy prints. Must not decide how a run ended (ingest.classify does).
"""

from __future__ import annotations

import re
from typing import Any

from ingest.assemble import read_log
from ingest.events import Grammar, Values, number, rule, step
from ingest.formats import Format
from ingest.logline import Line
from ingest.pyrepr import parse_mapping
from ingest.serverlog import ACCESS, COMMON_RULES, marks
from ingest.sources import Source
from kb.model import Reading


def _engine_config(found: re.Match[str]) -> Values | None:
    settings = parse_mapping(found["dump"])
    return {"settings": settings, "backend": found["backend"].lower()} if settings else None


def _model_config(found: re.Match[str]) -> Values | None:
    config = parse_mapping(
        found["dump"].replace(": null", ": None").replace(": true", ": True").replace(": false", ": False")
    )
    return {
        "backend": "turbomind",
        "gpu_count": config.get("tensor_para_size"),
        "model_config": {key: value for key, value in config.items() if value},
    }


_OPTIONS = {
    "tensor_para_size": "tp",
    "session_len": "session_len",
    "max_batch_size": "max_batch_size",
    "cache_max_entry_count": "cache_max_entry_count",
    "cache_block_seq_len": "cache_block_seq_len",
    "quant_policy": "quant_policy",
    "enable_prefix_caching": "enable_prefix_caching",
    "num_tokens_per_iter": "num_tokens_per_iter",
    "max_prefill_iters": "max_prefill_iters",
}


def _value(text: str) -> Any:
    if text in ("True", "False"):
        return text == "True"
    told = number(text)
    return text if told is None else told


class ModelConfig:
    """TurboMind's ``model_config:`` of releases before 0.6: an INI section, up to an empty line."""

    def __init__(self) -> None:
        self.active = False
        self._told: dict[str, Any] = {}

    def feed(self, line: Line) -> list[tuple[str, Values]]:
        """Take a line; a start event at the section's end."""
        text = line.text.strip()
        if not self.active:
            self.active = text.endswith("model_config:")
            self._told = {}
            return []
        pair = re.fullmatch(r"(\w+) = ?(.{0,200})", text)
        if pair:
            self._told[pair[1]] = _value(pair[2])
            return []
        if not self._told and (not text or text.startswith("[")):
            return []
        self.active = False
        return self._done()

    def _done(self) -> list[tuple[str, Values]]:
        settings = {_OPTIONS[key]: value for key, value in self._told.items() if key in _OPTIONS}
        if not settings:
            return []
        about = {"settings": settings, "backend": "turbomind", "gpu_count": settings.get("tp")}
        return [("facts", about | {"model": self._told.get("model_name") or None})]


RULES = (
    rule(
        "lmdeploy",
        "facts",
        r"lmdeploy(?: serve api_server| chat|\.serve\.openai\.api_server)"
        r"(?:\s+--[\w-]+(?:=\S+|\s+[^\s/-][^\s/]*)?)*\s+(?P<model>[^\s\[\\-]\S*)",
    ),
    rule("--model-format", "facts", r"lmdeploy .*--model-format[ =](?P<quantization>awq|gptq|fp8|mxfp4)\b"),
    rule(
        "EngineConfig(",
        "start",
        r"(?<!updated backend_config=)(?P<backend>Turbomind|Pytorch)EngineConfig(?P<dump>\(.*)",
        _engine_config,
    ),
    rule(
        "updated backend_config=",
        "facts",
        r"updated backend_config=(?P<backend>Turbomind|Pytorch)EngineConfig(?P<dump>\(.*)",
        _engine_config,
    ),
    rule(
        "input backend=",
        "start",
        r"input backend=(?P<backend>\w+), .*?(?:model_path|model)='?(?P<model>[^',\s]+)",
    ),
    rule("is not explicitly supported by lmdeploy", "facts", r"because `(?P<model>[^`]+)` is not"),
    rule("turbomind model config:", "facts", r"model config: (?P<dump>\{.*)", _model_config),
    step("turbomind model config", "load", 20),
    step(" model params", "load", 20, r"get \d+ model params"),
    step("[LlamaTritonModel]", "load", 21),
    step("[TM][INFO] Barrier", "load", 22),
    step("[BlockManager]", "kv_cache", 30, r"max_block_count = (?P<max_block_count>\d+)"),
    step("[BlockManager] block_size", "kv_cache", 30),
    step("[Gemm2]", "warmup", 40),
    rule("Uvicorn running on", "ready"),
    rule("Application startup complete", "ready"),
    rule("server is gonna mount on:", "ready"),
    rule("HINT:", "ready", r"Please open \S*http"),
    *COMMON_RULES,
)

GRAMMAR = Grammar(engine="lmdeploy", rules=RULES, readers=(ModelConfig,), bulk=(ACCESS,))


def sniff(source: Source) -> float:
    """By its logger's name and TurboMind's prefix."""
    return marks(
        source.head,
        sure=(
            "- lmdeploy - ",
            "[TM][INFO]",
            "[TM][WARNING]",
            "[TM][ERROR]",
            "[TM][FATAL]",
            "gemm_config.in is not found",
        ),
        likely=("lmdeploy",),
    )


def read(source: Source) -> Reading:
    """One experiment per server start."""
    return read_log(source, GRAMMAR, "lmdeploy_server_log")


FORMAT = Format(
    name="lmdeploy_server_log",
    kind="server_log",
    sniff=sniff,
    read=read,
    docs="LMDeploy api_server logs: PyTorch and TurboMind engines.",
)
