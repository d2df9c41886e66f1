"""Texts that hold serving result tables: terminal output, logs of a client, pages that quote them.

Owns reading all tables of one text with what stands around them. Which tool printed them is the format's.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import takewhile

from ingest.bench import front, names, serving
from ingest.bench.identity import Facts, benchmark, grouped
from ingest.formats import Unreadable
from ingest.formats.container_specs import launches as compose_launches
from ingest.sources import Source
from kb.model import LineCount, Problem, Reading
from kb.vocab.engines import Launch, parse_shell

_CLIENT = re.compile(
    r"(?:vllm bench serve|benchmark_serving(?:\.py)?|sglang[. ]bench_serving)\s"
    r".*?--model[ =]\s*(?P<model>[\w./:-]+)"
)
_PROFILED = re.compile(
    r"(?:genai-perf|aiperf)(?: profile)?\s(?:[^\n]*\s)?(?:-m|--model)[ =]\s*(?P<model>[\w.-]+/[\w.-]+)(?!\S)"
)
_FIELDS = ("Model", "Hardware", "GPU", "GPUs", "Engine", "Driver", "Profile", "Quantization", "Precision")


def read_tables(source: Source, form: str, tool: str) -> Reading:
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
    page = commanded([text for _, text in lines], page_facts([text for _, text in lines if len(text) < 300]))
    pairs = [
        (with_page(serving.block_facts(block), page), serving.block_measurement(block, tool))
        for block in filled
    ]
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


def commanded(text: list[str], page: Facts) -> Facts:
    """A page completed by the commands kept in it: the one server it starts, and the client's model."""
    starts = [launch for launch, _ in compose_launches(_compose_in(text))]
    starts += parse_shell("\n".join(one for one in text if len(one) < 4000))
    starts = [
        one for one in starts if one.model and one.settings
    ]  # a client's container of the same image names none
    alike = {(one.model, one.engine, str({**one.settings, "port": None})) for one in starts}
    server = starts[0] if len(alike) == 1 else Launch()  # replicas differ in their port at most
    client = next((found["model"] for one in text if (found := _CLIENT.search(one))), None)
    told = Facts(
        model=client or server.model,
        engine=server.engine,
        engine_version=server.version,
        settings=dict(server.settings),
        environment=dict(server.environment),
    )
    return with_page(page, told)


def profiled_model(text: str) -> str | None:
    """The one repository that commands of a profiling client in a text ask for, over continued lines.

    A plain name may be that of a pipeline ("ensemble") and is not taken.
    """
    found = {one["model"] for one in _PROFILED.finditer(re.sub(r"\\\n\s*", " ", text))}
    return found.pop() if len(found) == 1 else None


def _compose_in(text: list[str]) -> str:
    """The first compose file that stands in a text, up to the next heading or rule; "" without one."""
    if "services:" not in text:
        return ""
    first = text.index("services:")
    block = takewhile(lambda one: one[:1] in " \t#" or not one.strip(), text[first + 1 :])
    return "\n".join([text[first], *block])


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
