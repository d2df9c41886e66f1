"""vLLM server logs, 0.6 to 0.33: v0 and v1 engines, API servers, engine cores, workers.

Owns what vLLM prints. Must not decide how a run ended (ingest.classify does).
"""

from __future__ import annotations

import re
from math import prod

from ingest.assemble import read_log
from ingest.events import Bulk, Grammar, Values, number, rule, step
from ingest.formats import Format
from ingest.offline_runs import Batches, Offline
from ingest.pyrepr import parse_mapping
from ingest.serverlog import ACCESS, COMMON_RULES, marks
from ingest.settings import own_options
from ingest.shown_command import shown_command
from ingest.sources import Source
from kb.model import Reading

_WIDTHS = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
_CONFIG_KEYS = (
    *_WIDTHS,
    "kv_cache_dtype",
    "enforce_eager",
    "max_seq_len",
    "load_format",
    "dtype",
    "enable_prefix_caching",
    "speculative_config",
)


def _arguments(found: re.Match[str]) -> Values | None:
    settings = parse_mapping(found["dump"])
    if not settings:
        return None
    if "Namespace(" in found["dump"] or "EngineArgs(" in found["dump"]:
        settings = {key: value for key, value in settings.items() if value not in (None, False, "", [])}
    return {
        "settings": settings,
        "model": settings.get("model") or settings.get("model_tag"),
        "port": settings.get("port"),
        "quantization": settings.get("quantization"),
    }


# A benchmark that runs the engine in its own process; clients of a server know no memory of GPUs.
_IN_PROCESS = re.compile(
    r"^\W{0,6}(?P<dump>(?:Namespace|(?:Async)?EngineArgs)\(.*\bgpu_memory_utilization=.*)"
)


def _in_process(found: re.Match[str]) -> Values | None:
    told = _arguments(found)
    return told and told | {"settings": own_options("vllm", told["settings"])}


def _engine_config(found: re.Match[str]) -> Values:
    config = parse_mapping(found["config"])
    known = {key: config[key] for key in _CONFIG_KEYS if config.get(key) not in (None, "None", "auto")}
    model = config.get("model")
    widths = [config.get(key, 1) for key in _WIDTHS if key in config]
    whole = bool(widths) and all(isinstance(one, int) for one in widths)
    return {
        "device": config.get("device_config"),
        "world_size": prod(widths) if whole else None,
        "engine_version": found["version"],
        "model": model if isinstance(model, str) else None,
        "quantization": config.get("quantization"),
        "engine_config": known,
    }


def stats(text: str) -> Values | None:
    """The periodic statistics line: throughput of a window, requests running and waiting."""
    metrics: dict[str, float] = {}
    workload: dict[str, float] = {}
    for name, pattern in _STATS:
        found = pattern.search(text)
        value = number(found[1]) if found else None
        if value is not None:
            (workload if name in ("concurrency", "queued", "kv_usage_pct") else metrics)[name] = value
    return {"metrics": metrics, "workload": workload} if metrics else None


_STATS = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("input_tok_s", r"Avg prompt throughput: ([\d.]+)"),
        ("output_tok_s", r"Avg generation throughput: ([\d.]+)"),
        ("concurrency", r"Running: (\d+)"),
        ("queued", r"(?:Waiting|Pending): (\d+)"),
        ("kv_usage_pct", r"KV cache usage: ([\d.]+)%"),
    )
)


def speculation(text: str) -> Values | None:
    """The acceptance line of speculative decoding."""
    found = re.search(r"Mean acceptance length: ([\d.]+)", text)
    value = number(found[1]) if found else None
    return None if value is None else {"metrics": {"accept_length": value}, "workload": {}}


def _moe(found: re.Match[str]) -> Values:
    return {"role": "moe", "label": found["label"], "how": "runs", "family": found["family"]}


def _mxfp4(found: re.Match[str]) -> Values:
    is_cutlass = "CUTLASS" in found["kind"] or found["major"] == "SM90"
    return {"label": "flashinfer_cutlass" if is_cutlass else "flashinfer_trtllm"}


_ROCM_LABELS = {
    "Rocm": "ROCM_ATTN",
    "Triton": "TRITON_ATTN",
    "Aiter Flash": "ROCM_AITER_FA",
    "Aiter Unified": "ROCM_AITER_UNIFIED_ATTN",
}


def _linear(found: re.Match[str]) -> Values:
    return {"role": "gemm", "label": found["label"], "how": "runs"}


RULES = (
    rule("non-default args:", "start", r"non-default args: (?P<dump>\{.*)", _arguments),
    rule("args: Namespace(", "start", r"args: (?P<dump>Namespace\(.*)", _arguments),
    rule("gpu_memory_utilization=", "start", _IN_PROCESS.pattern, _in_process),
    rule("vLLM version: ", "facts", r"vLLM version: v?(?P<engine_version>\d[\w.+-]*)$"),
    rule("vLLM API server version", "start", r"vLLM API server version (?P<engine_version>[\w.+-]+)"),
    rule("  version ", "start", r"█.*version (?P<engine_version>\d[\w.+-]*)\s*$"),
    rule("Shutting down FastAPI HTTP server", "stopped"),
    rule("Shutdown initiated (timeout=", "stopped"),
    rule("  model  ", "facts", r"█.*  model\s+(?P<model>\S.*?)\s*$"),
    rule(
        "vLLM server version",
        "start",
        r"vLLM server version (?P<engine_version>[\w.+-]+)(?:, serving model (?P<model>\S+))?",
    ),
    rule(
        " with config: ",
        "facts",
        r"LLM engine (?:\(v(?P<version>[\w.+-]+)\) )?with config: (?P<config>.*)",
        _engine_config,
    ),
    step(" with config: ", "init", 10, r"LLM engine .{0,90}with config: ", pending="init"),
    step("Ray ", "init", 10, r"Started a local Ray instance|Connected to Ray cluster", pending="distributed"),
    rule("Resolved architecture:", "facts", r"Resolved architecture: (?P<architecture>\w+)"),
    rule("Using max model len", "facts", r"Using max model len (?P<context_length>\d+)"),
    rule("data type to store kv cache", "facts", r"Using (?P<kv_dtype>\w+) data type to store kv cache"),
    rule(
        "attention backend",
        "choice",
        r"Using (?:AttentionBackendEnum\.)?(?P<label>[A-Z][A-Z0-9_]+) attention backend(?! for vit)",
        role="attention",
        how="runs",
    ),
    rule(
        " backend.",
        "choice",
        r"Using (?:AttentionBackendEnum\.)?(?P<label>"
        r"(?<=Enum\.)\w+|FLASH(?:INFER|MLA\w*)|XFORMERS|[A-Z]\w*(?:ATTN|ATTENTION|MLA)\w*) backend\.",
        role="attention",
        how="runs",
    ),
    rule("Using Flash Attention backend", "choice", role="attention", label="FLASH_ATTN", how="runs"),
    rule("Using FlashInfer backend", "choice", role="attention", label="FLASHINFER", how="runs"),
    rule("Using XFormers backend", "choice", role="attention", label="XFORMERS", how="runs"),
    rule(
        "Using Triton backend",
        "choice",
        r"Using Triton backend(?: on|\.)",
        role="attention",
        label="TRITON_ATTN",
        how="runs",
    ),
    rule(
        "ttention backend",
        "choice",
        r"Using (?P<label>Rocm|Triton|Aiter Flash|Aiter Unified) Attention backend",
        lambda m: {"label": _ROCM_LABELS[m["label"]]},
        role="attention",
        how="runs",
    ),
    rule("Using FlexAttention backend", "choice", role="attention", label="FLEX_ATTENTION", how="runs"),
    rule("Using ROCmFlashAttention backend", "choice", role="attention", label="ROCM_FLASH", how="runs"),
    rule(
        " backend",
        "choice",
        r"Using (?P<label>Triton MLA|FlashMLA|Cutlass MLA|FlashInfer MLA) backend",
        role="mla",
        how="runs",
    ),
    rule(
        "MLA prefill backend",
        "choice",
        r"Using (?P<label>[\w ]+?) MLA prefill backend",
        role="mla",
        how="runs",
    ),
    rule(
        "Using FlashAttention version",
        "choice",
        r"Using FlashAttention version (?P<version>\d)",
        role="attention",
        label="FLASH_ATTN",
        how="runs",
    ),
    rule(
        "MoE backend",
        "choice",
        r"Using '?(?P<label>[\w ]+?)'? "
        r"(?P<family>NvFp4|Fp8|FP8|Unquantized|Mxfp4|MXFP4|MXFP8|WNA16|Int8) MoE backend",
        _moe,
    ),
    rule(
        "for CompressedTensorsW8A8Fp8MoEMethod",
        "choice",
        r"Using (?P<label>\w+) for CompressedTensors\w+MoEMethod",
        role="moe",
        how="runs",
    ),
    rule(
        "backend for FP8 MoE", "choice", r"Using (?P<label>\w+) backend for FP8 MoE", role="moe", how="runs"
    ),
    rule("Using Marlin backend", "choice", r"Using Marlin backend$", role="moe", label="marlin", how="runs"),
    rule("Using Triton backend", "choice", r"Using Triton backend$", role="moe", label="triton", how="runs"),
    rule(
        "Using FlashInfer MXFP4 ",
        "choice",
        r"Using FlashInfer MXFP4 (?P<kind>BF16|MXFP8 TRTLLM|MXFP8 CUTLASS) backend for (?P<major>SM\d+)",
        _mxfp4,
        role="moe",
        how="runs",
    ),
    rule("MoE TRTLLM backend", "choice", role="moe", label="flashinfer_trtllm", how="runs"),
    rule("Selected ", "choice", r"Selected (?P<label>\w+Kernel) for \w+", _linear),
    rule("LinearMethod", "choice", r"Using (?P<label>\w+Kernel) for \w+LinearMethod", _linear),
    rule(
        "falling back to Triton implementation",
        "choice",
        role="attention",
        label="TRITON_ATTN",
        how="fallback",
    ),
    rule(
        "mamba SSU backend",
        "choice",
        r"Using (?P<label>\w+) (?:as )?mamba SSU backend",
        role="linear_attention",
        how="runs",
    ),
    rule(
        "all-reduce backends",
        "choice",
        r"Using \['(?P<label>\w+)'.*?\] all-reduce backends .*? for group 'tp:",
        role="allreduce",
        how="runs",
    ),
    rule(
        "Free memory on device",
        "facts",
        r"Free memory on device (?:\S+ )?\([\d.]+/(?P<memory_gib>[\d.]+) GiB\)",
    ),
    step(
        "world_size=",
        "init",
        12,
        r"world_size=(?P<world_size>\d+) rank=\d+ .*distributed_init_method",
        pending="distributed",
    ),
    step("vLLM is using nccl==", "init", 13, pending="distributed"),
    step("is assigned as DP rank", "init", 14, end=True),
    step("Starting to load model", "load", 20, r"Starting to load model (?P<model>\S+?)\.\.\.", end=True),
    step("Loading safetensors checkpoint shards", "load", 21),
    step("Loading weights took", "load", 22),
    step("Loading model weights took", "warmup", 30, r"took (?P<weights_gib>[\d.]+)"),
    step("Model loading took", "warmup", 30, r"Model loading took (?P<weights_gib>[\d.]+)"),
    step("Dynamo bytecode transform time", "jit", 35),
    step("for vLLM's torch.compile", "jit", 34),
    step("torch.compile t", "warmup", 36, r"torch\.compile (?:took|takes) (?P<compile_s>[\d.]+) s"),
    step("Creating v1 connector with name", "kv_cache", 40),
    step("Memory profiling takes", "kv_cache", 40),
    step(
        "Available KV cache memory", "kv_cache", 40, r"Available KV cache memory: (?P<kv_cache_gib>-?[\d.]+)"
    ),
    step("GPU KV cache size", "kv_cache", 41, r"KV cache size: (?P<kv_tokens>[\d,]+) tokens"),
    step(
        "Maximum concurrency for",
        "kv_cache",
        42,
        r"Maximum concurrency for [\d,]+ tokens per request: (?P<max_concurrency>[\d.]+)x",
    ),
    step(" blocks: ", "kv_cache", 41, r"# (?:GPU|cuda|rocm|hpu) blocks: (?P<kv_blocks>\d+)"),
    step("Capturing the model for CUDA graphs", "capture", 50, pending="capture"),
    step("Capturing CUDA graph", "capture", 51, pending="capture"),
    step("Profiling CUDA graph memory", "warmup", 37),
    step(
        "Graph capturing finished",
        "warmup",
        60,
        r"Graph capturing finished in (?P<capture_s>[\d.]+) secs",
        end=True,
    ),
    step("init engine (profile, create kv cache", "warmup", 61, r"took (?P<init_s>[\d.]+) s", end=True),
    rule("Application startup complete", "ready"),
    rule(
        "Starting vLLM",
        "facts",
        r"Starting vLLM (?:API )?server .{0,40}?on \w*:?/?/?[^\s:]{0,64}:(?P<port>\d+)",
    ),
    rule("trigger received signal=SIGTERM", "stopped"),
    rule("JIT compilation during inference", "taken"),
    *COMMON_RULES,
)

GRAMMAR = Grammar(
    engine="vllm",
    rules=RULES,
    readers=(Offline, Batches, shown_command("vllm")),
    bulk=(
        Bulk(
            marker=b"Avg prompt throughput",
            read=stats,
            busy=(b"generation throughput:",),
            idle=b"generation throughput: 0.0 ",
        ),
        ACCESS,
        Bulk(marker=b"SpecDecoding metrics", read=speculation, busy=None),
        Bulk(marker=b"Received request ", busy=None, taken=True),
        Bulk(marker=b"Added request ", busy=None, taken=True),
        Bulk(marker=b"Finished request ", busy=None),
        Bulk(marker=b'HTTP/1.1" 500', busy=None),
    ),
)


USAGE = re.compile(r"^(?:vllm(?: [a-z]+)?|api_server\.py): error: ", re.MULTILINE)


_LIKELY = 0.5  # by words that any text about it holds


def sniff(source: Source) -> float:
    """By its banner, its prefix, or its statistics line."""
    head = source.head
    found = marks(
        head,
        sure=(
            "vLLM API server version",
            "non-default args: {",
            "LLM engine (v",
            "Avg generation throughput:",
            "vllm serve: error:",
            "vllm: error:",
            "api_server.py: error: ",
            "[vllm.py:",
            "(APIServer pid=",
            "(EngineCore pid=",
            "(EngineCore_0 pid=",
            "(EngineCore_DP0 pid=",
            "(VllmWorkerProcess pid=",
            "vllm.engine",
            "llm_engine.py:",
        ),
        likely=("vllm/", "vLLM"),
    )
    prefixed = re.search(
        r"^(?:\([\w .]+ pid=\d+\) )?(?:DEBUG|INFO|WARNING|ERROR) "
        r"\d\d-\d\d \d\d:\d\d:\d\d \[?[\w/]+\.py:\d+\]",
        head,
        re.MULTILINE,
    )
    if USAGE.search(head):
        return 0.97
    if not prefixed and found <= _LIKELY and "No module named 'vllm'" in head:
        return 0.0  # of a machine that has none
    return max(found, 0.8) if prefixed else found


def read(source: Source) -> Reading:
    """One experiment per server start."""
    return read_log(source, GRAMMAR, "vllm_server_log")


FORMAT = Format(
    name="vllm_server_log",
    kind="server_log",
    sniff=sniff,
    read=read,
    version=3,
    docs="vLLM server logs 0.6 to 0.33: arguments, kernel choices, life cycle, statistics, both engines.",
)
