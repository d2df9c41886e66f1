"""docs/formats.md: every format explains itself, has a golden sample, and the page is what they say today."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.formats import Format, all_formats
from ingest.formats_page import TITLES, page, samples_of

PAGE = Path(__file__).parent.parent / "docs" / "formats.md"


@pytest.mark.parametrize("one", all_formats(), ids=lambda one: one.name)
def test_a_format_has_a_paragraph_and_a_golden_sample(one: Format) -> None:
    assert len(one.docs) > 20, "say in docs= what the format is and which versions are read"
    assert one.docs.rstrip().endswith(".")
    assert one.kind in TITLES
    assert samples_of(one.name) > 0, f"add a pair of files under tests/formats/{one.name}/"


def test_no_samples_of_a_format_that_is_gone() -> None:
    folders = {one.parent.name for one in (PAGE.parent.parent / "tests/formats").glob("*/*.expected.json")}
    assert folders <= {one.name for one in all_formats()}


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(), "run `make docs` and commit docs/formats.md"
