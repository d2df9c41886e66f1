"""Labels of measures: spellings that must come to the same name and unit, and those that must not."""

from __future__ import annotations

import pytest

from ingest.bench import loads, names
from ingest.bench.cells import read_cell, whole
from ingest.bench.placeholders import reason
from ingest.bench.places import place
from ingest.bench.quantities import serves_tokens, understand
from ingest.bench.rows import read_row
from ingest.bench.trees import find_rows
from ingest.bench.units import Units


@pytest.mark.parametrize(
    ("label", "name", "factor"),
    [
        ("Mean TTFT (ms)", "ttft_ms_mean", 1.0),
        ("median_ttft", "ttft_ms_p50", 1e3),
        ("ttft_s_median", "ttft_ms_p50", 1e3),
        ("TTFT p95 [s]", "ttft_ms_p95", 1e3),
        ("99.00 percentile first token latency (ns)", "ttft_ms_p99", 1e-6),
        ("P99.9 TTFT (ms)", "ttft_ms_p99_9", 1.0),
        ("Average time-per-output-token [TPOT] (ms)", "tpot_ms_mean", 1.0),
        ("time per output token (s/token)", "tpot_ms_mean", 1e3),
        ("P95 Inter-Token Latency (ms)", "itl_ms_p95", 1.0),
        ("mean_e2el_ms", "e2e_ms_mean", 1.0),
        ("Median E2E Latency (ms)", "e2e_ms_p50", 1.0),
        ("Output token throughput (tok/s)", "output_tok_s", 1.0),
        ("output_token_throughput_tok_s", "output_tok_s", 1.0),
        ("Gen tok/s", "output_tok_s", 1.0),
        ("prefill t/s", "input_tok_s", 1.0),
        ("Total Token throughput (tok/s)", "total_tok_s", 1.0),
        ("Per GPU Output Throughput (tps/gpu)", "output_tok_s_per_gpu", 1.0),
        ("output_tokens_per_second_per_user", "output_tok_s_per_user", 1.0),
        ("Peak output token throughput (tok/s)", "peak_output_tok_s", 1.0),
        ("requests_per_second", "request_s", 1.0),
        ("Requests/min", "request_s", 1 / 60),
        ("request_goodput", "goodput_request_s", 1.0),
        ("Successful requests", "completed", 1.0),
        ("num_errors", "failed", 1.0),
        ("Benchmark duration (s)", "duration_s", 1.0),
        ("Total generated tokens", "output_tokens", 1.0),
        ("Acceptance rate (%)", "accept_rate", 0.01),
        ("accept_length", "accept_length", 1.0),
        ("Accuracy", "accuracy", 1.0),
        ("Goodput @ SLO (req/s)", "goodput_request_s", 1.0),
        ("P99 TTFT (SLO 2 s)", "ttft_ms_p99", 1e3),
        ("P99 TTFT (ms, limit 2 s)", "ttft_ms_p99", 1.0),
    ],
)
def test_label_is_understood(label: str, name: str, factor: float) -> None:
    found = understand(label)
    assert found is not None
    assert found.name == name
    assert found.factor == pytest.approx(factor)


@pytest.mark.parametrize(
    "label", ["gpu", "Notes", "image_rate", "Max KV %", "temperature", "cost_per_1M", ""]
)
def test_label_is_left_alone(label: str) -> None:
    assert understand(label) is None


@pytest.mark.parametrize(
    ("label", "where"),
    [
        ("Concurrency", ("workload", "concurrency")),
        ("ISL", ("workload", "input_len")),
        ("random_output_len", ("workload", "output_len")),
        ("Num of Hardware", ("identity", "gpu_count")),
        ("vLLM", None),
        ("KV dtype", ("settings", "kv_dtype")),
    ],
)
def test_label_has_its_place(label: str, where: tuple[str, str] | None) -> None:
    assert place(label) == where


@pytest.mark.parametrize(
    ("text", "value", "spread"),
    [
        ("1,234.56", 1234.56, None),
        ("7340.20 ± 23.45", 7340.2, 23.45),
        ("~71.9", 71.9, None),
        ("**225** tok/s", 225.0, None),
        ("1.420,7", 1420.7, None),
        ("5.29 ms", 5.29, None),
        ("2.1k", 2100.0, None),
    ],
)
def test_cell_is_a_number(text: str, value: float, spread: float | None) -> None:
    cell = read_cell(text)
    assert cell is not None
    assert (cell.value, cell.spread) == (value, spread)


@pytest.mark.parametrize("text", ["N/A", "-", "", "8xH100", "80/80", "1-2", "4bit", None, True])
def test_cell_is_no_number(text: object) -> None:
    assert whole(text) is None


def test_bare_throughput_is_settled_by_arithmetic() -> None:
    row = {"Input Len": 128, "Output Len": 128, "Batch Size": 1, "Latency (s)": 0.688, "Throughput": 372.0}
    assert "total_tok_s" in read_row(row).metrics
    assert "output_tok_s" in read_row({**row, "Throughput": 186.0}).metrics


def test_bare_throughput_with_a_load_counts_answers_and_keeps_its_name() -> None:
    row = read_row({"Concurrency": 8, "tok/s": "640"})
    assert row.metrics == {"output_tok_s": 640.0}
    assert row.source_names == {"output_tok_s": "tok/s"}


def test_unit_that_no_label_states_is_decided_for_the_whole_table_and_said() -> None:
    units = Units.of([{"ttft": 0.2, "itl": 0.01}, {"ttft": 0.4, "itl": 0.02}])
    assert read_row({"ttft": 0.2, "itl": 0.01}, units).metrics == {"ttft_ms_mean": 200.0, "itl_ms_mean": 10.0}
    assert all("seconds" in note for note in units.notes)
    in_ms = Units.of([{"ttft": 350.0, "itl": 12.0}])
    assert read_row({"ttft": 350.0, "itl": 12.0}, in_ms).metrics["ttft_ms_mean"] == 350.0


def test_template_is_told_from_results() -> None:
    assert reason(["<value>", "TBD", "XX.X"]) is not None
    assert reason(["12.5", "x", "-", "n/a", "98"]) is None


def test_rows_in_a_tree_know_what_stands_around_them() -> None:
    tree = {"meta": {"model": "m", "gpu": "H200"}, "prefill": {"8192": {"tok_per_sec": 10.0}}}
    (row,) = find_rows(tree).rows
    told = read_row(row)
    assert (told.facts.model, told.facts.gpu) == ("m", "H200")
    assert told.workload["input_len"] == 8192
    assert told.metrics == {"input_tok_s": 10.0}


@pytest.mark.parametrize(
    "label",
    [
        "request_timeout",
        "throughput_spread",
        "tok/s per $",
        "TTFT half width (ms)",
        "p99 latency SLO (ms)",
        "ttft cv",
        "TTFT (95% CI)",
        "goodput SLO attainment (%)",
        "training throughput (tok/s)",
    ],
)
def test_what_is_derived_from_a_measure_or_asked_of_it_is_none(label: str) -> None:
    assert understand(label) is None


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("1,031ms", 1031.0),
        ("1 702,1", 1702.1),
        ("1'702.1", 1702.1),
        ("0.23.1rc1", None),
        ("1,810 · 2.75s", None),
        ("128 256 512", None),
        ("1 000 000", 1_000_000.0),
        ("4 100%", 4.0),
        ("4 100,5 %", 4.0),
    ],
)
def test_thousands_and_what_is_no_number(cell: str, value: float | None) -> None:
    found = read_cell(cell)
    assert (found and found.value) == value


@pytest.mark.parametrize(
    ("names", "serves"),
    [
        (["Latency (us)", "TFLOPS"], False),
        (["images/s", "P99 latency (ms)", "num_requests"], False),
        (["req/s", "P99 E2E (ms)", "Memory bandwidth (GB/s)"], True),
        (["training tok/s", "step time (s)"], False),
        (["output_throughput", "memory_bandwidth_gbps"], True),
        (["throughput (GB/s)", "tflops"], False),
    ],
)
def test_one_label_of_another_kind_takes_no_figure_from_a_service(names: list[str], serves: bool) -> None:
    assert serves_tokens(names) is serves


def test_type_names_a_thing_only_where_nothing_else_does_and_it_is_known() -> None:
    result = {"ttft_ms_mean": 30.5, "output_tok_s": 101.0}
    (row,) = find_rows(
        {"gpu": {"type": "H200", "count": 4}, "engine": {"type": "openai"}, "r": [result]}
    ).rows
    told = read_row(row).facts
    assert (told.gpu, told.gpu_count, told.engine) == ("H200", 4, None)


def test_loads_that_two_lists_share_are_left_open_where_order_does_not_tell() -> None:
    result = {"ttft_ms_mean": 30.5, "output_tok_s": 101.0}
    lists = {"input_lens": [128, 512], "output_lens": [128, 512]}
    assert read_row(find_rows(lists | {"results": {"512": result}}).rows[0]).workload == {}
    lists = {"input_lens": [128, 512], "batch_sizes": [1, 4]}
    told = read_row(find_rows(lists | {"results": {"4": {"512": result}}}).rows[0]).workload
    assert told == {"batch_size": 4, "input_len": 512}


@pytest.mark.parametrize("label", ["TTFT (s)", "TTFT (ms)"])
def test_seconds_under_the_label_of_milliseconds_leave_what_says_seconds(label: str) -> None:
    told = read_row({label: "0.5", "TPOT (ms)": "0.02", "tok/s/user": "50"}).metrics
    assert (told["ttft_ms_mean"], told["tpot_ms_mean"]) == (500.0, 20.0)


@pytest.mark.parametrize(
    ("cell", "length"),
    [("8k", 8192), ("128K tokens", 131072), ("96k", 98304), ("10k", 10000), ("131k", 131000), ("1.5k", 1500)],
)
def test_k_of_a_length_is_1024_after_numbers_that_people_double_up_to(cell: str, length: int) -> None:
    assert loads.count(cell) == length


def test_a_pair_of_lengths_is_not_one_length() -> None:
    assert loads.count("8k/1k") is None
    assert loads.lengths("8k/1k") == {"input_len": 8192, "output_len": 1024}


@pytest.mark.parametrize(
    "label",
    [
        "compress_tok_s",
        "end_to_end_input_tokens",
        "time_to_first_token_seconds_sum",
        "qps_levels",
        "tokenizer_tok_s",
    ],
)
def test_a_label_of_no_result_names_no_quantity(label: str) -> None:
    assert understand(label) is None


@pytest.mark.parametrize(
    ("printed", "release"), [("vllm-v0.20.1", "0.20.1"), ("SGLang 0.5.3", "0.5.3"), ("b6500", "b6500")]
)
def test_a_version_is_read_without_the_name_of_its_engine(printed: str, release: str) -> None:
    assert names.release(printed) == release


def test_what_is_asked_of_a_server_is_no_result_of_it() -> None:
    wishes = {
        "slos": {"ttft_p90": 10000, "itl_p99": 100},
        "served": {"concurrency": 4, "ttft_p90": 812, "itl_p99": 31},
    }
    rows = find_rows({"metadata": wishes}).rows
    assert [row["ttft_p90"] for row in rows] == [812]
