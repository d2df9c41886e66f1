"""Which release of an engine is the first to have a model's architecture.

Owns ``architectures/<engine>.json``: rows of ``without`` (a release that surely stops at these
architectures), ``since`` (the first release read that has them; missing where none has) and
``architectures``. Only the file of the engine asked about is read. An architecture without a row is one that
nobody looked for. Must not judge.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kb import versions

_FOLDER = Path(__file__).with_name("architectures")
_BETWEEN = re.compile(r"dev|rc|nightly")


class Step(NamedTuple):
    """Between which releases an engine learned an architecture; ``source``: where its list stands."""

    engine: str
    architecture: str
    without: str
    since: str | None
    source: str

    def lacked_by(self, version: str | None) -> versions.State:
        """``affected``: the release lacks it; ``unknown``: it lies between the two, or none is named."""
        ordered = self.since and versions.compare(self.without, self.since, self.engine) is not None
        end = {"fixed_between": [self.without, self.since]} if ordered else {"last_seen": self.without}
        return versions.state(_reach(version, self.engine), {"introduced": "0", **end}, self.engine)


def _reach(version: str | None, engine: str) -> str | versions.Span | None:
    """A version; for a build between releases a span, as branches run ahead of the number they carry."""
    if version is None or not _BETWEEN.search(version):
        return version
    later = [one for one in table(engine)["read"] if versions.compare(one, version, engine) == 1]
    return version, later[1] if len(later) > 1 else None


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
    is_there = path.parent == _FOLDER and path.exists()  # a name that someone typed may be a path
    known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if is_there else {}
    return known
