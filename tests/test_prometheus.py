"""Lines of metrics as exporters and servers print them."""

from __future__ import annotations

import pytest

from ingest.prometheus import parse_sample


@pytest.mark.parametrize(
    ("line", "value", "labels"),
    [
        ('ttft_bucket{le="1"} 5 # {trace_id="abc"} 0.67', 5.0, {"le": "1"}),
        ('ttft_bucket{le="1"} 5 # {trace_id="abc"} 0.67 1520879607.789', 5.0, {"le": "1"}),
        (r'load{path="a}\"b",n="{1}"} 2 1700000000000', 2.0, {"path": 'a}"b', "n": "{1}"}),
        ("load{} 3 ← busy", 3.0, {}),
        ("load 4", 4.0, {}),
    ],
)
def test_a_sample_is_what_stands_before_notes_and_exemplars(
    line: str, value: float, labels: dict[str, str]
) -> None:
    found = parse_sample(line)
    assert found is not None
    assert (found.value, found.labels) == (value, labels)
