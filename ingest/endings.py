"""How a server start ended whose log names no cause: killed, hung, stopped, or served to the end.

Owns what it means when a log simply ends. Must not look for causes (ingest.classify does).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from ingest.clock import iso_time
from ingest.server_start import Start, Verdict, clip
from ingest.tracebacks import Finding
from ingest.traces import seconds_between
from kb.model import Blame, Effect, Failure, Outcome, Stage, Warning  # noqa: A004
from kb.symptoms import table

_WAITING = re.compile(r"(?i)\bwait(?:ing|s)? for\b")
_PATIENCE_S = 600.0  # past loading, no step of a healthy start takes longer without a word of its own
_QUOTED = re.compile(r'[}\]],?$|"\w[\w ]*": ')  # the end of a document in JSON that quotes lines of a log
FRONT = re.compile(r"(?i)api_?server")
_MANY = 60  # said every ten seconds or so
_SOME_YEAR = datetime(2000, 12, 31, tzinfo=UTC)  # where logs print none: only differences count
_YEAR = re.compile(r"\d{4}-(?=\d\d-\d\d)")
_PROGRESS = re.compile(r"\| (\d{1,9})/\d{1,9} \[")
# What a process that ended by itself leaves with its parent: an error that it returned, or a code of its own.
_OWN_END = re.compile(
    r"returned error|exit (?:status|code)[: =]{1,2}(?:0x[0-9a-f]{2,8}|(?!9\b|137\b)[1-9]\d{0,5})"
)


def died(start: Start, death: Finding, warnings: tuple[Warning, ...]) -> Verdict:
    """A process of the engine is gone, and no error says why."""
    stage = start.stage_at(death.line) if start.has_begun(death.line) else death.stage
    if _OWN_END.search(death.text) or not start.has_begun(start.last):
        cause = "The engine's process ended by itself, with an error that this log does not show."
        failure = Failure(signature="engine-dead", text=clip(death.text), line=death.line, cause=cause)
        outcome = Outcome(stage=stage, effect="crash", blame="unknown", failure=failure, warnings=warnings)
        return Verdict(outcome, (death,), death.process)
    if peer := _lost_peer(start, death):
        return _left(start, death, peer, warnings)
    cause = (
        "The engine's process ended without an error of its own: it was killed from outside "
        "(the kernel's memory killer, a signal), or its last words are missing from this log."
    )
    failure = Failure(signature="child-killed", text=clip(death.text), line=death.line, cause=cause)
    symptom = table().named("child-killed")
    outcome = Outcome(stage=stage, effect="killed", blame="unknown", failure=failure, warnings=warnings)
    return Verdict(outcome, (death,), death.process, symptom.advice if symptom else None)


def _lost_peer(start: Start, death: Finding) -> Finding | None:
    """The exception that another rank's end raised here, before this process ended."""
    before = (one for one in start.findings if one.is_exception and one.line <= death.line)
    return next((one for one in before if one.match and one.match.symptom.name == "peer-failed"), None)


def _left_last(start: Start) -> Finding | None:
    """The exception of a peer's end after which nothing was served any more, unless it was asked to stop."""
    stopped = start.line_of("stopped")
    for one in start.findings:
        if one.is_exception and not one.is_noise and one.match and one.match.symptom.name == "peer-failed":
            over = not start.scan.progress_after(one.line, start.last)
            return one if over and (stopped is None or stopped > one.line) else None
    return None


def _left(start: Start, death: Finding, peer: Finding, warnings: tuple[Warning, ...]) -> Verdict:
    symptom = table().named("peer-failed")
    cause = symptom.meaning if symptom else ""
    failure = Failure(signature="peer-failed", text=clip(peer.text), line=peer.line, cause=cause)
    stage = start.stage_at(peer.line) if start.has_begun(peer.line) else None
    outcome = Outcome(stage=stage, effect="crash", blame="unknown", failure=failure, warnings=warnings)
    return Verdict(outcome, (death,), peer.process, symptom.advice if symptom else None)


def without_error(start: Start, warnings: tuple[Warning, ...]) -> Verdict:
    """The log names no cause: a peer went away, or it simply ends."""
    if peer := _left_last(start):
        return _left(start, peer, peer, warnings)
    return _broken_off(start, warnings) or _at_its_end(start, warnings)


def _at_its_end(start: Start, warnings: tuple[Warning, ...]) -> Verdict:
    """The log simply ends: served, stopped, hung, or cut off."""
    stage = start.stage_at(start.last + 1)
    if stage in ("ready", "serve"):
        return Verdict(Outcome(stage=stage, effect="ok", blame="unknown", warnings=warnings))
    is_empty = not start.events and not start.findings
    if is_empty or (start.ending is not None and _QUOTED.match(start.ending.text.strip())):
        reached = None if is_empty else stage
        return Verdict(Outcome(stage=reached, effect="unknown", blame="unknown", warnings=warnings))
    pending = start.pending()
    if start.line_of("stopped") is not None:
        what = f"It was asked to stop while at stage {stage}."
        return _ended(start, "killed", "killed", what, warnings, "harness")
    if pending in ("distributed", "capture") and not _was_busy(start):
        return _hung(start, pending, warnings)
    return _short_of_ready(start, stage, warnings)


def _short_of_ready(start: Start, stage: Stage | None, warnings: tuple[Warning, ...]) -> Verdict:
    """The log ends before the server was ready, and nobody was seen to wait for a peer."""
    if stage not in (None, "install", "args", "init", "load") and _has_waited(start):
        what = f"The log ends at stage {stage}, after minutes of waiting in which no step came."
        signature = "hang-capture" if stage == "capture" else "hang-distributed"
        return _ended(start, "hang", signature, what, warnings)
    if _went_down(start):
        what = f"The process went down at stage {stage} without any error: it was ended from outside."
        return _ended(start, "killed", "killed", what, warnings)
    what = f"The log ends at stage {stage} without any error: killed from outside, cut off, or still running."
    if start.last < start.scan.total:
        what = f"It had got to stage {stage}, without any error, when the log's next start began."
    return _ended(start, "unknown", "log-ends", what, warnings)


def _broken_off(start: Start, warnings: tuple[Warning, ...]) -> Verdict | None:
    """What is to say where the log's last words stand inside a traceback."""
    cut = next((one for one in start.findings if one.is_cut and one.line >= start.last - 2), None)
    if cut is None or (start.stage_at(start.last + 1) in ("ready", "serve") and not _is_of_engine(cut)):
        return None
    stage = (start.stage_at(cut.line) if start.has_begun(cut.line) else None) or cut.stage
    cause = "An exception was raised; the log breaks off inside its traceback, before it is named."
    failure = Failure(signature="unknown", text=clip(cut.text), line=cut.line, cause=cause)
    return Verdict(
        Outcome(stage=stage, effect="crash", blame="unknown", failure=failure, warnings=warnings),
        rank=cut.process,
    )


def _is_of_engine(cut: Finding) -> bool:
    """Whether what raised is a process of the engine: a server's own survives what one request raises."""
    return bool(cut.process) and not FRONT.match(cut.process)


def _went_down(start: Start) -> bool:
    """Whether the last words are those of a process that was going down."""
    return any("leaked" in one.text and one.line >= start.last - 3 for one in start.findings)


def _has_waited(start: Start) -> bool:
    """Whether a log ends with nothing but words of waiting, for minutes by their times or by their number."""
    last = start.ending
    if last is None or not _WAITING.search(last.text):
        return False
    steps = [one for one in start.events if one.kind != "waiting" and not _WAITING.search(one.text)]
    before = max(steps, key=lambda one: one.line, default=None)
    since = before.line if before else start.first
    ends = [one.time or "" for one in (before, last) if one is not None]
    ends = ends if all(_YEAR.match(one) for one in ends) else [_YEAR.sub("", one) for one in ends]
    times = [iso_time(one, _SOME_YEAR) for one in ends]  # one writer prints the year, another does not
    waited = seconds_between(times[0] or "", times[-1] or "") if len(times) > 1 else None
    if waited:  # a wrapper may stamp a whole log with one moment
        return waited > _PATIENCE_S
    return sum(one.kind == "waiting" and one.line > since for one in start.events) >= _MANY


def _was_busy(start: Start) -> bool:
    """Whether the end shows work under way (a moving progress bar) or a process that was going down."""
    if _went_down(start):
        return True
    moving = _PROGRESS.search(start.ending.text) if start.ending is not None else None
    return moving is not None and int(moving[1]) > 0


def _hung(start: Start, pending: str, warnings: tuple[Warning, ...]) -> Verdict:
    what = {
        "distributed": "The log ends while the processes were finding each other: a peer never came.",
        "capture": "The log ends while CUDA graphs were being captured, with no end and no error.",
    }[pending]
    return _ended(start, "hang", f"hang-{pending}", what, warnings, pending=pending)


def _ended(  # noqa: PLR0913, PLR0917 - one ending has as many sides
    start: Start,
    effect: Effect,
    signature: str,
    cause: str,
    warnings: tuple[Warning, ...],
    blame: Blame = "unknown",
    pending: str | None = None,
) -> Verdict:
    last = start.ending
    text = "" if last is None else last.text
    failure = Failure(
        signature=signature, text=clip(text), line=last.number if last else start.last, cause=cause
    )
    stage = start.stage_at(start.last + 1)
    outcome = Outcome(stage=stage, effect=effect, blame=blame, failure=failure, warnings=warnings)
    return Verdict(outcome, pending=pending)
