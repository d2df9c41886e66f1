"""Command lines to settings and back."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb.vocab import options
from kb.vocab.commands import parse_command, parse_shell
from kb.vocab.rendering import CONFIG_FILE, render_command, render_config


def read(command, **rest):
    return parse_command(shlex.split(command), **rest)


@pytest.mark.parametrize(
    ("command", "engine", "version", "model"),
    [
        ("python -m sglang.launch_server --model-path x/GLM-5-NVFP4 --tp 8", "sglang", None, "x/GLM-5-NVFP4"),
        ("python3 -m sglang.launch_server --model m", "sglang", None, "m"),
        ("sglang serve --model-path m", "sglang", None, "m"),
        ("vllm serve org/m --port 1", "vllm", None, "org/m"),
        ("vllm serve --model org/m", "vllm", None, "org/m"),
        ("python -m vllm.entrypoints.openai.api_server --model m", "vllm", None, "m"),
        ("trtllm-serve m --backend pytorch", "tensorrt-llm", None, "m"),
        ("trtllm-serve serve m", "tensorrt-llm", None, "m"),
        ("mpirun -n 8 trtllm-llmapi-launch trtllm-serve m --tp_size 8", "tensorrt-llm", None, "m"),
        ("llama-server -m /m/a.gguf -ngl 99", "llama.cpp", None, "/m/a.gguf"),
        ("./build/bin/llama-server -hf org/m-GGUF", "llama.cpp", None, "org/m-GGUF"),
        ("docker run --gpus all -p 1:1 vllm/vllm-openai:v0.15.0 --model m", "vllm", "0.15.0", "m"),
        (
            "docker run x lmsysorg/sglang:v0.5.14-cu130 python3 -m sglang.launch_server --model-path m",
            "sglang",
            "0.5.14",
            "m",
        ),
        (
            "sudo -E numactl -N 0 env A=b torchrun --nproc-per-node 2 -m sglang.launch_server --model-path m",
            "sglang",
            None,
            "m",
        ),
        ("uvx --with vllm==0.20.0 vllm serve m", "vllm", "0.20.0", "m"),
        ("bash -lc 'source v && vllm serve m --port 1'", "vllm", None, "m"),
        ("docker pull vllm/vllm-openai:v0.15.0", None, None, None),
        ("vllm bench serve --model m", None, None, None),
        ("ls -l", None, None, None),
        ("", None, None, None),
    ],
)
def test_programs(command, engine, version, model):
    launch = read(command)
    assert (launch.engine, launch.version, launch.model) == (engine, version, model)


@pytest.mark.parametrize(
    ("command", "dest", "value"),
    [
        ("sglang serve --model-path m --tp=8", "tp_size", 8),
        ("sglang serve --model-path m --tensor-parallel-size 8", "tp_size", 8),
        ("sglang serve --model-path m --speculative-algo EAGLE", "speculative_algorithm", "EAGLE"),
        ("sglang serve --model-path m --cuda-graph-bs 1 2 4", "cuda_graph_bs_decode", [1, 2, 4]),
        ("sglang serve --model-path m --nsa-prefill-backend tilelang", "dsa_prefill_backend", "tilelang"),
        ("sglang serve --model-path m --mem-fraction-static .85", "mem_fraction_static", 0.85),
        ("sglang serve --model-path m --chunked-prefill-size -1", "chunked_prefill_size", -1),
        ("sglang serve --model-path m --disable-piecewise-cuda-graph", "disable_piecewise_cuda_graph", True),
        ("vllm serve m -tp 4", "tensor_parallel_size", 4),
        ("vllm serve m --max_model_len 32768", "max_model_len", 32768),
        ("vllm serve m --max-model-len 32k", "max_model_len", "32k"),
        ("vllm serve m --no-enable-prefix-caching", "enable_prefix_caching", False),
        ("vllm serve m --enable-prefix-caching", "enable_prefix_caching", True),
        ("vllm serve m -O3", "optimization_level", 3),
        ("vllm serve m -O.mode=3", "compilation_config", {"mode": 3}),
        ("vllm serve m -cc.cudagraph_mode=FULL", "compilation_config", {"cudagraph_mode": "FULL"}),
        ("vllm serve m --attention-config.backend FLASHINFER", "attention_backend", "FLASHINFER"),
        ('vllm serve m -ac \'{"backend": "FLASH_ATTN"}\'', "attention_config", {"backend": "FLASH_ATTN"}),
        ('vllm serve m --speculative-config \'{"method":"mtp"}\'', "speculative_config", {"method": "mtp"}),
        ("vllm serve m --tensor-parallel-size 2 --tensor-parallel-size 4", "tensor_parallel_size", 4),
        ("trtllm-serve m --tp_size 8", "tensor_parallel_size", 8),
        ("llama-server -m a -fa on", "flash_attn", "on"),
        ("llama-server -m a -c 4096", "ctx_size", 4096),
        ("vllm serve m --unheard-of thing", "unheard_of", "thing"),
        ("vllm serve m --unheard-of --port 1", "unheard_of", True),
    ],
)
def test_flags(command, dest, value):
    assert read(command).settings[dest] == value


def test_repeated_nested_keys_are_merged():
    launch = read(
        'vllm serve m -cc.mode=3 --compilation-config \'{"cudagraph_mode":"FULL"}\' -cc.backend=eager'
    )
    assert launch.settings["compilation_config"] == {"mode": 3, "cudagraph_mode": "FULL", "backend": "eager"}


def test_environment_comes_from_every_place():
    launch = read(
        "A=1 env B=2 docker run -e C=3 --env D=4 --env=E=5 vllm/vllm-openai --model m", env={"F": "6"}
    )
    assert launch.environment == {"A": "1", "B": "2", "C": "3", "D": "4", "E": "5", "F": "6"}


def test_unknown_flags_are_told_and_not_an_error():
    launch = read("sglang serve --model-path m --no-such-flag x --tp 2 --enable-nothing")
    assert launch.unknown_flags == ("--no-such-flag", "--enable-nothing")
    assert launch.settings["tp_size"] == 2
    assert "--no-such-flag" in launch.flags


def test_flags_alone_are_read_for_a_named_engine():
    launch = read("--model-path m --tp 2", engine="sglang", version="0.5.14")
    assert (launch.engine, launch.version, launch.model) == ("sglang", "0.5.14", "m")


def test_shell_text_gives_every_launch():
    text = """
    # it's a comment
    export VLLM_USE_DEEP_GEMM=0
    MODEL=org/m
    $ CUDA_VISIBLE_DEVICES=0 vllm serve "${MODEL}" \\
        --max-model-len ${LEN:-4096} \\
        --port 1 > log.txt 2>&1 &
    sleep 5; sglang serve --model-path <MODEL> | tee out.log
    """
    first, second = parse_shell(text)
    assert first.model == "org/m"
    assert first.settings == {"max_model_len": 4096, "port": 1}
    assert first.environment == {"VLLM_USE_DEEP_GEMM": "0", "CUDA_VISIBLE_DEVICES": "0"}
    assert second.model == "<MODEL>"
    assert not first.arguments


def test_a_worker_of_dynamo_takes_the_flags_of_its_engine():
    text = """
    export MODEL_PATH=${MODEL_PATH:-"nvidia/GLM-5.1-NVFP4"}
    python3 -m dynamo.frontend --http-port "8000" &
    for ((w=0; w<2; w++)); do
      (
      CUDA_VISIBLE_DEVICES=$GPUS \\
      python3 -m dynamo.sglang \\
        --model-path "$MODEL_PATH" --tensor-parallel-size "8" \\
        --enable-metrics 2>&1 | sed "s/^/[Worker $w] /" ) &
    done
    """
    (worker,) = parse_shell(text)
    assert (worker.engine, worker.model) == ("sglang", "nvidia/GLM-5.1-NVFP4")
    assert worker.settings == {"tp_size": 8, "enable_metrics": True}


def test_a_space_after_a_continuation_is_forgiven():
    assert parse_shell("vllm serve m \\ \n --port 1")[0].settings == {"port": 1}


@given(st.lists(st.text(max_size=20), max_size=8))
def test_no_words_break_the_reader(words):
    parse_command(words)
    for engine in ("sglang", "vllm", "tensorrt-llm", "llama.cpp"):
        parse_command(words, engine=engine)


@given(st.text(max_size=200))
def test_no_text_breaks_the_shell_reader(text):
    parse_shell(text)


def test_rendering_uses_the_flags_of_the_release():
    asked = {"tp_size": 8, "dsa_prefill_backend": "tilelang"}
    assert "--nsa-prefill-backend" in render_command("sglang", "0.5.10", "m", asked)
    assert "--dsa-prefill-backend" in render_command("sglang", "0.5.14", "m", asked)
    words = render_command(
        "sglang", "0.5.14", "m", {"moe_runner_backend": "flashinfer_cutlass"}, {"A": "b"}, 8
    )
    assert words[:5] == ["A=b", "python", "-m", "sglang.launch_server", "--model-path"]
    assert words[5:] == ["m", "--tp-size", "8", "--moe-runner-backend", "flashinfer_cutlass"]
    assert "--no-enable-prefix-caching" in render_command("vllm", None, "m", {"enable_prefix_caching": False})


def test_keys_of_a_configuration_file_go_into_the_file():
    asked = {"moe_config.backend": "CUTLASS", "kv_cache_config.dtype": "fp8", "tensor_parallel_size": 8}
    words = render_command("tensorrt-llm", None, "m", asked)
    assert words == [
        "trtllm-serve",
        "m",
        "--tensor_parallel_size",
        "8",
        "--extra_llm_api_options",
        CONFIG_FILE,
    ]
    text = render_config("tensorrt-llm", None, asked)
    assert text == 'moe_config:\n  backend: "CUTLASS"\nkv_cache_config:\n  dtype: "fp8"\n'
    assert render_config("vllm", None, {"tensor_parallel_size": 8}) is None


def test_a_width_is_added_only_where_there_is_one():
    assert "--tensor-parallel-size" in render_command("vllm", None, "m", {}, None, 4)
    assert render_command("vllm", None, "m", {"data_parallel_size": 4}, None, 4)[-1] == "4"
    assert "--tensor-parallel-size" not in render_command(
        "vllm", None, "m", {"data_parallel_size": 4}, None, 4
    )
    assert render_command("llama.cpp", None, "m.gguf", {}, None, 4) == ["llama-server", "-m", "m.gguf"]


RELEASES = [(engine, one) for engine in ("sglang", "vllm") for one in options.releases(engine)]
words = st.text("abcdefgh0123456789/_.", min_size=1, max_size=8).filter(
    lambda text: text not in ("true", "false")
)


def value_for(option):
    kind = (option.type or "").lower()
    if option.is_switch:
        return st.just(True)
    if option.choices and not option.is_list and option.nargs is None and "int" not in kind:
        return st.sampled_from([str(one) for one in option.choices]).filter(
            lambda text: text not in ("None", "")
        )
    if kind == "int":
        return st.integers(-5, 10**6)
    return st.floats(0, 1).map(lambda one: round(one, 3)) if kind == "float" else None


def canonical(option, known, renamed):
    return renamed.get(option.dest, option.dest)


@st.composite
def launches(draw):
    from kb.vocab.dialects import dialect

    engine, release = draw(st.sampled_from(RELEASES))
    renamed = dialect(engine)["renamed"]
    keys = dialect(engine)["model_keys"]
    usable = [
        one
        for one in options.catalog(engine, release).by_dest.values()
        if not one.deprecated
        and one.dest not in keys
        and not one.action
        and not one.nargs
        and value_for(one) is not None
    ]
    chosen = draw(
        st.lists(st.sampled_from(usable), max_size=6, unique_by=lambda one: renamed.get(one.dest, one.dest))
    )
    asked = {renamed.get(one.dest, one.dest): draw(value_for(one)) for one in chosen}
    env = draw(st.dictionaries(st.sampled_from(["A", "VLLM_X", "NCCL_P2P_LEVEL"]), words, max_size=2))
    return engine, release, draw(words), asked, env


@settings(max_examples=200, deadline=None)
@given(launches())
def test_what_is_written_is_read_back(launch):
    engine, release, model, asked, env = launch
    again = parse_command(render_command(engine, release, model, asked, env), version=release)
    assert again.engine == engine
    assert again.model == model
    assert again.settings == asked
    assert again.environment == env
    assert again.unknown_flags == ()
    assert options.unknown_flags(engine, release, again.flags) == []
