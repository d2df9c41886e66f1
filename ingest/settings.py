"""What was asked for, out of an engine's dump of all its arguments.

Owns which arguments are a choice worth keeping: those that differ from the release's default and say how the
engine runs rather than where. Must not turn them into kernels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kb.vocab.engines import canonical_settings
from kb.vocab.options import option, releases

# Names, places, seeds and ports: they tell runs apart without making them different configurations.
PLACES = frozenset(
    {
        "model",
        "model_tag",
        "model_path",
        "tokenizer",
        "tokenizer_path",
        "served_model_name",
        "host",
        "port",
        "hostname",
        "nccl_port",
        "dist_init_addr",
        "node_rank",
        "random_seed",
        "seed",
        "api_key",
        "admin_api_key",
        "download_dir",
        "fastapi_root_path",
        "config",
        "subparser",
        "dispatch_function",
        "master_addr",
        "master_port",
        "shard_uds_path",
        "ssl_keyfile",
        "ssl_certfile",
        "file_storage_path",
        "crash_dump_folder",
        "log_requests_target",
        "watch_cache",
        "model_id",
    }
)
# Fields that SGLang fills in by itself before it prints them: what stands there was rarely asked for.
FILLED_IN = {
    "sglang": frozenset(
        {
            "page_size",
            "device",
            "load_balance_method",
            "swa_full_tokens_ratio",
            "sampling_backend",
            "grammar_backend",
            "cuda_graph_bs",
            "cuda_graph_bs_decode",
            "cuda_graph_bs_prefill",
            "piecewise_cuda_graph_tokens",
            "tokenizer_worker_num",
            "watchdog_timeout",
            "schedule_conservativeness",
            "chat_template",
            "triton_attention_reduce_in_fp32",
            "cuda_graph_config",
            "cuda_graph_tc_compiler",
            "cuda_graph_max_bs_prefill",
            "dsa_prefill_cp_mode",
            "prefill_cp_mode",
            "expert_distribution_recorder_buffer_size",
            "mamba_radix_cache_strategy",
        }
    )
}
_UNTAGGED = re.compile(r"0\.[01]\.dev\d|dev$")
NOTHING: tuple[Any, ...] = (None, False, "", [], {}, "None", "auto")


def asked_settings(engine: str, version: str | None, dump: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a dump by canonical dest, without places, empty values and the release's defaults."""
    return {
        key: value
        for key, value in canonical_settings(engine, dump).items()
        if key not in PLACES
        and key not in FILLED_IN.get(engine, ())
        and value not in NOTHING
        and not _is_default(engine, version, key, value)
        and not _was_computed(engine, key, value)
    }


def release_of(version: str | None) -> str | None:
    """The release that a version names; one built without its repository's tags (0.1.dev7) names none."""
    return None if version and _UNTAGGED.match(version) else version


def own_options(engine: str, dump: Mapping[str, Any]) -> dict[str, Any]:
    """Of the arguments of a program that runs the engine itself, those that some release of it knows."""
    return {
        key: value
        for key, value in dump.items()
        if option(engine, None, key) or option(engine, None, "--" + key.replace("_", "-"))
    }


def _was_computed(engine: str, key: str, value: Any) -> bool:
    """SGLang computes its memory fraction to three decimals where none was asked for; people give two."""
    computed = engine == "sglang" and key == "mem_fraction_static" and isinstance(value, float)
    return computed and round(value, 2) != value


def _is_default(engine: str, version: str | None, key: str, value: Any) -> bool:
    """Whether the release takes this by itself (any release, where the log does not print its own)."""
    asked = [version] if version else list(releases(engine))
    known = [found for one in asked if (found := option(engine, one, key)) is not None]
    return any(value == one.default or str(value) == str(one.default) for one in known)
