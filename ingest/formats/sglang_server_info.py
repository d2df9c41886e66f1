"""What a running SGLang server answers about itself (``/get_server_info``), kept as JSON.

Owns its keys: the server's arguments with all defaults, its version. Its counters are no measurement of a
load and are not read as one.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from ingest.formats import Format, Unreadable
from ingest.launches import experiment_of
from ingest.machine import known
from ingest.sources import Source
from ingest.traces import line_count
from kb.model import Hardware, Reading
from kb.vocab.engines import Launch, canonical_settings

_LARGEST = 8 << 20
_KEYS = ("model_path", "tp_size", "mem_fraction_static", "schedule_policy", "chunked_prefill_size")
_NOT_SETTINGS = {"model_path", "tokenizer_path", "version", "internal_states", "api_key", "admin_api_key"}
_STATE = {  # what its scheduler tells of the moment
    "status",
    "max_total_num_tokens",
    "max_req_input_len",
    "last_gen_throughput",
    "avg_spec_accept_length",
}


def sniff(source: Source) -> float:
    """The arguments that only this server has, together."""
    head = source.head.lstrip("\ufeff \t\r\n")
    if not head.startswith("{"):
        return 0.0
    have = sum(f'"{key}"' in head for key in _KEYS)
    return 0.93 if have == len(_KEYS) and re.search(r'"attention_backend"|"tokenizer_mode"', head) else 0.0


def read(source: Source) -> Reading:
    """The one server that answered."""
    try:
        raw = json.loads(source.text[:_LARGEST].lstrip("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"the JSON is damaged or cut: {error}") from None
    told = raw.get("server_args", raw) if isinstance(raw, dict) else None
    if not isinstance(told, dict) or "model_path" not in told:
        raise Unreadable("the JSON holds no server arguments at its top")
    settings = {
        key: value for key, value in told.items() if key not in _NOT_SETTINGS | _STATE and _says(value)
    }
    launch = Launch(
        engine="sglang",
        version=known(raw.get("version")),
        model=known(told["model_path"]),
        settings=canonical_settings("sglang", settings),
    )
    hardware = Hardware(count=_cards(told))
    return Reading(
        path=str(source.path),
        format="sglang_server_info",
        kind="config",
        tool="sglang",
        experiments=(experiment_of(launch, hardware),),
        lines=line_count(source.text.count("\n") + 1),
    )


def _cards(told: dict[str, Any]) -> int | None:
    """GPUs of all its nodes: replicas multiply them, unless attention alone is replicated."""
    widths = [told.get("tp_size"), told.get("pp_size") or 1]
    widths += [] if told.get("enable_dp_attention") else [told.get("dp_size") or 1]
    known = [one for one in widths if isinstance(one, int) and not isinstance(one, bool) and one > 0]
    return math.prod(known) if len(known) == len(widths) else None


def _says(value: Any) -> bool:
    """Whether a value is more than a default that is off, and no nested state."""
    return value not in (None, False, "", "auto") and not isinstance(value, dict | list)


FORMAT = Format(
    name="sglang_server_info",
    kind="config",
    version=2,
    sniff=sniff,
    read=read,
    docs="The JSON of SGLang's `/get_server_info`: model, version and arguments of the running server; "
    "options that are off or automatic are left out.",
)
