"""llama.cpp logs (llama-server and its tools): old style, prefixed style, GGUF metadata, slots and timings.

Owns what llama.cpp prints. Must not decide how a run ended (ingest.classify does).
"""

from __future__ import annotations

import re

from ingest.assemble import read_log
from ingest.events import Bulk, Grammar, Values, number, rule, step
from ingest.formats import Format
from ingest.logline import Line
from ingest.serverlog import COMMON_RULES, marks
from ingest.shown_command import shown_command
from ingest.sources import Source
from kb.model import Reading

_FLOAT = r"[\d.,]+"
_TIMING = re.compile(
    rf"(?P<what>prompt eval|eval|total) time\s*=\s*(?P<ms>{_FLOAT}) ms /\s*(?P<tokens>\d+) (?:tokens|runs)"
    rf"(?:.*?(?P<speed>{_FLOAT}) tokens per second)?"
)


class Timings:
    """The three lines that follow a request: prompt, generation, total; one stated measurement each time."""

    active = False

    def __init__(self) -> None:
        self._held: Values = {}

    def feed(self, line: Line) -> list[tuple[str, Values]]:
        """Take a line; a measurement once the total (or a second prompt line) has come."""
        if " time" not in line.text:
            return []
        found = _TIMING.search(line.text)
        if found is None:
            return []
        what = found["what"]
        done = self._take() if what == "prompt eval" and self._held else []
        speed = number(found["speed"])
        if what == "prompt eval":
            self._held |= {
                "input_tokens": int(found["tokens"]),
                "input_tok_s": speed,
                "ttft_ms_mean": number(found["ms"]),
            }
        elif what == "eval":
            self._held |= {"output_tokens": int(found["tokens"]), "output_tok_s": speed}
        else:
            self._held["e2e_ms_mean"] = number(found["ms"])
            return [*done, *self._take()]
        return done

    def _take(self) -> list[tuple[str, Values]]:
        metrics, self._held = {key: value for key, value in self._held.items() if value is not None}, {}
        return [("served", {}), ("sample", {"metrics": metrics, "workload": {"concurrency": 1}})]


def _build(found: re.Match[str]) -> Values:
    return {"engine_version": f"b{found['number']}", "build": found["build"]}


def _device(found: re.Match[str]) -> Values:
    name = found["gpu"].strip()
    values: Values = {"gpu": name}
    if found.groupdict().get("capability"):
        values["arch"] = "sm" + found["capability"].replace(".", "")
    return values


def _listed(found: re.Match[str]) -> Values:
    values: Values = dict(found.groupdict())
    return values | {"gpus": {values.pop("device"): values["gpu"]}}


RULES = (
    rule("build: ", "start", r"^build: (?P<build>(?P<number>\d+) \(\w+\)) with", _build),
    rule("version: ", "facts", r"^version: (?P<build>(?P<number>\d+) \(\w+\))$", _build),
    rule("build ", "facts", r"^build {2,}: (?P<build>b(?P<number>\d+)-\w+)$", _build),
    rule("build = ", "start", r": build = (?P<build>(?P<number>\d+) \(\w+\))", _build),
    rule("build_info: ", "start", r"build_info: (?P<build>b?(?P<number>\d+)-\w+)", _build),
    rule("build info", "start", r"(?P<build>build info \| .*?build=(?P<number>\d+))", _build),
    rule("ggml_cuda_init: found", "facts", r"found (?P<gpu_count>\d+) (?:CUDA|ROCm) devices"),
    rule(
        "  Device ",
        "facts",
        r"Device \d+: (?P<gpu>[^,]+), compute capability (?P<capability>\d+\.\d)",
        _device,
    ),
    rule("  Device ", "facts", r"Device \d+: (?P<gpu>[^,]+), (?P<arch>gfx\w+)"),
    rule("ggml_vulkan: ", "facts", r"ggml_vulkan: \d+ = (?P<gpu>.+?) \([^()|]+\) \|"),
    rule(
        "using device ",
        "facts",
        r"using device (?P<device>(?P<backend>CUDA|ROCm|Metal|MTL|Vulkan|SYCL)\d*) "
        r"\((?P<gpu>.+?)\)(?: \([\w:.]+\))? - (?P<free_mib>\d+) MiB free",
        _listed,
    ),
    rule(
        " MiB free)",
        "facts",
        r"(?:^|\s)- (?P<device>(?P<backend>CUDA|ROCm|MTL|Vulkan|SYCL)\d*)\s*: "
        r"(?P<gpu>.+?) \(\d+ MiB, (?P<free_mib>\d+) MiB free\)",
        _listed,
    ),
    rule(
        "ARCHS = ",
        "facts",
        r"(?:CUDA|ROCm) : ARCHS = (?P<archs>[\d,a-z]+)",
        lambda m: {"compiled_archs": m["archs"].split(",")},
    ),
    rule("--model ", "facts", r"(?:--model|-m) (?P<model>\S+\.gguf)\b"),
    step("loading model", "load", 20, r"loading model(?: '(?P<model>[^']+)')?"),
    step("llama_model_loader: loaded meta data", "load", 21, r"tensors from (?P<model>.+?) \(version"),
    rule("general.architecture str", "facts", r"general\.architecture str\s+= (?P<architecture>\S+)"),
    rule("general.name str", "facts", r"general\.name str\s+= (?P<model_title>.+)"),
    rule(
        "file type",
        "facts",
        r"print_info: file type\s+= (?P<file_type>.+)",
        lambda m: {
            "quantization": "gguf " + m["file_type"].split(" ")[0].lower(),
            "file_type": m["file_type"].strip(),
        },
    ),
    rule(
        "model ftype",
        "facts",
        r"model ftype\s+= (?P<file_type>.+)",
        lambda m: {
            "quantization": "gguf " + m["file_type"].split(" ")[0].lower(),
            "file_type": m["file_type"].strip(),
        },
    ),
    rule("model params", "facts", r"model params\s+= (?P<parameters>.+)"),
    rule("file size", "facts", r"print_info: file size\s+= (?P<file_size>.+)"),
    step("llm_load_print_meta: ", "load", 21),
    step("print_info: ", "load", 21),
    step("load_tensors: loading model tensors", "load", 22),
    step("offloaded ", "load", 23, r"offloaded (?P<offloaded>\d+/\d+) layers to GPU"),
    rule(
        "model buffer size",
        "facts",
        r"(?P<device>\w+) model buffer size = +(?P<mib>[\d.]+) MiB",
        lambda m: {f"model_buffer_mib_{m['device']}": m["mib"]},
    ),
    step("constructing llama_context", "kv_cache", 31),
    step("llama_context: n_ctx ", "kv_cache", 31, r"n_ctx\s+= (?P<n_ctx>\d+)"),
    rule("llama_context: n_batch ", "facts", r"n_batch\s+= (?P<n_batch>\d+)"),
    rule("llama_context: n_ubatch ", "facts", r"n_ubatch\s+= (?P<n_ubatch>\d+)"),
    rule("flash_attn ", "facts", r"flash_attn\s+= (?P<flash_attn>\w+)"),
    rule(
        "Flash Attention was auto, set to",
        "facts",
        r"Flash Attention was auto, set to (?P<flash_attn_resolved>\w+)",
    ),
    step("llama_new_context_with_model: n_ctx ", "kv_cache", 31, r"n_ctx\s+= (?P<n_ctx>\d+)"),
    step("llama_kv_cache_init:", "kv_cache", 31),
    step("llama_kv_cache", "warmup", 32, r"llama_kv_cache\w*: size = +(?P<kv_mib>[\d.]+) MiB"),
    step("KV self size", "warmup", 32, r"KV self size\s+= +(?P<kv_mib>[\d.]+) MiB"),
    step("warming up the model with an empty run", "warmup", 40),
    step("initializing slots, n_slots", "warmup", 41, r"n_slots = (?P<n_slots>\d+)"),
    rule("server is listening on", "ready", r"server is listening on (?P<url>\S+)"),
    rule("server is listening on", "facts", r"server is listening on \w+://[^\s:]{1,64}:(?P<port>\d+)"),
    rule("HTTP server listening", "ready"),
    rule("quantize time = ", "ready"),
    rule("all slots are idle", "ready"),
    rule("print_timing", "served"),
    rule("processing task", "served"),
    rule(
        "draft acceptance",
        "sample",
        r"draft acceptance(?: rate)? = [\d.]+ .*?mean len = (?P<length>[\d.]+)",
        lambda m: {"metrics": {"accept_length": float(m["length"])}, "workload": {}},
    ),
    rule("cleaning up before exit", "stopped", r"(?:SIGINT|SIGTERM|received).*cleaning up"),
    *COMMON_RULES,
)

GRAMMAR = Grammar(
    engine="llama.cpp",
    rules=RULES,
    readers=(Timings, shown_command("llama.cpp")),
    bulk=(
        Bulk(marker=b"prompt processing progress", busy=()),
        Bulk(marker=b"log_server_r: ", busy=(b" 200",)),
        Bulk(marker=b"memory_seq_rm [", busy=None),
        Bulk(marker=b"sampler chain: ", busy=None),
        Bulk(marker=b"selected slot by L", busy=None),
    ),
)


# Its logger's prefix since 2026: seconds since its start, in four parts, and a level.
_PREFIXED = re.compile(r"^\d{1,4}\.\d\d\.\d{3}\.\d{3} [IWE] [a-z]", re.MULTILINE)


def sniff(source: Source) -> float:
    """By the names of its functions in front of its lines."""
    head = source.head
    found = marks(
        head,
        sure=(
            "llama_model_loader:",
            "llm_load_tensors:",
            "load_tensors:",
            "llm_load_print_meta:",
            "llama_model_load: error",
            "ggml_backend_cuda_buffer_type_alloc_buffer:",
            "ggml_vulkan: Found",
            "(ggml_abort+",
            "ggml_cuda_init:",
            "ggml_metal_device_init:",
            "srv    load_model:",
            "srv  update_slots:",
            "slot print_timing:",
            "slot launch_slot_:",
            "slot update_slots:",
            "llama_model_load_from_file_impl:",
            "build_info: b",
            "common_init_from_params:",
        ),
    )
    # Ollama wraps llama.cpp's lines; llama-bench prints the same device lines before its table.
    if "msg=" in head and "level=" in head and "source=" in head:
        return min(found, 0.6)
    if found < 0.9 and _PREFIXED.search(head):
        found = 0.9
    if "slot print_timing: " in head:
        return 0.97  # each of its timing lines reads like a result
    if re.search(r"^\| [^|]+\|.*\| *(?:pp|tg)\d+[^|]*\|[^|]+\|$", head, re.MULTILINE):
        return min(found, 0.4)
    return found


def read(source: Source) -> Reading:
    """One experiment per server start."""
    return read_log(source, GRAMMAR, "llama_server_log")


FORMAT = Format(
    name="llama_server_log",
    kind="server_log",
    sniff=sniff,
    read=read,
    version=2,
    docs="llama.cpp server logs, plain or prefixed: devices, GGUF metadata, offload, KV cache, timings.",
)
