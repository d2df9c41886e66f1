"""What measured kernel times say of a candidate's kernels, and what that is worth to a whole step.

Owns the comparison of the kernels of one role for one layer shape and load. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

from kb.measurements import KernelTimes
from recommend.candidates import layout_for
from recommend.physics import Load, expert_params_b
from recommend.question import Query

# A pair of kernels of one role moves a whole step by at most the role's share of it.
ROLE_SHARE = {"moe": 0.5, "attention.decode": 0.2, "attention.prefill": 0.1}
# What two engines measure of one and the same kernel differs by a tenth in the median and by up to 1.4 times:
# a difference between kernels that only another engine measured counts by its root.
ELSEWHERE = 0.5


class Gap(NamedTuple):
    """How much longer a kernel takes than the fastest measured one of its role (``ratio``, 1 is the fastest).

    ``engine`` is whose measurement of the slower one it is, ``load`` the measured point (tokens, or batch x
    length), ``gpu`` the product that was measured.
    """

    role: str
    kernel: str
    ratio: float
    fastest: str
    gpu: str
    engine: str
    load: str
    shape: str


class _Time(NamedTuple):
    ms: float
    load: str
    source: KernelTimes


def gaps(query: Query, load: Load, kernels: Sequence[KernelTimes]) -> tuple[Gap, ...]:
    """What is measured of a candidate's kernels at a load, role by role."""
    found = (gap(role, query, load, kernels) for role in ROLE_SHARE if kernels)
    return tuple(one for one in found if one is not None)


def gap(role: str, query: Query, load: Load, kernels: Iterable[KernelTimes]) -> Gap | None:
    """How much longer a role's kernel takes than the fastest, or ``None`` where not both were measured."""
    kernel = query.kernel(role)
    best = _best(role, query, load, kernels) if kernel else {}
    if kernel is None or kernel not in best or len(best) < 2:
        return None
    fastest = min(best, key=lambda name: best[name].ms)
    mine = best[kernel]
    ratio = mine.ms / best[fastest].ms
    if not mine.source.engine == best[fastest].source.engine == query.engine:
        ratio **= ELSEWHERE
    said = mine.source
    return Gap(role, kernel, ratio, fastest, said.gpu, said.engine, mine.load, _shape(said))


def _shape(times: KernelTimes) -> str:
    shape = times.shape
    if times.role == "moe":
        return f"{times.dtype} weights"
    return f"{shape['heads']}/{shape['kv_heads']} heads of {shape['head_dim']}, {shape['kv_dtype']} cache"


def shift(query: Query, found: Iterable[Gap]) -> float:
    """Log factor on throughput: 0 where the fastest kernels are used or nothing is known."""
    return -sum(
        math.log(1 + ROLE_SHARE[one.role] * _weight(one.role, query) * (one.ratio - 1)) for one in found
    )


def _weight(role: str, query: Query) -> float:
    if role != "moe" or query.entry is None:
        return 1.0
    return min(1.0, expert_params_b(query.entry) / (query.entry.params_total_b or 1.0) + 0.1)


def _best(role: str, query: Query, load: Load, kernels: Iterable[KernelTimes]) -> dict[str, _Time]:
    """The least time of each kernel at the most alike shape and load: this engine's where it measured it."""
    rows = [one for one in kernels if one.role == role and _fits(one, query)]
    if role != "moe":
        rows = _nearest_shape(rows, query)
    best: dict[str, _Time] = {}
    for own in (False, True):
        here = [one for one in rows if one.times and (one.engine == query.engine) is own]
        best |= _least(here, load)
    return best


def _least(rows: Iterable[KernelTimes], load: Load) -> dict[str, _Time]:
    found: dict[str, _Time] = {}
    for times in rows:
        name = at_load(times, load)
        ms = times.times[name]
        if times.kernel not in found or ms < found[times.kernel].ms:
            found[times.kernel] = _Time(ms, name, times)
    return found


def _fits(times: KernelTimes, query: Query) -> bool:
    """Whether types agree: experts of this engine in the weights' type, attention in the cache's."""
    if times.role == "moe":
        return times.dtype in dtypes(query) and times.engine == query.engine
    eight_bits = (query.kv_dtype or "").startswith("fp8")
    return times.kernel != "?" and (times.shape["kv_dtype"] == "fp8") is eight_bits


def _nearest_shape(rows: Sequence[KernelTimes], query: Query) -> list[KernelTimes]:
    """The rows of the head layout most like that of one rank of which two kernels are known."""
    by_heads: dict[int, list[KernelTimes]] = {}
    for one in rows:
        by_heads.setdefault(int(one.shape["heads"]), []).append(one)
    told = [heads for heads, found in by_heads.items() if len({one.kernel for one in found}) > 1]
    if not told or query.entry is None:
        return []
    ranks = max(layout_for(query, query.entry).tp, 1)
    mine = max((query.entry.heads or 1) // ranks, 1)
    return by_heads[min(told, key=lambda heads: (abs(math.log2(heads / mine)), heads))]


def dtypes(query: Query) -> tuple[str, ...]:
    """The kernel tables' words for a weight quantization."""
    word = query.quantization or ""
    table = {"nvfp4": ("nvfp4",), "mxfp4": ("w4a16_mxfp4", "w4a8_mxfp4_mxfp8"), "fp8-block": ("fp8_block",)}
    if word in table:
        return table[word]
    if word.startswith("fp8"):
        return ("fp8", "fp8_block")
    return ("bfloat16",) if word in ("bf16", "fp16", "") else ("int4_wo",)


def at_load(times: KernelTimes, load: Load) -> str:
    """The measured point nearest to one step of a load (there is one in every row).

    Experts see a decode step's tokens, decode attention a batch over half-written requests, prefill attention
    one request.
    """
    wanted = {
        "moe": (load.concurrency, 1),
        "attention.decode": (load.concurrency, load.input_len + load.output_len // 2),
        "attention.prefill": (1, load.input_len),
    }[times.role]
    return _nearest_point(tuple(times.times), wanted)


@cache
def _nearest_point(names: tuple[str, ...], wanted: tuple[int, int]) -> str:
    return min(names, key=lambda name: (_apart(_sizes(name), wanted), -_sizes(name)[1]))


def _sizes(name: str) -> tuple[int, int]:
    """``t64`` is 64 tokens, ``d16x1024`` a batch of 16 over 1024 tokens each."""
    batch, _, length = name[1:].partition("x")
    return int(batch), int(length or 1)


def _apart(one: tuple[int, int], other: tuple[int, int]) -> float:
    return sum(abs(math.log2(a / b)) for a, b in zip(one, other, strict=True))
