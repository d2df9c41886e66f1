"""The question's types: as asked, as understood, and which kernel does each role.

Owns the values only; ``recommend.query.ask`` makes one from the other. Must not look anything up.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kb import EMPTY, versions
from kb.model import Hardware, Model
from kb.vocab import engines, gpus, models

Version = str | versions.Span


class Checkpoint(NamedTuple):
    """What a checkpoint's own files say: its ``config.json``, and the bytes of its weights where known."""

    config: Mapping[str, Any]
    weight_bytes: int | None = None


class Asked(NamedTuple):
    """A question in the words of the command line; ``key=value`` stays text until ``ask`` reads it.

    ``launch`` is a launch that was already read (from a script, a compose file …) instead of ``command``.
    """

    gpu: str | None = None
    gpus: int | None = None
    model: str | None = None
    quantization: str | None = None
    engine: str | None = None
    settings: Sequence[str] = ()
    environment: Sequence[str] = ()
    dependencies: Sequence[str] = ()
    roles: Sequence[str] = ()
    workload: Mapping[str, Any] = EMPTY
    command: Sequence[str] = ()
    launch: "engines.Launch | None" = None
    checkpoint: Checkpoint | None = None
    goal: str | None = None
    limits: Mapping[str, float] = EMPTY


class Resolution(NamedTuple):
    """Which kernel does a role, and who says so: ``said`` (--role), ``setting``, or ``auto`` (a gate)."""

    kernel: str
    by: str
    detail: str | None = None


class Query(NamedTuple):
    """A question, understood.

    ``components`` maps a library to its version, or to the span in which the release's pins put it.
    ``requested`` is what settings ask for, ``resolved`` what will run where that is known. ``unknown`` holds
    sentences about words that no catalog knows; ``unknown_flags`` rows (flag, release that has it, nearest).
    ``launched`` tells a whole server's launch from a question about a kernel. ``asked`` holds the words that
    it was understood from: what is recommended is asked of every engine in the same words.
    """

    hardware: Hardware = Hardware()
    gpu_facts: gpus.Gpu | None = None
    model: Model = Model()
    entry: models.ModelEntry | None = None
    engine: str | None = None
    engine_version: str | None = None
    dependencies: Mapping[str, str] = EMPTY
    components: Mapping[str, Version] = EMPTY
    settings: Mapping[str, Any] = EMPTY
    environment: Mapping[str, str] = EMPTY
    requested: Mapping[str, str] = EMPTY
    resolved: Mapping[str, Resolution] = EMPTY
    common: Mapping[str, Any] = EMPTY
    kv_dtype: str | None = None
    quantization: str | None = None
    topology: str | None = None
    build: str | None = None
    workload: Mapping[str, Any] = EMPTY
    goal: str | None = None
    limits: Mapping[str, float] = EMPTY
    assumed: Mapping[str, str] = EMPTY
    unknown: tuple[str, ...] = ()
    unknown_flags: tuple[tuple[str, str | None, str | None], ...] = ()
    checkpoint: Checkpoint | None = None
    launched: bool = False
    asked: Asked = Asked()

    @property
    def arch(self) -> str | None:
        """The GPU's architecture (``sm120``), or None where the GPU is unknown."""
        return self.hardware.arch

    def kernel(self, role: str) -> str | None:
        """The kernel that does a role, or None where nobody knows."""
        found = self.resolved.get(role)
        return found.kernel if found else None
