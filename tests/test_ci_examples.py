"""The pre-commit hook and the GitHub action run as their runners would run them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[1]
START = "vllm serve x/GLM-5-NVFP4 --tensor-parallel-size 8 --moe-backend "
INPUTS = {"gpu": "sm120", "files": "", "base": "HEAD", "records": "", "install": ""}


def launch(kernel: str) -> str:
    return f"#!/bin/sh\n{START}{kernel}\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository with one commit, and a good and a bad launch file that are not committed yet."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "good one.sh").write_text(launch("flashinfer_cutlass"))
    (tmp_path / "bad.sh").write_text(launch("flashinfer_trtllm"))
    (tmp_path / "notes.md").write_text(launch("flashinfer_trtllm"))
    return tmp_path


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment whose ``kbctl`` is this checkout's."""
    programs = tmp_path / ".programs"
    programs.mkdir()
    kbctl = programs / "kbctl"
    kbctl.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m kb.cli "$@"\n')
    kbctl.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "KBCTL_STORE": str(tmp_path / "none.duckdb"),
    }


def hook() -> dict[str, Any]:
    (only,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    return dict(only)


def run(words: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_hook_passes_good_files_and_stops_bad_ones(repository: Path, environment: dict[str, str]) -> None:
    entry = [*shlex.split(hook()["entry"]), "--gpu", "sm120"]
    done = run([*entry, "good one.sh", "bad.sh"], repository, environment)
    assert done.returncode == 1
    assert "bad.sh:2: KNOWN-BAD" in done.stdout
    assert run([*entry, "good one.sh"], repository, environment).returncode == 0


def test_the_hook_without_a_gpu_fails_clearly(repository: Path, environment: dict[str, str]) -> None:
    told = hook()
    environment = environment | {"PATH": environment["PATH"].split(":")[0] + ":/nowhere"}
    program = Path(environment["PATH"].split(":")[0]) / "kbctl"
    done = run([str(program), "check", *told["args"], "bad.sh"], repository, environment)
    assert done.returncode == 2
    assert "--gpu sm120" in done.stderr
    assert (told["id"], told["language"]) == ("kbctl-check", "python")
    assert {"shell", "yaml"} <= set(told["types_or"])


def steps() -> list[dict[str, Any]]:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    assert action["inputs"]["gpu"]["required"] is True
    return list(action["runs"]["steps"])


def act(folder: Path, environment: dict[str, str], **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the action's last step with its inputs put in, as the runner does."""
    step = steps()[-1]
    said = {name: _filled(text, INPUTS | inputs) for name, text in step["env"].items()}
    return run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], folder, environment | said
    )


def _filled(text: str, inputs: dict[str, str]) -> str:
    names = re.fullmatch(r"\$\{\{ (.*) \}\}", text)
    assert names, text
    terms = [term.strip() for term in names[1].split("||")]
    values = [inputs[term[7:]] if term.startswith("inputs.") else term.strip("'") for term in terms]
    return next((value for value in values if value and not value.startswith("github.")), "")


def test_the_action_judges_changed_files(repository: Path, environment: dict[str, str]) -> None:
    subprocess.run(["git", "add", "good one.sh", "notes.md"], cwd=repository, check=True)
    done = act(repository, environment)
    assert (done.returncode, done.stdout.count("good one.sh")) == (0, 1), done.stderr
    subprocess.run(["git", "add", "bad.sh"], cwd=repository, check=True)
    done = act(repository, environment)
    assert done.returncode == 1
    assert "bad.sh:2: KNOWN-BAD" in done.stdout
    assert "notes.md" not in done.stdout


def test_the_action_takes_named_files_and_has_nothing_to_do_without(
    repository: Path, environment: dict[str, str]
) -> None:
    assert act(repository, environment, files="bad.sh\nnotes.md").returncode == 1
    done = act(repository, environment)
    assert (done.returncode, "changed" in done.stdout) == (0, True)


def test_no_input_is_pasted_into_a_script() -> None:
    assert not any("${{" in step.get("run", "") for step in steps())


def test_the_examples_in_the_documentation_name_what_exists() -> None:
    text = (ROOT / "docs" / "check-in-ci.md").read_text()
    config, workflow = (yaml.safe_load(one) for one in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL))
    assert config["repos"][0]["hooks"][0]["id"] == hook()["id"]
    used = workflow["jobs"]["check"]["steps"][-1]["with"]
    assert set(used) <= set(yaml.safe_load((ROOT / "action.yml").read_text())["inputs"])
