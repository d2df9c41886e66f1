"""``kbctl check FILE…``: every server start of every file is judged, and told with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_records import GOOD as RECORD
from test_records import write

from kb.cli import main

BAD = (
    "python -m sglang.launch_server --model-path x/GLM-5-NVFP4 --tp 8 --moe-runner-backend flashinfer_trtllm"
)
GOOD = BAD.replace("flashinfer_trtllm", "flashinfer_cutlass")
SCRIPT = f"""#!/bin/bash
# two starts
export SGLANG_X=1
{GOOD.replace(" --tp", " " + chr(92) + chr(10) + "  --tp")} --port 1 &

{BAD} \\
  --port 2
"""
COMPOSE = """services:
  db:
    image: postgres:16
  one:
    image: vllm/vllm-openai:v0.26.0
    command: --model x/GLM-5-NVFP4 --tensor-parallel-size 8
  two:
    image: vllm/vllm-openai:v0.26.0
    command: ["--model", "x/GLM-5-NVFP4", "--moe-backend", "flashinfer_trtllm", "-tp", "8"]
"""
UNIT = f"""[Unit]
Description=serving

[Service]
Environment="A=b c" D=e
ExecStart=/usr/bin/{BAD.replace(" --tp", " " + chr(92) + chr(10) + " --tp")}
"""
DOCKERFILE = """FROM vllm/vllm-openai:v0.26.0
ENV VLLM_X=1 \\
    B=2
CMD ["--model", "x/GLM-5-NVFP4", "--moe-backend", "flashinfer_trtllm"]
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KBCTL_STORE", str(tmp_path / "none.duckdb"))
    monkeypatch.chdir(tmp_path)
    texts = {
        "both.sh": SCRIPT,
        "good.sh": f"#!/bin/sh\n{GOOD}\n",
        "nothing.sh": "#!/bin/sh\necho hello\n",
        "compose.yaml": COMPOSE,
        "llm.service": UNIT,
        "Dockerfile": DOCKERFILE,
        "binary.txt": "\x00\x01\x02",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def check(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as exit_:
        main(["check", "--gpu", "sm120", *words])
    return int(exit_.value.code or 0), capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("both.sh", [(4, "no"), (7, "bad")]),
        ("compose.yaml", [(5, "no"), (8, "bad")]),
        ("llm.service", [(6, "bad")]),
        ("Dockerfile", [(4, "bad")]),
    ],
)
def test_every_start_is_judged_and_has_its_line(
    capsys: pytest.CaptureFixture[str], files: Path, name: str, lines: list[tuple[int, str]]
) -> None:
    code, out = check(capsys, "--json", name, "good.sh")
    told = [json.loads(line) for line in out.splitlines()]
    assert code == 1
    found = [
        (one["line"], "bad" if one["verdict"] == "known-bad" else "no") for one in told if one["file"] == name
    ]
    assert found == lines
    assert told[-1]["file"] == "good.sh"
    assert told[-1]["verdict"] != "known-bad"


def test_text_names_file_and_line_and_counts(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    code, out = check(capsys, "both.sh", "good.sh", "nothing.sh")
    assert code == 1
    assert "\nboth.sh:7: KNOWN-BAD: crash" in out
    assert "good.sh:2: " in out
    assert "nothing.sh: holds no launch command" in out
    assert out.splitlines()[-1].startswith("3 server starts in 3 files: ")
    assert "1 known-bad" in out.splitlines()[-1]


def test_one_file_with_one_start_is_one_answer(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    _, out = check(capsys, "--json", "good.sh")
    assert json.loads(out)["line"] == 2
    assert check(capsys, "llm.service")[1].startswith("llm.service:6: KNOWN-BAD: ")


@pytest.mark.parametrize("name", ["nothing.sh", "binary.txt"])
def test_a_file_that_launches_nothing_is_told_and_no_failure(
    capsys: pytest.CaptureFixture[str], files: Path, name: str
) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    code, out = check(capsys, name)
    assert (code, "holds no launch command" in out) == (0, True)
    code, out = check(capsys, "--json", name, "good.sh")
    first = json.loads(out.splitlines()[0])
    schema = json.loads((Path(__file__).parents[1] / "docs" / "schemas" / "check.json").read_text())
    jsonschema.validate(first, schema)
    assert (code, first["verdict"], first["file"], first["findings"]) == (0, "unknown", name, [])


def test_secrets_of_a_file_are_not_repeated(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    secret = "hf_" + "abcdefghij" * 3
    (files / "key.sh").write_text(f"#!/bin/sh\nexport HF_TOKEN={secret}\n{GOOD} --api-key {secret}\n")
    assert secret not in check(capsys, "--json", "key.sh")[1]
    assert secret not in check(capsys, "key.sh")[1]


PRIVATE = {
    "sm120-moe-cutlass": "the team's own word on a shipped id",
    "ours-cutlass": "a record of the team's own",
}


@pytest.mark.parametrize("identity", PRIVATE)
@pytest.mark.parametrize("by_variable", [True, False])
def test_a_private_record_condemns_and_wins_over_a_shipped_one_of_the_same_id(
    capsys: pytest.CaptureFixture[str],
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    identity: str,
    by_variable: bool,
) -> None:
    private = files / "private"
    private.mkdir()
    text = RECORD.replace("have no code for SM120", PRIVATE[identity]).replace("trtllm-gen", "cutlass")
    write(private, text, identity)
    if by_variable:
        monkeypatch.setenv("KBCTL_RECORDS", str(private))
    options = [] if by_variable else ["--records", str(private)]
    _, out = check(capsys, "--json", *options, "good.sh")
    told = {one["record"]: one for one in json.loads(out)["findings"]}
    assert PRIVATE[identity] in told[identity]["title"]
    assert told[identity]["verdict"] in ("known-bad", "disputed")
    with pytest.raises(SystemExit):
        main(["records", "list", "--json", *options])
    listed = {one["record"]: one for one in json.loads(capsys.readouterr().out)["records"]}
    assert PRIVATE[identity] in listed[identity]["title"]
    assert "sm120-moe-trtllm-gen" in listed


def test_a_worker_script_without_the_moe_flag_is_told_what_auto_picks(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    script = tmp_path / "run.sh"
    words = "python3 -m dynamo.sglang --model-path nvidia/Qwen3-235B-A22B-NVFP4 --tensor-parallel-size 2"
    for extra, code in (("", 1), (" --moe-runner-backend flashinfer_cutlass", 0)):
        script.write_text(f"#!/bin/bash\n(\n{words}{extra} ) &\nwait\n", encoding="utf-8")
        with pytest.raises(SystemExit) as exit_:
            main(["check", "--gpu", "RTX PRO 6000", "--engine", "sglang==0.5.16", str(script)])
        told = capsys.readouterr().out
        assert exit_.value.code == code
        assert ("auto picks flashinfer_trtllm here" in told) is bool(code)
