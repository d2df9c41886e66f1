"""``nvidia-smi -q -x``: the same report as XML (DTD v10 to v13, and before), once or repeated, even cut.

Owns the XML form. A document type is dropped before parsing: nothing is fetched, and a file that declares
entities is refused, since the tool never does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from ingest.formats import Format, Unreadable
from ingest.nvsmi import Machine
from ingest.sources import Source
from ingest.traces import line_count, telemetry_of, trace_reading
from kb.model import Problem, Reading

_ROOT = "<nvidia_smi_log"
_DOCTYPE = re.compile(r"<!DOCTYPE[^>\[]*>")
_DTD = re.compile(r"nvsmi_device(_v\d+)?\.dtd")
_ROOT_BYTES = _ROOT.encode()
_LARGEST = 32 << 20  # of one document
_PIECE = 1 << 16
_DEEPEST = 40
_MOST_ELEMENTS = 200_000  # of one card
_LONG = ("processes", "accounted_processes", "supported_clocks")


def sniff(source: Source) -> float:
    """The root element, or the document type that the tool writes."""
    head = source.head[:4096]
    return 0.99 if _ROOT in head or ("<!DOCTYPE nvidia_smi_log" in head) else 0.0


def read(source: Source) -> Reading:
    """Every document of the file."""
    machine, problems, total = Machine(source.samples), list[Problem](), 0
    dtd = _DTD.search(source.head[:4096])
    for line, document in _documents(source):
        total = line + document.count("\n")
        if "<!ENTITY" in document:
            raise Unreadable("the XML declares entities, which nvidia-smi never does; it is not expanded")
        at = document.find(_ROOT)
        if at >= 0:
            _read_document(document[at:], machine, problems, line + document.count("\n", 0, at))
    if not machine.seen and not machine.facts:
        raise Unreadable("the XML names no driver and no GPU")
    found = telemetry_of(machine.cards.by_key.values(), first=machine.first, last=machine.last)
    return trace_reading(
        str(source.path),
        "nvidia_smi_xml",
        found if machine.cards.rows else None,
        machine.hardware(found),
        tool="nvidia-smi",
        tool_version=machine.facts.get("driver"),
        status="partial" if problems else "parsed",
        lines=line_count(total + 1),
        problems=[*problems[:20], *machine.health()[:20]],
        extra={"cards": list(machine.kept.values()), "dtd": dtd[0] if dtd else None},
    )


def _documents(source: Source) -> Iterator[tuple[int, str]]:
    """(lines before it, text) of each document, with what stands before its root; an endless one is cut."""
    held, size, started, begun = list[bytes](), 0, 0, False
    for first, lines in source.chunks(_LARGEST):
        for number, line in enumerate(lines, first - 1):
            opens, closes = _ROOT_BYTES in line, b"</nvidia_smi_log>" in line
            if opens and begun:
                yield started, _text(held)
                held, size, started = [], 0, number
            begun = begun or opens
            if size < _LARGEST:
                held.append(line)
                size += len(line) + 1
            if closes:
                yield started, _text(held)
                held, size, started, begun = [], 0, number + 1, False
    if any(line.strip() for line in held):
        yield started, _text(held)


def _text(lines: list[bytes]) -> str:
    return _DOCTYPE.sub("", b"\n".join(lines).decode("utf-8", "replace"))


def _read_document(document: str, machine: Machine, problems: list[Problem], line: int) -> None:
    parser: XMLPullParser[Any] = XMLPullParser(("start", "end"))
    above, open_card, depth, count = dict[str, str](), None, 0, 0
    try:
        for event, element in _events(parser, document):
            depth += 1 if event == "start" else -1
            count += 1
            if depth > _DEEPEST or count > _MOST_ELEMENTS:
                problems.append(
                    Problem(line=line + 1, what="more elements than a card has; the rest was not read")
                )
                break
            if event == "start" and depth == 2:
                open_card = element
            if event == "end" and depth == 1:
                open_card, count = None, 0
                _take(element, machine, above)
                element.clear()
    except ParseError as error:
        what = f"the XML is damaged or cut ({error}); the cards before that place were read"
        problems.append(Problem(line=line + getattr(error, "position", (1, 0))[0], what=what))
    if open_card is not None:
        _take(open_card, machine, above)
    facts = {"driver": above.get("driver_version"), "cuda": above.get("cuda_version")}
    machine.told(above.get("timestamp"), facts, above.get("attached_gpus"))


def _events(parser: XMLPullParser[Any], document: str) -> Iterator[tuple[str, Element]]:
    for at in range(0, len(document), _PIECE):
        parser.feed(document[at : at + _PIECE])
        yield from cast(Iterator[tuple[str, Element]], parser.read_events())
    parser.close()
    yield from cast(Iterator[tuple[str, Element]], parser.read_events())


def _take(element: Element, machine: Machine, above: dict[str, str]) -> None:
    if element.tag == "gpu":
        machine.add(element.get("id", ""), dict(_fields(element)))
    else:
        above[element.tag] = (element.text or "").strip()


def _fields(element: Element, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    for child in element:
        inner = f"{path}/{child.tag}" if path else child.tag
        if (
            len(child)
            and depth < 8
            and child.tag not in ("processes", "accounted_processes", "supported_clocks")
        ):
            yield from _fields(child, inner, depth + 1)
        elif child.text and child.text.strip():
            yield inner, child.text.strip()


FORMAT = Format(
    name="nvidia_smi_xml",
    kind="trace",
    version=4,
    sniff=sniff,
    read=read,
    docs="Output of `nvidia-smi -q -x` of any driver, once or repeated. Nothing is fetched for its document "
    "type; a cut file gives the cards before the cut.",
)
