"""How one server start ended: the first true cause among its errors, and what followed from it.

Owns the difference between a cause, an echo, noise, and an error that the server survived; and what it means
when a log simply ends. Must not read files, and must not know engines: their modules give the events.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ingest.events import Event
from ingest.logline import Line
from ingest.logscan import Scan
from ingest.tracebacks import VAGUE, Finding
from kb.model import Blame, Effect, Failure, Outcome, Stage, Warning  # noqa: A004
from kb.symptoms import Match, fill, table

# Classes that usually follow from another rank's or layer's error: they count only if nothing else does.
SECONDARY = frozenset(
    {"nccl-timeout", "nccl-error", "watchdog-timeout", "load-imbalance", "health-timeout", "launch-failed"}
)
LAST_WORDS = frozenset({"segfault"})
POST_MORTEM = frozenset({"engine-dead", "child-killed"})
TRIVIAL = ("KeyError", "StopIteration", "AttributeError", "AssertionError", "IndexError")
MAX_WARNINGS = 40
PROGRESS = re.compile(r"\| (\d{1,9})/\d{1,9} \[")
MAX_TEXT = 600


@dataclass(slots=True)
class Start:
    """One server start's share of a log: lines ``first`` to ``last``, with what was found in them."""

    first: int
    last: int
    events: list[Event]
    findings: list[Finding]
    scan: Scan
    ending: Line | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the log shows a server's beginning or any of its steps."""
        served = self.scan.progress_after(self.first - 1, self.last)
        return served or any(one.kind in ("start", "stage", "ready") for one in self.events)

    def line_of(self, kind: str) -> int | None:
        """The first line with an event of this kind."""
        return next((one.line for one in self.events if one.kind == kind), None)

    @property
    def is_idle(self) -> bool:
        """Whether it listens without a model and was asked for none: nothing is missing from its log."""
        kinds = {one.kind for one in self.events}
        return "idle" in kinds and not kinds & {"stage", "ready", "served"}

    def stage_at(self, line: int) -> Stage:
        """The furthest step that any process of the start had reached at a line."""
        ready = self.line_of("idle") if self.is_idle else self.line_of("ready")
        begun = self.first - 1 if ready is None else ready
        if begun < line and self.scan.progress_after(begun, line - 1):
            return "serve"
        if ready is not None and ready <= line:
            return "serve" if self.scan.taken_between(ready, line) else "ready"
        steps = [one for one in self.events if one.kind == "stage" and one.line <= line]
        reached = max(steps, key=lambda one: int(one.values["step"]), default=None)
        return "args" if reached is None else reached.values["stage"]

    def pending(self) -> str | None:
        """What the start was waiting for when its log ended: distributed, capture, or nothing known."""
        last = max(
            (one for one in self.events if one.kind == "stage"), key=lambda one: one.line, default=None
        )
        return None if last is None else last.values.get("pending")


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome with what ``diagnose`` tells beside it."""

    outcome: Outcome
    echoes: tuple[Finding, ...] = ()
    rank: str = ""
    advice: str | None = None
    frame: str | None = None
    pending: str | None = None


@dataclass(slots=True)
class _Chain:
    """The blocks of one exception chain; ``cause`` is the block that says most."""

    findings: list[Finding] = field(default_factory=list)

    @property
    def line(self) -> int:
        return self.findings[0].line

    @property
    def cause(self) -> Finding:
        known = [one for one in self.findings if _kind(one) == "cause"]
        plain = [one for one in known if _name(one) not in VAGUE | SECONDARY]
        if plain or known:
            return (plain or known)[0]
        telling = [one for one in self.findings if not one.text.startswith(TRIVIAL)]
        return (telling or self.findings)[0]


def judge(start: Start) -> Verdict:
    """How the start ended, with the first true cause where there is one."""
    chains = [one for one in _chains(start) if _is_fatal(start, one)]
    warnings = _warnings(start)
    cause = _first_cause(start, chains)
    if cause is not None:
        echoes = tuple(
            one
            for one in start.findings
            if one is not cause and _kind(one) not in ("notice", "noise") and not one.is_noise
        )
        return _failed(start, cause, echoes, warnings)
    death = _death(start)
    if death is not None:
        return _killed(start, death, warnings)
    return _unfailed(start, warnings)


def _kind(finding: Finding) -> str:
    return "unknown" if finding.match is None else finding.match.symptom.kind


def _name(finding: Finding) -> str:
    return "unknown" if finding.match is None else finding.match.symptom.name


def _chains(start: Start) -> list[_Chain]:
    """Errors grouped by exception chain, in the order of their first lines."""
    grouped: dict[int, _Chain] = {}
    chains: list[_Chain] = []
    for finding in start.findings:
        if finding.is_noise or _kind(finding) in ("noise", "notice", "echo", "header"):
            continue
        if finding.chain and finding.chain in grouped:
            grouped[finding.chain].findings.append(finding)
            continue
        chain = _Chain([finding])
        if finding.chain:
            grouped[finding.chain] = chain
        chains.append(chain)
    return chains


def _is_fatal(start: Start, chain: _Chain) -> bool:
    """Whether the server did not go on after this error."""
    cause = chain.cause
    if cause.level in ("warning", "info", "debug") and not (cause.match and cause.match.symptom.anywhere):
        return False
    if _kind(cause) == "unknown" and not cause.is_exception and cause.level != "error":
        return False
    if cause.match is not None and cause.match.symptom.effect == "wrong_output":
        return True
    ready, until = start.line_of("ready") or start.line_of("idle"), _death_line(start)
    if ready is not None and (ready > cause.line or _name(cause) == "port-in-use"):
        return False  # a port that is in use while the server listens is another program's trouble
    if start.scan.progress_after(cause.last if cause.is_exception else cause.line, start.last):
        return (
            until is not None
            and not start.scan.progress_after(until, start.last)
            and _near(start, cause, until)
        )
    return not _process_went_on(start, cause)


def _near(start: Start, cause: Finding, death: int) -> bool:
    """Whether death followed the error before much else was served."""
    served = [line for line in start.scan.progress if cause.line < line <= death]
    return cause.line <= death and len(served) <= 20


def _process_went_on(start: Start, cause: Finding) -> bool:
    if not cause.process:
        return False
    later = (one for one in start.events if one.line > cause.last and one.process == cause.process)
    return any(one.kind in ("stage", "ready") for one in later)


def _first_cause(start: Start, chains: Sequence[_Chain]) -> Finding | None:
    """The earliest known cause that is no consequence of another; then any; then the first unknown error."""
    death = _death_line(start)
    known = [one.cause for one in chains if _kind(one.cause) == "cause"]
    plain = [one for one in known if _name(one) not in SECONDARY | LAST_WORDS]
    specific = [one for one in plain if _name(one) not in VAGUE]
    unknown = [one.cause for one in chains if _kind(one.cause) == "unknown"]
    until = death or start.line_of("stopped") or start.last  # what is unknown and comes later follows from it
    unknown = [one for one in unknown if one.line <= until]
    exceptions = [one for one in unknown if one.is_exception]
    secondary = [one for one in known if _name(one) not in LAST_WORDS]
    for group in (specific, plain, exceptions, secondary, known):
        if group:
            return group[0]
    return unknown[0] if unknown and _did_end(start) else None


def _did_end(start: Start) -> bool:
    """Whether an unknown error line is worth calling the cause: the server never became ready."""
    return start.line_of("ready") is None and not start.scan.progress_after(start.first - 1, start.last)


def _death(start: Start) -> Finding | None:
    stopped = start.line_of("stopped")
    for finding in start.findings:
        if finding.is_noise or _kind(finding) != "echo" or (stopped is not None and finding.line >= stopped):
            continue
        if _name(finding) in POST_MORTEM or _name(finding) == "shell-killed":
            return finding
    return None


def _death_line(start: Start) -> int | None:
    death = _death(start)
    return None if death is None else death.line


_ARGUMENT_CODE = re.compile(
    r"server_args|arg_utils|argparse|/config/|/configs?\.py|llm_args|engine_args|cli_args"
)
_REFUSALS = (
    "ValueError",
    "NotImplementedError",
    "pydantic",
    "ValidationError",
    "AssertionError",
    "TypeError",
)


def _is_refused_argument(cause: Finding, reached: Stage | None) -> bool:
    """Whether an error of no known class is the engine's own check of its arguments.

    That is a refusal in words (a ``ValueError`` …) before anything was loaded: raised by the code of the
    arguments, or while the log had not gone past them.
    """
    if cause.match is not None or not cause.is_exception or not cause.text.lstrip().startswith(_REFUSALS):
        return False
    by_code = bool(_ARGUMENT_CODE.search(cause.frame or "")) and reached in (None, "args", "init")
    return by_code or (reached == "args" and cause.text.lstrip().startswith(("ValueError", "pydantic")))


def _failed(
    start: Start, cause: Finding, echoes: tuple[Finding, ...], warnings: tuple[Warning, ...]
) -> Verdict:
    reached = start.stage_at(cause.line) if start.has_begun or _is_refusal(cause) else None
    number, text = cause.matched or (cause.line, cause.text)
    refused = _is_refused_argument(cause, reached)
    stage = (reached or "args") if refused else _stage(cause.match, reached)
    signature = "unknown" if cause.match is None else class_at(cause.match, stage)
    symptom = None if cause.match is None else cause.match.symptom
    failure = Failure(signature=signature, text=_clip(text), line=number, cause=_sentence(cause, stage))
    effect: Effect = symptom.effect if symptom and symptom.effect else "crash"  # type: ignore[assignment]
    effect = "refused" if refused else effect
    blame: Blame = symptom.blame if symptom and symptom.blame else "unknown"  # type: ignore[assignment]
    outcome = Outcome(stage=stage, effect=effect, blame=blame, failure=failure, warnings=warnings)
    advice = fill(symptom.advice, cause.match.holes) if symptom and symptom.advice and cause.match else None
    return Verdict(outcome, echoes, cause.process, advice, cause.frame)


def _is_refusal(cause: Finding) -> bool:
    """Whether this can stand before anything else: a log without a beginning says no stage otherwise."""
    return cause.match is not None and cause.match.symptom.effect == "refused"


def _stage(match: Match | None, reached: Stage | None) -> Stage | None:
    """The stage that the text itself fixes, unless the log had gone past where that text can stand."""
    fixed = None if match is None else match.symptom.stage
    if fixed is None and match is not None and match.symptom.effect == "oom" and reached == "args":
        return "load"  # nothing is put into a GPU's memory before
    if fixed is None or (reached in ("ready", "serve") and fixed not in ("load_test", "quality")):
        return reached
    if fixed in ("args", "init") and reached not in (None, "args", "init"):
        return reached
    return fixed  # type: ignore[return-value]


def class_at(match: Match, stage: str | None) -> str:
    """The class of a match where it happened: ``oom`` while loading is ``oom-weights``."""
    return match.symptom.by_stage.get(stage or "", match.symptom.name)


def _sentence(cause: Finding, stage: Stage | None) -> str:
    if cause.match is not None:
        return cause.match.meaning
    where = f"at stage {stage}" if stage else "at an unknown stage"
    text = cause.text if cause.matched is None else cause.matched[1].strip()
    return f"An error that is not in the symptom table ended it {where}: {_clip(text, 200)}"


# What a process that ended by itself leaves with its parent: an error that it returned, or a code of its own.
_OWN_END = re.compile(
    r"returned error|exit (?:status|code)[: =]{1,2}(?:0x[0-9a-f]{2,8}|(?!9\b|137\b)[1-9]\d{0,5})"
)


def _killed(start: Start, death: Finding, warnings: tuple[Warning, ...]) -> Verdict:
    stage = start.stage_at(death.line) if start.has_begun else None
    if _OWN_END.search(death.text):
        cause = "The engine's process ended by itself, with an error that this log does not show."
        failure = Failure(signature="engine-dead", text=_clip(death.text), line=death.line, cause=cause)
        outcome = Outcome(stage=stage, effect="crash", blame="unknown", failure=failure, warnings=warnings)
        return Verdict(outcome, (death,), death.process)
    cause = (
        "The engine's process ended without an error of its own: it was killed from outside "
        "(the kernel's memory killer, a signal), or its last words are missing from this log."
    )
    failure = Failure(signature="child-killed", text=_clip(death.text), line=death.line, cause=cause)
    symptom = table().named("child-killed")
    outcome = Outcome(stage=stage, effect="killed", blame="unknown", failure=failure, warnings=warnings)
    return Verdict(outcome, (death,), death.process, symptom.advice if symptom else None)


def _unfailed(start: Start, warnings: tuple[Warning, ...]) -> Verdict:
    stage = start.stage_at(start.last + 1)
    if stage in ("ready", "serve"):
        return Verdict(Outcome(stage=stage, effect="ok", blame="unknown", warnings=warnings))
    if not start.events and not start.findings:
        return Verdict(Outcome(stage=None, effect="unknown", blame="unknown", warnings=warnings))
    pending = start.pending()
    if start.line_of("stopped") is not None:
        return _ended(
            start, "killed", "killed", f"It was asked to stop while at stage {stage}.", warnings, "harness"
        )
    if pending in ("distributed", "capture") and not _was_busy(start):
        return _hung(start, pending, warnings)
    what = f"The log ends at stage {stage} without any error: killed from outside, cut off, or still running."
    return _ended(start, "killed", "killed", what, warnings)


def _was_busy(start: Start) -> bool:
    """Whether the end shows work under way (a moving progress bar) or a process that was going down."""
    if any("leaked" in one.text and one.line >= start.last - 3 for one in start.findings):
        return True
    moving = PROGRESS.search(start.ending.text) if start.ending is not None else None
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
        signature=signature, text=_clip(text), line=last.number if last else start.last, cause=cause
    )
    stage = start.stage_at(start.last + 1)
    outcome = Outcome(stage=stage, effect=effect, blame=blame, failure=failure, warnings=warnings)
    return Verdict(outcome, pending=pending)


def _warnings(start: Start) -> tuple[Warning, ...]:
    """Notices, and errors that the server survived."""
    notices = [
        Warning(line=one.line, text=_clip(one.text), meaning=one.match.meaning)
        for one in start.findings
        if one.match is not None and one.match.symptom.kind == "notice" and not one.is_noise
    ]
    survived = [
        Warning(line=chain.cause.line, text=_clip(chain.cause.text), meaning=_survived(chain.cause))
        for chain in _chains(start)
        if (chain.cause.is_exception or _kind(chain.cause) == "cause") and not _is_fatal(start, chain)
    ]
    return tuple([*notices, *survived][:MAX_WARNINGS])


def _survived(cause: Finding) -> str:
    said = "" if cause.match is None else f" {cause.match.meaning}"
    return f"An error was logged and the server went on.{said}"


def _clip(text: str, limit: int = MAX_TEXT) -> str:
    text = text.strip()
    return text if len(text) <= limit else text[: limit - 1] + "…"
