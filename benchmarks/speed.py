"""CPU seconds of whole processes that read the same large inputs: ``make bench``.

    python benchmarks/speed.py [sglang vllm …] [--mb 300] [--files 1000] [--runs 1] [--folder PLACE] [--keep]

Every command runs alone on one core, so that nothing hides in other threads or processes; what counts is
user plus system time of the process and its children, start-up included, and the largest resident memory.
Tools that are not installed are left out: ripgrep and lnav from the distribution, Drain3 with
``--drain-python``, an interpreter that has it.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from make_inputs import make

from kb.symptoms import table

INPUTS = ("sglang", "vllm", "trace", "json", "small")
SLOW_MB = 20
LOAD = (
    "import duckdb, sys; c = duckdb.connect(*sys.argv[2:]); c.execute('SET threads = 1'); "
    'c.execute("CREATE TABLE t AS FROM read_csv(\'" + sys.argv[1] + "\')")'
)
HASH = "import hashlib, sys; from blake3 import blake3; hashlib.file_digest(open(sys.argv[1], 'rb'), blake3)"
JSON = "import json, sys; json.loads(open(sys.argv[1], 'rb').read())"
DRAIN = (
    "import sys; from drain3 import TemplateMiner; m = TemplateMiner(); "
    "[m.add_log_message(line.rstrip()) for line in open(sys.argv[1], encoding='utf-8', errors='replace')]"
)


@dataclass(frozen=True)
class Cost:
    """What one command took. ``cpu`` in seconds, ``memory`` in MiB."""

    cpu: float
    memory: float
    status: int


@dataclass(frozen=True)
class Case:
    """One command on one input of ``size`` bytes in ``files`` files."""

    who: str
    what: str
    command: Sequence[str]
    size: int
    files: int = 1


def cost(command: Sequence[str]) -> Cost:
    """Run a command on one core and count it with its children. Output is thrown away."""
    child = os.fork()
    if child == 0:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        sink = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(sink, stream)
        try:
            os.execvp(command[0], list(command))
        finally:
            os._exit(127)
    _, status, used = os.wait4(child, 0)
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, os.waitstatus_to_exitcode(status))


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files under a folder."""
    return sum(one.stat().st_size for one in path.rglob("*")) if path.is_dir() else path.stat().st_size


def cut(path: Path, megabytes: int) -> Path:
    """The beginning of a file, for tools that would take many minutes for the whole."""
    part = path.with_name(f"part-{path.name}")
    with path.open("rb") as whole, part.open("wb") as out:
        out.write(whole.read(megabytes << 20))
    return part


def literals(folder: Path) -> Path:
    """The fixed texts of the symptom table, one a line."""
    texts = {pattern.literal for row in table().rows for pattern in row.patterns}
    path = folder / "signatures.txt"
    path.write_text("\n".join(sorted(one for one in texts if len(one) > 3)) + "\n", "utf-8")
    return path


def cases(what: str, path: Path, folder: Path, drain: str) -> Iterator[Case]:
    """kbctl on one input, and what others need for the same bytes."""
    size, kbctl = size_of(path), str(Path(sys.executable).with_name("kbctl"))
    if what == "small":
        files = sum(1 for one in path.rglob("*") if one.is_file())
        yield Case("kbctl parse", what, [kbctl, "parse", "--json", str(path)], size, files)
        store = str(folder / "small.duckdb")
        yield Case(
            "kbctl ingest", what, [kbctl, "ingest", "--quiet", "--store", store, str(path)], size, files
        )
        return
    yield Case("kbctl parse", what, [kbctl, "parse", "--json", str(path)], size)
    if what in ("sglang", "vllm"):
        yield from beside_log(what, path, folder, drain)
    elif what == "trace":
        yield from beside_trace(what, path, folder, kbctl)
    elif what == "json":
        yield Case("Python's json.loads", what, [sys.executable, "-c", JSON, str(path)], size)


def beside_log(what: str, path: Path, folder: Path, drain: str) -> Iterator[Case]:
    """The scanning limit, and what a user would pick."""
    if shutil.which("rg"):
        command = ["rg", "--count", "--fixed-strings", "--file", str(literals(folder)), str(path)]
        yield Case("ripgrep, same signatures", what, command, size_of(path))
    if shutil.which("lnav"):
        part = cut(path, SLOW_MB)
        command = ["lnav", "-n", "-c", ":filter-in (?i)error|exception|out of memory", str(part)]
        yield Case(f"lnav, errors (first {SLOW_MB} MB)", what, command, size_of(part))
    if drain:
        part = cut(path, SLOW_MB)
        yield Case(f"Drain3 (first {SLOW_MB} MB)", what, [drain, "-c", DRAIN, str(part)], size_of(part))


def beside_trace(what: str, path: Path, folder: Path, kbctl: str) -> Iterator[Case]:
    """The same into a store, and what DuckDB needs for the text alone, in memory and in a file."""
    size, python = size_of(path), sys.executable
    store = [kbctl, "ingest", "--quiet", "--store", str(folder / "trace.duckdb"), str(path)]
    yield Case("kbctl ingest, every sample stored", what, store, size)
    yield Case("DuckDB, text table in memory", what, [python, "-c", LOAD, str(path)], size)
    kept = [python, "-c", LOAD, str(path), str(folder / "text.duckdb")]
    yield Case("DuckDB, text table in a file", what, kept, size)
    yield Case("BLAKE3 of the file alone", what, [python, "-c", HASH, str(path)], size)


def best(case: Case, folder: Path, runs: int) -> Cost:
    """The cheapest of some runs, each without what an earlier one left."""
    costs = []
    for _ in range(runs):
        for left in folder.glob("*.duckdb*"):
            left.unlink()
        costs.append(cost(case.command))
    return min(costs, key=lambda one: (one.status != 0, one.cpu))


def row(case: Case, used: Cost) -> str:
    """One row of the table."""
    rate = f"{case.size / 1e6 / used.cpu:.0f} MB/s"
    rate = f"{case.files / used.cpu:.0f} files/s" if case.files > 1 else rate
    failed = f" (exit {used.status})" if used.status else ""
    size = f"{case.files} files" if case.files > 1 else f"{case.size / 1e6:.0f} MB"
    return f"| {case.what} | {size} | {case.who}{failed} | {used.cpu:.2f} | {rate} | {used.memory:.0f} |"


def machine() -> str:
    """Processor, system and versions, for the table's caption."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").splitlines() if info.exists() else []
    name = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")
    duckdb = subprocess.run(
        [sys.executable, "-c", "import duckdb; print(duckdb.__version__)"],
        capture_output=True,
        text=True,
        check=False,
    )
    return (
        f"{name or platform.processor() or platform.machine()}, {platform.system()}, Python "
        f"{platform.python_version()}, DuckDB {duckdb.stdout.strip()}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", default=list(INPUTS))
    parser.add_argument("--mb", type=int, default=300)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=1, help="of each command; the cheapest is told")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--drain-python", default="")
    asked = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # Its own folder inside the one asked for: what it deletes afterwards is only what it wrote.
    folder = Path(tempfile.mkdtemp(prefix="kbctl-bench-", dir=asked.folder))
    os.environ.setdefault("PYTHONPYCACHEPREFIX", str(folder / "bytecode"))
    # Bytecode is there after any first run.
    cost([str(Path(sys.executable).with_name("kbctl")), "parse", __file__])
    print(machine() + "\n")
    print(
        "| input | size | who | CPU s | rate per CPU-second | peak MiB |\n"
        "| --- | --- | --- | --- | --- | --- |"
    )
    try:
        for what in asked.what:
            path = make(folder, what, asked.mb, asked.files)
            for case in cases(what, path, folder, asked.drain_python):
                print(row(case, best(case, folder, asked.runs)), flush=True)
            if not asked.keep and path.is_file():
                path.unlink()
    finally:
        if not asked.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
