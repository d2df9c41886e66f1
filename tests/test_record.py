"""A recorded run: served, died, never ready, interrupted; its files, its place in the store."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

SERVER = """
import http.server, subprocess, sys, time
port = int(sys.argv[sys.argv.index("--port") + 1])
print("INFO 11-30 10:00:00 [api_server.py:1100] vLLM API server version 0.21.0", flush=True)
print("INFO 11-30 10:00:01 [core.py:90] Initializing a V1 LLM engine (v0.21.0) with config: model='org/m'")
if "--die" in sys.argv:
    sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("child", child.pid, flush=True)
if "--hang" in sys.argv:
    time.sleep(600)
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"{}")
    def log_message(self, *words):
        print("INFO:     127.0.0.1:1 - \\"GET /v1/models HTTP/1.1\\" 200 OK", flush=True)
print("INFO:     Application startup complete.", flush=True)
http.server.HTTPServer(("127.0.0.1", port), Answer).serve_forever()
"""


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Path:
    (tmp_path / "vllm").write_text(f"#!{sys.executable}\n{SERVER}")
    (tmp_path / "vllm").chmod(0o755)
    return tmp_path


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def started(place: Path, *options: str, server: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", "from kb.cli import main; main()", "record", "-o", str(place / "run")]
    words += ["--store", str(place / "kb.duckdb"), *options]
    words += ["--", str(place / "vllm"), "serve", "org/m", "--port", str(free_port()), *server]
    environment = {**os.environ, "PATH": f"{place}:/usr/bin:/bin", "VLLM_X": "1", "HF_TOKEN": "hf_secret"}
    return subprocess.Popen(
        words,
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_interruptible,  # noqa: PLW1509 - no other thread runs here
    )


def _interruptible() -> None:
    """As a shell in the foreground starts it: tests that run in the background inherit a deaf ear."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def told(place: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((place / "run" / "run.json").read_text())
    return found


def runs(place: Path) -> list[dict[str, Any]]:
    words = [sys.executable, "-c", "from kb.cli import main; main()", "runs", "--json"]
    done = subprocess.run(
        [*words, "--store", str(place / "kb.duckdb")], capture_output=True, text=True, check=True
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)["runs"]
    return found


def is_running(place: Path) -> bool:
    """Whether the server's child, whose number its log holds, still runs."""
    log = (place / "run" / "server.log").read_text()
    pid = next(int(line.split()[1]) for line in log.splitlines() if line.startswith("child "))
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_server_is_run_measured_stopped_and_stored(place: Path) -> None:
    one = started(place, "--bench", "echo 'Output token throughput (tok/s): 42'", "--bench", "exit 0")
    assert one.wait(60) == 0, one.communicate()
    run = told(place)
    assert run["ready"] is True
    assert [bench["rc"] for bench in run["benches"]] == [0, 0]
    assert run["env"]["VLLM_X"] == "1"
    assert not {"HF_TOKEN", "PATH"} & set(run["env"])
    assert "42" in (place / "run" / "bench_1.txt").read_text()
    assert not is_running(place)
    (kept,) = runs(place)
    assert (kept["engine"], kept["effect"], kept["failure"]) == ("vllm", "ok", None)


def test_a_server_that_dies_is_a_run_too(place: Path) -> None:
    one = started(place, "--bench", "touch measured", server=("--die",))
    assert one.wait(60) == 1
    assert "kbctl diagnose" in one.communicate()[1]
    assert told(place)["ready"] is False
    assert "benches" not in told(place)
    assert not (place / "run" / "measured").exists()
    (kept,) = runs(place)
    assert (kept["effect"], kept["blame"]) == ("oom", "backend")


def test_one_that_is_never_ready_is_stopped_and_said_to_be(place: Path) -> None:
    one = started(place, "--ready-s", "2", server=("--hang",))
    assert one.wait(60) == 1
    assert told(place)["timed_out"] is True
    assert "not ready within 2 s" in told(place)["stopped_by"]
    assert not is_running(place)
    assert len(runs(place)) == 1


def test_an_interrupt_stops_the_server(place: Path) -> None:
    one = started(place, "--bench", "sleep 600")
    log = place / "run" / "bench_1.txt"
    end = time.monotonic() + 30
    while not log.exists() and time.monotonic() < end:
        time.sleep(0.1)
    one.send_signal(signal.SIGINT)
    assert one.wait(60) != 0
    assert not is_running(place)
    assert "interrupted" in told(place)["stopped_by"]
    assert "Traceback" not in one.communicate()[1]


def test_a_command_that_is_none_and_a_folder_in_use_are_told(place: Path) -> None:
    (place / "run").mkdir()
    (place / "run" / "old.log").write_text("x")
    one = started(place)
    assert one.wait(60) == 2
    assert "not empty" in one.communicate()[1]
    assert (place / "run" / "old.log").read_text() == "x"
