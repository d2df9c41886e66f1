"""Several logs of one server start: a log per node or rank, or stdout and stderr apart.

Owns recognising them and which of their endings is the start's. Must not join anything but server logs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from ingest.agreement import common
from ingest.enrich import enrich
from ingest.matching import Draft, same_model, span
from ingest.windows import overlap
from kb.model import STAGES, Outcome

# What another rank's end looks like from this one: never the first cause.
ECHOES = frozenset(
    {"nccl-timeout", "child-killed", "hang-distributed", "engine-dead", "killed", "log-ends", "unknown"}
)
_STREAM = re.compile(r"[-_.]?(?:std)?(?:out|err)(?:put)?(?=\.|$)")
_JOB = re.compile(r"slurm|sbatch|\bjob|nohup|console|\.out$")
_NODE = re.compile(r"(node|rank|worker|host|pod)[-_]?\d+")
RANKS = ("node_rank", "node-rank", "nnode_rank")


def united(drafts: Sequence[Draft]) -> list[Draft]:
    """The drafts of a site, those of one start put together; the first node's log stays the anchor."""
    found: list[Draft] = []
    for draft in sorted(drafts, key=lambda one: (_rank(one) or 0, one.name, one.ordinal)):
        first = next((one for one in found if _is_one_start(one, draft)), None)
        if first is None:
            found.append(draft)
        else:
            _absorb(first, draft)
    return found


def _is_one_start(a: Draft, b: Draft) -> bool:
    if a.anchor == b.anchor or a.folder != b.folder or a.ordinal != b.ordinal:
        return False
    if overlap(span(a.experiment), span(b.experiment)) is False:
        return False
    if _are_two_streams(a.name, b.name) or _began_together(a, b):
        return True
    ranks = (_rank(a), _rank(b))
    nodes = a.experiment.backend.settings.get("nnodes")
    apart = None not in ranks and ranks[0] != ranks[1] and isinstance(nodes, int) and nodes > 1
    named = a.name != b.name and _NODE.sub("", a.name) == _NODE.sub("", b.name)
    return (apart or (named and nodes not in (None, 1))) and same_model(a.experiment, b.experiment)


def _are_two_streams(a: str, b: str) -> bool:
    """Whether two file names differ only by which stream they hold: ``server.log`` and ``server.err``."""
    plain = [re.sub(r"\.(log|txt)$", "", _STREAM.sub("", name)) for name in (a, b)]
    return a != b and plain[0] == plain[1] and any(_STREAM.search(name) for name in (a, b))


def _began_together(a: Draft, b: Draft) -> bool:
    """Whether a job's log and a server's tell of one start in the same second, with the same settings."""
    mine, theirs = a.experiment, b.experiment
    if not any(_JOB.search(one.name.lower()) for one in (a, b)):
        return False
    if mine.started is None or mine.started != theirs.started or mine.port != theirs.port:
        return False
    alike, different = common(mine.backend.settings, theirs.backend.settings)
    same = mine.backend.engine == theirs.backend.engine and same_model(mine, theirs)
    return same and alike > 0 and not different


def _absorb(first: Draft, other: Draft) -> None:
    mine, theirs = first.experiment, other.experiment
    first.experiment = replace(
        enrich(mine, theirs),
        outcome=_outcome(mine.outcome, theirs.outcome),
        measurements=mine.measurements or theirs.measurements,
    )
    identity, path, _, _ = other.attached[0]
    first.attached.append(
        (identity, path, f"another log of the start that {PurePosixPath(first.name)} tells of", 0.8)
    )


def _outcome(a: Outcome, b: Outcome) -> Outcome:
    """The ending that explains the other: a cause before its echo, a failure before none, the furthest."""
    main, other = (b, a) if _weight(b) > _weight(a) else (a, b)
    return replace(main, warnings=(*main.warnings, *other.warnings))


def _weight(outcome: Outcome) -> tuple[int, int]:
    reached = STAGES.index(outcome.stage) if outcome.stage else -1
    if outcome.failure is None:
        return (1 if outcome.effect == "ok" else 0), reached
    return (2 if outcome.failure.signature in ECHOES else 3), -reached


def _rank(draft: Draft) -> int | None:
    settings = draft.experiment.backend.settings
    told = next((settings[name] for name in RANKS if settings.get(name) is not None), None)
    if isinstance(told, int):
        return told
    found = _NODE.search(PurePosixPath(draft.name).name.lower())
    return int(re.sub(r"\D", "", found[0])) if found else None
