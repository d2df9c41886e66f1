"""Large inputs for benchmarks/speed.py, the same bytes for the same arguments.

    python benchmarks/make_inputs.py FOLDER [sglang vllm trace json small] [--mb 300] [--files 1000]

Server logs begin with a real start from tests/formats and go on with batch lines, requests and now and then
a line that no rule knows; the trace is ``nvidia-smi --query-gpu`` of eight GPUs with units, busy and idle
by turns.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

SAMPLES = Path(__file__).parent.parent / "tests" / "formats"
STARTS = {
    "sglang": (SAMPLES / "sglang_server_log" / "h200_healthy_stopped.log", "Decode batch"),
    "vllm": (SAMPLES / "vllm_server_log" / "h200_rocm_name_runs_triton.log", "loggers.py"),
}
EPOCH = datetime(2026, 3, 1, tzinfo=UTC)
HEADER = (
    "timestamp, index, name, uuid, pstate, temperature.gpu, utilization.gpu [%], utilization.memory [%], "
    "memory.used [MiB], memory.total [MiB], power.draw [W], power.limit [W], clocks.current.sm [MHz], "
    "clocks.current.memory [MHz], clocks_event_reasons.active\n"
)
RESULT = SAMPLES / "vllm_bench_serve_json" / "appended.json"


def beginning(engine: str) -> str:
    """A real log up to its first batch line."""
    path, stop = STARTS[engine]
    lines = path.read_text("utf-8").splitlines(keepends=True)
    return "".join(lines[: next(at for at, line in enumerate(lines) if stop in line)])


def sglang_lines(rnd: random.Random) -> Iterator[str]:
    """Batch lines of a busy SGLang server, endlessly."""
    second, count, below = 0, 0, rnd.random
    while True:
        if count % 40 == 0:
            second += 1
            stamp = (EPOCH + timedelta(seconds=second)).strftime("[%Y-%m-%d %H:%M:%S]")
        count += 1
        running, tokens = int(below() * 64) + 1, int(below() * 400_000)
        if count % 8 == 0:
            yield (
                f"{stamp} Prefill batch, #new-seq: {running % 9 + 1}, #new-token: {tokens % 8192}, "
                f"#cached-token: {tokens % 977}, token usage: {below():.2f}, #running-req: {running}, "
                f"#queue-req: {running % 5}, \n"
            )
        elif count % 8 == 4:
            yield f'{stamp} INFO:     127.0.0.1:{40000 + tokens % 20000} - "POST /generate HTTP/1.1" 200 OK\n'
        elif count % 50_003 == 0:
            yield f"{stamp} Health check took {tokens} ms longer than usual for client {running:x}\n"
        else:
            yield (
                f"{stamp} Decode batch, #running-req: {running}, #token: {tokens}, "
                f"token usage: {below():.2f}, cuda graph: True, "
                f"gen throughput (token/s): {below() * 9000:.2f}, #queue-req: {running % 7}\n"
            )


def vllm_lines(rnd: random.Random) -> Iterator[str]:
    """Requests and statistics of a busy vLLM server, endlessly."""
    second, count, below = 0, 0, rnd.random
    while True:
        count += 1
        if count % 12 == 1:
            second += 1
            stamp = (EPOCH + timedelta(seconds=10 * second)).strftime("%m-%d %H:%M:%S")
            yield (
                f"(APIServer pid=6242) INFO {stamp} [loggers.py:271] Engine 000: Avg prompt throughput: "
                f"{below() * 9000:.1f} tokens/s, Avg generation throughput: {below() * 5000:.1f} tokens/s, "
                f"Running: {int(below() * 99)} reqs, Waiting: {int(below() * 9)} reqs, GPU KV cache usage: "
                f"{below() * 100:.1f}%, Prefix cache hit rate: {below() * 100:.1f}%\n"
            )
        elif count % 50_003 == 0:
            client = int(below() * 1e9)
            yield f"(APIServer pid=6242) WARNING {stamp} [serving.py:77] client {client:x} went away\n"
        else:
            port = 40000 + int(below() * 20000)
            yield (
                f'(APIServer pid=6242) INFO:     127.0.0.1:{port} - "POST /v1/completions HTTP/1.1" 200 OK\n'
            )


def trace_lines(rnd: random.Random) -> Iterator[str]:
    """One sample of each of eight GPUs a second, endlessly."""
    second, below = 0, rnd.random
    while True:
        second += 1
        stamp = (EPOCH + timedelta(seconds=second)).strftime("%Y/%m/%d %H:%M:%S")
        busy = second % 600 < 500
        for gpu in range(8):
            load, power = (60 + int(below() * 41), 350 + below() * 350) if busy else (0, 70 + below() * 9)
            yield (
                f"{stamp}.{int(below() * 1000):03d}, {gpu}, NVIDIA H200, "
                f"GPU-00000000-0000-0000-0000-00000000000{gpu}, P0, {35 + load // 3}, {load} %, "
                f"{load // 2} %, "
                f"{load * 1300} MiB, 143771 MiB, {power:.2f} W, 700.00 W, "
                f"{1980 - 15 * int(below() * busy * 9)} MHz, 3201 MHz, 0x000000000000000{4 * (power > 690)}\n"
            )


def result(rnd: random.Random, concurrency: int, requests: int = 0) -> str:
    """One result of ``vllm bench serve``, with arrays of so many requests."""
    one = json.loads(RESULT.read_text("utf-8").splitlines()[0])
    one["max_concurrency"], one["output_throughput"] = concurrency, 512.0 * concurrency + rnd.random()
    one["mean_ttft_ms"] = 80.0 + rnd.random()
    if requests:
        one["itls"] = [[rnd.random() for _ in range(100)] for _ in range(requests)]
        one["ttfts"] = [rnd.random() for _ in range(requests)]
    return json.dumps(one)


def write(path: Path, start: str, lines: Iterator[str], size: int) -> None:
    """Lines to a file until it has ``size`` bytes."""
    with path.open("w", encoding="utf-8") as out:
        done = out.write(start)
        while done < size:
            done += out.write("".join(next(lines) for _ in range(5000)))


def small(folder: Path, count: int) -> None:
    """Many results, each in a file of its own, twenty to a folder."""
    rnd = random.Random(5)
    for at in range(count):
        place = folder / f"server{at // 20:04d}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"bench_c{at % 20 + 1}.json").write_text(result(rnd, at % 20 + 1), "utf-8")


def make(folder: Path, what: str, megabytes: int, files: int) -> Path:
    """Write one input under ``folder`` and return its path."""
    size = megabytes << 20
    folder.mkdir(parents=True, exist_ok=True)
    names = {"trace": "trace.csv", "json": "result.json", "small": "small"}
    path = folder / names.get(what, f"{what}.log")
    makers: dict[str, Callable[[], object]] = {
        "sglang": lambda: write(path, beginning("sglang"), sglang_lines(random.Random(1)), size),
        "vllm": lambda: write(path, beginning("vllm"), vllm_lines(random.Random(2)), size),
        "trace": lambda: write(path, HEADER, trace_lines(random.Random(3)), size),
        "json": lambda: path.write_text(result(random.Random(4), 8, size // 2200), "utf-8"),
        "small": lambda: small(path, files),
    }
    makers[what]()
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("what", nargs="*", default=["sglang", "vllm", "trace", "json", "small"])
    parser.add_argument("--mb", type=int, default=300)
    parser.add_argument("--files", type=int, default=1000)
    asked = parser.parse_args()
    for one in asked.what:
        print(make(asked.folder, one, asked.mb, asked.files))
