"""Compiled records: cached, replaced whole, overlaid by private folders, and done without a cache."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_records import GOOD, write

from kb import knowledge
from kb.compiled import compiled
from kb.errors import KbctlError
from kb.records import Record, read_folder
from recommend.match import match
from recommend.query import Asked, ask


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KBCTL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "records").mkdir()
    write(tmp_path / "records", GOOD)
    return tmp_path / "records"


def ids(loaded: knowledge.Knowledge) -> set[str]:
    return {record["id"] for record in loaded.records}


def test_what_ships_is_found_and_sound() -> None:
    loaded = knowledge.load()
    assert loaded.problems == ()
    assert len(loaded.records) > 30


def test_a_private_folder_wins_an_id(folder: Path) -> None:
    write(folder, GOOD.replace("TRT-LLM-gen MoE kernels have", "Our own finding:"), "sm120-moe-trtllm-gen")
    found = {record["id"]: record for record in knowledge.load([folder]).records}
    assert found["sm120-moe-trtllm-gen"]["title"].startswith("Our own finding")
    assert not found["sm120-moe-trtllm-gen"]["shipped"]


def test_a_second_load_needs_neither_pydantic_nor_markdown(folder: Path, own_cache: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from kb import knowledge; "
        f"print(len(knowledge.load([Path({str(folder)!r})]).records)); "
        "print(sorted({'pydantic', 'markdown_it'} & set(sys.modules)))"
    )

    def run() -> list[str]:
        environment = {**os.environ, "KBCTL_CACHE": str(own_cache)}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    first, second = run(), run()
    assert first[0] == second[0]
    assert first[1] == "['markdown_it', 'pydantic']"
    assert second[1] == "[]"


def test_a_changed_or_new_or_removed_file_is_seen(folder: Path) -> None:
    before = knowledge.load([folder])
    write(folder, GOOD, "another-one")
    after = knowledge.load([folder])
    assert ids(after) - ids(before) == {"another-one"}
    assert before.stamp != after.stamp
    (folder / "another-one.md").unlink()
    assert ids(knowledge.load([folder])) == ids(before)


@pytest.mark.parametrize("rubbish", [b"", b"{", b"[]", b'{"stamp": 1}', b"\xff\xfe"])
def test_a_broken_cache_is_rebuilt(folder: Path, own_cache: Path, rubbish: bytes) -> None:
    before = ids(knowledge.load([folder]))
    for path in own_cache.iterdir():
        path.write_bytes(rubbish)
    assert ids(knowledge.load([folder])) == before
    heads = [json.loads(path.read_bytes().partition(b"\n")[0]) for path in own_cache.iterdir()]
    assert {head["form"] for head in heads} == {knowledge.FORM}


def test_a_line_missing_from_the_cache_is_rebuilt(folder: Path, own_cache: Path) -> None:
    before = ids(knowledge.load([folder]))
    for path in own_cache.iterdir():
        path.write_bytes(path.read_bytes().rpartition(b"\n")[0])
    assert ids(knowledge.load([folder])) == before


def test_for_one_architecture_only_what_could_speak_of_it_is_read(folder: Path) -> None:
    every = knowledge.load([folder])
    for _ in range(2):  # compiled just now, then from the cache
        some = knowledge.load([folder], "sm120")
        assert some.stamp == every.stamp
        assert len(some.records) < len(every.records)
        left_out = ids(every) - ids(some)
        query = ask(Asked(gpu="sm120", engine="sglang", quantization="nvfp4"))
        told = {one["id"] for one in every.records if match(one, query) is not None}
        assert told
        assert not left_out & told
        query = ask(Asked(gpu="sm120", model="glm5-nvfp4", engine="sglang"))
        fewer = knowledge.load([folder], "sm120", query.model.family)
        assert len(fewer.records) < len(some.records)
        told = {one["id"] for one in every.records if match(one, query) is not None}
        assert told
        assert told <= ids(fewer)
    # A private record takes the place of a shipped one even where it speaks of another architecture.
    write(folder, GOOD.replace('"sm120"', '"gfx942"'), "sm120-moe-trtllm-gen")
    assert "sm120-moe-trtllm-gen" not in ids(knowledge.load([folder], "sm120"))


def test_a_name_finds_the_records_that_hold_it_and_parses_no_others(folder: Path) -> None:
    every = knowledge.load([folder]).records
    for name in ("SM120-moe-TRTLLM-gen", "flashinfer#2045", "no-kernels-for-arch", 'a "quote"\\'):
        told = {one["id"] for one in every if name.lower() in json.dumps(one, ensure_ascii=False).lower()}
        found = knowledge.naming(name, [folder])
        assert told <= ids(found)
        assert len(found.records) < len(every)
        assert all(one in every for one in found.records)


def test_a_private_record_is_named_instead_of_the_shipped_one(folder: Path) -> None:
    write(folder, GOOD.replace("flashinfer#2045", "ours#1"), "sm120-moe-trtllm-gen")
    assert "sm120-moe-trtllm-gen" not in ids(knowledge.naming("flashinfer#2045", [folder]))
    assert "sm120-moe-trtllm-gen" in ids(knowledge.naming("ours#1", [folder]))


def test_an_unwritable_cache_is_done_without(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocker = tmp_path / "a-file"
    blocker.write_text("not a folder")
    monkeypatch.setenv("KBCTL_CACHE", str(blocker / "below"))
    assert "sm120-moe-trtllm-gen" in ids(knowledge.load([folder]))


def test_a_broken_private_record_is_told_and_the_others_stay(folder: Path) -> None:
    write(folder, GOOD.replace('effect = "crash"', 'effect = "explodes"'), "broken")
    loaded = knowledge.load([folder])
    assert "sm120-moe-trtllm-gen" in ids(loaded)
    assert "broken.md" in loaded.problems[0]


def test_a_missing_private_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KbctlError, match="no such folder"):
        knowledge.load([tmp_path / "nowhere"])


def test_records_are_found_inside_an_installed_package(tmp_path: Path, own_cache: Path) -> None:
    site = tmp_path / "site"
    package = Path(knowledge.__file__).parent
    shutil.copytree(package, site / "kb", ignore=shutil.ignore_patterns("__pycache__", "catalogs", "store"))
    (site / "kb" / "_records").mkdir()
    write(site / "kb" / "_records", GOOD, "only-one")
    program = "from kb import knowledge; print([one['id'] for one in knowledge.load().records])"
    environment = {**os.environ, "KBCTL_CACHE": str(own_cache), "PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "['only-one']"


def test_what_is_compiled_does_not_depend_on_prose_and_examples(folder: Path) -> None:
    late = '[[example]]\nexpect = "match"\ncheck = "--gpu sm120"\n\n[[instead]]\nroles = { moe = "triton" }\n'
    text = (folder / next(folder.glob("*.md")).name).read_text(encoding="utf-8")
    write(folder, text.replace("\n```\n", f"\n{late}```\n", 1), "tables-after-examples")
    for place in (folder, knowledge.shipped_folder()):
        records = [one for one in read_folder(place) if isinstance(one, Record)]
        whole = [compiled(record, shipped=True) for record in records]
        assert knowledge.compile_folder(place, shipped=True)["records"] == whole
    (found,) = [one for one in knowledge.load([folder]).records if one["id"] == "tables-after-examples"]
    assert {"roles": {"moe": "triton"}} in found["instead"]


def test_a_family_is_found_by_its_own_name_also_where_that_name_reads_as_a_wider_one(folder: Path) -> None:
    narrow = GOOD.replace('mirror = ["sm121"]', 'mirror = ["sm121"]\nmodel = { family = ["gemma-2"] }')
    write(folder, narrow, "a-narrow-family")
    (record,) = [one for one in knowledge.load([folder]).records if one["id"] == "a-narrow-family"]
    told = {
        model: match(record, ask(Asked(gpu="sm120", model=model, roles=["moe=trtllm-gen"]))) is not None
        for model in ("google/gemma-2-9b-it", "google/gemma-3-27b-it")
    }
    assert told == {"google/gemma-2-9b-it": True, "google/gemma-3-27b-it": False}
