"""YAML options of one engine: TensorRT-LLM's ``--config`` (``extra_llm_api_options``), vLLM's, SGLang's.

Owns telling which engine such a mapping is for: by its own name, or by keys that only one engine knows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ingest.formats import Format, Unreadable
from ingest.launches import backend_of, model_of, port_of
from ingest.sources import Source
from ingest.traces import line_count
from ingest.yaml_text import documents
from kb.model import Experiment, Problem, Reading
from kb.vocab import options
from kb.vocab.engines import ENGINES, Launch, canonical_dest

_KEY = re.compile(r"^([A-Za-z][\w-]*):(?:\s|$)", re.MULTILINE)
# Groups that only TensorRT-LLM's options have; its flat names it shares with others.
_TRTLLM = {
    "moe_config", "kv_cache_config", "cuda_graph_config", "attn_backend", "enable_attention_dp",
    "print_iter_log", "cache_transceiver_config", "disable_overlap_scheduler",
    "enable_chunked_prefill", "scheduler_config",
    "pytorch_backend_config", "build_config", "use_cuda_graph", "autotuner_enabled", "enable_autotuner",
    "stream_interval", "num_postprocess_workers", "batch_wait_timeout_iters", "attention_dp_config",
}  # fmt: skip
_INNER = re.compile(r"^[ \t]+([A-Za-z][\w-]*):(?:\s|$)", re.MULTILINE)
_GROUPS = {"server_args", "engine_args", "serve_args", "vllm_args", "sglang_args"}
_NOT = {"services", "apiVersion", "kind", "steps", "jobs", "on", "version", "name", "metadata", "spec"}
_LARGEST_JSON = 4000
_MODEL_KEYS = ("model", "model_path", "model_tag", "hf_model")


def sniff(source: Source) -> float:
    """A mapping whose top keys are settings of one engine."""
    head = source.head
    if _is_options(head):
        return 0.7
    if head.lstrip()[:1] in ("{", "[", "<") or "\nservices:" in f"\n{head}":
        return 0.0
    if not source.name.lower().endswith((".yaml", ".yml")) and not head.lstrip().startswith(("#", "---")):
        return 0.0
    keys = set(_KEY.findall(head))
    if keys & _GROUPS:
        keys = set(_INNER.findall(head))
    engine, hits = engine_of_keys(keys)
    if engine is None or keys & _NOT - {"name"} or hits < max(2, len(keys) // 2):
        return 0.0
    return 0.85


def _is_options(head: str) -> bool:
    """Whether a JSON object of one level holds the arguments of one engine's own constructor."""
    text = head.strip()
    if not text.startswith("{") or not text.endswith("}") or len(text) > _LARGEST_JSON:
        return False
    if not any(f'"{key}"' in text for key in _MODEL_KEYS):  # most small results, which YAML reads slowly
        return False
    found, _ = documents(text)
    mapping = found[0] if found and isinstance(found[0], Mapping) else {}
    engine, hits = engine_of_keys({str(key) for key in mapping})
    model = any(isinstance(mapping.get(key), str) for key in _MODEL_KEYS)
    return engine is not None and model and hits > 2 and hits >= len(mapping) - 1


def read(source: Source) -> Reading:
    """The settings as they stand."""
    found, damage = documents(source.text)
    mapping = next((one for one in found if isinstance(one, Mapping)), None)
    if mapping is None:
        raise Unreadable(damage or "the YAML holds no mapping")
    told = (mapping.get(key) for key in ("envs", "env"))
    variables: Mapping[Any, Any] = next((one for one in told if isinstance(one, Mapping)), {})
    mapping = next((mapping[key] for key in _GROUPS if isinstance(mapping.get(key), Mapping)), mapping)
    engine, _ = engine_of_keys({str(key) for key in mapping})
    if engine is None:
        raise Unreadable("its keys are those of no engine that is known")
    settings = {str(key): value for key, value in mapping.items() if value is not None}
    name = next((str(settings[key]) for key in _MODEL_KEYS if isinstance(settings.get(key), str)), None)
    model = model_of(name, settings.get("quantization"))
    environment = {str(key): str(value) for key, value in variables.items() if value is not None}
    launch = Launch(engine=engine, settings=settings, environment=environment)
    experiment = Experiment(
        model=model,
        backend=backend_of(launch, None, model.quantization),
        port=port_of(settings),
    )
    return Reading(
        path=str(source.path),
        format="engine_yaml",
        kind="config",
        tool=engine,
        experiments=(experiment,),
        lines=line_count(source.text.count("\n") + 1),
        problems=(Problem(line=None, what=damage),) if damage else (),
    )


def engine_of_keys(keys: set[str]) -> tuple[str | None, int]:
    """(engine, how many of the keys it knows): the engine that knows most, and more than any other."""
    hits = {
        engine: sum(1 for key in keys if knows(engine, key)) for engine in ENGINES if engine != "llama.cpp"
    }
    hits["tensorrt-llm"] += 2 * len(keys & _TRTLLM)
    best = max(hits, key=lambda engine: hits[engine])
    others = [count for engine, count in hits.items() if engine != best]
    return (best, hits[best]) if hits[best] > max(others) else (None, hits[best])


def knows(engine: str, key: str) -> bool:
    """Whether the engine's newest release has an option of this name, in any of its spellings."""
    newest = options.newest(engine)
    dest = canonical_dest(engine, key.replace("-", "_"))
    return options.option(engine, newest, dest) is not None


FORMAT = Format(
    name="engine_yaml",
    kind="config",
    sniff=sniff,
    read=read,
    docs="Options of one engine in YAML: TensorRT-LLM's `--config` (`extra_llm_api_options`), vLLM's and "
    "SGLang's `--config`, and the arguments of an engine as JSON (Triton's `model.json`). The engine is told "
    "by its keys.",
)
