"""Counts over the reviewed records: what they cover, and how well their versions are known.

Owns ``records stats``. Must not judge a single record (``kb.lint`` does).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kb.records import Range, Record

Json = dict[str, Any]


def counted(records: Iterable[Record]) -> Json:
    """Counts by side, architecture, effect, role and engine, and the share of changes dated at both ends."""
    read = list(records)
    changed = [record for record in read if any(_changed(one) for one in record.content.range)]
    dated = [record for record in changed if any(_dated(one) for one in record.content.range)]
    return {
        "records": len(read),
        "bad": sum(not record.good for record in read),
        "good": sum(record.good for record in read),
        "disputed": sum(
            len({one.side for one in record.content.evidence if not one.settled}) > 1 for record in read
        ),
        "evidence": sum(len(record.content.evidence) for record in read),
        "examples": sum(len(record.content.example) for record in read),
        "changed": len(changed),
        "dated": len(dated),
        "dated_share": round(len(dated) / len(changed), 3) if changed else None,
        "arch": _tally(arch for record in read for arch in _archs(record)),
        "effect": _tally(
            effect for record in read for effect in {one.effect for one in record.content.outcome}
        ),
        "role": _tally(role for record in read for role in _roles(record)),
        "component": _tally(
            name for record in read for name in {one.component for one in record.content.range}
        ),
    }


def _tally(words: Iterable[str]) -> dict[str, int]:
    return dict(Counter(words).most_common())


def _changed(one: Range) -> bool:
    """Whether a range tells of a change at all: an end, or a beginning after the first release."""
    begins = one.introduced not in (None, "0") or one.introduced_between
    return bool(begins or _ends(one))


def _ends(one: Range) -> bool:
    return bool(one.fixed or one.fixed_between or one.last_affected or one.limit)


def _dated(one: Range) -> bool:
    """A beginning (the first release counts: it was broken from the start) and an end."""
    return bool((one.introduced or one.introduced_between) and _ends(one))


def _archs(record: Record) -> set[str]:
    archs = set()
    for match in record.content.match:
        archs |= {str(one) for one in (match.arch.any if match.arch else None) or ()} | set(match.mirror)
    return archs or {"any"}


def _roles(record: Record) -> set[str]:
    return {role for match in record.content.match for role in match.roles}


def lines(counts: Mapping[str, Any]) -> Iterator[str]:
    """The counts for people."""
    sides = ", ".join(f"{counts[side]} {side}" for side in ("bad", "good", "disputed"))
    yield f"records    {counts['records']} ({sides})"
    yield f"evidence   {counts['evidence']} sources, {counts['examples']} examples"
    share = f" ({100 * counts['dated_share']:.0f} %)" if counts["dated_share"] is not None else ""
    yield f"changes    {counts['changed']}, of which {counts['dated']}{share} with a beginning and an end"
    for name in ("arch", "effect", "role", "component"):
        yield f"{name:10} " + ", ".join(f"{word} {number}" for word, number in counts[name].items())
