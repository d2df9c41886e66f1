"""The first release with an architecture: tables that are sound, and answers on both sides of each step."""

from __future__ import annotations

from functools import cache

import pytest

from kb import versions
from kb.cli import main
from kb.cli.check import question
from kb.vocab import architectures, models
from recommend.architectures import unknown, upgrade_for
from recommend.findings import Finding
from recommend.query import Query, ask

TABLES = sorted(path.stem for path in architectures._FOLDER.glob("*.json"))
STEPS = [
    (engine, row["without"], row.get("since"), name)
    for engine in TABLES
    for row in architectures.table(engine)["steps"]
    for name in row["architectures"]
]
# What people and release notes say: engine, release, model, whether the release has the architecture.
SAID = (
    ("sglang", "0.4.4", "meta-llama/Llama-4-Scout-17B-16E-Instruct", False),
    ("sglang", "0.4.5", "meta-llama/Llama-4-Scout-17B-16E-Instruct", True),
    ("sglang", "0.4.4", "Qwen/Qwen3-30B-A3B", False),
    ("sglang", "0.4.5.post3", "Qwen/Qwen3-30B-A3B", True),
    ("sglang", "0.4.7", "tencent/Hunyuan-A13B-Instruct", False),
    ("sglang", "0.4.8.post1", "tencent/Hunyuan-A13B-Instruct", True),
    ("sglang", "0.4.8", "zai-org/GLM-4.5-FP8", False),
    ("sglang", "0.4.9.post6", "zai-org/GLM-4.5-FP8", True),
    ("sglang", "0.4.10", "openai/gpt-oss-120b", False),
    ("sglang", "0.5.1", "openai/gpt-oss-120b", True),
    ("sglang", "0.5.1", "Qwen/Qwen3-Next-80B-A3B-Instruct", False),
    ("sglang", "0.5.2", "Qwen/Qwen3-Next-80B-A3B-Instruct", True),
    ("sglang", "0.5.1", "deepseek-ai/DeepSeek-V3.2", False),
    ("sglang", "0.5.3", "deepseek-ai/DeepSeek-V3.2", True),
    ("sglang", "0.5.2", "MiniMaxAI/MiniMax-M2", False),
    ("sglang", "0.5.4.post3", "MiniMaxAI/MiniMax-M2", True),
    ("sglang", "0.5.5", "XiaomiMiMo/MiMo-V2-Flash", False),
    ("sglang", "0.5.7", "XiaomiMiMo/MiMo-V2-Flash", True),
    ("sglang", "0.5.6", "zai-org/GLM-4.7-Flash", False),
    ("sglang", "0.5.8", "zai-org/GLM-4.7-Flash", True),
    ("sglang", "0.5.7", "zai-org/GLM-5-FP8", False),
    ("sglang", "0.5.9", "zai-org/GLM-5-FP8", True),
    ("sglang", "0.5.9", "google/gemma-4-31B-it", False),
    ("sglang", "0.5.11", "google/gemma-4-31B-it", True),
    ("sglang", "0.5.10", "deepseek-ai/DeepSeek-V4-Flash", False),
    ("sglang", "0.5.12", "deepseek-ai/DeepSeek-V4-Flash", True),
    ("sglang", "0.5.14", "moonshotai/Kimi-K3", False),
    ("sglang", "0.5.17", "moonshotai/Kimi-K3", True),
    ("sglang", "0.5.18", "zai-org/GLM-5.3-Flash", False),
    ("sglang", "0.5.20", "zai-org/GLM-5.3-Flash", True),
    ("vllm", "0.7.3", "Qwen/Qwen3-30B-A3B", False),
    ("vllm", "0.8.2", "Qwen/Qwen3-32B", True),
    ("vllm", "0.9.0", "zai-org/GLM-4.5", False),
    ("vllm", "0.10.1", "openai/gpt-oss-20b", True),
    ("vllm", "0.19.1", "deepseek-ai/DeepSeek-V4-Flash", False),
    ("vllm", "0.20.0", "deepseek-ai/DeepSeek-V4-Flash", True),
    ("vllm", "0.22.1", "google/gemma-4-12B-it", False),
    ("vllm", "0.24.0", "MiniMaxAI/MiniMax-M3", True),
    ("tensorrt-llm", "0.17.0.post1", "deepseek-ai/DeepSeek-V3", False),
    ("tensorrt-llm", "0.20.0", "Qwen/Qwen3-32B", True),
    ("llama.cpp", "b5640", "openai/gpt-oss-20b", False),
    ("llama.cpp", "b6122", "openai/gpt-oss-20b", True),
    ("lmdeploy", "0.7.1", "Qwen/Qwen2.5-VL-7B-Instruct", False),
    ("lmdeploy", "0.18.0", "google/gemma-4-31B-it", False),
    ("lmdeploy", "0.9.2", "openai/gpt-oss-120b", False),
    ("lmdeploy", "0.10.0", "openai/gpt-oss-120b", True),
)


@cache
def asked(engine: str, version: str, model: str) -> Query:
    return ask(question(f"--gpu H200 --gpus 8 --model {model} --engine {engine}=={version}"))


def refused(engine: str, version: str, architecture: str) -> list[Finding]:
    query = asked(engine, version, "some-model")
    entry = models.ModelEntry("some-model", "some-family", architecture=architecture)
    return list(unknown(query._replace(entry=entry)))


@pytest.mark.parametrize("engine", TABLES)
def test_rows_are_in_order_of_releases_that_were_read_and_name_an_architecture_once(engine: str) -> None:
    known = architectures.table(engine)
    named = [name for row in known["steps"] for name in row["architectures"]]
    assert len(named) == len(set(named))
    for row in known["steps"]:
        assert {row["without"], row.get("since", row["without"])} <= set(known["read"])
        if "since" in row:
            assert versions.compare(row["without"], row["since"], engine) in (-1, None)


@pytest.mark.parametrize(("engine", "without", "since", "name"), STEPS)
def test_a_release_without_refuses_and_the_first_with_it_does_not(
    engine: str, without: str, since: str | None, name: str
) -> None:
    (found,) = refused(engine, without, name)
    assert (found.verdict, found.effect, found.stage) == ("known-bad", "refused", "load")
    assert found.signature == "unknown-architecture"
    assert since is None or (found.fixed_in, found.status) == ({engine: since}, "fixed")
    assert since is None or not refused(engine, since, name)


@pytest.mark.parametrize(("engine", "version", "model", "known"), SAID)
def test_answers_agree_with_what_is_said(engine: str, version: str, model: str, *, known: bool) -> None:
    assert (not list(unknown(asked(engine, version, model)))) is known


def test_builds_between_and_releases_that_nobody_named_are_not_condemned() -> None:
    assert not refused("sglang", "0.5.3rc1", "DeepseekV32ForCausalLM")
    assert not refused("vllm", "0.19.1rc1.dev300", "DeepseekV4ForCausalLM")
    assert refused("vllm", "0.15.2rc1.dev10", "DeepseekV4ForCausalLM")
    assert not refused("llama.cpp", "v0.5.0", "KimiK3ForConditionalGeneration")
    query = ask(question("--gpu H200 --model deepseek-ai/DeepSeek-V3.2 --engine sglang"))
    assert not list(unknown(query))


def test_an_own_run_that_served_disputes_the_list() -> None:
    query = asked("sglang", "0.5.1", "deepseek-ai/DeepSeek-V3.2")
    served = Finding("run:1", "own-run", "served", "known-good", "ok", evidence=({"ref": "run:1"},))
    (found,) = unknown(query, [served])
    assert (found.verdict, found.conflicts) == ("disputed", ({"ref": "run:1"},))


def test_explain_tells_where_the_list_was_read(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["explain", refused("sglang", "0.5.1", "DeepseekV32ForCausalLM")[0].record])
    told = capsys.readouterr().out
    assert "sglang 0.5.3 is the first that has it" in told
    assert "sgl-project/sglang:python/sglang/srt/models" in told


def test_a_complaint_about_an_architecture_names_the_release_to_take() -> None:
    said = "Model architectures ['DeepseekV4ForCausalLM'] are not supported for now: ['GptOssForCausalLM']"
    lacking = asked("vllm", "0.19.1", "some-model")
    told = upgrade_for(said, lacking)
    assert told == "upgrade vllm to 0.20.0 or later: it is the first with DeepseekV4ForCausalLM"
    assert upgrade_for(said, asked("vllm", "0.20.0", "some-model")) is None
    assert upgrade_for("model type `nobody` is unknown", lacking) is None
