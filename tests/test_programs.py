"""Texts that quote logs without being one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.formats import recognise
from ingest.programs import is_program
from ingest.sources import Source

SCRIPT = """#!/usr/bin/env bash
until grep -q "INFO 01-01 00:00:00 [api_server.py:1] vLLM API server version" server.log; do sleep 1; done
echo "The server is fired up and ready to roll!"
"""
CODE = """import re
from pathlib import Path

def ready(log):
    return "The server is fired up and ready to roll!" in log and "server_args=ServerArgs(" in log
"""
PATCH = """--- a/x.py
+++ b/x.py
@@ -1 +1 @@
+    print("server_args=ServerArgs(model_path='m')")
"""
LOG = """[2026-01-01 00:00:00] server_args=ServerArgs(model_path='m', tp_size=1)
[2026-01-01 00:00:01] The server is fired up and ready to roll!
"""


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("wait.sh", SCRIPT, True),
        ("ready.py", CODE, True),
        ("fix.patch", PATCH, True),
        ("server.log", LOG, False),
    ],
)
def test_programs_are_told_from_logs(tmp_path: Path, name: str, text: str, expected: bool) -> None:
    path = tmp_path / name
    path.write_text(text)
    source = Source(path)
    assert is_program(source.head) is expected
    found, _ = recognise(source)
    assert (found is None or found.kind == "config") is expected
