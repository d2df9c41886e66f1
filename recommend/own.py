"""Own runs as evidence: which of them are this very configuration, and what they say about its roles.

Owns the comparison of a query with runs already folded per configuration (``kb.model.Tried``). Blame decides:
a busy port, a bad path or a harness that killed the server says nothing about a backend. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kb.model import STAGES, Ending, Tried
from kb.vocab import engines, models, options
from recommend.dimensions import plain
from recommend.question import Query
from recommend.recorded import query_of

BAD = ("refused", "crash", "oom", "hang", "wrong_output", "accuracy_loss")
KERNEL_LEVEL = frozenset(
    {
        "no-kernels-for-arch",
        "shared-memory-limit",
        "unsupported-arch-assert",
        "backend-refused",
        "cutlass-internal",
        "garbage-output",
        "nan-logits",
    }
)
_NO_BACKEND = frozenset(
    (
        "model",
        "model_path",
        "model_tag",
        "host",
        "port",
        "served_model_name",
        "api_key",
        "trust_remote_code",
        "log_level",
        "tokenizer",
        "random_seed",
        "seed",
        "download_dir",
        "tokenizer_path",
        "tokenizer_mode",
        "admin_api_key",
        "chat_template",
        "enable_metrics",
        "log_requests",
        "revision",
        "watchdog_timeout",
        "nccl_port",
        "dist_init_addr",
        "disable_log_requests",
        "disable_log_stats",
        "uvicorn_log_level",
        "log_level_http",
        "file_storage_path",
        "device",
        "stream_interval",
        "show_time_cost",
        "collect_tokens_histogram",
    )
)


_UNSET = (None, "auto", False, "")


def same(tried: Tried, query: Query) -> bool:
    """Whether runs were of this very configuration: hardware, model, engine, settings that choose kernels."""
    backend = tried.backend
    version = backend.engine_version
    return (
        tried.hardware.arch == query.arch
        and query.arch is not None
        and backend.engine == query.engine
        and (version == query.engine_version or version is None)
        and _agree(tried.hardware.count, query.hardware.count)
        and same_model(tried, query)
        and _same_settings(tried, query)
        and _switches(backend.environment, query.engine) == _switches(query.environment, query.engine)
    )


def _same_settings(tried: Tried, query: Query) -> bool:
    """The same choices, leaving aside defaults and what a log shows that an engine chose by itself."""
    engine, version = query.engine or "", query.engine_version
    asked, ran = telling(query.settings, engine), telling(tried.backend.settings, engine)
    for key in asked.keys() | ran.keys():
        default = _default(engine, version, key)
        if key in asked and asked[key] != ran.get(key, plain(default)):
            return False
        if key not in asked and not (default is None and _is_no_kernel(key, ran[key], query)):
            return False
    return True


def _default(engine: str, version: str | None, key: str) -> Any:
    """A setting's literal default; None where the engine chooses."""
    found = options.option(engine, version, key) if engine in engines.ENGINES else None
    default = found.default if found else "unknown"
    return None if isinstance(default, Mapping) or default == "auto" else default


def _is_no_kernel(key: str, value: str, query: Query) -> bool:
    return not engines.roles_of(
        query.engine, query.engine_version, {key: value}, {}, query.arch, query.quantization
    )


def _agree(one: Any, other: Any) -> bool:
    return one is None or other is None or one == other


def same_model(tried: Tried, query: Query) -> bool:
    """The same catalog entry (or family, or name) in the same weight quantization."""
    model = tried.model
    if query.model.id and model.id:
        named = model.id == query.model.id
    elif query.model.family and model.family:
        named = model.family == query.model.family
    else:
        named = bool(model.name and query.model.name and _bare(model.name) == _bare(query.model.name))
    return named and _agree(model.quantization, query.quantization)


def _bare(name: str) -> str:
    return models.canonical_name(name)


def chosen(settings: Mapping[str, Any]) -> int:
    """How many settings may change anything: without those that are off and those that only name."""
    return sum(key not in _NO_BACKEND and value not in _UNSET for key, value in settings.items())


def telling(settings: Mapping[str, Any], engine: str | None) -> dict[str, str]:
    """Settings that may change kernels or memory, without switches that are off and those that only name."""
    found = {}
    for key, value in settings.items():
        if key in _NO_BACKEND or value in _UNSET:
            continue
        found[key] = plain(value)
    common = engines.common_settings(engine, settings)
    return {
        key: value
        for key, value in found.items()
        if not (value == "1" and common.get("tp") == 1 and "tp" in key)
    }


def _switches(environment: Mapping[str, str], engine: str | None) -> dict[str, str]:
    """The variables that this engine and FlashInfer read; those of another engine change nothing."""
    read = (*engines.VARIABLES.get(engine or "", ()), "FLASHINFER_")
    return {key: value for key, value in environment.items() if key.startswith(read)}


def failures(tried: Tried) -> Iterator[Ending]:
    """Endings that speak against the backend."""
    for ending in tried.endings:
        fits = ending.effect == "oom" and ending.blame in ("backend", "user")
        if ending.effect in BAD and (ending.blame == "backend" or fits):
            yield ending


def successes(tried: Tried) -> Iterator[Ending]:
    """Endings of runs that served."""
    served = STAGES.index("ready")
    for ending in tried.endings:
        if ending.effect == "ok" and ending.stage and STAGES.index(ending.stage) >= served:
            yield ending


def proven_roles(tried: Tried, query: Query) -> tuple[str, ...]:
    """Roles of the question whose kernel served in these runs on the same architecture."""
    if tried.hardware.arch != query.arch or next(successes(tried), None) is None:
        return ()
    ran = {**tried.backend.requested, **tried.backend.resolved}
    return tuple(role for role, kernel in ran.items() if query.kernel(role) == kernel)


def served_instead(tried: Iterable[Tried], failed: Tried, query: Query) -> Tried | None:
    """The own configuration nearest to a failed one that served: same model, engine and architecture."""
    ran = telling(failed.backend.settings, failed.backend.engine)

    def distance(one: Tried) -> int:
        return len(set(telling(one.backend.settings, one.backend.engine).items()) ^ set(ran.items()))

    alike = [
        one
        for one in tried
        if one.hardware.arch == failed.hardware.arch
        and one.backend.engine == failed.backend.engine
        and same_model(one, query)
        and next(successes(one), None)
        and not next(failures(one), None)
    ]
    return min(alike, key=distance, default=None)


def changes(good: Tried, failed: Tried, query: Query) -> tuple[dict[str, Any], list[str]]:
    """Settings to take from a configuration that served, and those of the failed one to leave out."""
    engine, version = query.engine or "", query.engine_version
    to, of = good.backend.settings, failed.backend.settings
    told = telling(to, good.backend.engine), telling(of, failed.backend.engine)
    take = {
        key: to[key]
        for key, value in told[0].items()
        if told[1].get(key) != value
        and (_default(engine, version, key) is not None or not _is_no_kernel(key, value, query))
    }
    return take, [key for key in told[1] if key not in told[0]]


def vetoes_role(tried: Tried, ending: Ending, query: Query) -> dict[str, str]:
    """Roles (with kernels) that a kernel-level failure of another configuration speaks against here.

    Only what the failed run asked for by itself is blamed, on the same arch and weight quantization.
    """
    if ending.signature not in KERNEL_LEVEL or tried.hardware.arch != query.arch:
        return {}
    asked = dict(tried.backend.requested)
    shared = {role: kernel for role, kernel in asked.items() if query.kernel(role) == kernel}
    alike = _agree(tried.model.quantization, query.quantization)
    return shared if alike and shared and len(shared) == len(asked) else {}


def as_query(tried: Tried) -> Query:
    """The configuration of recorded runs as a question, so that records can be held against it."""
    return query_of(tried.hardware, tried.model, tried.backend)
