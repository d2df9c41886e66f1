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


def script(made: Plan, picks: Sequence[Pick], load: Load) -> str:
    """The whole script; every word that is not ours is quoted."""
    blocks = [
        _HEAD,
        *(_block(number, picks[step.pick - 1], load) for number, step in enumerate(made.steps, 1)),
    ]
    return "\n".join([*blocks, 'echo "Now: kbctl ingest $out"', ""])


_HEAD = f"""#!/usr/bin/env bash
# Tries in the order of their expected gain per minute. Each answers a smoke test before it is measured.
set -u
out=${{1:-kbctl-plan}}; mkdir -p "$out"
port={PORT}
wait_until_ready() {{ for _ in $(seq 360); do curl -sf "localhost:$port/v1/models" >/dev/null && return 0
  kill -0 "$server" 2>/dev/null || return 1; sleep 5; done; return 1; }}
smoke() {{ curl -s "localhost:$port/v1/chat/completions" -H 'Content-Type: application/json' -d "$1" \\
  | tee "$2" | grep -q {ANSWER}; }}
"""


def _block(number: int, pick: Pick, load: Load) -> str:
    folder = f"$out/{number}-{pick.engine}"
    body = shlex.quote(_question(pick))
    file = _file(pick)
    return f"""
echo "try {number}: {pick.engine}"; mkdir -p "{folder}"; cd "{folder}" || exit 1
{file}{pick.command} --port $port >server.log 2>&1 & server=$!; cd - >/dev/null
if wait_until_ready && smoke {body} "{folder}/smoke.json"; then
  {benchmark(pick, load)} | tee "{folder}/bench.txt"
else
  echo "try {number}: it did not start, or did not answer rightly; not measured" | tee "{folder}/failed.txt"
fi
kill "$server"; wait "$server" 2>/dev/null"""


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
