"""Which run of several a file is joined to by its name, its folder and the settings that it asks for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ingest.agreement import common
from ingest.namesakes import fitting
from ingest.points import is_same_point
from ingest.windows import window
from kb.model import Backend, Experiment, Hardware, Measurement, Model, Outcome
from tests.test_folders import bench, piece, point, runs, server, start


@pytest.mark.parametrize(
    ("path", "logs", "best", "fully"),
    [
        (
            "/r/qwen_a_0607T1203Z_bench.json",
            ["/r/qwen_a_0607T1203Z_server.log", "/r/qwen_b_0607T1203Z_server.log"],
            {0},
            True,
        ),
        ("/r/qwen_fp8_bench.json", ["/r/qwen_server.log", "/r/qwen_fp8_server.log"], {1}, True),
        ("/r/raw/v1/metrics_1u.txt", ["/r/logs/v1-startup.log", "/r/logs/v2-startup.log"], {0}, True),
        ("/r/x/tp4_c8.json", ["/r/tp4_c8/server.log", "/r/tp8_c8/server.log"], {0}, True),
        ("/r/qwen_bench.json", ["/r/qwen_one.log", "/r/glm_two.log"], {0}, False),
        ("/r/bench_2.json", ["/r/server_1.log", "/r/server_2.log"], {1}, True),
        ("/r/bench.json", ["/r/one.log", "/r/two.log"], set(), False),
    ],
)
def test_a_file_fits_the_log_that_it_is_named_after(
    path: str, logs: list[str], best: set[int], fully: bool
) -> None:
    found = fitting(path, logs)
    assert set(found) == best
    assert all(one.fully is fully for one in found.values())


def test_files_beside_each_other_go_to_the_server_of_their_name() -> None:
    names = ("a_0607T1203Z", "a_fp8_0607T1203Z", "b_0608T0100Z")
    pieces = [server(f"/r/{name}_server.log") for name in names]
    pieces += [bench(f"/r/{name}_load.json", point(rate=100.0 * at + 10)) for at, name in enumerate(names)]
    for found in runs(pieces):
        log, other = found.experiment.sources
        assert other == log.replace("_server.log", "_load.json")


def test_a_launch_file_that_asks_for_other_settings_is_of_another_server() -> None:
    def settings(**told: object) -> Experiment:
        return start(backend=Backend(engine="vllm", settings=told), port=8000)

    pieces = [
        server("/r/logs/first.log", settings(max_model_len=4096, gpu_memory_utilization=0.9)),
        server("/r/logs/second.log", settings(max_model_len=4096, gpu_memory_utilization=0.8)),
        piece("/r/configs/x.yml", "config", settings(max_model_len="4096", gpu_memory_utilization="0.8")),
        piece("/r/configs/y.yml", "config", settings(max_model_len=4096, gpu_memory_utilization=0.7)),
    ]
    joined = {one.experiment.sources[0]: one.experiment.joined for one in runs(pieces)}
    assert joined["/r/logs/first.log"] == ()
    assert [(path, "same settings" in how) for path, how, _ in joined["/r/logs/second.log"]] == [
        ("/r/configs/x.yml", True)
    ]


def test_settings_agree_across_their_spellings() -> None:
    mine = {
        "tp_size": 8,
        "enforce_eager": True,
        "model": "/m/a",
        "attention_backend": "flash-attn",
        "x": "/p",
    }
    theirs = {
        "tp_size": "8",
        "enforce_eager": "true",
        "model": "b",
        "attention_backend": "FLASH_ATTN",
        "x": "/q",
    }
    assert common(mine, theirs) == (3, 0)
    assert common({"tp_size": 8}, {"tp_size": 4}) == (0, 1)


def test_unrounded_numbers_that_differ_are_of_two_runs() -> None:
    def lone(value: float) -> Measurement:
        return Measurement(workload={"batch_size": 1}, metrics={"e2e_ms_mean": value}, client="bench")

    pieces = [
        server("/r/logs/b1_mem8.log"),
        server("/r/logs/b1_mem9.log"),
        bench("/r/out/b1_mem8.json", lone(554.4617182731)),
        bench("/r/out/b1_mem9.json", lone(555.1029384756)),
    ]
    assert [len(one.experiment.measurements) for one in runs(pieces)] == [1, 1]


def test_a_log_without_a_word_of_a_server_starts_no_run() -> None:
    tool = Experiment(
        hardware=Hardware(gpu="NVIDIA H200"),
        backend=Backend(engine="sglang"),
        outcome=Outcome(stage="args", effect="killed"),
        started="2026-01-01T00:00:00",
    )
    assert runs([piece("/r/tune.log", "server_log", tool)]) == []
    refused = Experiment(backend=Backend(engine="vllm"), outcome=Outcome(stage="args", effect="refused"))
    assert len(runs([piece("/r/start.log", "server_log", refused)])) == 1
    named = Experiment(
        model=Model(name="glm"), backend=Backend(engine="vllm"), outcome=Outcome(effect="unknown")
    )
    assert len(runs([piece("/r/named.log", "server_log", named)])) == 1


def test_an_end_before_its_start_is_of_another_clock() -> None:
    assert window("2026-01-01T19:01:00", "2026-01-01T17:03:00") is None


def test_a_folder_tells_what_the_benchmarks_in_it_leave_open() -> None:
    (found,) = runs([bench("/r/fp8-8xH100-granit-70b/c4.json")])
    told = found.experiment
    assert (told.hardware.gpu, told.hardware.arch, told.hardware.count) == (
        "NVIDIA H100 80GB HBM3",
        "sm90",
        8,
    )
    assert told.model.quantization == "fp8"
    assert told.said == ("gpu", "gpu_count", "quantization")
    (other,) = runs([bench("/r/8xH100/c4.json", hardware=Hardware(gpu="NVIDIA H200", count=2))])
    assert (other.experiment.hardware.gpu, other.experiment.hardware.count) == ("NVIDIA H200", 2)


def test_a_folder_with_one_note_of_its_run_is_one_run() -> None:
    note = piece(
        "/r/night/run_metadata.json",
        "config",
        Experiment(model=Model(name="granit"), backend=Backend(engine="vllm")),
        extra={"meta": {"run_name": "night"}},
    )
    vllm = Experiment(measurements=(point(rate=10.0),), backend=Backend(engine="vllm"))
    files = [bench("/r/night/summary.csv", point(rate=20.0)), piece("/r/night/rows.json", "benchmark", vllm)]
    (found,) = runs([note, *files])
    assert (found.experiment.model.name, len(found.experiment.measurements)) == ("granit", 2)
    apart = bench("/r/night/other.csv", point(rate=30.0), backend=Backend(engine="sglang"))
    assert len(runs([note, *files, apart])) == 2


def test_a_bare_rate_of_a_table_may_be_that_of_all_tokens() -> None:
    told = Measurement(
        workload={"concurrency": 4}, metrics={"output_tok_s": 100.0, "total_tok_s": 200.0, "e2e_ms_p50": 7.0}
    )
    bare = Measurement(workload={"concurrency": 4}, metrics={"output_tok_s": 200.0, "e2e_ms_p50": 7.0})
    assert is_same_point(told, bare)
    assert not is_same_point(
        told, Measurement(workload={}, metrics={"output_tok_s": 150.0, "e2e_ms_p50": 7.0})
    )


def test_what_a_client_saved_printed_and_listed_is_one_point() -> None:
    full = {"output_tok_s": 380.661849674826, "ttft_ms_p99": 554.9493974902269, "tpot_ms_p50": 33.56557302}
    printed = {"output_tok_s": 380.66, "ttft_ms_p99": 554.95, "tpot_ms_p50": 33.57}

    def told(metrics: dict[str, float], **load: object) -> Measurement:
        return Measurement(workload=load, metrics=metrics, client="bench")

    files = [
        bench("/r/a/bench-long-rate1.log", told(printed)),
        bench("/r/a/result-long-rate1.json", told(full, request_rate=1)),
        bench("/r/a/summary.csv", told(printed, request_rate=1), hardware=Hardware(gpu="NVIDIA A100")),
    ]
    (found,) = runs(files)
    (one,) = found.experiment.measurements
    assert one.metrics == full
    assert found.experiment.hardware.gpu == "NVIDIA A100"
    assert len(found.experiment.sources) == 3


def test_repeats_of_one_load_stay_apart() -> None:
    first = Measurement(workload={"concurrency": 4}, metrics={"output_tok_s": 3000.12, "ttft_ms_p50": 200.91})
    again = Measurement(workload={"concurrency": 4}, metrics={"output_tok_s": 3005.48, "ttft_ms_p50": 200.87})
    assert not is_same_point(first, again)


def test_a_folder_of_many_benchmarks_is_not_all_of_the_one_server_in_it() -> None:
    names = ("laguna", "nano", "super", "qwen", "dsv4", "dsv4-mtp", "super-mtp")
    files = [bench(f"/r/bench-{name}.json", point(rate=100.0 + at)) for at, name in enumerate(names)]
    mine = bench("/r/bench-glm.json", point(rate=99.0), model=Model(name="/models/glm"))
    found = runs([server("/r/gates.stdout"), *files, mine])
    (log,) = [one.experiment for one in found if one.experiment.sources[0] == "/r/gates.stdout"]
    assert [path for path, *_ in log.joined] == ["/r/bench-glm.json"]
    assert len(found) == 1 + len(names)


def test_the_log_of_a_job_and_that_of_its_server_are_of_one_start() -> None:
    told = start(
        started="2026-06-08T05:18:37",
        port=8888,
        backend=Backend(engine="vllm", settings={"tensor_parallel_size": 4}),
    )
    (found,) = runs([server("/r/server.log", told), server("/r/slurm-17.out", told), bench("/r/conc4.json")])
    assert len(found.experiment.measurements) == 1
    other = replace(told, port=8889)
    assert len(runs([server("/r/a.out", told), server("/r/b.out", other)])) == 2
