"""What is known that bears on a question, as one value.

Owns the gathering: reviewed records (compiled), and the user's own runs (the store's snapshot). Standard
library only on the way; must not open the store itself and must not judge.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from kb import knowledge
from kb.model import Model, Tried


class Question(Protocol):
    """What gathering needs to know of a question."""

    @property
    def arch(self) -> str | None: ...  # noqa: D102
    @property
    def model(self) -> Model: ...  # noqa: D102
    @property
    def engine(self) -> str | None: ...  # noqa: D102


class Evidence(NamedTuple):
    """Compiled records and own runs. ``stamp`` changes with either; ``problems`` are sentences for stderr."""

    records: tuple[Mapping[str, Any], ...] = ()
    tried: tuple[Tried, ...] = ()
    stamp: str = ""
    problems: tuple[str, ...] = ()


def gather(
    question: Question,
    store: Path | None = None,
    record_dirs: Iterable[Path] = (),
    known: knowledge.Knowledge | None = None,
) -> Evidence:
    """Everything known about a question's architecture, model family and engine.

    ``store`` None means the per-user store; one without a snapshot adds nothing. ``known`` are records that
    were already loaded, for who asks several questions.
    """
    known = known or knowledge.load(record_dirs, question.arch, question.model.family, question.engine)
    tried = own_runs(store, question.arch, question.model.family)
    return Evidence(records=known.records, tried=tried, stamp=known.stamp, problems=known.problems)


def own_runs(store: Path | None, arch: str | None, family: str | None) -> tuple[Tried, ...]:
    """Own runs on an architecture (or its siblings) or of a model family, folded per configuration."""
    path = store or default_store()
    if not path.with_name(path.name + ".snapshot").exists():
        return ()
    from kb import snapshot  # noqa: PLC0415 - sqlite3 is loaded only where there is something to ask

    return tuple(snapshot.read(path, arch, family))


def default_store() -> Path:
    """The per-user store file; it need not exist."""
    return data_folder() / "kb.duckdb"


def data_folder() -> Path:
    """The per-user data folder of this program, where the platform keeps such folders; it need not exist."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "kbctl"
    base = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_DATA_HOME", "").strip()
    local = ("AppData", "Local") if os.name == "nt" else (".local", "share")
    return (Path(base) if base else Path.home().joinpath(*local)) / "kbctl"
