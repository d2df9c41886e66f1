"""The README's console blocks are run, and what they show is what the commands print.

A line that is only ``…`` stands for any number of lines.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCKS = re.findall(
    r"^```console\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)


def sessions():
    """(command, expected lines) of every ``$ kbctl`` in the README's console blocks."""
    for block in BLOCKS:
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            while command.endswith("\\"):
                more, _, output = output.partition("\n")
                command = command[:-1] + more.strip()
            yield command, output.rstrip("\n").split("\n")


def shows(lines, shown):
    """Whether ``shown``, with ``…`` for left-out lines, is what ``lines`` are."""
    if not shown:
        return not lines
    if shown[0].strip() == "…":
        return any(shows(lines[start:], shown[1:]) for start in range(len(lines) + 1))
    return bool(lines) and lines[0].rstrip() == shown[0].rstrip() and shows(lines[1:], shown[1:])


def test_the_readme_opens_with_commands():
    assert len(list(sessions())) >= 2


@pytest.mark.parametrize(
    ("command", "shown"), list(sessions()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_readme_command_prints_what_it_shows(command, shown, tmp_path):
    words = shlex.split(command)
    assert words[0] == "kbctl", command
    done = subprocess.run(
        [sys.executable, "-m", "kb.cli", *words[1:]],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "KBCTL_STORE": str(tmp_path / "kb.duckdb"), "COLUMNS": "100"},
        check=False,
    )
    lines = done.stdout.rstrip("\n").split("\n")
    assert done.returncode in (0, 1), done.stderr
    assert shows(lines, shown), done.stdout


def test_a_changed_line_is_noticed():
    assert shows(["a", "b", "c"], ["a", "…", "c"])
    assert not shows(["a", "b", "c"], ["a", "…", "d"])
    assert not shows(["a", "b"], ["a"])
