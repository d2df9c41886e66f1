"""SGLang server logs, 0.4.6 to 0.5.23: argument dump, choices, life cycle, batch lines.

Owns what SGLang prints. Must not decide how a run ended (ingest.classify does).
"""

from __future__ import annotations

import re

from ingest.assemble import read_log
from ingest.events import Bulk, Grammar, Values, rule, step
from ingest.formats import Format
from ingest.pyrepr import parse_mapping
from ingest.serverlog import ACCESS, COMMON_RULES, marks
from ingest.shown_command import shown_command
from ingest.sources import Source
from kb.model import Reading


def _arguments(found: re.Match[str]) -> Values | None:
    settings = parse_mapping(found["dump"])
    if not settings:
        return None
    return {
        "settings": settings,
        "model": settings.get("model_path"),
        "port": settings.get("port"),
        "quantization": settings.get("quantization"),
    }


def batch(text: str) -> Values | None:
    """One Decode or Prefill batch line: measured throughput of its window, and how full the engine was."""
    is_decode = "Decode batch" in text
    metrics: dict[str, float] = {}
    workload: dict[str, float] = {}
    for name, value in _PAIR.findall(text, text.find(" batch")):
        key = _BATCH_KEYS.get(name)
        if key is not None and (is_decode or key != "output_tok_s"):
            (workload if key in _LOAD_KEYS else metrics)[key] = float(value)
    return {"metrics": metrics, "workload": workload} if metrics else None


_PAIR = re.compile(r"[,.\]] ?([#a-zA-Z][\w #()/.-]{2,40}): (-?\d+(?:\.\d+)?)(?=,|$|\s)")
_BATCH_KEYS = {
    "#running-req": "concurrency",
    "#queue-req": "queued",
    "token usage": "kv_usage",
    "full token usage": "kv_usage",
    "gen throughput (token/s)": "output_tok_s",
    "input throughput (token/s)": "input_tok_s",
    "accept len": "accept_length",
    "accept rate": "accept_rate",
}
_LOAD_KEYS = frozenset({"concurrency", "queued", "kv_usage"})

RULES = (
    rule(
        "server_args=",
        "start",
        r"server_args=(?P<dump>(?:ServerArgs\(|\{).*)",
        _arguments,
        stage="args",
        step=1,
    ),
    rule("SGLang Version ", "start", r"^SGLang Version (?P<engine_version>\d[\w.+]*)"),
    rule(
        "total GPU memory per device (MiB): [",
        "facts",
        r"per device \(MiB\): \[(?P<mib>\d{3,9})",
        lambda m: {"memory_gib": round(int(m["mib"]) / 1024, 2)},
    ),
    # choices
    rule(
        "ttention backend not",
        "choice",
        r"ttention backend not (?:set|explicitly specified|specified)\. "
        r"(?:Use (?P<label>\w+) backend|Falling back to '(?P<other>\w+)')",
        lambda m: {"label": m["label"] or m["other"]},
        role="attention",
        how="auto",
    ),
    rule(
        "MLA optimization is turned on", "choice", r"Use (?P<label>\w+) backend", role="attention", how="auto"
    ),
    rule(
        "attention backend on sm",
        "choice",
        r"Use (?P<label>\w+) as attention backend on",
        role="attention",
        how="auto",
    ),
    rule(
        "attention backend for",
        "choice",
        r"Use (?P<label>\w+) attention backend for",
        role="attention",
        how="auto",
    ),
    rule(
        "as default attention backend",
        "choice",
        r"Use (?P<label>\w+) as (?:the )?default attention backend",
        role="attention",
        how="auto",
    ),
    rule(
        "as the attention backend",
        "choice",
        r"Use (?P<label>\w+) as the (?:default )?attention backend",
        role="attention",
        how="auto",
    ),
    rule(
        "A backends for",
        "choice",
        r"Set [DN]SA backends for .{1,60}?: prefill=(?P<label>\w+), decode=\w+\.",
        role="dsa.prefill",
        how="auto",
    ),
    rule(
        "A backends for",
        "choice",
        r"Set [DN]SA backends for .{1,60}?: prefill=\w+, decode=(?P<label>\w+)\.",
        role="dsa.decode",
        how="auto",
    ),
    rule(
        "HiSparse enabled",
        "choice",
        r"using DSA backends prefill=(?P<label>\w+)",
        role="dsa.prefill",
        how="auto",
    ),
    rule(
        "HiSparse enabled",
        "choice",
        r"using DSA backends prefill=\w+, decode=(?P<label>\w+)",
        role="dsa.decode",
        how="auto",
    ),
    rule("MoE runner backend", "choice", r"Use (?P<label>\w+) as MoE runner backend", role="moe", how="auto"),
    rule(
        "enabling FlashInfer CUTLASS MXFP4 MOE", "choice", role="moe", label="flashinfer_cutlass", how="auto"
    ),
    rule("enabling FlashInfer MXFP4 MOE", "choice", role="moe", label="flashinfer_mxfp4", how="auto"),
    rule("enabling triton_kernel", "choice", role="moe", label="triton_kernel", how="auto"),
    rule("enabling Marlin MOE", "choice", role="moe", label="marlin", how="auto"),
    rule("using triton MOE kernel", "choice", role="moe", label="triton", how="auto"),
    rule(
        "auto-selecting fp4-gemm-backend",
        "choice",
        r"auto-selecting fp4-gemm-backend=(?P<label>\w+)",
        role="gemm.fp4",
        how="auto",
    ),
    rule("FlashInfer AllReduce Fusion", "choice", role="allreduce", label="flashinfer", how="auto"),
    rule(
        "KV cache dtype", "facts", r"(?:Using|Setting) KV cache dtype(?: to|:) (?:torch\.)?(?P<kv_dtype>\w+)"
    ),
    rule(
        "Detected",
        "facts",
        r"Detected (?:ModelOpt )?(?P<quantization>fp8|FP8|NVFP4|MXFP4|nvfp4|mxfp4) checkpoint",
    ),
    rule("quant=", "facts", r"Load weight end\..*?quant=(?P<quantization>[\w-]+),"),
    rule(
        "inear attention kernel backend:",
        "choice",
        r"kernel backend: decode=(?P<label>\w+)",
        role="linear_attention",
        how="runs",
    ),
    # life cycle
    step("Init torch distributed begin", "init", 10, pending="distributed"),
    step("Init torch distributed ends", "init", 11, end=True),
    step("Load weight begin", "load", 20, r"avail mem=(?P<memory_before_load_gib>[\d.]+)"),
    step(
        "Load weight end", "kv_cache", 30, r"type=(?P<architecture>\w+).*?mem usage=(?P<weights_gib>[\d.]+)"
    ),
    step("is allocated.", "warmup", 32, r"#tokens: (?P<kv_tokens>\d+)"),
    step("Post-capture KV sizing", "kv_cache", 31, r"#tokens: (?P<kv_tokens>\d+)"),
    step("Memory pool end", "warmup", 35, r"avail mem=(?P<memory_after_pool_gib>[\d.]+)"),
    step("DeepGEMM JIT", "jit", 36),
    step("Capture cuda graph failed", "capture", 40),
    step("Capture ", "capture", 40, r"Capture .{0,40}?(?:cuda|CUDA) graph begin", pending="capture"),
    step(
        "Capture ",
        "warmup",
        50,
        r"Capture .{0,40}?(?:cuda|CUDA) graph end\..*?(?:elapsed|Time elapsed)[:=] ?(?P<capture_s>[\d.]+)",
        end=True,
    ),
    step(
        "Capture draft ", "capture", 51, r"Capture draft .{0,40}?(?:cuda|CUDA) graph begin"
    ),  # after the target's
    step(
        "max_total_num_tokens=",
        "warmup",
        52,
        r"max_total_num_tokens=(?P<kv_tokens>\d+).*?max_running_requests=(?P<max_running_requests>\d+).*?context_len=(?P<context_length>\d+)",
        end=True,
    ),
    # the router (gateway) in front of several servers
    rule(
        "Starting router on ",
        "start",
        r"Starting router on \S+:(?P<port>\d+) \| mode: (?P<router_mode>\w+)"
        r".*\| policy: (?P<router_policy>\w+)",
    ),
    rule("sgl_model_gateway::server: ", "ready", r"Starting server on \S+:\d+"),
    rule("finished processing request", "served", r"status_code=200"),
    rule("The server is fired up and ready to roll", "ready"),
    rule("SIGTERM received. signum", "stopped"),
    rule("Gracefully exiting...", "stopped"),
    rule("Prefill batch", "served"),
    rule("Decode batch", "served"),
    *COMMON_RULES,
)

GRAMMAR = Grammar(
    engine="sglang",
    rules=RULES,
    readers=(shown_command("sglang"),),
    bulk=(
        Bulk(marker=b"Decode batch", read=batch),
        ACCESS,
        Bulk(marker=b"Prefill batch", read=batch, busy=(b"#inflight-req",), taken=True),
        Bulk(marker=b"obj=GenerateReqInput", busy=None),
    ),
)


_RANKED = re.compile(
    r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?(?: [A-Z_]{2,10}\d{1,4}){1,6}\] ", re.MULTILINE
)


def sniff(source: Source) -> float:
    """By the argument dump, batch lines, its own words, or ranks in the stamp of its lines."""
    found = marks(
        source.head,
        sure=(
            "server_args=ServerArgs(",
            "server_args={'",
            "The server is fired up and ready to roll",
            "Decode batch",
            "Prefill batch",
            "Load weight begin. avail mem=",
            "Load weight end. ",
            "sglang serve: error:",
            "launch_server.py: error:",
            "usage: sglang",
            "sgl_model_gateway::",
            "sglang_router_rs::",
            "Init torch distributed begin.",
            "github.com/sgl-project/sglang/issues/new",
        ),
        likely=("sglang", "Scheduler hit an exception"),
    )
    return max(found, 0.6) if _RANKED.search(source.head) else found


def read(source: Source) -> Reading:
    """One experiment per server start."""
    return read_log(source, GRAMMAR, "sglang_server_log")


FORMAT = Format(
    name="sglang_server_log",
    kind="server_log",
    sniff=sniff,
    read=read,
    version=2,
    docs="SGLang server logs 0.4.6 to 0.5.23: arguments, kernel choices, life cycle, batch lines per rank.",
)
