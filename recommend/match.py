"""Does a record speak about a question? Three-valued: yes, no, or unknown with what would decide it.

Owns how each dimension of ``[[match]]`` and each ``[[range]]`` is compared with a query. Must not weigh what
a match means (``recommend.veto``). Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kb import versions
from kb.vocab.dialects import SERVERS
from recommend.dimensions import CHOICES, DIMENSIONS, Answer
from recommend.question import Query

Json = Mapping[str, Any]
Truth = bool | None
# What a variant of a question cannot change: dimensions that hold or fail for all of them alike.
FIXED = ("arch", "gpu", "engine", "weight_quantization", "model", "driver", "cuda", "topology", "build")


class Matched(NamedTuple):
    """A record's best alternative for a query: ``sure``, or not with what is ``missing``.

    ``met`` are the dimensions that hold (``roles.moe``), ``chosen`` those of them that the question chose
    itself; ``inherited`` when the arch only mirrors the tested one; ``unnamed`` are components without any
    version, while no older engine release was named that would date them; ``unlikely`` when the newest
    version of something unnamed would not match.
    """

    sure: bool
    missing: tuple[str, ...] = ()
    met: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()
    inherited: bool = False
    unnamed: tuple[str, ...] = ()
    unlikely: bool = False


def match(record: Json, query: Query) -> Matched | None:
    """How a compiled record matches, or None where it does not."""
    hits = [found for one in record["matches"] if (found := _alternative(one, query))]
    if not hits:
        return None
    dated = record.get("dated")
    state, unversioned = dated[1] if dated and dated[0] is query.components else in_range(record, query)
    if state is False:
        return None
    best = min(hits, key=_rank)
    if state is None:
        missing = best.missing + unversioned
        return best._replace(sure=False, missing=missing, unnamed=_unnamed(record, query))
    return best


def _rank(found: Matched) -> tuple[bool, bool, int, int]:
    return (not found.sure, found.inherited, len(found.missing), -len(found.met))


def _alternative(alternative: Json, query: Query) -> Matched | None:
    """One conjunction, or None as soon as one condition does not hold."""
    missing: list[str] = []
    met: list[str] = [*alternative.get("met", ())]
    chosen: list[str] = []
    inherited, unlikely = alternative.get("inherited", False), False
    for name, key, condition in alternative["when"]:
        answer = DIMENSIONS[name](query, key, condition)
        if answer.truth is False:
            if name != "arch" or query.arch not in alternative["mirror"]:
                return None
            inherited = True
        elif answer.truth is None:
            missing.append(answer.missing)
            unlikely = unlikely or answer.unlikely
            continue
        label = f"{name}.{key}" if key else name
        met.append(label)
        if name in CHOICES and answer.chosen:
            chosen.append(label)
    if "divides" in alternative:
        answer = divides(query, alternative["divides"])
        if answer.truth is False:
            return None
        (met if answer.truth else missing).append("divides" if answer.truth else answer.missing)
        chosen += ["divides"] * bool(answer.truth)
    return Matched(
        sure=not missing,
        missing=tuple(dict.fromkeys(missing)),
        met=tuple(met),
        chosen=tuple(chosen),
        inherited=inherited,
        unlikely=unlikely,
    )


def about_engine(record: Json, engine: str | None) -> bool:
    """Whether a record can speak about an engine at all."""
    return engine is None or record["engines"] is None or engine in record["engines"]


def settled(record: Json, query: Query) -> Json | None:
    """The record with the conditions answered that no variant of a query can change (``FIXED``), or None
    where one of them fails. Matching it with a variant is the same as matching the record, but cheaper."""
    if not about_engine(record, query.engine):
        return None
    dated = in_range(record, query)  # first: most records are about releases that are gone
    if dated[0] is False:
        return None
    alternatives = [found for one in record["matches"] if (found := _settled(one, query))]
    if not alternatives:
        return None
    return {**record, "matches": alternatives, "dated": (query.components, dated)}


def _settled(alternative: Json, query: Query) -> Json | None:
    met, left = [*alternative.get("met", ())], []
    inherited = alternative.get("inherited", False)
    for row in alternative["when"]:
        name, key, condition = row
        truth = DIMENSIONS[name](query, key, condition).truth if name in FIXED else None
        if truth is False:
            if name != "arch" or query.arch not in alternative["mirror"]:
                return None
            inherited = True
        if truth is None or (name == "engine" and query.engine is None):
            left.append(row)
        else:
            met.append(f"{name}.{key}" if key else name)
    return {**alternative, "when": left, "met": met, "inherited": inherited}


def divides(query: Query, rule: Json) -> Answer:
    """Whether a size of the model, sharded, misses (or with ``holds`` meets) its alignment."""
    size = dimension_of(query, rule["dim"])
    by = rule["by"]
    parts = by if isinstance(by, int) else query.common.get(by, 1 if by in ("tp", "ep", "pp", "dp") else None)
    if size is None or not isinstance(parts, int) or parts < 1:
        return Answer(None, f"the model's {rule['dim']}" if size is None else str(by))
    fits = size % parts == 0 and (size // parts) % rule["align"] == 0
    return Answer(fits == rule["holds"], chosen=True)


_DIMS: dict[str, tuple[str, ...]] = {
    "moe_intermediate": ("expert_intermediate",),
    "intermediate": ("dense_intermediate", "expert_intermediate"),
}


def dimension_of(query: Query, name: str) -> int | None:
    """A size of the model by the name that records use, or None where the catalog does not know it."""
    for field in _DIMS.get(name, (name,)):
        value = getattr(query.entry, field, None)
        if isinstance(value, int):
            return value
    return None


def in_range(record: Json, query: Query) -> tuple[Truth, tuple[str, ...]]:
    """Whether the question's versions are in the record's ranges, and which versions would decide."""
    ranges = record["ranges"]
    bound = [name for name in ranges if name in SERVERS]
    relevant = [name for name in ranges if name not in SERVERS or name == query.engine]
    if bound and query.engine not in record["engines"]:
        if query.engine is not None:
            return False, ()
        return None, ("the engine",)
    states = {name: state_of(name, ranges[name], query) for name in relevant}
    if "not-affected" in states.values():
        return False, ()
    missing = tuple(f"{name} version" for name, state in states.items() if state == "unknown")
    return (None if missing else True), missing


def _unnamed(record: Json, query: Query) -> tuple[str, ...]:
    if query.engine_version and "engine_version" not in query.assumed:
        return ()
    return tuple(name for name in record["ranges"] if name not in query.components)


def opens(found: Matched, query: Query) -> tuple[str, ...]:
    """What would decide an open match, in words; a version that the question names is not asked for again."""
    return tuple(dict.fromkeys(_open(name, query) for name in found.missing))


def _open(name: str, query: Query) -> str:
    component = name.removesuffix(" version")
    version = query.components.get(component) if component != name else None
    return f"whether {component} {version} has it" if isinstance(version, str) else name


def state_of(component: str, rows: Iterable[Json], query: Query) -> versions.State:
    """Whether the question's version of a component is affected."""
    version = query.components.get(component)
    if version is None and component in ("cuda", "driver"):
        version = getattr(query.hardware, component)
    try:
        return versions.state(version, list(rows), component)
    except ValueError:
        return "unknown"
