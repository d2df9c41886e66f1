"""What fuzzing feeds on: parser families, the seeds of each, and what must hold for any bytes.

Owns the contract (no exception, bounded time, a reading that is JSON). Must not need atheris.
"""

from __future__ import annotations

import io
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ingest.formats import Format, Unreadable, all_formats, read_as, read_source
from ingest.redact import redact_reading
from ingest.sources import Source, find_sources
from kb.errors import KbctlError
from kb.wire import compact, reading_from_wire, reading_to_wire

SAMPLES = Path(__file__).resolve().parents[1] / "formats"
SECONDS_PER_MB = 5.0
LEAST_SECONDS = 5.0
_JSON = (".json", ".jsonl", ".ndjson")
_NAMES = {
    "logs": ("server.log", "dmesg.txt", "server.log.1"),
    "traces": ("gpu.csv", "smi.txt", "smi.xml", "gpu.jsonl", "metrics.prom"),
    "bench_json": ("result.json", "result.jsonl", "agg_b200.json"),
    "bench_text": ("bench.log", "bench.csv", "mlperf_log_summary.txt", "out.md"),
    "config": (
        "serve.sh",
        "compose.yaml",
        "config.json",
        "requirements.txt",
        ".env",
        "env.txt",
        "kbctl.toml",
    ),
    "notes": ("notes.md", "README.txt", "runner.log"),
    "probes": ("probe.json", "probe.jsonl", "metrics.txt"),
    "archives": ("run.zip", "run.tar.gz", "run.tar.zst", "run.log.gz", "run.tar", "run.csv.xz"),
}


@dataclass(slots=True)
class Family:
    """Formats that are fuzzed together, and the names under which bytes are given to them."""

    name: str
    formats: list[Format] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        """File names, since suffixes bear on recognition."""
        return _NAMES[self.name]

    def seeds(self) -> Iterator[bytes]:
        """The samples of its formats; of archives, small archives of them."""
        if self.name == "archives":
            yield from _archives()
            return
        for form in self.formats:
            for path in sorted((SAMPLES / form.name).glob("*")):
                if path.is_file() and ".expected." not in path.name:
                    yield path.read_bytes()[:60_000]

    def check(self, data: bytes) -> None:
        """Read bytes by every format of the family that takes them; raises where the contract breaks."""
        name, body = self.names[data[0] % len(self.names)] if data else self.names[0], data[1:]
        if self.name == "archives":
            check_archive(name, body)
            return
        check_bytes(name, body, self.formats)


def families() -> dict[str, Family]:
    """Every format, in its family."""
    found = {name: Family(name) for name in _NAMES}
    for form in all_formats():
        found[_family_of(form)].formats.append(form)
    return found


def _family_of(form: Format) -> str:
    if form.kind == "server_log" or form.name in ("kernel_log", "error_log", "fabric_manager_log"):
        return "logs"
    if form.kind == "benchmark":
        is_json = form.name.endswith(("json", "jsonl", "_records", "_report"))
        return "bench_json" if is_json else "bench_text"
    known = {"trace": "traces", "config": "config", "note": "notes", "probe": "probes", "metrics": "probes"}
    return known.get(form.kind, "probes")


def check_bytes(name: str, body: bytes, formats: list[Format]) -> None:
    """The contract for every format that recognises the bytes, and for reading as ``parse`` does it."""
    limit = max(LEAST_SECONDS, SECONDS_PER_MB * len(body) / 1e6)
    for form in formats:
        source = Source(Path(name), body)
        started = time.process_time()
        sure = form.sniff(source)
        assert 0.0 <= sure <= 1.0, (form.name, sure)
        if sure > 0:
            _read(form, source)
        spent = time.process_time() - started
        assert spent < limit, (form.name, f"{spent:.1f} s for {len(body)} bytes")
    reading = read_source(Source(Path(name), body))
    assert not any("a defect of kbctl" in one.what for one in reading.problems), reading.problems


def _read(form: Format, source: Source) -> None:
    try:
        reading = read_as(form, source)
    except (Unreadable, KbctlError):
        return
    wire = reading_to_wire(redact_reading(reading))
    again = json.loads(compact(wire))
    assert reading_to_wire(reading_from_wire(again)) == again, form.name


def check_archive(name: str, body: bytes) -> None:
    """Damaged archives and compressed files give what can be read and say what cannot."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(body)
        started = time.process_time()
        try:
            for number, source in enumerate(find_sources([path])):
                read_source(source)
                if number > 50:
                    break
        except KbctlError:
            return
        assert time.process_time() - started < max(LEAST_SECONDS, SECONDS_PER_MB * len(body) / 1e6)


def _archives() -> Iterator[bytes]:
    import gzip
    import lzma
    import tarfile
    import zipfile

    members = [path for path in sorted(SAMPLES.glob("*/*")) if 0 < path.stat().st_size < 3000][::9][:8]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for one in members:
            archive.write(one, one.name)
    yield packed.getvalue()
    for mode in ("w:gz", "w:xz", "w:"):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode=mode) as tar:
            for one in members:
                tar.add(one, one.name)
        yield packed.getvalue()
    for one in members[:3]:
        yield gzip.compress(one.read_bytes())
        yield lzma.compress(one.read_bytes())
