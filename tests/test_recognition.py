"""Recognition: one format's fault is neither another's nor the file's."""

from __future__ import annotations

from pathlib import Path

import pytest

import ingest.formats
from ingest.formats import Format, Unreadable, read_source, recognise
from ingest.sources import Source
from kb.model import Reading


def _source(tmp_path: Path, text: str = "MARK and a secret-looking line\n") -> Source:
    path = tmp_path / "some.log"
    path.write_text(text, encoding="utf-8")
    return Source(path)


def _good(source: Source) -> Reading:
    return Reading(path=str(source.path), format="good", kind="config")


def _broken(_: Source) -> Reading:
    raise ValueError("MARK and a secret-looking line")


def _refusing(_: Source) -> Reading:
    raise Unreadable("cut off")


def _formats(monkeypatch: pytest.MonkeyPatch, *formats: Format) -> None:
    monkeypatch.setattr(ingest.formats, "all_formats", lambda: formats)


def _format(name: str, sure: float, read: object = _good) -> Format:
    return Format(name=name, kind="config", sniff=lambda _: sure, read=read)  # type: ignore[arg-type]


def _bad_sniff(_: Source) -> float:
    raise IndexError("list index out of range")


def test_a_sniffer_that_raises_does_not_hide_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = Format(name="bad", kind="config", sniff=_bad_sniff, read=_good)
    _formats(monkeypatch, bad, _format("good", 0.9))
    found, sure = recognise(_source(tmp_path))
    assert (found and found.name, sure) == ("good", 0.9)
    assert read_source(_source(tmp_path)).format == "good"


def test_a_parser_that_raises_is_a_refusal_with_the_place_and_no_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _formats(monkeypatch, _format("broken", 0.9, _broken))
    reading = read_source(_source(tmp_path))
    assert (reading.format, reading.status) == ("broken", "refused")
    what = reading.problems[0].what
    assert "ValueError at test_recognition.py:" in what
    assert "secret" not in what
    assert "\n" not in what


def test_after_a_fault_the_next_sure_format_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _formats(monkeypatch, _format("broken", 0.95, _broken), _format("good", 0.85))
    assert read_source(_source(tmp_path)).format == "good"


def test_an_unsure_format_does_not_take_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _formats(monkeypatch, _format("refusing", 0.9, _refusing), _format("good", 0.5))
    reading = read_source(_source(tmp_path))
    assert (reading.format, reading.status, reading.problems[0].what) == ("refusing", "refused", "cut off")
