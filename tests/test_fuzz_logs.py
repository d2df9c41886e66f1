"""Log parsers on broken input: cut, spliced and mangled samples never raise, and end in good time."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.formats import Format, all_formats
from ingest.redact import redact_reading
from ingest.sources import Source
from kb.wire import reading_from_wire, reading_to_wire

SAMPLES = Path(__file__).parent / "formats"
FORMATS = [
    one
    for one in all_formats()
    if one.name.endswith("_server_log") or one.name in ("kernel_log", "error_log")
]
RAW = [path.read_bytes()[:20_000] for path in sorted(SAMPLES.glob("*_log/*.log"))]
PIECES = (b"\0", b"\xff\xfe", b"\r", b"\n", b"{" * 200, b"(" * 200, b'"', b"'", b"\x1b[", b"9" * 400, b"nan")


@st.composite
def mangled(draw: st.DrawFn) -> bytes:
    data = draw(st.sampled_from(RAW))
    for _ in range(draw(st.integers(1, 5))):
        at, length = draw(st.integers(0, len(data))), draw(st.integers(0, 2000))
        other = draw(st.sampled_from(RAW))
        piece = draw(
            st.one_of(st.sampled_from(PIECES), st.binary(max_size=40), st.just(other[at : at + 500]))
        )
        data = data[:at] + piece + data[at + length :]
    return data


@pytest.mark.parametrize("form", FORMATS, ids=lambda one: one.name)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.one_of(mangled(), st.binary(max_size=3000)))
def test_broken_logs_are_read_as_far_as_they_go(form: Format, data: bytes) -> None:
    source = Source(Path("server.log"), data)
    started = time.process_time()
    assert 0.0 <= form.sniff(source) <= 1.0
    reading = redact_reading(form.read(source))
    assert time.process_time() - started < 5
    wire = reading_to_wire(reading)
    json.dumps(wire, default=str)
    assert reading_to_wire(reading_from_wire(wire)) == wire


@pytest.mark.parametrize("form", FORMATS, ids=lambda one: one.name)
@pytest.mark.parametrize(
    "data",
    [
        b"x" * 3_000_000,
        b"Loading: 10%|##\r" * 200_000,
        b"[2026-03-01 12:00:00] server_args=ServerArgs(model_path=" + b"[" * 50_000,
        b"(EngineCore pid=1) ERROR 11-30 03:52:00 [core.py:1] Traceback (most recent call last):\n" * 5_000,
        b"\x1b[" * 500_000,
        b"\0" * 3_000_000,
    ],
    ids=["long", "frames", "nested", "tracebacks", "ansi", "zeros"],
)
def test_hostile_shapes_end_in_good_time(form: Format, data: bytes) -> None:
    started = time.process_time()
    form.read(Source(Path("server.log"), data))
    assert time.process_time() - started < 10
