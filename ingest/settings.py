"""What was asked for, out of an engine's dump of all its arguments.

Owns which arguments are a choice worth keeping: those that differ from the release's default and say how the
engine runs rather than where. Must not turn them into kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kb.vocab.engines import canonical_settings
from kb.vocab.options import option

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
NOTHING: tuple[Any, ...] = (None, False, "", [], {}, "None")


def asked_settings(engine: str, version: str | None, dump: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a dump by canonical dest, without places, empty values and the release's defaults."""
    return {
        key: value
        for key, value in canonical_settings(engine, dump).items()
        if key not in PLACES and value not in NOTHING and not _is_default(engine, version, key, value)
    }


def _is_default(engine: str, version: str | None, key: str, value: Any) -> bool:
    known = option(engine, version, key)
    if known is None:
        return False
    default = known.default
    return bool(value == default or str(value) == str(default))
