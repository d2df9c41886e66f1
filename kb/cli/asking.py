"""Options that put a question: which hardware, model and engine, and what is set on it.

Owns their spelling and ``--gpu auto``. What they mean is for ``recommend.query``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from recommend.question import Asked

Gpu = Annotated[str | None, typer.Option("--gpu", help="GPU: arch (sm120), product, nickname, or auto.")]
Gpus = Annotated[int | None, typer.Option("--gpus", help="Number of GPUs.")]
ModelName = Annotated[str | None, typer.Option("--model", help="Model: hub id, path, or nickname.")]
Quantization = Annotated[
    str | None, typer.Option("--quantization", help="Weight quantization, e.g. nvfp4, fp8.")
]
Engine = Annotated[str | None, typer.Option("--engine", help="Engine, with ==VERSION where known.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="Setting by flag dest, key=value; repeatable.")]
Env = Annotated[list[str] | None, typer.Option("--env", help="Environment variable, K=V; repeatable.")]
With = Annotated[
    list[str] | None, typer.Option("--with", help="Component version, e.g. flashinfer=0.6.5; repeatable.")
]
Role = Annotated[
    list[str] | None, typer.Option("--role", help="Kernel a log says was resolved, role=kernel; repeatable.")
]
Workload = Annotated[
    list[str] | None, typer.Option("--workload", help="Workload, e.g. concurrency=64; repeatable.")
]


def on_this_machine(asked: Asked) -> Asked:
    """The question with ``--gpu auto`` answered by nvidia-smi."""
    if (asked.gpu or "").lower() != "auto":
        return asked
    from kb.cli.machine import local_gpus

    name, count, driver = local_gpus()
    return asked._replace(
        gpu=name, gpus=asked.gpus or count, dependencies=(f"driver={driver}", *asked.dependencies)
    )
