"""Joining readings to runs: what anchors a run, what belongs to it, what is the same point twice."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import pytest

from ingest.folders import Claimed, assemble, part_of, run_id
from ingest.matching import Piece
from ingest.points import is_same_point, merged
from ingest.sites import Sites
from ingest.windows import overlap, window
from kb.model import (
    Backend,
    Experiment,
    Failure,
    GpuTrace,
    Hardware,
    Measurement,
    Model,
    Outcome,
    Reading,
    Telemetry,
)
from kb.store.runs import Assembled


def piece(path: str, kind: str, *told: Experiment, **fields: Any) -> Piece:
    reading = Reading(path=path, format="x", kind=kind, experiments=told, **fields)
    folder = str(PurePosixPath(path).parent)
    return Piece(identity=f"id of {path}", path=path, folder=folder, part=part_of(reading), reading=reading)


def server(path: str, *starts: Experiment) -> Piece:
    return piece(path, "server_log", *(starts or (start(),)))


def start(**fields: Any) -> Experiment:
    base = Experiment(
        model=Model(name="/models/glm"),
        backend=Backend(engine="sglang", engine_version="0.5.11"),
        outcome=Outcome(stage="ready", effect="ok"),
    )
    return replace(base, **fields)


def point(concurrency: int | None = 16, rate: float = 500.0, **more: Any) -> Measurement:
    metrics = {"output_tok_s": rate, "ttft_ms_mean": rate / 10, **more}
    return Measurement(workload={"concurrency": concurrency}, metrics=metrics, client="bench")


def bench(path: str, *points: Measurement, **fields: Any) -> Piece:
    return piece(path, "benchmark", Experiment(measurements=points or (point(),), **fields))


def runs(pieces: Sequence[Piece], links: dict[str, dict[str, bool]] | None = None) -> list[Assembled]:
    """Assemble everything, as the store would for all folders at once."""
    parts: dict[str, set[str]] = {}
    for one in pieces:
        parts.setdefault(one.folder, set()).add(one.part)
    sites = Sites(parts)
    found: list[Assembled] = []
    for region in sites.regions(sorted(parts), {}):
        inside = {site: [p for p in pieces if p.folder in folders] for site, folders in region.sites.items()}
        outside = [p for p in pieces if p.folder in (*region.shared, *region.context)]
        found += assemble(inside, outside, sites.reach, Claimed(links=links or {}))
    return found


def only(found: Sequence[Assembled]) -> Experiment:
    assert len(found) == 1, [one.experiment.sources for one in found]
    return found[0].experiment


def test_a_run_folder_is_one_run() -> None:
    meta = piece(
        "/r/1/run.json",
        "config",
        start(hardware=Hardware(gpu="H200", arch="sm90", count=1), started="2026-11-30T03:00:00+00:00"),
        extra={"run": {"exit_code": 0, "benches": [{"stdout": "bench_c1.txt"}]}},
    )
    trace = piece("/r/1/smi.csv", "trace", telemetry=Telemetry(samples=9, gpus=(GpuTrace(index=0),)))
    found = only(
        runs([server("/r/1/server.log"), meta, trace, bench("/r/1/bench_c1.txt"), bench("/r/1/b.json")])
    )
    assert found.hardware.gpu == "H200"
    assert len(found.measurements) == 1
    assert found.telemetry is not None
    assert (found.outcome.stage, found.outcome.effect) == ("load_test", "ok")
    assert found.sources[0] == "/r/1/server.log"
    hows = {path: how for path, how, _ in found.joined}
    assert "named by the run's own record" in hows["/r/1/bench_c1.txt"]


def node(rank: int, **fields: Any) -> Experiment:
    settings = {"nnodes": 2, "node_rank": rank}
    return start(backend=Backend(engine="sglang", settings=settings), **fields)


def test_the_logs_of_two_nodes_are_one_start_and_the_cause_comes_before_its_echo() -> None:
    echo = Outcome(
        stage="load", effect="hang", failure=Failure(signature="nccl-timeout", text="t", cause="waited")
    )
    cause = Outcome(
        stage="load", effect="oom", failure=Failure(signature="oom-weights", text="t", cause="too big")
    )
    logs = [server("/r/node0.log", node(0, outcome=echo)), server("/r/node1.log", node(1, outcome=cause))]
    found = only(runs(logs))
    assert found.outcome.effect == "oom"
    assert found.outcome.failure is not None
    assert found.outcome.failure.path == "/r/node1.log"
    assert found.run == run_id(logs[0].identity, 0)


def test_stdout_and_stderr_are_one_start() -> None:
    crash = Outcome(stage="load", effect="crash", failure=Failure(signature="x", text="t", cause="c"))
    bare = Experiment(backend=Backend(engine="sglang"), outcome=crash)
    for name in ("server.out", "server.log", "server.stdout.log"):
        found = only(runs([server(f"/r/{name}"), server("/r/server.err", bare)]))
        assert (found.outcome.effect, found.model.name) == ("crash", "/models/glm")
    assert len(runs([server("/r/a.log"), server("/r/server.err", bare)])) == 2


def test_two_servers_of_one_folder_stay_two() -> None:
    assert len(runs([server("/r/prefill.log", start(port=1)), server("/r/decode.log", start(port=2))])) == 2


def test_every_start_in_a_log_is_a_run() -> None:
    found = runs([server("/r/server.log", start(), start(), start())])
    assert len({one.experiment.run for one in found}) == 3
    assert sorted(one.ordinal for one in found) == [0, 1, 2]


def test_ids_do_not_depend_on_what_is_joined() -> None:
    log = server("/r/1/server.log")
    assert only(runs([log])).run == only(runs([log, bench("/r/1/b.json")])).run == run_id(log.identity, 0)


def test_a_benchmark_goes_to_the_start_that_it_overlaps() -> None:
    first = start(started="2026-11-30T03:00:00", ended="2026-11-30T03:30:00")
    second = start(started="2026-11-30T04:00:00", ended="2026-11-30T04:30:00")
    one = bench("/r/b.json", started="2026-11-30T03:10:00", ended="2026-11-30T03:12:00")
    found = sorted(runs([server("/r/server.log", first, second), one]), key=lambda r: r.ordinal)
    assert [len(r.experiment.measurements) for r in found] == [1, 0]


def test_a_benchmark_goes_to_the_server_on_its_port() -> None:
    logs = [server("/r/a.log", start(port=8001)), server("/r/b.log", start(port=8002))]
    found = {r.experiment.port: r.experiment for r in runs([*logs, bench("/r/x.json", port=8002)])}
    assert len(found[8001].measurements) == 0
    assert len(found[8002].measurements) == 1


def test_a_benchmark_with_the_servers_name_goes_to_it() -> None:
    logs = [server("/r/server_tp4.log"), server("/r/server_tp8.log")]
    found = runs([*logs, bench("/r/bench_tp8_c16.json")])
    joined = [r.experiment.sources[0] for r in found if r.experiment.measurements]
    assert joined == ["/r/server_tp8.log"]


def test_a_benchmark_that_could_be_of_either_server_is_of_none() -> None:
    logs = [server("/r/a.log"), server("/r/b.log")]
    found = runs([*logs, bench("/r/x.json")])
    assert len(found) == 3
    (alone,) = [r for r in found if r.experiment.measurements]
    assert alone.experiment.backend.engine is None


def test_another_engine_or_time_rules_a_server_out() -> None:
    log = server(
        "/r/1/server.log", start(started="2026-11-30T03:00:00+00:00", ended="2026-11-30T03:30:00+00:00")
    )
    vllm = bench("/r/1/x.json", backend=Backend(engine="vllm"))
    later = bench("/r/1/y.json", point(rate=400.0), started="2026-12-01T03:00:00+00:00")
    found = runs([log, vllm, later])
    assert len(found) == 3


def test_a_benchmark_alone_has_an_unknown_server_and_one_run_per_series() -> None:
    pieces = [bench(f"/b/bench_c{n}.json", point(n, 100.0 * n)) for n in (1, 16, 64)]
    found = only(runs([*pieces, bench("/b/bench_c16.txt", point(16, 1600.0))]))
    assert [one.workload["concurrency"] for one in found.measurements] == [1, 16, 64]
    assert (found.backend.engine, found.hardware.gpu) == (None, None)
    assert (found.outcome.stage, found.outcome.effect) == ("load_test", "ok")
    assert len(runs([bench("/b/llama-tp4.json"), bench("/b/qwen-tp4.json", point(16, 900.0))])) == 2


def test_a_file_of_many_configurations_is_a_run_for_each() -> None:
    several = [Experiment(measurements=(point(16, 100.0 * n),), model=Model(name=f"m{n}")) for n in (1, 2, 3)]
    assert len(runs([piece("/b/all.csv", "benchmark", *several)])) == 3


def test_a_server_log_that_comes_later_takes_its_benchmark() -> None:
    found = only(runs([bench("/r/1/b.json"), server("/r/1/server.log")]))
    assert found.backend.engine == "sglang"


def test_folders_below_and_beside_belong_to_the_run_where_nothing_else_does() -> None:
    below = only(runs([server("/r/1/server.log"), bench("/r/1/bench/c1.json")]))
    assert below.measurements
    named = bench("/r/1/bench/c1.json", model=Model(name="glm"), port=8001)
    beside = only(runs([server("/r/1/logs/server.log", start(port=8001)), named]))
    assert beside.measurements


def test_a_table_above_the_runs_creates_nothing_twice() -> None:
    pieces = [
        p for n in (1, 2) for p in (server(f"/r/{n}/s.log"), bench(f"/r/{n}/b.json", point(16, 100.0 * n)))
    ]
    rows = [Measurement(workload={"concurrency": 16}, metrics={"output_tok_s": 100.0 * n}) for n in (1, 2)]
    readme = piece("/r/README.md", "note", Experiment(measurements=tuple(rows)))
    found = runs([*pieces, readme])
    assert len(found) == 2
    assert all("/r/README.md" in one.experiment.sources for one in found)


def test_a_machine_snapshot_gives_hardware_and_is_no_run() -> None:
    told = Experiment(hardware=Hardware(gpu="NVIDIA H200", arch="sm90", driver="580.1"))
    machine = piece("/r/_machine/smi.txt", "trace", told, telemetry=Telemetry(samples=1))
    found = runs([server("/r/1/s.log"), server("/r/2/s.log", start(hardware=Hardware(gpu="L40S"))), machine])
    assert [one.experiment.hardware.gpu for one in sorted(found, key=lambda r: r.site)] == [
        "NVIDIA H200",
        "L40S",
    ]
    assert len(runs([machine])) == 0


def test_snapshots_of_several_machines_describe_no_run() -> None:
    one = piece(
        "/r/m/a.txt", "trace", Experiment(hardware=Hardware(gpu="H200")), telemetry=Telemetry(samples=1)
    )
    other = piece(
        "/r/m/b.txt", "trace", Experiment(hardware=Hardware(gpu="L40S")), telemetry=Telemetry(samples=1)
    )
    assert only(runs([server("/r/1/s.log"), one, other])).hardware.gpu is None
    assert only(runs([server("/r/1/s.log"), one])).hardware.gpu == "H200"
    near = piece(
        "/r/1/smi.txt", "trace", Experiment(hardware=Hardware(gpu="B200")), telemetry=Telemetry(samples=1)
    )
    assert only(runs([server("/r/1/s.log"), near, one])).hardware.gpu == "B200"


def test_a_recorder_alone_is_a_run_and_a_launch_script_is_none() -> None:
    meta = piece("/r/1/run.json", "config", start(), extra={"run": {"exit_code": 1}})
    script = piece("/r/2/start.sh", "config", start())
    assert only(runs([meta, script])).sources == ("/r/1/run.json",)


def test_a_configuration_beside_benchmarks_describes_their_runs() -> None:
    told = Experiment(hardware=Hardware(gpu="L40S"), backend=Backend(engine="vllm", engine_version="0.21.0"))
    found = runs(
        [piece("/b/meta.json", "config", told), bench("/b/x.json"), bench("/b/y.json", point(16, 900.0))]
    )
    assert [one.experiment.hardware.gpu for one in found] == ["L40S", "L40S"]


def together(*pieces: Piece) -> list[Assembled]:
    """The runs of pieces that no server anchors."""
    return assemble({}, pieces, lambda _: (), Claimed())


def test_what_a_client_saved_and_printed_in_folders_of_their_own_is_one_benchmark() -> None:
    printed, saved = bench("run/logs/c16.txt"), bench("run/raw/day_c16.json")
    trace = piece("run/gpu/trace.csv", "trace", telemetry=Telemetry(samples=9, gpus=(GpuTrace(index="0"),)))
    [run] = together(printed, saved, trace)
    assert len(run.experiment.measurements) == 1
    assert run.experiment.sources == ("run/logs/c16.txt", "run/raw/day_c16.json", "run/gpu/trace.csv")


def test_the_loads_of_one_benchmark_may_lie_in_folders_of_their_own() -> None:
    note = piece("run/meta.json", "config", start(), extra={"meta": {"host": "a"}})
    loads = [bench(f"run/rate_{rate}/summary.json", point(None, 100.0 * rate)) for rate in (1, 5, 20)]
    [run] = together(*loads, note)
    assert len(run.experiment.measurements) == 3
    assert run.experiment.backend.engine == "sglang"
    apart = [bench(f"{one}/summary.json", point(None, 100.0 * at)) for at, one in enumerate("ab", 1)]
    assert len(together(*apart)) == 2


def test_a_note_in_a_load_s_own_folder_speaks_of_that_load_alone() -> None:
    pieces = [
        one
        for at in (4, 8)
        for one in (
            piece(f"run/c{at}/meta.json", "config", start(), extra={"meta": {"host": str(at)}}),
            bench(f"run/c{at}/out.json", point(at, 10.0 * at)),
        )
    ]
    assert len(together(*pieces)) == 2


def test_two_files_of_one_name_are_of_one_benchmark() -> None:
    rows = bench("run/latency_1.csv", point(None, 100.0), point(None, 120.0))
    whole = bench("run/latency_1.json", point(3, 110.0), model=Model(name="m"))
    assert len(together(rows, whole)) == 1


def test_a_benchmark_below_a_run_that_has_one_of_its_name_is_of_another_server() -> None:
    pieces = [
        server("out/server.log"),
        bench("out/results.json"),
        bench("out/other/results.json", point(2, 9.0)),
    ]
    runs = assemble({"out": pieces}, [], lambda _: (), Claimed())
    assert sorted(run.experiment.sources for run in runs) == [
        ("out/other/results.json",),
        ("out/server.log", "out/results.json"),
    ]
    loads = [server("out/server.log"), bench("out/sum.json"), bench("out/rate_5/sum.json", point(2, 9.0))]
    assert len(assemble({"out": loads}, [], lambda _: (), Claimed())) == 1


def test_what_a_client_printed_goes_to_the_server_that_has_what_it_saved() -> None:
    servers = [
        server(
            f"out/server_{name}.log", start(started=f"2026-03-01T{at}:00:00", ended=f"2026-03-01T{at}:59:00")
        )
        for name, at in (("tp1", "10"), ("tp2", "12"))
    ]
    times = {"started": "2026-03-01T12:10:00", "ended": "2026-03-01T12:12:00"}
    saved, printed = (
        bench("out/bench/a.json", point(None, 77.125), **times),
        bench("out/bench_a.log", point(None, 77.125)),
    )
    runs = assemble({"out": [*servers, saved, printed]}, [], lambda _: (), Claimed())
    assert len(runs) == 2


def test_links_and_unlinks_of_the_user_win() -> None:
    logs = [server("/r/a.log"), server("/r/b.log")]
    x = bench("/r/x.json")
    linked = runs([*logs, x], {x.identity: {run_id(logs[1].identity, 0): True}})
    assert [bool(r.experiment.measurements) for r in sorted(linked, key=lambda r: r.anchor)] == [False, True]
    apart = runs([logs[0], x], {x.identity: {run_id(logs[0].identity, 0): False}})
    assert len(apart) == 2


def test_the_order_of_pieces_changes_nothing() -> None:
    pieces = [
        *(server(f"/r/{n}/s.log", start(port=8000 + n)) for n in range(3)),
        *(bench(f"/r/{n}/b{c}.json", point(c, 10.0 * c + n)) for n in range(3) for c in (1, 4)),
        bench("/r/all/x.json", point(8, 77.0), port=8001, model=Model(name="glm")),
        piece(
            "/r/m/smi.txt", "trace", Experiment(hardware=Hardware(gpu="H200")), telemetry=Telemetry(samples=1)
        ),
    ]
    expected = sorted(runs(pieces), key=lambda one: one.experiment.run)
    for seed in range(5):
        shuffled = random.Random(seed).sample(pieces, len(pieces))
        by_path = sorted(shuffled, key=lambda one: one.path)
        assert sorted(runs(by_path), key=lambda one: one.experiment.run) == expected


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (point(16, 500.0), point(16, 500.4), True),
        (point(16, 500.0), point(32, 500.0), False),
        (point(16, 500.0), point(None, 500.0), True),
        (point(16, 500.0), point(16, 520.0), False),
        (point(64, 0.0, failed=1500.0), point(64, 0.0, failed=1500.0), True),
        (point(64, 0.0, failed=1500.0), point(64, 0.0, failed=3.0), False),
    ],
)
def test_same_point(a: Measurement, b: Measurement, same: bool) -> None:
    assert is_same_point(a, b) is same


def test_merging_keeps_the_fuller_description() -> None:
    short = Measurement(workload={"concurrency": 4, "dataset": "random"}, metrics={"output_tok_s": 99.99})
    full = Measurement(workload={"concurrency": 4}, metrics={"output_tok_s": 99.987, "ttft_ms_p99": 3.0})
    (one,) = merged([short, full])
    assert one.metrics == {"output_tok_s": 99.987, "ttft_ms_p99": 3.0}
    assert one.workload["dataset"] == "random"


def times(*texts: str) -> Any:
    return window(*texts)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"), ("2026-01-01T02:30:00+02:00", None), True),
        (("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"), ("2026-01-01T05:00:00Z", None), False),
        (("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"), ("2026-01-01T05:00:00", None), None),
        (("2026-01-01T00:00:00", "2026-01-01T01:00:00"), ("2026-01-01T00:30:00", None), True),
        (("garbage", None), ("2026-01-01T00:30:00", None), None),
    ],
)
def test_overlap(a: Iterable[str], b: Iterable[str], expected: bool | None) -> None:
    assert overlap(times(*a), times(*b)) is expected


def test_sites_and_what_reaches_them() -> None:
    parts = {
        "/d/r1": {"anchor"},
        "/d/r1/bench": {"measurement"},
        "/d/r2/logs": {"metadata"},
        "/d/r2/bench": {"measurement"},
        "/d/_machine": {"machine"},
        "/e": {"measurement"},
    }
    sites = Sites(parts)
    assert sites.site_of("/d/r1/bench") == "/d/r1"
    assert sites.site_of("/d/r2/bench") is None
    assert sites.reach("/d/r2/bench") == ("/d/r2/logs",)
    assert sites.reach("/d/_machine") == ("/d/r1", "/d/r2/logs")
    assert sites.reach("/e") == ()
    (one,) = sites.regions(["/d/r1/bench"], {})
    assert (dict(one.sites), one.shared, one.context) == (
        {"/d/r1": ("/d/r1", "/d/r1/bench")},
        (),
        ("/d/_machine",),
    )


def test_a_client_that_repeats_the_servers_arguments_sets_nothing() -> None:
    asked = Backend(engine="sglang", settings={"context_length": 4096})
    dump = Backend(
        engine="sglang", settings={"context_length": 4096, "attention_backend": "fa3", "page_size": 1}
    )
    found = only(
        runs([server("/r/1/server.log", start(backend=asked)), bench("/r/1/bench.json", backend=dump)])
    )
    assert found.backend.settings == {"context_length": 4096}
    # Where no log and no command tells of the server, it is all there is.
    assert only(runs([bench("/r/2/bench.json", backend=dump)])).backend.settings == dump.settings
