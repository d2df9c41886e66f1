"""SGLang's accuracy scripts: GSM8K and MMLU few-shot, ``run_eval``, and their ``result.jsonl``.

Owns their few printed lines. Scores are fractions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ingest.bench import cells, jsontext, printed
from ingest.bench.identity import Facts, benchmark, experiment, grouped
from ingest.bench.sniffing import below_pages, needing
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import LineCount, Measurement, Reading

_TOOL = "sglang accuracy test"
_SUBJECT = re.compile(r"^subject: (?P<name>.+?), #q:(?P<n>\d+), acc: (?P<v>\d+(?:\.\d+)?)")
_SCORED = re.compile(
    r"^(?:(?:Average a|A)ccuracy|Score): [01](?:\.\d+)?\s*$|^Repeat: \d+, mean: ", re.MULTILINE
)
_TIMED = re.compile(
    r"^(?:Total l|Mean l|L)atency: [\d.]+|^Output throughput: [\d.]+ token/s|^subject: ", re.MULTILINE
)


@below_pages
@needing("ccuracy: ", "Score: ", "Repeat: ")
def _sniff(source: Source) -> float:
    head = source.head
    return 0.88 if _SCORED.search(head) and _TIMED.search(head) else 0.0


def _read(source: Source) -> Reading:
    points: list[Measurement] = []
    metrics: dict[str, float | None] = {}
    total, used, first = 0, 0, None
    for number, text in source.lines():
        total, subject, row = number, _SUBJECT.match(text.strip()), printed.score_row(text.strip())
        used += bool(subject or row)
        if subject:
            points.append(_subject(subject, number))
        elif row:
            if row[0] in metrics:
                points.append(Measurement(metrics=metrics, client=_TOOL, line=first))
                metrics, first = {}, None
            first = first or number
            metrics[row[0]] = row[1]
    load = {"test": "mmlu"} if any(point.workload for point in points) else {}  # the average of subjects
    points += [Measurement(workload=load, metrics=metrics, client=_TOOL, line=first)] if metrics else []
    if not any("accuracy" in point.metrics for point in points):
        raise Unreadable("no score in the output")
    count = LineCount(total=total, understood=used, unknown=total - used)
    return benchmark(source, "sglang_accuracy", [experiment(Facts(), points)], tool=_TOOL, lines=count)


def _subject(found: re.Match[str], line: int) -> Measurement:
    load = {"test": f"mmlu {found['name']}", "prompts": int(found["n"])}
    return Measurement(workload=load, metrics={"accuracy": float(found["v"])}, client=_TOOL, line=line)


def _sniff_json(source: Source) -> float:
    if not jsontext.looks_like_json(source.head):
        return 0.0
    return (
        0.95 if {"task", "accuracy", "latency", "num_requests"} <= jsontext.outer_keys(source.head) else 0.0
    )


def _read_json(source: Source) -> Reading:
    documents = jsontext.load(source)
    pairs = [(_facts(one), _point(one, line)) for line, one in documents.objects() if "accuracy" in one]
    if not pairs:
        raise Unreadable("no object with an accuracy among the JSON lines")
    return benchmark(source, "sglang_accuracy_jsonl", grouped(pairs), tool=_TOOL, problems=documents.problems)


def _facts(row: Mapping[str, Any]) -> Facts:
    count = cells.number(row.get("num_gpus"))
    engine = "sglang" if str(row.get("backend")).startswith("srt") else None  # by its runtime's name
    return Facts(engine=engine, gpu_count=int(count) if count else None)


def _point(row: Mapping[str, Any], line: int) -> Measurement:
    keys = {"accuracy": "accuracy", "latency": "duration_s", "throughput": "output_tok_s"}
    metrics = {name: cells.number(row.get(key)) for key, name in keys.items()}
    other = row.get("other")
    width = other.get("parallel") if isinstance(other, Mapping) else None
    load = {"test": row.get("task"), "prompts": row.get("num_requests"), "concurrency": width}
    return Measurement(
        workload={key: value for key, value in load.items() if value is not None},
        metrics={key: value for key, value in metrics.items() if value is not None},
        client=_TOOL,
        line=line,
    )


FORMATS = [
    Format(
        name="sglang_accuracy",
        kind="benchmark",
        version=2,
        sniff=_sniff,
        read=_read,
        docs=(
            "What SGLang's accuracy scripts print (GSM8K few-shot, MMLU by subject, `run_eval` with "
            "repeats): scores as fractions, with latency and output rate where they stand."
        ),
    ),
    Format(
        name="sglang_accuracy_jsonl",
        kind="benchmark",
        version=2,
        sniff=_sniff_json,
        read=_read_json,
        docs=(
            "`result.jsonl` of SGLang's accuracy scripts: a line per run with task, accuracy, latency and "
            "requests."
        ),
    ),
]
