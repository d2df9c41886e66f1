"""LMDeploy logs (api_server): Python logger and TurboMind's C++ lines.

Owns what LMDeploy prints. Must not decide how a run ended (ingest.classify does).
"""

from __future__ import annotations

import re

from ingest.assemble import read_log
from ingest.events import Grammar, Values, rule, step
from ingest.formats import Format
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


RULES = (
    rule(
        "EngineConfig(", "start", r"(?P<backend>Turbomind|Pytorch)EngineConfig(?P<dump>\(.*)", _engine_config
    ),
    rule(
        "input backend=",
        "start",
        r"input backend=(?P<backend>\w+), .*?(?:model_path|model)='?(?P<model>[^',\s]+)",
    ),
    rule("is not explicitly supported by lmdeploy", "facts", r"because `(?P<model>[^`]+)` is not"),
    rule("turbomind model config:", "facts", r"model config: (?P<dump>\{.*)", _model_config),
    step("turbomind model config", "load", 20),
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

GRAMMAR = Grammar(engine="lmdeploy", rules=RULES, bulk=(ACCESS,))


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
