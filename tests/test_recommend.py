"""What to run next: shipped knowledge, own runs, vetoes, the start-up path and the JSON shape."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from typing import Any

import pytest

from kb.evidence import Evidence
from kb.knowledge import load
from kb.measurements import known_about
from kb.model import Backend, Ending, Hardware, Model, Point, Tried
from kb.vocab import engines, options
from recommend.advice import STATUSES, Recommendation, to_wire
from recommend.expect import Known
from recommend.pick import model_name
from recommend.query import Asked, ask
from recommend.rank import recommend
from recommend.render.advice import as_text, command_lines

FORBIDDEN = ("duckdb", "pydantic", "numpy", "sklearn", "rich", "markdown_it", "yaml")
RECORDS = load().records
PRO_6000 = "NVIDIA RTX PRO 6000 Blackwell Server Edition"


def answer(*, tried: tuple[Tried, ...] = (), top: int = 3, **said: Any) -> Recommendation:
    query = ask(Asked(**said))
    known = Known(**known_about(query.arch, query.gpu_facts, query.entry, None))
    return recommend(query, Evidence(records=RECORDS, tried=tried), known, top)


def avoided(found: Recommendation) -> dict[tuple[str, str], str]:
    strongest: dict[tuple[str, str], str] = {}
    for one in found.avoid:
        for pair in one.roles.items():
            strongest.setdefault(pair, one.verdict)
    return strongest


@pytest.fixture(scope="module")
def glm5() -> Recommendation:
    return answer(gpu="sm120", model="glm5-nvfp4")


def test_first_pick_on_sm120_is_cutlass_and_its_command_is_valid(glm5: Recommendation) -> None:
    first = glm5.picks[0]
    assert first.engine == "sglang"
    assert first.roles["moe"] == "cutlass"
    launch = engines.parse_command(shlex.split(first.command), {}, version=first.engine_version)
    assert launch.engine == "sglang"
    assert not launch.unknown_flags
    assert not options.unknown_flags("sglang", first.engine_version, launch.flags)
    assert launch.settings["moe_runner_backend"] == "flashinfer_cutlass"


def test_known_bad_is_named_with_both_of_its_endings(glm5: Recommendation) -> None:
    bad = next(one for one in glm5.avoid if one.roles == {"moe": "trtllm-gen"})
    assert bad.verdict == "known-bad"
    assert {row["effect"] for row in bad.finding["outcomes"]} >= {"crash", "oom"}
    assert "cutlass" in json.dumps(bad.finding["instead"])


def test_disputed_stays_disputed_with_both_sides(glm5: Recommendation) -> None:
    told = avoided(glm5)
    assert told["moe", "cutedsl"] == "disputed"
    assert told["dsa.decode", "trtllm-gen"] == "disputed"
    for one in glm5.avoid:
        if one.verdict == "disputed":
            assert one.finding["conflicts"]


def test_fp8_cache_is_told_with_its_conditions(glm5: Recommendation) -> None:
    assert any("kv_cache_dtype" in one.settings for one in glm5.avoid)


def test_equal_backends_and_write_up_points_are_told(glm5: Recommendation) -> None:
    assert any("cudnn" in one.text and "equal" in one.text and "71.9" in one.text for one in glm5.equal)
    point = next(one for one in glm5.measured if one.value == 225)
    assert "330 of 600 W" in point.basis
    assert "release unknown" in point.basis
    assert "date unknown" in point.basis
    assert any("underfed" in one.text for one in glm5.diagnosis)


def test_no_pick_is_known_bad_and_every_sentence_has_evidence(glm5: Recommendation) -> None:
    banned = {pair for pair, verdict in avoided(glm5).items() if verdict == "known-bad"}
    for pick in glm5.picks:
        assert not banned & set(pick.roles.items())
        assert all(reason.evidence for reason in pick.why)
        assert 0 < pick.p_works < 1
        assert pick.status in STATUSES


def test_what_was_assumed_is_said(glm5: Recommendation) -> None:
    assert {"engine_version", "gpus", "concurrency"} <= set(glm5.assumed)
    assert glm5.picks[0].predicted is None
    assert glm5.abstained is not None


def test_sm100_does_not_veto_trtllm_gen() -> None:
    found = answer(gpu="sm100", model="glm5-nvfp4")
    assert avoided(found).get(("moe", "trtllm-gen")) != "known-bad"


def test_sm121_inherits_and_says_so() -> None:
    found = answer(gpu="sm121", model="glm5-nvfp4", engine="sglang")
    bad = next(one for one in found.avoid if one.roles == {"moe": "trtllm-gen"})
    direct = any("sm121" in json.dumps(one) for one in (bad.finding["evidence"], bad.finding["record"]))
    assert bad.finding["applies_to"]["inherited"] or direct


def test_hopper_has_no_fp4_and_marlin_runs() -> None:
    found = answer(gpu="h100", model="glm5-nvfp4", top=4)
    assert any(pick.roles.get("moe") == "marlin" for pick in found.picks)
    assert "marlin" in found.picks[0].roles.values()


def test_a_product_name_gives_the_same_advice_as_its_architecture(glm5: Recommendation) -> None:
    found = answer(gpu=PRO_6000, model="glm5-nvfp4")
    assert found.picks[0].roles == glm5.picks[0].roles
    assert avoided(found) == avoided(glm5)
    assert found.picks[0].predicted is not None


@pytest.mark.parametrize(
    ("gpu", "gpus", "model"),
    [
        ("b200", 8, "deepseek-ai/DeepSeek-R1"),
        ("h200", None, "openai/gpt-oss-120b"),
        ("h100", None, "Qwen/Qwen3-235B-A22B-FP8"),
        (PRO_6000, 8, "glm5-nvfp4"),
        (PRO_6000, 8, "qwen3.5-397b-nvfp4"),
        ("l40s", 1, "meta-llama/Llama-3.1-8B-Instruct"),
    ],
)
def test_a_fresh_install_tells_numbers_with_intervals_and_their_source(
    gpu: str, gpus: int | None, model: str
) -> None:
    first = answer(gpu=gpu, gpus=gpus, model=model).picks[0]
    assert first.predicted is not None
    assert first.predicted.low < first.predicted.value < first.predicted.high
    assert first.predicted.level == 0.9
    assert first.predicted.evidence
    assert "published points" in first.predicted.basis


def test_an_unknown_model_gets_no_numbers_but_vetoes() -> None:
    found = answer(gpu=PRO_6000, model="acme/Unheard-Of-9B-NVFP4")
    assert found.picks
    assert found.abstained is not None
    assert "no catalog" in found.abstained
    assert avoided(found)["moe", "trtllm-gen"] == "known-bad"


def own(settings: dict[str, Any], ending: Ending, points: tuple[Point, ...] = (), **backend: Any) -> Tried:
    return Tried(
        key=f"key-{sorted(settings.items())}",
        hardware=Hardware(gpu="NVIDIA H200", arch="sm90", count=1),
        model=Model(name="org/tiny-moe", quantization="bf16"),
        backend=Backend(engine="vllm", engine_version="0.21.0", settings=settings, **backend),
        endings=(ending,),
        points=points,
        runs=ending.runs,
        date=ending.date,
    )


OK = Ending(stage="load_test", effect="ok", blame="unknown", runs=("run:aa",), date="2026-11-29")
CRASH = Ending(
    stage="load",
    effect="crash",
    blame="backend",
    signature="backend-refused",
    cause="no such kernel",
    runs=("run:bb",),
    date="2026-11-29",
)


def at(tok_s: float, n: int = 1) -> Point:
    return Point(workload={"concurrency": 64}, metrics={"output_tok_s": tok_s}, n=n, runs=("run:aa",))


def test_own_success_is_proven_here_and_gives_the_number() -> None:
    tried = own({}, OK, (at(1000.0),), resolved={"attention.decode": "fa3"})
    found = answer(
        gpu="h200", model="org/tiny-moe", engine="vllm==0.21.0", quantization="bf16", tried=(tried,)
    )
    first = found.picks[0]
    assert first.status == "proven-here"
    assert first.predicted is not None
    assert first.predicted.value == 1000
    assert "run:aa" in first.predicted.evidence


def test_own_failure_by_its_own_fault_is_never_proposed_and_a_busy_port_is() -> None:
    marlin = {"moe_backend": "marlin"}
    failed = own(marlin, CRASH, requested={"moe": "marlin"})
    kind = {"gpu": "h200", "model": "org/tiny-moe", "engine": "vllm==0.21.0", "quantization": "bf16"}
    found = answer(**kind, tried=(failed,), top=20)
    assert all(pick.settings.get("moe_backend") != "marlin" for pick in found.picks)
    innocent = CRASH._replace(blame="environment", signature="port-in-use")
    found = answer(**kind, tried=(own({}, innocent),), top=20)
    assert any(not pick.settings for pick in found.picks)


def test_single_short_runs_that_differ_little_are_called_equal() -> None:
    tried = (
        own({"moe_backend": "triton"}, OK, (at(1000.0),), requested={"moe": "triton"}),
        own({"moe_backend": "flashinfer_cutlass"}, OK, (at(1020.0),), requested={"moe": "cutlass"}),
    )
    kind = {"gpu": "h200", "model": "org/tiny-moe", "engine": "vllm==0.21.0", "quantization": "bf16"}
    found = answer(**kind, tried=tried, top=2)
    assert {pick.roles["moe"] for pick in found.picks} == {"triton", "cutlass"}
    assert found.picks[0].equal_to == (2,)
    assert found.picks[1].equal_to == (1,)


def test_limits_turn_the_order() -> None:
    kind: dict[str, Any] = {"gpu": "b200", "gpus": 8, "model": "deepseek-ai/DeepSeek-R1"}
    free = answer(**kind, goal="throughput").picks[0]
    tight = answer(**kind, goal="throughput", limits={"ttft_ms": 1e6}).picks[0]
    assert free.command == tight.command
    interactive = answer(**kind, goal="interactivity")
    assert interactive.query["workload"]["concurrency"] == 1


def test_json_shape(glm5: Recommendation) -> None:
    wire = json.loads(json.dumps(to_wire(glm5)))
    assert wire["schema"] == "kbctl.recommend/1"
    assert {"query", "assumed", "picks", "avoid", "diagnosis", "abstained", "would_change_this"} <= set(wire)
    keys = {"rank", "engine", "engine_version", "roles", "settings", "environment", "command", "status"}
    assert keys | {"p_works", "predicted", "why", "verify", "cost_min", "gain"} <= set(wire["picks"][0])
    assert {"roles", "settings", "record", "effect", "stage", "instead", "evidence"} <= set(wire["avoid"][0])


def test_the_answering_path_loads_nothing_heavy(tmp_path: Any) -> None:
    program = (
        "import sys\n"
        "from kb.cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit as end:\n    code = end.code or 0\n"
        f"print([name for name in {FORBIDDEN!r} if name in sys.modules], code, file=sys.stderr)\n"
    )
    words = [
        "recommend",
        "--gpu",
        "sm120",
        "--model",
        "glm5-nvfp4",
        "--json",
        "--store",
        str(tmp_path / "kb.duckdb"),
    ]
    load()  # the compiled records are cached, as they are after an installation's first answer
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
    )
    assert done.stderr.strip().splitlines()[-1] == "[] 0", done.stderr
    assert json.loads(done.stdout)["picks"][0]["roles"]["moe"] == "cutlass"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--model", "x"], "which gpu?"),
        (["--gpu", "h200"], "which model?"),
        (["--gpu", "h200", "--model", "x", "--goal", "fun"], "unknown goal"),
    ],
)
def test_wrong_usage_is_told_without_a_traceback(words: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kb.cli", "recommend", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


SERVED = Ending(stage="load_test", effect="ok", blame="unknown", runs=("run:cc",), date="2026-11-29")


def test_a_command_names_no_variable_of_another_engine_and_nothing_that_an_engine_fills_in() -> None:
    ran = Tried(
        key="sglang",
        hardware=Hardware(gpu="NVIDIA H200", arch="sm90", count=1),
        model=Model(name="org/tiny", quantization="bf16"),
        backend=Backend(
            engine="sglang",
            engine_version="0.5.11",
            settings={"context_length": 4096, "encoder_transfer_backend": "zmq_to_scheduler"},
            environment={
                "VLLM_USE_FLASHINFER_SAMPLER": "0",
                "SGLANG_ENABLE_JIT_DEEPGEMM": "0",
                "PYTHONPATH": "/lab",
                "NCCL_P2P_DISABLE": "1",
            },
        ),
        endings=(SERVED,),
        runs=SERVED.runs,
        date=SERVED.date,
    )
    first = answer(gpu="h200", model="org/tiny", tried=(ran,)).picks[0]
    assert first.status == "proven-here"
    assert first.environment == {"SGLANG_ENABLE_JIT_DEEPGEMM": "0", "NCCL_P2P_DISABLE": "1"}
    assert "--context-length 4096" in first.command
    assert "encoder" not in first.command


def test_variables_given_in_the_question_go_to_their_own_engine() -> None:
    found = answer(gpu="h200", model="Qwen/Qwen3-8B", environment=("VLLM_USE_FLASHINFER_SAMPLER=0",))
    given = {pick.engine: dict(pick.environment) for pick in found.picks}
    assert given["sglang"] == {}
    assert given["vllm"] == {"VLLM_USE_FLASHINFER_SAMPLER": "0"}


def test_nothing_is_claimed_about_an_unknown_gpu_and_model() -> None:
    found = answer(gpu="no-such-card", model="no-such-model")
    assert found.abstained
    assert [pick.status for pick in found.picks] == ["untested"]
    assert found.picks[0].predicted is None
    assert not found.picks[0].roles
    assert {one.verdict for one in found.avoid} <= {"known-bad", "disputed"}
    text = as_text(found)
    assert text.startswith("I DON'T KNOW")
    assert "RUN THIS" not in text


def test_an_unknown_model_is_not_suspected_for_what_it_might_be() -> None:
    found = answer(gpu="h200", model="no-such-model")
    assert avoided(found)["moe", "trtllm-gen"] == "known-bad"
    assert not any("moe" in pick.roles for pick in found.picks)
    for one in found.avoid:
        assert one.verdict != "suspect" or all(
            name.endswith((" version", " has it")) for name in one.finding["missing"]
        )


@pytest.mark.parametrize(
    ("gpu", "model"),
    [
        ("l40s", "llama-3.1-8b"),
        ("mi300x", "Qwen/Qwen3-32B"),
        ("a100", "Qwen/Qwen3-8B"),
        ("b200", "openai/gpt-oss-120b"),
    ],
)
def test_no_pick_is_suspect_or_sets_what_the_model_lacks(gpu: str, model: str) -> None:
    found = answer(gpu=gpu, model=model, top=6)
    assert found.picks
    for pick in found.picks:
        assert not any(reason.text.startswith("Suspect") for reason in pick.why)
        assert not any("mla" in key for key in pick.settings)
    assert not any("mla" in key for one in found.avoid for key in one.settings)


def test_a_kernel_of_both_phases_is_one_entry(glm5: Recommendation) -> None:
    roles = [dict(one.roles) for one in glm5.avoid if "flashmla" in one.roles.values()]
    assert roles == [{"dsa.prefill": "flashmla", "dsa.decode": "flashmla"}]


def test_a_long_command_is_broken_and_still_the_same_command(glm5: Recommendation) -> None:
    for pick in glm5.picks:
        lines = command_lines(pick.argv)
        assert all(len(line) <= 96 for line in lines)
        joined = "\n".join(lines).replace("\\\n", " ")
        assert shlex.split(joined) == shlex.split(pick.command)


@pytest.mark.parametrize(("lasted", "same"), [(5.0, True), (120.0, False)])
def test_how_long_a_run_lasted_decides_what_is_noise(lasted: float, same: bool) -> None:
    def point(tok_s: float) -> Point:
        metrics = {"output_tok_s": tok_s, "duration_s": lasted}
        return Point(workload={"concurrency": 64}, metrics=metrics, date="2026-11-29")

    fast = own({"moe_backend": "triton"}, SERVED, (point(15430),), requested={"moe": "triton"})
    slow = own({"moe_backend": "marlin"}, SERVED, (point(13347),), requested={"moe": "marlin"})
    found = answer(gpu="h200", model="org/tiny-moe", engine="vllm==0.21.0", tried=(fast, slow))
    measured = [pick for pick in found.picks if pick.predicted and "own" in pick.predicted.basis]
    assert len(measured) == 2
    assert bool(measured[0].equal_to) is same


@pytest.mark.parametrize(
    ("model", "checkpoint"),
    [
        ("gpt-oss-120b", "openai/gpt-oss-120b"),
        ("glm5-nvfp4", "nvidia/GLM-5-NVFP4"),
        ("deepseek-r1", "deepseek-ai/DeepSeek-R1"),
        ("our/own", "our/own"),
    ],
)
def test_the_checkpoint_is_the_makers_own_where_that_is_what_was_asked_for(
    model: str, checkpoint: str
) -> None:
    assert model_name(ask(Asked(gpu="h200", model=model))) == checkpoint
