"""Hostile large inputs through the command itself: time and memory of a whole process, per shape.

``python tests/fuzz/big_inputs.py [MB [NAME…]]`` writes each shape to a temporary file, reads it with
``kbctl parse`` in a process of its own, and says whether the bounds hold: 5 s per MB, 300 MB, no traceback.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

MOST_KIB = 300 * 1024
SECONDS_PER_MB = 5.0
_PARSE = "from kb.cli import main; main()"


def shapes() -> Iterator[tuple[str, bytes, bytes, bytes]]:
    """(file name, start, what is repeated to the size, end)."""
    yield "line.log", b"[2026-03-01 12:00:00] ", b"x", b""
    yield "digits.log", b"", b"9", b""
    yield "zeros.log", b"", b"\0", b""
    yield "blank.txt", b"", b"\n", b""
    yield "blank.md", b"", b"\n", b""
    yield "blank.yaml", b"", b" \n", b""
    yield "heading.md", b"# ", b"a ", b"\n\n| TTFT (ms) | tok/s |\n|---|---|\n| 1 | 2 |\n"
    yield "board.txt", b"", b"RAM 1/2MB ", b""
    yield "states.json", b'{\n"', b"util", b""
    yield "words.txt", b"", b"a" * 200 + b" " * 195 + b"\n", b""
    yield "frames.log", b"", b"Loading: 10%|##  | 1/9 [00:01<00:02]\r", b""
    yield "ansi.log", b"", b"\x1b[36m", b""
    yield "args.log", b"[2026-03-01 12:00:00] server_args=ServerArgs(model_path='m', ", b"a=[", b""
    yield "namespace.log", b"INFO 03-01 12:00:00 [api.py:1] non-default args: ", b"{'a': ", b""
    yield "trace.log", b"", b'Traceback (most recent call last):\n  File "a.py", line 1, in f\n', b""
    yield (
        "smi.csv",
        b"timestamp, index, name, utilization.gpu [%]\n",
        b"2026/03/01 12:00:00.000, 0, NVIDIA H200, 5 %\n",
        b"",
    )
    yield "wide.csv", b"ttft_ms,output_tok_s,", b"c,", b"\n1,2,3\n"
    yield "quotes.csv", b'ttft_ms,output_tok_s,note\n1,2,"', b"a,", b""
    yield "deep.json", b"", b"[", b""
    yield "deepobject.json", b"", b'{"ttft_ms":', b""
    yield "string.json", b'{"output_throughput": 1.0, "model_id": "', b"m", b'"}'
    yield (
        "array.json",
        b'{"mean_ttft_ms": 1.0, "output_throughput": 5.0, "completed": 3, "itls": [',
        b"0.01234, ",
        b"0.1]}",
    )
    yield "lines.jsonl", b"", b'{"output_throughput": 5.0, "mean_ttft_ms": 2.0, "completed": 3}\n', b""
    yield "smi.xml", b"<?xml version='1.0'?><nvidia_smi_log>", b"<gpu id='0'>", b""
    yield "pipes.md", b"# t\n\n| tok/s | TTFT (ms) |\n|---|---|\n", b"| 1 | 2 |\n", b""
    yield "bars.md", b"# t\n\n", b"|", b""
    yield "anchors.yaml", b"services:\n  a: &a [vllm]\n", b"  b: [*a, *a]\n", b""
    yield "script.sh", b"#!/bin/bash\nvllm serve m ", b"--a \\\n", b""
    yield "metrics.prom", b"", b'vllm:num_requests_running{model_name="m"} 1.0\n', b""


def main() -> int:
    """A line per shape; 1 where a bound is broken."""
    mb = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    broken = 0
    for name, start, piece, end in shapes():
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        seconds, kib, said = _measure(name, start, piece, end, mb * 1_000_000)
        good = seconds < max(5.0, SECONDS_PER_MB * mb) and kib < MOST_KIB and "internal error" not in said
        broken += not good
        print(
            f"{name:18} {seconds:7.2f} s {kib / 1024:7.0f} MB {'ok' if good else 'BROKEN'} {said[:100]}",
            flush=True,
        )
    return 1 if broken else 0


def _measure(name: str, start: bytes, piece: bytes, end: bytes, size: int) -> tuple[float, float, str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        block = piece * max(1, (1 << 20) // len(piece))
        with path.open("wb") as out:
            out.write(start)
            for _ in range(size // len(block)):
                out.write(block)
            out.write(end)
        began = time.monotonic()
        told = Path(folder) / "said"
        with told.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-c", _PARSE, "parse", str(path)], stdout=out, stderr=out
            )
            _, _, usage = os.wait4(process.pid, 0)
        text = told.read_bytes()[:2000].decode(errors="replace").replace("\n", " ")
        return time.monotonic() - began, usage.ru_maxrss, text.replace(folder, "")


if __name__ == "__main__":
    sys.exit(main())
