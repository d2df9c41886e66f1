"""Everything behind an answer: a record in full, a recorded run, a symptom's class, or why not this kernel.

Owns which facts belong to an explanation and in which order. Must not read files: what it explains is handed
in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from recommend import remedy
from recommend.findings import other_side, status_of, trust_of
from recommend.query import Query, Resolution
from recommend.render.plain import row, rows, safe
from recommend.render.verdict import evidence_text, finding_lines, remedy_lines
from recommend.veto import Evidence, Verdict, judge

Json = Mapping[str, Any]


def find_record(records: Iterable[Json], name: str) -> Json | None:
    """A record by id or by one of its aliases, whatever the case."""
    word = name.strip().lower()
    for record in records:
        if word in (record["id"].lower(), *(alias.lower() for alias in record["aliases"])):
            return record
    return None


def records_citing(records: Iterable[Json], name: str) -> list[Json]:
    """Records that rest on a reference, or that show as a signature."""
    word = name.strip().lower()
    return [
        record
        for record in records
        if any(word == outcome.get("signature") for outcome in record["outcomes"])
        or any(word in (one["ref"].lower(), str(one.get("url")).lower()) for one in record["evidence"])
        or any(one["ref"].lower().endswith(f"/{word}") for one in record["evidence"])
    ]


def record_json(record: Json, prose: str) -> dict[str, Any]:
    """A record with what is computed of it."""
    shown = {key: value for key, value in record.items() if key != "path"}
    return {
        "schema": "kbctl.explain/1",
        "kind": "record",
        **shown,
        "status": "disputed" if other_side(record) else status_of(record, fixes(record)),
        "trust": trust_of(record),
        "prose": prose,
    }


def fixes(record: Json) -> dict[str, str]:
    """Component -> version in which a fix is known."""
    found: dict[str, str] = {}
    for component, events in record["ranges"].items():
        for one in events:
            fix = one.get("fixed") or (one.get("fixed_between") or (None, None))[1]
            found |= {component: str(fix)} if fix else {}
    return found


def record_lines(record: Json, prose: str) -> Iterator[str]:
    """A record in full, for people."""
    status = "disputed" if other_side(record) else status_of(record, fixes(record))
    yield f"{record['id']}: {safe(record['title'])}"
    yield from row("why", record["cause"])
    yield from rows("holds", [alternative_text(one) for one in record["matches"]])
    yield from rows(
        "versions", [range_text(name, one) for name, rows_ in record["ranges"].items() for one in rows_]
    )
    yield from rows("shows as", [outcome_text(one) for one in record["outcomes"]])
    for label, one in zip(["do", *["or"] * 20], record["instead"], strict=False):
        yield from remedy_lines(remedy.rendered(one, Query()), label)
    yield from rows("against", [evidence_text(one) for one in record["evidence"] if one["side"] == "against"])
    yield from rows("for", [_with_reason(one) for one in record["evidence"] if one["side"] == "for"])
    yield from row("status", f"{status}; trust: {trust_of(record)}; last checked {record['checked']}")
    yield from row("also as", ", ".join(record["aliases"]))
    yield from row("file", record["path"])
    if prose:
        yield ""
        yield from (f"  {safe(line)}" for line in prose.splitlines())


def _with_reason(one: Json) -> str:
    settled = f"; no conflict: {one['settled']}" if one.get("settled") else ""
    return evidence_text(one) + settled


def alternative_text(alternative: Json) -> str:
    """One conjunction as words: ``arch sm120 (and sm121 by inheritance), moe = trtllm-gen``."""
    parts = [_condition_text(name, key, condition) for name, key, condition in alternative["when"]]
    if "divides" in alternative:
        rule = alternative["divides"]
        verb = "is" if rule["holds"] else "is not"
        parts.append(f"{rule['dim']} / {rule['by']} {verb} a multiple of {rule['align']}")
    if alternative["mirror"]:
        parts.append(f"inherited by {', '.join(alternative['mirror'])}")
    return "; ".join(parts) or "always"


def _condition_text(name: str, key: str | None, condition: Json) -> str:
    label = key or name.replace("_", " ")
    if condition.keys() == {"set"}:
        return f"{label} is {'given' if condition['set'] else 'not given'}"
    if "spec" in condition:
        return f"{label} {condition['spec']}"
    texts = []
    if "any" in condition:
        texts.append(" or ".join(str(one) for one in condition["any"]))
    if "not" in condition:
        texts.append("not " + " nor ".join(str(one) for one in condition["not"]))
    if "min" in condition:
        texts.append(f"at least {condition['min']}")
    if "max" in condition:
        texts.append(f"at most {condition['max']}")
    return f"{label} = {', '.join(texts)}"


def range_text(component: str, events: Json) -> str:
    """One range as words: ``flashinfer from 0.6.3, fixed in 0.6.8``."""
    names = {
        "introduced": "from",
        "introduced_between": "from between",
        "fixed": "fixed in",
        "fixed_between": "fixed between",
        "last_affected": "last in",
        "last_seen": "seen up to",
        "limit": "nothing known from",
        "reintroduced": "back in",
    }
    parts = []
    for name, words in names.items():
        value = events.get(name)
        if value is None or (name == "introduced" and value == "0"):
            continue
        parts.append(f"{words} {' and '.join(value) if isinstance(value, list | tuple) else value}")
    basis = " (releases inferred from dates)" if events.get("inferred") else ""
    return f"{component}: {', '.join(parts) or 'every version'}{basis}"


def outcome_text(outcome: Json) -> str:
    """One outcome as words."""
    stage = f" at {outcome['stage']}" if outcome.get("stage") else ""
    signature = f" ({outcome['signature']})" if outcome.get("signature") else ""
    return f"{outcome['effect']}{stage}{signature}{': ' + outcome['text'] if outcome.get('text') else ''}"


def why_not(query: Query, role: str, kernel: str, evidence: Evidence) -> Verdict:
    """The verdict on the same question with one role done by another kernel."""
    resolved = {**query.resolved, role: Resolution(kernel, "said")}
    return judge(query._replace(resolved=resolved), evidence)


def why_not_lines(role: str, kernel: str, verdict: Verdict) -> Iterator[str]:
    """What speaks against (or for) a kernel in a role, for people."""
    bearing = [found for found in verdict.findings if role in (found.applies_to.get("roles") or {})]
    if not bearing:
        yield f"{role} = {kernel}: nothing is recorded about it here"
        return
    yield f"{role} = {kernel}: {bearing[0].verdict}"
    for found in bearing:
        yield ""
        yield from finding_lines(found)


def run_lines(run: Json) -> Iterator[str]:
    """A recorded run with the lines that its facts come from, for people."""
    engine = " ".join(filter(None, [run.get("engine"), run.get("engine_version")]))
    count = f"{run['gpu_count']}x " if run.get("gpu_count") else ""
    stage = run.get("stage") or "an unknown stage"
    yield f"{run['run']}: {run.get('effect')} at {stage} (blame: {run.get('blame')})"
    yield from row("ran", ", ".join(filter(None, [engine, run.get("model"), run.get("quantization")])))
    yield from row("on", f"{count}{run.get('gpu') or run.get('arch') or 'unknown GPU'}")
    yield from rows("kernels", [f"{role} = {kernel}" for role, kernel in (run.get("resolved") or {}).items()])
    failure = run.get("failure") or {}
    yield from row("cause", failure.get("cause"))
    yield from row(
        "record", failure.get("record") and f"{failure['record']} (kbctl explain {failure['record']})"
    )
    yield from rows("warnings", [one.get("meaning") for one in run.get("warnings") or ()])
    yield from row("invalid", run.get("invalid"))
    yield from rows("notes", run.get("notes") or ())
    yield from rows("sources", run.get("sources") or ())
    yield from rows("lines", [line_text(one) for one in (run.get("lines") or ())[:40]])


def line_text(one: Any) -> str:
    """One kept line with its place."""
    if not isinstance(one, Mapping):
        return str(one)
    return f"{one.get('path') or one.get('source') or ''}:{one.get('line')}: {one.get('text')}"
