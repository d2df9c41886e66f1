"""Load testers of HTTP services: hey, wrk, ApacheBench, k6, vegeta. They count requests and know no tokens.

Owns their summaries. Must not guess which server answered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ingest.bench.identity import Facts, benchmark, experiment
from ingest.bench.sniffing import below_pages, needing
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import LineCount, Measurement, Reading

_N = r"\d+(?:\.\d+)?"
_TIME = r"(?P<v>\d+(?:\.\d+)?)\s*(?P<unit>us|ms|s|m)\b"
_UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "secs": 1e3, "m": 6e4}
_HEY = (
    ("duration_s", 1.0, re.compile(r"^\s*Total:\s+(?P<v>\d+(?:\.\d+)?) secs")),
    ("e2e_ms_max", 1e3, re.compile(r"^\s*Slowest:\s+(?P<v>\d+(?:\.\d+)?) secs")),
    ("e2e_ms_min", 1e3, re.compile(r"^\s*Fastest:\s+(?P<v>\d+(?:\.\d+)?) secs")),
    ("e2e_ms_mean", 1e3, re.compile(r"^\s*Average:\s+(?P<v>\d+(?:\.\d+)?) secs")),
    ("request_s", 1.0, re.compile(r"^\s*Requests/sec:\s+(?P<v>\d+(?:\.\d+)?)")),
    ("completed", 1.0, re.compile(r"^\s*\[200\]\s+(?P<v>\d+) responses")),
)
_AB = (
    ("duration_s", 1.0, re.compile(r"^Time taken for tests:\s+(?P<v>\d+(?:\.\d+)?) seconds")),
    ("completed", 1.0, re.compile(r"^Complete requests:\s+(?P<v>\d+)")),
    ("failed", 1.0, re.compile(r"^Failed requests:\s+(?P<v>\d+)")),
    ("request_s", 1.0, re.compile(r"^Requests per second:\s+(?P<v>\d+(?:\.\d+)?)")),
    ("e2e_ms_mean", 1.0, re.compile(r"^Time per request:\s+(?P<v>\d+(?:\.\d+)?) \[ms\] \(mean\)")),
)
_WRK = (
    ("duration_s", 1.0, re.compile(r"^\s+\d+ requests in (?P<v>\d+(?:\.\d+)?)s,")),
    ("duration_s", 60.0, re.compile(r"^\s+\d+ requests in (?P<v>\d+(?:\.\d+)?)m,")),
    ("completed", 1.0, re.compile(r"^\s+(?P<v>\d+) requests in \d+(?:\.\d+)?m?s?,")),
    ("request_s", 1.0, re.compile(r"^Requests/sec:\s+(?P<v>\d+(?:\.\d+)?)")),
)
_K6 = (
    ("request_s", 1.0, re.compile(r"^\s*http_reqs\.*:\s+\d+\s+(?P<v>\d+(?:\.\d+)?)/s")),
    ("completed", 1.0, re.compile(r"^\s*http_reqs\.*:\s+(?P<v>\d+)\s")),
    ("failed", 1.0, re.compile(r"^\s*http_req_failed\.*:\s+\d+(?:\.\d+)?%\s+[✓✔]?\s*(?P<v>\d+)\b")),
)
_VEGETA = (
    (
        "request_s",
        1.0,
        re.compile(rf"^Requests\s+\[total, rate, throughput\]\s+\d+, {_N}, (?P<v>{_N})"),
    ),
    ("completed", 1.0, re.compile(r"^Status Codes\s+\[code:count\].*?\b200:(?P<v>\d+)")),
)
_SPAN = re.compile(r"(?P<v>\d+(?:\.\d+)?)(?P<unit>h|ms|m|s|µs|us|ns)")
_K6_TREND = re.compile(
    r"^\s*(?P<name>http_req_duration|\w*(?:ttft|time_to_first_token|tpot)\w*)\.*:\s+(?P<rest>avg=.*)"
)
_K6_STAT = re.compile(r"(?P<stat>avg|min|med|max|p\(\d+(?:\.\d+)?\))=(?P<span>[\d.hmsµun]+)")
_VEGETA_TIMES = re.compile(r"^(?:Latencies|Duration)\s+\[(?P<names>[^\]]+)\]\s+(?P<spans>\S.*)")
_VEGETA_RATE = re.compile(
    r"^Requests\s+\[total, rate, throughput\]\s+(?P<total>\d+), (?P<rate>\d+(?:\.\d+)?), "
)
_HEY_SHARE = re.compile(r"^\s*(?P<q>\d{2})%+ in (?P<v>\d+(?:\.\d+)?) secs")
_AB_SHARE = re.compile(r"^\s+(?P<q>\d{2})%\s+(?P<v>\d+)$")
_WRK_SHARE = re.compile(rf"^\s+(?P<q>\d{{2}}(?:\.\d+)?)%\s+{_TIME}\s*$")
_WRK_MEAN = re.compile(rf"^\s+Latency\s+{_TIME}\s+(?P<std>\d+(?:\.\d+)?)(?P<stdunit>us|ms|s|m)\s")
_WRK_ERRORS = re.compile(r"^\s+Socket errors: (?P<counts>connect \d.*)")
_WIDTHS = (
    re.compile(r"^\s*vus_max\.*:\s+(?P<n>\d{1,9})"),
    re.compile(r"^Concurrency Level:\s+(?P<n>\d{1,9})"),
    re.compile(r"^\s*\d+ threads and (?P<n>\d{1,9}) connections"),
)
_STARTS = (
    ("hey", re.compile(r"^Summary:\s*$"), _HEY),
    ("ab", re.compile(r"^This is ApacheBench|^Server Software:"), _AB),
    ("wrk", re.compile(r"^Running \d+\w+ test @ \S+"), _WRK),
    ("k6", re.compile(r"^\s*(?:execution: (?:local|cloud)|(?:data_received|http_req_\w+)\.*:)"), _K6),
    ("vegeta", re.compile(r"^Requests\s+\[total, rate, throughput\]"), _VEGETA),
)


@below_pages
@needing("Requests/sec:", "Requests per second:", "http_req_duration", "[total, rate, throughput]")
def _sniff(source: Source) -> float:
    lines = source.head.split("\n")
    return 0.9 if any(start.match(line) for _, start, _ in _STARTS for line in lines) else 0.0


def _read(source: Source) -> Reading:
    lines = [(number, text) for number, text in source.lines()]
    found = [_point(tool, part) for tool, part in _parts(lines)]
    points = [one for one in found if one.metrics]
    if not points:
        raise Unreadable("no summary of a load test in the text")
    used = sum(len(one.metrics) for one in points)
    return benchmark(
        source,
        "http_load",
        [experiment(Facts(), points)],
        tool=points[0].client,
        lines=LineCount(total=len(lines), understood=used, unknown=max(len(lines) - used, 0)),
    )


def _parts(lines: list[tuple[int, str]]) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    """(tool, lines) of each summary."""
    tool, part = "", list[tuple[int, str]]()
    for number, text in lines:
        began = next((name for name, start, _ in _STARTS if start.match(text)), "")
        if began and not (
            began == tool == "k6" or (began == tool == "ab" and len(part) < 12)
        ):  # banners above
            if tool:
                yield tool, part
            tool, part = began, []
        part.append((number, text))
    if tool:
        yield tool, part


def _point(tool: str, part: list[tuple[int, str]]) -> Measurement:
    patterns = next(found for name, _, found in _STARTS if name == tool)
    metrics: dict[str, float | None] = {}
    load: dict[str, Any] = {}
    for _, text in part:
        for name, factor, pattern in patterns:
            if (found := pattern.match(text)) and name not in metrics:
                metrics[name] = float(found["v"]) * factor
        metrics = _spread(tool, text) | metrics
        if width := next((one for pattern in _WIDTHS if (one := pattern.match(text))), None):
            load["concurrency"] = int(width["n"])
        if tool == "vegeta" and (asked := _VEGETA_RATE.match(text)):
            load |= {"request_rate": float(asked["rate"]), "prompts": int(asked["total"])}
    _settle_counts(tool, metrics, load)
    return Measurement(workload=load, metrics=metrics, client=tool, line=part[0][0])


def _settle_counts(tool: str, metrics: dict[str, float | None], load: dict[str, Any]) -> None:
    """k6 counts failed requests among all; vegeta tells them by what is missing."""
    done, bad = metrics.get("completed"), metrics.get("failed")
    if tool == "k6" and done is not None and bad:
        metrics["completed"] = done - bad
    if tool == "vegeta" and "prompts" in load:
        metrics["completed"] = done or 0.0
        metrics["failed"] = load["prompts"] - (done or 0.0)


def _spread(tool: str, text: str) -> dict[str, float | None]:
    """Statistics of the latency that a line tells."""
    if tool == "wrk" and (bad := _WRK_ERRORS.match(text)):
        return {"failed": float(sum(map(int, re.findall(r"\d+", bad["counts"]))))}
    if tool == "wrk" and (mean := _WRK_MEAN.match(text)):
        return (
            {}
            if not float(mean["v"])
            else {
                "e2e_ms_mean": float(mean["v"]) * _UNITS[mean["unit"]],
                "e2e_ms_std": float(mean["std"]) * _UNITS[mean["stdunit"]],
            }
        )
    if tool == "k6":
        return _trend(text)
    if tool == "vegeta":
        return _named_times(text)
    pattern = {"hey": _HEY_SHARE, "ab": _AB_SHARE, "wrk": _WRK_SHARE}[tool]
    found = pattern.match(text)
    if not found:
        return {}
    unit = {"hey": "secs", "ab": "ms"}.get(tool) or found["unit"]
    share = found["q"].rstrip("0").rstrip(".") if "." in found["q"] else found["q"]
    return {f"e2e_ms_p{share.replace('.', '_')}": float(found["v"]) * _UNITS[unit]}


_STATS = {"avg": "mean", "mean": "mean", "med": "p50", "min": "min", "max": "max"}
_MILLISECONDS = {"h": 36e5, "m": 6e4, "s": 1e3, "ms": 1.0, "us": 1e-3, "µs": 1e-3, "ns": 1e-6}


def _milliseconds(span: str) -> float:
    """A time as Go prints it: ``1m2.5s``, ``430.399ms``."""
    return sum(float(one["v"]) * _MILLISECONDS[one["unit"]] for one in _SPAN.finditer(span))


def _trend(text: str) -> dict[str, float | None]:
    """A trend of k6: of whole requests, or of a script's own metric that says what it times."""
    found = _K6_TREND.match(text)
    if not found:
        return {}
    name = found["name"]
    base = "e2e_ms" if name == "http_req_duration" else "tpot_ms" if "tpot" in name else "ttft_ms"
    told = {one["stat"]: one["span"] for one in _K6_STAT.finditer(found["rest"])}
    if base != "e2e_ms" and not all(_SPAN.search(span) for span in told.values()):
        return {}  # a number without a unit
    return {
        f"{base}_{_STATS.get(stat) or 'p' + stat[2:-1].replace('.', '_')}": _milliseconds(span)
        for stat, span in told.items()
    }


def _named_times(text: str) -> dict[str, float | None]:
    """A line of vegeta: names in brackets, times in the same order."""
    found = _VEGETA_TIMES.match(text)
    if not found:
        return {}
    told = dict(zip(found["names"].split(", "), found["spans"].split(", "), strict=False))
    if text.startswith("Duration"):
        return {"duration_s": _milliseconds(told.get("total", "")) / 1e3}
    return {f"e2e_ms_{_STATS.get(name) or f'p{name}'}": _milliseconds(span) for name, span in told.items()}


FORMAT = Format(
    name="http_load",
    kind="benchmark",
    sniff=_sniff,
    read=_read,
    version=2,
    docs=(
        "The summaries of hey, wrk, ApacheBench, k6 and vegeta: requests per second, their number, the time "
        "of the run, and the latencies of whole requests. Which model answered, they do not say."
    ),
)
