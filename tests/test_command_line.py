"""The command line as a tired user meets it: examples in --help, errors that say what next, true statuses."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from kb.cli import COMMANDS, build, main
from kb.errors import EXIT_PIPE
from kb.evidence import default_store
from kb.measurements import fitted_model, own_model_path

PROGRAM = [sys.executable, "-c", "import sys; from kb.cli import main; main()"]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with nothing but an empty one in it, and no store."""
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KBCTL_STORE", str(tmp_path / "kb.duckdb"))


def told(capsys: pytest.CaptureFixture[str], line: str) -> tuple[object, str, str]:
    """Exit status, stdout and stderr of a command line."""
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(line))
    out, err = capsys.readouterr()
    return ended.value.code, out, err


WRONG = [
    # a command line, its exit status, and what its error says
    ("recommend --gpu h100", 2, "which model?"),
    ("recommend --gpu h100 --model dsr1 --gpus -3", 2, "-3 is not in the range"),
    ("recommend --gpu h100 --model dsr1 --plan 2 --script nowhere/x.sh", 2, "nowhere/x.sh"),
    ("runbook --gpu h100 --model dsr1 -o nowhere/x.md", 2, "name a file in a folder that is there"),
    ("check folder", 2, "this is a folder"),
    ("check nothing.sh", 2, "no such file"),
    ("explain architecture:../gates/curated:X", 2, "no record, run, gate or signature"),
    ("explain --gpu sm120 --why-not moe=foo", 2, "moe is done by trtllm-gen, "),
    ("explain --gpu sm120 --why-not moe=", 2, "no kernel of moe"),
    ("explain --gpu sm120 --why-not mo=cutlass", 2, "no role is called 'mo'"),
    ("records list --arch sn120", 2, "no catalogued GPU"),
    ("records new nowhere.log", 2, "next: "),
    ("records table -o nowhere/x.md", 2, "cannot write"),
    ("runs --effect exploded", 2, "one of ok, "),
    ("runs --blame nobody", 2, "backend, "),
    ("import nothing.json", 2, "no such file"),
    ("replay nothing.csv", 2, "no such file"),
    ("show 7fb28c9d", 3, "kbctl ingest FOLDER makes it"),
    ("sql 'select 1'", 3, "kbctl ingest FOLDER makes it"),
    ("link a.json 7fb28c9d", 3, "kbctl ingest FOLDER makes it"),
    ("note 7fb28c9d remark", 3, "kbctl ingest FOLDER makes it"),
    ("parse folder", 2, "there is nothing to read"),
    ("rebuild", 3, "kbctl ingest FOLDER makes it"),
]


@pytest.mark.parametrize(("line", "code", "says"), WRONG, ids=[line for line, _, _ in WRONG])
def test_what_cannot_be_answered_says_what_next_and_prints_nothing(
    capsys: pytest.CaptureFixture[str], line: str, code: int, says: str
) -> None:
    status, out, err = told(capsys, line)
    assert (status, out) == (code, "")
    assert says in err
    assert "next: " in err or "Try 'kbctl" in err
    assert "internal error" not in err


def test_a_store_without_the_runs_asked_for_is_not_called_empty(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Next: name a folder with files" in told(capsys, "ingest folder")[1]
    assert "No run matches" in told(capsys, "runs --gpu h100")[2]
    assert "No runs recorded" in told(capsys, "runs")[2]
    status, _, err = told(capsys, "sql ''")
    assert (status, "there is no query in it" in err) == (2, True)


def test_a_model_fitted_beside_the_per_user_store_is_used(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KBCTL_STORE")
    for name in ("XDG_DATA_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    line = "recommend --gpu h200 --gpus 8 --model deepseek-ai/DeepSeek-R1 --json"
    assert "424242" not in told(capsys, line)[1]
    own = own_model_path(default_store())
    own.parent.mkdir(parents=True)
    own.write_text(json.dumps({**(fitted_model() or {}), "samples": 424242}), encoding="utf-8")
    assert "424242" in told(capsys, line)[1]


def commands() -> list[str]:
    group = get_command(build(["records"])).commands["records"]  # type: ignore[attr-defined]
    return [*(one for one in COMMANDS if one != "records"), *(f"records {one}" for one in group.commands)]


@pytest.mark.parametrize("command", commands())
def test_help_holds_an_example_that_the_command_takes(command: str) -> None:
    name, *below = command.split()
    found = get_command(build([COMMANDS[name]])).commands[name]  # type: ignore[attr-defined]
    for one in below:
        found = found.commands[one]
    example = re.search(rf"Example: .*?kbctl {command} ?(.*)$", " ".join((found.help or "").split()))
    assert example, f"kbctl {command} --help has no example"
    found.make_context(name, shlex.split(example[1]))


@pytest.mark.parametrize(
    ("words", "place", "offered"), [("kbctl rec", 1, "recommend"), ("kbctl recommend --mod", 2, "--model")]
)
def test_the_shell_completes_commands_and_options(words: str, place: int, offered: str) -> None:
    asked = {"_KBCTL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(place)}
    done = subprocess.run(PROGRAM, env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert offered in done.stdout.split()


@pytest.mark.parametrize("line", ["records list", "recommend --gpu h100 --model dsr1", "runs --json"])
def test_a_reader_that_goes_away_is_not_the_answer_no(line: str) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*PROGRAM, *line.split()], stdout=write, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write)
    assert done.returncode == EXIT_PIPE
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told_as_one() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*PROGRAM, "records", "list"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert "the system refused: No space left on device" in done.stderr


def test_a_closed_output_is_no_error() -> None:
    line = f"{shlex.join([*PROGRAM, 'check', '--gpu', 'h100', '--engine', 'vllm'])} >&-"
    done = subprocess.run(["sh", "-c", line], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
