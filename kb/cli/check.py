"""``kbctl check``: would this launch command work?

Owns the command's options and its exit status (1 only for known-bad). Understanding and weighing live in
``recommend``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kb.cli.asking import Role, asks, setup
from kb.cli.options import AsJson, RecordDirs, StorePath, print_json, tell_left_out

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ingest.starts import Told
    from kb.knowledge import Knowledge
    from recommend.question import Asked

Command = Annotated[
    list[str] | None,
    typer.Argument(
        help="The launch command after --, or files that hold one (script, compose, manifest, YAML)."
    ),
]
Workload = Annotated[
    list[str] | None, typer.Option("--workload", help="Workload, e.g. concurrency=64; repeatable.")
]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command()(check)


@asks(setup)
def check(
    asked: Asked,
    command: Command = None,
    roles: Role = None,
    workload: Workload = None,
    records: RecordDirs = None,
    store: StorePath = None,
    as_json: AsJson = False,
) -> None:
    """Would this launch command work? Exit status 1 when it is known not to.

    Several files may be given: every server start in them is judged.

    Example: kbctl check --gpu sm120 -- vllm serve openai/gpt-oss-120b --tensor-parallel-size 2
    """
    from kb.knowledge import load
    from kb.vocab.gpus import arch_of

    words = command or []
    asked = asked._replace(roles=roles or (), workload=_workload(workload or []))
    known = load(records or (), arch_of(asked.gpu) if asked.gpu else None)
    paths = files_named(words)
    questions = from_files(asked, paths) if paths else [Place(question=_with_command(asked, words))]
    several = len(questions) > 1
    verdicts = [_tell(one, known, store, as_json=as_json, several=several) for one in questions]
    if several and not as_json:
        typer.echo(_summary(verdicts, len(paths)))
    tell_left_out(known.problems)
    if "known-bad" in verdicts:
        raise typer.Exit(1)


def _with_command(asked: Asked, words: list[str]) -> Asked:
    """The question with its command, and what a local checkpoint that it names says of itself."""
    named = [word for word in (asked.model, *words) if word and "/" in word]
    if not named:
        return asked._replace(command=words)
    from kb.cli.checkpoint import checkpoint_among

    return asked._replace(command=words, checkpoint=checkpoint_among(named))


class Place(NamedTuple):
    """A question and where it stands: file and line, both None for a command line.

    ``question`` is None where the file launches nothing; ``note`` then says so.
    """

    question: Asked | None
    file: Path | None = None
    line: int | None = None
    note: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else str(self.file)


def _tell(place: Place, known: Knowledge, store: Path | None, *, as_json: bool, several: bool) -> str:
    """Judge one start and print the answer; the verdict, or ``none`` where nothing is launched."""
    from kb.evidence import gather
    from recommend.query import Asked, ask
    from recommend.render import verdict as shape
    from recommend.render.plain import safe
    from recommend.veto import judge, nothing_asked

    query = ask(place.question or Asked())
    if place.question:
        answer = judge(query, gather(query, store, known=known))
    else:
        answer = nothing_asked(place.note or "")
    if as_json:
        where = {"file": str(place.file), "line": place.line} if place.file else {}
        print_json(shape.as_json(query, answer) | where, compact=several)
    elif place.question is None:
        typer.echo(f"{safe(place)}: {safe(place.note)}")
    else:
        lead = f"{safe(place)}: " if place.file else ""
        typer.echo(lead + shape.as_text(query, answer) + ("\n" if several else ""))
    return answer.verdict if place.question else "none"


def _summary(verdicts: list[str], files: int) -> str:
    counts = {one: verdicts.count(one) for one in dict.fromkeys(verdicts) if one != "none"}
    told = ", ".join(f"{count} {word}" for word, count in counts.items())
    starts = sum(counts.values())
    return f"{starts} server start{'s' * (starts != 1)} in {files} file{'s' * (files != 1)}" + (
        f": {told}" if told else ""
    )


_FILES = (".sh", ".bash", ".yaml", ".yml", ".service", ".json", ".txt", ".conf")


def files_named(words: list[str]) -> list[Path]:
    """The words as paths where all of them are files; empty where they are a command.

    Raises KbctlError for a file that is not there, and for a folder alone.
    """
    from pathlib import Path

    from kb.errors import KbctlError

    paths = [Path(word) for word in words]
    if len(words) == 1 and _is(paths[0].is_dir):
        tip = f"name the files in it that start servers: kbctl check {words[0].rstrip('/')}/*.sh"
        raise KbctlError("this is a folder", where=words[0], tip=tip)
    there = [_is(path.is_file) for path in paths]
    named = [
        found or (path.suffix in _FILES and " " not in str(path))
        for path, found in zip(paths, there, strict=True)
    ]
    if not words or not all(named):
        return []
    for path, found in zip(paths, there, strict=True):
        if not found:
            raise KbctlError(
                "no such file", where=str(path), tip="give a launch command after --, or files that hold one"
            )
    return paths


def _is(kind: Callable[[], bool]) -> bool:
    try:
        return kind()
    except (OSError, ValueError):  # a name that is too long, or none that a file can have
        return False


def from_files(asked: Asked, paths: list[Path]) -> list[Place]:
    """A question for every server start in the files; a file without one is told, never an error.

    A checkpoint's ``config.json`` among the files speaks for the models that the others start.
    """
    from ingest.starts import told_by
    from kb.cli.checkpoint import read_checkpoint, sized

    told = [told_by(path) for path in paths]
    configs = [one.path for one in told if not one.starts and sized(one.path)]
    shared = read_checkpoint(configs[0]) if len(configs) == 1 else None
    places: list[Place] = []
    for one in told:
        for start in one.starts:
            local = read_checkpoint(start.checkpoint / "config.json") if start.checkpoint else None
            question = asked._replace(
                launch=start.launch,
                checkpoint=local or shared,
                gpu=asked.gpu or start.hardware.gpu,
                gpus=asked.gpus or start.hardware.count,
            )
            places.append(Place(question, one.path, start.launch.line))
        if not one.starts and one.path not in configs:
            places.append(Place(None, one.path, note=_nothing(one)))
    if not places and shared:
        places.append(Place(asked._replace(checkpoint=shared), configs[0]))
    return places


def _nothing(told: Told) -> str:
    why = next(iter(told.notes), "")
    return "holds no launch command that is known" + (f" ({why})" if why else "")


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
