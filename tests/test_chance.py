"""The chance that a configuration works: its steps, what moves it which way, and how it is taken apart."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb.evidence import Evidence
from kb.knowledge import load
from kb.measurements import fitted_model, known_about
from kb.model import STAGES, Backend, Ending, Hardware, Model, Tried
from recommend import chance, hazard, tries
from recommend.advice import to_wire
from recommend.expect import Known
from recommend.findings import Finding
from recommend.query import ask
from recommend.question import Asked, Query, Resolution
from recommend.rank import recommend
from recommend.tries import Try

MODEL: Mapping[str, Any] = (fitted_model() or {})["chance"]
NAMES = sorted({name for row in MODEL["steps"].values() for name in row["coef"]})
RECORDS = load(arch="sm90").records
ROLE, KERNEL = "moe", "triton"

some_features = st.dictionaries(st.sampled_from(NAMES), st.floats(0.0, 3.0), max_size=12)


@given(some_features)
def test_a_chance_is_the_product_of_its_steps_and_never_sure(found: dict[str, float]) -> None:
    passed = chance.steps(MODEL, found)
    assert tuple(passed) == chance.STEPS
    assert all(0 < one < 1 for one in passed.values())
    assert chance.works(MODEL, found) == pytest.approx(max(math.prod(passed.values()), chance.LEAST))


@given(some_features)
def test_its_terms_add_up_in_log_odds(found: dict[str, float]) -> None:
    base, terms = chance.terms(MODEL, found)
    whole = chance.log_odds(chance.works(MODEL, found))
    assert base + sum(terms.values()) == pytest.approx(whole, abs=1e-6)
    assert list(terms.values()) == sorted(terms.values(), key=lambda one: -abs(one))


def doubt(verdict: str, stage: str, effect: str = "crash") -> Finding:
    return Finding(record="r", kind="record", title="t", verdict=verdict, effect=effect, stage=stage)


def seen(near: tuple[float, float, float, float], doubts: tuple[Finding, ...] = ()) -> float:
    query = Query(resolved={ROLE: Resolution(KERNEL, "setting")})
    known = chance.Near()
    known[ROLE, KERNEL] = list(near)
    return chance.works(MODEL, chance.features(query, {}, doubts, known, {}))


counts = st.tuples(*[st.integers(0, 9)] * 4)


@given(counts, st.integers(0, 3), st.integers(1, 5))
def test_more_failures_never_speak_for_it_and_more_successes_never_against(
    near: tuple[int, int, int, int], place: int, more: int
) -> None:
    moved = [*near]
    moved[place] += more
    before, after = seen(near), seen((moved[0], moved[1], moved[2], moved[3]))
    assert after <= before + 1e-12 if place in (0, 2) else after >= before - 1e-12


@given(counts, st.sampled_from(("disputed", "suspect")), st.sampled_from(STAGES))
def test_a_doubt_never_raises_a_chance(near: tuple[int, int, int, int], word: str, stage: str) -> None:
    assert seen(near, (doubt(word, stage),)) <= seen(near) + 1e-12


@given(some_features, st.sampled_from(hazard.FOR))
def test_proof_never_lowers_a_chance(found: dict[str, float], name: str) -> None:
    assert (
        chance.works(MODEL, {**found, name: found.get(name, 0.0) + 1}) >= chance.works(MODEL, found) - 1e-12
    )


def test_every_stage_belongs_to_a_step_and_wrong_answers_to_the_last() -> None:
    steps = [chance.step_of(stage, "crash") for stage in STAGES]
    assert steps == sorted(steps, key=chance.STEPS.index)
    assert set(steps) == set(chance.STEPS)
    assert chance.step_of("serve", "wrong_output") == "quality"


def test_without_a_model_nothing_tells_chances_apart() -> None:
    assert chance.works(None, {"ran-here": 1.0}) == chance.EVEN


def run(key: str, kernel: str, stage: str, effect: str, **settings_: Any) -> Tried:
    blame = "unknown" if effect == "ok" else "backend"
    return Tried(
        key=key,
        hardware=Hardware(gpu="NVIDIA H200", arch="sm90", count=1),
        model=Model(name="org/tiny-moe", quantization="bf16"),
        backend=Backend(
            engine="vllm",
            engine_version="0.21.0",
            settings={"moe_backend": kernel, **settings_},
            requested={"moe": kernel},
        ),
        endings=(Ending(stage=stage, effect=effect, blame=blame, runs=(f"run:{key}",)),),  # type: ignore[arg-type]
        runs=(f"run:{key}",),
        date="2026-11-01",
    )


def answered(*tried: Tried, top: int = 6) -> Mapping[str, Any]:
    query = ask(Asked(gpu="NVIDIA H200", model="org/tiny-moe", engine="vllm==0.21.0", quantization="bf16"))
    known = Known(**known_about(query.arch, query.gpu_facts, query.entry, None))
    return to_wire(recommend(query, Evidence(records=RECORDS, tried=tried), known, top))


def test_every_pick_tells_its_chance_with_terms_that_add_up_and_evidence() -> None:
    picks = answered()["picks"]
    assert picks
    for pick in picks:
        told = pick["chance"]
        total = told["base"] + sum(one["log_odds"] for one in told["terms"])
        assert total == pytest.approx(chance.log_odds(pick["p_works"]), abs=0.02)
        assert math.prod(told["steps"].values()) == pytest.approx(pick["p_works"], abs=0.01)
        assert all(one["evidence"] for one in told["terms"])
    json.dumps(picks)


def test_what_ran_here_is_surer_than_what_did_not() -> None:
    first = answered(run("a1", "triton", "load_test", "ok"))["picks"]
    ran = next(one for one in first if one["status"] == "proven-here")
    assert ran["p_works"] > 0.8
    assert ran["p_works"] >= max(one["p_works"] for one in first)
    assert any("run:a1" in term["evidence"] for term in ran["chance"]["terms"])


def test_a_failure_that_vetoes_stays_a_veto_whatever_the_model_says() -> None:
    picks = answered(run("b1", "triton", "serve", "wrong_output"))["picks"]
    assert all(one["settings"].get("moe_backend") != "triton" for one in picks)


def test_own_tries_are_seen_from_the_others_and_stop_where_they_ended() -> None:
    told = [run("c1", "triton", "load_test", "ok"), run("c2", "marlin", "load", "crash", max_model_len=4096)]
    rows = {one.id: one for one in tries.of_runs(told, RECORDS, MODEL)}
    assert (rows["c1"].step, rows["c1"].worked) == ("serve", 1.0)
    assert (rows["c2"].step, rows["c2"].worked) == ("load", 0.0)
    assert "ran-here" not in rows["c1"].features
    assert rows["c2"].features["served-near"] > 0


def test_an_ending_by_other_hands_tells_only_that_the_steps_before_were_passed() -> None:
    one = run("d1", "triton", "warmup", "crash")
    one = one._replace(endings=(one.endings[0]._replace(blame="environment"),))
    assert list(tries.endings(one)) == [("load", 1.0)]


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    rows = [Try("record", "x#1", "x", "load", 0.0, 0.5, {"near-doubt": 0.25, "moe": 1.0})]
    tries.write(tmp_path / "rows.gz", rows)
    assert list(tries.read(tmp_path / "rows.gz")) == rows
    assert list(tries.read(tmp_path / "none.gz")) == []


def test_what_ships_can_be_learned_from_again() -> None:
    told = hazard.learn(tries.shipped(), tries.reported())
    assert told["near"] == MODEL["near"]
    for step in chance.STEPS:
        now, then = told["steps"][step], MODEL["steps"][step]
        assert now["intercept"] == pytest.approx(then["intercept"], abs=0.02)
        assert now["coef"] == pytest.approx(then["coef"], abs=0.02)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from(chance.STEPS)), min_size=5, max_size=30))
def test_own_failures_of_a_kind_lower_its_chance_and_successes_raise_it(told: list[tuple[bool, str]]) -> None:
    own = [
        Try("run", str(n), str(n), step, float(good), 3.0, {"moe": 1.0, "speculation": 1.0})
        for n, (good, step) in enumerate(told)
    ]
    good = [one._replace(worked=1.0, step="quality") for one in own]
    bad = [one._replace(worked=0.0) for one in own]
    shipped = tries.shipped()[::9]
    learned = [hazard.learn([*shipped, *rows], {}) for rows in (bad, good)]
    low, high = (chance.works(one, {"moe": 1.0, "speculation": 1.0}) for one in learned)
    assert low < high
