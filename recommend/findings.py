"""Findings: one thing that is known about a configuration, with its trust, status and remedy.

Owns how a record, or a recorded run, becomes a finding. Which findings there are and what they add up to is
for ``recommend.veto``. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kb import EMPTY
from kb.model import Ending, Tried
from kb.vocab.engines import ENGINES, spell
from recommend import own, remedy
from recommend.match import Matched, opens, state_of
from recommend.question import Query, Resolution

Json = Mapping[str, Any]
TRUST = ("inferred", "reported", "confirmed", "own")


class Finding(NamedTuple):
    """One thing that is known about a query. ``record`` is an id that ``kbctl explain`` takes.

    ``kind``: record | own-run | requirement. ``verdict``: known-bad | disputed | suspect | known-good.
    ``instead`` as JSON shows it; ``evidence`` and ``conflicts`` rows: ref, kind, side, date, conditions, url.
    """

    record: str
    kind: str
    title: str
    verdict: str
    effect: str
    stage: str | None = None
    status: str = "open"
    cause: str = ""
    signature: str | None = None
    applies_to: Json = EMPTY
    fixed_in: Mapping[str, str] = EMPTY
    instead: Json = remedy.NONE_KNOWN
    evidence: tuple[Json, ...] = ()
    conflicts: tuple[Json, ...] = ()
    trust: str = "reported"
    missing: tuple[str, ...] = ()
    outcomes: tuple[Json, ...] = ()
    weight: tuple[int, ...] = ()


def other_side(record: Json) -> list[Json]:
    """Evidence on the other side that neither versions nor an argument have settled."""
    against = "against" if record["good"] else "for"
    return [one for one in record["evidence"] if one["side"] == against and not _settled(record, one)]


def _settled(record: Json, one: Json) -> bool:
    if one.get("settled"):
        return True
    seen = one.get("versions") or {}
    then = Query(components=seen)
    ranges = record["ranges"]
    return any(state_of(name, ranges[name], then) == "not-affected" for name in seen if name in ranges)


def trust_of(record: Json, *, inherited: bool = False) -> str:
    """How far a record's own side is trusted; a sibling architecture's finding counts one step less."""
    side = "for" if record["good"] else "against"
    kinds = [one["kind"] for one in record["evidence"] if one["side"] == side]
    refused = any(outcome["effect"] in ("refused", "ok") for outcome in record["outcomes"])
    firm = {"maintainer", "measured"} & set(kinds) or kinds.count("report") > 1 or len(set(kinds)) > 1
    level = 2 if firm else 1 if "report" in kinds or refused else 0
    return TRUST[max(level - inherited, 0)]


def of_record(record: Json, found: Matched, query: Query, word: str, conflicts: Sequence[Json]) -> Finding:
    """A record that matches, as a finding with the word that weighing gave it."""
    outcome = record["outcomes"][0]
    fixed = fixed_in(record, query)
    side = "for" if record["good"] else "against"
    return Finding(
        record=record["id"],
        kind="record",
        title=record["title"],
        verdict=word,
        effect=outcome["effect"],
        stage=outcome.get("stage"),
        status="disputed" if conflicts else status_of(record, fixed),
        cause=record["cause"],
        signature=outcome.get("signature"),
        applies_to=applies_to(found, query),
        fixed_in=fixed,
        instead={"none": "nothing to change"}
        if record["good"]
        else remedy.instead(remedy.remedies(record, query, fixed)),
        evidence=tuple(one for one in record["evidence"] if one["side"] == side),
        conflicts=tuple(conflicts),
        trust=trust_of(record, inherited=found.inherited),
        missing=opens(found, query),
        outcomes=tuple(record["outcomes"]),
        weight=(len(found.chosen), len(found.met)),
    )


def status_of(record: Json, fixed: Mapping[str, str]) -> str:
    """``works``, ``fixed`` (in a later release), ``regressed`` (came back) or ``open``."""
    if record["good"]:
        return "works"
    if any("reintroduced" in row for rows in record["ranges"].values() for row in rows):
        return "regressed"
    return "fixed" if fixed else "open"


def fixed_in(record: Json, query: Query) -> dict[str, str]:
    """Component -> first version that is known to be free of it, for the engine asked about."""
    found: dict[str, str] = {}
    for component, rows in record["ranges"].items():
        if component in ENGINES and component != query.engine:
            continue
        for row in rows:
            fix = row.get("fixed") or (row.get("fixed_between") or (None, None))[1]
            if fix and not record["good"]:
                found[component] = str(fix)
    return found


def applies_to(found: Matched, query: Query) -> Json:
    """Why the record speaks here: the conditions met, in the question's own words."""
    roles = {name[6:]: _role_text(query, name[6:]) for name in found.met if name.startswith("roles.")}
    row: dict[str, Any] = {
        "arch": query.arch,
        "inherited": found.inherited,
        "because": list(found.met),
        "roles": roles,
    }
    if picked := _picked(query, roles):
        row["auto"] = picked
    if query.engine:
        row["engine"] = " ".join(filter(None, (query.engine, query.engine_version)))
    return row


def _picked(query: Query, roles: Mapping[str, str]) -> dict[str, str]:
    """Of these roles, those that nobody chose: the engine's own word for the kernel, else the kernel."""
    names = {name for role in roles for name in (role, f"{role}.prefill", f"{role}.decode")}
    found = {name: one for name in sorted(names) if (one := query.resolved.get(name)) and one.by == "auto"}
    return {name: _own_word(query, name, one.kernel) for name, one in found.items()}


def _own_word(query: Query, role: str, kernel: str) -> str:
    asked = (query.engine or "", query.engine_version, role, kernel, query.arch, query.quantization)
    said = spell(*asked) if query.engine in ENGINES else None
    words = [str(value) for value in (said or {}).values() if isinstance(value, str)]
    return words[0] if len(words) == 1 else kernel


def _role_text(query: Query, role: str) -> str:
    for one in (role, f"{role}.prefill", f"{role}.decode"):
        if found := query.resolved.get(one):
            return f"{found.kernel} ({how(found)})"
    return "?"


def how(found: Resolution) -> str:
    """Who says that a kernel runs."""
    return _HOW[found.by]


_HOW = {
    "said": "as said by --role",
    "setting": "as set",
    "auto": "what auto picks here",
    "forced": "what this release runs whatever is asked for",
}


def run_row(tried: Tried, date: str | None, side: str, conditions: str) -> Json:
    """A recorded run as a row of evidence."""
    ref = tried.runs[0] if tried.runs else tried.key
    return {"ref": ref, "kind": "own-run", "side": side, "date": date, "conditions": conditions, "url": None}


def own_failure(
    tried: Tried, ending: Ending, query: Query, roles: Mapping[str, str], served: Tried | None = None
) -> Finding:
    """An own failure: of this very configuration, or (with ``roles``) of a kernel that it shares."""
    conflicts = (
        []
        if roles
        else [
            run_row(tried, one.date, "for", "the same configuration served") for one in own.successes(tried)
        ]
    )
    text = (
        "this very configuration"
        if not roles
        else ", ".join(f"{role} = {kernel}" for role, kernel in roles.items())
    )
    return Finding(
        record=ending.runs[0] if ending.runs else tried.key,
        kind="own-run",
        title=f"own run failed with {text}",
        verdict="disputed" if conflicts else "known-bad",
        effect=ending.effect,
        stage=ending.stage,
        status="disputed" if conflicts else "open",
        cause=ending.cause or ending.text or "",
        signature=ending.signature,
        applies_to={"arch": query.arch, "inherited": False, "because": [text], "roles": dict(roles)},
        instead=_as_served(served, tried, query) if served else dict(remedy.NONE_KNOWN),
        evidence=(run_row(tried, ending.date, "against", ending.text or ""),),
        conflicts=tuple(conflicts),
        trust="own",
        weight=(9, ending.n),
    )


def _as_served(served: Tried, failed: Tried, query: Query) -> Json:
    """The remedy of running what served here, as the difference from what failed."""
    take, leave = own.changes(served, failed, query)
    run = served.runs[0] if served.runs else served.key
    text = f"as {run}, which served" + (f"; leave out {', '.join(leave)}" if leave else "")
    row = {"settings": take, "flags": remedy.flags(query, take), "text": text, "cites": [run]}
    return {key: value for key, value in row.items() if value}


def own_success(tried: Tried, date: str | None, stage: str | None, query: Query) -> Finding:
    """An own run of this very configuration that served."""
    return Finding(
        record=tried.runs[0] if tried.runs else tried.key,
        kind="own-run",
        title="own run served with this very configuration",
        verdict="known-good",
        effect="ok",
        stage=stage,
        status="works",
        cause="It ran here.",
        applies_to={
            "arch": query.arch,
            "inherited": False,
            "because": ["this very configuration"],
            "roles": {},
        },
        instead={"none": "nothing to change"},
        evidence=(run_row(tried, date, "for", "served"),),
        trust="own",
        weight=(9, len(tried.runs)),
    )
