"""Markdown write-ups: result tables, launch commands in fenced blocks, and the fields around them.

Owns which tables are results and how they are read. What prose says is not guessed: it is listed as not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from ingest.bench import (
    around,
    batched,
    cells,
    devices,
    front,
    note_tables,
    placeholders,
    prose,
    serving,
    serving_tables,
    stanzas,
    step_tables,
)
from ingest.bench.identity import Facts, benchmark, experiment, grouped
from ingest.bench.pages import LARGEST, Page, read_page
from ingest.bench.places import place
from ingest.bench.quoted import read_quoted
from ingest.bench.rows import read_row
from ingest.bench.sniffing import is_page
from ingest.bench.tables import Table, pipe_tables
from ingest.bench.units import Units
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import Experiment, LineCount, Measurement, Problem, Reading
from kb.vocab.engines import Launch, parse_shell

_CLIENT = "write-up"
_RULE = re.compile(r"^[ \t]*+(?:\|[ \t]*+)?:?-{2,}+:?[ \t]*+\|", re.MULTILINE)
_TITLED = re.compile(r"\ufeff?\s*# [^\n]{3,200}\n\s*\n")
_PROGRAMS = ("python", "py", "javascript", "js", "typescript", "ts", "go", "rust", "c", "cpp", "java")
_SURE, _LIKELY = 0.85, 0.42  # that a block is output of a benchmark, where others stand and where none does
_PLAIN_BLOCKS = ("", "text", "txt", "yaml")
_PLAIN = ("", ".txt", ".text", ".out", ".rst")


def _sniff(source: Source) -> float:
    head = source.head
    named = is_page(source)
    if not named and PurePath(source.name.lower()).suffix not in _PLAIN:
        return 0.0
    heading = re.search(r"^#{1,3} \S", head, re.MULTILINE) is not None
    if named and heading and _tells_results(head):
        return 0.965  # though it quote a server's log
    if named and _TITLED.match(head):
        return 0.955  # nor is a page with a title one that quotes a log
    if named:
        return 0.55 if heading or _RULE.search(head) or "```" in head else 0.35
    if heading and head.lstrip().startswith(("# ", "## ", "---\n", "|")):
        return 0.45 if _RULE.search(head) or "```" in head else 0.31
    return 0.35 if _RULE.search(head) and head.lstrip().startswith("|") else 0.0


def _tells_results(head: str) -> bool:
    """Whether a page has a table of results, its own or one that a client printed."""
    if "Serving Benchmark Result" in head:
        return True
    found = pipe_tables(enumerate(head.split("\n"), 1)) if _RULE.search(head) else []
    return any(note_tables.is_result_table(one) for one in found[:40])


def _read(source: Source) -> Reading:
    text = source.start(4 * LARGEST)
    page = read_page(text)
    launches = [launch for fence in page.fences for launch in parse_shell(fence.text)]
    base = _base(page, launches)
    pairs: list[tuple[Facts, Measurement]] = []
    blank: list[Problem] = []
    if len(text) > LARGEST:
        blank.append(Problem(line=None, what=f"only its first {LARGEST} characters were read"))
    for table in page.tables:
        reason = placeholders.reason(cell for _, row in table.rows for cell in row)
        if reason:
            blank.append(Problem(line=table.line, what=reason))
        else:
            table.heading = table.heading.removeprefix(f"{page.title} / ")
            table.caption = table.caption or page.metric
            pairs += _points(table, _around(table, base))
    pairs += _printed(text, page, base, blank)
    pairs += () if pairs else _listed(page, base)
    quoted, warned = _all_quoted(source, page, base, _SURE)
    if not pairs and not quoted:
        quoted, warned = _all_quoted(source, page, base, _LIKELY)
        pairs += () if quoted else _in_lines(text, page, base)
    if blank and not pairs and not quoted:
        raise Unreadable(blank[0].what)
    blank += warned
    servers = (
        [_server(launch, base) for launch in launches] if len(launches) > 1 or not (pairs or quoted) else []
    )
    return benchmark(
        source,
        "bench_markdown",
        [*grouped(note_tables.merged(pairs)), *quoted, *servers] or _told_alone(base),
        kind="note",
        problems=blank,
        lines=LineCount(total=page.lines, understood=page.lines - page.prose, unknown=page.prose),
        extra=_about(page, launches),
    )


def _around(table: Table, base: Facts) -> Facts:
    """What the headings and a short caption say of the results of a table."""
    facts = front.headed(table.heading, base)
    caption = around.short_caption(table)
    return front.headed(caption, facts) if caption else facts


def _listed(page: Page, base: Facts) -> Iterable[tuple[Facts, Measurement]]:
    """Results in lists, where a page has them nowhere else: "- TTFT: 120 ms" below a run's heading."""
    for heading, fields in page.listed.items():
        found = note_tables.listed_results(fields)
        if found is not None:
            found.heading = heading.removeprefix(f"{page.title} / ")
            yield from _points(found, front.headed(found.heading, base))


def _points(table: Table, facts: Facts) -> list[tuple[Facts, Measurement]]:
    if batched.is_batched(table):
        told = replace(facts, engine=facts.engine or "llama.cpp")
        return [(told, point) for point in batched.rows(table)]
    if step_tables.is_steps(table):
        return [(facts, point) for point in step_tables.rows(table)]
    return note_tables.points(table, facts, _CLIENT)


def _base(page: Page, launches: list[Launch]) -> Facts:
    """What holds for every result: fields of the page, field tables, and the only server it starts."""
    pairs = [*page.fields, *(pair for table in page.tables for pair in note_tables.field_pairs(table))]
    pairs += devices.agreed(fence.text for fence in page.fences if fence.info.lower() in _PLAIN_BLOCKS)
    pairs = front.without_components(pairs, (heading for _, heading in page.headings))
    facts = devices.machine_in((line for fence in page.fences for line in fence.text.split("\n")), Facts())
    facts = front.facts_of(pairs, facts)
    facts.load |= front.load_of(pairs)
    if len(launches) == 1:
        _take_launch(facts, launches[0])
    columns = {place(cells.plain(label)) for table in page.tables for label in table.header}
    for name in ("engine", "model"):
        if ("identity", name) in columns and len(launches) > 1:
            continue  # the tables tell it
        told = {getattr(launch, name) for launch in launches} - {None}
        if len(told) == 1 and getattr(facts, name) is None:
            setattr(facts, name, told.pop())
    return prose.told(page, front.titled(page.title or "", facts))


def _told_alone(base: Facts) -> list[Experiment]:
    """The server that a page without results describes, where its fields name the model and what runs it."""
    return [experiment(base, [])] if base.model and (base.gpu or base.engine) else []


def _take_launch(facts: Facts, launch: Launch) -> None:
    facts.engine = facts.engine or launch.engine
    facts.engine_version = facts.engine_version or launch.version
    facts.model = facts.model or launch.model
    facts.settings = dict(launch.settings) | facts.settings
    facts.environment = dict(launch.environment)


def _server(launch: Launch, base: Facts) -> Experiment:
    """A launch command as a server of its own, on the page's hardware."""
    facts = Facts(gpu=base.gpu, gpu_count=base.gpu_count, driver=base.driver, cuda=base.cuda)
    if launch.engine == base.engine:
        facts.engine_version = base.engine_version
    _take_launch(facts, launch)
    facts.model = launch.model or base.model
    return experiment(facts, [])


def _below(page: Page, line: int, base: Facts) -> Facts:
    """What holds at a line: the page's facts, and what the heading above it names."""
    heading = page.heading_at(line)
    return base if heading == page.title else front.headed(heading.removeprefix(f"{page.title} / "), base)


def _printed(text: str, page: Page, base: Facts, blank: list[Problem]) -> Iterable[tuple[Facts, Measurement]]:
    """Serving tables that a page quotes from a terminal, fenced or not."""
    for block in serving.blocks(enumerate(text.split("\n"), 1)):
        reason = serving.unfilled(block)
        if reason:
            blank.append(Problem(line=block.line, what=reason))
        else:
            facts = serving_tables.with_page(serving.block_facts(block), _below(page, block.line, base))
            yield facts, serving.block_measurement(block, _CLIENT)


def _in_lines(text: str, page: Page, base: Facts) -> Iterable[tuple[Facts, Measurement]]:
    """Results printed line by line into the text of a page that has them nowhere else."""
    found = [
        one
        for one in stanzas.stanzas(enumerate(text.split("\n"), 1))
        if not note_tables.is_aim(page.heading_at(one.lines[0]))
    ]
    units = Units.of(one.record for one in found)
    for one in found:
        record = one.record | ({"scenario": one.title} if one.title else {})
        row = read_row(record, units, _below(page, one.lines[0], base))
        yield row.facts, row.measurement(_CLIENT, one.lines[0])


def _all_quoted(
    source: Source, page: Page, base: Facts, least: float
) -> tuple[list[Experiment], list[Problem]]:
    """Output of other benchmarks in fenced blocks (serving tables are read with the page's text)."""
    found, problems = list[Experiment](), list[Problem]()
    for before, fence in zip(["", *(one.text for one in page.fences)], page.fences, strict=False):
        if "Benchmark Result =" in fence.text or fence.info.lower().split(" ")[0] in _PROGRAMS:
            continue
        told, warned = read_quoted(source, fence.text, fence.line + 1, least)
        below = _below(page, fence.line, base)
        asked = below.model or serving_tables.profiled_model(before)  # by the command in the block above
        around = experiment(replace(below, model=asked), [])
        found += [_completed(one, around) for one in told]
        problems += warned
    return found, problems


def _completed(one: Experiment, page: Experiment) -> Experiment:
    return replace(
        one,
        hardware=one.hardware if one.hardware.gpu is not None else page.hardware,
        model=one.model if one.model.name is not None else page.model,
        backend=one.backend if one.backend.engine else page.backend,
    )


def _about(page: Page, launches: list[Launch]) -> dict[str, Any]:
    about: dict[str, Any] = {"title": page.title} if page.title else {}
    if page.unread:
        about["not_read"] = {"paragraphs": len(page.unread), "lines": page.unread[:40]}
    if launches:
        about["launch_commands"] = len(launches)
    return about


FORMAT = Format(
    name="bench_markdown",
    kind="note",
    sniff=_sniff,
    read=_read,
    version=8,
    docs=(
        "Markdown write-ups. Read are: tables whose columns name results (one point per row), tables "
        "whose rows do (one per column), and tables of one metric that a heading names (one per cell); "
        "two-column field tables, bold fields, list items and front matter, as facts about the server; "
        "titles and headings that name a model, a card or an engine, as facts about what follows; launch "
        "commands in fenced blocks, as settings; and benchmark output quoted in them. A page without such "
        "results may have them in lists: figures with their units below a run's heading. Prose is counted "
        "and listed as not read. A page whose tables hold only placeholders is refused."
    ),
)
