"""Plans: the order of tries, when to stop, and a script that a shell reads as meant."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from recommend.advice import Expected, Pick
from recommend.physics import Load
from recommend.plan import LEAST_GAIN, lines, plan, to_wire
from recommend.render.script import script

LOAD = Load(input_len=128, output_len=64, concurrency=8)


def pick(name: str, value: float | None, works: float = 0.9, cost: float = 10, **more: Any) -> Pick:
    number = None
    if value is not None:
        number = Expected(
            metric="output_tok_s", value=value, low=value / 1.4, high=value * 1.4, level=0.9, basis="a test"
        )
    said: dict[str, Any] = {
        "engine": "sglang",
        "engine_version": "0.5.23",
        "roles": {"moe": name},
        "resolved_by": {},
        "settings": {},
        "environment": {},
        "argv": ["serve", f"org/{name}"],
        "command": f"serve org/{name}",
        "status": "expected",
        "p_works": works,
        "predicted": number,
        "why": (),
        "verify": (),
        "cost_min": cost,
        "gain": None,
        "kind": "explore",
        "teaches": f"whether {name} works",
    }
    return Pick(**{**said, **more})


def test_the_baseline_comes_first_then_what_is_worth_its_minutes() -> None:
    picks = [pick("base", 1000), pick("slow", 1010, cost=100), pick("quick", 1010)]
    assert [step.pick for step in plan(picks, 10).steps] == [1, 3, 2]


def test_time_and_hope_end_a_plan() -> None:
    picks = [pick("base", 1000), pick("same", 1000), pick("hopeless", 100)]
    assert [step.pick for step in plan(picks, 0.2).steps] == [1]
    made = plan(picks, 10)
    assert 3 not in [step.pick for step in made.steps]
    assert all(step.gain is None or step.gain >= LEAST_GAIN for step in made.steps)
    assert "unlikely to gain more" in made.stop


def test_what_hardly_works_comes_late() -> None:
    picks = [pick("base", 1000), pick("gamble", 1200, works=0.1), pick("sure", 1200)]
    assert [step.pick for step in plan(picks, 10).steps][:2] == [1, 3]


def test_without_numbers_there_is_still_a_plan() -> None:
    made = plan([pick("base", None), pick("other", None)], 1)
    assert made.steps[0].pick == 1
    assert to_wire(made)["steps"][0]["minutes"] == 10
    assert "baseline" in next(iter(lines(made, [pick("base", None)])))
    assert plan([], 1).steps == ()


def test_the_script_is_quoted_and_smoke_tests_before_it_measures(tmp_path: Path) -> None:
    evil = "x'; touch hacked; '"
    picks = [
        pick("base", 1000),
        pick("other", 1010, argv=["serve", f"org/{evil}"], file=("llm-api.yaml", "a: 1\n")),
    ]
    text = script(plan(picks, 10), picks, LOAD)
    target = tmp_path / "plan.sh"
    target.write_text(text)
    checked = subprocess.run(["bash", "-n", str(target)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert text.index("smoke '") < text.index("bench_serving")
    assert "cat >llm-api.yaml" in text
    run = "serve() { :; }; curl() { return 1; }; kill() { return 1; }; python() { :; }; source " + str(target)
    done = subprocess.run(
        ["bash", "-c", run], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert not (tmp_path / "hacked").exists()
    assert "not measured" in done.stdout
