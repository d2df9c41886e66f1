"""Any JSON sample with a value of another kind anywhere: a parser reads on or refuses, and never raises."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from pathlib import Path

import pytest
from golden import cases, name_of, sample_of
from other_values import documents, with_another_value

from ingest.formats import Unreadable, all_formats, read_as
from ingest.sources import Source
from kb.wire import reading_to_wire

FORMATS = {one.name: one for one in all_formats()}
CASES = [
    one
    for one in cases()
    if 0 < sample_of(one).stat().st_size < 60_000 and documents(sample_of(one).read_bytes())
]
TRIES = 12


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_another_kind_of_value_raises_nothing(case: Path) -> None:
    sample, chance = sample_of(case), random.Random(case.name)
    found = documents(sample.read_bytes())
    for _ in range(TRIES):
        source = Source(Path(sample.name), raw=with_another_value(found, chance))
        with suppress(Unreadable):
            json.dumps(reading_to_wire(read_as(FORMATS[case.parent.name], source)), allow_nan=False)
