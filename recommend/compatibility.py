"""Which kernel works where: one cell for each architecture, role, weight quantization and kernel.

Owns how records (and the kernels' own requirements) become a cell's state. Versions are those of the newest
releases: what was fixed says since when. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kb.model import Hardware
from kb.vocab import engines
from recommend import requirements
from recommend.dimensions import DIMENSIONS
from recommend.findings import other_side, trust_of
from recommend.question import Query, Resolution

Json = Mapping[str, Any]
STATES = ("works", "since", "limits", "disputed", "broken", "no code", "unknown")
ARCHS = ("sm120", "sm121", "sm100", "sm103", "sm90", "sm89", "sm86", "sm80", "sm75", "gfx942", "gfx950")
ROWS: tuple[tuple[str, str | None], ...] = (
    ("moe", "nvfp4"),
    ("moe", "mxfp4"),
    ("moe", "fp8"),
    ("moe", "bf16"),
    ("gemm.fp4", "nvfp4"),
    ("gemm.fp8", "fp8"),
    ("attention.prefill", None),
    ("attention.decode", None),
    ("mla", None),
    ("dsa.prefill", None),
    ("dsa.decode", None),
    ("allreduce", None),
)
_SHAPE = ("arch", "roles", "weight_quantization")


@dataclass(frozen=True, slots=True)
class Cell:
    """One kernel in one row: its state, since when (where a fix is known), and the records behind it."""

    arch: str
    role: str
    quantization: str | None
    kernel: str
    state: str
    since: str | None = None
    records: tuple[str, ...] = ()


def cells(records: Sequence[Json], archs: Iterable[str] = ARCHS) -> Iterator[Cell]:
    """Every cell, row by row."""
    for arch in archs:
        for role, quantization in ROWS:
            for kernel in engines.kernels()["roles"][role]:
                yield cell(records, arch, role, quantization, kernel)


def cell(records: Iterable[Json], arch: str, role: str, quantization: str | None, kernel: str) -> Cell:
    """What records say of a kernel in a role, on an architecture, with a weight quantization."""
    query = Query(
        hardware=Hardware(arch=arch), resolved={role: Resolution(kernel, "said")}, quantization=quantization
    )
    spoken = [(record, how) for record in records if (how := _speaks(record, query))]
    good = [record for record, how in spoken if record["good"] and how == "all"]
    bad = [record for record, how in spoken if not record["good"]]
    plain = [record for record, how in spoken if not record["good"] and how == "all"]
    names = tuple(dict.fromkeys(record["id"] for record in (*plain, *good, *bad)))
    state, since = _state(good, plain, bad)
    if state == "unknown" and any(requirements.unmet(query, ())):
        state = "no code"
    return Cell(arch, role, quantization, kernel, state, since, names)


def _state(good: list[Json], plain: list[Json], bad: list[Json]) -> tuple[str, str | None]:
    open_ones = [record for record in plain if not _fix(record)]
    weighty = [record for record in open_ones if trust_of(record) != "inferred"]
    if open_ones and (good or any(other_side(record) for record in open_ones)):
        return "disputed", None
    if weighty or open_ones:
        return "broken", None
    since = next((fix for record in plain if (fix := _fix(record))), None)
    if since:
        return "since", since
    if good:
        return ("limits" if bad else "works"), _begin(good[0])
    return ("limits" if bad else "unknown"), None


def _speaks(record: Json, query: Query) -> str | None:
    """``all`` where a match names nothing but architecture, role and weights; ``part`` where more."""
    told = None
    for alternative in record["matches"]:
        rows = alternative["when"]
        shape = [row for row in rows if row[0] in _SHAPE and (row[0] != "roles" or _about(row, query))]
        if not any(name == "roles" for name, _, _ in shape):
            continue
        if all(_holds(row, query, alternative["mirror"]) for row in shape):
            whole = len(shape) == len(rows) and "divides" not in alternative
            told = "all" if whole or told == "all" else "part"
    return told


def _about(row: Sequence[Any], query: Query) -> bool:
    """Whether a condition on roles names kernels of the cell's own role."""
    return "any" in row[2] and any(role in query.resolved for role in engines.role_names(row[1]))


def _holds(row: Sequence[Any], query: Query, mirror: Sequence[str]) -> bool:
    name, key, condition = row
    if name == "arch" and query.arch in mirror:
        return True
    if name == "weight_quantization" and query.quantization is None:
        return False
    return DIMENSIONS[name](query, key, condition).truth is True


def _fix(record: Json) -> str | None:
    for component, rows in record["ranges"].items():
        for row in rows:
            fix = row.get("fixed") or (row.get("fixed_between") or (None, None))[1]
            if fix and "reintroduced" not in row:
                return f"{component} {fix}"
            if row.get("last_affected"):
                return f"after {component} {row['last_affected']}"
    return None


def _begin(record: Json) -> str | None:
    for component, rows in record["ranges"].items():
        begin = rows[0].get("introduced") or (rows[0].get("introduced_between") or (None, None))[1]
        if begin not in (None, "0"):
            return f"{component} {begin}"
    return None


_LEGEND = (
    "Made from the records by `kbctl records table`. A kernel stands under the strongest thing that is known",
    "of it: *works* (perhaps since a version), *works since* a fix, *with limits* (fails under further",
    "conditions: see the records), *disputed*, *broken*, or *no code* (its own source has none for this",
    "architecture). Every other kernel is unknown here.",
)


def page(records: Sequence[Json]) -> Iterator[str]:
    """The Markdown page: one table for each architecture, and the share of cells with evidence."""
    found = list(cells(records))
    known = sum(one.state != "unknown" for one in found)
    yield "# What works where"
    yield ""
    yield from _LEGEND
    yield ""
    share = f"{known} of {len(found)} cells have evidence ({100 * known / len(found):.0f} %)."
    yield f"{len(records)} records; {share}"
    for arch in ARCHS:
        yield from _table(arch, [one for one in found if one.arch == arch])


def _table(arch: str, found: Sequence[Cell]) -> Iterator[str]:
    known = sum(one.state != "unknown" for one in found)
    yield ""
    yield f"## {arch}"
    yield ""
    yield f"{known} of {len(found)} cells have evidence ({100 * known / len(found):.0f} %)."
    yield ""
    yield "| role | works | works since | with limits | disputed | broken | no code |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for role, quantization in ROWS:
        row = [one for one in found if (one.role, one.quantization) == (role, quantization)]
        label = f"{role}, {quantization}" if quantization else role
        columns = [_named(one for one in row if one.state == state) for state in STATES[:-1]]
        if any(columns):
            yield f"| {label} | " + " | ".join(columns) + " |"


def _named(found: Iterable[Cell]) -> str:
    return ", ".join(_linked(one) for one in found)


def _linked(one: Cell) -> str:
    name = f"[{one.kernel}](../records/{one.records[0]}.md)" if one.records else one.kernel
    return f"{name} ({one.since})" if one.since else name
