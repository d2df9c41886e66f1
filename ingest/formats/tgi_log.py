"""Text Generation Inference logs (launcher, router, shards), as text or JSON.

Owns what TGI prints. Must not decide how a run ended (ingest.classify does).
"""

from __future__ import annotations

import re
from typing import Any

from ingest.assemble import read_log
from ingest.events import Bulk, Grammar, Values, number, rule, step
from ingest.formats import Format
from ingest.logline import Line
from ingest.serverlog import COMMON_RULES, marks
from ingest.sources import Source
from kb.model import Reading

MAX_ARGS_LINES = 400
_TEXT = r"\"[^\"]{0,2000}\""
_RUST_FIELD = re.compile(
    rf"(\w+): ({_TEXT}|Some\(\s*(?:{_TEXT}|[^\s(),]{{1,200}}),?\s*\)|\[[^\]]{{0,2000}}\]|[^\s,{{}}]{{1,200}})"
)


class Arguments:
    """The launcher's ``Args { ... }``: one line in JSON logs, many with nested ``Some(`` in text logs."""

    def __init__(self) -> None:
        self.active = False
        self._text = ""
        self._lines = 0

    def feed(self, line: Line) -> list[tuple[str, Values]]:
        """Take a line; a start event once the closing brace has come."""
        text = line.text
        if not self.active:
            at = text.find("Args {")
            if at < 0 or "text_generation_launcher" not in text:
                return []
            self.active, self._text, self._lines = True, text[at + len("Args {") :], 0
        else:
            self._text += text.strip() + " "
            self._lines += 1
        if text.rstrip().endswith("}") or self._lines > MAX_ARGS_LINES:
            return self._done()
        return []

    def _done(self) -> list[tuple[str, Values]]:
        self.active = False
        settings = {
            key: value for key, value in rust_fields(self._text).items() if value not in (None, False, [])
        }
        return [
            (
                "start",
                {
                    "settings": settings,
                    "model": settings.get("model_id"),
                    "port": settings.get("port"),
                    "quantization": settings.get("quantize"),
                    "gpu_count": settings.get("num_shard"),
                },
            )
        ]


def rust_fields(text: str) -> dict[str, Any]:
    """Fields of a Rust debug struct: ``a: "x", b: Some( 2, ), c: None``."""
    found: dict[str, Any] = {}
    for one in _RUST_FIELD.finditer(text):
        found.setdefault(one[1], _rust_value(one[2]))
    return found


def _rust_value(text: str) -> Any:
    inner = re.fullmatch(r"Some\(\s*(.+?),?\s*\)", text, re.DOTALL)
    if inner is not None:
        return _rust_value(inner[1].strip())
    if text.startswith('"'):
        return text.strip('"')
    if text in ("None", "true", "false"):
        return {"None": None, "true": True, "false": False}[text]
    if text.startswith("["):
        return [part.strip(' "') for part in text.strip("[]").split(",") if part.strip()]
    value = number(text)
    return text.lower() if value is None else value


def success(text: str) -> Values | None:
    """A request's line: time per token to a decode speed of one stream."""
    found = re.search(r'time_per_token="?([\d.]+)(ms|s|µs)"?', text) or re.search(
        r'"time_per_token":"([\d.]+)(ms|s|µs)"', text
    )
    if found is None or float(found[1]) <= 0:
        return None
    ms = float(found[1]) * {"ms": 1.0, "s": 1000.0, "µs": 0.001}[found[2]]
    return {"metrics": {"tpot_ms_mean": round(ms, 4)}, "workload": {}}


RULES = (
    rule("Using attention ", "choice", r"Using attention (?P<label>[\w-]+)", role="attention", how="runs"),
    rule(
        "Sharding model on",
        "facts",
        r"Sharding model on (?P<gpu_count>\d+) processes",
        lambda found: {
            "gpu_count": int(found["gpu_count"]),
            "settings": {"num_shard": int(found["gpu_count"])},
        },
    ),
    rule("Serving revision ", "facts", r"Serving revision \w+ of model (?P<model>\S+)"),
    rule("no pipeline tag found for model", "facts", r"no pipeline tag found for model (?P<model>\S+)"),
    step("Starting check and download process", "install", 5),
    step("Successfully downloaded weights", "init", 10),
    step("Starting shard", "load", 20),
    step("Waiting for shard to be ready", "load", 21),
    step("Using prefill chunking", "load", 22),
    step("Server started at unix", "kv_cache", 30),
    step("Shard ready in", "kv_cache", 31),
    step("Starting Webserver", "warmup", 40),
    step("Warming up model", "warmup", 41),
    step("Cuda Graphs are enabled", "capture", 45, pending="capture"),
    step(
        "max batch total tokens to",
        "warmup",
        50,
        r"max batch total tokens to (?P<max_batch_total_tokens>\d+)",
        end=True,
    ),
    step("Method Prefill encountered an error", "serve", 90),
    step("Method Decode encountered an error", "serve", 90),
    rule("max input tokens to", "facts", r"max input tokens to (?P<max_input_tokens>\d+)"),
    rule("Using backend ", "facts", r"Using backend (?P<backend>\w+)"),
    rule("router::server: ", "ready", r"server: (?:\S+:\d+: )?Connected\s*$"),
    rule("Connected", "ready", r"(?:^|: )Connected\s*$"),
    rule("Terminating shard", "stopped", r"^$"),
    rule("signal received, starting graceful shutdown", "stopped"),
    *COMMON_RULES,
)

GRAMMAR = Grammar(
    engine="tgi",
    rules=RULES,
    readers=(Arguments,),
    bulk=(Bulk(marker=b"time_per_token=", read=success), Bulk(marker=b'"time_per_token":', read=success)),
)


def sniff(source: Source) -> float:
    """By the names of its two programs."""
    return marks(
        source.head,
        sure=("text_generation_launcher", "text_generation_router"),
        likely=("text-generation-launcher",),
    )


def read(source: Source) -> Reading:
    """One experiment per server start."""
    return read_log(source, GRAMMAR, "tgi_server_log")


FORMAT = Format(
    name="tgi_server_log",
    kind="server_log",
    sniff=sniff,
    read=read,
    docs="Text Generation Inference logs of launcher, router and shards, as text or with --json-output.",
)
