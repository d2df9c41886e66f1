"""``kbctl check``: would this launch command work?

Owns the command's options and its exit status (1 only for known-bad). Understanding and weighing live in
``recommend``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kb.cli.options import AsJson, RecordDirs, StorePath, print_json

if TYPE_CHECKING:
    from pathlib import Path

    from kb.vocab.engines import Launch
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
Command = Annotated[
    list[str] | None,
    typer.Argument(
        help="The launch command after --, or a file that holds one (script, compose, manifest, YAML)."
    ),
]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command()(check)


def check(
    command: Command = None,
    gpu: Gpu = None,
    gpus: Gpus = None,
    model: ModelName = None,
    quantization: Quantization = None,
    engine: Engine = None,
    settings: Set = None,
    environment: Env = None,
    dependencies: With = None,
    roles: Role = None,
    workload: Workload = None,
    records: RecordDirs = None,
    store: StorePath = None,
    as_json: AsJson = False,
) -> None:
    """Would this launch command work? Exit status 1 when it is known not to."""
    from kb.evidence import gather
    from recommend.query import Asked, ask
    from recommend.render import verdict as shape
    from recommend.veto import judge

    asked = Asked(
        gpu=gpu,
        gpus=gpus,
        model=model,
        quantization=quantization,
        engine=engine,
        settings=settings or (),
        environment=environment or (),
        dependencies=dependencies or (),
        roles=roles or (),
        workload=_workload(workload or []),
        **from_command(command or []),
    )
    query = ask(on_this_machine(asked))
    evidence = gather(query, store, records or ())
    answer = judge(query, evidence)
    if as_json:
        print_json(shape.as_json(query, answer))
    else:
        typer.echo(shape.as_text(query, answer))
    for problem in evidence.problems:
        typer.echo(f"kbctl: a record was left out: {problem}", err=True)
    if answer.verdict == "known-bad":
        raise typer.Exit(1)


_FILES = (".sh", ".bash", ".yaml", ".yml", ".service", ".json", ".txt", ".conf")


def from_command(words: list[str]) -> dict[str, Any]:
    """The command's words, or the launch that a file holds, as fields of a question.

    Raises KbctlError for a file that is not there or that starts no server.
    """
    from pathlib import Path

    from kb.errors import KbctlError

    if len(words) != 1 or " " in words[0]:
        return {"command": words}
    path = Path(words[0])
    if path.is_file():
        return {"launch": _launch_in(path)}
    if path.suffix in _FILES:
        raise KbctlError(
            "no such file", where=words[0], tip="give a launch command after --, or a file that holds one"
        )
    return {"command": words}


def _launch_in(path: Path) -> Launch:
    from ingest.pipeline import read_paths
    from kb.errors import KbctlError
    from kb.vocab.engines import Launch

    for reading in read_paths([path]):
        for experiment in reading.experiments:
            backend = experiment.backend
            if not backend.engine:
                continue
            for problem in reading.problems:
                typer.echo(f"kbctl: {path}: {problem.what}", err=True)
            return Launch(
                engine=backend.engine,
                version=backend.engine_version,
                model=experiment.model.name,
                settings=backend.settings,
                environment=backend.environment,
                flags=tuple(str(flag) for flag in reading.extra.get("unknown_flags", ())),
            )
    raise KbctlError(
        "it starts no server that is known", where=str(path), tip="kbctl parse FILE shows what it tells"
    )


def on_this_machine(asked: Asked) -> Asked:
    """The question with ``--gpu auto`` answered by nvidia-smi."""
    if (asked.gpu or "").lower() != "auto":
        return asked
    from dataclasses import replace

    from kb.cli.machine import local_gpus

    name, count, driver = local_gpus()
    return replace(
        asked, gpu=name, gpus=asked.gpus or count, dependencies=(f"driver={driver}", *asked.dependencies)
    )


def _workload(texts: list[str]) -> dict[str, object]:
    from recommend.query import pairs, value_of

    return {key: value_of(text) for key, text in pairs(texts, "--workload").items()}


def question(text: str) -> Asked:
    """The question in a line of ``check``'s own options, as a record's example holds it.

    Raises KbctlError where the options are not those of ``check``.
    """
    import shlex

    from kb.errors import KbctlError
    from recommend.query import Asked

    words = shlex.split(text)
    command = words[words.index("--") + 1 :] if "--" in words else []
    options = words[: len(words) - len(command) - bool("--" in words)]
    if len(options) % 2:
        raise KbctlError(f"an option without a value in {text!r}", tip="--gpu G --engine E --set key=value …")
    fields: dict[str, object] = {"command": command}
    for flag, value in zip(options[::2], options[1::2], strict=True):
        name, many = _OPTIONS.get(flag, (None, False))
        if name is None:
            raise KbctlError(f"check has no option {flag!r}", where=text, tip=", ".join(_OPTIONS))
        before = fields.get(name, ())
        fields[name] = (*before, value) if many and isinstance(before, tuple) else value
    fields["gpus"] = int(str(fields["gpus"])) if "gpus" in fields else None
    fields["workload"] = _workload(list(fields.get("workload", ())))  # type: ignore[call-overload]
    return Asked(**fields)  # type: ignore[arg-type]


_OPTIONS = {
    "--gpu": ("gpu", False),
    "--gpus": ("gpus", False),
    "--model": ("model", False),
    "--quantization": ("quantization", False),
    "--engine": ("engine", False),
    "--set": ("settings", True),
    "--env": ("environment", True),
    "--with": ("dependencies", True),
    "--role": ("roles", True),
    "--workload": ("workload", True),
}
