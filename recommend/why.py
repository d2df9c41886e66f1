"""The sentences behind a pick, each with the ids of its evidence, and the log lines that prove its kernels.

Owns the wording. A sentence without evidence is not written. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from recommend.advice import Expected, Reason
from recommend.expect import Outlook
from recommend.question import Query, Resolution
from recommend.veto import Finding
from recommend.weigh import Judged

Json = Mapping[str, Any]
Against = Mapping[str, Sequence[tuple[str, Finding]]]
_EFFECT = {
    "wrong_output": "gives wrong output",
    "accuracy_loss": "loses accuracy",
    "oom": "runs out of memory",
    "crash": "crashes",
    "refused": "is refused",
    "hang": "hangs",
    "slow": "is slow",
}


def reasons(judged: Judged, against: Against, seen: Outlook, roles: Sequence[str]) -> tuple[Reason, ...]:
    """Why this pick: what ran, why each kernel, what the number rests on."""
    found = [
        *_of_runs(judged),
        *_of_roles(judged, against, roles),
        *_of_points(judged),
        *_of_doubts(judged),
    ]
    shown = seen.shown.get("output_tok_s")
    if shown is not None:
        found.append(Reason(f"The number: {shown.basis}.", shown.evidence))
    return tuple(dict.fromkeys(one for one in found if one.evidence))


def _of_runs(judged: Judged) -> Iterator[Reason]:
    if judged.runs:
        ids = tuple(run for one in judged.runs for run in (one.runs or (one.key,)))
        newest = max((one.date for one in judged.runs if one.date), default=None)
        when = f", last on {newest[:10]}" if newest else ""
        count = f"{len(ids)} own run{'s' if len(ids) > 1 else ''}"
        yield Reason(f"{count} of this model served with these kernels on this GPU{when}.", ids[:5])


def _of_roles(judged: Judged, against: Against, roles: Sequence[str]) -> Iterator[Reason]:
    for role in roles:
        resolution = judged.candidate.query.resolved.get(role)
        if resolution is not None:
            yield from _of_role(role, resolution, judged, against)


def _of_role(role: str, resolution: Resolution, judged: Judged, against: Against) -> Iterator[Reason]:
    kernel = resolution.kernel
    for found in judged.good:
        if _speaks_of(found, role):
            yield Reason(f"{role} = {kernel}: {sentence(found.title)}", (found.record,))
            break
    if resolution.by == "auto" and resolution.detail:
        yield Reason(f"{role} = {kernel} is what this release picks by itself here.", (resolution.detail,))
    bad = [
        (other, found)
        for other, found in against.get(role, ())
        if other != kernel and found.verdict == "known-bad"
    ]
    if bad:
        told = ", ".join(dict.fromkeys(f"{other} {effect_of(found)}" for other, found in bad[:3]))
        ids = tuple(dict.fromkeys(found.record for _, found in bad[:3]))
        yield Reason(f"{role} = {kernel}, because here {told}.", ids)


def effect_of(found: Finding) -> str:
    """What a finding's effect does, as a verb."""
    return _EFFECT.get(found.effect, found.effect)


def _speaks_of(found: Finding, role: str) -> bool:
    spoken = found.applies_to.get("roles") or {}
    return role in spoken or role.partition(".")[0] in spoken


def sentence(text: str) -> str:
    """A title as a sentence."""
    return text.rstrip(".") + "."


def _of_points(judged: Judged) -> Iterator[Reason]:
    if judged.points:
        point = judged.points[0]
        count = len(judged.points)
        yield Reason(
            f"{point.engine} served this model on {point.gpu} in {count} published measurements.",
            tuple(one.id for one in judged.points[:3]),
        )


def _of_doubts(judged: Judged) -> Iterator[Reason]:
    for found in judged.verdict.findings:
        if found.verdict == "disputed":
            yield Reason(f"Disputed: {sentence(found.title)} Others report that it works.", ids_of(found))
        elif found.verdict == "suspect":
            missing = f" What would decide: {'; '.join(found.missing)}." if found.missing else ""
            yield Reason(f"Suspect: {sentence(found.title)}{missing}", (found.record,))


def ids_of(found: Finding) -> tuple[str, ...]:
    """A finding's record and the references on its other side."""
    return tuple(dict.fromkeys((found.record, *(str(one.get("ref")) for one in found.conflicts[:3]))))


def of_setting(key: str, value: Any, judged: Judged, size_reason: Reason | None) -> Reason | None:
    """Why one setting is there, for the settings that no role explains."""
    common = judged.candidate.query.common
    if size_reason is not None and value == common.get("tp") and "t" in key:
        return size_reason
    return None


def verify(query: Query, proofs: Json, roles: Iterable[str]) -> tuple[str, ...]:
    """Log lines (and profile names) that prove which kernel runs, for the roles that matter."""
    engine = proofs.get("engines", {}).get(query.engine or "", {})
    lines: list[str] = []
    for role in roles:
        resolution = query.resolved.get(role)
        if resolution is None:
            continue
        for row in engine.get(role, ()):
            if row.get("kernel") in (None, resolution.kernel):
                lines.append(_filled(row["line"], query))
                break
        symbol = proofs.get("symbols", {}).get(role, {}).get(resolution.kernel)
        if symbol:
            lines.append(f"profile ({role}): kernel names contain {symbol}")
    return tuple(dict.fromkeys(lines))


def _filled(line: str, query: Query) -> str:
    """A log line with the settings that it prints put in."""
    for key, value in query.settings.items():
        line = line.replace("{" + key + "}", str(value))
    return line


def basis_of(one: Expected) -> str:
    """One line for people: value, interval, level and where from."""
    return f"{one.value:.3g} ({one.low:.3g} … {one.high:.3g}, {one.level:.0%})"
