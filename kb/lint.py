"""Rules for records: closed words, sane matches and ranges, evidence present, style.

Owns every rule that needs no log reader and no matcher; each finding names file, line and a tip. Must not
read logs (``kb.cli.records`` joins in the classifier) and knows no clock: "today" is an argument.
"""

from __future__ import annotations

import datetime
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kb import compiled, words
from kb.records import Condition, Match, Range, Record, RecordError

_DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?$")
_SLUG = re.compile(r"[a-z0-9]+(?:[-.][a-z0-9]+)*$")
_STALE_DAYS = 365


@dataclass(frozen=True, slots=True)
class Fault:
    """One finding: ``error`` fails the lint, ``warning`` does not."""

    path: str
    line: int
    severity: str
    what: str
    tip: str | None = None

    def __str__(self) -> str:
        tip = f"\n    tip: {self.tip}" if self.tip else ""
        return f"{self.path}:{self.line}: {self.severity}: {self.what}{tip}"


def lint(records: Iterable[Record | RecordError], today: datetime.date) -> list[Fault]:
    """Every fault in these records, by file and line."""
    faults: list[Fault] = []
    read: list[Record] = []
    for record in records:
        if isinstance(record, RecordError):
            faults.append(_unreadable(record))
        else:
            read.append(record)
            for rule in RULES:
                faults += rule(record)
            faults += stale(record, today)
    return sorted([*faults, *twins(read)], key=lambda fault: (fault.path, fault.line))


def _unreadable(error: RecordError) -> Fault:
    path, _, line = (error.where or "?").rpartition(":")
    known = line.isdigit()
    return Fault(
        path if known else error.where or "?", int(line) if known else 1, "error", error.what, error.tip
    )


def _fault(
    record: Record, place: tuple[str | int, ...], what: str, tip: str | None = None, mild: bool = False
) -> Fault:
    return Fault(str(record.path), record.line_of(*place), "warning" if mild else "error", what, tip)


def style(record: Record) -> Iterator[Fault]:
    """Names and sentences."""
    content = record.content
    if not _SLUG.match(record.id):
        yield _fault(record, (), f"{record.id!r} is no slug", "lower case, digits and hyphens")
    if content.title.endswith(".") or len(content.title) > 110:
        yield _fault(record, ("title",), "a title is one line without full stop, at most 110 characters")
    if len(content.cause) < 20:
        yield _fault(record, ("cause",), "the cause says nothing", "one or two sentences that stand alone")
    if not record.prose:
        yield _fault(record, (), "no prose", "tell people what happens and how it was found", mild=True)


def dates(record: Record) -> Iterator[Fault]:
    """``checked`` and the dates of evidence."""
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", record.content.checked):
        yield _fault(record, ("checked",), f"checked = {record.content.checked!r} is no date", "YYYY-MM-DD")
    for number, one in enumerate(record.content.evidence):
        if one.date and not _DATE.match(one.date):
            yield _fault(
                record,
                ("evidence", number, "date"),
                f"{one.date!r} is no date",
                "YYYY, YYYY-MM or YYYY-MM-DD",
            )


def stale(record: Record, today: datetime.date) -> Iterator[Fault]:
    """A record nobody looked at for a year: a warning."""
    try:
        age = today - datetime.date.fromisoformat(record.content.checked)
    except ValueError:
        return
    if age.days > _STALE_DAYS:
        yield _fault(
            record,
            ("checked",),
            f"last checked {age.days} days ago",
            "look again, then set checked",
            mild=True,
        )


def proof(record: Record) -> Iterator[Fault]:
    """Evidence on the record's own side, and examples both ways."""
    content = record.content
    side = "for" if record.good else "against"
    if not any(one.side == side for one in content.evidence):
        yield _fault(
            record, ("title",), f"no evidence {side} the backend", "every claim is cited: add [[evidence]]"
        )
    expected = {one.expect for one in content.example}
    if not expected & {"match", "suspect"}:
        yield _fault(record, ("title",), "no example that matches", 'add [[example]] expect = "match"')
    if "no-match" not in expected:
        yield _fault(
            record,
            ("title",),
            "no example that does not match",
            'add [[example]] expect = "no-match"',
            mild=True,
        )
    effects = {outcome.effect == "ok" for outcome in content.outcome}
    if len(effects) > 1:
        yield _fault(record, ("outcome", 0), "good and bad outcomes in one record", "one record per claim")


def vocabulary(record: Record) -> Iterator[Fault]:
    """Roles, kernels, architectures, engines, components and signatures come from closed lists."""
    for number, match in enumerate(record.content.match):
        yield from _match_words(record, number, match)
    for number, instead in enumerate(record.content.instead):
        for role, kernel in instead.roles.items():
            yield from _role_words(record, ("instead", number, role), role, [kernel])
        if instead.engine and not words.known_engine(instead.engine):
            yield _fault(record, ("instead", number, "engine"), f"unknown engine {instead.engine!r}")
    for number, outcome in enumerate(record.content.outcome):
        if outcome.signature and not words.known_signature(outcome.signature):
            tip = "a class of records/symptoms.toml; add a row there if it is new"
            yield _fault(
                record, ("outcome", number, "signature"), f"unknown signature {outcome.signature!r}", tip
            )


def _match_words(record: Record, number: int, match: Match) -> Iterator[Fault]:
    for role, condition in match.roles.items():
        yield from _role_words(
            record, ("match", number, role), role, [*(condition.any or ()), *(condition.none or ())]
        )
    for arch in [*_values(match.arch), *match.mirror]:
        if not words.known_arch(str(arch)):
            yield _fault(
                record, ("match", number, "arch"), f"unknown architecture {arch!r}", "sm120, sm90, gfx942 …"
            )
    for engine in _values(match.engine):
        if not words.known_engine(str(engine)):
            yield _fault(
                record, ("match", number, "engine"), f"unknown engine {engine!r}", ", ".join(words.ENGINES)
            )


def _role_words(
    record: Record, place: tuple[str | int, ...], role: str, kernels: Iterable[Any]
) -> Iterator[Fault]:
    allowed = words.kernels_of(role)
    if allowed is None:
        yield _fault(record, place, f"unknown role {role!r}", ", ".join(sorted(words.roles())))
        return
    for kernel in kernels:
        if words.canonical_kernel(str(kernel)) not in allowed:
            yield _fault(record, place, f"{kernel!r} is no kernel of {role}", ", ".join(sorted(allowed)))


def _values(condition: Condition | None) -> tuple[Any, ...]:
    return () if condition is None else (condition.any or ()) + (condition.none or ())


def satisfiable(record: Record) -> Iterator[Fault]:
    """Conditions that nothing can meet, and alternatives that another one already covers."""
    for number, match in enumerate(record.content.match):
        for name, condition in conditions(match):
            if reason := _impossible(condition):
                yield _fault(record, ("match", number, name.split(".")[-1]), f"{name}: {reason}")
        if match.mirror and match.arch is None:
            yield _fault(
                record, ("match", number, "mirror"), "mirror without arch", "name the arch that was tested"
            )
        if not list(conditions(match)) and match.divides is None and not record.content.range:
            yield _fault(record, ("match", number), "a match without conditions matches everything")
    yield from _shadowed(record)


def _impossible(condition: Condition) -> str | None:
    if condition.any and condition.none and set(condition.any) <= set(condition.none):
        return "everything allowed is also excluded"
    if (
        isinstance(condition.min, int | float)
        and isinstance(condition.max, int | float)
        and condition.min > condition.max
    ):
        return f"min {condition.min} is above max {condition.max}"
    return None


def _shadowed(record: Record) -> Iterator[Fault]:
    flat = [dict(conditions(match)) for match in record.content.match]
    for number, one in enumerate(flat):
        for other, wider in enumerate(flat):
            same = wider == one and other < number
            if other != number and (same or (_covers(wider, one) and not _covers(one, wider))):
                word = "repeats" if same else "is covered by"
                yield _fault(record, ("match", number), f"this match {word} match {other + 1}", "drop one")
                break


def _covers(wide: Mapping[str, Condition], narrow: Mapping[str, Condition]) -> bool:
    """Whether everything that ``narrow`` matches is matched by ``wide`` (as far as any-of lists tell)."""
    return all(name in narrow and _within(narrow[name], condition) for name, condition in wide.items())


def _within(narrow: Condition, wide: Condition) -> bool:
    if narrow == wide:
        return True
    simple = wide.model_fields_set == {"any"} == narrow.model_fields_set
    return bool(simple and wide.any and narrow.any and set(narrow.any) <= set(wide.any))


def conditions(match: Match) -> Iterator[tuple[str, Condition]]:
    """(dotted dimension, condition) of a match, ``divides`` excepted."""
    for name, key, condition in compiled.conditions(match):
        yield f"{name}.{key}" if key else name, condition


def ranges(record: Record) -> Iterator[Fault]:
    """Events of a range are in order and say something."""
    for number, one in enumerate(record.content.range):
        for what in _range_faults(one):
            yield _fault(record, ("range", number), f"{one.component}: {what}")
        if not words.known_component(one.component):
            what = f"unknown component {one.component!r}"
            yield _fault(record, ("range", number, "component"), what, words.nearest_component(one.component))


def _range_faults(one: Range) -> Iterator[str]:
    start = one.introduced or (one.introduced_between or (None, None))[1]
    if start is None:
        yield 'no introduced event ("0" = from the beginning)'
    if one.introduced and one.introduced_between:
        yield "introduced and introduced_between"
    ends = [
        name
        for name in ("fixed", "fixed_between", "last_affected", "last_seen", "limit")
        if getattr(one, name)
    ]
    if len(ends) > 1:
        yield " and ".join(ends) + " contradict each other"
    end = (
        one.fixed or (one.fixed_between or (None, None))[0] or one.last_affected or one.last_seen or one.limit
    )
    for name, low, high in (("introduced", start, end), ("fixed", one.fixed, one.reintroduced)):
        if low and high and low != "0" and words.compare(one.component, low, high) > 0:
            yield f"{name} {low} is after {high}"


def twins(records: Iterable[Record]) -> Iterator[Fault]:
    """Two records that say the same, or the opposite, of the same combination; ids and aliases are unique."""
    seen: dict[str, list[Record]] = defaultdict(list)
    names: dict[str, Record] = {}
    for record in records:
        for match in record.content.match:
            seen[_fingerprint(record, match)].append(record)
        if (other := names.get(record.id)) is not None:
            yield _fault(record, (), f"the id is also {other.path}'s", "ids are unique")
        names[record.id] = record
    for group in seen.values():
        for other in group[1:]:
            if other.id != group[0].id and (verb := _relation(group[0], other)):
                tip = (
                    "one record with both sides"
                    if verb == "contradicts"
                    else "merge them, or say what differs"
                )
                yield _fault(other, ("match", 0), f"the match {verb} {group[0].id}", tip)


def _relation(one: Record, other: Record) -> str | None:
    """How two records of one match and one range stand to each other; None for different effects."""
    if one.good != other.good:
        return "contradicts"
    effects = {outcome.effect for outcome in one.content.outcome}
    return "repeats" if effects & {outcome.effect for outcome in other.content.outcome} else None


def _fingerprint(record: Record, match: Match) -> str:
    spans = sorted(repr(one.model_dump(exclude_none=True)) for one in record.content.range)
    return repr((match.model_dump(exclude_none=True, exclude={"mirror"}), spans))


RULES: tuple[Callable[[Record], Iterator[Fault]], ...] = (
    style,
    dates,
    proof,
    vocabulary,
    satisfiable,
    ranges,
)
