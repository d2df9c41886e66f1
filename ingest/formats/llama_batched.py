"""llama.cpp's ``llama-batched-bench``, and ``llama-sweep-bench``, which fills the cache step by step.

Owns where their rows stand; the columns are those of ``ingest.bench.batched``. Must not read llama-bench.
"""

from __future__ import annotations

import re

from ingest.bench import batched, devices, jsontext, tables
from ingest.bench.identity import Facts, benchmark, grouped
from ingest.bench.sniffing import is_page, needing
from ingest.formats import Format
from ingest.formats.llama_bench import count_of, settings_of
from ingest.sources import Source
from kb.model import Reading

_BATCHED_HEAD = re.compile(r"^\|\s*PP\s*\|\s*TG\s*\|(?:\s*B\s*\|)?\s*N_KV\s*\|", re.MULTILINE)
_JSON_LINE = re.compile(r'^\{"n_kv_max": ?\d', re.MULTILINE)  # among what the tool logs
_MAIN = re.compile(r"(?:main|llama_batched_bench): (n_kv_max = \d+, .*)$")


@needing("N_KV", "n_kv_max")
def _sniff(source: Source) -> float:
    head = source.head
    if _BATCHED_HEAD.search(head) or (_JSON_LINE.search(head) and not is_page(source)):
        return 0.96
    keys = jsontext.keys_in(head) if jsontext.looks_like_json(head) else set()
    return 0.96 if {"n_kv_max", "speed_pp", "speed_tg"} <= keys else 0.0


def _read(source: Source) -> Reading:
    if jsontext.looks_like_json(source.head) or _JSON_LINE.search(source.head):
        return _read_json(source)
    lines = list(source.lines())
    facts = devices.machine_in((text for _, text in lines), Facts(engine="llama.cpp"))
    found = next((m[1] for _, text in lines if (m := _MAIN.search(text))), "")
    facts.settings |= settings_of(dict(re.findall(r"(\w+) = (-?\d+)", found)))
    points = [
        p for table in tables.pipe_tables(lines) if batched.is_batched(table) for p in batched.rows(table)
    ]
    done = grouped([(facts, point) for point in points])
    return benchmark(
        source, "llama_batched_bench", done, tool=batched.TOOL, lines=count_of(lines, len(points))
    )


def _read_json(source: Source) -> Reading:
    documents = jsontext.load(source)
    pairs = []
    for line, row in documents.objects():
        given = {
            key: row.get(key) for key in ("n_batch", "n_ubatch", "flash_attn", "n_gpu_layers", "n_threads")
        }
        pairs.append((Facts(engine="llama.cpp", settings=settings_of(given)), batched.point(row, line)))
    return benchmark(
        source, "llama_batched_bench", grouped(pairs), tool=batched.TOOL, problems=documents.problems
    )


FORMAT = Format(
    name="llama_batched_bench",
    kind="benchmark",
    sniff=_sniff,
    read=_read,
    version=5,
    docs=(
        "`llama-batched-bench`, table or JSON lines: prompt, generated and total speed at each batch "
        "width; and `llama-sweep-bench`, whose rows tell the tokens already in the cache. It "
        "names no model; the line `main: n_kv_max = …` gives settings."
    ),
)
