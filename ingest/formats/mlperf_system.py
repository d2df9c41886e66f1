"""MLPerf system descriptions: the JSON that stands beside a submission's results.

Owns their free texts: product and count of accelerators, versions named in the software
stack.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ingest.formats import Format, Unreadable
from ingest.launches import engine_in_text
from ingest.machine import hardware, known, supplies
from ingest.packages import component
from ingest.sources import Source
from ingest.traces import line_count
from kb.model import Backend, Reading
from kb.vocab.engines import ENGINES

_MARKS = ("accelerator_model_name", "accelerators_per_node", "host_processor_model_name", "system_name")
_PAIR = re.compile(r"([A-Za-z][\w .+-]*?)[\s-]+v?(\d+(?:\.\d+)+[\w.+-]*)")
_STACK = ("framework", "serving_framework", "other_software_stack")
_KEPT = (
    "system_name", "accelerator_model_name", "accelerator_interconnect", "accelerator_host_interconnect",
    "host_processor_model_name", "framework", "serving_framework", "other_software_stack",
    "operating_system", "number_of_nodes", "submitter", "division", "status",
)  # fmt: skip


def sniff(source: Source) -> float:
    """Three of the schema's own names in a JSON object."""
    head = source.head
    hits = sum(1 for mark in _MARKS if f'"{mark}"' in head)
    return 0.97 if hits >= 3 and head.lstrip("\ufeff \t\r\n").startswith("{") else 0.0


def read(source: Source) -> Reading:
    """Hardware, engine and libraries of the system."""
    try:
        raw = json.loads(source.text.lstrip("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"the JSON is damaged or cut: {error}") from None
    if not isinstance(raw, dict):
        raise Unreadable("the JSON holds no object at its top")
    words = {key: known(value) for key, value in _flat(raw).items()}
    stack = ", ".join(word for key in _STACK if (word := words.get(key)))
    versions = _versions(stack)
    engine, version = engine_in_text(stack)
    where = hardware(
        [words.get("accelerator_model_name")],
        None,
        count=_total(words.get("accelerators_per_node"), words.get("number_of_nodes")),
        driver=versions.pop("driver", None),
        cuda=versions.pop("cuda", None),
        topology=words.get("accelerator_interconnect"),
    )
    backend = Backend(
        engine=engine if engine in ENGINES else None,
        engine_version=version if engine in ENGINES else None,
        dependencies=versions,
    )
    return Reading(
        path=str(source.path),
        format="mlperf_system",
        kind="config",
        tool="MLPerf",
        experiments=supplies(where, backend),
        lines=line_count(source.text.count("\n") + 1),
        extra={key: word for key in _KEPT if (word := words.get(key))},
    )


def _flat(raw: dict[str, Any]) -> dict[str, Any]:
    """The description with its nodes' fields beside its own, where all nodes are of one type."""
    types = raw.get("node_types")
    if isinstance(types, list) and len(types) == 1 and isinstance(types[0], dict):
        return raw | types[0]
    return raw


def _versions(stack: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, version in _PAIR.findall(stack):
        word = name.strip().lower()
        if word.endswith("driver"):
            found.setdefault("driver", version)
        elif label := component(word):
            found.setdefault(label, version)
    return found


def _total(per_node: Any, nodes: Any) -> int | None:
    count = _whole(per_node)
    return None if count is None else count * (_whole(nodes) or 1)


def _whole(text: Any) -> int | None:
    found = re.match(r"\d+", str(text or ""))
    return int(found[0]) or None if found else None


FORMAT = Format(
    name="mlperf_system",
    kind="config",
    version=2,
    sniff=sniff,
    read=read,
    docs="MLPerf system descriptions: accelerators, nodes, versions named in the software stack.",
)
