"""Output of tools that Markdown pages quote: the page reader has the page, the tool's format the quotation.

Owns who reads what. Must not know any tool by name.
"""

from __future__ import annotations

from dataclasses import replace

from ingest.formats import Unreadable, all_formats
from ingest.sources import Source
from kb.model import Experiment, Problem

_SHORTEST = 40


def read_quoted(
    source: Source, text: str, line: int, least: float
) -> tuple[tuple[Experiment, ...], tuple[Problem, ...]]:
    """What a quoted block tells as the output of a benchmark; ``line`` is where its first line stands.

    A format must be as sure of it as ``least``.
    """
    if len(text) < _SHORTEST or not any(letter.isdecimal() for letter in text):
        return (), ()
    inner = Source(source.path, raw=text.encode(), name="quoted.txt")
    sure, form = max(
        ((one.sniff(inner), one) for one in all_formats() if one.kind == "benchmark"),
        key=lambda pair: pair[0],
    )
    if sure < least:
        return (), ()
    try:
        found = form.read(inner)
    except Unreadable:
        return (), ()
    problems = (Problem(line=(one.line or 1) + line - 1, what=one.what) for one in found.problems)
    experiments = tuple(_moved(one, line - 1) for one in found.experiments)
    return experiments, tuple(problems) if experiments else ()


def _moved(experiment: Experiment, lines: int) -> Experiment:
    points = (
        replace(point, line=point.line + lines) if point.line is not None else point
        for point in experiment.measurements
    )
    return replace(experiment, measurements=tuple(points))
