"""TensorRT-LLM logs (trtllm-serve, trtllm-bench): old and new logger, MPI ranks, C++ lines.

Owns what TensorRT-LLM prints. Must not decide how a run ended (ingest.classify does).
"""

from __future__ import annotations

import re

from ingest.assemble import read_log
from ingest.events import Bulk, Grammar, Values, number, rule, step
from ingest.formats import Format
from ingest.formats.trtllm_bench import Report, opens_report, reports
from ingest.logline import Line
from ingest.pyrepr import parse_mapping
from ingest.serverlog import ACCESS, COMMON_RULES, marks
from ingest.shown_command import shown_command
from ingest.sources import Source
from kb.model import Reading


def _arguments(found: re.Match[str]) -> Values | None:
    settings = parse_mapping(found["dump"])
    return {"settings": settings, "model": settings.get("model")} if settings else None


_ARGUMENT = re.compile(r"(?<=\s)(\w+)=('[^']*'|True|False|-?\d+(?:\.\d+)?)(?=\s|$)")


def _spaced_arguments(found: re.Match[str]) -> Values:
    """The argument dump of 1.x: ``name=value`` parted by blanks; what is nested has commas and is left."""
    pairs = (f"{name}={value}" for name, value in _ARGUMENT.findall(found["dump"]))
    return {"settings": parse_mapping(f"Args({', '.join(pairs)})"), "model": found["model"]}


def iteration(text: str) -> Values | None:
    """One line of the iteration log: tokens generated over the step's time."""
    tokens = re.search(r"'num_generation_tokens': (\d+)", text)
    step_ms = re.search(r"(?:host_step_time|elapsed_time) = ([\d.]+)(ms|s)\b", text)
    running = re.search(r"num_scheduled_requests: (\d+)", text)
    if tokens is None or step_ms is None:
        return None
    seconds = float(step_ms[1]) / (1000 if step_ms[2] == "ms" else 1)
    if seconds <= 0:
        return None
    load = number(running[1]) if running else None
    return {
        "metrics": {"output_tok_s": round(int(tokens[1]) / seconds, 3)},
        "workload": {} if load is None else {"concurrency": load},
    }


RULES = (
    rule(
        "TensorRT-LLM version: ", "start", r"\[TensorRT-LLM\] TensorRT-LLM version: (?P<engine_version>\S+)"
    ),
    rule("TensorRT LLM version: ", "start", r"TensorRT LLM version: (?P<engine_version>\S+)"),
    step("Starting LLM args validation", "args", 1),
    rule("LLM Args", "facts", r"LLM Args:?\s*(?P<dump>\w*\(.*)", _arguments),
    rule(
        "' tokenizer=",
        "facts",
        r"^model='(?P<model>[^']+)'(?P<dump> tokenizer=.*tensor_parallel_size=.*)",
        _spaced_arguments,
    ),
    rule("Model:\t", "facts", r"^Model:\s+(?P<model>\S+)"),
    rule("KV Cache Dtype:", "facts", r"^KV Cache Dtype:\s+(?P<kv_dtype>\S+)"),
    rule("Quantization:", "facts", r"^Quantization:\s+(?P<quantization>\S+)"),
    rule("TP Size:", "facts", r"^TP Size:\s+(?P<world_size>\d+)"),
    rule(
        "attention backend",
        "choice",
        r"(?:Using|using) (?P<label>\w+) attention backend",
        role="attention",
        how="runs",
    ),
    rule(
        "MoE",
        "choice",
        r"(?:Using|using|selected|resolved to) (?P<label>\w+) (?:MoE|moe)(?: backend)?\b",
        role="moe",
        how="runs",
    ),
    rule(
        "MoEResolutionReport",
        "choice",
        r"MoEResolutionReport.*?(?:selected|resolved)=?'?(?P<label>\w+)",
        role="moe",
        how="runs",
    ),
    step("Using LLM with", "args", 2),
    step("Initializing Executor", "init", 10),
    step("Failed to initialize executor", "init", 10),
    step("Executor worker returned error", "init", 10),
    step("model_lifecycle.cc", "load", 20, r"\] \"?loading: \S+"),
    step("Initializing MPI", "init", 11),
    step("world size", "init", 12),
    step("Prefetching ", "load", 20, r"Prefetching [\d.]+GB checkpoint"),
    step("Loading weights", "load", 21),
    step("safetensors", "load", 21, r"Loading \S+\.safetensors"),
    step("Error executing load_single_module", "load", 21),
    step("Loading safetensors weights in parallel", "load", 21),
    step("Model init total", "kv_cache", 29),
    rule("Processed requests:", "served"),
    step("Loaded engine size", "load", 22, r"Loaded engine size: (?P<engine_mib>\d+) MiB"),
    step("for model weights", "load", 23, r"Use (?P<weights_gib>[\d.]+) GB for model weights"),
    step(
        "Peak memory during memory usage profiling",
        "kv_cache",
        30,
        r"device total memory (?P<memory_gib>[\d.]+) GiB",
    ),
    step("Memory usage when calculating max tokens", "kv_cache", 30, r"total: (?P<memory_gib>[\d.]+) GiB"),
    step("Max KV cache", "kv_cache", 31),
    step(
        "for max tokens in paged KV cache",
        "kv_cache",
        32,
        r"Allocated (?P<kv_cache_gib>[\d.]+) GiB.*?\((?P<kv_tokens>\d+)\)",
    ),
    step("[Autotuner]", "warmup", 40),
    step("CUDA graph instances", "capture", 50, pending="capture"),
    step("CUDA graph warmup", "capture", 51, pending="capture"),
    rule("Total GPU memory (GiB)", "facts", r"Total GPU memory \(GiB\): (?P<memory_gib>[\d.]+)"),
    rule("Application startup complete", "ready"),
    rule("Engine loaded and ready to serve", "ready"),
    rule("Ready to start benchmark", "facts"),
    rule("Starting benchmarking", "ready"),
    rule("Load engine takes:", "ready"),
    rule("Output [Text ", "served"),
    *COMMON_RULES,
)


class ReportRows:
    """Collects a report of trtllm-bench, whose lines have no logger's prefix; ends at one that has."""

    def __init__(self) -> None:
        self.active = False
        self._rows: list[tuple[int, str]] = []

    def feed(self, line: Line) -> list[tuple[str, Values]]:
        """Take a line; what a report told once it has ended."""
        if not self.active and not (line.is_plain and opens_report(line.text)):
            return []
        self._rows = [*self._rows, (line.number, line.text)] if self.active else [(line.number, line.text)]
        self.active = line.is_plain and len(self._rows) < _LONGEST_REPORT
        return [] if self.active else [one for report in reports(self._rows) for one in _told(report)]


def _told(report: Report) -> list[tuple[str, Values]]:
    point, facts = report.point(), report.facts
    known = {
        "model": facts.model,
        "engine_version": facts.engine_version,
        "quantization": facts.quantization,
        "gpu": facts.gpu,
        "gpu_count": facts.gpu_count,
        "settings": dict(facts.settings),
    }
    sample = {
        "metrics": dict(point.metrics),
        "workload": dict(point.workload),
        "client": point.client,
        "line": point.line,
        "stated": True,
    }
    said = ("facts", {key: value for key, value in known.items() if value})
    return [said, ("served", {}), ("sample", sample)] if point.metrics else [said]


_LONGEST_REPORT = 300
GRAMMAR = Grammar(
    engine="tensorrt-llm",
    rules=RULES,
    readers=(ReportRows, shown_command("tensorrt-llm")),
    bulk=(Bulk(marker=b"currank_total_requests = ", read=iteration), ACCESS),
)


_SURE = (
    "[TRT-LLM] [",
    "[TensorRT-LLM][",
    "[TensorRT-LLM] Tensor",
    "libtensorrtllm.cc:",
    "Executor creation failed due to insufficient GPU memory",
)


def sniff(source: Source) -> float:
    """By its two loggers and its banner, and by the words of its executor and of Open MPI beside its name."""
    head = source.head
    named = "tensorrt_llm" in head and "_init failed for some reason" in head
    return 0.6 if named else marks(head, sure=_SURE, likely=("trtllm-serve", "/tensorrt_llm/"))


def read(source: Source) -> Reading:
    """One experiment per server start."""
    return read_log(source, GRAMMAR, "trtllm_server_log")


FORMAT = Format(
    name="trtllm_server_log",
    kind="server_log",
    sniff=sniff,
    read=read,
    version=2,
    docs="TensorRT-LLM logs: Python and C++ loggers, MPI ranks, KV cache sizing, iteration log.",
)
