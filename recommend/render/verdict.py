"""A verdict as the JSON object of ``check --json`` and as text for people.

Owns the shapes only (schema ``kbctl.check/1``). Must not weigh anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kb.vocab.engines import role_names
from recommend.catalogued import doubtful
from recommend.findings import Finding, how
from recommend.question import Query
from recommend.render.plain import paste, row, rows, safe
from recommend.veto import Verdict

Json = dict[str, Any]
_SHOWN = 3
_EXPLAINED = ("record", "own-run", "requirement", "gate", "architecture")
_EFFECTS = {
    "wrong_output": "wrong output",
    "accuracy_loss": "loss of accuracy",
    "oom": "out of memory",
}


def as_json(query: Query, verdict: Verdict) -> Json:
    """The stable object: fields are only ever added."""
    return {
        "schema": "kbctl.check/1",
        "query": query_json(query),
        "verdict": verdict.verdict,
        "missing": list(verdict.missing),
        "assumed": dict(verdict.assumed),
        "findings": [finding_json(found) for found in verdict.findings],
        "advice": [dict(one) for one in verdict.advice],
        "unknown_flags": [flag_json(one) for one in query.unknown_flags],
        "unknown": _unknown(query, verdict),
        "unproven": list(verdict.unproven),
        "resolved": {
            role: {"kernel": one.kernel, "by": one.by, "gate": one.detail}
            for role, one in verdict.resolved.items()
        },
        "fit": None if verdict.fit is None else dict(verdict.fit),
    }


def query_json(query: Query) -> Json:
    """The question as it was understood."""
    hardware, model = query.hardware, query.model
    return {
        "gpu": hardware.gpu,
        "arch": hardware.arch,
        "gpus": hardware.count,
        "cuda": hardware.cuda,
        "driver": hardware.driver,
        "topology": query.topology,
        "model": model.name,
        "model_id": model.id,
        "family": model.family,
        "quantization": query.quantization,
        "kv_dtype": query.kv_dtype,
        "engine": query.engine,
        "engine_version": query.engine_version,
        "components": {name: _version(one) for name, one in query.components.items()},
        "settings": dict(query.settings),
        "environment": dict(query.environment),
        "requested": dict(query.requested),
    }


def _version(one: Any) -> str:
    if isinstance(one, str):
        return one
    low, high = one
    return f"{low or '?'}..{high or '?'}"


def finding_json(found: Finding) -> Json:
    """One finding, as ``check`` and the ``avoid`` list of ``recommend`` print it."""
    return {
        "record": found.record,
        "kind": found.kind,
        "verdict": found.verdict,
        "title": found.title,
        "effect": found.effect,
        "stage": found.stage,
        "status": found.status,
        "cause": found.cause,
        "signature": found.signature,
        "applies_to": dict(found.applies_to),
        "fixed_in": dict(found.fixed_in),
        "instead": dict(found.instead),
        "evidence": [dict(one) for one in found.evidence],
        "conflicts": [dict(one) for one in found.conflicts],
        "trust": found.trust,
        "missing": list(found.missing),
        "outcomes": [dict(one) for one in found.outcomes],
    }


def flag_json(one: tuple[str, str | None, str | None]) -> Json:
    """A flag that the release does not have."""
    flag, release, nearest = one
    return {"flag": flag, "known_in": release, "nearest": nearest}


def as_text(query: Query, verdict: Verdict) -> str:
    """The answer for people: the verdict first, then why, what to do instead, and what it rests on."""
    lines = [_headline(verdict)]
    bad = [found for found in verdict.findings if found.verdict != "known-good"]
    good = [found for found in verdict.findings if found.verdict == "known-good"]
    for found in bad[:_SHOWN]:
        lines += ["", *finding_lines(found)]
    lines += _more("also", bad[_SHOWN:])
    lines += _more("for it", good)
    lines += _advice(verdict)
    lines += ["", *context_lines(query, verdict)]
    return "\n".join(lines).rstrip()


def _headline(verdict: Verdict) -> str:
    said = {
        "no-known-problem": _unproven(verdict),
        "unknown": "too little is said or known to tell",
        "known-good": _proven(verdict),
    }
    text = said.get(verdict.verdict) or (_shape(verdict.findings[0]) if verdict.findings else "")
    return f"{verdict.verdict.upper()}: {text}"


def _unproven(verdict: Verdict) -> str:
    return (
        f"nothing is known against it; {_proven(verdict)}"
        if verdict.findings
        else "nothing is known against it"
    )


def _proven(verdict: Verdict) -> str:
    """What is known to work, and which of the question's kernels nothing is known about."""
    own = next((found for found in verdict.findings if found.kind == "own-run"), None)
    if own:
        return safe(own.title)
    named = {role for found in verdict.findings for role in (found.applies_to.get("roles") or {})}
    proven = {one for role in named for one in role_names(role)}
    works = [f"{role} = {one.kernel}" for role, one in sorted(verdict.resolved.items()) if role in proven]
    rest = [f"{role} = {one.kernel}" for role, one in sorted(verdict.resolved.items()) if role not in proven]
    rest += verdict.unproven
    text = f"known to work: {', '.join(works)}" if works else "reported to work"
    return text + (f"; nothing known about {', '.join(rest)}" if rest else "; nothing known against it")


def _shape(found: Finding) -> str:
    effect = _EFFECTS.get(found.effect, found.effect)
    stage = f" at {found.stage}" if found.stage else ""
    return f"{effect}{stage}: {safe(found.title)}"


def finding_lines(found: Finding) -> Iterator[str]:
    """One finding as a block of labelled lines."""
    yield f"[{found.verdict}] {_shape(found)}"
    yield from row("why", found.cause)
    yield from row("here", here(found))
    yield from row("auto", auto_text(found))
    yield from remedy_lines(found.instead)
    yield from row("fixed in", ", ".join(f"{name} {version}" for name, version in found.fixed_in.items()))
    yield from row("missing", "; ".join(found.missing))
    yield from rows("evidence", [evidence_text(one) for one in found.evidence[:4]])
    yield from rows("but", [evidence_text(one) for one in found.conflicts[:4]])
    more = f"; all of it: kbctl explain {found.record}" if found.kind in _EXPLAINED else ""
    yield from row("trust", f"{found.trust}, {found.status}{more}")


def here(found: Finding) -> str:
    """Why it speaks about this question."""
    applies = found.applies_to
    roles = [f"{role} = {kernel}" for role, kernel in (applies.get("roles") or {}).items()]
    because = () if found.kind == "own-run" and roles else applies.get("because") or ()
    others = [name for name in because if not name.startswith("roles.")]
    arch = f"{applies.get('arch')}{' (inherited from its sibling)' if applies.get('inherited') else ''}"
    named = [
        name.replace("settings.", "").replace("_", " ") for name in others if name not in ("arch", "engine")
    ]
    return "; ".join(filter(None, [arch, applies.get("engine"), *roles, ", ".join(named)]))


def auto_text(found: Finding) -> str:
    """That nobody asked for the kernel, in words; empty where somebody did."""
    picked = found.applies_to.get("auto") or {}
    if not picked or found.verdict == "known-good":
        return ""
    names = " and ".join(dict.fromkeys(picked.values()))
    said = _said(found.instead)
    return f"auto picks {names} here: that is the {_WORDS[found.verdict]} one" + (
        f"; say {said}" if said else ""
    )


_WORDS = {"known-bad": "known-bad", "disputed": "disputed", "suspect": "suspected"}


def _said(instead: Mapping[str, Any]) -> str:
    """The environment and flags of a remedy, ready to paste."""
    environment = " ".join(f"{key}={value}" for key, value in (instead.get("environment") or {}).items())
    return " ".join(filter(None, [environment, str(instead.get("flags") or "")]))


def remedy_lines(instead: Mapping[str, Any], label: str = "do") -> Iterator[str]:
    """What to do, as pasteable flags, with what it needs."""
    if "none" in instead:
        yield from row(label, instead["none"])
        return
    said = _said(instead)
    yield from paste(label, said)
    yield from row("" if said else label, "; ".join(_remedy_notes(instead, said)))
    for other in instead.get("others") or ():
        yield from remedy_lines(other, "or")


def _remedy_notes(instead: Mapping[str, Any], said: str) -> Iterator[str]:
    roles = ", ".join(f"{role} = {kernel}" for role, kernel in (instead.get("roles") or {}).items())
    if roles:
        yield f"that is {roles}" if said else roles
    if instead.get("text"):
        yield str(instead["text"])
    needs = ", ".join(f"{name} {spec}" for name, spec in (instead.get("requires") or {}).items())
    if needs and not str(instead.get("text", "")).startswith("upgrade"):
        yield f"needs {needs}"
    if instead.get("but"):
        yield f"but {instead['but']}"
    if instead.get("cites"):
        yield f"see {', '.join(instead['cites'])}"


def evidence_text(one: Mapping[str, Any]) -> str:
    """One source on one line: reference, kind, date, conditions, address."""
    facts = ", ".join(filter(None, [one.get("kind"), one.get("date")]))
    conditions = f": {one['conditions']}" if one.get("conditions") else ""
    url = one.get("url")
    return f"{one['ref']} ({facts}{conditions})" + (f" {url}" if url and url != one["ref"] else "")


def _more(label: str, found: Sequence[Finding]) -> list[str]:
    if not found:
        return []
    texts = [
        f"{one.verdict}: {_shape(one) if one.effect != 'ok' else safe(one.title)} ({one.record})"
        for one in found[:8]
    ]
    rest = len(found) - len(texts)
    return ["", *rows(label, texts + ([f"and {rest} more (--json)"] if rest > 0 else []))]


def _advice(verdict: Verdict) -> list[str]:
    if verdict.verdict == "unknown" or not verdict.advice:
        return []
    texts = [f"{one['title']} ({one['record']}): {', '.join(one['if'])}" for one in verdict.advice[:4]]
    rest = len(verdict.advice) - len(texts)
    return ["", *rows("also know", texts + ([f"and {rest} more (--json)"] if rest > 0 else []))]


def context_lines(query: Query, verdict: Verdict) -> Iterator[str]:
    """How the question was understood, what was assumed, and what nobody knows."""
    yield from row("asked", _asked(query))
    yield from rows(
        "kernels", [f"{role} = {one.kernel} ({how(one)})" for role, one in sorted(verdict.resolved.items())]
    )
    yield from rows("memory", list(memory_lines(verdict.fit)))
    yield from rows("assumed", [f"{name.replace('_', ' ')} {text}" for name, text in verdict.assumed.items()])
    yield from rows("decides", verdict.missing)
    yield from rows("unknown", _unknown(query, verdict))
    yield from rows("flags", [_flag_text(query, one) for one in query.unknown_flags])


def _unknown(query: Query, verdict: Verdict) -> list[str]:
    return [*query.unknown, *doubtful(query), *verdict.unknown]


def memory_text(fit: Mapping[str, Any] | None) -> str:
    """The memory estimate in one line; empty where there is none."""
    if fit is None:
        return ""
    weights, tokens = fit["weights_gib"], fit["tokens"]
    size = f"{weights['low']:g} to {weights['high']:g}"
    text = f"weights {size} of {fit['memory_gib']:g} GiB on each of {fit['gpus']}"
    room = f"; room for {tokens['low']:,.0f} to {tokens['high']:,.0f} tokens of KV cache" if tokens else ""
    return text + room + {True: "", False: "; does not fit", None: "; may not fit"}[fit["fits"]]


def memory_lines(fit: Mapping[str, Any] | None) -> Iterator[str]:
    """The terms of the memory estimate, each with its bounds in GiB per GPU; nothing where there is none."""
    if fit is None:
        return
    yield memory_text(fit)
    kinds = ", ".join(f"{one['name']} {one['gib']:g} at {one['bits']:g} bits" for one in fit["modules"][:5])
    shared = f"over {fit['gpus']} GPUs" if fit["gpus"] > 1 else "on one GPU"
    yield f"weights: {fit['weights_from']} {shared}" + (f" ({kinds})" if kinds else "")
    terms = [
        f"{name} {_span(fit[key])}" for name, key in (("context", "context_gib"), ("graphs", "graphs_gib"))
    ]
    copy = fit["second_copy_gib"]["high"]
    terms += (
        [f"a second copy while weights are reordered: up to {copy:g}, during loading only"] if copy else []
    )
    yield f"beside them: {', '.join(terms)} GiB; left for the KV cache: {_span(fit['left_gib'])} GiB"
    if fit["kv_gib_per_1k_tokens"]:
        yield f"KV cache: {fit['kv_gib_per_1k_tokens']:g} GiB per 1,000 tokens on each, in {fit['kv_dtype']}"


def _span(bounds: Mapping[str, float]) -> str:
    return f"{bounds['low']:g} to {bounds['high']:g}"


def _asked(query: Query) -> str:
    hardware = query.hardware
    count = f"{hardware.count}x " if hardware.count else ""
    engine = shortened(" ".join(filter(None, [query.engine, query.engine_version])))
    model = query.model.id or shortened(query.model.name or "")
    parts = [
        f"{count}{shortened(hardware.gpu or hardware.arch or 'unknown GPU')}",
        hardware.gpu and hardware.arch,
        model,
    ]
    return ", ".join(filter(None, [*parts, query.quantization, engine]))


def shortened(text: str, most: int = 160) -> str:
    """A text with the middle of a very long one left out."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-most // 2 :]}"


def _flag_text(query: Query, one: tuple[str, str | None, str | None]) -> str:
    flag, release, nearest = shortened(one[0]), one[1], one[2]
    known = f"; {query.engine} {release} has it" if release else "; no catalogued release has it"
    near = f"; nearest: {nearest}" if nearest else ""
    return f"{flag} is unknown to {query.engine} {query.engine_version}{known}{near}"
