"""What probes say of runs: the answers kept, the verdicts put back on the runs.

Owns the tables probe and quality. Must not compare answers (ingest.quality does).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from kb.model import Blame, Experiment, Failure, Warning  # noqa: A004
from kb.store.database import Store

WRONG = frozenset({"broken", "outlier"})
Answers = dict[str, dict[str, Any]]


def answers_by_model(store: Store) -> dict[str, Answers]:
    """model -> run -> the digest of its probes' answers."""
    sql = "SELECT run.run, run.model_id, run.model, probe.probe FROM run JOIN probe USING (run)"
    found: dict[str, Answers] = {}
    for run, model_id, model, text in store.rows(f"{sql} ORDER BY run.run, probe.ordinal"):
        probe = json.loads(text)
        whole = found.setdefault(_key(model_id, model), {}).setdefault(run, {"answers": []})
        whole["answers"] += probe.get("answers") or []
    return found


def put_quality(store: Store, rows: Sequence[Mapping[str, Any]]) -> None:
    """Replace all verdicts, inside the caller's transaction; the runs' own columns follow them."""
    store.rows("DELETE FROM quality")
    store.load("quality", rows)
    store.rows(
        "UPDATE run SET effect = 'ok', stage = json_extract_string(experiment, '$.stage'), signature = NULL "
        "WHERE effect = 'wrong_output' AND json_extract_string(experiment, '$.effect') = 'ok'"
    )
    store.rows(
        "UPDATE run SET effect = 'wrong_output', stage = 'quality', signature = 'garbage-output' "
        "WHERE effect = 'ok' "
        "AND run IN (SELECT run FROM quality WHERE verdict IN ('broken', 'outlier'))"
    )


def with_quality(run: Experiment, verdict: str, detail: str, accused: bool) -> Experiment:
    """A run whose outcome tells what comparing its answers showed."""
    outcome = run.outcome
    if outcome.effect != "ok" or verdict in ("agrees", "alone"):
        return run
    if verdict not in WRONG:
        told = Warning(line=None, text="", meaning=f"Its answers cannot be trusted yet: it {detail}.")
        return replace(run, outcome=replace(outcome, warnings=(*outcome.warnings, told)))
    failure = Failure(
        signature="garbage-output", text=detail[:500], cause=f"Its answers are wrong: {detail}."
    )
    blame: Blame = "backend" if accused else "unknown"
    wrong = replace(outcome, stage="quality", effect="wrong_output", blame=blame, failure=failure)
    return replace(run, outcome=wrong)


def quality_by_run(store: Store) -> dict[str, tuple[str, str, bool]]:
    """run -> (verdict, detail, accused)."""
    rows = store.rows("SELECT run, verdict, detail, accused FROM quality")
    return {run: (verdict, detail, accused) for run, verdict, detail, accused in rows}


def _key(model_id: str | None, model: str | None) -> str:
    return (model_id or PurePath(model or "").name).lower()
