"""GPUs by any name people and tools use: product, loose label, nickname, architecture.

Owns the lookup over ``gpus.json``. Must not ask the machine and must not guess: a name that no entry
covers gives ``None``, and ``nearest`` tells what was probably meant.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kb import EMPTY

LONGEST_NAME = 400  # longer text names no product
_DATA = Path(__file__).with_name("gpus.json")
_NAMED_ARCH = re.compile(r"^(?:sm|compute|cc|compute[ _]?cap(?:ability)?)[ _:=-]*v?(\d{1,2})[._]?(\d)[af]?$")
_DOTTED = re.compile(r"^(\d{1,2})\.(\d)$")
_GFX = re.compile(r"^(?:amdgcn-amd-amdhsa--)?(gfx\d+[0-9a-f]*)(?::.*)?$")
_SIBLINGS = {"sm121": "sm120", "sm103": "sm100"}


class Gpu(NamedTuple):
    """One product. Memory in GiB as marketed, bandwidth in GB/s, power in W, tflops dense by precision.

    ``capabilities`` maps a capability (bf16, fp8, fp4_tensor, tcgen05_tmem, wgmma, trtllm_gen_cubins,
    tensor_cores) to whether the chip has it; an absent key is unknown. ``shared_memory_kib`` is the most one
    thread block can ask for. ``nvlink_gb_s`` counts both directions. ``None`` is unknown.
    """

    name: str
    vendor: str
    arch: str
    memory_gib: float | None = None
    bandwidth_gb_s: float | None = None
    power_w: float | None = None
    tflops: Mapping[str, float] = EMPTY
    capabilities: Mapping[str, bool] = EMPTY
    shared_memory_kib: int | None = None
    nvlink: bool | None = None
    nvlink_gb_s: float | None = None
    pcie_gen: int | None = None
    kind: str | None = None
    source: str | None = None


def find_gpu(text: str, memory_mib: float | None = None) -> Gpu | None:
    """The product that ``text`` names, or ``None`` when unknown or when a cut name fits several.

    Takes names as nvidia-smi, rocm-smi or llama.cpp print them, labels of benchmark reports, and nicknames
    (``h100``, ``5090``, ``rtx pro 6000``). ``memory_mib`` decides between products whose name was cut.
    """
    found = candidates(text, memory_mib)
    return found[0] if len(found) == 1 else None


def product_name(text: str, memory_mib: float | None = None) -> str | None:
    """The catalog's name of what a tool printed; the printed one where the catalog knows only its family."""
    found = find_gpu(text, memory_mib)
    if found is None:
        return None
    row = next(one for one in _catalog()["gpus"] if one["name"] == found.name)
    is_family = found.name.endswith("Laptop GPU") and not _hits(row, "pattern", found.name)
    return " ".join(text.split()) if is_family and _hits(row, "pattern", text) else found.name


@cache
def candidates(text: str, memory_mib: float | None = None) -> tuple[Gpu, ...]:
    """Every product the text may mean: one for a full name, several for a name cut with dots, or none."""
    name = " ".join(text[:LONGEST_NAME].split())
    if not name or name in _catalog()["unresolvable"] or arch_code(name):
        return ()
    if name.endswith("..."):
        return _of_cut_name(name.rstrip(". "), memory_mib)
    if name.lower() in _names():
        return (_gpu(_names()[name.lower()]),)
    for pattern, spoken in (("pattern", name), ("alias", name), ("alias", _nickname(name))):
        for row in _catalog()["gpus"]:
            if pattern in row and _hits(row, pattern, spoken):
                return (_gpu(row["name"]),)
    return ()


def arch_of(text: str) -> str | None:
    """The architecture (``sm120``, ``gfx942``) of a code, a compute capability, a product or a nickname."""
    code = arch_code(text)
    if code:
        return code
    archs = {gpu.arch for gpu in candidates(text)}
    if archs:
        return archs.pop() if len(archs) == 1 else None
    return _generation(text[:LONGEST_NAME])


def arch_code(text: str) -> str | None:
    """The canonical code when the text is an architecture code (``SM 12.0``, ``sm_120a``), else ``None``."""
    word = " ".join(text[:LONGEST_NAME].lower().split())
    gfx = _GFX.match(word)
    if gfx:
        return gfx[1]
    named = _NAMED_ARCH.match(word) or _DOTTED.match(word)
    if named:
        return f"sm{named[1]}{named[2]}"
    return f"sm{word}" if f"sm{word}" in _catalog()["shared_memory_kib"] else None


def nearest(text: str) -> str | None:
    """The known product name closest to an unknown one, or ``None`` when nothing is close."""
    import difflib  # noqa: PLC0415 - only needed after a miss

    names = {row["name"].lower(): row["name"] for row in _catalog()["gpus"]}
    found = difflib.get_close_matches(text[:LONGEST_NAME].lower(), names, n=1, cutoff=0.6)
    if not found:
        found = difflib.get_close_matches(
            f"nvidia {_nickname(text[:LONGEST_NAME])}".lower(), names, n=1, cutoff=0.6
        )
    return names[found[0]] if found else None


@cache
def memory_sizes_mib() -> frozenset[int]:
    """Every size of memory that a card of the catalog has."""
    return frozenset(round(row["memory_gib"] * 1024) for row in _catalog()["gpus"] if row.get("memory_gib"))


def gpus_of_arch(arch: str) -> tuple[Gpu, ...]:
    """Every catalogued product of one architecture, in catalog order."""
    return tuple(_gpu(row["name"]) for row in _catalog()["gpus"] if row["arch"] == arch)


def known_archs() -> tuple[str, ...]:
    """Every architecture code in the catalog."""
    return tuple(dict.fromkeys(row["arch"] for row in _catalog()["gpus"]))


def arch_facts(arch: str) -> dict[str, Any]:
    """What all products of an architecture share: capabilities (bool) and ``shared_memory_kib``.

    Empty for an architecture that is not catalogued.
    """
    gpus = gpus_of_arch(arch)
    facts: dict[str, Any] = dict(gpus[0].capabilities) if gpus else {}
    for gpu in gpus[1:]:
        facts = {key: value for key, value in facts.items() if gpu.capabilities.get(key) == value}
    shared = _catalog()["shared_memory_kib"].get(arch)
    return facts | ({} if shared is None else {"shared_memory_kib": shared})


def sibling_of(arch: str) -> str | None:
    """The architecture whose facts may be inherited one trust step lower (sm121 ← sm120, sm103 ← sm100)."""
    return _SIBLINGS.get(arch)


def arch_number(arch: str | None) -> int | None:
    """120 for ``sm120``; ``None`` for other vendors."""
    return int(arch[2:]) if arch and arch.startswith("sm") and arch[2:].isdigit() else None


@cache
def _catalog() -> dict[str, Any]:
    catalog: dict[str, Any] = json.loads(_DATA.read_text(encoding="utf-8"))
    return catalog


@cache
def _names() -> dict[str, str]:
    return {row["name"].lower(): row["name"] for row in _catalog()["gpus"]}


@cache
def _gpu(name: str) -> Gpu:
    row = next(one for one in _catalog()["gpus"] if one["name"] == name)
    able = dict.fromkeys(row.get("capabilities", ()), True) | dict.fromkeys(row.get("lacks", ()), False)
    fields = {key: row[key] for key in Gpu._fields if key in row}
    return Gpu(**fields | {"capabilities": able, "source": _catalog()["sources"][row["source"]]})


def _hits(row: Mapping[str, Any], pattern: str, name: str) -> bool:
    hint = row.get(f"{pattern}_hint")
    if hint and not any(literal in name.lower() for literal in hint):
        return False
    return re.search(row[pattern], name, re.IGNORECASE if pattern == "alias" else 0) is not None


def _of_cut_name(stem: str, memory_mib: float | None) -> tuple[Gpu, ...]:
    rows = [row for row in _catalog()["gpus"] if row["name"].startswith(stem)]
    if memory_mib:
        near = [row for row in rows if _fits_memory(row, memory_mib)]
        rows = near or rows
    return tuple(_gpu(row["name"]) for row in rows)


def _fits_memory(row: Mapping[str, Any], memory_mib: float) -> bool:
    size = row.get("memory_gib")
    return size is not None and abs(size * 1024 - memory_mib) < 0.12 * memory_mib


def _nickname(text: str) -> str:
    """A bare product number as the catalog's aliases spell it."""
    word = re.sub(r"[\s_-]+", " ", text.lower()).strip()
    word = re.sub(r"^(?:\d+ ?x ?)?(?:nvidia |geforce )*", "", word)
    bare = re.match(r"^(?:rtx ?)?((?:20|30|40|50)[5-9]0) ?(ti super|ti|super|d v2|d)?$", word)
    if bare:
        return f"rtx {bare[1]} {bare[2] or ''}".strip()
    return _NICKNAMES.get(word, word)


_NICKNAMES = {
    "rtx6000 pro": "rtx pro 6000",
    "spark": "dgx spark",
    "thor": "jetson thor",
    "orin": "jetson orin",
    "pro 6000": "rtx pro 6000",
    "rtx6000pro": "rtx pro 6000",
    "rtx 6000 pro": "rtx pro 6000",
    "6000 pro": "rtx pro 6000",
    "6000 ada": "rtx 6000 ada",
    "rtx6000 ada": "rtx 6000 ada",
    "mi350": "mi350x",
    "mi355": "mi355x",
}


def _generation(text: str) -> str | None:
    word = " ".join(text.lower().split())
    for pattern, arch in _catalog()["generations"]:
        if re.search(pattern, word):
            return str(arch)
    return None
