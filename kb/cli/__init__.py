"""The command line's composition root: which command lives in which module, loaded only when asked for.

Owns dispatch and how errors are told. A command module offers ``register(app)``; its heavy imports stand in
the command bodies. Must not do any work itself.
"""

from __future__ import annotations

import gc
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kb.errors import EXIT_PIPE, EXIT_USAGE, KbctlError

if TYPE_CHECKING:
    import typer
    from typer.models import CommandInfo

ABOUT = "What do I run next on these GPUs, why, and what must I not run? Answers from recorded runs."
ANSWERS = {"recommend", "runbook", "check", "explain"}
REFUSED = "look at its space and its rights; KBCTL_DEBUG=1 shows where it happened"
REPORT = "run it again with KBCTL_DEBUG=1 for the traceback, and report it with the command that you typed"

COMMANDS: dict[str, str] = {
    # command -> module of kb.cli that registers it
    "ingest": "ingest",
    "parse": "ingest",
    "rebuild": "ingest",
    "diagnose": "diagnose",
    "recommend": "recommend",
    "runbook": "recommend",
    "check": "check",
    "explain": "explain",
    "runs": "runs",
    "show": "runs",
    "compare": "runs",
    "invalidate": "history",
    "forget": "history",
    "note": "history",
    "link": "history",
    "unlink": "history",
    "records": "records",
    "export": "data",
    "import": "data",
    "sql": "data",
    "fit": "fit",
    "replay": "replay",
    "doctor": "doctor",
    "mcp": "mcp",
    "report": "report",
    "record": "record",
}


def build(modules: Sequence[str], *, completion: bool = False) -> typer.Typer:
    """The application with the commands of the given modules; ``completion`` of words by the shell costs."""
    import typer  # only when ``main`` has said whether garbage is collected: it makes much

    app = typer.Typer(
        name="kbctl",
        help=ABOUT,
        no_args_is_help=True,
        add_completion=completion,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def root(
        version: bool = typer.Option(
            False, "--version", is_eager=True, callback=_print_version, help="Print the version."
        ),
    ) -> None:
        """What do I run next on these GPUs, why, and what must I not run?"""

    for name in dict.fromkeys(modules):
        importlib.import_module(f"kb.cli.{name}").register(app)
    return app


def _name_of(command: CommandInfo) -> str | None:
    return command.name or getattr(command.callback, "__name__", None)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        import typer

        typer.echo(f"kbctl {version('kbctl')}")
        raise typer.Exit


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; errors go to stderr as what, where, and what next."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what an encoding lacks is written out, never an error
            stream.reconfigure(errors="backslashreplace")
    asked = next((word for word in arguments if not word.startswith("-")), None)
    modules = [COMMANDS[asked]] if asked in COMMANDS else list(COMMANDS.values())
    if asked in ANSWERS:
        gc.disable()  # these end before collecting pays; it would be a tenth of their time
    try:
        app = build(modules, completion=asked not in COMMANDS)
        if asked in ANSWERS:  # the other commands of its module would be prepared for nothing
            app.registered_commands = [one for one in app.registered_commands if _name_of(one) == asked]
        app(arguments, prog_name="kbctl")
    except SystemExit as ended:
        # typer ends with 1 where the reader of a pipe went away: that would say "the answer is no".
        code = EXIT_PIPE if isinstance(ended.__context__, BrokenPipeError) else ended.code
        if asked in ANSWERS and argv is None:
            leave(code)
        sys.exit(code)
    except KbctlError as error:
        tell(error)
        sys.exit(error.code)
    except Exception as error:
        if os.environ.get("KBCTL_DEBUG"):
            raise
        tell(_unexpected(error))
        sys.exit(EXIT_USAGE)


def _unexpected(error: Exception) -> KbctlError:
    """What the system refused (a full disk, a missing right) is told as that; the rest is for us to mend."""
    if isinstance(error, OSError) and error.strerror:
        place = str(error.filename) if error.filename else None
        return KbctlError(f"the system refused: {error.strerror}", where=place, tip=REFUSED)
    return KbctlError(f"internal error: {type(error).__name__}: {error}", tip=REPORT)


def leave(code: object) -> None:
    """End the process at once: to take all its values apart would be a twentieth of an answer."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # a caller may have closed it
            stream.flush()
    os._exit(code if isinstance(code, int) else int(bool(code)))


def tell(error: KbctlError) -> None:
    """Print an error to stderr, with its place and its tip."""
    import typer

    typer.echo(f"kbctl: {error.what}", err=True)
    if error.where:
        typer.echo(f"  at: {error.where}", err=True)
    if error.tip:
        typer.echo(f"  next: {error.tip}", err=True)
