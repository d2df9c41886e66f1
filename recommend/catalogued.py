"""What a release's own option catalog says of a command: flags and values that it will refuse.

Owns findings of the kind ``catalog``. Only a release that the question names and whose options were read is
judged; a patched build may know more, so a flag that no release has is suspect, not condemned.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kb.vocab import options
from recommend.findings import Finding
from recommend.question import Query


def refused(query: Query) -> Iterator[Finding]:
    """A finding for each flag or value that the named release does not take."""
    engine, version = query.engine, query.engine_version
    if engine is None or version is None or "engine_version" in query.assumed:
        return
    if version not in options.releases(engine):
        return
    for flag, release, nearest in query.unknown_flags:
        title = f"{engine} {version} has no {flag}"
        if release:
            yield _finding(query, title, _moved(query, release), _other(query, release, nearest))
        else:
            found = _finding(query, title, _NOWHERE, _near(nearest))
            yield found._replace(verdict="suspect", trust="inferred")
    for dest, value, offered in options.unknown_values(engine, version, query.settings):
        flag = _flag(query, dest)
        listed = ", ".join(str(one) for one in offered[:12])
        yield _finding(
            query, f"{engine} {version} does not take {flag} {value}", f"It takes: {listed}.", None
        )


_NOWHERE = "No catalogued release has this flag; unless the build is patched, its argument parser refuses it."


def _moved(query: Query, release: str) -> str:
    line = f"{query.engine} {release}"
    known = (
        f"{line} is the first read release that has it" if _later(query, release) else f"{line} had it last"
    )
    return f"This release's argument parser refuses it; {known}."


def _later(query: Query, release: str) -> bool:
    known = options.releases(query.engine or "")
    return query.engine_version in known and known.index(release) > known.index(query.engine_version)


def _other(query: Query, release: str, nearest: str | None) -> str:
    newer = f", or install {query.engine} {release} or later" if _later(query, release) else ""
    return "drop the flag" + (f" (its nearest here: {nearest})" if nearest else "") + newer


def _near(nearest: str | None) -> str | None:
    return f"use {nearest}, or drop the flag" if nearest else "drop the flag"


def doubtful(query: Query) -> Iterator[str]:
    """Sentences about values that the release does not take which the question was assumed to mean."""
    engine, version = query.engine, query.engine_version
    if engine is None or version is None or "engine_version" not in query.assumed:
        return
    for dest, value, offered in options.unknown_values(engine, version, query.settings):
        listed = ", ".join(str(one) for one in offered[:12])
        yield f"{engine} {version} does not take {_flag(query, dest)} {value}; it takes {listed}"


def _flag(query: Query, dest: str) -> str:
    found = options.option(query.engine or "", query.engine_version, dest)
    return found.flag if found else dest


def _finding(query: Query, title: str, cause: str, text: str | None) -> Finding:
    release = f"{query.engine} {query.engine_version}"
    source = options.catalog(query.engine or "", query.engine_version or "").source
    evidence: dict[str, Any] = {"ref": source, "kind": "source", "side": "against", "date": None}
    return Finding(
        record=f"catalog:{query.engine}-{query.engine_version}",
        kind="catalog",
        title=title,
        verdict="known-bad",
        effect="refused",
        stage="args",
        cause=cause,
        signature="invalid-argument",
        applies_to={
            "arch": query.arch,
            "inherited": False,
            "because": ["settings"],
            "roles": {},
            "engine": release,
        },
        instead={"text": text} if text else {"none": "none known"},
        evidence=({**evidence, "conditions": f"options of {release}", "url": None},),
        trust="confirmed",
        weight=(5, 1),
    )
