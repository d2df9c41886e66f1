"""Which kernel does which job: what was asked, what the log shows was picked, and where the two differ.

Owns turning choice lines into roles. Must not guess what ``auto`` picks: only lines that a log holds count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ingest.events import Event
from kb.model import Hardware, Model
from kb.vocab.engines import kernel_of_label, role_names, roles_of, roles_of_label
from kb.vocab.models import ModelEntry, find_model

MAX_TOLD = 40
# What an option's words mean holds for NVIDIA and AMD; elsewhere the same word is another library.
OTHER_DEVICES = frozenset({"npu", "cpu", "hpu", "xpu"})


@dataclass(slots=True)
class Choices:
    """Role to kernel, asked and run; ``told``: lines that say so; ``surprises``: (line, text, meaning)."""

    requested: dict[str, str] = field(default_factory=dict)
    resolved: dict[str, str] = field(default_factory=dict)
    told: list[dict[str, Any]] = field(default_factory=list)
    surprises: list[tuple[int | None, str, str]] = field(default_factory=list)
    picked: set[str] = field(default_factory=set)

    def was_picked(self, key: str, value: Any) -> bool:
        """Whether a backend setting only repeats what the engine picked by itself."""
        return key.endswith("backend") and isinstance(value, str) and value in self.picked


def resolve(  # noqa: PLR0913, PLR0917 - one question has as many sides
    events: Iterable[Event],
    engine: str,
    facts: Mapping[str, Any],
    settings: Mapping[str, Any],
    hardware: Hardware,
    model: Model,
    reached_ready: bool,
) -> Choices:
    """What the choice lines of one start say, beside what its settings ask for."""
    chosen = Choices()
    version = facts.get("engine_version")
    auto: dict[str, str] = {}
    lines: dict[str, tuple[int, str]] = {}
    for event in events:
        if event.kind != "choice":
            continue
        for role, kernel in kernels_of(event, engine, version, hardware.arch).items():
            _note(chosen, event, role, kernel)
            if kernel is None or _is_of_another_part(chosen, event, role, kernel):
                continue
            lines.setdefault(role, (event.line, event.text))
            is_sure = event.values.get("version") is not None or event.values.get("how") == "fallback"
            if is_sure or role not in chosen.resolved or event.values.get("how") == "auto":
                chosen.resolved[role] = kernel
            if event.values.get("how") == "auto":
                auto[role] = kernel
                chosen.picked.add(str(event.values.get("label")))
    entry = find_model(model.name) if model.name else None
    environment = facts.get("environment") or {}
    asked = {
        role: kernel
        for role, kernel in roles_of(
            engine, version, settings, environment, hardware.arch, model.quantization, entry
        ).items()
        if _concerns(role, entry, model.quantization, str((facts.get("settings") or {}).get("device")))
    }
    chosen.requested = {
        role: kernel for role, kernel in asked.items() if auto.get(role.removeprefix("draft:")) != kernel
    }
    if reached_ready:
        for role, kernel in asked.items():
            chosen.resolved.setdefault(role, kernel)
    _compare(chosen, lines)
    return chosen


def _is_of_another_part(chosen: Choices, event: Event, role: str, kernel: str) -> bool:
    """Whether FlashAttention's generation is told of a draft or a vision tower, not of the model."""
    runs = chosen.resolved.get(role)
    return event.values.get("version") is not None and runs is not None and runs[:2] != kernel[:2]


def _concerns(role: str, entry: ModelEntry | None, quantization: str | None, device: str) -> bool:
    """Whether a run has this role at all: a dump names a backend for every role, needed or not."""
    role = role.removeprefix("draft:")
    if device in OTHER_DEVICES and role != "moe.all2all":
        return False
    if role.startswith("dsa."):
        return entry is not None and "dsa" in entry.attention
    return role != "gemm.fp4" or quantization is None or "fp4" in quantization


def kernels_of(event: Event, engine: str, version: str | None, arch: str | None) -> dict[str, str | None]:
    """Role to kernel of one choice line; None where the label does not tell which kernel runs."""
    label, role = event.values.get("label"), event.values.get("role", "")
    if not label:
        return {}
    generation = event.values.get("version")
    roles = roles_of_label(label) if role == "gemm" else role_names(role)
    return {one: kernel_of_label(engine, one, label, arch, generation or version) for one in roles}


def _note(chosen: Choices, event: Event, role: str, kernel: str | None) -> None:
    told = {
        "role": role,
        "kernel": kernel,
        "how": event.values.get("how"),
        "line": event.line,
        "text": event.text[:300],
    }
    if len(chosen.told) < MAX_TOLD and not any(
        one["role"] == role and one["text"] == told["text"] for one in chosen.told
    ):
        chosen.told.append(told)


def _compare(chosen: Choices, lines: Mapping[str, tuple[int, str]]) -> None:
    said: set[tuple[str, str]] = set()
    for role, kernel in chosen.requested.items():
        runs = chosen.resolved.get(role)
        if runs is None or runs == kernel or (kernel, runs) in said:
            continue
        said.add((kernel, runs))
        line, text = lines.get(role, (None, ""))
        job = role.partition(".")[0] if role.startswith("attention.") else role
        meaning = f"Silent fallback: {kernel} was asked for {job}, but {runs} runs."
        chosen.surprises.append((line, text[:300], meaning))
