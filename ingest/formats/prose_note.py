"""Write-ups as plain text: paragraphs of prose, with a command here and there.

Owns telling prose from logs and tables. What prose says is not guessed: it is counted as not read. Only
launch commands that stand in it word for word are taken.
"""

from __future__ import annotations

import re

from ingest.formats import Format, Unreadable
from ingest.launches import experiment_of
from ingest.sources import Source
from ingest.traces import line_count
from kb.model import Problem, Reading
from kb.vocab.engines import Launch, parse_shell

_LARGEST = 4 << 20
_SENTENCE = re.compile(r"[a-z,;:)\"'’”] [a-z(\"'“‘]")
_STAMP = re.compile(
    r"^(?:\W{0,3}(?:\d{4}[-/]\d\d[-/]\d\d|\d\d:\d\d:\d\d|(?:INFO|WARNING|ERROR|DEBUG)\b)"
    r"|\[rank\d+\]:|\([\w ]+ pid=\d+)"
)
_START = re.compile(
    r"(?:^|[\s`\"'(])((?:[A-Z_]+=\S+ )*(?:python3? -m (?:sglang\.launch_server|vllm\.entrypoints\S*)|"
    r"vllm serve|sglang serve|trtllm-serve)\s+[^`\"'\n]{4,2000})"
)


def sniff(source: Source) -> float:
    """Most of the text stands in long lines of sentences."""
    if source.head.lstrip("\ufeff \t\r\n")[:1] in ("{", "[", "<", "#", "|"):
        return 0.0
    lines = [line.strip() for line in source.head.split("\n") if line.strip()]
    prose = [line for line in lines if _is_prose(line)]
    letters = sum(map(len, prose))
    return 0.65 if len(prose) >= 2 and letters >= 0.7 * sum(map(len, lines)) else 0.0


def read(source: Source) -> Reading:
    """Title, and the launch commands that stand in the text."""
    text = source.text[:_LARGEST]
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if not lines:
        raise Unreadable("the text is empty")
    launches = [launch for found in _START.finditer(text) for launch in parse_shell(found[1])]
    prose = sum(1 for line in lines if _is_prose(line))
    what = f"{prose} paragraphs of prose were not read: what they say is not guessed"
    return Reading(
        path=str(source.path),
        format="prose_note",
        kind="note",
        status="partial",
        experiments=tuple(experiment_of(one) for one in _distinct(launches)),
        lines=line_count(len(lines), prose),
        problems=(Problem(line=None, what=what),),
        extra={"title": lines[0][:200], "paragraphs": prose},
    )


def _is_prose(line: str) -> bool:
    words = line.split()
    return len(words) >= 20 and len(_SENTENCE.findall(line)) >= 0.3 * len(words) and not _STAMP.match(line)


def _distinct(launches: list[Launch]) -> list[Launch]:
    """Each start once; a cut command that another one goes on from is left out."""
    kept: list[Launch] = []
    for one in launches:
        if one.model and not any(_same(one, other) for other in kept):
            kept.append(one)
    return kept[:20]


def _same(one: Launch, other: Launch) -> bool:
    return (one.engine, one.model, dict(one.settings)) == (other.engine, other.model, dict(other.settings))


FORMAT = Format(
    name="prose_note",
    kind="note",
    sniff=sniff,
    read=read,
    docs="Write-ups as plain text: the title and the launch commands that stand in it; prose is counted as "
    "not read, never guessed at.",
)
