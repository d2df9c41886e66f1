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
from ingest.traces import hardware_of, line_count, telemetry_of, trace_reading
from kb.model import Problem, Reading

_ROOT = "<nvidia_smi_log"
_DOCTYPE = re.compile(r"<!DOCTYPE[^>\[]*>")
_DTD = re.compile(r"nvsmi_device(_v\d+)?\.dtd")
_LARGEST = 512 << 20
_LONG = ("processes", "accounted_processes", "supported_clocks")


def sniff(source: Source) -> float:
    """The root element, or the document type that the tool writes."""
    head = source.head[:4096]
    return 0.99 if _ROOT in head or ("<!DOCTYPE nvidia_smi_log" in head) else 0.0


def read(source: Source) -> Reading:
    """Every document of the file."""
    text = source.text[:_LARGEST]
    if "<!ENTITY" in text:
        raise Unreadable("the XML declares entities, which nvidia-smi never does; it is not expanded")
    machine, problems = Machine(), list[Problem]()
    for offset, document in _documents(text):
        _read_document(document, machine, problems, text.count("\n", 0, offset))
    if not machine.seen and not machine.facts:
        raise Unreadable("the XML names no driver and no GPU")
    found = telemetry_of(machine.cards.by_key.values(), first=machine.first, last=machine.last)
    dtd = _DTD.search(text[:4096])
    return trace_reading(
        str(source.path),
        "nvidia_smi_xml",
        found if machine.cards.rows else None,
        hardware_of(found, **machine.facts),
        tool="nvidia-smi",
        tool_version=machine.facts.get("driver"),
        status="partial" if problems else "parsed",
        lines=line_count(text.count("\n") + 1),
        problems=problems[:20],
        extra={"cards": list(machine.kept.values()), "dtd": dtd[0] if dtd else None},
    )


def _documents(text: str) -> Iterator[tuple[int, str]]:
    at = text.find(_ROOT)
    while at >= 0:
        end = text.find(_ROOT, at + 1)
        close = text.find("</nvidia_smi_log>", at, end if end >= 0 else None)
        stop = close + len("</nvidia_smi_log>") if close >= 0 else (end if end >= 0 else len(text))
        yield at, _DOCTYPE.sub("", text[at:stop])
        at = end


def _read_document(document: str, machine: Machine, problems: list[Problem], line: int) -> None:
    parser: XMLPullParser[Any] = XMLPullParser(("start", "end"))
    above, open_card, depth = dict[str, str](), None, 0
    try:
        parser.feed(document)
        parser.close()
    except ParseError as error:
        what = f"the XML is damaged or cut ({error}); the cards before that place were read"
        problems.append(Problem(line=line + getattr(error, "position", (1, 0))[0], what=what))
    try:
        for event, element in cast(Iterator[tuple[str, Element]], parser.read_events()):
            depth += 1 if event == "start" else -1
            if event == "start" and depth == 2:
                open_card = element
            if event == "end" and depth == 1:
                open_card = None
                _take(element, machine, above)
    except ParseError:
        pass  # told above
    if open_card is not None:
        _take(open_card, machine, above)
    facts = {"driver": above.get("driver_version"), "cuda": above.get("cuda_version")}
    machine.told(above.get("timestamp"), facts)


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
    sniff=sniff,
    read=read,
    docs="Output of `nvidia-smi -q -x` of any driver, once or repeated. Nothing is fetched for its document "
    "type; a cut file gives the cards before the cut.",
)
