"""Kernel tuning tables: shapes of matrix products (CSV) and tuned Triton MoE configurations (JSON).

Owns their marks. They hold no serving result: what is told is which GPU and shapes they were tuned for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ingest.bench import jsontext, tables
from ingest.bench.identity import Facts, benchmark, experiment
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import LineCount, Reading

_DEVICE = re.compile(r"device_name=(?P<name>[^,]+?)(?:,|\.json|$)")
_SHAPE = re.compile(r"(?P<key>E|N|dtype)=(?P<value>[^,]+?)(?:,|\.json|$)")


def _tuning_header(source: Source) -> list[str]:
    return [cell.strip().lower() for cell in source.head.split("\n", 1)[0].lstrip("\ufeff").split(",")]


def _sniff_tuning(source: Source) -> float:
    return 0.9 if {"m", "n", "k"} <= set(_tuning_header(source)) else 0.0


def _read_tuning(source: Source) -> Reading:
    """Shapes and chosen kernels of matrix products: counted and summed up, no points."""
    rows = [row for row in tables.delimited(source.text) if any(cell.strip() for cell in row)]
    header = [cell.strip() for cell in rows[0]]
    return benchmark(
        source,
        "gemm_tuning_csv",
        [],
        kind="config",
        lines=LineCount(total=len(rows), understood=len(rows)),
        rows=len(rows) - 1,
        extra={"columns": header} | dict(_distinct(header, rows[1:])),
    )


def _distinct(header: list[str], rows: list[list[str]]) -> Iterable[tuple[str, Any]]:
    for index, name in enumerate(header):
        if name.lower() in ("libtype", "indtype", "outdtype", "dtype"):
            yield name, sorted({_cell(row, index) for row in rows})


def _cell(row: list[str], index: int) -> str:
    return row[index].strip() if index < len(row) else ""


def _sniff_moe(source: Source) -> float:
    head = source.head
    return (
        0.9 if jsontext.looks_like_json(head) and '"BLOCK_SIZE_M"' in head and '"num_warps"' in head else 0.0
    )


def _read_moe(source: Source) -> Reading:
    """The configurations' batch sizes; GPU, experts and width from the file's name or its own fields."""
    documents = jsontext.load(source)
    told = documents.first
    if not isinstance(told, Mapping):
        raise Unreadable("the tuning file is not a JSON object")
    device = _DEVICE.search(source.name)
    name = str(told.get("device_name") or (device["name"] if device else "")).replace("_", " ")
    shape = {found["key"]: found["value"] for found in _SHAPE.finditer(source.name)}
    sizes = [int(key) for key in told if key.isdigit()]
    return benchmark(
        source,
        "moe_tuning_json",
        [experiment(Facts(gpu=name or None), [])],
        kind="config",
        problems=documents.problems,
        extra=shape | {"batch_sizes": sizes or told.get("batch_sizes")},
    )


FORMATS = [
    Format(
        name="gemm_tuning_csv",
        kind="config",
        sniff=_sniff_tuning,
        read=_read_tuning,
        docs=(
            "Shape and tuning tables of matrix products (`M,N,K,…`): rows are counted and the libraries "
            "and types listed; they hold no serving result."
        ),
    ),
    Format(
        name="moe_tuning_json",
        kind="config",
        sniff=_sniff_moe,
        read=_read_moe,
        docs=(
            "Tuned Triton MoE configurations (`E=…,N=…,device_name=….json`): the GPU and shape that they "
            "were tuned for, and the batch sizes."
        ),
    ),
]
