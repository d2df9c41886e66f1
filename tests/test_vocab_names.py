"""GPUs and models by the names that people and tools use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.vocab import gpus, models

DATA = Path(__file__).parent / "data" / "vocab"
GPU_NAMES = json.loads((DATA / "gpu_names.json").read_text(encoding="utf-8"))
MODEL_NAMES = json.loads((DATA / "model_names.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("printed", "wanted"), GPU_NAMES["printed"].items())
def test_printed_gpu_names(printed, wanted):
    found = [gpu.name for gpu in gpus.candidates(printed)]
    assert found == (wanted if isinstance(wanted, list) else [wanted] if wanted else [])


@pytest.mark.parametrize(("label", "wanted"), GPU_NAMES["labels"].items())
def test_loose_gpu_labels(label, wanted):
    assert gpus.find_gpu(label).name == wanted


@pytest.mark.parametrize(
    ("text", "arch"),
    [
        ("sm120", "sm120"),
        ("SM 12.0", "sm120"),
        ("sm_120a", "sm120"),
        ("compute_90a", "sm90"),
        ("compute capability 12.1", "sm121"),
        ("8.9", "sm89"),
        ("120", "sm120"),
        ("gfx942:sramecc+:xnack-", "gfx942"),
        ("h100", "sm90"),
        ("RTX 3050", "sm86"),
        ("GTX 1650", "sm75"),
        ("P40", "sm61"),
        ("rx7900xtx", "gfx1100"),
        ("w7900", "gfx1100"),
        ("RX-7800-XT", "gfx1101"),
        ("NVIDIA GeForce RTX 2080 ...", "sm75"),
        ("NVIDIA RTX PRO 6000 Blac...", "sm120"),
        ("NVIDIA RTX PRO 1000 Blackwell Generation Laptop GPU", "sm120"),
        ("hopper", "sm90"),
        ("blackwell", None),
        ("an abacus", None),
    ],
)
def test_architectures(text, arch):
    assert gpus.arch_of(text) == arch


def test_memory_decides_between_cut_names():
    assert gpus.find_gpu("NVIDIA GeForce RTX 2080 ...") is None
    assert gpus.find_gpu("NVIDIA GeForce RTX 2080 ...", memory_mib=11264).name == "NVIDIA GeForce RTX 2080 Ti"


def test_facts_of_an_architecture():
    facts = gpus.arch_facts("sm120")
    assert facts["fp4_tensor"] is True
    assert facts["trtllm_gen_cubins"] is False
    assert facts["shared_memory_kib"] == 99
    assert gpus.arch_facts("sm90")["fp4_tensor"] is False
    assert gpus.arch_facts("sm999") == {}
    assert gpus.sibling_of("sm121") == "sm120"
    assert gpus.arch_number("gfx942") is None


def test_an_unknown_gpu_has_a_nearest_name():
    assert gpus.find_gpu("NVIDIA GeForce RTX 5095") is None
    assert "RTX 50" in gpus.nearest("NVIDIA GeForce RTX 5095")


def test_hints_never_hide_a_match():
    for row in gpus._catalog()["gpus"]:
        assert gpus.find_gpu(row["name"]).name == row["name"]


@pytest.mark.parametrize(("name", "wanted"), MODEL_NAMES.items())
def test_model_names(name, wanted):
    model = models.find_model(name)
    assert [model and model.id, models.family_of(name), models.quantization_of(name)] == wanted


def test_every_alias_and_hub_id_names_its_model():
    for row in models._catalog()["models"]:
        for name in (*row.get("aliases", ()), *row.get("hub_ids", ()), *row.get("quantized", ())):
            assert models.find_model(name).id == row["id"], name


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("glm5-nvfp4", "glm-5"),
        ("qwen3.5-397b-nvfp4", "qwen3.5-397b-a17b"),
        ("dsr1", "deepseek-r1"),
        ("dsv3", "deepseek-v3"),
        ("/models/GLM-5-NVFP4/", "glm-5"),
        ("/root/.cache/huggingface/hub/models--nvidia--GLM-5-NVFP4/snapshots/0a1b2c", "glm-5"),
        ("x/GLM-5-NVFP4", "glm-5"),
        ("Llama-3.1-8B-Instruct-FP8, Qwen3-30B-A3B", "llama-3.1-8b"),
        ("/m/Qwen3-8B-Q4_K_M.gguf", "qwen3-8b"),
        ("deepseek-r1:14b", "deepseek-r1-distill-qwen-14b"),
        ("/opt/llm/deepseek-r1-70b", "deepseek-r1-distill-llama-70b"),
        ("deepseek-r1:671b", "deepseek-r1"),
        ("deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", "qwen3-8b"),
        ("no such model", None),
    ],
)
def test_nicknames_and_paths(name, model):
    found = models.find_model(name)
    assert (found and found.id) == model


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("nvfp4", ("nvfp4",)),
        ("modelopt_fp4", ("nvfp4",)),
        ("modelopt_mixed", ("nvfp4-mixed",)),
        ("fp8/mxfp4", ("fp8", "mxfp4")),
        ("fp8 block", ("fp8-block",)),
        ("nvfp4 kv", ()),
        ("bf16/fp8 kv", ()),
        ("int4 awq", ("awq",)),
        ("awq_marlin", ("awq",)),
        ("w8a8_int8", ("w8a8-int8",)),
        ("nvfp4, fp8", ("nvfp4", "fp8")),
        ("gguf q4_k", ("gguf q4_k",)),
        ("Q6_K", ("gguf q6_k",)),
        ("nvidia/DeepSeek-R1-0528-FP4", ("nvfp4",)),
        ("amd/DeepSeek-R1-FP4", ("mxfp4",)),
        ("bitsandbytes", ("bitsandbytes",)),
        ("various", ()),
    ],
)
def test_quantizations(text, wanted):
    assert models.quantizations_of(text) == wanted


def test_a_method_counts_as_its_wider_groups():
    assert models.quantization_groups("fp8-block") == ("fp8-block", "fp8")
    assert models.quantization_groups("gguf q4_k") == ("gguf q4_k", "gguf")
    assert models.weight_bits("nvfp4") == 4
    assert models.weight_bits("gguf q6_k") == 6
    assert models.weight_bits(None) is None


def test_features_say_what_records_match_on():
    assert models.find_model("glm-5").features == ("mla", "dsa", "moe", "mtp")
    assert set(models.find_model("gpt-oss-20b").features) >= {"gqa", "sliding", "sinks", "moe"}
    assert "linear-attention" in models.find_model("qwen3.5-397b").features
    assert "dense" in models.find_model("Qwen3-8B").features


@pytest.mark.parametrize(
    ("known", "experts"),
    [
        ({"experts": 8}, True),
        ({"architecture": "Glm4MoeForCausalLM", "layers": 92}, True),
        ({"params_total_b": 236, "params_active_b": 21}, True),
        ({"params_total_b": 8, "params_active_b": 8, "architecture": "LlamaModel", "layers": 32}, False),
        ({"params_total_b": 8, "architecture": "LlamaForCausalLM"}, None),
    ],
)
def test_a_number_of_experts_that_nobody_knows_is_not_none(known, experts):
    model = models.ModelEntry(id="x", family="x", **known)
    assert model.has_experts is experts
    assert ("moe" in model.features, "dense" in model.features) == (experts is True, experts is False)


def test_an_unknown_model_has_a_nearest_one():
    assert models.nearest("glm-5-ultra").startswith("glm-5")
    assert models.nearest("zzzzzz") is None


def test_architecture_and_sizes_name_a_model():
    assert models.find_by_architecture("GlmMoeDsaForCausalLM", layers=3) is None
    glm = models.find_model("glm-5")
    found = models.find_by_architecture(glm.architecture, layers=glm.layers, hidden=glm.hidden)
    assert found is None or found.layers == glm.layers


@given(st.text(max_size=60))
def test_no_text_breaks_a_lookup(text):
    gpus.find_gpu(text)
    gpus.arch_of(text)
    models.find_model(text)
    models.family_of(text)
    models.quantizations_of(text)
