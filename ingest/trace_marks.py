"""What makes a table of columns, or of keys, a trace of GPUs.

Owns deciding that: it must hold at least two quantities of a GPU, one of them load or power, and nothing of a
benchmark's results. Must not read files.
"""

from __future__ import annotations

import re

from ingest.gpu_columns import Column, is_tool_name

_RESULT = re.compile(
    r"(?i)throughput|ttft|tpot|\bitl\b|latency|tok(?:ens?)?[_/]|tps\b|request|accuracy|speedup|kernel|batch|prompt|"
    r"concurren"
)
_NEEDED = {"utilization_pct", "power_w"}
_OWN = {"power_w", "temperature_c", "sm_clock_mhz", "memory_clock_mhz"}
_HOST = re.compile(r"(?i)available|cached|buff|swap")
TIMES = ("time", "epoch", "elapsed")
_PLACES = {*TIMES, "date", "index", "uuid", "bus", "name"}


def is_trace(columns: tuple[Column, ...], of_gpus: bool = False) -> bool:
    """Whether columns are those of a trace; ``of_gpus`` is whether the file's name says GPU."""
    metrics = {one.role for one in columns if one.is_metric}
    roles = {one.role for one in columns}
    results = any(_RESULT.search(one.name) for one in columns if not one.is_metric)
    if _is_of_cards(columns, of_gpus) and not results:
        return True
    if _is_of_host(columns, of_gpus):
        return False
    held = {"memory_used_mib", "memory_total_mib"} <= metrics and bool(roles & {"uuid", "driver"})
    if len(metrics) < 2 or not (metrics & _NEEDED or held) or ("other" in roles and not roles & _PLACES):
        return False
    return not results


def _is_of_cards(columns: tuple[Column, ...], of_gpus: bool) -> bool:
    """A time, a card, and nothing else but a card's state: then one quantity is enough.

    Where both the file's name and its quantities say GPU, columns of other things may stand between them.
    """
    roles = {one.role for one in columns}
    metrics = [one for one in columns if one.is_metric]
    rest = roles - {one.role for one in metrics} - {*TIMES, "index", "uuid", "name", "bus"}
    if of_gpus and all(names_gpu(one.name) for one in metrics):
        rest -= {"other"}
    named = bool(roles & {"index", "uuid", "bus"}) or all(of_gpus or _is_named(one) for one in metrics)
    return bool(metrics) and not rest and named and bool(roles & {*TIMES})


def _is_of_host(columns: tuple[Column, ...], of_gpus: bool) -> bool:
    """Whether memory is the machine's: as ``free`` counts it, and nothing says GPU."""
    roles = {one.role for one in columns}
    told = of_gpus or roles & {"index", "uuid", "bus", "name"} or any(_is_named(one) for one in columns)
    return not told and not roles & _OWN and any(_HOST.search(one.name) for one in columns)


def _is_named(column: Column) -> bool:
    """Whether a quantity says itself that it is a GPU's."""
    return column.gpu is not None or names_gpu(column.name) or is_tool_name(column.name)


def names_gpu(name: str) -> bool:
    """Whether a name says that it is of a GPU."""
    return any(word in name.lower() for word in ("gpu", "nvidia", "rocm"))
