"""How one server start ended: the first true cause among its errors, and what followed from it.

Owns the difference between a cause, an echo, noise, and an error that the server survived; and what it means
when a log simply ends. Must not read files, and must not know engines: their modules give the events.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ingest.endings import FRONT, died, without_error
from ingest.frame_stages import later
from ingest.server_start import Start, Verdict, clip
from ingest.tracebacks import VAGUE, Finding
from kb.model import Blame, Effect, Failure, Outcome, Stage, Warning  # noqa: A004
from kb.symptoms import Match, fill

# Classes that usually follow from another rank's or layer's error: they count only if nothing else does.
SECONDARY = frozenset(
    {"nccl-timeout", "nccl-error", "watchdog-timeout", "load-imbalance", "health-timeout", "launch-failed"}
)
LAST_WORDS = frozenset({"segfault"})
POST_MORTEM = frozenset({"engine-dead", "child-killed"})
TRIVIAL = ("KeyError", "StopIteration", "AttributeError", "AssertionError", "IndexError")
MAX_WARNINGS = 40
NEAR = 40  # lines: the native stack of an error stands between its message and its traceback


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
        return died(start, death, warnings)
    return without_error(start, warnings)


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
    return not _process_went_on(start, cause) and not _is_of_a_request(start, cause)


def _is_of_a_request(start: Start, cause: Finding) -> bool:
    """Whether a server's own process logged an error of no known class, and was then stopped in order."""
    stopped = start.line_of("stopped")
    in_order = stopped is not None and stopped > cause.line and _death(start) is None
    known = cause.match is not None and cause.match.symptom.kind == "cause"
    return in_order and not known and cause.is_exception and bool(FRONT.match(cause.process))


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
            return _raised(start, group[0])
    return unknown[0] if unknown and _did_end(start) else None


def _raised(start: Start, cause: Finding) -> Finding:
    """The exception whose message a logger gave ahead of its traceback."""
    if cause.is_exception or cause.level != "error":
        return cause
    below = (one for one in start.findings if one.chain and 0 < one.begun - cause.line <= NEAR)
    return next((one for one in below if _name(one) == _name(cause) and _message(one) in cause.text), cause)


def _message(one: Finding) -> str:
    """The start of an exception's message without the exception's name."""
    return one.text.partition(": ")[2][:80] or one.text


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
    reached = start.stage_at(cause.line) if start.has_begun(cause.line) or _is_refusal(cause) else None
    if reached in (None, "args", "init"):
        reached = later(reached, cause.stage)  # a pasted error often has no log before it
    number, text = cause.matched or (cause.line, cause.text)
    refused = _is_refused_argument(cause, reached)
    stage = (reached or "args") if refused else _stage(cause.match, reached)
    signature = "unknown" if cause.match is None else class_at(cause.match, stage)
    symptom = None if cause.match is None else cause.match.symptom
    failure = Failure(signature=signature, text=clip(text), line=number, cause=_sentence(cause, stage))
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
    return f"An error that is not in the symptom table ended it {where}: {clip(text, 200)}"


def _warnings(start: Start) -> tuple[Warning, ...]:
    """Notices, and errors that the server survived."""
    notices = [
        Warning(line=one.line, text=clip(one.text), meaning=one.match.meaning)
        for one in start.findings
        if one.match is not None and one.match.symptom.kind == "notice" and not one.is_noise
    ]
    survived = [
        Warning(line=chain.cause.line, text=clip(chain.cause.text), meaning=_survived(chain.cause))
        for chain in _chains(start)
        if (chain.cause.is_exception or _kind(chain.cause) == "cause") and not _is_fatal(start, chain)
    ]
    return tuple([*notices, *survived][:MAX_WARNINGS])


def _survived(cause: Finding) -> str:
    said = "" if cause.match is None else f" {cause.match.meaning}"
    return f"An error was logged and the server went on.{said}"
