"""Option catalogs per release, and what auto picks by hand-read gates."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kb.vocab import dialects, engines, gates, models, options, pins


def test_releases_are_in_order():
    assert options.releases("sglang")[:2] == ("0.4.6", "0.4.10")
    assert options.newest("vllm") == options.releases("vllm")[-1]
    assert options.releases("unheard") == ()
    assert options.newest("unheard") is None


@pytest.mark.parametrize(
    ("version", "neighbours"),
    [
        ("0.5.14", ("0.5.14", "0.5.14")),
        ("0.5.13", ("0.5.12", "0.5.14")),
        ("0.4.0", (None, "0.4.6")),
        ("99.0", ("0.5.23", None)),
        ("main", (None, None)),
        (None, (None, None)),
    ],
)
def test_neighbours_of_a_version(version, neighbours):
    lower, upper = options.between("sglang", version)
    assert (lower, upper) == neighbours


@pytest.mark.parametrize("engine", dialects.ENGINES)
def test_every_catalog_loads_and_finds_its_own_flags(engine):
    for release in options.releases(engine):
        known = options.catalog(engine, release)
        assert known.options
        for one in known.options:
            assert known.find(one.flag) is not None
            assert known.find(one.dest) is not None


def test_pins_by_canonical_names():
    brought = pins.pinned("sglang", "0.5.14")
    assert brought["flashinfer"] == "0.6.12"
    assert brought["sgl-kernel"] == "0.4.4"
    assert {"torch", "cutlass-dsl", "deepgemm"} <= set(brought)
    assert pins.pinned_spans("sglang", "0.5.6.post1")["flashinfer"] == ("0.5.0", "0.6.1")
    assert "flashinfer" not in pins.pinned("sglang", "0.5.6.post1")
    assert pins.pinned("sglang", "0.5.17")["flashinfer"] == "0.6.15.post1"  # its wheel was read
    assert pins.pinned("sglang", "0.5.10")["triton"] == "3.5.1"
    assert pins.pinned("sglang", "main") == {}
    assert pins.pinned("unheard", "1.0") == {}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("flashinfer-python", "flashinfer"),
        ("deep_gemm", "deepgemm"),
        ("sglang-kernel==0.4.4", "sgl-kernel"),
        ("torch", "torch"),
        ("tokamax", "tokamax"),
    ],
)
def test_components_have_one_name(text, name):
    assert pins.canonical_component(text) == name


def test_unknown_flags_tell_where_they_exist():
    found = options.unknown_flags(
        "sglang", "0.5.23", ["--nsa-prefill-backend", "--tp", "--moe-runner-backnd", "--zz"]
    )
    assert found == [
        ("--nsa-prefill-backend", "0.5.19", "--dsa-prefill-backend"),
        ("--moe-runner-backnd", None, "--moe-runner-backend"),
        ("--zz", None, None),
    ]
    assert options.unknown_flags("vllm", "0.20.0", ["--no-enable-prefix-caching", "-tp", "-cc.mode"]) == []
    assert options.unknown_flags("sglang", "0.5.13", ["--dsa-prefill-backend"]) == []
    assert options.unknown_flags("unheard", "1", ["--x"]) == []


def test_unknown_values_tell_what_is_offered():
    found = options.unknown_values("sglang", "0.5.14", {"moe_runner_backend": "b12x", "tp_size": 8})
    assert [(dest, value) for dest, value, _ in found] == [("moe_runner_backend", "b12x")]
    assert "flashinfer_cutlass" in found[0][2]
    assert options.unknown_values("sglang", "0.5.14", {"moe_runner_backend": "marlin"}) == []


def picks(engine, version, arch, model, quantization=None, settings=None, env=None):
    found = gates.default_roles(engine, version, arch, models.find_model(model), quantization, settings, env)
    return {role: kernel for role, (kernel, _) in found.items()}


@pytest.mark.parametrize(
    ("engine", "version", "arch", "model", "quantization", "expected"),
    [
        (
            "sglang",
            "0.5.14",
            "sm120",
            "glm-5",
            "modelopt_fp4",
            {"moe": "cutlass", "gemm.fp4": "cutlass", "dsa.decode": "trtllm-gen"},
        ),
        (
            "sglang",
            "0.5.10",
            "sm120",
            "glm-5",
            "modelopt_fp4",
            {"moe": "cutlass", "gemm.fp4": "cudnn", "dsa.prefill": "trtllm-gen"},
        ),
        (
            "sglang",
            "0.5.23",
            "sm120",
            "glm-5",
            "modelopt_fp4",
            {"dsa.prefill": "fi-sparse-mla", "gemm.fp4": "cutlass"},
        ),
        (
            "sglang",
            "0.5.23",
            "sm120",
            "deepseek-v3.2",
            "fp8",
            {"dsa.decode": "trtllm-gen", "gemm.fp8": "cutlass"},
        ),
        ("sglang", "0.5.23", "sm120", "glm-5", "modelopt_mixed", {"moe": "trtllm-gen"}),
        ("sglang", "0.5.23", "sm100", "glm-5", "nvfp4", {"moe": "trtllm-gen", "gemm.fp4": "cutedsl"}),
        (
            "sglang",
            "0.5.23",
            "sm90",
            "glm-5",
            "nvfp4",
            {"moe": "marlin", "gemm.fp4": "marlin", "dsa.decode": "fa3"},
        ),
        (
            "sglang",
            "0.5.8",
            "sm121",
            "gpt-oss-120b",
            None,
            {"moe": "trtllm-gen", "attention.decode": "triton"},
        ),
        ("sglang", "0.5.14", "sm120", "gpt-oss-120b", None, {"moe": "marlin"}),
        ("sglang", "0.5.23", "sm120", "gpt-oss-120b", None, {"moe": "cutlass"}),
        (
            "sglang",
            "0.5.11",
            "sm90",
            "qwen3-8b",
            None,
            {"attention.prefill": "fa3", "attention.decode": "fa3"},
        ),
        ("sglang", "0.5.14", "sm120", "qwen3-8b", None, {"attention.decode": "fi-fa2"}),
        ("sglang", "0.5.14", "sm100", "qwen3-8b", None, {"attention.decode": "trtllm-gen"}),
        (
            "sglang",
            "0.5.14",
            "sm120",
            "deepseek-v3",
            "fp8",
            {"mla": "triton", "moe": "triton", "gemm.fp8": "triton"},
        ),
        ("sglang", "0.5.19", "sm120", "deepseek-v3", "fp8", {"gemm.fp8": "cutlass"}),
        ("sglang", "0.5.8", "sm120", "deepseek-v3", "fp8", {"gemm.fp8": "deepgemm"}),
        ("sglang", "0.5.23", "sm100", "deepseek-v3", "fp8", {"mla": "trtllm-gen", "moe": "trtllm-gen"}),
        (
            "vllm",
            "0.33.0",
            "sm120",
            "glm-5",
            "nvfp4",
            {"dsa.prefill": "fi-sparse-mla", "moe": "cutlass", "gemm.fp4": "cutlass"},
        ),
        ("vllm", "0.20.0", "sm90", "qwen3-8b", None, {"attention.decode": "fa3"}),
        ("vllm", "0.20.0", "sm120", "deepseek-v3", "nvfp4", {"mla": "triton", "moe": "cutlass"}),
        ("vllm", "0.20.0", "sm89", "qwen3-235b", "nvfp4", {"moe": "marlin", "gemm.fp4": "marlin"}),
        ("vllm", "0.12.0", "sm120", "gpt-oss-20b", None, {"moe": "marlin", "attention.decode": "triton"}),
        ("vllm", "0.33.0", "sm90", "llama-3.1-8b", "awq", {"gemm.int4": "machete"}),
        ("vllm", "0.33.0", "sm90", "qwen3-235b", "nvfp4", {"moe": "humming", "gemm.fp4": "humming"}),
        ("vllm", "0.28.0", "sm90", "qwen3-235b", "nvfp4", {"moe": "marlin", "gemm.fp4": "marlin"}),
        ("vllm", "0.25.0", "sm90", "qwen3-235b", "fp8-block", {"moe": "triton"}),
        ("vllm", "0.25.0", "sm90", "gpt-oss-20b", None, {"moe": "triton-kernels"}),
        ("sglang", "0.5.12", "sm120", "qwen3-235b", "nvfp4", {"moe": "trtllm-gen", "gemm.fp4": "cudnn"}),
        ("sglang", "0.5.16", "sm120", "glm-5", "fp8", {"gemm.fp8": "cutlass", "dsa.decode": "trtllm-gen"}),
        ("sglang", "0.5.17", "sm120", "glm-5", "fp8", {"dsa.decode": "fi-sparse-mla"}),
        ("llama.cpp", "b6500", "sm89", "qwen3-8b", "gguf q4_k_m", {"attention.decode": "ggml"}),
    ],
)
def test_defaults(engine, version, arch, model, quantization, expected):
    found = picks(engine, version, arch, model, quantization)
    assert {role: found.get(role) for role in expected} == expected


@pytest.mark.parametrize(
    ("engine", "version", "arch", "model", "quantization", "role"),
    [
        ("sglang", "0.5.13", "sm120", "glm-5", "modelopt_fp4", "gemm.fp4"),
        ("vllm", "0.32.0", "sm90", "qwen3-235b", "nvfp4", "moe"),
        ("sglang", "0.5.23", "sm120", "glm-5", "nvfp4", "moe"),
        ("sglang", "99.0", "sm120", "glm-5", "modelopt_fp4", "moe"),
        ("sglang", "main", "sm120", "glm-5", "modelopt_fp4", "moe"),
        ("vllm", "0.20.0", "sm120", "glm-5", "nvfp4", "dsa.decode"),
        ("sglang", "0.5.14", None, "glm-5", "modelopt_fp4", "moe"),
        ("sglang", "0.5.14", "sm120", "no such model", "modelopt_fp4", "moe"),
        ("sglang", "0.5.14", "gfx942", "glm-5", "fp8", "moe"),
        ("unheard", "1", "sm120", "glm-5", "nvfp4", "moe"),
    ],
)
def test_what_is_open_stays_open(engine, version, arch, model, quantization, role):
    assert role not in picks(engine, version, arch, model, quantization)


def test_settings_and_environment_change_defaults():
    assert picks("sglang", "0.5.23", "sm90", "deepseek-v3", "fp8")["moe"] == "triton"
    assert (
        picks("sglang", "0.5.23", "sm90", "deepseek-v3", "fp8", {"moe_a2a_backend": "deepep"})["moe"]
        == "deepgemm"
    )
    off = {"SGLANG_ENABLE_JIT_DEEPGEMM": "0"}
    assert picks("sglang", "0.5.5", "sm120", "deepseek-v3", "fp8", None, off)["gemm.fp8"] == "triton"
    assert (
        picks("sglang", "0.5.23", "sm120", "glm-5", "modelopt_fp4", {"kv_cache_dtype": "bf16"})["dsa.prefill"]
        == "flashmla"
    )


def test_post_releases_that_were_read_decide_for_themselves():
    assert picks("sglang", "0.5.6.post2", "sm120", "qwen3-8b")["attention.prefill"] == "trtllm-gen"
    assert picks("sglang", "0.5.7", "sm120", "qwen3-8b")["attention.prefill"] == "fi-fa2"
    assert picks("sglang", "0.5.8.post1", "gfx942", "qwen3-8b")["attention.decode"] == "aiter"
    assert picks("sglang", "0.5.14", "gfx942", "kimi-k2", None, {"tp_size": 8})["mla"] == "triton"


def test_ampere_multiplies_fp8_weights_with_marlin_in_sglang():
    assert picks("sglang", "0.5.14", "sm80", "qwen3-8b", "fp8-block")["gemm.fp8"] == "marlin"
    assert picks("sglang", "0.5.5", "sm80", "qwen3-8b", "fp8-block")["gemm.fp8"] == "triton"
    assert picks("sglang", "0.5.14", "sm89", "qwen3-8b", "fp8-block")["gemm.fp8"] == "triton"
    assert picks("sglang", "0.5.14", "sm80", "qwen3-30b-a3b", "fp8-block")["moe"] == "triton"


def test_a_release_may_override_what_was_asked():
    glm = models.find_model("glm-5")
    assert gates.forced_roles("sglang", "0.5.10", "sm120", glm)["dsa.decode"][0] == "trtllm-gen"
    assert gates.forced_roles("sglang", "0.5.14", "sm120", glm) == {}


def test_rules_cite_gates_and_use_known_words():
    read, by_engine = (gates._read("defaults")[name] for name in ("read", "engines"))
    assert set(by_engine) <= set(dialects.ENGINES)
    assert sum(map(len, by_engine.values())) > 100
    for engine, rule in ((engine, rule) for engine, rules in by_engine.items() for rule in rules):
        assert gates.gate(rule["gate"]) is not None
        assert set(rule["versions"]) <= {*read.get(engine, ()), *options.releases(engine), "*"}
        for role, kernel in rule["roles"].items():
            assert kernel is None or engines.is_known(role, kernel)


def test_gates_of_a_release():
    hand_read = gates.gates_for("sglang", "0.5.14", "sm120")
    assert hand_read
    assert all(one.origin == "curated" for one in hand_read)
    with_leads = gates.gates_for("sglang", "0.5.14", "sm120", leads=True)
    assert len(with_leads) > len(hand_read)
    assert {one.id for one in hand_read} <= {one.id for one in with_leads}
    assert gates.gates_for("tensorrt-llm")
    assert len({one.id for one in gates._curated()}) == len(gates._curated())


def _implied_rows():
    raw = json.loads(Path(options.__file__).with_name("implied.json").read_text(encoding="utf-8"))
    notes = {name: raw.pop(name) for name in ("about", "read", "left_out")}
    assert notes["read"]["index"] == "pypi.org"
    return [(name, release, row) for name, rows in raw.items() for release, row in rows.items()]


@pytest.mark.parametrize(("name", "release", "row"), _implied_rows())
def test_what_a_pin_brings_along_is_what_its_wheel_requires(name, release, row):
    source = row["source"]
    assert source["wheel"].startswith(f"{name}-{release}-")
    assert re.fullmatch(r"[0-9a-f]{64}", source["sha256"])
    stated = dict(
        re.match(r"([\w.-]+) ?\(?==([\w.]+)\)? ?(?:;|\Z)", line).groups() for line in source["requires_dist"]
    )
    assert stated == row["brings"]


def test_pins_bring_along_only_what_was_read():
    assert pins.pinned("sglang", "0.5.14")["triton"] == "3.6.0"
    assert pins.pinned("vllm", "0.28.0")["triton"] == "3.7.1"
    # torch 2.14.1 asks for a range of triton, which is no release.
    assert pins.pinned("sglang", "0.5.23")["torch"] == "2.14.1"
    assert "triton" not in pins.pinned("sglang", "0.5.23")


@pytest.mark.parametrize("model", ["nvidia/Qwen3-235B-A22B-NVFP4", "nvidia/GLM-5.1-NVFP4"])
@pytest.mark.parametrize("version", ["0.5.14", "0.5.16", "0.5.23"])
def test_auto_depends_on_whether_the_quantization_is_named_on_the_command_line(model, version):
    entry = models.find_model(model)

    def moe(settings, *, whole):
        asked = ("sglang", version, "sm120", entry, "nvfp4", settings)
        return gates.default_roles(*asked, whole=whole).get("moe", (None,))[0]

    assert moe({"tp_size": 8}, whole=True) == "trtllm-gen"
    assert moe({"tp_size": 8}, whole=False) is None
    assert moe({"quantization": "modelopt_fp4"}, whole=True) == "cutlass"


def test_families_that_resolve_their_own_quantization_are_left_open():
    entry = models.find_model("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4")
    assert entry
    assert "moe" not in gates.default_roles("sglang", "0.5.14", "sm120", entry, "nvfp4", {}, whole=True)


def _released_rows():
    raw = json.loads((Path(pins.__file__).with_name("released.json")).read_text(encoding="utf-8"))
    del raw["about"], raw["read"]
    return [(engine, release, row) for engine, rows in raw.items() for release, row in rows.items()]


@pytest.mark.parametrize(("engine", "release", "row"), _released_rows())
def test_a_release_without_a_catalog_pins_what_its_wheel_requires(engine, release, row):
    assert release not in options.releases(engine)
    assert row["source"]["wheel"].startswith(f"{engine}-{release}")
    assert re.fullmatch(r"[0-9a-f]{64}", row["source"]["sha256"])
    exact = {name: said[2:] for name, said in row["pinned"].items() if said.startswith("==")}
    assert pins.pinned(engine, release).items() >= exact.items()
    assert all(pins.canonical_component(name) == name for name in row["pinned"])


def test_what_was_read_of_a_release_goes_before_its_neighbours():
    assert pins.pinned("vllm", "0.25.1")["flashinfer"] == "0.6.13"
    assert pins.pinned("vllm", "0.26.0")["flashinfer"] == "0.6.14"
    assert pins.pinned("vllm", "0.11.2")["triton"] == "3.5.0"  # by way of torch 2.9.0
