"""Kernel tuning tables: shapes of matrix products or of layers of experts, and their kernels (CSV).

Owns their marks. They hold no serving result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ingest.bench import tables
from ingest.bench.identity import benchmark
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import LineCount, Reading

_SHAPES = (  # of a matrix product, a layer of experts, a linear layer; a list of kernels
    {"m", "n", "k"},
    {"token", "model_dim", "inter_dim"},
    {"infeatures", "outfeatures"},
    {"in_features", "out_features"},
    {"knl_name", "co_name"},
)


def _tuning_header(source: Source) -> list[str]:
    return [cell.strip().lower() for cell in source.head.split("\n", 1)[0].lstrip("\ufeff").split(",")]


def _sniff_tuning(source: Source) -> float:
    if source.head.startswith("Validator,") and "TunableOp" in source.head:
        return 0.9
    header = set(_tuning_header(source))
    return 0.9 if any(shape <= header for shape in _SHAPES) else 0.0


def _read_tuning(source: Source) -> Reading:
    """Shapes and chosen kernels of matrix products: counted and summed up, no points."""
    rows = [row for row in tables.delimited(source.text) if any(cell.strip() for cell in row)]
    if not rows:
        raise Unreadable("the table is empty")
    header = [cell.strip() for cell in rows[0]]
    if header[0] == "Validator":
        return _tunable(source, rows)
    return benchmark(
        source,
        "gemm_tuning_csv",
        [],
        kind="config",
        lines=LineCount(total=len(rows), understood=len(rows)),
        rows=len(rows) - 1,
        extra={"columns": header} | dict(_distinct(header, rows[1:])),
    )


def _tunable(source: Source, rows: list[list[str]]) -> Reading:
    """PyTorch's TunableOp: what it was tuned with, and how many products; it has no header."""
    validators = {row[1]: ",".join(row[2:]) for row in rows if row[0] == "Validator" and len(row) > 2}
    solutions = [row for row in rows if row[0] != "Validator"]
    return benchmark(
        source,
        "gemm_tuning_csv",
        [],
        kind="config",
        lines=LineCount(total=len(rows), understood=len(rows)),
        rows=len(solutions),
        extra={"validators": validators, "operations": sorted({row[0] for row in solutions})},
    )


def _distinct(header: list[str], rows: list[list[str]]) -> Iterable[tuple[str, Any]]:
    for index, name in enumerate(header):
        if name.lower() == "libtype" or "dtype" in name.lower():
            yield name, sorted({_cell(row, index) for row in rows})


def _cell(row: list[str], index: int) -> str:
    return row[index].strip() if index < len(row) else ""


FORMATS = [
    Format(
        name="gemm_tuning_csv",
        kind="config",
        sniff=_sniff_tuning,
        read=_read_tuning,
        version=3,
        docs=(
            "Shape and tuning tables of matrix products (`M,N,K,…`), of linear layers and of fused layers "
            "of experts (`token,model_dim,inter_dim,expert,topk,…`): rows are counted and the libraries and "
            "types listed (PyTorch's TunableOp files too); they hold no serving result, whatever rate a "
            "layer reaches."
        ),
    ),
]
