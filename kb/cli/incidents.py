"""Incidents in words and as JSON: the cause first, then where, echoes, meaning, remedy, certainty.

Owns the order and the wording of what ``diagnose`` prints. Log text is quoted, never trusted: control
characters do not reach the terminal. Must not read logs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ingest.diagnosis import Incident, how_sure, nearest_classes, noticed, on_this_hardware
from kb.model import Experiment
from kb.wire import experiment_to_wire
from recommend.architectures import upgrade_for
from recommend.match import match, opens
from recommend.recorded import explain_failure, query_of
from recommend.remedy import remedies
from recommend.render.plain import safe

Json = dict[str, Any]
Records = Sequence[Mapping[str, Any]]
MAX_QUOTE = 240
MAX_ECHOES = 6
MAX_RECORDS = 3
MANY_REASONS = frozenset(
    {"missing-module", "invalid-argument", "bad-path", "launch-failed", "illegal-memory-access", "jit-failed"}
)
UNKNOWN_MODEL = "unknown-architecture"  # told only by records of that very model
HEALTHY = "No failure:"


def to_text(incident: Incident, records: Records) -> list[str]:
    """The lines that a person reads; the first one is the cause in one sentence."""
    told = to_json(incident, records)
    lines = [told["headline"]]
    for title, key in (
        ("where", "where_text"),
        ("run", "run_text"),
        ("echoes", "echoes_text"),
        ("here", "means"),
        ("known", "record_text"),
        ("do", "do"),
        ("nearest known", "nearest_text"),
        ("sure", "sure_text"),
        ("noticed", "noticed"),
    ):
        lines += _section(title, told.get(key))
    return lines


def _section(title: str, value: Any) -> list[str]:
    if not value:
        return []
    rows = [value] if isinstance(value, str) else list(value)
    label = f"{title}:"
    return [f"  {label:<15}{rows[0]}", *(f"  {'':<15}{row}" for row in rows[1:])]


def to_json(incident: Incident, records: Records) -> Json:
    """The incident with its record, remedies and everything noticed (schema kbctl.diagnose/1)."""
    known = explaining(incident.experiment, records)
    experiment = _explained(incident.experiment, known)
    outcome, failure = experiment.outcome, experiment.outcome.failure
    record = _record(failure.record if failure else None, records)
    sure, why = how_sure(incident)
    echoes = incident.told.get("echoes") or []
    nearest = nearest_classes(failure.text) if failure is not None and failure.signature == "unknown" else []
    told: Json = {
        "headline": headline(experiment),
        "failed": incident.is_failure,
        "path": incident.log,
        "stage": outcome.stage,
        "rank": incident.told.get("rank"),
        "line": failure.line if failure else None,
        "frame": incident.told.get("frame"),
        "where_text": _where(incident, experiment),
        "run_text": _run(experiment),
        "echoes": echoes,
        "echoes_text": _echo_lines(echoes),
        "means": on_this_hardware(incident),
        "record": failure.record if failure else None,
        "possible_records": [one.record["id"] for one in known if not one.sure],
        "record_text": [safe(one.text) for one in known],
        "do": _advice(incident, experiment, record),
        "nearest": [{"class": name, "text": text} for name, text in nearest],
        "nearest_text": [f"{name}: {quoted(text)}" for name, text in nearest],
        "sure": sure,
        "sure_text": f"{sure}: {why}",
        "noticed": [safe(one) for one in noticed(incident)],
        "beside": list(incident.beside),
        "experiment": experiment_to_wire(experiment),
    }
    return told


def headline(experiment: Experiment) -> str:
    """The true cause in one sentence, with the words of the log."""
    outcome, failure = experiment.outcome, experiment.outcome.failure
    if failure is None:
        if outcome.effect == "ok":
            doing = (
                "it served requests" if outcome.stage in ("serve", "load_test") else "the server became ready"
            )
            return f"{HEALTHY} {doing}."
        return "Nothing in it tells how it ended."
    words = f' "{clip(failure.text)}"' if failure.text and clip(failure.text, 60) not in failure.cause else ""
    return f"{safe(failure.cause)}{words}"


def _explained(experiment: Experiment, found: Sequence[Found]) -> Experiment:
    failure = experiment.outcome.failure
    if failure is None or failure.record or not found or not found[0].sure:
        return experiment
    outcome = replace(experiment.outcome, failure=replace(failure, record=found[0].record["id"]))
    return replace(experiment, outcome=outcome)


@dataclass(frozen=True, slots=True)
class Found:
    """A record that may explain a failure; ``missing`` is what would have to be known to be sure."""

    record: Mapping[str, Any]
    sure: bool
    missing: tuple[str, ...]

    @property
    def text(self) -> str:
        """The record in one sentence, with its id."""
        said = f"{self.record['title']} ({self.record['id']}): {self.record['cause']}"
        return said if self.sure else f"possibly (not known: {', '.join(self.missing)}): {said}"


def explaining(experiment: Experiment, records: Records) -> list[Found]:
    """The records that tell of this failure and match the run, surest first: one that is sure, or a few."""
    failure = experiment.outcome.failure
    if failure is None or failure.signature == "unknown":
        return []
    best = explain_failure(failure.signature, experiment, records)
    query = query_of(*_parts(experiment))
    told = [one for one in records if _tells(one, failure.signature)]
    matches = [(one, matched) for one in told if (matched := match(one, query)) is not None and matched.met]
    if failure.signature in MANY_REASONS:
        matches = [(one, matched) for one, matched in matches if matched.sure and matched.chosen]
    if failure.signature == UNKNOWN_MODEL:
        matches = [(one, matched) for one, matched in matches if not _of_models(opens(matched, query))]
    matches.sort(
        key=lambda pair: (
            pair[0]["id"] != best,
            not pair[1].sure,
            not pair[1].chosen,
            -len(pair[1].met),
            len(pair[1].missing),
            -len(pair[0]["evidence"]),
        )
    )
    found = [Found(one, matched.sure, opens(matched, query)) for one, matched in matches]
    return found[:1] if found and found[0].sure else found[:MAX_RECORDS]


def _of_models(missing: Sequence[str]) -> bool:
    return any(one.startswith("the model") for one in missing)


def _tells(record: Mapping[str, Any], signature: str) -> bool:
    return not record["good"] and any(one.get("signature") == signature for one in record["outcomes"])


def _record(name: str | None, records: Records) -> Mapping[str, Any] | None:
    return next((one for one in records if one["id"] == name), None) if name else None


def _where(incident: Incident, experiment: Experiment) -> str | None:
    failure = experiment.outcome.failure
    if failure is None:
        return f"{incident.log}, stage {experiment.outcome.stage or 'unknown'}"
    place = f"{incident.log}:{failure.line}" if failure.line else incident.log
    parts = [
        place,
        f"stage {experiment.outcome.stage or 'unknown'}",
        f"{failure.signature}, {experiment.outcome.effect}",
    ]
    parts += [f"in {incident.told['rank']}"] if incident.told.get("rank") else []
    parts += [f"blame {experiment.outcome.blame}"]
    parts += [f"raised at {incident.told['frame']}"] if incident.told.get("frame") else []
    return safe(", ".join(parts))


def _run(experiment: Experiment) -> str:
    backend, hardware, model = experiment.backend, experiment.hardware, experiment.model
    kernels = {**backend.requested, **backend.resolved}
    parts = [
        f"{backend.engine or 'unknown program'} {backend.engine_version or '(version not printed)'}",
        model.name or "model not printed",
        f"{hardware.count or '?'} x {hardware.gpu or hardware.arch or 'GPU not printed'}",
        *(f"{role} = {kernel}" for role, kernel in sorted(kernels.items())),
    ]
    return safe(" · ".join(parts))


def _echo_lines(echoes: Sequence[Mapping[str, Any]]) -> list[str]:
    if not echoes:
        return []
    shown = [_echo_line(one) for one in echoes[:MAX_ECHOES]]
    rest = len(echoes) - MAX_ECHOES
    return [*shown, f"and {rest} more"] if rest > 0 else shown


def _echo_line(one: Mapping[str, Any]) -> str:
    times = f" (x{one['count']})" if one["count"] > 1 else ""
    return f"line {one['line']}{times}: {quoted(one['text'])}"


def _advice(incident: Incident, experiment: Experiment, record: Mapping[str, Any] | None) -> list[str]:
    lines: list[str] = []
    if record is not None:
        lines += [_remedy(one) for one in remedies(record, query_of(*_parts(experiment)), {})]
    lines += [_newer(experiment)]
    lines += [safe(str(one)) for one in incident.told.get("advice") or []]
    return [one for one in dict.fromkeys(lines) if one]


def _newer(experiment: Experiment) -> str:
    failure = experiment.outcome.failure
    if failure is None or failure.signature != UNKNOWN_MODEL:
        return ""
    return upgrade_for(failure.text, query_of(*_parts(experiment))) or ""


def _parts(experiment: Experiment) -> tuple[Any, Any, Any]:
    return experiment.hardware, experiment.model, experiment.backend


def _remedy(one: Mapping[str, Any]) -> str:
    environment = " ".join(f"{key}={value}" for key, value in (one.get("environment") or {}).items())
    needs = ", ".join(f"{key} {value}" for key, value in (one.get("requires") or {}).items())
    said = " ".join(part for part in (environment, one.get("flags") or "", one.get("text") or "") if part)
    return safe(f"{said}{f' (needs {needs})' if needs and needs not in said else ''}".strip())


def quoted(text: str) -> str:
    """Log text in quotes, on one line, without control characters."""
    return f'"{clip(text)}"'


def clip(text: str, limit: int = MAX_QUOTE) -> str:
    """Log text on one line, without control characters, cut to a length."""
    text = safe(" ".join(text.split()))
    return text if len(text) <= limit else text[: limit - 1] + "…"
