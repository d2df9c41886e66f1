"""Texts that hold serving result tables: terminal output, logs of a client, pages that quote them.

Owns reading all tables of one text with what stands around them. Which tool printed them is the format's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ingest.bench import front, names, serving
from ingest.bench.identity import Facts, benchmark, grouped
from ingest.formats import Unreadable
from ingest.sources import Source
from kb.model import LineCount, Problem, Reading

_FIELDS = ("Model", "Hardware", "GPU", "GPUs", "Engine", "Driver", "Profile", "Quantization", "Precision")


def read_tables(
    source: Source, form: str, tool: str, facts_of: Callable[[serving.Block], Facts] | None = None
) -> Reading:
    """One point per table. A text without any, or with templates only, is ``Unreadable``."""
    lines = list(source.lines())
    found = serving.blocks(lines)
    if not found:
        raise Unreadable(
            "the benchmark began but no result table follows; it was stopped or its end is missing"
        )
    blank = [(block, reason) for block in found if (reason := serving.unfilled(block))]
    filled = [block for block in found if not serving.unfilled(block)]
    if not filled:
        raise Unreadable(blank[0][1])
    page = page_facts([text for _, text in lines if len(text) < 300])
    told = facts_of or (lambda block: serving.arguments_facts(block.arguments))
    pairs = [(with_page(told(block), page), serving.block_measurement(block, tool)) for block in filled]
    cut = [
        Problem(line=block.line, what="the result table is cut off") for block in filled if not block.closed
    ]
    used = sum(block.used for block in found)
    return benchmark(
        source,
        form,
        grouped(pairs),
        tool=tool,
        problems=[*(Problem(line=block.line, what=reason) for block, reason in blank), *cut],
        lines=LineCount(total=len(lines), understood=used, unknown=len(lines) - used),
    )


def page_facts(text: list[str]) -> Facts:
    """A page's own fields: model, hardware, engine; a profile's name may tell the quantization."""
    told = [pair for pair in front.pairs_in(text) if pair[0] in _FIELDS]
    facts = front.facts_of(pair for pair in told if pair[0] != "Profile")
    profile = next((value for key, value in told if key == "Profile"), None)
    facts.quantization = names.quantization(profile) or facts.quantization or names.quantization(facts.model)
    return facts


def with_page(facts: Facts, page: Facts) -> Facts:
    """Facts of one table, completed by those of the page around it."""
    return replace(
        facts,
        model=facts.model or page.model,
        engine=facts.engine or page.engine,
        engine_version=facts.engine_version or page.engine_version,
        quantization=facts.quantization or page.quantization,
        gpu=facts.gpu or page.gpu,
        gpu_count=facts.gpu_count or page.gpu_count,
        driver=facts.driver or page.driver,
        cuda=facts.cuda or page.cuda,
        settings=page.settings | facts.settings,
        environment=page.environment | facts.environment,
    )
