"""How much work an answer is: calls of functions, which unlike seconds do not depend on the machine."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Iterator
from pathlib import Path

from kb import knowledge, snapshot
from kb.cli.recommend import answer_to
from kb.model import Backend, Ending, Hardware, Model, Point, Tried
from recommend.question import Asked

KERNELS = {"triton": "triton", "flashinfer_cutlass": "cutlass", "marlin": "marlin"}
# About 210,000 with an empty store.
MOST_CALLS = 300_000


def many(count: int) -> Iterator[Tried]:
    """Configurations of one model on one architecture, no two the same; every third failed."""
    for number in range(count):
        spelled = list(KERNELS)[number % 3]
        good = number % 7 > 1
        ending = Ending(
            stage="load_test" if good else "load",
            effect="ok" if good else "crash",
            blame="unknown" if good else "backend",
            signature=None if good else "jit-failed",
            runs=(f"run:{number:012x}",),
        )
        points = (Point(workload={"concurrency": 64}, metrics={"output_tok_s": 900.0 + number % 77}),)
        yield Tried(
            key=f"{number:x}",
            hardware=Hardware(gpu="NVIDIA RTX PRO 6000 Blackwell Server Edition", arch="sm120", count=8),
            model=Model(name="nvidia/GLM-5-NVFP4", family="glm5", quantization="nvfp4"),
            backend=Backend(
                engine="sglang",
                engine_version="0.5.23",
                settings={"tp_size": 8, "moe_runner_backend": spelled, "context_length": 1024 + number},
                requested={"moe": KERNELS[spelled]},
            ),
            endings=(ending,),
            points=points if good else (),
            runs=ending.runs,
            date=f"2026-09-{number % 28 + 1:02d}",
        )


def calls(store: Path) -> int:
    asked = Asked(gpu="sm120", model="glm5-nvfp4")
    profile = cProfile.Profile()
    found = profile.runcall(answer_to, asked, store, (), 3)
    assert found.picks
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def test_an_answer_is_little_work_and_does_not_grow_with_the_store(tmp_path: Path) -> None:
    knowledge.load()  # compiled once, whoever asks first
    assert calls(tmp_path / "none.duckdb") < MOST_CALLS
    store = tmp_path / "kb.duckdb"
    snapshot.write(store, many(10_000))
    assert calls(store) < 1.2 * MOST_CALLS
