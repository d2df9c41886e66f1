"""JSON as tools leave it: cut, appended, doubled, not a number, in other encodings."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.bench import jsontext
from ingest.bench.jsontext import close_cut, keys_in, load, looks_like_json, outer_keys
from ingest.formats import Unreadable
from ingest.sources import Source


def source(text: str | bytes) -> Source:
    data = text if isinstance(text, bytes) else text.encode()
    return Source(Path("x.json"), raw=data)


def test_lines_and_concatenated_documents_are_all_read_with_their_lines() -> None:
    found = load(source('{"a": 1}\n{"a": 2}{"a": 3}\n[{"a": 4}]\n'))
    assert [(line, one["a"]) for line, one in found.objects()] == [(1, 1), (2, 2), (2, 3), (3, 4)]
    assert found.problems == []


def test_cut_document_is_read_up_to_the_cut_and_said() -> None:
    found = load(source('{"a": 1, "b": [1, 2, 3'))
    assert found.first == {"a": 1, "b": [1, 2]}
    assert "breaks off" in found.problems[0].what


def test_broken_line_among_good_ones_is_left_out_and_said() -> None:
    found = load(source('{"a": 1}\n{"a": 2, oops}\n{"a": 3}\n'))
    assert [one["a"] for _, one in found.objects()] == [1, 3]
    assert found.problems[0].line == 2


def test_duplicate_keys_and_nan_are_said() -> None:
    found = load(source('{"a": 1, "a": 2, "b": NaN}'))
    assert found.first == {"a": 2, "b": None}
    assert len(found.problems) == 2


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_other_encodings(encoding: str) -> None:
    assert load(source('{"a": "ä"}\r\n'.encode(encoding))).first == {"a": "ä"}


@pytest.mark.parametrize("text", ["", "no json", "{", "[", "[" * 200_000])
def test_nothing_to_read_is_unreadable_not_an_exception(text: str) -> None:
    with pytest.raises(Unreadable):
        load(source(text))


def test_cut_text_is_closed() -> None:
    assert close_cut('{"a": {"b": "x", "c": "y') == '{"a": {"b": "x"}}'
    assert close_cut('{"a": 1, "b": "cut, {inside') == '{"a": 1}'
    assert close_cut('{"a') == "{}"


def test_keys_by_depth() -> None:
    text = '{"outer": {"inner": 1}, "list": [{"deep": 2}]}'
    assert keys_in(text) == {"outer", "inner", "list", "deep"}
    assert outer_keys(text) == {"outer", "list"}
    assert outer_keys('[{"a": 1}, {"b": {"c": 2}}]') == {"a", "b"}


def test_log_lines_in_brackets_are_no_json() -> None:
    assert not looks_like_json("[11:45:32] start")
    assert looks_like_json(' [ {"a": 1}]')


@pytest.mark.parametrize("step", [701, 4096, 5000, 7001, 10_000_000])
def test_long_arrays_of_a_big_file_are_cut_to_their_brackets(
    monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    flat = ", ".join(["0.5"] * 30_000)
    long = ", ".join("[" + ", ".join(["0.0123"] * 2000) + "]" for _ in range(9))
    text = f'{{"a": 1, "itls": [{long}], "b": {{"c": [1, 2]}}, "flat": [{flat}], "d": "x"}}'.encode()
    monkeypatch.setattr(jsontext, "_BIG_BYTES", 1000)
    monkeypatch.setattr(
        Source, "blocks", lambda self: (text[i : i + step] for i in range(0, len(text), step))
    )
    found = load(source(text))
    assert found.problems == []
    assert {key: found.first[key] for key in ("a", "b", "d")} == {"a": 1, "b": {"c": [1, 2]}, "d": "x"}
    assert len(found.first["itls"]) == 9
