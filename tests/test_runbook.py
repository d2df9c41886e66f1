"""The Markdown page: its sections, its evidence, its quoting, and that its commands and ids are real."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from kb.evidence import Evidence
from kb.knowledge import load
from kb.measurements import known_about
from kb.vocab import engines
from recommend.advice import Expected, Pick, Reason, Recommendation
from recommend.expect import Known
from recommend.query import Asked, ask
from recommend.rank import recommend
from recommend.render.runbook import code, page, plain

SECTIONS = (
    "Verdict",
    "Applies to",
    "Expected numbers",
    "Why these settings",
    "How to verify which kernels run",
    "Do not run",
    "Alternatives, in order",
    "What the GPUs showed",
    "Next experiments, and what would change this page",
)


@pytest.fixture(scope="module")
def text() -> str:
    query = ask(Asked(gpu="NVIDIA RTX PRO 6000 Blackwell Server Edition", gpus=8, model="glm5-nvfp4"))
    known = Known(**known_about(query.arch, query.gpu_facts, query.entry, None))
    answer = recommend(query, Evidence(records=load().records), known)
    return page(answer, "2026-11-30", "0.1.0", {"no-kernels-for-arch": ["no kernel image is available"]})


def test_every_section_is_there_in_order(text: str) -> None:
    heads = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert heads == list(SECTIONS)
    assert text.startswith("# Runbook: ")
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


def test_the_command_is_one_that_the_release_reads(text: str) -> None:
    command = re.search(r"```sh\n(.*?)\n```", text, re.DOTALL)
    assert command
    launch = engines.parse_command(shlex.split(command[1]), {})
    assert launch.engine == "sglang"
    assert not launch.unknown_flags


def test_what_not_to_run_has_cause_text_remedy_and_versions(text: str) -> None:
    block = text.split("### moe = trtllm-gen: known-bad")[1].split("###", maxsplit=1)[0]
    for wanted in (
        "cause",
        "no kernel image is available",
        "fixed in",
        "instead",
        "--moe-runner-backend",
        "Evidence",
    ):
        assert wanted in block


def test_ids_resolve(text: str) -> None:
    known = {record["id"] for record in load().records}
    named = set(re.findall(r"`((?:sm|gemm|moe|sglang|vllm|pre)[a-z0-9.-]*-[a-z0-9.-]+)`", text))
    records = {one for one in named if one in known}
    assert "sm120-moe-trtllm-gen" in records
    assert "sm120-moe-cutlass" in records


def test_it_is_well_formed_markdown(text: str) -> None:
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    assert sum(token.type == "table_open" for token in tokens) >= 5
    assert not any(token.type.startswith("html") for token in tokens)
    inner = [child.type for token in tokens for child in token.children or ()]
    assert "link_open" not in inner
    assert "image" not in inner
    assert "html_inline" not in inner


HOSTILE = "](http://evil) <script>x</script> `a``b` |cell| ![i](u) \x1b[31m_under_ *star* \u202e"


def test_untrusted_text_stays_text() -> None:
    for shape in (plain, code):
        html = MarkdownIt("commonmark").render(shape(HOSTILE))
        assert "<script" not in html
        assert "<a " not in html
        assert "<img" not in html
        assert "<em>" not in html
        assert "\x1b" not in html
        assert "\u202e" not in html


def hostile_answer() -> Recommendation:
    number = Expected(
        metric="output_tok_s", value=1, low=1, high=2, level=0.9, basis=HOSTILE, evidence=("a|b`c",)
    )
    pick = Pick(
        engine="sglang",
        engine_version="0.5.23",
        roles={"moe": HOSTILE},
        resolved_by={},
        settings={"x": HOSTILE},
        environment={"A": HOSTILE},
        argv=[],
        command="run ```\n# injected",
        status="untested",
        p_works=0.5,
        predicted=number,
        why=(Reason(HOSTILE, ("r|x",)),),
        verify=(HOSTILE,),
        cost_min=1,
        gain=None,
        kind="explore",
    )
    query: dict[str, Any] = {"gpu": HOSTILE, "model": HOSTILE, "arch": "sm120"}
    return Recommendation(query=query, assumed={"x": HOSTILE}, unknown=(HOSTILE,), picks=(pick,), avoid=())


def test_a_hostile_log_cannot_break_the_page() -> None:
    html = MarkdownIt("commonmark").enable("table").render(page(hostile_answer(), "2026-11-30", "0", {}))
    assert "<script" not in html
    assert "<a " not in html
    assert "<img" not in html
    assert "<h1>injected" not in html


def test_the_command_writes_a_file(tmp_path: Path) -> None:
    target = tmp_path / "page.md"
    words = [
        "runbook",
        "--gpu",
        "sm120",
        "--model",
        "glm5-nvfp4",
        "-o",
        str(target),
        "--store",
        str(tmp_path / "kb"),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "kb.cli", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert target.read_text("utf-8").startswith("# Runbook: glm5-nvfp4 on 8× sm120")
    unwritable = [*words[:-3], str(tmp_path / "no" / "page.md"), *words[-2:]]
    done = subprocess.run(
        [sys.executable, "-m", "kb.cli", *unwritable], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
