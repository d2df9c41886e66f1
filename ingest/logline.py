"""One line of a server log, taken apart: who wrote it, how loud, when, and the message itself.

Owns the prefixes that engines and their libraries print. Must not know what messages mean. Every pattern is
anchored and bounded, so that no line can make it slow.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

LEVELS = {
    "I": "info",
    "W": "warning",
    "E": "error",
    "F": "error",
    "D": "debug",
    "V": "debug",
    "INFO": "info",
    "WARN": "warning",
    "WARNING": "warning",
    "ERROR": "error",
    "CRITICAL": "error",
    "FATAL": "error",
    "SEVERE": "error",
    "DEBUG": "debug",
    "TRACE": "debug",
}


@dataclass(slots=True)
class Line:
    """A line without its prefixes.

    ``process`` names the writer (process and pid, or rank tags) and is empty where nothing tells; ``level``
    is one of debug, info, warning, error, or None where the engine prints none; ``time`` is as printed, by
    the program or by what wraps it. ``is_plain``: the program put nothing in front (the inside of a
    traceback, another program's output).
    """

    number: int
    text: str
    process: str = ""
    level: str | None = None
    time: str | None = None
    is_plain: bool = True


_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_PATTERNS: dict[str, tuple[re.Pattern[str], ...]] = {
    "(": (
        re.compile(
            r"\((?P<process>[A-Za-z][\w .:=-]{0,60}?,? pid=\d{1,10})(?:, ip=[\d.a-f:]{1,40})?\)(?: |$)"
        ),
    ),
    "[": (
        re.compile(
            rf"\[(?P<time>\d{{4}}-\d\d-\d\d {_CLOCK})(?P<process>(?: [A-Z_]{{2,10}}\d{{1,4}}){{0,8}})\] "
        ),
        re.compile(
            rf"\[(?P<time>\d\d/\d\d/\d{{4}}-{_CLOCK})\] \[TRT-LLM\] "
            r"(?:\[(?P<process>(?:MPI_Rank|RANK) \d{1,4})\] )?\[(?P<level>[FEWIVD])\] ?"
        ),
        re.compile(r"(?=(?P<rest>\[TM\]\[(?P<level>ERROR|FATAL)\].*))", re.DOTALL),  # part of its message
        re.compile(r"\[(?:TensorRT-LLM|TM)\]\[(?P<level>[A-Z]{4,8})\](?:\[(?P<process>\d{1,4})\])? ?"),
        re.compile(r"\[(?P<process>rank\d{1,5})\]: ?"),
        re.compile(r"\[(?P<level>[IWEF])(?P<time>\d{3,4} [\d:.]{8,20})(?: [\w.]{1,80}:\d{1,6})?\] "),
        re.compile(r"\[ {0,8}(?P<time>\d{1,9}\.\d{4,6})\] "),
        re.compile(r"\[(?P<level>INFO|WARN|WARNING|ERROR|DEBUG|FATAL)\]:? "),
        re.compile(
            rf"\[(?P<time>\w{{3}} \d\d \d{{4}} {_CLOCK})\] \[(?P<level>[A-Z]{{4,8}})\] "
            r"(?:\[tid \d{1,9}\] )?"
        ),
        re.compile(rf"\[(?P<time>\d\d-\d\d|\d{{4}}-\d\d-\d\dT?) ?{_CLOCK}Z?\] "),
    ),
}
_LEVEL_FIRST = re.compile(
    rf"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<time>\d\d-\d\d {_CLOCK}) "
    r"\[?[\w./<> -]{1,120}:\d{1,6}\] ?"
)
# Google's logger: only its level is taken, for the file that it names tells programs apart.
_GLOG = re.compile(r"([IWEF])\d{4} \d\d:\d\d:\d\d\.\d{1,9} {1,8}\d{1,10} [\w./-]{1,80}:\d{1,6}\] ")
_UVICORN = re.compile(r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL):\s{1,9}")
_RUST = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z?)\s{1,3}(?P<level>TRACE|DEBUG|INFO|WARN|ERROR)\s"
    r"(?:(?P<process>[a-z][\w-]{0,40}): |[a-z][\w-]{0,40}\{.{0,4000}?\}: )?(?=[\w:]{1,80}: )"
)
_PYTHON = re.compile(
    rf"(?P<time>\d{{4}}-\d\d-\d\d[ T]{_CLOCK})(?: - [\w.]{{1,60}}| \[[\w.]{{1,60}}\])?(?: -)? {{1,2}}"
    r"\[?(?P<level>DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL)\]?"
    r"(?: - [\w.]{1,80}:\d{1,6})?(?: -| :|:)? "
)
_LLAMA = re.compile(r"(?:(?P<time>\d{1,6}\.\d\d\.\d\d\d\.\d\d\d) )?(?P<level>[IWED]) (?=\S)")
_OLLAMA = re.compile(
    r"time=(?P<time>\S{10,40}) level=(?P<level>DEBUG|INFO|WARN|ERROR) (?:source=\S{1,80} )?msg=(?P<rest>.*)",
    re.DOTALL,
)
_RANK = re.compile(r"(?P<process>(?:TP|rank)[ _]?\d{1,4})[:\]] ")

MAX_PREFIXES = 4


def split(number: int, text: str, time: str | None = None) -> Line:
    """A line's prefixes and message. ``time`` is an outer prefix's, kept where the line has none itself."""
    line = Line(number, text, time=None)
    if text[:1] == "{" and (unwrapped := _from_json(number, text)) is not None:
        return unwrapped
    for _ in range(MAX_PREFIXES):
        if not _strip_one(line):
            break
    if line.is_plain and text[:1] in "IWEF" and (found := _GLOG.match(text)):
        line.level = LEVELS[found[1]]
    if time is not None and (line.time is None or time[:4].isdigit()):
        line.time = time  # the container's stamp has year and zone
    return line


def _strip_one(line: Line) -> bool:
    text = line.text
    for pattern in _candidates(text):
        found = pattern.match(text)
        if found is None:
            continue
        named = found.groupdict()
        line.is_plain = False
        line.text = named.get("rest") or text[found.end() :]
        line.process = line.process or (named.get("process") or "").strip()
        line.level = LEVELS.get(named.get("level") or "", line.level)
        line.time = line.time or named.get("time")
        return True
    return False


def _candidates(text: str) -> tuple[re.Pattern[str], ...]:
    first = text[:1]
    if first in _PATTERNS:
        return _PATTERNS[first]
    if first.isdigit():
        return (_RUST, _PYTHON, _LLAMA)
    if first in "IWEDC":
        return (_LEVEL_FIRST, _UVICORN, _LLAMA)
    return (_OLLAMA,) if first == "t" else ()


def _from_json(number: int, text: str) -> Line | None:
    """The line of a JSON logger (Rust's tracing, structlog, old llama.cpp), or None where it is none."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return _from_broken_json(number, text)
    if not isinstance(record, dict):
        return None
    fields = record.get("fields")
    message = fields.get("message") if isinstance(fields, dict) else None
    message = message or record.get("message") or record.get("msg") or record.get("event")
    level = LEVELS.get(
        str(record.get("level") or record.get("levelname") or record.get("severity") or "").upper()
    )
    if not isinstance(message, str) or level is None:
        return None
    target = record.get("target") or record.get("name") or ""
    time = record.get("timestamp") or record.get("asctime") or record.get("time")
    process = str(record.get("processName") or "")
    text = f"{target}: {message}" if target else message
    return Line(number, text, process, level, str(time) if time else None, False)


_BROKEN = re.compile(r'"level":"(?P<level>\w{4,8})".{0,40}?"message":"(?P<text>[^"]{1,4000})"')


def _from_broken_json(number: int, text: str) -> Line | None:
    found = _BROKEN.search(text[:8192])
    if found is None:
        return None
    return Line(number, found["text"], "", LEVELS.get(found["level"].upper()), None, False)
