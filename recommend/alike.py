"""Which own runs are, for all that matters, this configuration: checkpoint, kernels, layout, switches.

Owns what may differ without mattering (capacities, names, how a kernel was spelled). Stricter than
the comparison of families, looser than that of whole command lines. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from kb.model import Tried
from kb.vocab import dialects, engines, models, options
from recommend import own
from recommend.dimensions import plain
from recommend.question import Query

# How much is taken of memory or done at once: it decides how fast and how long, not whether kernels work.
CAPACITY = (
    "context_length",
    "max_model_len",
    "max_seq_len",
    "mem_fraction",
    "gpu_memory_utilization",
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_running_requests",
    "max_total_tokens",
    "max_prefill_tokens",
    "chunked_prefill_size",
    "max_batch_size",
    "graph_max_bs",
    "cudagraph_capture_sizes",
    "swap_space",
    "decode_log_interval",
    "stream_interval",
    "load_format",
)
_PARALLEL = ("tp", "pp", "dp", "ep", "kv_dtype", "speculation", "max_len", "graphs")
_BOOKKEEPING = ("NO_USAGE_STATS", "LOGGING_LEVEL", "CACHE_ROOT", "API_KEY", "LOG_LEVEL")


def same_checkpoint(one: Tried, query: Query) -> bool:
    """The same model, not merely the same family: numbers and exact configurations hold for no other."""
    if one.model.id and query.model.id:
        named = one.model.id == query.model.id
    else:
        name, asked = one.model.name, query.model.name
        named = bool(name and asked) and _bare(name or "") == _bare(asked or "")
    # A name in no catalog tells no quantization: then the name alone decides.
    told = {one.model.quantization, query.quantization} - {None}
    return named and len(told) < 2


@cache
def _bare(name: str) -> str:
    return models.canonical_name(name)


class Setup(NamedTuple):
    """Own runs of one configuration, as far as it matters: what ran, the layout, the other switches.

    ``works``: a run served; ``fails``: one failed by its own fault or for lack of memory; ``faulty``: by its
    own fault, whatever memory it was given.
    """

    tried: Tried
    requested: Mapping[str, str]
    ran: Mapping[str, str]
    layout: tuple[str, ...]
    essence: tuple[dict[str, str], dict[str, str]]
    works: bool
    fails: bool
    faulty: bool


def setups(base: Query, tried: Iterable[Tried]) -> tuple[Setup, ...]:
    """Own runs of this very model on this architecture and engine."""
    return tuple(_setup(one) for one in tried if here(one, base))


def here(one: Tried, query: Query) -> bool:
    """Same architecture, engine and checkpoint."""
    return (
        one.hardware.arch == query.arch and one.backend.engine == query.engine and same_checkpoint(one, query)
    )


def _setup(one: Tried) -> Setup:
    backend = one.backend
    engine = backend.engine or ""
    return Setup(
        tried=one,
        requested=backend.requested,
        ran={**backend.requested, **backend.resolved},
        layout=layout(engines.common_settings(engine, backend.settings)),
        essence=essence(engine, backend.settings, backend.environment, backend.engine_version),
        works=any(own.successes(one)),
        fails=any(own.failures(one)),
        faulty=any(ending.blame == "backend" for ending in own.failures(one)),
    )


def served(query: Query, known: Iterable[Setup]) -> tuple[Tried, ...]:
    """Own runs that served with this configuration, of whatever release."""
    same = _like(query)
    return tuple(one.tried for one in known if one.works and same(one))


def only_failed(query: Query, known: Iterable[Setup]) -> bool:
    """Whether own runs of this release failed with this configuration by its own fault, and none served."""
    same = _like(query)
    runs = [one for one in known if same_release(one.tried, query) and same(one)]
    return any(one.faulty for one in runs) and not any(one.works for one in runs)


def same_release(one: Tried, query: Query) -> bool:
    """Whether a run was of the release in question (an unknown one counts as that)."""
    return one.backend.engine_version in (query.engine_version, None)


def alike_setups(one: Setup, other: Setup) -> bool:
    """Whether two sets of own runs are one configuration."""
    return (one.ran, one.layout, one.essence) == (other.ran, other.layout, other.essence)


def _like(query: Query) -> Callable[[Setup], bool]:
    """The same kernels where both tell them, the same layout, and no other switch between them."""
    wanted = {role: found.kernel for role, found in query.resolved.items()}
    sizes = layout(query.common)
    rest = essence(query.engine or "", query.settings, query.environment, query.engine_version)

    def same(one: Setup) -> bool:
        agree = all(one.ran[role] == kernel for role, kernel in wanted.items() if role in one.ran)
        asked = all(wanted.get(role) == kernel for role, kernel in one.requested.items())
        told = set(query.requested) <= one.ran.keys()
        return agree and asked and told and sizes == one.layout and rest == one.essence

    return same


def layout(common: Mapping[str, Any]) -> tuple[str, ...]:
    """Parallel sizes, cache type and speculation in the common vocabulary."""
    sizes = tuple(str(common.get(key) or 1) for key in ("tp", "pp", "dp", "ep"))
    return (*sizes, str(common.get("kv_dtype") or "auto"), str(common.get("speculation") or ""))


def essence(
    engine: str, settings: Mapping[str, Any], environment: Mapping[str, str], version: str | None = None
) -> tuple[dict[str, str], dict[str, str]]:
    """Settings and switches beyond kernels, layout, capacities and names."""
    spelled = kernel_keys(engine)
    kept = {
        key: value
        for key, value in own.telling(settings, engine).items()
        if key not in spelled
        and not any(word in key for word in CAPACITY)
        and not filled_in(engine, version, key, settings[key])
    }
    switches = {
        key: value for key, value in environment.items() if chooses(key, engine) and key not in spelled
    }
    return kept, switches


_SHARED = ("FLASHINFER_", "NCCL_", "CUDA_", "TORCH_", "TORCHINDUCTOR_", "PYTORCH_", "TRITON_", "CUTE_")
_PLACES = ("_DIR", "_PATH", "_HOME", "_FILE", "_VISIBLE_DEVICES")


def foreign(variable: str, engine: str | None) -> bool:
    """Whether an environment variable belongs to another engine, by the beginning of its name."""
    others = [starts for name, starts in engines.VARIABLES.items() if name != engine]
    return any(variable.startswith(starts) for starts in others)


def chooses(variable: str, engine: str | None) -> bool:
    """Whether an environment variable can change what this engine runs."""
    named = variable.startswith((*engines.VARIABLES.get(engine or "", ()), *_SHARED))
    return named and not variable.endswith((*_BOOKKEEPING, *_PLACES))


def filled_in(engine: str, version: str | None, key: str, value: object) -> bool:
    """Whether a recorded setting is what the engine puts in by itself, as far as its catalog tells.

    A dump of all arguments shows such a value although nobody asked for it: the catalog's default, or the
    first of the values of a backend that chooses no kernel and whose default is only known at run time.
    """
    found = options.option(engine, version, key) if engine in engines.ENGINES else None
    if found is None:
        return False
    if found.default is not None:
        return plain(found.default) == plain(value)
    silent = key.endswith("_backend") and key not in kernel_keys(engine)
    return silent and bool(found.choices) and found.choices[0] == value


@cache
def kernel_keys(engine: str) -> frozenset[str]:
    """Settings and variables whose meaning the roles and the layout already tell."""
    table = dialects.dialect(engine)
    spelled = {entry.get("key") or entry.get("env") for entry in table.get("spellings", ())}
    common = {key for name in _PARALLEL for key in table.get("common", {}).get(name, ())}
    short = {dest for name, dest in table.get("short", {}).items() if name in _PARALLEL}
    return frozenset(str(one) for one in spelled | common | short)
