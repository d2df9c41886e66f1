"""Make records/measurements/tries.tsv.gz and reported_kernels.json: tries with their outcomes.

    python benchmarks/tries.py [STORE ...]

STORE are stores of runs whose outcome did not decide that they are here; without one the rows of such runs
that the table has are kept. Every row is seen from evidence without its own group.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kb import knowledge
from kb.cli.check import question
from kb.cli.replay import all_runs
from kb.compiled import compiled
from kb.evidence import Evidence
from kb.measurements import ServingPoint, folder, known_about, serving, writeups
from kb.records import Record, read_folder
from kb.vocab import engines
from kb.vocab.models import ModelEntry, find_model
from recommend import candidates, chance, tries
from recommend.expect import Known
from recommend.explore import bearing, explore, variants
from recommend.query import Asked, ask
from recommend.question import Query
from recommend.samples import shape_of
from recommend.tries import Published, Try, judged

Json = Mapping[str, Any]
PATH, NEAR = folder() / "tries.tsv.gz", folder() / "reported_kernels.json"
# Questions whose candidates carry what was set by hand into the fit.
GPUS = (
    "h100",
    "h200",
    "b200",
    "b300",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "5090",
    "l40s",
    "a100",
    "mi300x",
)
MODELS = ("deepseek-ai/DeepSeek-R1", "glm5-nvfp4", "qwen3.5-397b-nvfp4", "openai/gpt-oss-120b",
          "Qwen/Qwen3-30B-A3B", "meta-llama/Llama-3.1-8B-Instruct")  # fmt: skip
ROUNDING = 0.005
# As if it had run here, too: with this release, with another.
ONCE = {"ran-otherwise": 1.0, "served-near": math.log(2)}
PROOF: Sequence[dict[str, float]] = ({}, ONCE, {"ran-here": 1.0, **ONCE})
# Tries with hand-set chances, and published configurations, as if so many had been recorded.
PRIOR, PUBLISHED = 540.0, 60.0


class Pair(NamedTuple):
    """Where and what: an architecture, a role and its kernel in two words."""

    arch: str
    name: str


class Report(NamedTuple):
    """One example of a record: whether it failed, and the kernels that the record is about."""

    record: Record
    group: str
    query: Query
    failed: bool
    weight: float
    pairs: tuple[Pair, ...]


def reports(records: Sequence[Record]) -> Iterator[Report]:
    """Examples that tell an outcome: of a bad record both kinds, of a good one what it says to work.

    The examples of one kind of one record weigh 1 together.
    """
    groups = grouped(records)
    for record in records:
        told = record.content.outcome[0]
        if told.effect == "slow":
            continue
        kinds = ("match",) if record.good else ("match", "no-match")
        counted = Counter(one.expect for one in record.content.example)
        roles = {
            name for one in record.content.match for role in one.roles for name in engines.role_names(role)
        }
        for one in record.content.example:
            if one.expect in kinds:
                query = ask(question(one.check))
                failed = one.expect == "match" and not record.good
                pairs = tuple(
                    Pair(query.arch or "", f"{role} {query.kernel(role)}")
                    for role in roles
                    if query.kernel(role)
                )
                yield Report(record, groups[record.id], query, failed, 1 / counted[one.expect], pairs)


def grouped(records: Sequence[Record]) -> dict[str, str]:
    """Record -> group: records that rest on one thread are one group; a file that many cite joins nobody."""
    citing = defaultdict(list)
    for record in records:
        for one in record.content.evidence:
            citing[one.ref].append(record.id)
    group = {record.id: record.id for record in records}
    for ref, names in citing.items():
        if "#" in ref and len(names) <= 3:
            joined = {group[name] for name in names}
            group = {name: min(joined) if one in joined else one for name, one in group.items()}
    return group


Counts = dict[Pair, list[float]]


def counts(told: Iterable[Report]) -> Counts:
    """Failures and successes of each kernel, by architecture and altogether."""
    found: Counts = defaultdict(lambda: [0.0, 0.0])
    for one in told:
        for pair in one.pairs:
            for where in (pair.arch, "*"):
                found[Pair(where, pair.name)][not one.failed] += one.weight
    return found


def table(whole: Counts, without: Counts | None = None) -> dict[str, str]:
    """The counts as the model holds them, without those of a group: by architecture a text of lines."""
    found: dict[str, list[str]] = defaultdict(list)
    for pair, (failed, worked) in sorted(whole.items()):
        less = (without or {}).get(pair, (0.0, 0.0))
        row = max(failed - less[0], 0.0), max(worked - less[1], 0.0)
        if max(row) > ROUNDING:
            found[pair.arch].append(f"{pair.name} {row[0]:.2g} {row[1]:.2g}")
    return {arch: "\n".join(lines) for arch, lines in found.items()}


def of_records(told: Sequence[Report], records: Mapping[str, Json]) -> Iterator[Try]:
    """A try for each example that other records do not already condemn: those are never proposed."""
    members, parts = defaultdict(set), defaultdict(list)
    for one in told:
        members[one.group].add(one.record.id)
        parts[one.group].append(one)
    whole = counts(told)
    known = Shelf()
    for group, own in parts.items():
        near = {"near": table(whole, counts(own))}
        others = [record for name, record in records.items() if name not in members[group]]
        for number, one in enumerate(own):
            heard = [record for record in others if _may_speak(record, one.query.arch)]
            seen = judged(one.query, Evidence(records=tuple(heard)), chance.Near(near, one.query.arch, ()),
                          known.of(one.query.entry))  # fmt: skip
            if seen.verdict.verdict != "known-bad":
                told_of = one.record.content.outcome[0]
                step = chance.step_of(told_of.stage, told_of.effect)
                features = dict(seen.features) | nuisance(one.query)
                yield Try("record", f"{one.record.id}#{number}", group, step, float(not one.failed),
                          one.weight, features)  # fmt: skip


def nuisance(query: Query) -> dict[str, float]:
    """What only examples of records have: they were written because of how they ended, and say little."""
    return {
        "as-reported": 1.0,
        "as-reported-no-engine": float(query.engine is None),
        "as-reported-no-version": float("engine_version" in query.assumed),
    }


def _may_speak(record: Json, arch: str | None) -> bool:
    return record["id"] in _speaking(arch)


@cache
def _speaking(arch: str | None) -> frozenset[str]:
    """The records that could speak about an architecture."""
    return frozenset(record["id"] for record in knowledge.load(arch=arch).records)


class Shelf:
    """Published points by model, looked up once."""

    def __init__(self) -> None:
        self._points = tuple(serving())
        self._writeups = writeups()
        self._kept: dict[str, Published] = {}

    def of(self, entry: ModelEntry | None) -> Published:
        """What is published about a model."""
        if entry is None:
            return Published((), self._writeups)
        if entry.id not in self._kept:
            names = [one.rpartition("/")[2].lower() for one in (entry.id, *entry.hub_ids)]
            points = tuple(one for one in self._points if any(name in one.model.lower() for name in names))
            self._kept[entry.id] = Published(points, self._writeups)
        return self._kept[entry.id]


def of_published(records: Sequence[Json], near: Json) -> Iterator[Try]:
    """Published configurations: they served under load; nobody says whether the answers were right."""
    met: dict[tuple[object, ...], ServingPoint] = {}
    for point in serving():
        if point.mode == "agg" and point.gpus:
            met.setdefault((point.gpu, point.model, point.engine, point.precision, point.tp, point.ep), point)
    shelf = Shelf()
    rows = [(point, query) for point in met.values() if (query := _published_query(point))]
    sizes = Counter((point.gpu, point.model) for point, _ in rows)
    for point, query in rows:
        known = shelf.of(query.entry)
        others = [one for one in known.points if (one.tp, one.precision) != (point.tp, point.precision)]
        heard = tuple(record for record in records if _may_speak(record, query.arch))
        seen = judged(query, Evidence(records=heard), chance.Near(near, query.arch, ()),
                      known._replace(points=others))  # fmt: skip
        weight = PUBLISHED / len(sizes) / sizes[point.gpu, point.model]
        shape = shape_of(query.entry) if query.entry else point.model
        yield Try("published", point.id, f"{point.gpu} {shape}", "serve", 1.0, weight,
                  dict(seen.features) | {"as-reported": 1.0})  # fmt: skip


def _published_query(point: ServingPoint) -> Query | None:
    if point.engine not in engines.ENGINES or find_model(point.model) is None:
        return None
    method = {"fp4": "nvfp4", "int4": "awq"}.get(point.precision, point.precision or None)
    sizes = [f"{name}={value}" for name, value in (("tp", point.tp), ("ep", point.ep)) if value > 1]
    engine = f"{point.engine}=={point.version}" if point.version else point.engine
    return ask(Asked(gpu=point.gpu, gpus=point.gpus, model=point.model, quantization=method, engine=engine,
                     settings=sizes))  # fmt: skip


def of_stores(stores: Iterable[Path], near: Json) -> Iterator[Try]:
    """Recorded runs, each from evidence without its own configuration."""
    records = knowledge.load().records
    for store in stores:
        for one in tries.of_runs(all_runs(store), records, near):
            yield one._replace(source="recorded", weight=1.0)


def by_hand(features: Mapping[str, float]) -> float:
    """The chance that was set by hand before one was learned: the prior, and what to beat."""
    has = features.get
    ladder = (
        (has("ran-here"), 0.97),
        (has("ran-otherwise") or has("published") or has("written-up"), 0.85),
        (has("kernels-work"), 0.78),
        (has("own-choice"), 0.75),
        (not has("by-hand"), 0.6),
    )
    found = next((value for holds, value in ladder if holds), 0.4)
    for name, value in features.items():
        word = name.partition(":")[0]
        found *= {"disputed": 0.65, "suspect": 0.8, "no-code": 0.3, "trapped": 0.8}.get(word, 1.0) ** value
    return max(found * (0.93 if has("ep") else 1.0), chance.LEAST)


def of_prior(near: Json) -> Iterator[Try]:
    """The candidates of usual questions, with their hand-set chances."""
    blank = {"steps": {step: {"intercept": 0.0, "coef": {}} for step in chance.STEPS}}
    model = {"chance": {**near, **blank}}
    found = []
    for gpu in GPUS:
        for name in MODELS:
            query = ask(Asked(gpu=gpu, model=name))
            known = Known(**known_about(query.arch, query.gpu_facts, query.entry, None))._replace(model=model)
            evidence = Evidence(records=knowledge.load(arch=query.arch).records)
            count = candidates.fitting_count(query.gpu_facts, query.entry, query.quantization)
            for engine in candidates.GENERAL:
                each = explore(candidates.base(query, engine, count), bearing(evidence, query), known)
                for number, one in enumerate((*each.judged, *variants(each, 3))):
                    found.append((f"{gpu} {name} {engine} {number}", f"{gpu} {name}", one.features))
    for name, group, features in found:
        for more in PROOF:
            seen = {**features, **more}
            weight = PRIOR / len(found) / len(PROOF)
            yield Try("prior", name, group, "quality", by_hand(seen), weight, seen)


def main() -> None:
    """Write the table and tell what is in it."""
    records = [one for one in read_folder(knowledge.shipped_folder()) if isinstance(one, Record)]
    plain = {one.id: compiled(one, shipped=True) for one in records}
    told = list(reports(records))
    near = {"near": table(counts(told))}
    recorded = (
        list(of_stores(map(Path, sys.argv[1:]), near))
        if sys.argv[1:]
        else [one for one in tries.read(PATH) if one.source == "recorded"]
    )
    rows = [*of_records(told, plain), *of_published(list(plain.values()), near), *recorded, *of_prior(near)]
    tries.write(PATH, rows)
    NEAR.write_text(json.dumps(near["near"], indent=1, sort_keys=True) + "\n", encoding="utf-8")
    for source, number in Counter(one.source for one in rows).items():
        print(f"{source}: {number} rows")


if __name__ == "__main__":
    main()
