"""Which release of an engine is the first to have a model's architecture.

Owns ``architectures/<engine>.json``: rows of ``without`` (a release that surely stops at these
architectures), ``since`` (the first release read that has them; missing where none has) and
``architectures``. Only the file of the engine asked about is read. An architecture without a row is one that
nobody looked for. Must not judge.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kb import versions

_FOLDER = Path(__file__).with_name("architectures")


class Step(NamedTuple):
    """Between which releases an engine learned an architecture; ``source``: where its list stands."""

    engine: str
    architecture: str
    without: str
    since: str | None
    source: str

    def lacked_by(self, version: str | None) -> versions.State:
        """``affected``: the release lacks it; ``unknown``: it lies between the two, or none is named."""
        end = {"fixed_between": [self.without, self.since]} if self.since else {"last_seen": self.without}
        return versions.state(version, {"introduced": "0", **end}, self.engine)


@cache
def step(engine: str, architecture: str) -> Step | None:
    """When an engine learned an architecture, or ``None`` where that is not known."""
    known = table(engine)
    for row in known.get("steps", ()):
        if architecture in row["architectures"]:
            return Step(engine, architecture, row["without"], row.get("since"), known["source"])
    return None


@cache
def table(engine: str) -> dict[str, Any]:
    """An engine's table as it is written; empty for an engine without one."""
    path = _FOLDER / f"{engine}.json"
    known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return known
