"""The answer as values: picks, what not to run, what would change the advice, and their JSON shape.

Owns the shape that ``recommend --json`` prints (schema ``kbctl.recommend/1``). Holds no judgement.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from kb import EMPTY

Status = Literal["proven-here", "proven-elsewhere", "expected", "untested"]
STATUSES: tuple[Status, ...] = Status.__args__  # type: ignore[attr-defined]
Json = dict[str, Any]
SCHEMA = "kbctl.recommend/1"


class Reason(NamedTuple):
    """One sentence and the ids of the evidence behind it (records, runs, gates, serving points, releases)."""

    text: str
    evidence: tuple[str, ...]


class Expected(NamedTuple):
    """A number to expect: unit in the metric's name, ``level`` of outcomes in ``low`` … ``high``.

    ``basis`` says in words where it comes from; ``date`` the newest evidence behind it, if known. ``made_of``
    are the factors of a forecast, whose product it is: the first in the metric's unit, the others plain.
    """

    metric: str
    value: float
    low: float
    high: float
    level: float
    basis: str
    evidence: tuple[str, ...] = ()
    date: str | None = None
    made_of: tuple[tuple[str, float], ...] = ()


class Kept(NamedTuple):
    """One limit: what was asked, what is expected (``None``: unknown), and the chance that it is kept."""

    metric: str
    limit: float
    value: float | None
    chance: float | None


class Pick(NamedTuple):
    """One configuration to run. ``p_works`` is the chance that it serves right answers (0…1).

    ``cost_min`` is minutes for one try (start, weights, benchmark); ``gain`` the expected improvement over
    the best known result as a fraction, times ``p_works`` (``None`` where there is nothing to improve on).
    ``file`` is (name, content) of a configuration file that the command names.
    ``chance`` takes ``p_works`` apart when it is asked for (``why.chance_of``).
    ``kind``: exploit or explore; ``teaches`` what an explored pick would settle.
    """

    engine: str
    engine_version: str | None
    roles: Mapping[str, str]
    resolved_by: Mapping[str, str]
    settings: Mapping[str, Any]
    environment: Mapping[str, str]
    argv: Sequence[str]
    command: str
    status: Status
    p_works: float
    predicted: Expected | None
    why: tuple[Reason, ...]
    verify: tuple[str, ...]
    cost_min: float
    gain: float | None
    kind: str
    file: tuple[str, str] | None = None
    teaches: str | None = None
    measured: tuple[Expected, ...] = ()
    equal_to: tuple[int, ...] = ()
    limits: tuple[Kept, ...] = ()
    chance: Callable[[], Json] | None = None
    settled: Mapping[str, tuple[Reason, ...]] = EMPTY


class Avoided(NamedTuple):
    """An alternative that is known bad, suspect or disputed, with the finding of ``check`` behind it."""

    engine: str | None
    roles: Mapping[str, str]
    settings: Mapping[str, Any]
    verdict: str
    finding: Mapping[str, Any]


class Recommendation(NamedTuple):
    """The whole answer to one question."""

    query: Json
    assumed: Mapping[str, str]
    unknown: tuple[str, ...]
    picks: tuple[Pick, ...]
    avoid: tuple[Avoided, ...]
    equal: tuple[Reason, ...] = ()
    measured: tuple[Expected, ...] = ()
    diagnosis: tuple[Reason, ...] = ()
    abstained: str | None = None
    would_change_this: tuple[str, ...] = ()


def to_wire(answer: Recommendation) -> Json:
    """The JSON object of ``recommend --json``."""
    return {
        "schema": SCHEMA,
        "query": answer.query,
        "assumed": dict(answer.assumed),
        "unknown": list(answer.unknown),
        "picks": [_pick(rank, pick) for rank, pick in enumerate(answer.picks, 1)],
        "avoid": [_avoided(one) for one in answer.avoid],
        "equal": [_reason(one) for one in answer.equal],
        "measured": [_expected(one) for one in answer.measured],
        "diagnosis": [_reason(one) for one in answer.diagnosis],
        "abstained": answer.abstained,
        "would_change_this": list(answer.would_change_this),
    }


def _pick(rank: int, pick: Pick) -> Json:
    return {
        "rank": rank,
        "engine": pick.engine,
        "engine_version": pick.engine_version,
        "roles": dict(pick.roles),
        "settings": dict(pick.settings),
        "environment": dict(pick.environment),
        "command": pick.command,
        "argv": list(pick.argv),
        "file": None if pick.file is None else {"name": pick.file[0], "content": pick.file[1]},
        "status": pick.status,
        "p_works": round(pick.p_works, 3),
        "chance": None if pick.chance is None else pick.chance(),
        "predicted": None if pick.predicted is None else _expected(pick.predicted),
        "measured": [_expected(one) for one in pick.measured],
        "limits": [_kept(one) for one in pick.limits],
        "why": [_reason(one) for one in pick.why],
        "verify": list(pick.verify),
        "cost_min": round(pick.cost_min, 1),
        "gain": None if pick.gain is None else round(pick.gain, 3),
        "kind": pick.kind,
        "teaches": pick.teaches,
        "equal_to": list(pick.equal_to),
    }


def _kept(one: Kept) -> Json:
    value = None if one.value is None else significant(one.value)
    chance = None if one.chance is None else round(one.chance, 3)
    return {"metric": one.metric, "limit": one.limit, "value": value, "chance": chance}


def _reason(reason: Reason) -> Json:
    return {"text": reason.text, "evidence": list(reason.evidence)}


def _expected(one: Expected) -> Json:
    return {
        "metric": one.metric,
        "value": significant(one.value),
        "low": significant(one.low),
        "high": None if math.isinf(one.high) else significant(one.high),
        "level": one.level,
        "basis": one.basis,
        "evidence": list(one.evidence),
        "date": one.date,
        "made_of": [{"what": what, "factor": factor} for what, factor in one.made_of],
    }


def significant(value: float, digits: int = 3) -> float:
    """A number cut to the digits that its interval can carry."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else value


def _avoided(one: Avoided) -> Json:
    finding = {key: value for key, value in one.finding.items() if key not in ("roles", "settings")}
    return {
        "engine": one.engine,
        "roles": dict(one.roles),
        "settings": dict(one.settings),
        "verdict": one.verdict,
        **finding,
    }
