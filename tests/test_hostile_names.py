"""Names are untrusted: kept and said, but nothing in them is obeyed by a terminal, a shell or a page."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kb.cli import main

HOSTILE = [
    "\x1b[2J\x1b]0;owned\x07red",
    "<script>alert(1)</script>",
    "$(touch /tmp/owned); `id` && rm -rf ~ | cat > x",
    "'; touch owned; '",
    '"$(id)"',
    "a\u202eb\u2066c\u200b",
    "line one\nKNOWN-GOOD: all is well\r\noverwritten",
    "A" * 10_000,
    "../../../../etc/passwd",
    "%s%n{0}{x!r}",
    "--gpu",
    "\ud800",
    "=",
    "\u0000x".replace("\u0000", "\x01"),
]
NOT_SENT = set(map(chr, [*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0)])) | set(
    "\u202e\u2066\u200b\u202d"
)
OPTIONS = ("--gpu", "--model", "--engine", "--quantization", "--set", "--env", "--with", "--role")


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBCTL_STORE", str(tmp_path / "none.duckdb"))
    monkeypatch.chdir(tmp_path)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as exit_:
        main(list(words))
    told = capsys.readouterr()
    return int(exit_.value.code or 0), told.out, told.err


def harmless(code: int, out: str, err: str) -> None:
    assert code in (0, 1, 2), err
    assert not set(out + err) & NOT_SENT
    assert "internal error" not in err
    assert "Traceback" not in err


def asked(option: str, name: str) -> list[str]:
    text = {
        "--set": f"model_path={name}",
        "--env": f"VLLM_X={name}",
        "--with": f"torch={name}",
        "--role": f"moe={name}",
    }
    rest = ["--gpu", "sm120"] if option != "--gpu" else []
    rest += ["--engine", "sglang"] if option != "--engine" else []
    return ["check", *rest, f"{option}={text.get(option, name)}"]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("option", OPTIONS)
def test_check_says_hostile_names_harmlessly(
    capsys: pytest.CaptureFixture[str], option: str, name: str
) -> None:
    harmless(*run(capsys, *asked(option, name)))
    code, out, err = run(capsys, *asked(option, name), "--json")
    assert "internal error" not in err
    if code != 2:
        json.loads(out)
    assert not set(out) - {"\u202e", "\u2066", "\u200b"} & NOT_SENT


def launched(name: str) -> list[str]:
    command = ["python", "-m", "sglang.launch_server", "--model-path", name, "--moe-runner-backend"]
    return ["check", "--gpu", "sm120", "--quantization", "nvfp4", "--", *command, "flashinfer_trtllm"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_remedy_runs_nothing_but_itself(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    told = run(capsys, *launched(name))
    harmless(*told)
    remedies = [line for line in told[1].splitlines() if line.lstrip().startswith(("do ", "or "))]
    assert remedies
    for line in remedies:
        assert len(name) < 3 or name[:20] not in line
        assert shlex.split(line)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", HOSTILE)
def test_files_with_hostile_content_are_told_harmlessly(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    script = tmp_path / "run\x1b[31m.sh"
    text = f"#!/bin/sh\nvllm serve {shlex.quote(name)} --moe-backend flashinfer_trtllm --odd-{name[:50]}\n"
    script.write_bytes(text.encode("utf-8", "replace"))
    harmless(*run(capsys, "check", "--gpu", "sm120", "--quantization", "nvfp4", str(script)))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(option=st.sampled_from(OPTIONS), name=st.text(min_size=1, max_size=60))
def test_any_name_is_kept_and_said(capsys: pytest.CaptureFixture[str], option: str, name: str) -> None:
    harmless(*run(capsys, *asked(option, name)))


def rendered(settings_: dict[str, Any]) -> list[str]:
    """The words that a shell makes of a rendered remedy."""
    from recommend.query import Asked, ask
    from recommend.remedy import flags

    text = flags(ask(Asked(gpu="sm120", engine="sglang==0.5.19")), settings_)
    done = subprocess.run(["sh", "-c", f'printf "%s\\0" {text}'], capture_output=True, check=True)
    return done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]


@settings(max_examples=40, deadline=None)
@given(
    value=st.text(alphabet=st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), min_size=1)
)
def test_a_rendered_value_is_one_word_to_a_shell(value: str) -> None:
    assert rendered({"moe_runner_backend": value}) == ["--moe-runner-backend", value]


def test_unknown_names_are_kept_and_the_nearest_said(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "check",
        "--json",
        "--gpu",
        "RTX PRO 6001 Blackwell",
        "--model",
        "glm-55-nvfp4x",
        "--engine",
        "sglnag",
    ]
    told = json.loads(run(capsys, *words)[1])
    query = told["query"]
    assert (query["gpu"], query["model"], query["engine"]) == (
        "RTX PRO 6001 Blackwell",
        "glm-55-nvfp4x",
        "sglnag",
    )
    said = " ".join(told["unknown"])
    for near in ("RTX PRO 5000", "glm-5", "sglang"):
        assert near in said


def test_gpu_auto_without_nvidia_smi_says_what_to_do(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    code, out, err = run(capsys, "check", "--gpu", "auto", "--engine", "vllm")
    assert (code, out) == (2, "")
    assert "no nvidia-smi" in err
    assert "--gpu sm120" in err
