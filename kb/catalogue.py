"""Counts over the reviewed records: what they cover, and how well their versions are known.

Owns ``records stats``. Must not judge a single record (``kb.lint`` does). "From the first release on" is no
known beginning, and a release inferred from a date is no known one: it counts as dated only what names the
release where it began. What works since a release has no second end, so the share is of failures.
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
    known = Counter(_known(record.content.range) for record in read if not record.good)
    changed = known["both"] + known["one"]
    return {
        "records": len(read),
        "bad": sum(not record.good for record in read),
        "good": sum(record.good for record in read),
        "disputed": sum(
            len({one.side for one in record.content.evidence if not one.settled}) > 1 for record in read
        ),
        "evidence": sum(len(record.content.evidence) for record in read),
        "examples": sum(len(record.content.example) for record in read),
        "changed": changed,
        "dated": known["both"],
        "half_dated": known["one"],
        "undated": known["none"],
        "dated_share": round(known["both"] / changed, 3) if changed else None,
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


def _known(ranges: Iterable[Range]) -> str:
    """``both`` ends on one version line, ``one`` end only, or ``none`` (only seen, or no versions)."""
    ends = {(_begins(one), _ends(one)) for one in ranges if not one.inferred} or {(False, False)}
    if (True, True) in ends:
        return "both"
    return "none" if ends == {(False, False)} else "one"


def _begins(one: Range) -> bool:
    """A release where it began; ``introduced = "0"`` names none."""
    introduced = [one.introduced] if isinstance(one.introduced, str) else one.introduced or []
    return bool(one.introduced_between or set(introduced) - {"0"})


def _ends(one: Range) -> bool:
    return bool(one.fixed or one.fixed_between or one.last_affected or one.limit)


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
    yield f"changed    {counts['changed']} failures, {counts['dated']}{share} with a known beginning and end,"
    yield f"           {counts['half_dated']} with one of them; {counts['undated']} more with neither"
    for name in ("arch", "effect", "role", "component"):
        yield f"{name:10} " + ", ".join(f"{word} {number}" for word, number in counts[name].items())
