"""llm-d benchmark reports, versions 0.1 and 0.2 (YAML or JSON).

Owns their nesting: every figure names its units, the stack lists engines and accelerators.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ingest.bench import cells
from ingest.bench.families import Families
from ingest.bench.identity import Facts, benchmark, experiment
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import Measurement, Reading

_TOOL = "llm-d benchmark report"
_OLD = re.compile(r"^[\"']?version[\"']?: *[\"']?0\.1", re.MULTILINE)
_NEW_MARKS = ("request_performance:", '"request_performance"', "component_health:", "session_performance:")
_DURATION = re.compile(r"PT(?:(?P<h>\d+(?:\.\d+)?)H)?(?:(?P<m>\d+(?:\.\d+)?)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?")


def _sniff(source: Source) -> float:
    head = source.head
    if _OLD.search(head) and "scenario:" in head and "metrics:" in head:
        return 0.95
    return 0.93 if any(mark in head for mark in _NEW_MARKS) and re.search(r"\bresults\b", head) else 0.0


def _read(source: Source) -> Reading:
    import yaml  # noqa: PLC0415 - costs 20 ms, and few formats need it

    try:
        report = yaml.load(source.text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise Unreadable(f"not valid YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(report, Mapping):
        raise Unreadable("the report is not a mapping")
    version = str(report.get("version") or "")
    facts, point = _old(report) if version.startswith("0.1") else _new(report)
    if not point.metrics:
        raise Unreadable("the report holds no latency or throughput")
    return benchmark(
        source,
        "llmd_report",
        [experiment(facts, [point])],
        tool=_TOOL,
        tool_version=version or None,
        extra={"stack": facts.environment.pop("stack", None)} if "stack" in facts.environment else {},
    )


def _at(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _items(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _gather(latency: Any, throughput: Any, requests: Any) -> Families:
    gathered = Families()
    for key, family in [*_mapping(latency).items(), *_mapping(throughput).items()]:
        if isinstance(family, Mapping):
            gathered.add(
                key, str(family.get("units") or ""), {k: v for k, v in family.items() if k != "units"}
            )
        else:
            gathered.add(key, "", {"mean": family})
    for key, name in (("input_length", "input_len"), ("output_length", "output_len")):
        mean = cells.number(_at(requests, key, "mean"))
        gathered.workload |= {} if mean is None else {name: round(mean)}
    total, failed = cells.number(_at(requests, "total")), cells.number(_at(requests, "failures"))
    if total is not None:
        gathered.workload["prompts"] = int(total)
        gathered.metrics |= {"completed": total - (failed or 0), "failed": failed or 0.0}
    return gathered


def _old(report: Mapping[str, Any]) -> tuple[Facts, Measurement]:
    metrics = _mapping(report.get("metrics"))
    gathered = _gather(metrics.get("latency"), metrics.get("throughput"), metrics.get("requests"))
    duration = cells.number(_at(metrics, "time", "duration"))
    gathered.metrics |= {} if duration is None else {"duration_s": duration}
    scenario = _mapping(report.get("scenario"))
    cards = _items(_at(scenario, "host", "accelerator"))
    engines = _items(_at(scenario, "platform", "engine"))
    facts = _hardware(cards, [1] * len(cards))
    first = engines[0] if engines else {}
    facts.model, facts.quantization = _at(scenario, "model", "name"), _at(scenario, "model", "quantization")
    facts.engine, facts.engine_version = first.get("name"), _text(first.get("version"))
    facts.settings |= _arguments(first.get("args")) | _roles(_at(scenario, "host", "type"))
    return facts, gathered.measurement(_text(_at(scenario, "load", "name")) or _TOOL)


def _new(report: Mapping[str, Any]) -> tuple[Facts, Measurement]:
    done = _mapping(_at(report, "results", "request_performance", "aggregate"))
    gathered = _gather(done.get("latency"), done.get("throughput"), done.get("requests"))
    run, load = _mapping(report.get("run")), _mapping(_at(report, "scenario", "load", "standardized"))
    duration = _seconds(_at(run, "time", "duration"))
    gathered.metrics |= {} if duration is None else {"duration_s": duration}
    asked = {
        "request_rate": cells.whole(load.get("rate_qps")),
        "concurrency": cells.whole(load.get("concurrency")),
        "input_len": cells.whole(_at(load, "input_seq_len", "value")),
        "output_len": cells.whole(_at(load, "output_seq_len", "value")),
        "test": _text(load.get("stage")),
    }
    gathered.workload |= {key: value for key, value in asked.items() if value is not None}
    stack = _items(_at(report, "scenario", "stack"))
    return _stack_facts(stack, _text(_at(run, "time", "start"))), gathered.measurement(
        _text(load.get("tool")) or _TOOL
    )


def _stack_facts(stack: list[Mapping[str, Any]], started: str | None) -> Facts:
    servers = [one for one in stack if _at(one, "standardized", "kind") == "inference_engine"]
    told = [_mapping(one.get("standardized")) for one in servers]
    facts = _hardware(
        [_mapping(one.get("accelerator")) for one in told],
        [int(cells.number(one.get("replicas")) or 1) for one in told],
    )
    if servers:
        native, first = _mapping(servers[0].get("native")), told[0]
        facts.model, facts.engine = _at(first, "model", "name"), _engine(first)
        facts.quantization = _text(_at(first, "model", "quantization"))
        facts.engine_version = _tag(_text(first.get("tool_version")))
        facts.settings |= _arguments(native.get("args")) | _roles([one.get("role") for one in told])
        facts.environment |= {str(k): str(v) for k, v in _mapping(native.get("envars")).items()}
    facts.started = started
    return facts


def _engine(server: Mapping[str, Any]) -> str | None:
    """llm-d serves with vLLM; its own name is that of the stack."""
    name = _text(server.get("tool"))
    return "vllm" if name in ("llm-d", "llm_d") else name


def _tag(text: str | None) -> str | None:
    found = re.search(r"(?::|^)v?(\d+\.\d+[\w.+-]*)$", text or "")
    return found[1] if found and "llm-d" not in (text or "") else None


def _hardware(cards: list[Mapping[str, Any]], replicas: list[int]) -> Facts:
    """Accelerators of all parts together; widths of the first."""
    if not cards:
        return Facts()
    counts = [int(cells.number(card.get("count")) or 0) * n for card, n in zip(cards, replicas, strict=True)]
    model = _text(cards[0].get("model"))
    widths = _mapping(cards[0].get("parallelism"))
    return Facts(
        gpu=model.replace("-", " ") if model else None,
        gpu_count=sum(counts) or None,
        settings={key: widths[key] for key in ("tp", "pp", "ep", "dp") if widths.get(key) is not None},
    )


def _arguments(args: Any) -> dict[str, Any]:
    """Launch flags as settings by destination."""
    given = {str(k).lstrip("-").replace("-", "_"): v for k, v in _mapping(args).items()}
    widths = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
    return {key: (True if value is None else value) for key, value in given.items() if key not in widths}


def _roles(roles: Any) -> dict[str, Any]:
    named = (
        [str(one) for one in roles if one]
        if isinstance(roles, Iterable) and not isinstance(roles, str)
        else []
    )
    return {"roles": sorted(set(named))} if len(set(named)) > 1 else {}


def _text(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)


def _seconds(value: Any) -> float | None:
    found = _DURATION.fullmatch(str(value or ""))
    if not found or not any(found.groups()):
        return cells.number(value)
    return sum(float(found[unit] or 0) * factor for unit, factor in (("h", 3600), ("m", 60), ("s", 1)))


FORMAT = Format(
    name="llmd_report",
    kind="benchmark",
    sniff=_sniff,
    read=_read,
    docs=(
        "llm-d benchmark reports, versions 0.1, 0.2 and 0.2.1: latencies and rates by the units that "
        "stand beside each figure, lengths, rate and concurrency of the load, and the stack's engines, "
        "arguments and accelerators. Where prefill and decode run apart, GPUs are counted together and "
        "the roles are listed."
    ),
)
