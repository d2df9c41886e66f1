"""Does it fit: counted by a checkpoint's own files where they are given, with bounds, careful in doubt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kb.cli import main
from recommend import weights

DEEPSEEK = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "vocab_size": 129280,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "moe_intermediate_size": 2048,
    "intermediate_size": 18432,
    "first_k_dense_replace": 3,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}
LLAMA = {
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "vocab_size": 128256,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 28672,
    "torch_dtype": "bfloat16",
}
QWEN = {
    "hidden_size": 4096,
    "num_hidden_layers": 94,
    "vocab_size": 151936,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "moe_intermediate_size": 1536,
    "intermediate_size": 12288,
}
MIXTRAL = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "vocab_size": 32000,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "intermediate_size": 14336,
}
NVFP4 = {
    "quant_method": "modelopt",
    "quant_algo": "NVFP4",
    "ignore": ["lm_head", "model.layers.*.self_attn*"],
}


@pytest.mark.parametrize(
    ("config", "billions"),
    [(DEEPSEEK, 671), (LLAMA, 70.6), (QWEN, 235), (MIXTRAL, 46.7), ({"text_config": QWEN}, 235)],
)
def test_parameters_are_those_that_the_publishers_state(config: dict[str, Any], billions: float) -> None:
    assert sum(one.params_b for one in weights.modules(config)) == pytest.approx(billions, rel=0.02)


def test_what_a_quantization_leaves_out_stays_in_16_bits() -> None:
    bits = {one.name: one.bits for one in weights.modules({**QWEN, "quantization_config": NVFP4})}
    assert bits["routed experts"] == 4.5
    assert bits["attention"] == bits["embedding"] == bits["output head"] == bits["router"] == 16
    some = {
        "quant_method": "fp8",
        "ignored": 0,
        "modules_to_not_convert": ["model.layers.0.self_attn", "re:.*layers.1.self_attn.*"],
    }
    bits = {one.name: one.bits for one in weights.modules({**QWEN, "quantization_config": some})}
    assert bits["attention"] == pytest.approx(8 + 8 * 2 / 94)
    assert all(one.bits == 16 for one in weights.modules(QWEN))


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"hidden_size": "x", "num_hidden_layers": 3},
        {"hidden_size": 10**30, "num_hidden_layers": 3},
        {"hidden_size": 4096, "num_hidden_layers": True},
        {"text_config": [], "quantization_config": "fp8"},
        {"hidden_size": 64, "num_hidden_layers": 2, "quantization_config": {"ignore": {"a": 1}, "bits": "x"}},
        {
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "quantization_config": {"quant_method": 7, "ignore": [1, None, "[", "**(", "a*" * 200]},
        },
    ],
)
def test_an_odd_configuration_never_raises(config: dict[str, Any]) -> None:
    assert all(one.gib >= 0 for one in weights.modules(config))
    weights.cached(config)
    weights.method_of(config)


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KBCTL_STORE", str(tmp_path / "none.duckdb"))
    folder = tmp_path / "some-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(DEEPSEEK))
    return folder


def check(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    with pytest.raises(SystemExit) as exit_:
        main(["check", "--json", "--engine", "sglang==0.5.19", *words])
    return int(exit_.value.code or 0), json.loads(capsys.readouterr().out)


def test_a_local_checkpoint_is_counted_by_its_own_files(
    capsys: pytest.CaptureFixture[str], checkpoint: Path
) -> None:
    command = ["--", "python", "-m", "sglang.launch_server", "--model-path", str(checkpoint), "--tp", "8"]
    code, told = check(capsys, "--gpu", "h200", *command)
    fit = told["fit"]
    assert (code, fit["weights_from"], told["query"]["quantization"]) == (0, "config.json", "fp8-block")
    assert fit["weights_gib"]["low"] < 671e9 / 8 / 2**30 * 1.02 < fit["weights_gib"]["high"]
    assert fit["modules"][0]["name"] == "routed experts"
    assert fit["kv_gib_per_1k_tokens"] == pytest.approx(61 * 576 * 2 * 1000 / 2**30, rel=0.01)
    code, told = check(capsys, "--gpu", "h100", *command[:-1], "2")
    assert (code, told["findings"][0]["record"]) == (1, "arithmetic:memory")
    index = {"metadata": {"total_size": 100 * 2**30}}
    (checkpoint / "model.safetensors.index.json").write_text(json.dumps(index))
    code, told = check(capsys, "--gpu", "h100", *command[:-1], "2")
    assert told["fit"]["weights_gib"]["low"] == 50
    assert told["fit"]["weights_from"] == "the index of the checkpoint"


def test_a_config_among_the_files_speaks_for_the_launch(
    capsys: pytest.CaptureFixture[str], checkpoint: Path, tmp_path: Path
) -> None:
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/sh\npython -m sglang.launch_server --model-path our/own --tp 8\n")
    both = [str(script), str(checkpoint / "config.json")]
    _, told = check(capsys, "--gpu", "h200", *both)
    assert (told["fit"]["weights_from"], told["file"]) == ("config.json", both[0])
    _, told = check(capsys, "--gpu", "h200", "--gpus", "8", str(checkpoint / "config.json"))
    assert told["fit"]["fits"] is not False
    (checkpoint / "config.json").write_text("{ damaged")
    assert check(capsys, "--gpu", "h200", str(script))[0] == 0


def test_a_kernel_that_was_looked_at_alone_is_not_condemned_for_its_model_s_size(
    capsys: pytest.CaptureFixture[str], checkpoint: Path
) -> None:
    asked = ["--gpu", "h100", "--gpus", "1", "--model", "deepseek-v3", "--quantization", "fp8"]
    assert check(capsys, *asked)[1]["findings"][0]["record"] == "arithmetic:memory"
    assert check(capsys, *asked, "--set", "tp_size=1", "--role", "moe=triton")[0] == 1
    code, told = check(capsys, *asked, "--role", "moe=triton")
    assert (code, told["fit"]["fits"]) == (0, False)
    assert told["verdict"] not in ("known-bad", "suspect")


def test_text_shows_the_terms(capsys: pytest.CaptureFixture[str], checkpoint: Path) -> None:
    words = ["--gpu", "h200", "--", "python", "-m", "sglang.launch_server", "--model-path", str(checkpoint)]
    with pytest.raises(SystemExit):
        main(["check", *words, "--tp", "8", "--moe-runner-backend", "triton", "--kv-cache-dtype", "fp8_e4m3"])
    out = " ".join(capsys.readouterr().out.split())
    for term in (
        "config.json over 8 GPUs",
        "routed experts",
        "context 0.6 to 2",
        "left for the KV cache",
        "in fp8",
    ):
        assert term in out


def test_a_pruned_checkpoint_is_counted_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--gpu", "RTX PRO 6000", "--gpus", "1", "--quantization", "nvfp4", "--set", "tp_size=1"]
    code, told = check(capsys, *asked, "--model", "lukealonso/MiniMax-M2.5-REAP-139B-A10B-NVFP4")
    assert (code, told["fit"]["fits"]) == (0, None)
    assert told["fit"]["weights_from"].startswith("139 billion parameters")
    assert check(capsys, *asked, "--model", "nvidia/MiniMax-M2.5-NVFP4")[0] == 1
    _, told = check(capsys, *asked, "--model", "meta-llama/Llama-4-Scout-17B-16E")
    assert told["fit"]["weights_from"].startswith("109 billion parameters")
