"""The words as frozen values: one experiment with its outcome and measurements, and what one file tells.

Owns the types that ``ingest`` makes and the store keeps. Everyone takes them from ``kb.model``, which loads
this module when it is needed. Must not import anything outside the standard library and ``kb.model``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kb.model import Backend, Blame, Effect, Hardware, Model, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The first true cause. ``signature`` is a class of the symptom table (``class`` in JSON), or
    ``unknown``.

    ``line`` is 1-based in ``path``; ``text`` is the (redacted) line itself; ``cause`` one sentence for
    people; ``record`` the id of the record that explains it, where one does.
    """

    signature: str
    text: str
    cause: str
    line: int | None = None
    path: str | None = None
    record: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Warning:  # noqa: A001 - the field's own word
    """Something noticed that is no failure: a silent fallback, a missing tuned config, a deprecated flag."""

    line: int | None
    text: str
    meaning: str
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How and where a run ended, and whose fault that was."""

    stage: Stage | None = None
    effect: Effect = "unknown"
    blame: Blame = "unknown"
    failure: Failure | None = None
    warnings: tuple[Warning, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One workload point. Metric names carry statistic and unit (``ttft_ms_p99``, ``output_tok_s``).

    ``workload`` keys: input_len, output_len (tokens per request), concurrency, request_rate (1/s or "inf"),
    prompts, dataset, depth, batch_size, test. ``client`` is the tool that measured. ``line`` is where it
    stands. ``source_names`` keeps the source's own metric name where its definition differs.
    """

    workload: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    client: str | None = None
    line: int | None = None
    path: str | None = None
    source_names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A named state of the GPUs, found by thresholds that are data (kb/vocab/conditions.json)."""

    name: str
    gpu: int | None
    text: str
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTrace:
    """One GPU's samples, summarised: metric -> {min, mean, p50, max}. Metric names carry units.

    utilization_pct, memory_utilization_pct, power_w, power_limit_w, sm_clock_mhz, sm_clock_max_mhz,
    memory_clock_mhz, memory_used_mib, memory_total_mib, temperature_c. ``throttle`` maps a throttle reason to
    the share of samples that showed it (0..1). ``busy`` is about the samples under load (utilisation of 50 %
    or more) alone: ``samples``, ``share`` of all, the mean of each metric, ``saturated_share`` (utilisation
    of 95 % or more), ``throttle:<reason>`` shares; and of the others ``idle_power_w``,
    ``idle_full_clock_share``.
    """

    index: int | None
    name: str | None = None
    uuid: str | None = None
    samples: int = 0
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    throttle: Mapping[str, float] = field(default_factory=dict)
    busy: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """What a trace or snapshot of the GPUs tells. Times are ISO 8601 as printed; ``extra`` keeps the rest."""

    samples: int = 0
    rows: int = 0
    interval_s: float | None = None
    started: str | None = None
    ended: str | None = None
    gpus: tuple[GpuTrace, ...] = ()
    conditions: tuple[Condition, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One server start and what was measured on it. ``run`` is empty until the store gives it an id.

    ``started``/``ended`` are ISO 8601 (with zone where the source has one). ``said`` names the fields that
    the user supplied rather than a file. ``joined`` says how each further source was attached: (path, how,
    0..1).
    """

    run: str = ""
    hardware: Hardware = field(default_factory=Hardware)
    model: Model = field(default_factory=Model)
    backend: Backend = field(default_factory=Backend)
    outcome: Outcome = field(default_factory=Outcome)
    measurements: tuple[Measurement, ...] = ()
    telemetry: Telemetry | None = None
    started: str | None = None
    ended: str | None = None
    port: int | None = None
    sources: tuple[str, ...] = ()
    joined: tuple[tuple[str, str, float], ...] = ()
    said: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something in a file that could not be read: 1-based line (None for the whole file), and what it was."""

    line: int | None
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCount:
    """Lines of a text source: all, those that a parser understood, and those that it did not."""

    total: int = 0
    understood: int = 0
    unknown: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one file tells, on its own. ``format`` is a format's name or ``unknown``.

    ``kind``: server_log | trace | benchmark | config | probe | metrics | note | unknown. It decides how
    assembly joins it: a server_log anchors runs (one experiment per server start); a benchmark carries
    measurements in experiments whose server is unknown; a config's ``experiments`` holds at most one
    experiment that only supplies fields; a trace has telemetry and no experiments. ``status``: parsed |
    partial | unknown | refused. ``extra`` keeps what has no place of its own yet (shown, stored, never
    dropped).
    """

    path: str
    format: str
    kind: str = "unknown"
    tool: str | None = None
    tool_version: str | None = None
    status: str = "parsed"
    experiments: tuple[Experiment, ...] = ()
    telemetry: Telemetry | None = None
    lines: LineCount = field(default_factory=LineCount)
    problems: tuple[Problem, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
