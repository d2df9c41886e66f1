"""``kbctl explain``: everything behind a record, a run, a signature, or a verdict.

Owns how an id is found. What belongs to an explanation lives in ``recommend.explain``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kb.cli.asking import Role, asks, setup
from kb.cli.options import AsJson, RecordDirs, StorePath, print_json, tell_left_out

if TYPE_CHECKING:
    from recommend.question import Asked

Name = Annotated[
    str | None,
    typer.Argument(help="A record, an alias such as flashinfer#2045, a run, a gate, or a signature."),
]
WhyNot = Annotated[
    str | None, typer.Option("--why-not", help="role=kernel: what speaks against it in this question.")
]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command()(explain)


@asks(setup)
def explain(
    asked: Asked,
    name: Name = None,
    why_not: WhyNot = None,
    roles: Role = None,
    records: RecordDirs = None,
    store: StorePath = None,
    as_json: AsJson = False,
) -> None:
    """Show everything behind a record, a run, a gate or a signature; or why not a kernel (--why-not).

    Example: kbctl explain --gpu sm120 --engine sglang --why-not moe=trtllm-gen
    """
    from kb.errors import KbctlError

    if why_not:
        _why_not(asked._replace(roles=roles or ()), why_not, store, records or [], as_json=as_json)
        return
    if not name:
        raise KbctlError("explain what?", tip="kbctl explain ID, or --gpu G --why-not moe=trtllm-gen")
    from kb.knowledge import naming
    from kb.numbers import explained

    known = naming(name, records or ())
    tell_left_out(known.problems)
    told = (
        _record(known.records, name)
        or _run(name, store)
        or _gate(name)
        or _requirement(name)
        or _architecture(name)
        or explained(name)
        or _nothing(name, records or ())
    )
    if as_json:
        print_json(told[0])
    else:
        typer.echo("\n".join(told[1]))


Told = tuple[Mapping[str, Any], list[str]]


def _record(records: tuple[Mapping[str, Any], ...], name: str) -> Told | None:
    from kb.knowledge import prose_of
    from recommend import explain as explaining

    found = explaining.records_citing(records, name)
    record = explaining.find_record(records, name) or (found[0] if len(found) == 1 else None)
    if record:
        prose = prose_of(record)
        return explaining.record_json(record, prose), list(explaining.record_lines(record, prose))
    if not found:
        return None
    rows = [{"record": one["id"], "title": one["title"]} for one in found]
    lines = [*_meaning(name), f"{len(found)} records rest on or show as {name}:"]
    lines += [f"  {one['record']}: {one['title']}" for one in rows]
    return {"schema": "kbctl.explain/1", "kind": "reference", "name": name, "records": rows}, lines


def _meaning(name: str) -> list[str]:
    from kb import symptoms

    symptom = symptoms.table().named(name)
    if symptom is None:
        return []
    return [line for line in (symptom.meaning, symptom.advice) if line] + [""]


def _run(name: str, store: Path | None) -> Told | None:
    from kb import snapshot
    from kb.evidence import default_store
    from recommend import explain as explaining

    run = snapshot.run_detail(store or default_store(), name)
    if run is None:
        return None
    return {"schema": "kbctl.explain/1", "kind": "run", **run}, list(explaining.run_lines(run))


def _gate(name: str) -> Told | None:
    from kb.vocab import gates

    gate = gates.gate(name)
    if gate is None:
        return None
    lines = [
        f"{gate.id}: {gate.topic} gate of {gate.engine} {', '.join(gate.versions)}",
        f"  read in   {gate.file} ({gate.symbol})",
        f"  when      {gate.condition}",
        f"  then      {gate.decision}",
    ]
    lines += [f"  else      {gate.otherwise}"] if gate.otherwise else []
    lines += [f"  note      {gate.note}"] if gate.note else []
    return {"schema": "kbctl.explain/1", "kind": "gate", **gate._asdict()}, lines


def _requirement(name: str) -> Told | None:
    from kb.vocab import requirements

    kind, colon, subject = name.partition(":")
    found = requirements.rows() if colon and kind == "requirement" else ()
    rows = [one for one in found if (one.get("kernel") or one["component"]) == subject]
    if not rows:
        return None
    lines = [f"{name}: for which GPUs {subject} has code, as its own sources say"]
    for one in rows:
        lines += ["", *_required(one)]
    return {"schema": "kbctl.explain/1", "kind": "requirement", "kernel": subject, "rows": rows}, lines


def _required(row: Mapping[str, Any]) -> Iterator[str]:
    """A row of the requirements, as lines."""
    for key in ("component", "roles", "quantization", "kv"):
        if value := row.get(key):
            yield f"  {key:<9} {value if isinstance(value, str) else ', '.join(value)}"
    if "since" not in row:
        yield f"  not on    GPUs of other vendors than {row['vendor']}"
    for arch, since in row.get("since", {}).items():
        yield f"  {arch:<9} {_since(since)}"
    for arch, version in row.get("until", {}).items():
        yield f"  {arch:<9} no longer from {version} on"
    yield from (f"  why       {row['cause']}", f"  read in   {row['ref']}")


def _since(since: Any) -> str:
    if isinstance(since, list):
        return "not in " + ", ".join(
            " ".join(f"{key} {value}" for key, value in one.items()) for one in since
        )
    return {None: "no", "0": "yes"}.get(since, f"from {since} on")


def _architecture(name: str) -> Told | None:
    from kb.vocab import architectures

    kind, _, rest = name.partition(":")
    engine, _, architecture = rest.partition(":")
    step = architectures.step(engine, architecture) if kind == "architecture" else None
    if step is None:
        return None
    known = architectures.table(engine)
    first = (
        f"{engine} {step.since} is the first that has it" if step.since else "no release that was read has it"
    )
    lines = [
        f"{name}: {first}",
        f"  without   {step.without}, and every release before it",
        f"  read in   {step.source}, {len(known['read'])} releases",
        f"  how       {known['about']}",
    ]
    return {"schema": "kbctl.explain/1", **step._asdict(), "kind": "architecture"}, lines


def _nothing(name: str, records: Sequence[Path]) -> Told:
    import difflib

    from kb.errors import KbctlError
    from kb.knowledge import ids

    near = difflib.get_close_matches(name.lower(), ids(records), n=3, cutoff=0.6)
    tip = (
        f"did you mean {', '.join(near)}?" if near else "kbctl records list and kbctl runs show what there is"
    )
    raise KbctlError("no record, run, gate or signature of that name", where=name, tip=tip)


def _known(role: str, kernel: str) -> None:
    """Raises KbctlError for a role or a kernel of no list: nothing could ever be recorded about it."""
    from kb.errors import KbctlError
    from kb.vocab.engines import is_known, kernels

    roles = kernels()["roles"]
    offered = roles.get(role.rpartition(":")[2])
    if offered is None:
        raise KbctlError(f"no role is called {role!r}", where="--why-not", tip=f"one of {', '.join(roles)}")
    if not is_known(role, kernel):
        tip = f"{role} is done by {', '.join(offered)}"
        raise KbctlError(f"no kernel of {role} is called {kernel!r}", where="--why-not", tip=tip)


def _why_not(asked: Asked, text: str, store: Path | None, records: list[Path], *, as_json: bool) -> None:
    from kb.evidence import gather
    from kb.vocab.engines import role_names
    from recommend import explain as explaining
    from recommend.query import ask, kernel_named, pairs
    from recommend.render.verdict import finding_json

    query = ask(asked)
    ((role, label),) = pairs([text], "--why-not").items()
    one = role_names(role)[0]
    kernel = kernel_named(query, one, label)
    _known(one, kernel)
    verdict = explaining.why_not(query, one, kernel, gather(query, store, records))
    if as_json:
        found = [finding_json(one) for one in verdict.findings]
        print_json(
            {"schema": "kbctl.explain/1", "kind": "why-not", "role": one, "kernel": kernel, "findings": found}
        )
        return
    typer.echo("\n".join(explaining.why_not_lines(one, kernel, verdict)))
