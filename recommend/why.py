"""The sentences behind a pick, each with the ids of its evidence, and the log lines that prove its kernels.

Owns the wording. A sentence without evidence is not written. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from recommend.advice import Reason
from recommend.alike import same_release
from recommend.chance import doubt_of, steps, terms
from recommend.kernel_times import Gap
from recommend.question import Query, Resolution
from recommend.veto import Finding
from recommend.weigh import Judged, about, answered

Json = Mapping[str, Any]
Against = Mapping[str, Sequence[tuple[str, Finding]]]
# The id that explains the fitted chances, and the most ids beside one term.
MODEL, MOST_IDS = "model:chance", 3
_EFFECT = {
    "wrong_output": "gives wrong output",
    "accuracy_loss": "loses accuracy",
    "oom": "runs out of memory",
    "crash": "crashes",
    "refused": "is refused",
    "hang": "hangs",
    "slow": "is slow",
}


def reasons(
    judged: Judged, against: Against, roles: Sequence[str], timed: Sequence[Gap] = ()
) -> tuple[Reason, ...]:
    """Why this pick: what ran, why each kernel, how fast its kernels were timed, what is doubtful."""
    found = [
        *_of_runs(judged),
        *_of_roles(judged, against, roles),
        *judged.candidate.because,
        *_of_times(timed),
        *_of_points(judged),
        *_of_writeups(judged),
        *_of_doubts(judged),
    ]
    told = tuple(dict.fromkeys(one for one in found if one.evidence))
    return told or (_only_catalogued(judged),)


def _only_catalogued(judged: Judged) -> Reason:
    query = judged.candidate.query
    release = " ".join(filter(None, [query.engine, query.engine_version]))
    text = f"{release} can be asked for this by its catalog; no run and no record speaks of it here."
    return Reason(text, (f"catalog:{'-'.join(filter(None, [query.engine, query.engine_version]))}",))


def _of_runs(judged: Judged) -> Iterator[Reason]:
    if judged.runs:
        ids = tuple(run for one in judged.runs for run in (one.runs or (one.key,)))
        newest = max((one.date for one in judged.runs if one.date), default=None)
        when = f", last on {newest[:10]}" if newest else ""
        count = f"{len(ids)} own run{'s' if len(ids) > 1 else ''}"
        query = judged.candidate.query
        others = {one.backend.engine_version for one in judged.runs if not same_release(one, query)}
        release = f" with release {', '.join(sorted(filter(None, others)))}" if others else ""
        yield Reason(
            f"{count} of this model {_reached(judged)} with these kernels on this GPU{release}{when}.",
            ids[:5],
        )


def _reached(judged: Judged) -> str:
    """How far own runs went: to be ready is less than to have answered."""
    stages = {ending.stage for one in judged.runs for ending in one.endings if ending.effect == "ok"}
    if stages & {"load_test", "quality"} or any(one.points for one in judged.runs):
        return "served under load"
    return "served" if "serve" in stages else "became ready, with no request on record,"


def _of_roles(judged: Judged, against: Against, roles: Sequence[str]) -> Iterator[Reason]:
    """One reason per kernel; roles that share kernel and evidence share the sentence."""
    shared: dict[tuple[str, Reason], list[str]] = {}
    for role in roles:
        resolution = judged.candidate.query.resolved.get(role)
        if resolution is not None:
            said = Reason(*_of_role(role, resolution, judged, against))
            shared.setdefault((resolution.kernel, said), []).append(role)
    for (kernel, said), named in shared.items():
        yield Reason(f"{', '.join(named)} = {kernel}: {said.text}", said.evidence)


def _of_role(
    role: str, resolution: Resolution, judged: Judged, against: Against
) -> tuple[str, tuple[str, ...]]:
    texts: list[str] = []
    ids: list[str] = []
    good = next((found for found in judged.good if about(found, role)), None)
    if good is not None:
        texts.append(sentence(good.title))
        ids.append(good.record)
    if resolution.by == "auto" and resolution.detail:
        texts.append("This release picks it by itself here.")
        ids.append(resolution.detail)
    others = [(other, found) for other, found in against.get(role, ()) if other != resolution.kernel]
    bad = [(other, found) for other, found in others if found.verdict == "known-bad"][:3]
    if bad:
        told = ", ".join(dict.fromkeys(f"{other} {effect_of(found)}" for other, found in bad))
        texts.append(f"Here {told}.")
        ids += [found.record for _, found in bad]
    return " ".join(texts), tuple(dict.fromkeys(ids))


def effect_of(found: Finding) -> str:
    """What a finding's effect does, as a verb."""
    return _EFFECT.get(found.effect, found.effect)


def sentence(text: str) -> str:
    """A title as a sentence."""
    return text.rstrip(".") + "."


def _of_times(timed: Sequence[Gap]) -> Iterator[Reason]:
    for one in timed:
        place = f"{one.gpu}, {one.engine}, {one.shape}, {one.load}"
        slower = f"counted as {one.ratio:.2f} times as slow as {one.fastest}, the fastest timed"
        fast = one.kernel == one.fastest
        yield Reason(
            f"{one.role} = {one.kernel}: {'the fastest timed' if fast else slower} ({place}).",
            (f"kernels:{one.role.partition('.')[0]}",),
        )


def _of_points(judged: Judged) -> Iterator[Reason]:
    if judged.points:
        point = judged.points[0]
        count = len(judged.points)
        yield Reason(
            f"{point.engine} served this model on {point.gpu} in {count} published measurements.",
            tuple(one.id for one in judged.points[:3]),
        )


def _of_writeups(judged: Judged) -> Iterator[Reason]:
    for one in judged.writeups[:2]:
        engine = " ".join(
            filter(None, [one.get("engine"), one.get("engine_version") or "of unknown release"])
        )
        ran = ", ".join(f"{role} = {kernel}" for role, kernel in (one.get("roles") or {}).items())
        yield Reason(
            f"A write-up served {one.get('model')} on {one.get('gpu')} with {engine}: {ran}.", (one["id"],)
        )


def _of_doubts(judged: Judged) -> Iterator[Reason]:
    for found in judged.verdict.findings:
        if found.verdict == "disputed":
            yield Reason(f"Disputed: {sentence(found.title)} Others report that it works.", ids_of(found))
        elif found.verdict == "suspect" and not answered(found, judged.verdict.findings):
            missing = f" What would decide: {'; '.join(found.missing)}." if found.missing else ""
            yield Reason(f"Suspect: {sentence(found.title)}{missing}", (found.record,))


def ids_of(found: Finding) -> tuple[str, ...]:
    """A finding's record and the references on its other side."""
    return tuple(dict.fromkeys((found.record, *(str(one.get("ref")) for one in found.conflicts[:3]))))


Naming = Callable[[str, str], Iterable[Json]]


def chance_of(judged: Judged, model: Json, naming: Naming) -> dict[str, Any]:
    """The chance taken apart: ``base`` and the ``log_odds`` of ``terms`` (largest first) add up to its own.

    ``steps`` is the chance to pass each step of a try, given that it is reached. ``naming`` gives the records
    that name a kernel in a role.
    """
    base, found = terms(model, judged.features)
    rows = [
        {"what": name, "log_odds": round(value, 3), "evidence": list(_behind(name, judged, naming))}
        for name, value in found.items()
    ]
    passed = {step: round(value, 3) for step, value in steps(model, judged.features).items()}
    return {"base": round(base, 3), "terms": rows, "steps": passed}


def _behind(name: str, judged: Judged, naming: Naming) -> tuple[str, ...]:
    """The ids behind one term: runs, points, records; else the model itself."""
    word, colon, _ = name.partition(":")
    ids: Iterable[str] = ()
    if word.startswith("ran-"):
        ids = (run for one in judged.runs for run in one.runs)
    elif word == "published":
        ids = (one.id for one in judged.points)
    elif word == "written-up":
        ids = (str(one["id"]) for one in judged.writeups)
    elif word in ("kernels-work", "works-firmly"):
        ids = (one.record for one in judged.good)
    elif word.startswith(("near-", "far-")):
        pairs = {(role, found.kernel) for role, found in judged.candidate.query.resolved.items()}
        told = (record for pair in sorted(pairs) for record in naming(*pair))
        ids = (record["id"] for record in told if record["good"] == word.endswith("trust"))
    elif colon:
        findings = judged.verdict.findings
        ids = (one.record for one in findings if doubt_of(one) == name and not answered(one, findings))
    return tuple(dict.fromkeys(ids))[:MOST_IDS] or (MODEL,)


def verify(query: Query, proofs: Json, roles: Iterable[str]) -> tuple[str, ...]:
    """Log lines (and profile names) that prove which kernel runs, for the roles that matter."""
    engine = proofs.get("engines", {}).get(query.engine or "", {})
    lines: list[str] = []
    for role in roles:
        resolution = query.resolved.get(role)
        if resolution is None:
            continue
        for row in engine.get(role, ()):
            if row.get("kernel") in (None, resolution.kernel) and row.get("needs") in (None, *query.settings):
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
