"""Plans: the order of tries, when to stop, and a script that a shell reads as meant."""

from __future__ import annotations

import shlex
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


ENGINE = """#!/bin/sh
echo "$0 $*"
case "$*" in
  *bench_serving*) echo "Output token throughput (tok/s): 42";;
  *broken*) echo "no kernel image is available" >&2; exit 1;;
  *) trap 'echo stopped; exit 0' TERM; touch "$HOME/up"; while :; do sleep 0.1; done;;
esac
"""
CLIENT = """#!/bin/sh
[ -e "$HOME/up" ] || exit 7
case "$*" in *completions*) echo '{"content": "391"}'; rm "$HOME/up";; esac
"""


def tools(folder: Path, **texts: str) -> dict[str, str]:
    """An environment whose programs are these scripts."""
    for name, text in texts.items():
        (folder / name.replace("_", "-")).write_text(text)
        (folder / name.replace("_", "-")).chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder)}


def test_the_script_runs_every_try_and_keeps_its_files(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    environment = tools(
        tmp_path / "bin",
        python=ENGINE,
        curl=CLIENT,
        sleep="#!/bin/sh\nexec /bin/sleep 0.05\n",
        nvidia_smi='#!/bin/sh\necho "timestamp, index"; while :; do sleep 1; done\n',
    )
    evil = "x'; touch hacked; '"
    picks = [
        pick("broken", 1000, command=f"A=1 python serve {shlex.quote('broken' + evil)}"),
        pick("good", 1010, command="python serve good", file=("llm-api.yaml", "a: 1\n")),
    ]
    target = tmp_path / "plan.sh"
    target.write_text(script(plan(picks, 10), picks, LOAD))
    done = subprocess.run(
        ["bash", str(target), "out"],
        check=False,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    first, second = tmp_path / "out" / "1-sglang", tmp_path / "out" / "2-sglang"
    assert "no kernel image" in (first / "server.log").read_text()
    assert "not measured" in (first / "failed.txt").read_text()
    assert not (first / "bench.txt").exists()
    assert "42" in (second / "bench.txt").read_text()
    assert (second / "server.log").read_text().endswith("stopped\n"), done.stderr
    assert (second / "gpu.csv").read_text().startswith("timestamp")
    assert (second / "llm-api.yaml").read_text() == "a: 1\n"
    assert "391" in (second / "smoke.json").read_text()
    assert not list(tmp_path.rglob("hacked"))
    assert done.stdout.endswith(f"Now: kbctl ingest {tmp_path / 'out'}\n")
