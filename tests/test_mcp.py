"""The answers as tools for agents: over the protocol, as a client sees them."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from kb.cli import mcp as served
from kb.errors import KbctlError

COMMAND = "python -m sglang.launch_server --model-path x/GLM-5-NVFP4 --tp 8 --moe-runner-backend {}"


def ask(store: Path, questions: list[tuple[str, dict[str, Any]]]) -> tuple[set[str], list[Any]]:
    """The tools' names, and the answer to each question, from a server of its own."""
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-c", "from kb.cli import main; main()", "mcp", "--store", str(store)],
    )

    async def talk() -> tuple[set[str], list[Any]]:
        async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            names = {tool.name for tool in (await session.list_tools()).tools}
            return names, [await session.call_tool(name, asked) for name, asked in questions]

    return asyncio.run(talk())


def told(result: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.content[0].text)
    return found


def test_an_agent_gets_the_answers_of_the_command_line(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("INFO 05-03 10:00:00 [__init__.py:1] vLLM\nCUDA error: no kernel image is available\n")
    names, answers = ask(
        tmp_path / "kb.duckdb",
        [
            ("check", {"gpu": "sm120", "command": COMMAND.format("flashinfer_trtllm").split()}),
            ("check", {"gpu": "sm120", "engine": "sglang", "model": "glm5-nvfp4", "settings": ["tp=8"]}),
            ("recommend", {"gpu": "sm120", "model": "glm5-nvfp4", "concurrency": 8}),
            ("explain", {"id": "sm120-moe-trtllm-gen"}),
            ("explain", {"id": "--help"}),
            ("diagnose", {"files": [str(tmp_path / "absent.log")]}),
        ],
    )
    assert names == {"check", "recommend", "diagnose", "explain"}
    bad, asked, advice, explained, unknown, absent = answers
    assert told(bad)["verdict"] == "known-bad"
    assert told(bad)["findings"][0]["record"] == "sm120-moe-trtllm-gen"
    assert told(asked)["schema"] == "kbctl.check/1"
    assert told(advice)["picks"][0]["roles"]["moe"] == "cutlass"
    assert told(advice)["query"]["workload"]["concurrency"] == 8
    assert "sm120-moe-trtllm-gen" in json.dumps(told(explained))
    assert unknown.is_error
    assert "--help" in unknown.content[0].text
    assert absent.is_error
    assert "absent.log" in absent.content[0].text


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    with pytest.raises(KbctlError) as raised:
        served.server(served.Tools())
    assert "kbctl[mcp]" in (raised.value.tip or "")
