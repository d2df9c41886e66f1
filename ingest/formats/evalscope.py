"""EvalScope's load test (``evalscope perf``): what it prints, and the JSON that it saves.

Owns its labels, which changed with each generation. Must not read its accuracy results.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from ingest.bench import cells, jsontext
from ingest.bench.identity import Facts, benchmark, experiment
from ingest.bench.sniffing import below_pages, needing
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import LineCount, Measurement, Reading

_TOOL = "evalscope"
_METRICS = {
    "time taken for tests": "duration_s",
    "test duration": "duration_s",
    "succeed requests": "completed",
    "success requests": "completed",
    "failed requests": "failed",
    "request throughput": "request_s",
    "req throughput": "request_s",
    "average qps": "request_s",
    "rps": "request_s",
    "average latency": "e2e_ms_mean",
    "avg latency": "e2e_ms_mean",
    "avg lat.": "e2e_ms_mean",
    "p99 lat.": "e2e_ms_p99",
    "average time to first token": "ttft_ms_mean",
    "avg ttft": "ttft_ms_mean",
    "ttft": "ttft_ms_mean",
    "p99 ttft": "ttft_ms_p99",
    "average time per output token": "tpot_ms_mean",
    "avg tpot": "tpot_ms_mean",
    "tpot": "tpot_ms_mean",
    "p99 tpot": "tpot_ms_p99",
    "average inter-token latency": "itl_ms_mean",
    "avg itl": "itl_ms_mean",
    "itl": "itl_ms_mean",
    "output token throughput": "output_tok_s",
    "output throughput": "output_tok_s",
    "throughput(average output tokens per second)": "output_tok_s",
    "gen/s": "output_tok_s",
    "gen. toks/s": "output_tok_s",
    "total token throughput": "total_tok_s",
    "total throughput": "total_tok_s",
    "input throughput": "input_tok_s",
    "throughput(average tokens/s)": "tok_s",
}
_LOAD = {
    "number of concurrency": "concurrency",
    "concurrency": "concurrency",
    "conc.": "concurrency",
    "request rate": "request_rate",
    "rate": "request_rate",
    "total requests": "prompts",
    "num": "prompts",
    "average input tokens per request": "input_len",
    "avg input tokens": "input_len",
    "average output tokens per request": "output_len",
    "avg output tokens": "output_len",
}
_FAMILIES = {"ttft": "ttft_ms", "itl": "itl_ms", "tpot": "tpot_ms", "latency": "e2e_ms"}
_OLD_FAMILIES = {"time to first token": "ttft_ms", "request latency": "e2e_ms"}
_COUNTS = "total / success / failed"
_UNIT = re.compile(r"\s*\((?P<unit>s|ms|req/s|tok/s|reqs?/s|toks?/s)\)$")
_BARS = re.compile(r"[|│┃║]")
_SPOKEN = re.compile(r"^\s*(?P<key>[A-Z][A-Za-z ()-]{2,50}): +(?P<value>\d[\d.]*)(?: seconds)?\s*$")
_SPREAD = re.compile(r"^\s*Percentile of (?P<what>[a-z ]+):\s*$")
_SHARE = re.compile(r"^\s*p(?P<q>\d\d): (?P<value>[\d.]+)\s*$")
_SUMMARY = re.compile(r"Benchmarking summary:|Performance Test Summary Report")


@dataclass(slots=True)
class _Point:
    """One load that was tried."""

    line: int | None = None
    metrics: dict[str, float | None] = field(default_factory=dict)
    load: dict[str, Any] = field(default_factory=dict)
    model: str | None = None

    def add(self, label: str, raw: Any) -> bool:
        """A figure of the summary under its label; whether it is known."""
        bare, seconds = _parted(label)
        value = cells.number(raw)
        if bare == _COUNTS:
            self._count(str(raw))
        elif bare == "result db path":
            self.model = PurePath("".join(str(raw).split())).parent.name or None
        elif value is None:
            return False
        elif bare in _METRICS:
            name = _METRICS[bare]
            self.metrics.setdefault(name, value * (seconds if "_ms_" in name else 1.0))
        elif bare == "request rate" and value < 0:
            self.load["request_rate"] = "inf"
        elif bare in _LOAD:
            self.load.setdefault(_LOAD[bare], cells.whole(raw))
        else:
            return False
        return True

    def _count(self, raw: str) -> None:
        asked, good, bad = ([*map(cells.number, raw.split("/")), None, None, None])[:3]
        self.load |= {} if asked is None else {"prompts": int(asked)}
        self.metrics |= {"completed": good, "failed": bad}

    def add_share(self, label: str, share: str, raw: Any) -> None:
        """A percentile ("99%" or "p99") of a time."""
        bare, seconds = _parted(label)
        base, value = _FAMILIES.get(bare) or _OLD_FAMILIES.get(bare), cells.number(raw)
        if base and value is not None and (found := re.search(r"\d+(?:\.\d+)?", share)):
            self.metrics[f"{base}_p{found[0].replace('.', '_')}"] = value * seconds

    def measurement(self) -> Measurement:
        """The point, with what the oldest releases call by a name that they mean otherwise settled."""
        _settle_rate(self.metrics, self.load)
        rate, gap = self.metrics.get("output_tok_s"), self.metrics.get("tpot_ms_mean")
        if rate and gap and self.load.get("concurrency", 1) != 1 and abs(gap * rate - 1000) < 10:
            del self.metrics["tpot_ms_mean"]  # the time of the whole run over its tokens
        known = {key: value for key, value in self.metrics.items() if value is not None}
        lengths = {key: round(one) for key, one in self.load.items() if key.endswith("_len") and one}
        return Measurement(workload=self.load | lengths, metrics=known, client=_TOOL, line=self.line)


def _parted(label: str) -> tuple[str, float]:
    """(label without its unit, milliseconds in its unit): seconds where none stands."""
    unit = _UNIT.search(label)
    bare = label[: unit.start()] if unit else label
    return " ".join(bare.split()).lower(), 1.0 if unit and unit["unit"] == "ms" else 1e3


def _is_loads(row: list[str]) -> bool:
    return len(row) > 3 and row[0].lower() in ("conc.", "concurrency")


def _settle_rate(metrics: dict[str, float | None], load: Mapping[str, Any]) -> None:
    """Which tokens "average tokens/s" counts is told by their number and the time."""
    rate, done, seconds = (metrics.get(key) for key in ("tok_s", "completed", "duration_s"))
    made, asked = load.get("output_len"), load.get("input_len") or 0
    if rate and done and seconds and made:
        for name, tokens in (("output_tok_s", made), ("total_tok_s", made + asked)):
            if abs(tokens * done / seconds / rate - 1) < 0.02:
                metrics.setdefault(name, metrics.pop("tok_s"))
                return


@dataclass(slots=True)
class _Printout:
    """The points of a console text, gathered line by line."""

    points: list[_Point] = field(default_factory=list)
    header: list[str] = field(default_factory=list)
    above: list[str] = field(default_factory=list)  # the upper half of a header in two lines
    spread: str = ""
    model: str | None = None
    used: int = 0

    def take(self, number: int, text: str) -> None:
        """One line: a row of a table, or a figure in words."""
        row = [cell.strip() for cell in _BARS.split(text.strip())[1:-1]]
        if len(row) > 1:
            self.used += self._row(number, row)
        elif "Benchmarking summary:" in text:
            self.header, self.spread = [], ""
            self.points.append(_Point(line=number))
        elif self.points and not self.header:
            self.used += self._words(text)

    def _row(self, number: int, row: list[str]) -> bool:
        first = row[0].lower()
        if first in ("key", "metric", "percentile", "percentiles") or _is_loads(row):
            upper = self.above if len(self.above) == len(row) else [""] * len(row)
            self.header = [f"{a} {b}".strip() for a, b in zip(upper, row, strict=True)]
            self.above = []
            return True
        if not first:
            self.above = row
            return False
        if _is_loads(self.header):
            return self._add_load(number, row)
        if self.points and self.header:
            return self._add_figure(self.points[-1], row)
        self.model = row[1] if first == "model" and len(row) == 2 else self.model
        return first == "model"

    def _add_figure(self, point: _Point, row: list[str]) -> bool:
        """A row of a load's summary, or of its percentiles, which stand down or across."""
        if self.header[1].lower() == "value":
            return point.add(row[0], row[1])
        down = self.header[0].lower().startswith("percentile")
        for head, raw in zip(self.header[1:], row[1:], strict=False):
            label, share = (head, row[0]) if down else (row[0], head)
            point.add_share(label, share, raw)
        return True

    def _add_load(self, number: int, row: list[str]) -> bool:
        """A row of the overview of several loads."""
        point = _Point(line=number)
        told = [
            point.add(re.sub(r"(?<=\w)\(|(?<=\.)\(", " (", a), b)
            for a, b in zip(self.header, row, strict=False)
        ]
        if point.metrics:
            self.points.append(point)
        return any(told)

    def _words(self, text: str) -> bool:
        spread, share, spoken = _SPREAD.match(text), _SHARE.match(text), _SPOKEN.match(text)
        if spread:
            self.spread = spread["what"].strip()
        elif share:
            self.points[-1].add_share(self.spread, share["q"], share["value"])
        elif spoken:
            return self.points[-1].add(spoken["key"], spoken["value"])
        return bool(spread or share)


@below_pages
@needing("Benchmarking summary:", "Performance Test Summary Report")
def _sniff(source: Source) -> float:
    head = source.head
    labels = re.search(r"Time taken for tests|Test Duration \(s\)|Number of concurrency|Conc\.", head)
    return 0.95 if labels and _SUMMARY.search(head) else 0.0


def _read(source: Source) -> Reading:
    printed, total = _Printout(), 0
    for number, text in source.lines():
        total = number
        printed.take(number, text)
    model = printed.model or next((one.model for one in printed.points if one.model), None)
    lines = LineCount(total=total, understood=printed.used, unknown=max(total - printed.used, 0))
    return _reading(source, "evalscope", printed.points, model, lines=lines)


def _reading(
    source: Source, form: str, points: Iterable[_Point], model: str | None, **fields: Any
) -> Reading:
    told = [one.measurement() for one in points if one.metrics]
    if not told:
        raise Unreadable("EvalScope's output without a figure")
    return benchmark(source, form, [experiment(Facts(model=model), told)], tool=_TOOL, **fields)


_SAVED = re.compile(
    r'\s*(?:\{\s*"(?:Time taken for tests|Test Duration) \(s\)"\s*:\s*[\d.]+,\s*"(?:Number of c|C)oncurrency"'
    r'|\[\s*\{\s*"Percentiles"\s*:\s*"\d+%",\s*"(?:TTFT|Latency) \()'
)


@needing("Time taken for tests", "Test Duration (s)", "Percentiles")
def _sniff_json(source: Source) -> float:
    return 0.95 if _SAVED.match(source.head) else 0.0


def _read_json(source: Source) -> Reading:
    """The summary of a load, or its percentiles."""
    documents = jsontext.load(source)
    points: list[_Point] = []
    spread = _Point()
    for line, one in documents.objects():
        if "Percentiles" in one:
            for label, raw in one.items():
                spread.add_share(label, str(one["Percentiles"]), raw)
            continue
        points.append(_Point(line=line))
        for label, raw in one.items():
            points[-1].add(label, raw)
    return _reading(source, "evalscope_json", [*points, spread], None, problems=documents.problems)


FORMATS = [
    Format(
        name="evalscope",
        kind="benchmark",
        sniff=_sniff,
        read=_read,
        docs=(
            "What `evalscope perf` prints, of every generation: the summary of a load in words, as a grid or "
            "in sections, with the percentiles after it (they are one point), and the overview of several "
            "loads. A time per output token that is the run's time over its tokens is left out."
        ),
    ),
    Format(
        name="evalscope_json",
        kind="benchmark",
        sniff=_sniff_json,
        read=_read_json,
        docs="`benchmark_summary.json` and `benchmark_percentile.json` of `evalscope perf`.",
    ),
]
