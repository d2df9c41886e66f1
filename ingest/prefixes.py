"""Outer prefixes: what docker, kubectl, journald and friends put around a line that a program printed.

Owns the unwrapping of such prefixes, of ANSI sequences and of carriage-return frames, and the wall-clock time
that a prefix carries. Must not know any engine, and never raises on bad input.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

MAX_NESTING = 4
MIN_SHARE = 0.5
SAMPLE_LINES = 200
_FEWEST_INDENTED = 3

ANSI = re.compile(
    r"\x1b(?:\[[0-9;:?]{0,32}[ -/]?[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|[()*+][0-9A-Za-z]|[=>78MHc])"
)
# Terminals and editors that show control characters write them with a caret.
CARET = re.compile(r"\^\[\[[0-9;]{0,16}[mK]|\^M$")
PROGRESS_FRAME = re.compile(r"\d%\||\d+% Completed|\d+(?:\.\d+)?(?:it/s|s/it)")
# A program's own stamp looks like a container's; a level and a module's name after it give it away.
OWN_STAMP = re.compile(r"^\S+\s+(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR)\s+[a-z][\w:-]{0,80}: ")

RFC3339 = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)"
CLOCK = r"\d\d:\d\d:\d\d"
MONTH = r"(?:[^\W\d_]{3,5}\.?|\d{1,2}月)"  # journald prints the month in the user's language


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """A line without its wrapping: text, the wrapper's time (as printed); ``partial``: more follows."""

    text: str
    time: str | None = None
    partial: bool = False


Unwrap = Callable[[str], "Unwrapped | None"]


@dataclass(frozen=True, slots=True)
class Wrapper:
    """One kind of prefix. ``share`` is the part of the lines that must carry it before it counts as one."""

    name: str
    unwrap: Unwrap
    share: float = MIN_SHARE


def _by_pattern(pattern: str) -> Unwrap:
    compiled = re.compile(pattern)

    def unwrap(line: str) -> Unwrapped | None:
        found = compiled.match(line)
        if found is None:
            return None
        named = found.groupdict()
        return Unwrapped(line[found.end() :], named.get("time"), named.get("flag") == "P")

    return unwrap


def _stamp(line: str) -> Unwrapped | None:
    if OWN_STAMP.match(line):
        return None
    return _PLAIN_STAMP(line)


def _docker_json(line: str) -> Unwrapped | None:
    if not line.startswith('{"log":'):
        return None
    record = _json_object(line)
    text = record.get("log")
    if not isinstance(text, str):
        return None
    time = record.get("time")
    return Unwrapped(text.rstrip("\n"), time if isinstance(time, str) else None, not text.endswith("\n"))


def _cloudwatch_csv(line: str) -> Unwrapped | None:
    """A row of exported events, in which control characters stand as ``#`` and three octal digits."""
    found = _CLOUDWATCH.match(line)
    if found is None or ("#033[" not in line and "#015" not in line):
        return None
    text = found["text"]
    if text.startswith('"'):
        text = text[1:].removesuffix('"').replace('""', '"')
    text = text.removesuffix("#015").replace("#033[", "\x1b[").replace("#011", "\t")
    return Unwrapped(text, _time_of_microseconds(f"{found['time']}000"))


def _journal_json(line: str) -> Unwrapped | None:
    if not line.startswith("{") or '"MESSAGE"' not in line:
        return None
    record = _json_object(line)
    message = record.get("MESSAGE")
    if isinstance(message, list):
        message = bytes(one & 0xFF for one in message if isinstance(one, int)).decode("utf-8", "replace")
    if not isinstance(message, str):
        return None
    return Unwrapped(message, _time_of_microseconds(record.get("__REALTIME_TIMESTAMP")))


def _pino_json(line: str) -> Unwrapped | None:
    if not _PINO.match(line):
        return None
    record = _json_object(line)
    text, time = record.get("msg"), record.get("time")
    if not isinstance(text, str):
        return None
    return Unwrapped(text.rstrip("\n"), _time_of_microseconds(f"{time}000"))


def _time_of_microseconds(value: object) -> str | None:
    try:
        return datetime.fromtimestamp(int(str(value)) / 1e6, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return None


def _json_object(line: str) -> dict[str, object]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


_PLAIN_STAMP = _by_pattern(rf"(?P<time>{RFC3339})\s(?:(?:stdout|stderr)\s(?P<flag>[FP])\s)?")

_CLOUDWATCH = re.compile(r"(?P<time>\d{13}),(?P<text>.*)", re.DOTALL)
_PINO = re.compile(r'\{"level":\d{1,3},')

WRAPPERS: tuple[Wrapper, ...] = (
    Wrapper("docker json-file", _docker_json),
    Wrapper("journald json", _journal_json),
    Wrapper("pino json", _pino_json),
    Wrapper("cloudwatch csv", _cloudwatch_csv),
    Wrapper(
        "journald iso",
        _by_pattern(rf"(?P<time>{RFC3339})\s[\w.-]{{1,80}}\s[^\s\[\]:]{{1,80}}(?:\[\d+\])?:\s"),
    ),
    Wrapper(
        "journald short",
        _by_pattern(
            rf"(?P<time>{MONTH} [ \d]\d {CLOCK}(?:\.\d+)?)\s[\w.-]{{1,80}}\s[^\s\[\]:]{{1,80}}\[\d+\]:\s"
        ),
    ),
    Wrapper(
        "journald unix",
        _by_pattern(r"(?P<time>\d{10}\.\d{3,6})\s[\w.-]{1,80}\s[^\s\[\]:]{1,80}(?:\[\d+\])?:\s"),
    ),
    Wrapper("container stamp", _stamp),
    Wrapper("kubectl", _by_pattern(r"\[pod/[^/\]\s]{1,253}/[^\]\s]{1,253}\]\s")),
    Wrapper("compose", _by_pattern(r"[\w.-]{1,120}?-\d+\s+\|\s"), 0.8),
    Wrapper("mail", _by_pattern(r">(?: |$)"), 0.97),
    Wrapper("quoted", _by_pattern(r"\s{0,8}\|\s(?!.*\|\s*$)"), 0.95),  # not a row of a table
    Wrapper("compose named", _by_pattern(r"[a-z][\w.-]{0,60}\s+\|\s"), 0.9),
    Wrapper(
        "stern",
        _by_pattern(r"[a-z0-9][a-z0-9.-]{0,250}-[a-z0-9]{1,10}\s[a-z0-9][a-z0-9-]{0,62}(?:\s|$)"),
        0.97,
    ),
    Wrapper("ray", _by_pattern(r"\([\w .:-]{1,80}? pid=\d+, ip=[\d.a-f:]+\)\s"), 0.2),
    Wrapper("mpirun", _by_pattern(r"\[\d+,\d+\]<std(?:out|err)>:\s?")),
    Wrapper("grep", _by_pattern(r"(?:[\w.@+-]+/)*[\w.@+-]+\.(?:log|out|err|txt|o\d+)[:-](?:\d+[:-])?"), 0.9),
    Wrapper("slurm", _by_pattern(r"\s?\d{1,5}:\s"), 0.9),
    Wrapper(
        "date stamp",
        _by_pattern(
            rf"(?P<time>\d{{4}}-\d\d-\d\d {CLOCK}(?:\.\d+)?) (?:\| )?"
            r"(?![-|] |\d|\[?(?:DEBUG|INFO|WARN|ERROR)|: )"
        ),
        0.9,
    ),
    Wrapper("ts", _by_pattern(rf"(?P<time>{MONTH} [ \d]\d \d\d:\d\d:\d\d)\s"), 0.9),
    Wrapper("ts -s", _by_pattern(r"\d\d:\d\d:\d\d\s(?=\S)"), 0.95),
)


def strip_ansi(text: str) -> str:
    """The text without terminal control sequences, also where they are written out with a caret."""
    text = CARET.sub("", text) if "^[[" in text or text.endswith("^M") else text
    return ANSI.sub("", text) if "\x1b" in text else text


def find_wrappers(lines: Iterable[str]) -> tuple[Wrapper, ...]:
    """The wrappers around these first lines, outermost first; each must hold for its share of the lines."""
    sample = [line for line in (strip_ansi(one) for one in lines) if line.strip()][:SAMPLE_LINES]
    found: list[Wrapper] = []
    if len(indent := _common_indent(sample)) > 1:
        found.append(Wrapper("indent", _by_pattern(indent)))
        sample = [line.removeprefix(indent) for line in sample]
    while sample and len(found) < MAX_NESTING:
        wrapper, inner = _outermost(sample)
        if wrapper is None:
            break
        found.append(wrapper)
        sample = [line for line in inner if line.strip()]
    return tuple(found)


def _common_indent(sample: list[str]) -> str:
    """The blanks that every line begins with: a block pasted below a list's item, say."""
    if len(sample) < _FEWEST_INDENTED:
        return ""
    indents = [line[: len(line) - len(line.lstrip(" \t"))] for line in sample]
    pairs = enumerate(zip(min(indents), max(indents), strict=False))
    until = next((at for at, (one, other) in pairs if one != other), min(map(len, indents)))
    return indents[0][:until]


def _outermost(sample: list[str]) -> tuple[Wrapper | None, list[str]]:
    for wrapper in WRAPPERS:
        inner = [wrapper.unwrap(line) for line in sample]
        if sum(one is not None for one in inner) >= wrapper.share * len(sample):
            return wrapper, [
                line if one is None else strip_ansi(one.text) for one, line in zip(inner, sample, strict=True)
            ]
    return None, sample


def unwrap(line: str, wrappers: tuple[Wrapper, ...]) -> Unwrapped:
    """A line without the given wrappers and without ANSI; the outermost time wins."""
    text, time, partial = strip_ansi(line), None, False
    for wrapper in wrappers:
        inner = wrapper.unwrap(text)
        if inner is None:
            continue
        text, time, partial = strip_ansi(inner.text), time or inner.time, partial or inner.partial
    return Unwrapped(text, time, partial)


def frames(text: str) -> list[str]:
    """The carriage-return frames of one line; of many progress frames only the last is kept."""
    if "\r" not in text:
        return [text]
    parts = [part for part in text.split("\r") if part.strip()]
    if len(parts) <= 2:
        return parts or [""]
    kept = [part for part in parts[:-1] if not PROGRESS_FRAME.search(part[-200:]) or "] " in part]
    return [*kept, parts[-1]]


def clean_lines(
    numbered: Iterable[tuple[int, str]], wrappers: tuple[Wrapper, ...]
) -> Iterator[tuple[int, str, str | None]]:
    """(line number, text, wrapper's time) of raw lines; parts of a line that a runtime split are joined."""
    held, held_number, held_time = "", 0, None
    for number, line in numbered:
        one = unwrap(line, wrappers)
        if one.partial:
            if not held:
                held_number, held_time = number, one.time
            held += one.text
            if len(held) < 1 << 20:
                continue
        text = held + ("" if one.partial else one.text)
        at, time = (held_number, held_time) if held else (number, one.time)
        held = ""
        for frame in frames(text):
            yield at, frame, time
    if held:
        yield held_number, held, held_time
