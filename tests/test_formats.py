"""Every format against its golden pairs, against the near miss beside them, and against all other formats.

Adding a case is adding files (tests/golden.py).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from golden import cases, differences, name_of, near_misses, sample_of

from ingest.formats import Format, all_formats, read_source
from ingest.sources import Source
from kb.wire import reading_from_wire, reading_to_wire

FORMATS = all_formats()
FEWEST = 3  # samples of a format: one is never more than one release with one set of options


@pytest.mark.parametrize("case", cases(), ids=name_of)
def test_sample_tells_what_it_must(case: Path) -> None:
    wire = json.loads(json.dumps(reading_to_wire(read_source(Source(sample_of(case)))), allow_nan=False))
    assert wire["format"] == case.parent.name
    assert differences(json.loads(case.read_text(encoding="utf-8")), wire) == []
    assert json.loads(json.dumps(reading_to_wire(reading_from_wire(wire)))) == wire


@pytest.mark.parametrize("case", cases(), ids=name_of)
def test_only_its_own_format_claims_a_sample(case: Path) -> None:
    told = Source(sample_of(case))
    claims = {one.name: one.sniff(told) for one in FORMATS}
    own = claims.pop(case.parent.name)
    rival = max(claims, key=lambda name: claims[name])
    assert own >= 0.3
    assert own > claims[rival], f"{rival} claims it with {claims[rival]}"


@pytest.mark.parametrize("path", near_misses(), ids=name_of)
def test_a_near_miss_is_not_read_as_the_format(path: Path) -> None:
    reading = read_source(Source(path))
    assert reading.format != path.parent.name or reading.status == "refused"


@pytest.mark.parametrize("form", FORMATS, ids=lambda one: one.name)
def test_a_format_has_samples_a_near_miss_and_words(form: Format) -> None:
    assert len(cases({form.name})) >= FEWEST, (
        f"add pairs of files under tests/formats/{form.name}/: {FEWEST} at least, from other releases, other "
        "options or other fates of the tool"
    )
    assert [one for one in near_misses() if one.parent.name == form.name], (
        f"add near-miss.<ext> under tests/formats/{form.name}/: what looks like it and is none"
    )
    assert len(form.docs) > 40
    assert form.docs.endswith(".")
