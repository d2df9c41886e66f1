"""The records that ship: sound, answered as their examples say, and each condition of them tested."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from test_match import MAINTAINER, TRTLLM, WORKS
from test_match import record as plain_record

from kb import catalogue
from kb.cli import main
from kb.cli.check import question
from kb.compiled import compiled
from kb.knowledge import shipped_folder
from kb.records import Record, read_folder
from recommend import compatibility
from recommend.query import Query, ask
from recommend.requirements import unmet
from recommend.trial import answer, mutants


@cache
def shipped() -> tuple[Record, ...]:
    return tuple(one for one in read_folder(shipped_folder()) if isinstance(one, Record))


@cache
def asked(check: str) -> Query:
    return ask(question(check))


def wrong(plain: dict[str, Any], record: Record) -> list[str]:
    """Examples that a compiled record answers otherwise than expected."""
    examples = record.content.example
    return [one.check for one in examples if answer(plain, asked(one.check)) != one.expect]


@pytest.mark.parametrize("command", ["lint", "test"])
def test_lint_and_examples_pass(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["records", command])
    told = capsys.readouterr()
    assert exit_.value.code == 0, told.out


def test_there_are_enough_and_changes_are_dated() -> None:
    counts = catalogue.counted(shipped())
    assert counts["records"] >= 150
    assert counts["good"] >= 30
    assert counts["disputed"] >= 5
    assert counts["dated_share"] >= 0.6


def test_what_is_known_to_work_lacks_no_code() -> None:
    good = [one for one in shipped() if all(outcome.effect == "ok" for outcome in one.content.outcome)]
    checks = [one.check for record in good for one in record.content.example if one.expect == "match"]
    told = {check: [found.title for found in unmet(asked(check), ())] for check in checks}
    assert len(checks) > 100
    assert {check: titles for check, titles in told.items() if titles} == {}


def test_flipping_any_condition_fails_an_example() -> None:
    survivors, total = [], 0
    for record in shipped():
        for what, mutant in mutants(compiled(record, shipped=True)):
            total += 1
            if not wrong(mutant, record):
                survivors.append(f"{record.id}: {what}")
    assert len(survivors) <= 0.05 * total, f"{len(survivors)} of {total} survive, such as {survivors[:20]}"


def test_every_finding_has_cause_remedy_and_evidence() -> None:
    for record in shipped():
        plain = compiled(record, shipped=True)
        assert plain["cause"]
        assert plain["evidence"]
        assert all(one["ref"] for one in plain["evidence"])


def test_the_page_of_what_works_where_names_only_records_that_exist() -> None:
    text = (Path(__file__).parents[1] / "docs" / "records.md").read_text()
    linked = set(re.findall(r"\.\./records/([\w.-]+)\.md", text))
    assert len(linked) > 50
    assert linked <= {record.id for record in shipped()}, "run: kbctl records table -o docs/records.md"


def test_cells_tell_works_since_broken_disputed_and_no_code() -> None:
    since = TRTLLM + '[[range]]\ncomponent = "flashinfer"\nintroduced = "0"\nfixed = "0.6.8"\n'

    def state(kernel: str, *records: dict[str, Any]) -> tuple[str, str | None]:
        found = compatibility.cell(records, "sm120", "moe", "nvfp4", kernel)
        return found.state, found.since

    assert state("trtllm-gen", plain_record(TRTLLM)) == ("broken", None)
    assert state("trtllm-gen", plain_record(since)) == ("since", "flashinfer 0.6.8")
    assert state("trtllm-gen", plain_record(TRTLLM, evidence=MAINTAINER + WORKS)) == ("disputed", None)
    assert state("triton", plain_record(TRTLLM)) == ("unknown", None)
    assert state("trtllm-gen", plain_record(TRTLLM + "count = 8\n")) == ("limits", None)
    assert state("aiter") == ("no code", None)


def test_a_cell_rests_on_records_about_its_own_role() -> None:
    elsewhere = '[[match]]\narch = ["sm120"]\nroles = { "dsa.decode" = { none = ["cutlass"] } }\n'
    assert compatibility.cell([plain_record(elsewhere)], "sm120", "moe", "nvfp4", "triton").state == "unknown"
