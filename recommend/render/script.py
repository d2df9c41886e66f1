"""A plan as a shell script: start, wait, smoke test, benchmark, stop; the logs stay for ``kbctl ingest``.

Owns the script's text and its quoting. Must not run anything.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from recommend.advice import Pick
from recommend.physics import Load
from recommend.plan import Plan

PORT = 30000
SMOKE = "What is 17 times 23? Answer with the number only."
ANSWER = "391"
READY_TRIES = 720  # of 5 s: large weights from a slow disk take most of an hour
MOST_SECONDS = 3600  # a benchmark that has not ended by then hangs


def script(made: Plan, picks: Sequence[Pick], load: Load) -> str:
    """The whole script; every word that is not ours is quoted."""
    blocks = [
        _HEAD,
        *(_block(number, picks[step.pick - 1], load) for number, step in enumerate(made.steps, 1)),
    ]
    return "\n".join([*blocks, 'echo "Now: kbctl ingest $out"', ""])


_TRACED = (
    "timestamp,index,name,utilization.gpu,power.draw,power.limit,clocks.sm,clocks.max.sm,"
    "memory.used,memory.total,temperature.gpu"
)
_HEAD = f"""#!/usr/bin/env bash
# Tries in the order of their expected gain per minute. Each answers a smoke test before it is measured, in a
# folder of its own with the server's log, a trace of the GPUs and the benchmark.
set -u -m
mkdir -p "${{1:-kbctl-plan}}"; out=$(cd "${{1:-kbctl-plan}}" && pwd)
export port={PORT}
ready() {{ for _ in $(seq {READY_TRIES}); do curl -sf "localhost:$port/v1/models" >/dev/null && return 0
  kill -0 "$server" 2>/dev/null || return 1; sleep 5; done; return 1; }}
smoke() {{ curl -s --max-time 300 -H 'Content-Type: application/json' -d "$1" \\
  "localhost:$port/v1/chat/completions" | tee smoke.json | grep -q {ANSWER}; }}
trace() {{ command -v nvidia-smi >/dev/null && exec nvidia-smi -l 1 --format=csv --query-gpu={_TRACED}; }}
try() {{ # number, engine, smoke test, benchmark: all of it ends with the server, whose whole group is stopped
  echo "try $1: $2"; mkdir -p "$out/$1-$2"; cd "$out/$1-$2" || exit 1
  "server_$1" >server.log 2>&1 & server=$!
  trace >gpu.csv 2>/dev/null & tracer=$!
  if ready && smoke "$3"; then
    timeout {MOST_SECONDS} bash -c "$4" 2>&1 | tee bench.txt
  else
    echo "try $1: it did not start, or did not answer rightly; not measured" | tee failed.txt
  fi
  kill -- -"$tracer" -"$server" 2>/dev/null
  for _ in $(seq 60); do kill -0 -- -"$server" 2>/dev/null || break; sleep 1; done
  kill -9 -- -"$server" 2>/dev/null; wait 2>/dev/null
}}
"""


def _block(number: int, pick: Pick, load: Load) -> str:
    asked, measured = shlex.quote(_question(pick)), shlex.quote(benchmark(pick, load))
    return f"""
server_{number}() {{
{_file(pick)}exec env {pick.command} --port $port
}}
try {number} {shlex.quote(pick.engine)} {asked} \\
  {measured}"""


def _question(pick: Pick) -> str:
    asked: dict[str, Any] = {
        "model": _model(pick),
        "temperature": 0,
        "max_tokens": 400,
        "messages": [{"role": "user", "content": SMOKE}],
    }
    return json.dumps(asked)


def _model(pick: Pick) -> str:
    words = list(pick.argv)
    return next(
        (word for word in words[1:] if "/" in word and not word.startswith("-")), words[-1] if words else ""
    )


def _file(pick: Pick) -> str:
    if pick.file is None:
        return ""
    name, content = pick.file
    return f"cat >{shlex.quote(name)} <<'END'\n{content.rstrip()}\nEND\n"


def benchmark(pick: Pick, load: Load) -> str:
    """The benchmark command of the pick's own engine at the asked load."""
    prompts = max(4 * load.concurrency, 16)
    sizes = f"--random-input-len {load.input_len} --random-output-len {load.output_len}"
    flight = f"--num-prompts {prompts} --max-concurrency {load.concurrency}"
    if pick.engine == "sglang":
        client = "python -m sglang.bench_serving --backend sglang"
        return f"{client} --port $port --dataset-name random {sizes} {flight}"
    model = shlex.quote(_model(pick))
    return f"vllm bench serve --model {model} --port $port --dataset-name random {sizes} {flight}"
