"""Engines: settings by any spelling, spellings to kernels and back, log labels."""

from __future__ import annotations

import pytest

from kb.vocab import dialects, engines, models, options, spellings

SM120 = "sm120"


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        ("sglang", "sglang"),
        ("sglang==0.5.14", "sglang"),
        ("SGLang", "sglang"),
        ("trtllm", "tensorrt-llm"),
        ("TensorRT-LLM", "tensorrt-llm"),
        ("llama-server", "llama.cpp"),
        ("vllm>=0.8", "vllm"),
        ("tgi", "tgi"),
        ("an engine", None),
        (None, None),
    ],
)
def test_engine_names(text, engine):
    assert engines.canonical_engine(text) == engine


@pytest.mark.parametrize(
    ("engine", "key", "dest"),
    [
        ("sglang", "tp", "tp_size"),
        ("sglang", "--tp", "tp_size"),
        ("sglang", "--tensor-parallel-size", "tp_size"),
        ("vllm", "tp", "tensor_parallel_size"),
        ("vllm", "-tp", "tensor_parallel_size"),
        ("sglang", "--moe-runner-backend", "moe_runner_backend"),
        ("sglang", "nsa_decode_backend", "dsa_decode_backend"),
        ("sglang", "--nsa-prefill-backend", "dsa_prefill_backend"),
        ("sglang", "fp4_gemm_backend", "fp4_gemm_runner_backend"),
        ("sglang", "--fp8-gemm-backend", "fp8_gemm_runner_backend"),
        ("sglang", "cuda_graph_bs", "cuda_graph_bs_decode"),
        ("vllm", "attention_config.backend", "attention_backend"),
        ("vllm", "--attention-config.backend", "attention_backend"),
        ("vllm", "kernel_config.moe_backend", "moe_backend"),
        ("vllm", "compilation_config.cudagraph_mode", "compilation_config.cudagraph_mode"),
        ("tensorrt-llm", "moe_config.backend", "moe_config.backend"),
        ("tensorrt-llm", "tp_size", "tensor_parallel_size"),
        ("llama.cpp", "-ngl", "gpu_layers"),
        ("sglang", "never-heard-of", "never_heard_of"),
        (None, "tp", "tp"),
    ],
)
def test_one_dest_per_setting(engine, key, dest):
    assert engines.canonical_dest(engine, key) == dest


@pytest.mark.parametrize("engine", dialects.ENGINES)
def test_dests_are_the_same_whatever_the_release(engine):
    for release in options.releases(engine):
        for dest in options.catalog(engine, release).by_dest:
            here = dialects.canonical_dest(engine, dest, release)
            for other in (None, *options.releases(engine)):
                assert dialects.canonical_dest(engine, dest, other) == here


@pytest.mark.parametrize("engine", dialects.ENGINES)
def test_what_is_said_to_go_beyond_kernels_can_be_set(engine):
    dests = {
        dest for release in options.releases(engine) for dest in options.catalog(engine, release).by_dest
    }
    for name, keys in dialects.dialect(engine)["beyond_kernels"].items():
        for key in keys:
            assert key in {"pp", "speculation"} or any(dest.startswith(key) for dest in dests), (name, key)


@pytest.mark.parametrize(
    ("engine", "settings", "common"),
    [
        ("sglang", {"tp_size": 8, "kv_cache_dtype": "fp8_e4m3"}, {"tp": 8, "kv_dtype": "fp8"}),
        ("sglang", {"tp": "4", "disable_cuda_graph": True}, {"tp": 4, "graphs": "off"}),
        ("sglang", {"speculative_algorithm": "NEXTN"}, {"speculation": "mtp"}),
        ("vllm", {"enable_expert_parallel": True, "tensor_parallel_size": 8}, {"tp": 8, "ep": 8}),
        ("sglang", {"moe_a2a_backend": "deepep", "tp_size": 16, "ep_size": 8}, {"tp": 16, "ep": 16}),
        ("sglang", {"moe_a2a_backend": "none", "tp_size": 16, "ep_size": 8}, {"tp": 16, "ep": 8}),
        ("vllm", {"compilation_config": {"cudagraph_mode": "FULL"}}, {"graphs": "full"}),
        ("vllm", {"enforce_eager": True}, {"graphs": "off"}),
        ("vllm", {"speculative_config": {"method": "deepseek_mtp"}}, {"speculation": "mtp"}),
        ("tensorrt-llm", {"moe_expert_parallel_size": 4}, {"ep": 4}),
        ("llama.cpp", {"cache_type_k": "q8_0"}, {"kv_dtype": "q8_0"}),
        ("vllm", {"kv_cache_dtype": "auto"}, {}),
        ("sglang", {}, {}),
    ],
)
def test_common_settings(engine, settings, common):
    assert engines.common_settings(engine, settings) == common


def ask(engine, version, settings, arch=SM120, quantization="nvfp4", env=None, model=None):
    found = models.find_model(model) if model else None
    return engines.roles_of(engine, version, settings, env, arch, quantization, found)


@pytest.mark.parametrize(
    ("engine", "version", "settings", "arch", "roles"),
    [
        ("sglang", "0.5.14", {"moe_runner_backend": "flashinfer_trtllm"}, SM120, {"moe": "trtllm-gen"}),
        ("vllm", "0.20.0", {"moe_backend": "flashinfer_trtllm"}, SM120, {"moe": "trtllm-gen"}),
        ("tensorrt-llm", None, {"moe_config.backend": "TRTLLM"}, SM120, {"moe": "trtllm-gen"}),
        ("tensorrt-llm", None, {"moe_config": {"backend": "CUTEDSL"}}, SM120, {"moe": "b12x"}),
        ("tensorrt-llm", None, {"moe_config.backend": "CUTEDSL"}, "sm100", {"moe": "cutedsl"}),
        ("sglang", "0.5.23", {"moe_runner_backend": "flashinfer_mxfp4"}, SM120, {"moe": "cutlass"}),
        ("sglang", "0.5.23", {"moe_runner_backend": "flashinfer_mxfp4"}, "sm100", {"moe": "trtllm-gen"}),
        ("sglang", "0.5.8", {"moe_runner_backend": "flashinfer_mxfp4"}, SM120, {"moe": "trtllm-gen"}),
        ("sglang", "0.5.14", {"moe_runner_backend": "flashinfer_mxfp4"}, SM120, {}),
        ("sglang", "0.5.23", {"moe_runner_backend": "flashinfer_mxfp4"}, None, {}),
        ("sglang", "0.5.2", {"enable_flashinfer_trtllm_moe": True}, SM120, {"moe": "trtllm-gen"}),
        ("sglang", "0.5.14", {"moe_runner_backend": "auto"}, SM120, {}),
        ("sglang", "0.5.14", {"nsa_prefill_backend": "trtllm"}, SM120, {"dsa.prefill": "trtllm-gen"}),
        (
            "sglang",
            "0.5.23",
            {"dsa_decode_backend": "flashinfer_sparse_mla"},
            SM120,
            {"dsa.decode": "fi-sparse-mla"},
        ),
        ("sglang", "0.5.14", {"fp4_gemm_backend": "flashinfer_cudnn"}, SM120, {"gemm.fp4": "cudnn"}),
        ("sglang", "0.5.10", {"attention_backend": "trtllm_mla"}, SM120, {"mla": "trtllm-gen"}),
        (
            "sglang",
            "0.5.23",
            {"attention_backend": "trtllm_mha"},
            SM120,
            {"attention.prefill": "fmha-v2", "attention.decode": "xqa"},
        ),
        ("sglang", "0.5.23", {"decode_attention_backend": "trtllm_mha"}, SM120, {"attention.decode": "xqa"}),
        ("sglang", "0.5.23", {"speculative_moe_runner_backend": "triton"}, SM120, {"draft:moe": "triton"}),
        ("vllm", "0.20.0", {"attention_backend": "FLASHINFER_MLA"}, SM120, {"mla": "trtllm-gen"}),
        (
            "vllm",
            "0.33.0",
            {"attention_backend": "FLASHINFER_MLA_SPARSE_SM120"},
            SM120,
            {"dsa.prefill": "fi-sparse-mla", "dsa.decode": "fi-sparse-mla"},
        ),
        ("vllm", "0.20.0", {"kernel_config": {"moe_backend": "marlin"}}, SM120, {"moe": "marlin"}),
        ("vllm", "0.25.0", {"linear_backend": "cutlass"}, SM120, {"gemm.fp4": "cutlass"}),
        ("vllm", "0.20.0", {"speculative_config": {"moe_backend": "triton"}}, SM120, {"draft:moe": "triton"}),
        ("sglang", "0.5.14", {"tp_size": 8}, SM120, {}),
        ("unheard", None, {"moe_backend": "x"}, SM120, {}),
    ],
)
def test_settings_to_kernels(engine, version, settings, arch, roles):
    assert ask(engine, version, settings, arch) == roles


@pytest.mark.parametrize(
    ("version", "env", "quantization", "roles"),
    [
        ("0.12.0", {"VLLM_ATTENTION_BACKEND": "CUTLASS_MLA"}, "fp8", {"mla": "cutlass"}),
        ("0.15.0", {"VLLM_ATTENTION_BACKEND": "CUTLASS_MLA"}, "fp8", {}),
        (None, {"VLLM_ATTENTION_BACKEND": "CUTLASS_MLA"}, "fp8", {"mla": "cutlass"}),
        (
            "0.12.0",
            {"VLLM_USE_FLASHINFER_MOE_FP4": "1", "VLLM_FLASHINFER_MOE_BACKEND": "latency"},
            "nvfp4",
            {"moe": "trtllm-gen"},
        ),
        ("0.12.0", {"VLLM_FLASHINFER_MOE_BACKEND": "latency"}, "nvfp4", {}),
        ("0.25.0", {"VLLM_USE_FLASHINFER_MOE_FP4": "1"}, "nvfp4", {}),
        ("0.20.0", {"VLLM_NVFP4_GEMM_BACKEND": "marlin"}, "nvfp4", {"gemm.fp4": "marlin"}),
        ("0.12.0", {"VLLM_MXFP4_USE_MARLIN": "1"}, "mxfp4", {"moe": "marlin"}),
        ("0.12.0", {"VLLM_MXFP4_USE_MARLIN": "1"}, "nvfp4", {}),
        ("0.20.0", {"VLLM_ROCM_USE_AITER": "1"}, "fp8", {}),
    ],
)
def test_environment_to_kernels(version, env, quantization, roles):
    assert ask("vllm", version, {}, SM120, quantization, env) == roles


def test_general_attention_backend_names_mla_for_such_models():
    roles = ask("sglang", "0.5.23", {"attention_backend": "triton"}, model="deepseek-v3")
    assert roles["mla"] == "triton"
    assert "mla" not in ask("sglang", "0.5.23", {"attention_backend": "triton"}, model="qwen3-8b")


@pytest.mark.parametrize(
    ("engine", "version", "role", "kernel", "arch", "quantization", "spelled"),
    [
        ("sglang", "0.5.14", "moe", "cutlass", SM120, "nvfp4", {"moe_runner_backend": "flashinfer_cutlass"}),
        ("sglang", "0.4.10", "moe", "cutlass", SM120, "nvfp4", {"enable_flashinfer_cutlass_moe": True}),
        ("vllm", "0.33.0", "moe", "b12x", SM120, "nvfp4", {"moe_backend": "flashinfer_b12x"}),
        ("vllm", "0.20.0", "attention", "fi-fa2", SM120, None, {"attention_backend": "FLASHINFER"}),
        ("vllm", "0.12.0", "attention", "fi-fa2", SM120, None, {"VLLM_ATTENTION_BACKEND": "FLASHINFER"}),
        ("tensorrt-llm", None, "moe", "b12x", SM120, None, {"moe_config.backend": "CUTEDSL"}),
        ("sglang", "0.5.23", "moe", "b12x", SM120, None, None),
        ("sglang", "0.5.23", "mla", "triton", SM120, None, {"attention_backend": "triton"}),
        ("llama.cpp", None, "moe", "cutlass", SM120, None, None),
    ],
)
def test_kernels_to_settings(engine, version, role, kernel, arch, quantization, spelled):
    assert engines.spell(engine, version, role, kernel, arch, quantization) == spelled


@pytest.mark.parametrize("engine", dialects.ENGINES)
@pytest.mark.parametrize("arch", ["sm80", "sm90", "sm100", "sm120"])
def test_what_is_spelled_asks_for_that_kernel(engine, arch):
    for version in options.releases(engine):
        for role, names in engines.kernels()["roles"].items():
            for kernel in names:
                asked = engines.spell(engine, version, role, kernel, arch, "nvfp4")
                if asked is None:
                    continue
                env = {name: value for name, value in asked.items() if name.isupper()}
                settings = {name: value for name, value in asked.items() if not name.isupper()}
                roles = engines.roles_of(engine, version, settings, env, arch, "nvfp4")
                assert roles.get(role, roles.get("attention.decode")) == kernel


def test_every_kernel_of_the_tables_is_in_the_closed_list():
    for engine in dialects.ENGINES:
        for entry in dialects.dialect(engine)["spellings"]:
            for meaning in spellings.values(engine, entry).values():
                for role, kernel in named(entry["roles"], meaning):
                    roles = entry["roles"] if entry.get("by_quantization") else [role]
                    assert any(engines.is_known(one, kernel) for one in roles), (engine, role, kernel)


def named(roles, meaning):
    for rule in [meaning] if isinstance(meaning, str | dict) else meaning or []:
        if isinstance(rule, str):
            yield from ((role, rule) for role in roles)
        elif "roles" in rule:
            yield from rule["roles"].items()
        elif rule["kernel"]:
            yield from ((role, rule["kernel"]) for role in roles)


def test_every_dest_of_the_tables_exists_in_some_release():
    for engine in ("sglang", "vllm"):
        for entry in dialects.dialect(engine)["spellings"]:
            if "key" not in entry or entry["key"] in (
                "enable_pcie_oneshot_allreduce",
                "enable_flashinfer_moe",
            ):
                continue
            dest = entry["key"].partition(".")[0]
            older = [old for old, new in dialects.dialect(engine)["renamed"].items() if new == dest]
            known = [options.catalog(engine, one).by_dest for one in options.releases(engine)]
            assert any(name in one for one in known for name in (dest, *older)), entry["key"]


@pytest.mark.parametrize(
    ("engine", "role", "label", "arch", "version", "kernel"),
    [
        ("vllm", "moe", "FLASHINFER_CUTLASS", None, None, "cutlass"),
        ("vllm", "moe", "FlashInfer CUTLASS Unquantized", None, None, "cutlass"),
        ("vllm", "moe", "FLASHINFER_TRTLLM", None, None, "trtllm-gen"),
        ("vllm", "moe", "MARLIN", None, None, "marlin"),
        ("vllm", "moe", "MARLIN (NvFp4)", None, None, "marlin"),
        ("vllm", "moe", "TRITON", None, None, "triton"),
        ("vllm", "moe", "FLASHINFER_CUTEDSL", None, None, "cutedsl"),
        ("vllm", "moe", "B12X", None, None, "b12x"),
        ("vllm", "attention", "FLASH_ATTN", "sm90", "3", "fa3"),
        ("vllm", "attention", "FLASH_ATTN", "sm120", None, "fa2"),
        ("vllm", "attention", "FLASH_ATTN 2", None, None, "fa2"),
        ("vllm", "attention", "FlashAttention version 3", None, None, "fa3"),
        ("vllm", "attention", "TRITON_ATTN", None, None, "triton"),
        ("vllm", "attention", "AttentionBackendEnum.FLASHINFER", "sm100", None, "trtllm-gen"),
        ("vllm", "mla", "FLASHINFER_MLA", None, None, "trtllm-gen"),
        ("vllm", "gemm.fp4", "FlashInferCutlassNvFp4LinearKernel", None, None, "cutlass"),
        ("vllm", "gemm.fp4", "MarlinNvFp4LinearKernel", None, None, "marlin"),
        ("vllm", "gemm.fp8", "CutlassFP8ScaledMMLinearKernel", None, None, "cutlass"),
        ("vllm", "gemm.int4", "MacheteLinearKernel", None, None, "machete"),
        ("sglang", "moe", "flashinfer_trtllm", None, None, "trtllm-gen"),
        ("sglang", "attention", "fa3", None, None, "fa3"),
        ("sglang", "attention.decode", "trtllm_mha", SM120, None, "xqa"),
        ("sglang", "gemm.fp4", "flashinfer_cudnn", None, None, "cudnn"),
        ("tensorrt-llm", "moe", "CutlassFusedMoE", None, None, "cutlass"),
        ("tensorrt-llm", "moe", "TRTLLMGenFusedMoE", None, None, "trtllm-gen"),
        (None, "moe", "no such thing", None, None, None),
    ],
)
def test_labels_of_logs(engine, role, label, arch, version, kernel):
    assert engines.kernel_of_label(engine, role, label, arch, version) == kernel


def test_roles_of_kernel_classes():
    assert engines.roles_of_label("FlashInferCutlassNvFp4LinearKernel") == ("gemm.fp4",)
    assert engines.roles_of_label("CutlassFP8ScaledMMLinearKernel") == ("gemm.fp8",)
    assert engines.roles_of_label("MarlinLinearKernel") == ("gemm.int4",)
    assert engines.roles_of_label("CutlassFusedMoE") == ("moe",)
    assert engines.roles_of_label("something") == ()


def test_kernel_aliases_and_groups():
    assert engines.canonical_kernel("trtllm_gen") == "trtllm-gen"
    assert engines.canonical_kernel("cutlass-mla") == "cutlass"
    assert engines.role_names("attention") == ("attention.prefill", "attention.decode")
    assert engines.role_names("draft:attention") == ("draft:attention.prefill", "draft:attention.decode")
    assert engines.is_known("attention", "fa3")
    assert not engines.is_known("moe", "fa3")
