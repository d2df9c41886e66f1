"""DCGM: ``dcgmi dmon`` tables and ``dcgmi discovery -l``.

Owns both. The exporter's metrics are read by prometheus_gpu.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ingest.formats import Format, Unreadable
from ingest.gpu_columns import Column, recognise_column
from ingest.gpu_count import summarise
from ingest.gpu_csv import TraceLayout, find_table
from ingest.machine import hardware
from ingest.sources import Source
from ingest.traces import line_count, summary_reading, trace_reading
from kb.model import Reading

_HEADER = re.compile(r"^#\s*Entity\s+(\S.*?)\s*$", re.MULTILINE)
_ENTITY = re.compile(r"^[ \t]*(GPU(?:-I)?|GPU-CI|CPU|Switch|Link)[ :](\S+)", re.MULTILINE)
_ID_LINE = re.compile(r"^[ \t]*ID\b.*$", re.MULTILINE)
_CARD = re.compile(r"^\|\s*(\d+)\s*\|\s*Name:\s*(.+?)\s*\|\s*$", re.MULTILINE)


def sniff_dmon(source: Source) -> float:
    """The names line that starts with Entity, with a field that is known or the units below it."""
    found = _layout(source.head)
    return 0.97 if found and (found.metrics() or _ID_LINE.search(source.head)) else 0.0


def read_dmon(source: Source) -> Reading:
    """Samples of every GPU; rows of other entities (switches, links) are left out."""
    table = find_table(source, _layout)
    if table is None:
        raise Unreadable("no names line of dcgmi dmon was found")
    found, lines = table
    summary = summarise(_joined(lines), found, source.samples)
    names = [one.name for one in found.columns]
    return summary_reading(str(source.path), "dcgmi_dmon", "dcgmi", summary, names)


def sniff_discovery(source: Source) -> float:
    """The heading of the listing."""
    return (
        0.95
        if re.search(r"^\d+ GPUs? found\.", source.head, re.MULTILINE) and _CARD.search(source.head)
        else 0.0
    )


def read_discovery(source: Source) -> Reading:
    """Products and their count."""
    names = [card[2] for card in _CARD.finditer(source.text)]
    return trace_reading(
        str(source.path),
        "dcgmi_discovery",
        None,
        hardware(names, count=len(names)),
        tool="dcgmi",
        lines=line_count(source.text.count("\n")),
        extra={"gpus": names},
    )


def _layout(head: str) -> TraceLayout | None:
    found = _HEADER.search(head)
    if found is None:
        return None
    columns = tuple(_column(name) for name in ["entity", *found[1].split()])
    header = found[0].rstrip()
    return TraceLayout(columns, "", ".", header, head[: found.start()].count("\n") + 1)


def _column(name: str) -> Column:
    column = recognise_column(name)
    # These fields are bytes a second; nvidia-smi's of the same name are megabytes.
    return replace(column, factor=1e-6) if column.role.startswith("pcie_") else column


def _joined(texts: Iterable[str]) -> Iterator[str]:
    """Rows with the two words of the entity as one, and without the line of units that a header repeats."""
    for text in texts:
        yield _ENTITY.sub(r"\1\2", _ID_LINE.sub("", text))


FORMATS = [
    Format(
        name="dcgmi_dmon",
        kind="trace",
        version=4,
        sniff=sniff_dmon,
        read=read_dmon,
        docs="Output of `dcgmi dmon -e …`: any fields, the header repeated, cards in any order.",
    ),
    Format(
        name="dcgmi_discovery",
        kind="trace",
        sniff=sniff_discovery,
        read=read_discovery,
        docs="Output of `dcgmi discovery -l`: products and their count.",
    ),
]
