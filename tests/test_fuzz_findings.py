"""What fuzzing found, each as a small input that showed it: none may raise, hang, or pass for a defect."""

from __future__ import annotations

import json
import random
import re
import runpy
import time
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from ingest.formats import read_source
from ingest.sources import Source, find_sources
from kb.wire import compact, reading_to_wire

HUGE = "9" * 5000
SAMPLES = Path(__file__).parent / "formats"
HANGS = 20.0  # CPU seconds: what took minutes before it was mended
FOUND = {
    "lists-in-lists.json": '{"ttft_ms": 1, "output_tok_s": 2, "deep": ' + "[" * 900 + "]" * 900 + "}",
    "result.json": '{"output_throughput": 1.0, "mean_ttft_ms": 2.0, "model_id": "' + "m" * 300_000 + '"}',
    "server_bench.log": f"batch size: {HUGE}\nlatency: 1e999 s\n"
    "input throughput: 1 tok/s\noutput throughput: 1 tok/s\n",
    "sweep.csv": f"max_num_seqs,ttft_ms,output_tok_s\n{HUGE},12,100\n",
    "all_reduce.log": "#       size         count      type   redop    root     time   algbw   busbw\n"
    f"{HUGE} {HUGE} float sum -1 23.1 0.00 0.00 0 22.9 0.00 0.00 0\n",
    "nvlink.txt": "GPU 0: NVIDIA H200 (UUID: GPU-1)\n\t Link 0: 26.562.562 GB/s\n",
    "smi.txt": "| NVIDIA-SMI 580.95.05   Driver Version: 580.95.05   CUDA Version: 13.0 |\n"
    f"|   {HUGE}  NVIDIA H200   On  |\n",
    "compose.yaml": f"services:\n  a:\n    image: vllm/vllm-openai:v0.{HUGE}.0\n    command: serve m\n",
    "unit.service": "[Unit]\n[Service]\nExecStart=vllm serve m \x0c\x0c\nEnvironment=A=1\n",
    "start.txt": "vllm # \n$ vllm serve\\\n",
    "rocm.txt": "======= ROCm System Management Interface =======\n"
    "GPU  Temp  AvgPwr  SCLK  MCLK  Fan  Perf  PwrCap  VRAM%  GPU%\n"
    "0x1  35.0c 1.2.3W 800Mhz 900Mhz 0% auto 300.0W 0% 0%\n",
    "kbctl.toml": f"gpu = {HUGE}\n",
    "old.csv": '"build_commit","build_number","backends","cpu_info","n_prompt","n_gen"\n"0a1b2c3","7000"\n',
    "turns.txt": "Statistics summary:\nruntime_sec = 1.0\nrequests_per_sec = 2.0\n"
    "  count  mean  std  min  50%\nlatency_ms 4 7.0.40 1.0 2.0 3.0\n",
    "cards.jsonl": '{"ts": 1, "gpus": [{"uuid": "", "gpu_utilization_percent": 9, "power_draw_w": 300}, '
    '{"uuid": -1, "gpu_utilization_percent": 9, "power_draw_w": 300}]}\n',
    "hey.txt": "Summary:\n  Total:\t1..2 secs\n  Requests/sec:\t159..1\n",
    "agg.json": '{"hw": 1.5, "framework": [1], "model": [[1]], "conc": 4, "tp": 8, "tput_per_gpu": 12.5}',
    "answer.json": '{"status": "success", "data": {"result": [{"metric": {"__name__": '
    '"DCGM_FI_DEV_GPU_TEMP", "gpu": "0"}, "values": [[1' + "0" * 400 + ', "97"]]}]}}',
    "latency.json": '{"avg_latency": 1' + "0" * 400 + ', "latencies": [1.0], "percentiles": {"50": 1.0}}',
    "pmon.txt": "# gpu pid type sm mem enc dec command\n# Idx # C/G % % % % name\n"
    f"  0 77 C {HUGE} 1 - - python\n",
    "vllm.log": "INFO 03-01 12:00:00 [api_server.py:1] vLLM API server version 0.9.0\n"
    "INFO 03-01 12:00:09 [gpu_model_runner.py:9] Model loading took 15.016.02 GiB and 3 seconds\n",
    "busy.log": "INFO 03-01 12:00:00 [api_server.py:1] vLLM API server version 0.9.0\n"
    + "INFO 03-01 12:00:09 [loggers.py:1] Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation "
    f"throughput: 5.0 tokens/s, Running: {HUGE} reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%\n" * 3,
    "empty_table.md": "# TTFT (ms)\n\n|\n|---|\n|\n|\n\n| |\n|---|\n| TTFT (ms) |\n| tok/s |\n",
    "serial.md": "| run | TTFT (ms) |\n|---|---|\n" + "".join(f"| C{n} | 1{n} |\n" for n in (1, HUGE, 3)),
    "corner.txt": "TTFT p50 (ms)||\n|-\n|",
    "monitor.txt": "GPU  POWER  GPU_T  MEM_T  GFX_CLK  GPU\n  0  430 W  60  50  1200 MHz  44%\n",
    "digits.txt": "$ vllm serve m --max-num-seqs " + "9" * 5000,
    "cell.csv": "timestamp, index, power.draw [W]\n2026/11/30 03:34:35.757, 0, " + "9" * 80_000 + ".1.2\n",
    "stats_stats.csv": "Type,Name,Request Count,Failure Count,Median Response Time,Average \x14,\x85\r\x85",
}


@pytest.mark.parametrize("name", FOUND)
def test_a_finding_is_read_as_far_as_it_goes(name: str) -> None:
    data = FOUND[name].encode()
    started = time.process_time()
    reading = read_source(Source(Path(name), data))
    assert time.process_time() - started < HANGS
    assert not any("defect of kbctl" in one.what for one in reading.problems), reading.problems
    json.loads(compact(reading_to_wire(reading)))


SHAPES = list(runpy.run_path(str(Path(__file__).parent / "fuzz" / "big_inputs.py"))["shapes"]())


@pytest.mark.parametrize(("name", "start", "piece", "end"), SHAPES, ids=[shape[0] for shape in SHAPES])
def test_one_shape_over_and_over_is_read_in_seconds(
    name: str, start: bytes, piece: bytes, end: bytes
) -> None:
    data = start + piece * (300_000 // len(piece)) + end
    started = time.process_time()
    reading = read_source(Source(Path(name), data))
    assert time.process_time() - started < HANGS
    assert not any("defect of kbctl" in one.what for one in reading.problems), reading.problems


def _broken_zip() -> bytes:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("server.log", "x" * 50)
    return packed.getvalue().replace(b"PK\x01\x02", b"PK\x01\xff")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("run.zip", _broken_zip()),
        ("run.tar.gz", b"\x1f\x8b\x08\x00" + b"\xff" * 60),
        ("run.tar", b"\xff" * 900),
    ],
)
def test_a_damaged_archive_is_told(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    readings = [read_source(one) for one in find_sources([path])]
    assert readings
    assert any("archive is damaged" in one.what for each in readings for one in each.problems)


def test_a_member_that_lost_its_name_is_left_out(tmp_path: Path) -> None:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("smi.txt", "No devices were found")
        archive.writestr("lost.txt", "x")
    (tmp_path / "run.zip").write_bytes(packed.getvalue().replace(b"lost.txt", b"\0ost.txt"))
    assert [one.name for one in find_sources([tmp_path / "run.zip"])]


@pytest.mark.parametrize("folder", sorted(SAMPLES.iterdir()), ids=lambda folder: folder.name)
def test_a_number_without_end_breaks_no_sample(folder: Path) -> None:
    for path in sorted(folder.glob("*")):
        data = path.read_bytes() if path.is_file() and ".expected." not in path.name else b""
        if numbers := [found.span() for found in re.finditer(rb"\d+", data[:60_000])]:
            first, last = random.Random(path.name).choice(numbers)
            reading = read_source(Source(Path(path.name), data[:first] + HUGE.encode() + data[last:]))
            assert not any("defect of kbctl" in one.what for one in reading.problems), (path, first)


def test_a_number_without_end_costs_a_document_nothing_else() -> None:
    text = '{"mean_ttft_ms": 12.5, "output_throughput": 100.0, "completed": ' + HUGE + ', "model_id": "m"}'
    reading = read_source(Source(Path("result.json"), text.encode()))
    assert reading.experiments[0].measurements[0].metrics["ttft_ms_mean"] == 12.5
    assert any("300 digits" in one.what for one in reading.problems)
