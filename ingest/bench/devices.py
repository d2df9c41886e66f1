"""What blocks list of a machine in people's pages: devices as tools print them, fields of its setup.

Owns finding them in lines. Must not know any file format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ingest.bench.front import pairs_in
from ingest.bench.identity import Facts
from ingest.bench.places import place

_SMI_GPU = re.compile(
    r"^\|\s+(?P<n>\d+)\s+(?P<name>(?:NVIDIA|Tesla|GeForce|Quadro)[^|]*?)\s+(?:On|Off|N/A)\s+\|"
)
_SMI_HEAD = re.compile(r"Driver Version: (?P<driver>[\d.]+)\s+CUDA Version: (?P<cuda>[\d.]+)")
_DEVICE = re.compile(
    r"Device (?P<n>\d+): (?P<name>[^,]+), (?:compute capability|gfx)|found device: (?P<metal>Apple \S.*)$|"
    r"ggml_vulkan: (?P<v>\d+) = (?P<vulkan>.+?) \([^()|]+\) \|"
)


def machine_in(lines: Iterable[str], facts: Facts) -> Facts:
    """Adds what an nvidia-smi block or llama.cpp's device list tells; a machine listed again is the same."""
    listings: list[list[str]] = []
    for line in lines:
        head, row, device = _SMI_HEAD.search(line), _SMI_GPU.match(line), _DEVICE.search(line)
        if head:
            facts.driver, facts.cuda = facts.driver or head["driver"], facts.cuda or head["cuda"]
        elif row or device:
            first, name = _listed_device(row, device)
            listings += [[]] if first or not listings else []
            listings[-1].append(name)
    if listings and facts.gpu is None:
        facts.gpu, facts.gpu_count = listings[0][0], max(map(len, listings))
    return facts


def _listed_device(row: re.Match[str] | None, device: re.Match[str] | None) -> tuple[bool, str]:
    """(whether a list begins with it, name) of one line of a machine's list of devices."""
    if row is not None or device is None:
        return bool(row and row["n"] == "0"), row["name"] if row else ""
    name = device["name"] or device["metal"] or device["vulkan"]
    return (device["n"] or device["v"] or "0") == "0", name.strip()


_FEWEST_FIELDS = 2


def agreed(blocks: Iterable[str]) -> list[tuple[str, str]]:
    """The fields of blocks that are nothing but "key: value" lines about the server, where all agree."""
    told: dict[str, set[str]] = {}
    for block in blocks:
        lines = [line for line in block.replace("：", ": ").split("\n") if line.strip()]
        pairs = pairs_in(lines)
        about = sum((place(key) or ("",))[0] == "identity" for key, _ in pairs)
        if len(pairs) == len(lines) and about >= _FEWEST_FIELDS:
            for key, value in pairs:
                told.setdefault(key, set()).add(value)
    return [(key, one.pop()) for key, one in told.items() if len(one) == 1]
