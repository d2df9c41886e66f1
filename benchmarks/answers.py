"""What an answer costs: CPU seconds of whole processes, with 0, 10,000 and 100,000 own configurations.

    python benchmarks/answers.py [RUNS]

Every process runs alone on one core, start-up included; the commands take turns, so that a machine whose
speed drifts treats them alike. The own runs are those of tests/test_recommend_cost.py: one model on one
architecture, the worst case, as all of them bear on the question.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from speed import cost

from kb import snapshot

ROOT = Path(__file__).parent.parent
STORES = (0, 10_000, 100_000)
RUNS = 15
WHERE = ("--gpu", "sm120", "--model", "glm5-nvfp4")
BESIDE: Mapping[str, Sequence[str]] = {
    "check": ("check", *WHERE, "--engine", "sglang", "--set", "moe_runner_backend=flashinfer_trtllm"),
    "explain": ("explain", "sm120-moe-trtllm-gen"),
    "python, typer imported": ("-c", "import typer"),
}


def answers(runs: int = RUNS) -> dict[str, Any]:
    """Command -> least and median CPU seconds; ``recommend`` by the number of own configurations."""
    with tempfile.TemporaryDirectory(prefix="kbctl-") as folder:
        commands = {f"recommend, {count:,} own": recommend(_store(Path(folder), count)) for count in STORES}
        commands |= {name: _python(words) for name, words in BESIDE.items()}
        for command in commands.values():
            cost(command)
        taken = [{name: cost(command).cpu for name, command in commands.items()} for _ in range(runs)]
    return {name: _told([one[name] for one in taken]) for name in commands}


def recommend(store: Path) -> list[str]:
    return _python(("recommend", *WHERE, "--store", str(store)))


def _python(words: Sequence[str]) -> list[str]:
    start = () if words[0] == "-c" else ("-m", "kb.cli")
    return [sys.executable, *start, *words]


def _store(folder: Path, count: int) -> Path:
    sys.path.insert(0, str(ROOT))
    from tests.test_recommend_cost import many  # noqa: PLC0415 - no part of the package

    store = folder / f"{count}.duckdb"
    if count:
        snapshot.write(store, many(count))
    return store


def _told(seconds: Sequence[float]) -> dict[str, float]:
    return {"least": round(min(seconds), 3), "median": round(statistics.median(seconds), 3)}


if __name__ == "__main__":
    print(json.dumps(answers(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS), indent=1))
