"""Options that put a question: which hardware, model and engine, and what is set on it.

Owns their spelling, how commands share them, and ``--gpu auto``. What they mean is for ``recommend.query``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from recommend.question import Asked

Answer = TypeVar("Answer")
Gpu = Annotated[str | None, typer.Option("--gpu", help="GPU: arch (sm120), product, nickname, or auto.")]
Gpus = Annotated[int | None, typer.Option("--gpus", min=1, help="Number of GPUs.")]
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


def asks(put: Callable[..., Asked]) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Make a function take the options of ``put`` in place of its first argument: the question put."""
    shared = _options(put)

    def taking(answer: Callable[..., Answer]) -> Callable[..., Answer]:
        options = {**shared, **dict(list(_options(answer).items())[1:])}

        @functools.wraps(answer)
        def answered(**said: Any) -> Answer:
            asked = put(**{name: said.pop(name) for name in shared})
            return answer(asked, **said)

        answered.__signature__ = inspect.Signature(list(options.values()))  # type: ignore[attr-defined]
        answered.__annotations__ = {name: one.annotation for name, one in options.items()}
        return answered

    return taking


def _options(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    # The type of a question is imported for type checkers only: loading it is for who asks one.
    return inspect.signature(function, locals={"Asked": object}, eval_str=True).parameters


def setup(
    gpu: Gpu = None,
    gpus: Gpus = None,
    model: ModelName = None,
    quantization: Quantization = None,
    engine: Engine = None,
    settings: Set = None,
    environment: Env = None,
    dependencies: With = None,
) -> Asked:
    """A question about a model on hardware, as the options say it."""
    from recommend.question import Asked

    return on_this_machine(
        Asked(
            gpu=gpu,
            gpus=gpus,
            model=model,
            quantization=quantization,
            engine=engine,
            settings=settings or (),
            environment=environment or (),
            dependencies=dependencies or (),
        )
    )


def on_this_machine(asked: Asked) -> Asked:
    """The question with ``--gpu auto`` answered by nvidia-smi."""
    if (asked.gpu or "").lower() != "auto":
        return asked
    from kb.cli.machine import local_gpus

    name, count, driver = local_gpus()
    return asked._replace(
        gpu=name, gpus=asked.gpus or count, dependencies=(f"driver={driver}", *asked.dependencies)
    )
