"""Options that several commands share, spelled once, and the ways in which an answer leaves.

Must not decide what an answer says.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from kb.errors import KbctlError

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object (stable schema) instead of text.")
]
StorePath = Annotated[
    Path | None,
    typer.Option(
        "--store", envvar="KBCTL_STORE", help="DuckDB file of recorded runs (default: per-user data folder)."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary on stderr.")]
RecordDirs = Annotated[
    list[Path] | None,
    typer.Option("--records", envvar="KBCTL_RECORDS", help="Folder of private records; repeatable."),
]


def tell_left_out(problems: Iterable[str]) -> None:
    """Say on stderr which records could not be read: the answer is made without them."""
    for problem in problems:
        typer.echo(f"kbctl: a record was left out: {problem}", err=True)


def print_json(value: Any, *, compact: bool = False) -> None:
    """One JSON object on stdout; ``compact`` on a line of its own, where there are several.

    Escaped to ASCII: names are untrusted, and a terminal or a narrow encoding must not stumble over them.
    """
    indent = None if compact else 2
    try:
        text = json.dumps(value, indent=indent, allow_nan=False)
    except ValueError:  # what JSON cannot say (NaN, infinities) becomes null
        from kb.wire import compact as finite

        text = json.dumps(json.loads(finite(value)), indent=indent)
    typer.echo(text)


def write_page(path: Path, text: str) -> None:
    """A page or a script as a file. Raises KbctlError where it cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        tip = "name a file in a folder that is there and can be written"
        raise KbctlError(f"cannot write: {error.strerror}", where=str(path), tip=tip) from None
