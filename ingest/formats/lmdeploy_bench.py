"""What LMDeploy's ``profile_throughput.py`` and its kin print: a block of figures per concurrency.

Owns their lines. They name no model. Must not read LMDeploy's server logs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ingest.bench.identity import Facts, benchmark, experiment
from ingest.bench.sniffing import below_pages, needing
from ingest.formats import Format, Unreadable
from ingest.formats.llama_bench import count_of
from ingest.sources import Source
from kb.model import Measurement, Reading

_TOOL = "lmdeploy benchmark"
_N = r"(\d+(?:\.\d+)?)"
_BEGUN = re.compile(rf"^concurrency: {_N}(?:, input_tokens: {_N}, output_tokens: {_N})?\s*$")
_LOAD = ("concurrency", "input_len", "output_len")
_SPREAD = re.compile(rf"^first[ _]token latency ?(?:\(s\))?\(min, max, ave\): {_N}s?, {_N}s?, {_N}s?\s*$")
_OWN = ("first token latency(s)", "number of completion tokens: ")  # without streaming, the latter alone
_PERCENTILES = re.compile(
    r"^(?:per-token latency\(s\) percentile\(50, 75, 95, 99\)"
    r"|token latency percentiles\(50%,75%,95%,99%\)\(s\)): \[(?P<all>[\d., ]+)\]"
)
_FIGURES = (
    ("duration_s", re.compile(rf"^elapsed_time: {_N}s\b")),
    ("input_tokens", re.compile(rf"^number of prompt tokens: {_N}\s*$")),
    ("output_tokens", re.compile(rf"^number of completion tokens: {_N}\s*$")),
    ("output_tok_s", re.compile(rf"^(?:token throughput \(completion tokens?\)|throughput\(output\)): {_N}")),
    (
        "total_tok_s",
        re.compile(rf"^(?:token throughput \(prompt \+ completion tokens?\)|throughput\(total\)): {_N}"),
    ),
    ("request_s", re.compile(rf"^RPS \(request per second\): {_N} req/s")),
)


@below_pages
@needing("elapsed_time: ")
def _sniff(source: Source) -> float:
    lines = [line.strip() for line in source.head.split("\n")]
    own = any(_SPREAD.match(line) or line.startswith(_OWN) for line in lines)
    return 0.93 if own and any(_BEGUN.match(line) for line in lines) else 0.0


def _read(source: Source) -> Reading:
    lines = [(number, text.strip()) for number, text in source.lines()]
    points = [point for block in _blocks(lines) if len((point := _point(block)).metrics) > 1]
    if not points:
        raise Unreadable("no block of figures below a concurrency")
    used = sum(len(point.metrics) for point in points)
    return benchmark(
        source,
        "lmdeploy_bench",
        [experiment(Facts(), points)],
        tool=_TOOL,
        lines=count_of(lines, min(used, len(lines))),
    )


def _blocks(lines: Iterable[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    block: list[tuple[int, str]] = []
    for number, text in lines:
        if _BEGUN.match(text):
            if block:
                yield block
            block = [(number, text)]
        elif block:
            block.append((number, text))
    if block:
        yield block


def _point(block: list[tuple[int, str]]) -> Measurement:
    line, first = block[0]
    begun = _BEGUN.match(first)
    told = zip(_LOAD, begun.groups() if begun else (), strict=False)
    metrics: dict[str, float | None] = {}
    for _, text in block:
        for name, pattern in _FIGURES:
            if found := pattern.match(text):
                metrics.setdefault(name, float(found[1]))
        metrics |= _latencies(text)
    load = {name: int(float(value)) for name, value in told if value is not None}
    return Measurement(workload=load, metrics=metrics, client=_TOOL, line=line)


def _latencies(text: str) -> dict[str, float | None]:
    """Latencies of a line, in ms; tokens that came together were 0 s apart, which is no figure."""
    if spread := _SPREAD.match(text):
        names = ("ttft_ms_min", "ttft_ms_max", "ttft_ms_mean")
        return {name: float(value) * 1e3 for name, value in zip(names, spread.groups(), strict=True)}
    if found := _PERCENTILES.match(text):
        values = zip(("p50", "p75", "p95", "p99"), found["all"].split(","), strict=False)
        return {f"itl_ms_{name}": float(raw) * 1e3 for name, raw in values if float(raw)}
    return {}


FORMAT = Format(
    name="lmdeploy_bench",
    kind="benchmark",
    version=2,
    sniff=_sniff,
    read=_read,
    docs=(
        "What LMDeploy's benchmark scripts (`profile_throughput.py`, `profile_restful_api.py`, "
        "`profile_generation.py`) print: a point per block, with the times to the first token and between "
        "tokens and the rates that say which tokens they count."
    ),
)
