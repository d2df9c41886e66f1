"""Kernels that a GPU has no code for, as their own sources say: an answer where nobody has tried.

Owns the reading of ``kb/vocab/requirements.json`` and the findings from it. Weaker than any record: where a
record speaks of the same role, this keeps silent. A finding of this kind is never more than *suspect*.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import kb.vocab
from kb.vocab import engines, models
from recommend.findings import Finding, how
from recommend.question import Query

Json = Mapping[str, Any]


@cache
def rows() -> tuple[Json, ...]:
    """The table's rows."""
    path = Path(kb.vocab.__file__).with_name("requirements.json")
    return tuple(json.loads(path.read_text(encoding="utf-8"))["kernels"])


def unmet(query: Query, spoken: Collection[str]) -> Iterator[Finding]:
    """A finding for each role whose kernel the GPU has no code for, except roles that records speak of."""
    if query.arch is None:
        return
    for role, resolution in query.resolved.items():
        if role in spoken or resolution.by == "auto":
            continue
        row = next((one for one in rows() if _speaks(one, role, resolution.kernel, query)), None)
        if row is not None:
            yield _finding(row, role, query)


def _speaks(row: Json, role: str, kernel: str, query: Query) -> bool:
    if kernel != row["kernel"]:
        return False
    roles = {one for name in row["roles"] for one in engines.role_names(name)}
    if role.rpartition(":")[2] not in roles:
        return False
    wanted = row.get("quantization")
    if wanted and not set(wanted) & set(models.quantization_groups(query.quantization or "")):
        return False
    vendor = "amd" if (query.arch or "").startswith("gfx") else "nvidia"
    return vendor != row["vendor"] or query.arch in row["lacks"]


def _finding(row: Json, role: str, query: Query) -> Finding:
    resolution = query.resolved[role]
    kernel = resolution.kernel
    return Finding(
        record=f"requirement:{kernel}",
        kind="requirement",
        title=f"{kernel} has no code for {query.arch}",
        verdict="suspect",
        effect="refused",
        stage="init",
        cause=row["cause"],
        signature="no-kernels-for-arch",
        applies_to={
            "arch": query.arch,
            "inherited": False,
            "because": [f"roles.{role}"],
            "roles": {role: f"{kernel} ({how(resolution)})"},
        },
        evidence=(
            {
                "ref": row["ref"],
                "kind": "source",
                "side": "against",
                "date": None,
                "url": source_url(row["ref"]),
            },
        ),
        trust="inferred",
        weight=(1, 1),
    )


def source_url(ref: str) -> str | None:
    """Where a reference (``owner/name:path`` or ``owner/name#number``) can be read."""
    repository, colon, path = ref.partition(":")
    if colon:
        return f"https://github.com/{repository}/blob/HEAD/{path}"
    name, _, number = ref.partition("#")
    return f"https://github.com/{name}/issues/{number}" if number else None
