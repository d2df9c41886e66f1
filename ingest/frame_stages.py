"""Which stage of a start the frames of a traceback show: a pasted error often has no log before it.

Owns the names of the functions in which engines take a step. Must not read lines (ingest.tracebacks does).
"""

from __future__ import annotations

from kb.model import STAGES, Stage

_FUNCTIONS: dict[Stage, tuple[str, ...]] = {
    "args": ("create_engine_config", "create_model_config", "prepare_server_args", "check_server_args"),
    "init": (
        "init_device",
        "init_torch_distributed",
        "init_distributed_environment",
        "init_worker_distributed_environment",
        "init_model_parallel_group",
        "initialize_model_parallel",
    ),
    "load": (
        "load_model",
        "load_weights",
        "get_model",
        "initialize_model",
        "_get_model",
        "process_weights_after_loading",
        "load_single_module",
        "_create_weight",
    ),
    "kv_cache": (
        "get_kv_cache_configs",
        "get_kv_cache_config",
        "_check_enough_kv_cache_memory",
        "check_enough_kv_cache_memory",
        "_allocate_kv_cache_tensors",
        "initialize_kv_cache",
        "init_memory_pool",
        "init_kv_cache",
        "raise_if_cache_size_invalid",
    ),
    "warmup": (
        "determine_available_memory",
        "determine_num_available_blocks",
        "profile_run",
        "init_attention_backend",
        "kernel_warmup",
        "Warmup",
    ),
    "capture": (
        "capture_model",
        "capture_one_batch_size",
        "init_cuda_graphs",
        "init_device_graphs",
        "_capture_cudagraphs",
    ),
    "serve": (
        "Prefill",  # of TGI's shards, by their requests' names
        "Decode",
        "output_handler",
        "run_busy_loop",
        "run_engine_loop",
        "run_event_loop",
        "dispatch_event_loop",
        "event_loop_normal",
        "event_loop_overlap",
        "event_loop_normal_disagg_prefill",
        "event_loop_normal_disagg_decode",
        "event_loop_overlap_disagg_prefill",
        "event_loop_overlap_disagg_decode",
    ),
}
_STAGES = {function: stage for stage, functions in _FUNCTIONS.items() for function in functions}


def stage_of(function: str) -> Stage | None:
    """The stage that a function of this name belongs to, or None where it can be any."""
    return _STAGES.get(function)


def later(one: Stage | None, other: Stage | None) -> Stage | None:
    """The later of two stages."""
    if one is None or other is None:
        return one or other
    return max(one, other, key=STAGES.index)
