"""What could be run at all: configurations of the engines' own spellings, one per idea.

Owns the making of candidates: what every engine does by itself, each kernel that a release can be asked for,
other parallel layouts, and what ran here before. Must not judge or rank them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from kb import EMPTY
from kb.measurements import ServingPoint
from kb.model import Backend, Tried
from kb.vocab import engines
from kb.vocab.gpus import Gpu, arch_of
from kb.vocab.models import ModelEntry
from recommend.advice import Reason
from recommend.alike import Setup, chooses, filled_in, foreign, same_checkpoint
from recommend.own import successes
from recommend.physics import Layout, weight_bytes_per_gpu
from recommend.query import Query, Resolution, ask, resolve
from recommend.samples import layout_of, layout_of_common

# Engines tried in this order where the question names none; the others need their own checkpoint formats.
GENERAL = ("sglang", "vllm")
FURTHER = ("tensorrt-llm",)
GGUF = ("llama.cpp",)
USABLE_MEMORY = 0.9
COUNTS = (1, 2, 4, 8, 16)
MOST_OWN = 5


class Candidate(NamedTuple):
    """One configuration as a full question; ``changed`` are the roles set on purpose.

    ``idea`` is its origin (auto, kernel, layout, own, composed, kv); ``sources`` are ids that suggested it;
    ``because`` are the remedies put in, with their records.
    """

    query: Query
    idea: str
    changed: Mapping[str, str] = EMPTY
    sources: tuple[str, ...] = ()
    because: tuple[Reason, ...] = ()


def engines_for(question: Query, tried: Iterable[Tried], serving: Sequence[ServingPoint]) -> tuple[str, ...]:
    """The engines to consider: the one asked for, else those that load this kind of checkpoint.

    Engines beyond the usual ones join where they ran here, or were measured with this model on such a GPU.
    """
    if question.asked.engine:
        return (question.asked.engine,)
    if (question.quantization or "").startswith("gguf"):
        return GGUF
    ran = {one.backend.engine for one in tried if one.hardware.arch == question.arch}
    gpus_here = {point.gpu for point in serving if arch_of(point.gpu) == question.arch}
    measured = {point.engine for point in serving if point.gpu in gpus_here}
    return (*GENERAL, *(engine for engine in FURTHER if engine in ran | measured))


def base(question: Query, engine: str, count: int | None) -> Query:
    """The question for one engine with its tensor-parallel size, everything else left to the engine."""
    asked, name = question.asked, engine.partition("==")[0]
    said = {pair.partition("=")[0] for pair in asked.settings}
    sized = (
        (f"tp={count}",)
        if count and count > 1 and not said & {"tp", engines.canonical_dest(name, "tp")}
        else ()
    )
    return ask(
        asked._replace(
            engine=engine,
            settings=(*asked.settings, *sized),
            environment=[
                pair
                for pair in asked.environment
                if asked.engine or not foreign(pair.partition("=")[0], name)
            ],
            gpus=count or asked.gpus,
        )
    )


def vary(query: Query, settings: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Query:
    """The query with further settings and environment; its roles are resolved anew."""
    merged = {**query.settings, **settings}
    common = {
        key: value
        for key, value in engines.common_settings(query.engine or "", merged).items()
        if value is not None
    }
    kv = common.get("kv_dtype")
    changed = query._replace(
        settings=merged,
        environment={**query.environment, **(environment or {})},
        common=common,
        kv_dtype=str(kv).lower() if kv not in (None, "auto") else None,
    )
    return resolve(changed)


def _offered(query: Query, role: str, kernel: str) -> Mapping[str, Any] | None:
    """How this release is asked for a kernel; nothing where the setting is of attention the model lacks."""
    spelled = _spelled(query.engine or "", query.engine_version, role, kernel, query.arch, query.quantization)
    latent = query.entry is not None and {"mla", "dsa"} & set(query.entry.attention)
    if spelled and not latent and role != "mla" and any("mla" in key.lower() for key in spelled):
        return None
    return spelled


def with_kernel(query: Query, role: str, kernel: str) -> Query | None:
    """The query with one kernel asked for, or ``None`` where this release cannot be asked for it."""
    spelled = _offered(query, role, kernel)
    if not spelled:
        return None
    settings = {key: value for key, value in spelled.items() if not key.isupper()}
    environment = {key: str(value) for key, value in spelled.items() if key.isupper()}
    changed = vary(query, settings, environment)
    return changed if changed.kernel(role) == kernel else None


def asking(query: Query, role: str, kernel: str) -> Query | None:
    """The query as ``with_kernel`` makes it, but with what other roles pick by themselves taken as it was.

    Cheaper, and good enough to ask what is known of one kernel.
    """
    spelled = _offered(query, role, kernel)
    if not spelled:
        return None
    settings = {**query.settings, **{key: value for key, value in spelled.items() if not key.isupper()}}
    environment = {key: str(value) for key, value in spelled.items() if key.isupper()}
    return query._replace(
        settings=settings,
        environment={**query.environment, **environment},
        requested={**query.requested, role: kernel},
        resolved={**query.resolved, role: Resolution(kernel, "setting")},
    )


def roles_in_use(query: Query, tried: Iterable[Tried] = ()) -> tuple[str, ...]:
    """The roles that this model has work for and whose kernel can be chosen.

    For a model in no catalog, its own runs tell whether it has experts; without any it may have.
    """
    entry = query.entry
    kinds = set(entry.attention) if entry else set()
    experts = bool(entry.has_experts) if entry else _may_have_experts(query, tried)
    moe = ("moe",) if experts else ()
    sparse = ("dsa.prefill", "dsa.decode") if "dsa" in kinds else ()
    dense = () if sparse else ("mla",) if "mla" in kinds else ("attention.prefill", "attention.decode")
    linear = ("linear_attention",) if any("linear" in kind for kind in kinds) else ()
    return (*moe, *sparse, *dense, *linear, *_gemm(query.quantization))


def roles_to_set(query: Query, roles: Iterable[str], tried: Iterable[Tried] = ()) -> tuple[str, ...]:
    """The roles in use that may be set by hand: those that the model is known to have.

    Of a model in no catalog only its own runs tell; what it may have is judged, never proposed.
    """
    if query.entry is not None:
        return tuple(roles)
    ran = {
        role
        for one in tried
        if same_checkpoint(one, query) and any(successes(one))
        for role in (*one.backend.requested, *one.backend.resolved)
    }
    return tuple(role for role in roles if role in ran)


def _may_have_experts(query: Query, tried: Iterable[Tried]) -> bool:
    ran = [one for one in tried if same_checkpoint(one, query) and any(successes(one))]
    return not ran or any("moe" in {**one.backend.requested, **one.backend.resolved} for one in ran)


def _gemm(quantization: str | None) -> tuple[str, ...]:
    word = quantization or ""
    if "nvfp4" in word:
        return ("gemm.fp4",)
    return ("gemm.fp8",) if word.startswith("fp8") else ()


def kernels_of(role: str) -> Sequence[str]:
    """The kernels that can do a role, as the closed list orders them."""
    known: Sequence[str] = engines.kernels()["roles"].get(role, ())
    return known


@cache
def _spelled(  # noqa: PLR0913, PLR0917 - the key of a cache
    engine: str, version: str | None, role: str, kernel: str, arch: str | None, quantization: str | None
) -> Mapping[str, Any] | None:
    return engines.spell(engine, version, role, kernel, arch, quantization)


def fitting_count(gpu: Gpu | None, entry: ModelEntry | None, quantization: str | None) -> int | None:
    """The smallest usual number of GPUs that holds the weights with room for a cache, if that can be told."""
    if gpu is None or entry is None or not gpu.memory_gib:
        return None
    for count in COUNTS:
        layout = layout_of(entry, quantization, tp=count)
        if weight_bytes_per_gpu(entry, layout) < 0.75 * gpu.memory_gib * 2**30:
            return count
    return COUNTS[-1]


def fits(gpu: Gpu | None, entry: ModelEntry | None, query: Query) -> bool | None:
    """Whether the weights fit the GPUs' memory; ``None`` where sizes are unknown."""
    if gpu is None or entry is None or not gpu.memory_gib or not entry.params_total_b:
        return None
    return weight_bytes_per_gpu(entry, layout_for(query, entry)) < USABLE_MEMORY * gpu.memory_gib * 2**30


def layout_for(query: Query, entry: ModelEntry) -> Layout:
    """The parallel layout that a query's settings make."""
    count = query.hardware.count
    return layout_of_common(entry, query.quantization, query.common, count)


def layouts(query: Query) -> Iterator[tuple[str, Query]]:
    """Other ways to lay the model on the same GPUs: experts spread, attention replicated, a smaller cache."""
    tp = int(query.common.get("tp") or 1)
    whole = int(query.common.get("ep") or 1) == 1 and tp > 1
    if whole and query.entry is not None and query.entry.has_experts:
        changed = _sized(query, "ep", tp)
        if changed is not None:
            yield "layout", changed


def _sized(query: Query, key: str, value: int) -> Query | None:
    dest = engines.canonical_dest(query.engine or "", key)
    if dest == key:
        return None
    changed = vary(query, {dest: value})
    return changed if int(changed.common.get(key) or 1) == value else None


def own(query: Query, setups: Iterable[Setup]) -> Iterator[Candidate]:
    """The best configurations of this engine that served here on this model, as they were but for names."""
    newest = sorted((one for one in setups if one.works), key=lambda one: one.tried.date or "", reverse=True)
    served = sorted(newest, key=lambda one: -_fastest(one))
    met: list[tuple[object, ...]] = []
    for setup in served:
        same = (dict(setup.ran), setup.layout, setup.essence)
        if same in met or len(met) == MOST_OWN:
            continue
        met.append(same)
        backend = setup.tried.backend
        changed = vary(
            query._replace(engine_version=backend.engine_version or query.engine_version),
            {key: value for key, value in backend.settings.items() if asked_for(backend, key, value)},
            {key: value for key, value in backend.environment.items() if chooses(key, backend.engine)},
        )
        yield Candidate(query=changed, idea="own", changed=changed.requested, sources=setup.tried.runs)


def asked_for(backend: Backend, key: str, value: Any) -> bool:
    """Whether a person set this, as far as can be told: no name or place, not what the engine fills in."""
    engine = backend.engine or ""
    return key not in NAMES_ONLY and not filled_in(engine, backend.engine_version, key, value)


def _fastest(one: Setup) -> float:
    return max((point.metrics.get("output_tok_s") or 0.0 for point in one.tried.points), default=0.0)


# Settings of a recorded command that belong to that machine, not to the configuration.
NAMES_ONLY = frozenset(
    (
        "host",
        "port",
        "model",
        "model_path",
        "model_tag",
        "served_model_name",
        "api_key",
        "admin_api_key",
        "download_dir",
        "tokenizer",
        "tokenizer_path",
        "log_level",
        "nccl_port",
        "dist_init_addr",
    )
)


def release_here(tried: Iterable[Tried], engine: str, arch: str | None) -> str | None:
    """The release of an engine that ran here last."""
    dated = [
        (one.date or "", one.backend.engine_version)
        for one in tried
        if one.backend.engine == engine and one.hardware.arch == arch and one.backend.engine_version
    ]
    return max(dated)[1] if dated else None
