"""The package as users get it: sdist → wheel holds code, words and records, and answers by itself."""

import json
import os
import runpy
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
QUESTION = ["check", "--json", "--gpu", "sm120", "--engine", "sglang", "--quantization", "nvfp4"]
TRTLLM = ["--set", "moe_runner_backend=flashinfer_trtllm"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """(sdist, wheel) built the way a release is: the wheel from the sdist."""
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("*.tar.gz")), next(out.glob("*.whl"))


def test_the_sdist_holds_records_and_tests(built):
    with tarfile.open(built[0]) as sdist:
        names = [name.split("/", 1)[-1] for name in sdist.getnames()]
    assert "records/sm120-moe-trtllm-gen.md" in names
    assert "records/symptoms.toml" in names
    assert "Makefile" in names


def test_the_wheel_holds_each_record_once(built):
    names = zipfile.ZipFile(built[1]).namelist()
    assert "kb/_records/sm120-moe-trtllm-gen.md" in names
    assert len(names) == len(set(names))
    assert not any(name.startswith(("tests/", "records/")) for name in names)
    assert built[1].stat().st_size < 20_000_000


def test_an_installed_wheel_answers_from_its_own_records(built, tmp_path):
    target = tmp_path / "site"
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(target),
        str(built[1]),
    ]
    subprocess.run(install, check=True, capture_output=True)
    run = (
        f"import sys; sys.path.insert(0, {str(target)!r}); import kb.cli; kb.cli.main({QUESTION + TRTLLM!r})"
    )
    env = {
        **os.environ,
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "KBCTL_STORE": str(tmp_path / "kb.duckdb"),
    }
    done = subprocess.run(
        [sys.executable, "-c", run], capture_output=True, text=True, cwd=tmp_path, env=env, check=False
    )
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["verdict"] == "known-bad"
    where = f"import sys; sys.path.insert(0, {str(target)!r}); import kb.knowledge as k; print(k.__file__)"
    shown = subprocess.run(
        [sys.executable, "-c", where], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert shown.stdout.startswith(str(target))


@pytest.mark.parametrize(("version", "compiled"), [("editable", True), ("standard", False)])
def test_an_editable_install_has_its_bytecode(tmp_path, version, compiled):
    (tmp_path / "kb").mkdir()
    (tmp_path / "kb" / "one.py").write_text("ONE = 1\n")
    hook = runpy.run_path(str(ROOT / "hatch_build.py"))["CompiledSources"]
    hook(str(tmp_path), {}, None, None, str(tmp_path), "wheel").initialize(version, {})
    assert any(tmp_path.rglob("*.pyc")) is compiled
