"""What all server logs share: lines of uvicorn, torch, NCCL, Triton and the driver, and how a log is sniffed.

Owns rules that hold for any engine. Must not know one engine's words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from ingest.events import Bulk, Rule, Values, rule

_DEVICE = re.compile(r"device_name=(?P<name>[\w().+-]+?)(?:,dtype=|,block_shape|,per_channel|\.json)")


def _tuned_path(found: re.Match[str]) -> Values:
    values: Values = {"gpu": found["name"].replace("_", " ")}
    triton = re.search(r"triton_(\d+)_(\d+)_(\d+)/", found.string)
    if triton is not None:
        values["dependencies"] = {"triton": ".".join(triton.groups())}
    return values


COMMON_RULES: tuple[Rule, ...] = (
    rule("device_name=", "facts", _DEVICE.pattern, _tuned_path),
    rule("has a total capacity of", "facts", r"has a total capacity of (?P<memory_gib>[\d.]+) GiB"),
    rule("total capacity;", "facts", r"GPU \d+; (?P<memory_gib>[\d.]+) GiB total capacity"),
    rule("with CUDA capability", "facts", r"(?P<gpu>[\w .()-]{3,80}?) with CUDA capability (?P<arch>sm_\d+)"),
    rule(
        "compute capability",
        "facts",
        r"[Yy]our (?:device '(?P<device>[^'\n]{3,80})'|(?P<card>[\w .()-]{3,80}?) GPU) "
        r"(?:\(with|has) compute capability",
        lambda m: {"gpu": m["device"] or m["card"]},
    ),
    rule("(compute capability ", "facts", r" on (?P<gpu>NVIDIA [\w .-]{3,60}?) \(compute capability \d"),
    rule(
        "NCCL version",
        "facts",
        r"NCCL version (?P<nccl>\d+\.\d+(?:\.\d+)?)",
        lambda m: {"dependencies": {"nccl": m["nccl"]}},
    ),
    rule(
        "is using nccl==",
        "facts",
        r"nccl==(?P<nccl>[\d.]+)",
        lambda m: {"dependencies": {"nccl": m["nccl"]}},
    ),
    rule("Uvicorn running on", "facts", r"Uvicorn running on \w+://[^\s:]{1,64}:(?P<port>\d+)"),
    rule(
        "kernel driver version",
        "facts",
        r"Using CUDA (?P<cuda>[\d.]+) driver version \S+ with kernel driver version (?P<driver>[\d.]+\d)",
    ),
    rule(
        " MiB",
        "facts",
        r"^(?:\d{1,2}, )?(?P<gpu>(?:NVIDIA|Tesla|GeForce|Quadro) [\w ./()-]{2,60}), (?P<mib>\d{3,7}) MiB"
        r"(?:, (?P<driver>\d{3}\.\d{1,3}(?:\.\d{1,3})?))?\s*$",
        lambda m: {"gpu": m["gpu"], "driver": m["driver"], "memory_gib": round(int(m["mib"]) / 1024, 2)},
    ),
    rule("GPU", "facts", r"^\W{0,4}GPU(?: [Nn]ame)?: (?P<gpu>NVIDIA [\w .-]{2,50}?)\s*$"),
    rule("(UUID: GPU-", "facts", r"^\W*GPU \d+: (?P<gpu>[\w .()-]{3,80}?) \(UUID: GPU-"),
    rule("aiting for ", "waiting", r"[Ww]aiting for .{1,80} to (?:start|be ready|join)"),
    rule("KeyboardInterrupt", "stopped", r"^KeyboardInterrupt\b"),
    rule("Driver Version:", "facts", r"Driver Version: (?P<driver>[\d.]+).*?CUDA Version: (?P<cuda>[\d.]+)"),
    rule(
        "SIGTERM", "stopped", r"(?:Received|received|caught|signal=?)\s?(?:signal )?SIGTERM|SIGTERM received"
    ),
    rule("[shutdown] API server: shutdown triggered", "stopped"),
    rule("slurmstepd: error: ***", "stopped", r"\*\*\* (?:JOB|STEP) \S+ ON \S+ CANCELLED AT "),
    rule(
        "To work around",
        "facts",
        r"To work around [^,]{1,80}, (?P<log_advice>.{3,200}?)\.?$",
        lambda m: {"log_advice": f"The log's own advice: {m['log_advice']}."},
    ),
    rule(
        "NCCL INFO",
        "stage",
        r"NCCL INFO .*(?:Connected|Init START|comm .* rank)",
        stage="init",
        step=10,
        pending="distributed",
    ),
)

ACCESS = Bulk(marker=b'" 200 OK', busy=(b'"POST /',))


_LOGGISH = re.compile(
    r"\b(?:INFO|WARN(?:ING)?|ERROR|DEBUG|CRITICAL|FATAL)\b|Traceback \(most|^[ \t]*File \"|"
    r"^\W{0,3}(?:\w{3} )?[\d./T -]{0,14}\d\d:\d\d:\d\d|[Ee]rror: ",
    re.MULTILINE,
)
_PROSE = 40  # lines: a text with fewer marks of a log than one in so many quotes one at most
_DOCUMENT = re.compile(r'\ufeff?\s*[{[]\s*\n\s*["{\[]')


def marks(head: str, sure: Sequence[str], likely: Sequence[str] = ()) -> float:
    """Confidence by marker texts: one of the ``sure`` gives 0.9, two 0.95; one of the ``likely`` 0.5.

    A name alone makes no log: notes, tables and JSON documents name engines, too. A JSON document that holds
    lines of a log is one where no other format knows it better.
    """
    hits = sum(one in head for one in sure)
    if hits:
        return 0.5 if _DOCUMENT.match(head) else 0.95 if hits > 1 else 0.9
    return 0.5 if any(one in head for one in likely) and _is_loggish(head) else 0.0


@lru_cache(maxsize=8)
def _is_loggish(head: str) -> bool:
    """Asked by every log format of every file's head."""
    lines = head.count("\n") + 1
    return not _DOCUMENT.match(head) and len(_LOGGISH.findall(head)) * _PROSE > lines
