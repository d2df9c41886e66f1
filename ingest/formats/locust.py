"""Locust's statistics as CSV: requests to each path of a server, which count no tokens.

Owns its columns, whose times are milliseconds and whose requests count the failed ones too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ingest.bench import cells, tables
from ingest.bench.identity import Facts, benchmark, experiment
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import LineCount, Measurement, Problem, Reading

_TOOL = "locust"
_TOTALS = ("Aggregated", "Total")
_HEAD = re.compile(r'\ufeff?"?(?:Type|Method)"?,"?Name"?,"?(?:Request Count|# ?[Rr]equests)"?,')
_HISTORY = re.compile(r'\ufeff?"?Timestamp"?,"?User Count"?,"?Type"?,"?Name"?,')
_FIGURES = {
    "median response time": "e2e_ms_p50",
    "average response time": "e2e_ms_mean",
    "min response time": "e2e_ms_min",
    "max response time": "e2e_ms_max",
    "requests/s": "request_s",
    "50%": "e2e_ms_p50",
}
_SHARE = re.compile(r"(?P<q>\d{2}(?:\.\d+)?)%")


def _sniff(source: Source) -> float:
    return 0.96 if _HEAD.match(source.head) or _HISTORY.match(source.head) else 0.0


def _read(source: Source) -> Reading:
    if _HISTORY.match(source.head):
        raise Unreadable("Locust's history, second by second: its totals stand in the file beside it")
    table = [row for row in tables.delimited(source.text.lstrip("\ufeff")) if row]
    if not table:
        raise Unreadable("no row of the table can be told apart")
    header = [label.strip() for label in table[0]]
    whole = [row if len(row) >= len(header) else row[:-1] for row in table[1:]]  # a cut row ends in a part
    rows = [(line, dict(zip(header, row, strict=False))) for line, row in enumerate(whole, 2)]
    paths = [one for one in rows if one[1].get("Name") not in _TOTALS]
    points = [_point(row, line) for line, row in (paths if len(paths) == 1 else rows)]
    done = [point for point in points if point.metrics.get("completed")]
    if not done:
        raise Unreadable("no request of the test was answered")
    failed = [one for one in points if one not in done]
    return benchmark(
        source,
        "locust_csv",
        [experiment(Facts(), done)],
        tool=_TOOL,
        rows=len(rows),
        problems=[Problem(line=one.line, what="no request of this row was answered") for one in failed],
        lines=LineCount(total=len(table), understood=len(table)),
    )


def _point(row: Mapping[str, str], line: int) -> Measurement:
    metrics: dict[str, float | None] = {}
    sent = bad = 0.0
    for label, raw in row.items():
        name, value = label.lower(), cells.number(raw)
        if value is None:
            continue
        if name in ("request count", "# requests", "#requests"):
            sent = value
        elif name in ("failure count", "# failures", "#failures"):
            bad = value
        elif name in _FIGURES:
            metrics.setdefault(_FIGURES[name], value)
        elif share := _SHARE.fullmatch(name):
            metrics[f"e2e_ms_p{share['q'].replace('.', '_')}"] = value
    metrics |= {"completed": sent - bad, "failed": bad}
    load = {
        "test": " ".join(part for part in (row.get("Type") or row.get("Method"), row.get("Name")) if part)
    }
    return Measurement(workload=load, metrics=metrics, client=_TOOL, line=line)


FORMAT = Format(
    name="locust_csv",
    kind="benchmark",
    version=2,
    sniff=_sniff,
    read=_read,
    docs=(
        "The `…_stats.csv` of Locust: a point per path, and the total where there are several. Times are "
        "those of whole requests; `Request Count` holds the failed ones too. Which model answered, it "
        "does not say; the history that lies beside it is refused."
    ),
)
