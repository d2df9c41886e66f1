"""The events of one server log to experiments, one per server start.

Owns what a log on its own says of hardware, model, backend, outcome and speed. Must not look at other files:
what stands beside a log is joined later (ingest.folders, ingest.conclude).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ingest.choices import Choices, resolve
from ingest.classify import judge
from ingest.clock import iso_time, year_hint
from ingest.events import Event, Grammar, number
from ingest.logline import Line
from ingest.logscan import Scan, scan
from ingest.server_start import Start, Verdict
from ingest.settings import asked_settings, release_of
from ingest.sources import Source
from ingest.throughput import measurements
from ingest.tracebacks import Finding
from kb.model import Backend, Experiment, Hardware, LineCount, Model, Outcome, Problem, Reading, Warning  # noqa: A004
from kb.vocab.gpus import arch_of, find_gpu, product_name
from kb.vocab.models import family_of, find_model, quantization_of

MERGED = ("settings", "environment", "dependencies", "engine_config", "gpus", "gpu_ids")
LAST_WINS = frozenset({"kv_tokens", "kv_cache_gib", "max_concurrency", "port", "capture_s", "init_s"})
CARRIED = frozenset(
    {"engine_version", "gpu", "gpu_count", "gpus", "gpu_ids", "arch", "driver", "cuda", "memory_gib", "port"}
)
_LEAST_SHARE = 0.9  # of a product's memory that a card shows: one with less is another of its family
# Stores that name a weight file by its checksum: only its metadata tell what it is.
_BLOB = re.compile(r"\bsha256[-:_/]?[0-9a-f]{12,}")
OWN_FIELDS = frozenset(
    {
        "engine_version",
        "model",
        "architecture",
        "quantization",
        "gpu",
        "gpu_count",
        "driver",
        "cuda",
        "arch",
        "memory_gib",
        "port",
        "stage",
        "step",
        "pending",
        "end",
        "world_size",
        "device",
        *MERGED,
    }
)


def read_log(source: Source, grammar: Grammar, name: str) -> Reading:
    """What a server log tells: one experiment per server start."""
    found = scan(source, grammar)
    starts = split_starts(found)
    carried = facts_of(found.events, only=CARRIED) if grammar.carries else {}
    told = [_experiment(one, grammar, source, carried) for one in starts]
    problems = [Problem(line=None, what=source.trouble)] if source.trouble else []
    versions = [one.backend.engine_version for one, _ in told if one.backend.engine_version]
    return Reading(
        path=str(source.path),
        format=name,
        kind="server_log",
        tool=grammar.engine or None,
        tool_version=versions[0] if versions else None,
        status="partial" if source.trouble else "parsed",
        experiments=tuple(one for one, _ in told),
        lines=LineCount(total=found.total, understood=found.understood, unknown=found.unknown),
        problems=tuple(problems),
        extra={"runs": [extra for _, extra in told]},
    )


def split_starts(found: Scan) -> list[Start]:
    """A log's server starts. A start event begins a new one only when the current one had got anywhere."""
    edges = [1, *_cuts(found), found.total + 1]
    lines, errors = [one.line for one in found.events], [one.line for one in found.findings]
    starts = []
    for first, after in pairwise(edges):
        events = found.events[bisect_left(lines, first) : bisect_left(lines, after)]
        findings = found.findings[bisect_left(errors, first) : bisect_left(errors, after)]
        starts.append(Start(first, after - 1, events, findings, found, _ending(found, events, after)))
    return starts


def _cuts(found: Scan) -> Iterable[int]:
    begun = False
    marks = [(one.line, one.kind, _has_begun(one)) for one in found.events]
    marks += [(one.line, "finding", _has_ended(one)) for one in found.findings]
    for line, kind, counts in sorted(marks, key=lambda one: (one[0], one[1] != "start")):
        if kind == "start" and begun:
            yield line
            begun = False
        begun = begun or counts


def _has_begun(event: Event) -> bool:
    return event.kind in ("ready", "served") or (event.kind == "stage" and int(event.values["step"]) >= 10)


def _has_ended(finding: Finding) -> bool:
    return finding.match is not None and finding.match.symptom.kind in ("cause", "echo")


def _ending(found: Scan, events: Sequence[Event], after: int) -> Line | None:
    """The last line of a start: the log's last, or the last that told something before the next start."""
    if after > found.total or not events:
        return found.last
    return Line(events[-1].line, events[-1].text)


def facts_of(events: Iterable[Event], only: frozenset[str] | None = None) -> dict[str, Any]:
    """Values of all events together: the first one told wins, sizes take the last, mappings are merged."""
    facts: dict[str, Any] = {}
    for event in events:
        if event.kind not in ("start", "facts", "stage"):
            continue
        for key, value in event.values.items():
            if value is None or (only is not None and key not in only):
                continue
            if key in MERGED and isinstance(value, Mapping):
                facts[key] = {**facts.get(key, {}), **value}
            elif key == "weights_gib":
                facts[key] = max(facts.get(key, 0.0), number(str(value)) or 0.0)
            elif key in LAST_WINS:
                facts[key] = value
            else:
                facts.setdefault(key, value)
    return facts


def _experiment(
    start: Start, grammar: Grammar, source: Source, carried: Mapping[str, Any]
) -> tuple[Experiment, dict[str, Any]]:
    facts = _with_command({**carried, **facts_of(start.events)})
    verdict = judge(start)
    hardware, model = _hardware(facts), _model(facts)
    release = release_of(facts.get("engine_version"))
    settings = asked_settings(grammar.engine, release, facts.get("settings") or {})
    reached = verdict.outcome.stage in ("ready", "serve")
    told = {**facts, "engine_version": release}
    chosen = resolve(start.events, grammar.engine, told, settings, hardware, model, reached)
    year = year_hint(source)
    times = [one.time for one in start.events if one.time]
    experiment = Experiment(
        hardware=hardware,
        model=model,
        backend=Backend(
            engine=grammar.engine or None,
            engine_version=facts.get("engine_version"),
            dependencies=facts.get("dependencies") or {},
            settings={key: value for key, value in settings.items() if not chosen.was_picked(key, value)},
            environment=facts.get("environment") or {},
            requested=chosen.requested,
            resolved=chosen.resolved,
        ),
        outcome=_outcome(verdict, chosen),
        measurements=measurements(start),
        started=iso_time(times[0] if times and start.first > 1 else start.scan.started, year),
        ended=iso_time(times[-1] if times and start.last < start.scan.total else start.scan.ended, year),
        port=_whole(facts.get("port")),
        sources=(str(source.path),),
    )
    return experiment, _extra(facts, verdict, chosen)


def _with_command(facts: dict[str, Any]) -> dict[str, Any]:
    """With what the command that the log shows says, where the engine itself says nothing of it."""
    shown = facts.pop("shown", None)
    if not isinstance(shown, Mapping):
        return facts
    told = {key: value for key, value in shown.items() if value}
    return {**told, **{key: value for key, value in facts.items() if value or key not in told}}


def _outcome(verdict: Verdict, chosen: Choices) -> Outcome:
    outcome = verdict.outcome
    told = [Warning(line=line, text=text, meaning=meaning) for line, text, meaning in chosen.surprises]
    return Outcome(
        stage=outcome.stage,
        effect=outcome.effect,
        blame=outcome.blame,
        failure=outcome.failure,
        warnings=(*told, *outcome.warnings),
    )


def _hardware(facts: Mapping[str, Any]) -> Hardware:
    said = facts.get("gpu")
    known = find_gpu(said) if said else None
    settings = facts.get("settings") or {}
    seen = len(facts.get("gpu_ids") or facts.get("gpus") or ()) or None
    count = _whole(facts.get("world_size")) or _whole(facts.get("gpu_count")) or seen or _width(settings)
    count = None if facts.get("device") == "cpu" else count
    memory = number(str(facts["memory_gib"])) if "memory_gib" in facts else None
    whole = known.memory_gib if known else None
    fits = known is not None and (not memory or not whole or memory > whole * _LEAST_SHARE)
    return Hardware(
        gpu=product_name(said) if said and fits else said,
        arch=known.arch if known else arch_of(str(facts["arch"])) if facts.get("arch") else None,
        count=count,
        memory_gib=known.memory_gib if known and fits else memory,
        driver=facts.get("driver"),
        cuda=facts.get("cuda"),
    )


def _width(settings: Mapping[str, Any]) -> int | None:
    tensor = _whole(settings.get("tp_size") or settings.get("tensor_parallel_size"))
    pipeline = _whole(settings.get("pp_size") or settings.get("pipeline_parallel_size")) or 1
    data = _whole(settings.get("dp_size") or settings.get("data_parallel_size")) or 1
    inside = bool(settings.get("enable_dp_attention"))
    return None if tensor is None else tensor * pipeline * (1 if inside else data)


def _model(facts: Mapping[str, Any]) -> Model:
    name = facts.get("model")
    name = name if isinstance(name, str) else None
    title = facts.get("model_title")
    name = str(title).strip() if name and title and _BLOB.search(name) else name
    entry = find_model(name) if name else None
    told = [str(one) for one in (facts.get("quantization"), name) if one and str(one) != "None"]
    found = next((method for one in told if (method := quantization_of(one))), None)
    return Model(
        name=name,
        id=entry.id if entry else None,
        family=entry.family if entry else family_of(name) if name else None,
        architecture=facts.get("architecture") or (entry.architecture if entry else None),
        quantization=found or (told[0] if told and told[0] != name else None),
    )


def _extra(facts: Mapping[str, Any], verdict: Verdict, chosen: Choices) -> dict[str, Any]:
    kept = {key: _plain(value) for key, value in facts.items() if key not in OWN_FIELDS}
    kept |= {"gpu_as_printed": facts["gpu"]} if facts.get("gpu") else {}
    return {
        "facts": {**kept, **(facts.get("engine_config") or {})},
        "choices": chosen.told,
        "rank": verdict.rank or None,
        "frame": verdict.frame,
        "advice": [one for one in (facts.get("log_advice"), verdict.advice) if one],
        "pending": verdict.pending,
        "echoes": [
            {"line": one.line, "last": one.last, "count": one.count, "text": one.text[:300]}
            for one in verdict.echoes[:20]
        ],
    }


def _plain(value: Any) -> Any:
    parsed = number(value) if isinstance(value, str) else None
    return value if parsed is None else parsed


def _whole(value: Any) -> int | None:
    parsed = number(str(value)) if value is not None else None
    return parsed if isinstance(parsed, int) else None
