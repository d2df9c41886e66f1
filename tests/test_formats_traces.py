"""Trace and configuration formats against damage, and against texts that are none of theirs."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from pathlib import Path

import pytest
from golden import SAMPLES, cases, formats_of, name_of, sample_of

from ingest.formats import Unreadable, read_source, recognise
from ingest.formats.nvidia_smi_csv import read_with_columns
from ingest.sources import Source
from kb.model import Reading

OURS = {
    "amd_smi",
    "amd_topology",
    "collect_env",
    "container_specs",
    "dcgm",
    "engine_yaml",
    "env_file",
    "fabric_manager",
    "gpu_loop",
    "gpu_loop_json",
    "gpu_long",
    "gpu_loop_text",
    "gpu_session",
    "gpu_summary",
    "influx_gpu",
    "line_monitors",
    "gpustat_nvitop",
    "kernel_files",
    "launch_script",
    "metrics_text",
    "mlperf_system",
    "model_config",
    "nvidia_smi_csv",
    "nvidia_smi_dmon",
    "nvidia_smi_list",
    "nvidia_smi_mig",
    "nvidia_smi_q",
    "nvidia_smi_table",
    "nvidia_smi_topo",
    "nvidia_smi_xml",
    "npu_smi",
    "nvlink",
    "prose_note",
    "pip_freeze",
    "probe",
    "prometheus_answer",
    "prometheus_gpu",
    "rocm_smi",
    "run_meta",
    "sglang_server_info",
    "tegrastats",
    "xpu_smi",
}


FORMATS = formats_of(OURS)
CASES = [sample_of(case) for case in cases({one.name for one in FORMATS})]


def source(text: str | bytes, name: str = "some.txt") -> Source:
    data = text if isinstance(text, bytes) else text.encode()
    return Source(Path(name), raw=data)


NEAR_MISSES = {
    "a benchmark's table with watts": "concurrency,output_throughput,power_w,gpu_util\n1,100,300,95\n",
    "a benchmark's table with statistics of power": "dataset,engine,avg_power_w,q1_power_w,max_draw_w\n"
    "a,b,142.9,83.8,264.4\n",
    "what a CPU's monitor writes": "System Time,Elapsed Time (sec),CPU Utilization(%),"
    "Processor Power_0(Watt),IA Power_0(Watt),Package Temperature_0(C),DRAM Power_0(Watt)\n"
    "18:51:13,0.116,14,35.4,27.9,84,0\n",
    "a log that quotes a command": "INFO 05-01 10:00:00 [a.py:1] vLLM\n$ vllm serve x/y --port 8000\n",
    "a result with its command": json.dumps(
        {"command": "vllm serve x/y", "model": "x/y", "version": "0.21.0", "mean_ttft_ms": 20.0}
    ),
    "settings of something else": "services:\n  db:\n    image: postgres:16\n",
    "YAML of a pipeline": "name: ci\non: push\njobs:\n  test:\n    steps: []\n",
    "shell variables of something else": "EDITOR=vim\nLANG=C\n",
    "a list of words": "one two three\nfour five six\n",
    "prose with commas": "power draw, utilisation, temperature\nand more, as it was\n",
    "numbers": "\n".join(f"{at}, {at * 2}, {at * 3}" for at in range(50)),
    "prose": "The GPU 0 ran at 97 % and 300 W. Nothing else is known of it.\n",
    "an empty file": "",
}


@pytest.mark.parametrize("text", NEAR_MISSES.values(), ids=NEAR_MISSES.keys())
def test_near_miss_is_none_of_ours(text: str) -> None:
    ours = {one.name for one in FORMATS}
    found, _ = recognise(source(text))
    if found is None or found.name not in ours:
        return
    with pytest.raises(Unreadable):
        found.read(source(text))


def mutations(data: bytes, seed: int) -> list[bytes]:
    dice = random.Random(seed)
    cut = dice.randrange(len(data) + 1)
    at = dice.randrange(len(data) + 1)
    flipped = bytearray(data)
    for _ in range(20):
        if flipped:
            flipped[dice.randrange(len(flipped))] = dice.randrange(256)
    lines = data.split(b"\n")
    dice.shuffle(lines)
    deep = b"[" * 2000 + data
    return [
        data[:cut],
        data[at:],
        bytes(flipped),
        b"\n".join(lines),
        deep,
        data.replace(b",", b""),
        data + b"\x00",
    ]


@pytest.mark.parametrize("sample", CASES, ids=name_of)
def test_damage_never_escapes(sample: Path) -> None:
    own = next(one for one in FORMATS if one.name == sample.parent.name)
    for seed, damaged in enumerate(mutations(sample.read_bytes(), len(sample.name))):
        told = source(damaged, sample.name)
        for one in FORMATS:
            assert 0.0 <= one.sniff(told) <= 1.0, (one.name, seed)
        with suppress(Unreadable):
            assert isinstance(own.read(told), Reading)


def test_rows_without_header_need_columns() -> None:
    sample = Source(SAMPLES / "nvidia_smi_csv_bare" / "noheader.csv")
    refused = read_source(sample)
    assert refused.status == "refused"
    assert "--columns" in refused.problems[0].what
    names = (
        "timestamp index name memory.total memory.used utilization.gpu temperature.gpu power.draw clocks.sm"
    )
    reading = read_with_columns(sample, [*names.split(), "pstate"])
    assert reading.telemetry is not None
    gpu = reading.telemetry.gpus[0]
    assert (gpu.name, gpu.metrics["power_w"]["max"], gpu.metrics["sm_clock_mhz"]["max"]) == (
        "NVIDIA H200",
        627.4,
        1980,
    )


def test_wrong_columns_are_told() -> None:
    with pytest.raises(Unreadable, match="3 columns"):
        read_with_columns(Source(SAMPLES / "nvidia_smi_csv_bare" / "noheader.csv"), ["a", "b", "c"])


def test_entities_are_not_expanded() -> None:
    doctype = '<!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'
    bomb = f"{doctype}<nvidia_smi_log>&b;</nvidia_smi_log>"
    assert read_source(source(bomb, "q.xml")).status == "refused"


def test_yaml_aliases_are_not_multiplied() -> None:
    lines = ["services:", "  a: &a0 [x, x]"] + [
        f"  k{at}: &a{at + 1} [{', '.join([f'*a{at}'] * 9)}]" for at in range(30)
    ]
    assert read_source(source("\n".join([*lines, "# vllm"]), "compose.yaml")).status == "refused"


def test_trace_in_utf_16_and_with_container_prefixes() -> None:
    rows = (SAMPLES / "nvidia_smi_csv" / "h200-served.csv").read_text()
    plain = read_source(source(rows, "a.csv"))
    wide = read_source(source(rows.encode("utf-16"), "b.csv"))
    docker = "".join(f"2026-03-01T12:34:56.789012345Z {line}\n" for line in rows.splitlines())
    assert plain.telemetry == wide.telemetry == read_source(source(docker, "c.log")).telemetry


def test_one_long_line_is_read_in_flat_time() -> None:
    header = "timestamp, index, utilization.gpu [%], power.draw [W]\n"
    row = "2026/03/01 12:34:56.906, 0, 97 %, 300.00 W\n"
    reading = read_source(source(header + row + "x" * 20_000_000, "a.csv"))
    assert reading.status == "partial"
    assert reading.telemetry is not None
    assert reading.telemetry.rows == 1
