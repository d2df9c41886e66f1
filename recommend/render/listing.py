"""Records as a list: one line each.

Owns the selection by architecture and the shape of a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kb.vocab import gpus
from recommend.findings import other_side, trust_of
from recommend.render.plain import safe

Json = dict[str, Any]


def rows(records: Iterable[Mapping[str, Any]], arch: str | None = None) -> list[Json]:
    """One row a record; with ``arch`` (a code or a GPU's name) those that speak about it or about any."""
    wanted = (gpus.arch_of(arch) or arch) if arch else None
    found = [_row(record) for record in records]
    return [row for row in found if wanted is None or not row["arch"] or wanted in row["arch"]]


def _row(record: Mapping[str, Any]) -> Json:
    archs: set[str] = set()
    for alternative in record["matches"]:
        archs |= set(alternative["mirror"])
        for name, _, condition in alternative["when"]:
            archs |= set(condition.get("any") or ()) if name == "arch" else set()
    return {
        "record": record["id"],
        "title": record["title"],
        "effect": record["outcomes"][0]["effect"],
        "arch": sorted(archs),
        "side": "disputed" if other_side(record) else "works" if record["good"] else "broken",
        "trust": trust_of(record),
        "checked": record["checked"],
        "shipped": record["shipped"],
    }


def lines(found: Sequence[Json]) -> Iterator[str]:
    """The rows for people."""
    width = max((len(row["record"]) for row in found), default=0)
    for row in found:
        arch = ",".join(row["arch"]) or "any"
        told = f"{row['side']:8}  {row['effect']:12}  {arch:18.18}"
        yield f"{row['record']:{width}}  {told}  {safe(row['title'])}"
    yield f"{len(found)} records"
