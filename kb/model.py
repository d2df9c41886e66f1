"""The words as frozen values: what a configuration is, and what came of trying it.

Owns the types that travel between stages; those of single readings and experiments live in ``kb.reading`` and
are found here too, but loaded only when someone asks for them: the reading commands do not, and every class
costs them start-up time. Must not read files, open databases, or import anything outside the standard
library. Unknown is ``None`` or an empty mapping, never a guess.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kb import EMPTY

if TYPE_CHECKING:
    from kb.reading import (
        Condition,
        Experiment,
        Failure,
        GpuTrace,
        LineCount,
        Measurement,
        Outcome,
        Problem,
        Reading,
        Telemetry,
        Warning,  # noqa: A004 - the field's own word
    )

__all__ = [
    "BLAMES",
    "EFFECTS",
    "STAGES",
    "Backend",
    "Blame",
    "Condition",
    "Effect",
    "Ending",
    "Experiment",
    "Failure",
    "GpuTrace",
    "Hardware",
    "LineCount",
    "Measurement",
    "Model",
    "Outcome",
    "Point",
    "Problem",
    "Reading",
    "Roles",
    "Settings",
    "Stage",
    "Telemetry",
    "Tried",
    "Warning",
]

Stage = Literal[
    "install",
    "args",
    "init",
    "load",
    "kv_cache",
    "jit",
    "warmup",
    "capture",
    "ready",
    "serve",
    "load_test",
    "quality",
]
Effect = Literal[
    "ok", "refused", "crash", "oom", "hang", "killed", "wrong_output", "accuracy_loss", "slow", "unknown"
]
Blame = Literal["backend", "environment", "user", "harness", "unknown"]

STAGES: tuple[Stage, ...] = Stage.__args__  # type: ignore[attr-defined]
EFFECTS: tuple[Effect, ...] = Effect.__args__  # type: ignore[attr-defined]
BLAMES: tuple[Blame, ...] = Blame.__args__  # type: ignore[attr-defined]

Settings = Mapping[str, Any]
Roles = Mapping[str, str]


class Hardware(NamedTuple):
    """The machine. ``gpu`` is the product name as the catalog spells it, ``arch`` such as ``sm120``."""

    gpu: str | None = None
    arch: str | None = None
    count: int | None = None  # type: ignore[assignment] # nobody counts in a machine as in a tuple
    memory_gib: float | None = None
    power_limit_w: float | None = None
    driver: str | None = None
    cuda: str | None = None
    topology: str | None = None


class Model(NamedTuple):
    """The checkpoint. ``name`` as the source gives it, ``id`` and ``family`` from the catalog when known."""

    name: str | None = None
    id: str | None = None
    family: str | None = None
    architecture: str | None = None
    quantization: str | None = None


class Backend(NamedTuple):
    """An engine and its choices. ``requested`` and ``resolved`` map role to kernel; settings by flag dest."""

    engine: str | None = None
    engine_version: str | None = None
    dependencies: Mapping[str, str] = EMPTY
    settings: Settings = EMPTY
    environment: Mapping[str, str] = EMPTY
    requested: Roles = EMPTY
    resolved: Roles = EMPTY


class Point(NamedTuple):
    """Measured values of one configuration at one workload: medians over ``n`` measurements.

    ``spread`` maps a metric to (lowest, highest) where n > 1; ``date`` is the newest ISO date.
    """

    workload: Mapping[str, Any]
    metrics: Mapping[str, float]
    n: int = 1
    spread: Mapping[str, tuple[float, float]] = EMPTY
    date: str | None = None
    runs: tuple[str, ...] = ()


class Ending(NamedTuple):
    """How runs of one configuration ended: one row per (stage, effect, blame, signature), newest first."""

    stage: Stage | None
    effect: Effect
    blame: Blame
    signature: str | None = None
    cause: str | None = None
    text: str | None = None
    n: int = 1
    date: str | None = None
    runs: tuple[str, ...] = ()


class Tried(NamedTuple):
    """Own runs of one configuration, folded together: what the snapshot of a store holds a row of.

    ``key`` is a stable hash of hardware, model and backend. ``conditions`` maps a telemetry condition to the
    number of runs that showed it. Invalidated runs are left out.
    """

    key: str
    hardware: Hardware
    model: Model
    backend: Backend
    endings: tuple[Ending, ...]
    points: tuple[Point, ...] = ()
    conditions: Mapping[str, int] = EMPTY
    warnings: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    date: str | None = None


def __getattr__(name: str) -> Any:
    """The types of ``kb.reading``, loaded on first use."""
    if name.startswith("_") or name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kb import reading  # noqa: PLC0415 - see the module's first lines

    return getattr(reading, name)
