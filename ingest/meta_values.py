"""Values of a run's metadata: the first text among several, the hardware and the clients they describe.

Owns reading values whose kind is known. Must not know which key tells which kind, nor any file format.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ingest.machine import described_cards, hardware, known, queried_cards
from kb.model import Hardware
from kb.vocab.gpus import find_gpu

KINDS = ("gpu", "count", "driver", "cuda")  # of what describes hardware
_CLASSES = ("default", "auto", "cuda", "cuda:0", "gpu", "cpu")  # of devices, no products
_IS_CUDA = re.compile(r"1\d\.\d")
_TIMES = re.compile(r"\s*(?:(\d+)\s*[x×]\s*(.+)|(.+?)\s*[(,]?\s*[x×]\s?(\d{1,3})\)?\s*)$")
_NAMES = ("name", "id", "path")


def first_text(values: Sequence[Any]) -> str | None:
    """The first value that says something, or the name of the first object that has one."""
    for value in values:
        if isinstance(value, str | int | float) and not isinstance(value, bool) and known(value):
            return str(value)
        if isinstance(value, dict):
            name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), None)
            if name:
                return str(name)
    return None


def hardware_of(values: Mapping[str, Sequence[Any]]) -> Hardware:
    """The machine that values of the kinds above describe."""
    supported = [one for one in values["driver"] if _IS_CUDA.fullmatch(str(one))]  # by a driver
    driver = first_text([one for one in values["driver"] if one not in supported])
    cuda = first_text([*values["cuda"], *supported])
    names, memory, printed = _cards([*values["gpu"], *values["count"]])
    if names:
        return hardware(names, memory, count=len(names), driver=driver or printed, cuda=cuda)
    text, count = first_text(values["gpu"]), _first([*values["count"], *_counts(values["gpu"])])
    if count is None and isinstance(_first(values["gpu"]), int):
        text, count = None, _first(values["gpu"])
    if isinstance(count, str):  # "gpus": "8x …"
        text, count = text or count, None
    times = _TIMES.match(text or "")
    if times:
        text, count = times[2] or times[3], count or int(times[1] or times[4])
    text = None if text and text.lower() in _CLASSES else text
    product = find_gpu(text) if text else None
    name = product.name if product else text
    return hardware(
        [name] if name else [],
        count=count if isinstance(count, int) and not isinstance(count, bool) else None,
        driver=driver,
        cuda=cuda,
    )


def _counts(values: Sequence[Any]) -> list[Any]:
    return [one.get("count") for one in values if isinstance(one, dict)]


def _first(values: Sequence[Any]) -> Any:
    return next((value for value in values if value is not None), None)


def _cards(values: Sequence[Any]) -> tuple[list[str], float | None, str | None]:
    """Products, memory (MiB) and driver where the cards are listed, or stand as nvidia-smi prints them."""
    for value in values:
        printed = queried_cards(value) if isinstance(value, str) else None
        if printed:
            return printed
        if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
            return list(value), None, None
        names, memory = described_cards(value)
        if names:
            return names, memory, None
    return [], None, None


def client_of(one: Mapping[str, Any]) -> dict[str, Any]:
    """A client's run: its output's file, exit status, start, end and command, as far as told."""
    names = {
        "stdout": ("stdout", "log", "output", "file"),
        "rc": ("rc", "exit_code", "returncode"),
        "start": ("start", "started", "start_time"),
        "end": ("end", "ended", "end_time"),
        "command": ("command", "cmd", "argv"),
    }
    found = {
        name: next((one[key] for key in keys if one.get(key) is not None), None)
        for name, keys in names.items()
    }
    return {name: value for name, value in found.items() if value is not None}
