"""Tries to learn a chance from: what was known before each, how far it got, and whether it stopped there.

Owns the rows (those that ship, in ``records/measurements/tries.tsv.gz``, and those of own runs) and how a
configuration that was tried is seen as a candidate. Learning is for ``fit``. Must not import scikit-learn.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from kb.measurements import ServingPoint, folder
from kb.model import STAGES, Tried
from kb.vocab import dialects, engines
from recommend import alike, candidates, chance, own
from recommend.alike import Setup
from recommend.candidates import Candidate
from recommend.chance import STEPS, step_of
from recommend.expect import writeups_on
from recommend.explore import Bearing, speaking
from recommend.match import settled
from recommend.query import resolve
from recommend.question import Query
from recommend.recorded import query_of
from recommend.veto import Evidence, judge
from recommend.weigh import Ground, Judged, published_here, weigh

Json = Mapping[str, Any]
COLUMNS = ("source", "id", "group", "step", "worked", "weight", "features")
# Of so many own configurations, drawn evenly, a fit learns; one of them weighs as much as so many reports.
MOST_OWN, OWN_WEIGHT = 600, 3.0


class Try(NamedTuple):
    """One row: every step before ``step`` was passed, and ``step`` itself where ``worked``.

    ``worked`` is 0 or 1, or of a ``prior`` the chance that all steps are passed. Rows of one ``group`` share
    a source. ``features`` are those of ``chance.features``, from evidence without the group's own.
    """

    source: str
    id: str
    group: str
    step: str
    worked: float
    weight: float
    features: Mapping[str, float]


def judged(
    query: Query, evidence: Evidence, near: chance.Near, known: Published, setups: Sequence[Setup] = ()
) -> Judged:
    """A configuration as ``recommend`` would see it as a candidate; ``setups`` are own runs of this model."""
    base = without_kernels(query)
    roles = candidates.roles_in_use(query, evidence.tried)
    chosen = {role: one.kernel for role, one in query.resolved.items() if one.by in ("said", "setting")}
    changed = {role: kernel for role, kernel in chosen.items() if role in roles}
    candidate = Candidate(query=query, idea="kernel" if changed else "auto", changed=changed)
    ground = Ground(
        base=base,
        roles=roles,
        setups=setups,
        points=tuple(published_here(query, known.points)),
        writeups=tuple(
            one for one in writeups_on(query, known.writeups) if one.get("engine") == query.engine
        ),
        surroundings=chance.surroundings(base),
        near=near,
    )
    return weigh(candidate, judge(query, evidence), ground)


class Published(NamedTuple):
    """Published points of the model in question, and all write-ups."""

    points: Sequence[ServingPoint] = ()
    writeups: Sequence[Json] = ()


def without_kernels(query: Query) -> Query:
    """The same launch with every kernel left to the engine."""
    if query.engine not in engines.ENGINES:
        return query._replace(requested={}, resolved={})
    spelled = _spelled(query.engine or "")
    return resolve(
        query._replace(
            settings={key: value for key, value in query.settings.items() if key not in spelled},
            environment={key: value for key, value in query.environment.items() if key not in spelled},
        )
    )


@cache
def _spelled(engine: str) -> frozenset[str]:
    table = dialects.dialect(engine)
    return frozenset(str(row.get("key") or row.get("env")) for row in table.get("spellings", ()))


def of_runs(tried: Sequence[Tried], records: Sequence[Json], part: Json | None) -> Iterator[Try]:
    """Own runs; each configuration sees the others, not itself."""
    kept = sorted(tried, key=lambda one: blake2b(one.key.encode(), digest_size=8).digest())[:MOST_OWN]
    speak = speaking(Bearing((), kept)).tried
    shelf: dict[str, tuple[list[Json], tuple[Setup, ...]]] = {}
    for one in kept:
        # As it was known before the try: what logs told of kernels came with it.
        query = resolve(query_of(one.hardware, one.model, one.backend))
        ends = list(endings(one))
        if not ends or query.arch is None:
            continue
        shape = repr((query.arch, query.engine, query.engine_version, query.model, query.dependencies))
        if shape not in shelf:
            bearing = [found for record in records if (found := settled(record, query))]
            shelf[shape] = bearing, alike.setups(query, kept)
        bearing, setups = shelf[shape]
        others = Bearing(bearing, [other for other in speak if other is not one])
        near = chance.Near(part, query.arch, (other for other in kept if other is not one))
        beside = [other for other in setups if other.tried is not one]
        seen = judged(query, others, near, Published(), beside)
        for step, worked in ends:
            yield Try("run", one.key, one.key, step, worked, OWN_WEIGHT, seen.features)


def endings(one: Tried) -> Iterator[tuple[str, float]]:
    """(step, worked) of each way in which runs of one configuration ended, as far as it speaks of them."""
    good, bad = list(own.successes(one)), list(own.failures(one))
    for ending in one.endings:
        if ending in bad:
            yield step_of(ending.stage, ending.effect), 0.0
        elif ending in good:
            yield step_of(ending.stage, "ok"), 1.0
        elif ending.stage and STAGES.index(ending.stage) > STAGES.index("init"):
            before = STEPS.index(step_of(ending.stage, "ok")) - 1
            yield STEPS[before], 1.0


def write(path: Path, tries: Iterable[Try]) -> None:
    """The rows as a packed table; features as ``name=value`` words."""
    lines = ["\t".join(COLUMNS)]
    for one in tries:
        words = " ".join(f"{name}={value:.4g}" for name, value in sorted(one.features.items()))
        lines.append("\t".join([*one[:4], f"{one.worked:.4g}", f"{one.weight:.4g}", words]))
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0))


def read(path: Path) -> Iterator[Try]:
    """The rows that ``write`` wrote; none where there is no such file."""
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()[1:] if path.is_file() else []
    for line in lines:
        source, name, group, step, worked, weight, words = line.split("\t")
        pairs = (word.split("=") for word in words.split())
        features = {key: float(value) for key, value in pairs}
        yield Try(source, name, group, step, float(worked), float(weight), features)


def shipped() -> list[Try]:
    """The rows that ship."""
    return list(read(folder() / "tries.tsv.gz"))


def reported() -> dict[str, Any]:
    """Failures and successes of each kernel in reports: ``{"sm120": "moe cutlass 1 2\n…"}``."""
    path = folder() / "reported_kernels.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}
