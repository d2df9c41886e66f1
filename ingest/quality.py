"""Whether a run's answers are right, seen beside those of other runs of the same model.

Owns what agreement of probes says about a run. How two answers compare is ingest.probes'. One disagreement
between two runs accuses neither; a run that differs from several that agree with each other stands out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from ingest.probes import broken, compare

Verdict = Literal["agrees", "broken", "outlier", "disagrees", "alone"]
MOST_PARTNERS = 12
ALIKE = frozenset({"same", "near-tie"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A run and the digest of its answers to fixed prompts."""

    run: str
    probe: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """What the answers say of a run, in a word and in a sentence.

    ``accused`` is whether its backend is to blame: another backend gave sound answers to the same prompts.
    """

    run: str
    verdict: Verdict
    detail: str
    accused: bool = False


def judge(group: Sequence[Answered]) -> list[Quality]:
    """The quality of each run of one model, by run."""
    runs = sorted(group, key=lambda one: one.run)
    faults = {one.run: fault for one in runs if (fault := _fault(one.probe))}
    sound = [one for one in runs if one.run not in faults]
    votes = _votes(sound[:MOST_PARTNERS], sound)
    found = []
    for one in runs:
        if one.run in faults:
            beside = "; other runs of the model answer soundly" if sound else ""
            detail = f"{faults[one.run]}{beside}"
            found.append(Quality(run=one.run, verdict="broken", detail=detail, accused=bool(sound)))
        else:
            found.append(_of_votes(one.run, votes))
    return found


def _votes(jury: Sequence[Answered], runs: Sequence[Answered]) -> dict[tuple[str, str], tuple[str, str]]:
    """(verdict, evidence) for every pair of a run and a member of the jury."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for one in runs:
        for other in jury:
            if one.run != other.run and (one.run, other.run) not in found:
                compared = compare(one.probe, other.probe)
                told = str(compared.verdict), "; ".join(dict.fromkeys(compared.evidence))
                found[one.run, other.run] = found[other.run, one.run] = told
    return found


def _of_votes(run: str, votes: Mapping[tuple[str, str], tuple[str, str]]) -> Quality:
    mine = {other: told for (one, other), told in votes.items() if one == run}
    alike = sorted(other for other, (verdict, _) in mine.items() if verdict in ALIKE)
    unlike = sorted(other for other, (verdict, _) in mine.items() if verdict == "different")
    if alike:
        return Quality(run=run, verdict="agrees", detail=f"computes the same function as {', '.join(alike)}")
    if not unlike:
        return Quality(run=run, verdict="alone", detail="no other run answered the same prompts")
    agreed = [pair for pair in combinations(unlike, 2) if votes.get(pair, ("", ""))[0] in ALIKE]
    why = mine[unlike[0]][1]
    if agreed:
        detail = f"differs from {', '.join(unlike)}, which agree with each other: {why}"
        return Quality(run=run, verdict="outlier", detail=detail, accused=True)
    return Quality(run=run, verdict="disagrees", detail=f"differs from {', '.join(unlike)}: {why}")


def _fault(probe: Mapping[str, Any]) -> str | None:
    return next((f"broken output: {why}" for one in probe.get("answers", ()) if (why := broken(one))), None)
