"""What the prose of a page says of the server: the one card, the one model that it names.

Owns taking names out of sentences. Must not take one where several are named: which of them was measured is
then not said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ingest.bench import cells, names
from ingest.bench.identity import Facts
from ingest.bench.places import place

if TYPE_CHECKING:
    from ingest.bench.pages import Page

_CARD = re.compile(
    r"(?<![\w.-])(?:(?P<count>\d{1,2})\s?[x×]\s?)?(?P<name>(?:NVIDIA |AMD |Apple |Intel )?"
    r"(?:(?:GeForce |Radeon |Tesla )?(?:RTX|GTX|RX|PRO|AI PRO)(?: PRO)? ?[A-Z]?\d{4}\w{0,3}"
    r"(?: ?(?:Ti|SUPER|Ada|Laptop GPU))?(?: (?:Max-Q|Blackwell)\b)?"
    r"|G?[ABHLTV]\d{1,3}[A-Z]{0,2}(?: (?:SXM\d?|PCIe|NVL))?|MI\d{3}[AXP]?|GB\d{2,3}|Radeon [\w ]{4,12}"
    r"|M\d (?:Pro|Max|Ultra)|DGX Spark|Strix Halo|Ryzen AI Max\+ \d{3}))(?![\w-])"
)
_FILES = (".yaml", ".yml", ".json", ".sh", ".py", ".md", ".txt", ".toml", ".log", ".csv")
_REPOSITORY = re.compile(r"(?<![\w./:-])[A-Za-z][\w.-]{1,40}/[A-Za-z][\w.-]{2,80}(?![\w/])")
_MOST = 400  # paragraphs: a longer page tells of more than one machine


def told(page: Page, base: Facts) -> Facts:
    """Facts that lack them with the only card and the only model that a page's prose and headings name."""
    texts = [*page.paragraphs[:_MOST], *(heading for _, heading in page.headings)]
    facts = replace(base, settings=dict(base.settings), load=dict(base.load))
    named = {place(cells.plain(label)) for table in page.tables for label in table.header}
    if facts.gpu is None and ("identity", "gpu") not in named:
        _take_card(facts, texts)
    if facts.model is None and ("identity", "model") not in named:
        _take_model(facts, texts, page.headings)
    return facts


def _take_model(facts: Facts, texts: Iterable[str], headings: Iterable[tuple[int, str]]) -> None:
    named = {one.strip(".") for text in texts for one in _REPOSITORY.findall(text)}
    found = {one for one in named if not one.lower().endswith(_FILES)}
    models = {one: known.id for one in found if (known := names.model(one))}
    headed = {known.id for _, path in headings for part in path.split(" / ") if (known := names.model(part))}
    if len({*models.values(), *headed}) == 1 and models:
        facts.model = min(models)


def _take_card(facts: Facts, texts: Iterable[str]) -> None:
    found = [one for text in texts for one in _CARD.finditer(text)]
    known = [(one, card) for one in found if (card := names.gpu(one["name"].strip()))]
    if len({card.name for _, card in known}) != 1:
        return
    counts = {int(one["count"]) for one, _ in known if one["count"]}
    facts.gpu = max((one["name"].strip() for one, _ in known), key=len)
    facts.gpu_count = facts.gpu_count or (counts.pop() if len(counts) == 1 else None)
