"""Ollama server logs: its own structured lines around a llama.cpp runner.

Owns what Ollama prints; the runner's lines are read as llama.cpp prints them. Must not decide how a run
ended.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ingest.assemble import read_log
from ingest.events import Bulk, Grammar, Rule, Values, rule, step
from ingest.formats import Format
from ingest.formats.llama_server_log import RULES as RUNNER_RULES
from ingest.formats.llama_server_log import Timings
from ingest.serverlog import marks
from ingest.sources import Source
from kb.model import Reading

# The unit or container that a log collector names, and the package in the runner's own panics.
_BY_OLLAMA = re.compile(
    r"\bollama\[\d+\]: |^[\w-]*ollama[\w-]* +\| |github\.com/ollama/ollama/", re.MULTILINE
)
_LOOKED_AT = 9  # below any step of a start
_STARTING = frozenset({"build: ", "build_info: ", "build info"})


def _model(found: re.Match[str]) -> Values:
    """The model's file; within the quotes of a command, backslashes stand twice."""
    return {"model": found["model"].replace("\\\\", "\\")}


def _before_runner(one: Rule) -> Rule:
    """A runner's rule; the server reads a model's metadata itself before it starts the runner."""
    is_metadata = one.literal.startswith(("llama_model_loader", "llm_load_print_meta", "print_info"))
    return replace(one, values={**one.values, "step": _LOOKED_AT}) if is_metadata else one


RULES = (
    rule("server config", "start", r"server config"),
    rule("Listening on", "facts", r"Listening on \S+:(?P<port>\d+) \(version (?P<engine_version>[\w.+-]+)\)"),
    rule("Listening on", "idle"),  # it loads a model only when one is asked for
    rule(
        "inference compute",
        "facts",
        r"compute=(?P<arch>[\w.]+) .*?description=\"?(?P<gpu>[^\"]+?)\"? (?:libdirs|driver|type)",
    ),
    rule(
        "inference compute",
        "facts",
        r"library=\w+ .*?compute=(?P<arch>[\w.]+).*? name=(?P<gpu>\"[^\"]+\"|(?!CUDA|ROCm|Vulkan)\S+) total=",
        lambda m: {"arch": m["arch"], "gpu": m["gpu"].strip('"')},
    ),
    rule("inference compute", "facts", r"driver=(?P<cuda>[\d.]+)"),
    rule("inference compute", "facts", r"library=(?!cpu).* total=\"(?P<memory_gib>[\d.]+) GiB"),
    rule(
        "inference compute",
        "facts",
        r"\bid=(?P<id>\S+).*? library=(?!cpu)(?P<library>\w+)",
        lambda m: {"gpu_ids": {m["id"]: m["library"]}},
    ),
    rule("starting llama server", "start", r"--model (?P<model>\S+)", _model),
    rule("starting runner", "start", r"--model (?P<model>\S+)", _model),
    step("starting llama server", "load", 20),
    step("starting runner", "load", 20, r"--model "),  # one without a model only looks at the devices
    rule(
        " file_type=",
        "facts",
        r"architecture=\S+ file_type=(?P<file_type>\S+) name=(?P<title>\"[^\"]+\"|[^\s\"]\S*)",
        lambda m: {"model_title": m["title"].strip('"'), "quantization": f"gguf {m['file_type'].lower()}"},
    ),
    step("waiting for llama runner to start", "load", 21),
    rule("llama runner started", "ready"),
    rule("[GIN]", "served", r"\| 200 \|.*POST"),
    *(_before_runner(one) for one in RUNNER_RULES if one.literal not in _STARTING),
)

GRAMMAR = Grammar(
    engine="ollama",
    carries=True,
    rules=RULES,
    readers=(Timings,),
    bulk=(Bulk(marker=b"[GIN]", busy=(b"| 200 |", b"POST")),),
)


def sniff(source: Source) -> float:
    """By its structured lines and its web framework's access log."""
    head = source.head
    if "level=" in head and re.search(r"^time=\S+ level=\w+ source=\S+ msg=", head, re.MULTILINE):
        return 0.96 if re.search(r"ollama|llama runner|inference compute|runner\.go|OLLAMA_", head) else 0.6
    if _BY_OLLAMA.search(source.raw_head) and ("llama" in head or "ggml_" in head):
        return 0.96
    return marks(head, sure=("OLLAMA_HOST:",), likely=("[GIN] ", "ollama serve"))


def read(source: Source) -> Reading:
    """One experiment per server start."""
    return read_log(source, GRAMMAR, "ollama_server_log")


FORMAT = Format(
    name="ollama_server_log",
    kind="server_log",
    sniff=sniff,
    read=read,
    version=3,
    docs="Ollama server logs with the llama.cpp runner's lines inside.",
)
