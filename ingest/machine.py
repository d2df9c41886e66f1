"""Facts about a machine, as any tool prints them, to the experiment that only supplies hardware.

Owns how product names become catalog names. Must not read files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from kb.model import Backend, Experiment, Hardware
from kb.vocab.gpus import arch_of, candidates, find_gpu, product_name

_MISSING = re.compile(r"(?i)^(?:\[.*\]|n/?a|-|none|unknown|not (?:supported|found)|err!|)$")


def known(text: object) -> str | None:
    """The text itself, or None for the many ways in which tools say that there is no value."""
    word = str(text).strip() if text is not None else ""
    return None if _MISSING.match(word) else word


def hardware(
    names: Iterable[str | None] = (),
    memory_mib: float | None = None,
    compute_cap: str | None = None,
    **facts: Any,
) -> Hardware:
    """What is known of a machine. ``names`` are of all its GPUs; several products give no single name.

    ``facts`` are further fields of Hardware (count, power_limit_w, driver, cuda, topology).
    """
    kinds = tuple(dict.fromkeys(one for name in names if (one := known(name))))
    gpu, arch = _product(kinds, memory_mib)
    facts |= {key: known(facts[key]) for key in ("driver", "cuda") if key in facts}
    return Hardware(
        gpu=gpu,
        arch=arch or (arch_of(compute_cap) if compute_cap else None),
        memory_gib=None if not memory_mib else round(memory_mib / 1024, 2),
        **facts,
    )


def supplies(found: Hardware, backend: Backend | None = None) -> tuple[Experiment, ...]:
    """The one experiment that carries these facts for assembly to join; none when nothing is known."""
    backend = backend or Backend()
    if found == Hardware() and backend == Backend():
        return ()
    return (Experiment(hardware=found, backend=backend),)


def _product(kinds: tuple[str, ...], memory_mib: float | None) -> tuple[str | None, str | None]:
    if not kinds:
        return None, None
    if len(kinds) > 1:
        archs = {arch_of(kind) for kind in kinds}
        return None, archs.pop() if len(archs) == 1 else None
    found = find_gpu(kinds[0], memory_mib)
    if found:
        return product_name(kinds[0], memory_mib), found.arch
    archs = {one.arch for one in candidates(kinds[0], memory_mib)}
    is_cut = kinds[0].endswith("...")
    return None if is_cut else kinds[0], archs.pop() if len(archs) == 1 else None


def described_cards(told: Any) -> tuple[list[str], float | None]:
    """Products and memory (MiB) of a nested description of the cards (``devices``, ``models``)."""
    listed = told.get("devices") or told.get("models") if isinstance(told, dict) else told
    cards = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    names, sizes = list[str](), set[float]()
    for card in cards:
        count = card.get("count")
        name = card.get("name", card.get("model"))
        if isinstance(name, str):
            names += [name] * (count if isinstance(count, int) and 0 < count <= 1024 else 1)
        for key, value in card.items():
            if re.match(r"memory_total_mib", str(key)) and isinstance(value, int | float):
                sizes.add(float(value))
    return names, sizes.pop() if len(sizes) == 1 else None


_QUERIED = re.compile(
    r"(?P<name>(?:NVIDIA|Tesla|Quadro|GeForce)[^,\n]{1,60}?)"
    r"(?:, *(?:(?P<memory>\d{3,7}) MiB|(?P<driver>\d{3}\.\d[\d.]*)))+?(?:, *\d{1,7} MiB)*"
)


def queried_cards(text: str) -> tuple[list[str], float | None, str | None] | None:
    """Products, memory (MiB) and driver of lines that nvidia-smi prints for a query, or ``None``.

    A line names a card and after it, in any order, its memory and its driver; then what is used or free.
    """
    lines = [_QUERIED.fullmatch(line.strip()) for line in text.strip().splitlines()]
    cards = [one for one in lines if one]
    if not cards or len(cards) != len(lines):
        return None
    memory = cards[0]["memory"]
    return [one["name"] for one in cards], float(memory) if memory else None, cards[0]["driver"]
