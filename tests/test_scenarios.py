"""Stories in Markdown: experiments come in one by one, and the advice changes as an expert's would.

A scenario is a file of ``tests/scenarios``. Its fenced blocks are TOML and run in order: ``toml run`` adds
what one server start taught, ``toml ask`` asks and says what must hold, ``toml given`` says whether
the shipped records and write-ups are known. A new story is a new file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kb.evidence import Evidence
from kb.knowledge import load
from kb.measurements import known_about
from kb.model import Backend, Ending, Hardware, Model, Point, Tried
from kb.vocab import engines, gpus, models
from recommend.advice import Pick, Recommendation
from recommend.expect import Known
from recommend.query import Asked, ask
from recommend.rank import recommend

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.md"))
BLOCK = re.compile(r"^```toml (given|run|ask)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(path: Path) -> Iterator[tuple[str, dict[str, Any], int]]:
    text = path.read_text("utf-8")
    for found in BLOCK.finditer(text):
        yield found[1], tomllib.loads(found[2]), text[: found.start()].count("\n") + 1


def tried(row: Mapping[str, Any], number: int) -> Tried:
    run = f"run:{number:02d}"
    gpu = gpus.find_gpu(row["gpu"])
    arch = gpu.arch if gpu else gpus.arch_of(row["gpu"])
    entry = models.find_model(row["model"])
    settings, environment = row.get("settings", {}), row.get("environment", {})
    quantization = models.quantization_of(row["model"])
    requested = engines.roles_of(row["engine"], row.get("version"), settings, environment, arch, quantization)
    ending = Ending(
        stage=row.get("stage", "load_test"),
        effect=row.get("effect", "ok"),
        blame=row.get("blame", "backend" if row.get("effect", "ok") != "ok" else "unknown"),
        signature=row.get("signature"),
        cause=row.get("cause"),
        runs=(run,),
        date=row.get("date"),
    )
    points = tuple(
        Point(workload=point["workload"], metrics=point["metrics"], n=point.get("n", 1), runs=(run,))
        for point in row.get("points", ())
    )
    return Tried(
        key=run,
        hardware=Hardware(gpu=gpu.name if gpu else None, arch=arch, count=row.get("gpus")),
        model=Model(
            name=row["model"],
            id=entry.id if entry else None,
            family=entry.family if entry else None,
            quantization=quantization,
        ),
        backend=Backend(
            engine=row["engine"],
            engine_version=row.get("version"),
            settings=settings,
            environment=environment,
            requested=requested,
            resolved=row.get("resolved", {}),
        ),
        endings=(ending,),
        points=points,
        conditions=row.get("conditions", {}),
        runs=(run,),
        date=row.get("date"),
    )


def answer(row: Mapping[str, Any], runs: list[Tried], given: Mapping[str, Any]) -> Recommendation:
    query = ask(Asked(**row["question"]))
    tables = known_about(query.arch, query.gpu_facts, query.entry, None)
    if not given.get("writeups", True):
        tables["writeups"] = ()
    records = load().records if given.get("records", True) else ()
    return recommend(query, Evidence(records=records, tried=tuple(runs)), Known(**tables), row.get("top", 5))


def agrees(pick: Pick, wanted: Mapping[str, str]) -> bool:
    return all(pick.roles.get(role) == kernel for role, kernel in wanted.items())


def hold(found: Recommendation, expect: Mapping[str, Any], where: str) -> None:
    told = {
        (role, kernel): one.verdict for one in reversed(found.avoid) for role, kernel in one.roles.items()
    }
    for wanted in expect.get("never", ()):
        assert not any(agrees(pick, wanted) for pick in found.picks), f"{where}: proposed {wanted}"
    for wanted in expect.get("some", ()):
        assert any(agrees(pick, wanted) for pick in found.picks), f"{where}: nothing with {wanted}"
    if "first" in expect:
        assert agrees(found.picks[0], expect["first"]), f"{where}: first is {dict(found.picks[0].roles)}"
    if "status" in expect:
        assert found.picks[0].status == expect["status"], f"{where}: {found.picks[0].status}"
    for row in expect.get("avoid", ()):
        assert told.get((row["role"], row["kernel"])) == row["verdict"], f"{where}: {row} in {told}"
    if "equal" in expect:
        assert bool(found.picks[0].equal_to) is expect["equal"], where
    if "value" in expect:
        first = found.picks[0].predicted
        assert first is not None, where
        assert first.value == pytest.approx(expect["value"], rel=0.01), where
    if "diagnosis" in expect:
        assert any(expect["diagnosis"] in one.text for one in found.diagnosis), f"{where}: {found.diagnosis}"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    runs: list[Tried] = []
    given: dict[str, Any] = {}
    asked = 0
    for kind, content, line in blocks(path):
        if kind == "given":
            given = content
        elif kind == "run":
            runs.append(tried(content, len(runs) + 1))
        else:
            hold(answer(content, runs, given), content["expect"], f"{path.name}:{line}")
            asked += 1
    assert asked, "a story without a question"


def test_there_are_stories() -> None:
    assert len(SCENARIOS) >= 3
