"""A server run from start to stop, with everything that ``ingest`` can read of it kept in one folder.

Owns the processes, their files and their time limits. Must not judge what happened: it writes down what was
run and how it ended, and the folder is then read like any other.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, NamedTuple

from kb.errors import KbctlError

Json = dict[str, Any]
READY_PATHS = ("/v1/models", "/health")
POLL_S = 1.0
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
STOP_S = 60.0
TRACED = (
    "timestamp,index,name,utilization.gpu,power.draw,power.limit,clocks.sm,clocks.max.sm,"
    "memory.used,memory.total,temperature.gpu"
)
# Of the environment only what engines and their libraries read: the rest is private and decides nothing.
KEPT_VARIABLES = (
    "CUDA_", "NCCL_", "SGLANG_", "SGL_", "VLLM_", "TRTLLM_", "TLLM_", "FLASHINFER_", "TORCH_", "TRITON_",
    "PYTORCH_", "HIP_", "ROCR_", "HSA_", "GGML_", "LLAMA_", "OMP_", "DG_", "NVSHMEM_",
)  # fmt: skip


class Limits(NamedTuple):
    """Seconds until the server must be ready, and seconds for each benchmark."""

    ready_s: float = 3600.0
    bench_s: float = 3600.0


def record(
    command: Sequence[str],
    benches: Sequence[str],
    folder: Path,
    limits: Limits,
    port: int,
    tell: Callable[[str], None],
) -> Json:
    """Run a server and benchmarks against it, and return what ``run.json`` in the folder then says.

    ``benches`` are shell commands. The server's whole process group is stopped at the end, whatever happens.
    Raises KbctlError where the command cannot be started.
    """
    told: Json = {
        "command": list(command),
        "env": _environment(),
        "start": _now(),
        "port": port,
        "ready": False,
    }
    before = time.monotonic()
    try:
        with _trace(folder / "nvidia-smi.csv"), _server(command, folder / "server.log", told) as server:
            tell(f"started, waiting for port {port} (log: {folder / 'server.log'})")
            if _wait_until_ready(server, port, limits.ready_s, told):
                told |= {
                    "ready": True,
                    "ready_at": _now(),
                    "ready_after_s": round(time.monotonic() - before, 1),
                }
                tell(f"ready after {told['ready_after_s']} s")
                told["benches"] = [
                    _bench(text, folder / f"bench_{number}.txt", limits.bench_s, tell)
                    for number, text in enumerate(benches, 1)
                ]
    finally:
        told |= {"end": _now(), "wall_s": round(time.monotonic() - before, 1)}
        (folder / "run.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return told


@contextlib.contextmanager
def _server(command: Sequence[str], log: Path, told: Json) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        server = _started(command, out)
        try:
            yield server
            if server.poll() is None:
                told["stopped_by"] = told.get("stopped_by") or "SIGTERM by kbctl record after the run"
        except KeyboardInterrupt:
            told["stopped_by"] = "SIGTERM by kbctl record: interrupted by the user"
            raise
        finally:
            told["exit_code"] = _stop(server)


def _started(command: Sequence[str], out: IO[bytes]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    try:
        return subprocess.Popen(  # noqa: S603 - the command that the user asks to run
            list(command),
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=environment,
        )
    except OSError as error:
        tip = "give the server's command after --, as you would type it"
        raise KbctlError(f"cannot start: {error.strerror}", where=command[0], tip=tip) from None


def _stop(server: subprocess.Popen[bytes]) -> int:
    """End the server's process group, politely first; its exit code (negative: a signal)."""
    for how, seconds in ((signal.SIGTERM, STOP_S), (signal.SIGKILL, STOP_S)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(server.pid, how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(seconds)
            break
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(server.pid, signal.SIGKILL)  # ranks that outlived their parent
    return int(server.wait())


def _wait_until_ready(server: subprocess.Popen[bytes], port: int, seconds: float, told: Json) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if server.poll() is not None:
            return False
        if _answers(port):
            return True
        time.sleep(POLL_S)
    told |= {"timed_out": True, "stopped_by": f"SIGTERM by kbctl record: not ready within {seconds:.0f} s"}
    return False


def _answers(port: int) -> bool:
    for path in READY_PATHS:
        url = f"http://127.0.0.1:{port}{path}"
        with contextlib.suppress(OSError, ValueError), _DIRECT.open(url, timeout=5) as answer:
            return bool(answer.status == 200)
    return False


def _bench(text: str, output: Path, seconds: float, tell: Callable[[str], None]) -> Json:
    tell(f"measuring: {text}")
    row: Json = {"command": text, "start": _now(), "timeout_s": seconds, "stdout": output.name}
    with output.open("wb") as out:
        client = subprocess.Popen(  # noqa: S602 - the user's own shell command
            text, shell=True, stdout=out, stderr=subprocess.STDOUT, cwd=output.parent, start_new_session=True
        )
        try:
            row["rc"] = client.wait(seconds)
        except subprocess.TimeoutExpired:
            row |= {"timed_out": True, "rc": _stop(client)}
        except KeyboardInterrupt:
            _stop(client)
            raise
    return {**row, "end": _now()}


@contextlib.contextmanager
def _trace(output: Path) -> Iterator[None]:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        yield
        return
    with output.open("wb") as out:
        words = [tool, f"--query-gpu={TRACED}", "--format=csv", "-l", "1"]
        tracer = subprocess.Popen(  # noqa: S603 - our own words
            words, stdout=out, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            yield
        finally:
            _stop(tracer)


def _environment() -> dict[str, str]:
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith(KEPT_VARIABLES)}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
