"""``nvidia-smi nvlink``: the links of each GPU, their speed, and whether they are up.

Owns ``-s`` (status) and what the tool says where there is no NVLink.
"""

from __future__ import annotations

import re

from ingest.bench import cells
from ingest.formats import Format
from ingest.formats.nvidia_smi_list import GPU_LINE
from ingest.gpu_csv import is_around
from ingest.machine import hardware
from ingest.sources import Source
from ingest.traces import line_count, trace_reading
from kb.model import Problem, Reading

_LINK = re.compile(r"^\s+Link (\d+): (?:(<?inactive>?)|([\d.]+) GB/s)\s*$", re.IGNORECASE)
_INFO = re.compile(r"^\s+(?:NVLE|Firmware Version|MSE|NETIR[ A-Z]*): ?.*$")
_NONE = re.compile(
    r"^(?:Device does not have or support Nvlink|NVML: Unable to retrieve Nvlink .*|"
    r"Nvlink queries are not supported .*|Link \d+, .*: .*|Link \d+: .* (?:Errors?|Data|Throughput).*)$",
    re.IGNORECASE,
)


def sniff(source: Source) -> float:
    """A line of a GPU, then its links or a sentence about them."""
    lines = [line for line in source.head.split("\n")[:8] if line.strip()]
    named = any(GPU_LINE.match(line) for line in lines[:3])
    return 0.97 if named and any(_tells(line) for line in lines) else 0.0


def _tells(line: str) -> bool:
    return bool(_LINK.match(line) or _INFO.match(line) or _NONE.match(line.strip()))


def read(source: Source) -> Reading:
    """Links per GPU: how many are up, at which speed in one direction (GB/s)."""
    gpus: list[dict[str, object]] = []
    problems, lines, odd, names = list[Problem](), 0, 0, list[str | None]()
    for number, line in source.lines():
        if not line.strip():
            continue
        lines += 1
        if is_around(line):
            continue
        card, link = GPU_LINE.match(line), _LINK.match(line)
        if card:
            names.append(card[2])
            gpus.append(
                {"gpu": int(card[1]), "links_up": 0, "links_down": 0, "link_gb_s": None, "says": None}
            )
        elif link and gpus:
            _add(gpus[-1], link)
        elif _NONE.match(line.strip()) and gpus:
            gpus[-1]["says"] = gpus[-1]["says"] or line.strip()
        elif not _INFO.match(line):
            odd += 1
            problems.append(Problem(line=number, what=f"says nothing about a link: {line.strip()[:100]}"))
    return trace_reading(
        str(source.path),
        "nvidia_smi_nvlink",
        None,
        hardware(names, count=_count(gpus), topology=_word(gpus)),
        tool="nvidia-smi",
        lines=line_count(lines, odd),
        problems=problems[:5],
        extra={"nvlink": [one for one in gpus if one["links_up"] or one["links_down"] or one["says"]]},
    )


def _add(gpu: dict[str, object], link: re.Match[str]) -> None:
    key = "links_down" if link[2] else "links_up"
    before = gpu[key]
    gpu[key] = before + 1 if isinstance(before, int) else 1
    if link[3]:
        speed = cells.number(link[3])
        gpu["link_gb_s"] = gpu["link_gb_s"] if speed is None else speed


def _count(gpus: list[dict[str, object]]) -> int | None:
    """How many GPUs there are; None where the tool was asked for some of them (-i)."""
    return len(gpus) if gpus and [one["gpu"] for one in gpus] == list(range(len(gpus))) else None


def _word(gpus: list[dict[str, object]]) -> str | None:
    """``18 NVLinks per GPU at 26.562 GB/s`` where all are alike, ``no NVLink`` where the tool says so."""
    kinds = {(one["links_up"], one["link_gb_s"]) for one in gpus}
    if len(kinds) != 1:
        return None
    count, speed = kinds.pop()
    if not count:
        return "no NVLink" if all(str(one["says"]).startswith("Device does not") for one in gpus) else None
    return f"{count} NVLinks per GPU at {speed} GB/s"


FORMAT = Format(
    name="nvidia_smi_nvlink",
    kind="trace",
    sniff=sniff,
    read=read,
    docs="Output of `nvidia-smi nvlink -s`: links per GPU, up or down, and the speed of each; "
    "of `-info` only the GPUs.",
)
