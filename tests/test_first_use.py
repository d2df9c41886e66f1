"""A fresh install answers at once: without a cache, with an unwritable one, and many first uses together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kb.evidence import data_folder
from kb.knowledge import load

ASKED = (
    "check --json --gpu sm120 --engine sglang --quantization nvfp4 --set moe_runner_backend=flashinfer_trtllm"
)


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "KBCTL_CACHE": str(folder), "KBCTL_STORE": str(folder / "none.duckdb"), **more}


def started(folder: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "kb.cli", *ASKED.split()]
    return subprocess.Popen(words, stdout=subprocess.PIPE, env=environment(folder), text=True)


def verdict(running: subprocess.Popen[str]) -> str:
    out, _ = running.communicate(timeout=120)
    assert running.returncode == 1, out
    return str(json.loads(out)["verdict"])


def test_the_first_answer_takes_little(tmp_path: Path) -> None:
    before, cpu = time.monotonic(), os.times()
    assert verdict(started(tmp_path / "new" / "deep")) == "known-bad"
    wall, after = time.monotonic() - before, os.times()
    used = after.children_user + after.children_system - cpu.children_user - cpu.children_system
    # The target is 2 s of wall-clock time on an idle machine; what other processes take is none of ours.
    assert min(wall, used) < 4, f"{wall:.1f} s, {used:.1f} s of CPU"


def test_first_uses_side_by_side_leave_a_good_cache(tmp_path: Path) -> None:
    several = [started(tmp_path) for _ in range(4)]
    assert {verdict(one) for one in several} == {"known-bad"}
    (cached,) = tmp_path.glob("*.jsonl")
    head, _, body = cached.read_bytes().partition(b"\n")
    told = json.loads(head)
    assert len(body) == told["index"] + 1 + told["size"]
    assert len(body[: told["index"]].splitlines()) == len(load().records)
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("kind", ["a file", "below a file", "read-only"])
def test_an_unwritable_cache_is_done_without(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "cache"
    if kind == "read-only":
        folder.mkdir()
        folder.chmod(0o500)
    else:
        folder.write_text("")
        folder = folder / "deeper" if kind == "below a file" else folder
    assert verdict(started(folder)) == "known-bad"


def test_the_data_folder_is_the_platform_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    platformdirs = pytest.importorskip("platformdirs")
    for named in (None, str(tmp_path)):
        monkeypatch.delenv("XDG_DATA_HOME", raising=False)
        if named:
            monkeypatch.setenv("XDG_DATA_HOME", named)
        assert data_folder() == platformdirs.user_data_path("kbctl", appauthor=False)
