"""Load testers of HTTP services: hey, wrk, k6 and ApacheBench. They count requests, and know no tokens.

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

_TIME = r"(?P<v>\d+(?:\.\d+)?)\s*(?P<unit>us|ms|s|m)\b"
_UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "secs": 1e3, "m": 6e4}
_HEY = (
    ("duration_s", 1.0, re.compile(r"^\s*Total:\s+(?P<v>[\d.]+) secs")),
    ("e2e_ms_max", 1e3, re.compile(r"^\s*Slowest:\s+(?P<v>[\d.]+) secs")),
    ("e2e_ms_min", 1e3, re.compile(r"^\s*Fastest:\s+(?P<v>[\d.]+) secs")),
    ("e2e_ms_mean", 1e3, re.compile(r"^\s*Average:\s+(?P<v>[\d.]+) secs")),
    ("request_s", 1.0, re.compile(r"^\s*Requests/sec:\s+(?P<v>[\d.]+)")),
    ("completed", 1.0, re.compile(r"^\s*\[200\]\s+(?P<v>\d+) responses")),
)
_AB = (
    ("duration_s", 1.0, re.compile(r"^Time taken for tests:\s+(?P<v>[\d.]+) seconds")),
    ("completed", 1.0, re.compile(r"^Complete requests:\s+(?P<v>\d+)")),
    ("failed", 1.0, re.compile(r"^Failed requests:\s+(?P<v>\d+)")),
    ("request_s", 1.0, re.compile(r"^Requests per second:\s+(?P<v>[\d.]+)")),
    ("e2e_ms_mean", 1.0, re.compile(r"^Time per request:\s+(?P<v>[\d.]+) \[ms\] \(mean\)")),
)
_WRK = (
    ("duration_s", 1.0, re.compile(r"^\s+\d+ requests in (?P<v>[\d.]+)s,")),
    ("completed", 1.0, re.compile(r"^\s+(?P<v>\d+) requests in [\d.]+m?s,")),
    ("request_s", 1.0, re.compile(r"^Requests/sec:\s+(?P<v>[\d.]+)")),
)
_K6 = (
    ("request_s", 1.0, re.compile(r"^\s*http_reqs\.*:\s+\d+\s+(?P<v>[\d.]+)/s")),
    ("completed", 1.0, re.compile(r"^\s*http_reqs\.*:\s+(?P<v>\d+)\s")),
)
_K6_TIMES = re.compile(r"^\s*http_req_duration\.*:\s+(?P<told>avg=.*)")
_K6_TIME = re.compile(r"(?P<stat>avg|min|med|max|p\(\d{2}\))=(?P<v>[\d.]+)(?P<unit>µs|ms|s)\b")
_K6_STATS = {"avg": "mean", "med": "p50", "min": "min", "max": "max"}
_HEY_SHARE = re.compile(r"^\s*(?P<q>\d{2})%+ in (?P<v>[\d.]+) secs")
_AB_SHARE = re.compile(r"^\s+(?P<q>\d{2})%\s+(?P<v>\d+)$")
_WRK_SHARE = re.compile(rf"^\s+(?P<q>\d{{2}}(?:\.\d+)?)%\s+{_TIME}\s*$")
_WRK_MEAN = re.compile(rf"^\s+Latency\s+{_TIME}\s+(?P<std>[\d.]+)(?P<stdunit>us|ms|s|m)\s")
_WIDTHS = (
    re.compile(r"^Concurrency Level:\s+(?P<n>\d+)"),
    re.compile(r"^\s*\d+ threads and (?P<n>\d+) connections"),
    re.compile(r"^\s*vus_max\.*:\s+(?P<n>\d+)"),
)
_STARTS = (
    ("hey", re.compile(r"^Summary:\s*$"), _HEY),
    ("ab", re.compile(r"^This is ApacheBench|^Server Software:"), _AB),
    ("wrk", re.compile(r"^Running \d+\w+ test @ \S+"), _WRK),
    ("k6", re.compile(r"^\s*http_req_duration\.*:\s+avg="), _K6),
)


@below_pages
@needing("Requests/sec:", "Requests per second:", "http_req_duration")
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
        if began and not (began == tool == "ab" and len(part) < 12):  # its banner stands above its table
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
    return Measurement(workload=load, metrics=metrics, client=tool, line=part[0][0])


def _spread(tool: str, text: str) -> dict[str, float | None]:
    """Statistics of the latency that a line tells."""
    if tool == "k6":
        times = _K6_TIMES.match(text)
        return {
            _k6_name(one["stat"]): _k6_ms(one) for one in _K6_TIME.finditer(times["told"] if times else "")
        }
    if tool == "wrk" and (mean := _WRK_MEAN.match(text)):
        return {
            "e2e_ms_mean": float(mean["v"]) * _UNITS[mean["unit"]],
            "e2e_ms_std": float(mean["std"]) * _UNITS[mean["stdunit"]],
        }
    pattern = {"hey": _HEY_SHARE, "ab": _AB_SHARE, "wrk": _WRK_SHARE}[tool]
    found = pattern.match(text)
    if not found:
        return {}
    unit = {"hey": "secs", "ab": "ms"}.get(tool) or found["unit"]
    share = found["q"].rstrip("0").rstrip(".") if "." in found["q"] else found["q"]
    return {f"e2e_ms_p{share.replace('.', '_')}": float(found["v"]) * _UNITS[unit]}


def _k6_name(stat: str) -> str:
    return f"e2e_ms_{_K6_STATS.get(stat) or stat.replace('(', '').replace(')', '')}"


def _k6_ms(found: re.Match[str]) -> float:
    return float(found["v"]) * _UNITS[found["unit"].replace("µ", "u")]


FORMAT = Format(
    name="http_load",
    kind="benchmark",
    sniff=_sniff,
    read=_read,
    docs=(
        "The summaries of hey, wrk, k6 and ApacheBench: requests per second, their number, the time of the "
        "run, and the latencies of whole requests. Which model answered, they do not say."
    ),
)
