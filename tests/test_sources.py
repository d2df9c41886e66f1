"""Sources: one way to open files, archives, pipes, and any wrapping around a line."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest
import zstandard

from ingest.sources import Source, find_sources
from kb.errors import KbctlError

PLAIN = "first line\n[2026-03-01 12:00:00 TP0] Load weight begin. avail mem=1.00 GB\nlast"


def texts(source: Source) -> list[str]:
    return [text for _, text in source.lines()]


def wrapped(template: str) -> list[str]:
    lines = [template.replace("@", str(n % 10)).replace("%", f"message {n}") for n in range(12)]
    return texts(Source(Path("x.log"), "\n".join(lines).encode()))


@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, zstandard.ZstdCompressor().compress, bz2.compress, lzma.compress]
)
def test_compression_is_seen_through(pack) -> None:
    assert texts(Source(Path("x"), pack(PLAIN.encode()))) == PLAIN.split("\n")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings(encoding: str) -> None:
    source = Source(Path("x"), PLAIN.encode(encoding))
    assert texts(source) == PLAIN.split("\n")
    assert source.head.split("\n") == PLAIN.split("\n")


@pytest.mark.parametrize(
    "template",
    [
        "2026-03-01T12:34:5@.789012345Z %",
        '{"log":"%\\n","stream":"stdout","time":"2026-03-01T12:34:5@.7Z"}',
        "sglang-1  | %",
        "sglang-1  | 2026-03-01T12:34:5@.789012345Z %",
        "2026-03-01T12:34:5@.789012345+00:00 stdout F %",
        "[pod/llm-0/server] 2026-03-01T12:34:5@Z %",
        "Mar 01 12:34:5@ host unit[1234]: %",
        "mar 15 11:39:0@ host ollama[87551]: %",
        "2025-05-30 18:28:2@.890 | %",
        "2025-03-05 09:00:4@ %",
        "2026-03-01T12:34:5@+0000 host unit[1234]: %",
        "177236849@.789012 host unit[1234]: %",
        '{"__REALTIME_TIMESTAMP":"177236849@789012","MESSAGE":"%","_PID":"1"}',
        "@: %",
        "[1,@]<stdout>:%",
        "logs/run-4b.o123:%",
        "run_tp2.log:17@:%",
        "(RayWorkerWrapper pid=123@, ip=10.0.0.2) %",
        "2026-03-01T12:34:5@.7890123Z %",
        "\x1b[36mserver-1  | \x1b[0m%",
    ],
)
def test_outer_prefixes_fall_away(template: str) -> None:
    assert wrapped(template) == [f"message {n}" for n in range(12)]


def test_engine_prefixes_stay() -> None:
    line = "2025-04-14T15:52:02.780106Z  INFO text_generation_launcher: Args {"
    assert wrapped(line)[0] == line
    own = "2026-01-10 10:00:00,001 - lmdeploy - INFO - async_engine.py:260 - %"
    assert wrapped(own)[0].startswith("2026-01-10 10:00:00,001 - lmdeploy")
    vllm = "2026-03-01T12:34:56.789Z INFO 11-18 11:22:41 model_runner.py:1060] %"
    assert wrapped(vllm)[0].startswith("INFO 11-18")
    assert wrapped("(EngineCore pid=979) INFO 11-30 03:35:24 [core.py:109] %")[0].startswith(
        "(EngineCore pid=979)"
    )


def test_split_container_lines_are_joined() -> None:
    rows = [{"log": f"line {n}\n"} for n in range(5)] + [{"log": "half "}, {"log": "whole\n"}]
    got = list(Source(Path("x"), "\n".join(map(json.dumps, rows)).encode()).lines())
    assert got[-1] == (6, "half whole")


def test_progress_frames_keep_the_last_and_what_was_glued_in() -> None:
    raw = b"a: 10%|#\ra: 20%|##\ra: 30%|### [2026-03-01 12:00:00] Load\ra: 100%|#####\nnext\r\n"
    got = list(Source(Path("x"), raw).lines())
    assert [n for n, _ in got] == [1, 1, 2]
    assert got[0][1].endswith("Load")
    assert got[1][1] == "a: 100%|#####"
    assert got[2][1] == "next"


def test_line_numbers_are_those_of_an_editor_across_chunks() -> None:
    count = 400_000
    source = Source(Path("x"), b"".join(b"line %d\n" % n for n in range(1, count + 1)))
    last = None
    for number, text in source.lines():
        last = (number, text)
    assert last == (count, f"line {count}")


def test_an_endless_line_is_cut_not_kept() -> None:
    source = Source(Path("x"), b"x" * 9_000_000 + b"\nshort\n")
    chunks = [lines for _, lines in source.chunks(limit=1000)]
    assert chunks[0][0] == b"x" * 1000
    assert chunks[0][1] == b"short"


def test_damage_is_told_and_what_stood_before_is_read() -> None:
    whole = gzip.compress(b"".join(b"line %d\n" % n for n in range(50_000)))
    source = Source(Path("x.gz"), whole[: len(whole) // 2])
    assert source.head.startswith("line 0\nline 1\n")
    assert len(texts(source)) >= 0
    assert source.trouble is not None


def test_archives_are_folders(tmp_path: Path) -> None:
    content = {"run1/server.log": b"one\n", "run2/b/server.log.gz": gzip.compress(b"two\n")}
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    for suffix, mode in ((".tar", "w"), (".tar.gz", "w:gz"), (".tar.xz", "w:xz")):
        with tarfile.open(tmp_path / f"a{suffix}", mode) as tar:
            for name, data in content.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
    for suffix in (".zip", ".tar", ".tar.gz", ".tar.xz"):
        archive_path = tmp_path / f"a{suffix}"
        found = list(find_sources([archive_path]))
        assert [str(one.path.relative_to(archive_path)) for one in found] == sorted(content)
        assert [texts(one) for one in found] == [["one"], ["two"]]


def test_folders_globs_and_missing_paths(tmp_path: Path) -> None:
    for name in ("a.log", "b.log", ".git/config"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n")
    assert [one.name for one in find_sources([tmp_path])] == ["a.log", "b.log"]
    assert [one.name for one in find_sources([tmp_path / "*.log"])] == ["a.log", "b.log"]
    with pytest.raises(KbctlError, match="no such file"):
        list(find_sources([tmp_path / "none.log"]))
    with pytest.raises(KbctlError, match="no file matches"):
        list(find_sources([tmp_path / "*.none"]))
