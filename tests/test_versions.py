"""Order of versions per scheme, and the introduced/fixed timeline in three values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from kb import versions
from kb.versions import breakpoints, compare, newest, satisfies, state, version_key

releases = st.lists(st.integers(0, 30), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))
suffixes = st.sampled_from(["", "a1", "b2", "rc1", "rc4", ".post1", ".dev3", "rc1.dev2", ".post1.dev2"])
texts = st.builds(lambda release, suffix: release + suffix, releases, suffixes)


@given(texts, texts)
def test_order_is_that_of_pep440(left, right):
    expected = (Version(left) > Version(right)) - (Version(left) < Version(right))
    assert compare(left, right, "vllm") == expected


@given(texts, texts, texts)
def test_order_is_total(one, two, three):
    ordered = sorted([one, two, three], key=version_key)
    assert compare(ordered[0], ordered[1]) <= 0
    assert compare(ordered[1], ordered[2]) <= 0
    assert compare(ordered[0], ordered[2]) <= 0


@given(texts)
def test_local_part_does_not_order(text):
    assert compare(text + "+cu129", text) == 0


@given(st.text(max_size=30))
def test_any_text_is_a_version_or_unknown(text):
    for scheme in ("pep440", "build", "dotted"):
        key = version_key(text, scheme)
        assert key is None or isinstance(key, tuple)


@pytest.mark.parametrize("text", ["main", "nightly", "a1b2c3d", "latest", "", "~2026-03", "v"])
def test_channels_have_no_place(text):
    assert version_key(text) is None
    assert compare(text, "0.5.0") is None
    assert state(text, {"introduced": "0.5", "fixed": "0.6"}) == "unknown"


@pytest.mark.parametrize(
    ("left", "right", "component", "order"),
    [
        ("0.11.1rc4", "0.11.1", "vllm", -1),
        ("b6500", "b6499", "llama.cpp", 1),
        ("6500", "b6500", "llama.cpp", 0),
        ("580.65.06", "580.95", "driver", -1),
        ("13.0", "12.9", "cuda", 1),
        ("0.5.10", "0.5.9", "sglang", 1),
        ("v0.5.10", "0.5.10", "sglang", 0),
        ("0.5.5.post1", "0.5.5", "sglang", 1),
        ("0.4.10", "0.4.9.post6", "sglang", 1),
        ("2.9.1+cu130", "2.9.1", "torch", 0),
    ],
)
def test_order_of_real_versions(left, right, component, order):
    assert compare(left, right, component) == order
    assert compare(right, left, component) == -order


@pytest.mark.parametrize(
    ("version", "specifier", "answer"),
    [
        ("0.6.12", ">=0.6.8,<0.7", True),
        ("0.7", ">=0.6.8,<0.7", False),
        ("0.5.14", "==0.5.*", True),
        ("0.5.14", "!=0.5.*", False),
        ("0.6.8.post1", "~=0.6.8", True),
        ("0.6.8", "0.6.8", True),
        (None, ">=1", None),
        ("main", ">=1", None),
        ("main", "", True),
        ("0.5.1", ">0.5.1", False),
    ],
)
def test_specifiers(version, specifier, answer):
    assert satisfies(version, specifier) is answer


def test_newest_leaves_out_what_cannot_be_ordered():
    assert newest(["0.5.9", "0.5.10", "main", "0.5.10rc1"]) == "0.5.10"
    assert newest(["main"]) is None


TIMELINE = {"introduced_between": ["0.5.8", "0.5.10"], "fixed": "0.5.19"}


@pytest.mark.parametrize(
    ("version", "answer"),
    [
        ("0.5.8", "not-affected"),
        ("0.5.9", "unknown"),
        ("0.5.10", "affected"),
        ("0.5.14", "affected"),
        ("0.5.19rc1", "affected"),
        ("0.5.19.dev3", "unknown"),
        ("0.5.19", "not-affected"),
        ("0.6", "not-affected"),
        (None, "unknown"),
        (("0.5.10", "0.5.14"), "affected"),
        (("0.5.14", "0.5.19"), "unknown"),
        (("0.5.19", None), "not-affected"),
        (("0.5.8", "0.5.8"), "not-affected"),
        (("0.5.8", "0.5.9"), "unknown"),
    ],
)
def test_timeline(version, answer):
    assert state(version, TIMELINE, "sglang") == answer


def test_timeline_as_points():
    assert breakpoints(TIMELINE) == [
        ("0", "not-affected"),
        ("0.5.8", "unknown"),
        ("0.5.10", "affected"),
        ("0.5.19", "not-affected"),
    ]


@pytest.mark.parametrize(
    ("ranges", "version", "answer"),
    [
        ({}, None, "affected"),
        ([], "1.0", "affected"),
        ({"introduced": "0"}, "main", "affected"),
        ({"last_affected": "1.2"}, "1.2", "affected"),
        ({"last_affected": "1.2"}, "1.3", "not-affected"),
        ({"last_seen": "1.2"}, "1.2", "affected"),
        ({"last_seen": "1.2"}, "1.3", "unknown"),
        ({"introduced": "1.0", "limit": "2.0"}, "2.0", "not-affected"),
        ({"introduced": "1.0", "fixed": "1.2", "reintroduced": "1.4"}, "1.3", "not-affected"),
        ({"introduced": "1.0", "fixed": ["1.2", "1.6"], "reintroduced": "1.4"}, "1.5", "affected"),
        ({"introduced": "1.0", "fixed": ["1.2", "1.6"], "reintroduced": "1.4"}, "1.6", "not-affected"),
        ({"fixed_between": ["1.2", "1.4"]}, "1.2", "affected"),
        ({"fixed_between": ["1.2", "1.4"]}, "1.3", "unknown"),
        ({"fixed_between": ["1.2", "1.4"]}, "1.4", "not-affected"),
        ([{"fixed": "1.0"}, {"introduced": "2.0", "fixed": "2.1"}], "2.0", "affected"),
        ([{"fixed": "1.0"}, {"introduced": "2.0", "fixed": "2.1"}], "1.5", "not-affected"),
        ({"component": "llama.cpp", "introduced": "b6400", "fixed": "b6500"}, "b6450", "affected"),
    ],
)
def test_events(ranges, version, answer):
    assert state(version, ranges) == answer


def test_event_that_is_no_version_is_an_error():
    with pytest.raises(ValueError, match="main"):
        state("1.0", {"fixed": "main"})


spans = st.lists(releases, min_size=3, max_size=3).map(lambda three: sorted(three, key=version_key))
# Events of one version have no order among them.
bounds = st.lists(releases, min_size=3, max_size=3, unique_by=version_key).map(
    lambda three: sorted(three, key=version_key)
)


@given(bounds, releases)
def test_state_changes_only_at_its_events(three, version):
    introduced, fixed, again = three
    row = {"introduced": introduced, "fixed": fixed, "reintroduced": again}
    key = version_key(version)
    before = key < version_key(introduced)
    inside = version_key(introduced) <= key < version_key(fixed) or key >= version_key(again)
    assert state(version, row) == ("affected" if inside and not before else "not-affected")


@given(bounds, spans)
def test_a_span_is_certain_only_when_every_version_in_it_agrees(three, span):
    low, _, high = span
    row = {"introduced": three[0], "fixed": three[1], "reintroduced": three[2]}
    whole = state((low, high), row)
    points = [one for one in (low, high, *three) if version_key(low) <= version_key(one) <= version_key(high)]
    states = {state(one, row) for one in points}
    assert whole == (states.pop() if len(states) == 1 else "unknown")


@given(bounds, releases)
def test_unknown_bounds_never_give_certainty_inside(three, version):
    row = {"introduced_between": [three[0], three[1]], "fixed": three[2]}
    inside = version_key(three[0]) < version_key(version) < version_key(three[1])
    if inside and version_key(version) < version_key(three[2]):
        assert state(version, row) == "unknown"


def test_schemes_are_known_by_component():
    assert versions.scheme_of("llama.cpp") == "build"
    assert versions.scheme_of("driver") == "dotted"
    assert versions.scheme_of("flashinfer") == "pep440"
    assert versions.scheme_of(None) == "pep440"
