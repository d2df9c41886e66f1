"""Results of serving benchmarks: the 50-wide table of labels and the JSON object that SGLang, vLLM,
TensorRT-LLM and their descendants share.

Owns both layouts. Must not decide which tool wrote them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ingest.bench import cells, client_commands, names
from ingest.bench.identity import Facts
from ingest.bench.placeholders import is_placeholder
from ingest.bench.placing import rate
from ingest.bench.quantities import labels, understand
from ingest.settings import asked_settings, own_options
from kb.model import Measurement

HEADING = re.compile(
    r"^[\s>]*(?P<lead>#+|//|\*)?\s*={3,}\s*"
    r"(?P<title>[A-Za-z][\w /()-]*?(?:Result|Benchmark)[\w ()-]*?)\s*={3,}\s*$"
)
_CLOSING = re.compile(r"^[\s>]*={20,}\s*$")
_SECTION = re.compile(r"^[\s>]*-{3,}\s*(?P<title>[A-Za-z].*?)\s*-{3,}\s*$")
_ROW = re.compile(r"^[\s>]*(?P<label>[A-Za-z][^:=]{1,70}?)\s*:\s*(?P<value>\S.*?|)\s*$")
_STATISTIC = re.compile(r"(?:mean|median|avg|average|std|stddev|min|max|p\d+(?:\.\d+)?)", re.IGNORECASE)
_OF_EACH = re.compile(r"(?:average|mean|p\d+) \(tok(?:en)?s?/s\)", re.IGNORECASE)
_RATED = re.compile(r"(?i)output tokens? per second")
_NAMESPACE = re.compile(r"\bNamespace\((.*)\)\s*$|\bNamespace\((.*)")
_ARGUMENT = re.compile(
    r"(?<![\w.])(\w+)=("
    r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\[[^\]]*\]|[^,()\[\]{}]+)(?=,\s\w+=|\)?$|,?\s*$)"
)
_RANDOM_LENGTHS = ("random_input_len", "random_output_len")
_TABLE: dict[str, dict[str, str]] = labels("table")
_OBJECT: dict[str, Any] = labels("object")


@dataclass(slots=True)
class Block:
    """One result table: its heading's line and title, rows (label → value), and the arguments before it.

    ``lead`` is the mark before each line of a table that was made a comment; ``closed`` is false where the
    file ends inside the table.
    """

    line: int
    title: str
    rows: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    section: str = ""
    lead: str = ""
    closed: bool = False
    used: int = 0


_LOGGED = re.compile(
    r"^(?:\([\w .:-]{1,80} pid=\d+\)\s?"
    r"|[\[(]?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^=\n]{0,60}?\b(?:INFO|DEBUG|WARNING)\b"
    r"(?:\s*\|\s*\S+:\S+:\d+ - |\]?\s*(?:[|:-]\s|(?=[A-Z=-]))))"
)


def blocks(lines: Iterable[tuple[int, str]]) -> list[Block]:
    """Every result table in a text, with the argument dump that precedes it; a lost heading is no matter.

    A driver may print each line, or the first, through a logger of its own.
    """
    lines = [(number, _LOGGED.sub("", text)) for number, text in lines]
    return _headed(lines) or _headless(lines)


def is_headless(head: str) -> bool:
    """Whether a text shows the rows of a table whose heading was cut off."""
    return all(mark in head for mark in _OWN_ROWS) and "Benchmark Result" not in head


_OWN_ROWS = ("Successful requests: ", "Benchmark duration (s): ", "Request throughput (req/s): ")
_SHORT_ROW = re.compile(r"^(?P<label>[A-Za-z][^:=]{1,70}?):\s+(?P<value>\S+|not set)\s*$")
_IN_PROCESS = "Offline Throughput Benchmark"  # SGLang's, which runs its engine itself
_FIRST_ROWS = ("Backend", "Successful requests")


def _headless(lines: Iterable[tuple[int, str]]) -> list[Block]:
    """Tables without their heading: rows of one word each, from one that such a table begins with."""
    found: list[Block] = []
    current: Block | None = None
    for number, text in lines:
        row = _SHORT_ROW.match(text.strip())
        label = row["label"] if row else ""
        if label in _FIRST_ROWS and (current is None or label in current.rows):
            current = Block(number, "")
            found.append(current)
        if current is not None and text.strip():
            own = row or _SECTION.match(text) or _CLOSING.match(text)
            current = _continue(current, text) if own else None
    needed = {mark.partition(":")[0] for mark in _OWN_ROWS}
    return [one for one in found if needed <= one.rows.keys()]


def _headed(lines: Iterable[tuple[int, str]]) -> list[Block]:
    found: list[Block] = []
    current: Block | None = None
    arguments: dict[str, Any] = {}
    command = ""
    for number, text in lines:
        heading = HEADING.match(text)
        command = client_commands.serving_command(command, text)
        if heading:
            lead = heading["lead"] or ""
            current = Block(number, heading["title"], arguments=arguments, lead=lead, used=1)
            found.append(current)
        elif current is not None:
            current = _continue(current, text.lstrip(" \t>").removeprefix(current.lead))
        elif "Namespace(" in text:
            arguments = namespace(text)
        elif command and not command.endswith("\\"):
            arguments = client_commands.arguments(command)
    return found


def calls_client(text: str) -> bool:
    """Whether a line is a client's dump of its arguments, or the command that started it."""
    return ("Namespace(" in text and "num_prompts=" in text) or client_commands.calls_serving(text)


def _continue(block: Block, text: str) -> Block | None:
    if _CLOSING.match(text):
        block.closed, block.used = True, block.used + 1
        return None
    row, section = _ROW.match(text), _SECTION.match(text)
    if section:
        block.section = section["title"]
        block.used += 1
    elif row:
        label = " ".join(row["label"].split())
        if _STATISTIC.fullmatch(label):  # "Mean:" under "TTFT (ms)"
            label = f"{label} {block.section}"
        elif _OF_EACH.fullmatch(label) and _RATED.search(block.section):
            label = f"{label} of output tokens per user"  # the speeds of single requests
        block.rows.setdefault(label, row["value"])
        block.used += 1
    return block


def unfilled(block: Block) -> str | None:
    """Why a table is a template and no result: two and more of its values are placeholders."""
    blank = sorted({value for value in block.rows.values() if value and is_placeholder(value)} - {"N/A"})
    count = sum(bool(value) and is_placeholder(value) for value in block.rows.values())
    return f"a template with placeholder values ({', '.join(blank[:3])}), not results" if count > 1 else None


def namespace(text: str) -> dict[str, Any]:
    """Arguments of an argparse ``Namespace(...)`` dump; values that are no literals stay text."""
    found = _NAMESPACE.search(text)
    inside = (found[1] or found[2] or "") if found else ""
    return {key: _literal(value) for key, value in _ARGUMENT.findall(inside)}


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return {"inf": "inf"}.get(text.strip(), text.strip())


def block_measurement(block: Block, client: str) -> Measurement:
    """A table's rows as one point."""
    workload: dict[str, Any] = {}
    metrics: dict[str, float | None] = {}
    for label, raw in block.rows.items():
        low = label.lower()
        if low in _TABLE["workload"]:
            workload[_TABLE["workload"][low]] = None if raw == "not set" else rate(raw)
        else:
            _label_metric(metrics, label, raw)
    workload = arguments_workload(block.arguments) | {k: v for k, v in workload.items() if v is not None}
    return complete(Measurement(workload=workload, metrics=metrics, client=client, line=block.line))


def _label_metric(metrics: dict[str, float | None], label: str, raw: str) -> None:
    value = cells.number(raw)
    if value is None:
        return
    low = label.lower()
    quantity = understand(label)
    if low in _TABLE["percent"]:
        metrics.setdefault(_TABLE["percent"][low], value / 100)
    elif low in _TABLE["metrics"]:
        metrics.setdefault(_TABLE["metrics"][low], value)
    elif quantity is not None:
        metrics.setdefault(quantity.name, value * quantity.factor)


def arguments_workload(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The load that a client's arguments ask for (keys of ``Measurement.workload``)."""
    given = arguments.get
    data = given("dataset_name")
    lengths = _lengths(arguments) if _draws_lengths(data) or data == "sonnet" else {}
    load = {
        "request_rate": rate(given("request_rate")),
        "concurrency": cells.whole(given("max_concurrency")),
        "prompts": cells.whole(given("num_prompts")),
        "dataset": data if isinstance(data, str) else None,
        **lengths,
    }
    return {key: value for key, value in load.items() if value is not None}


def _draws_lengths(dataset: Any) -> bool:
    """Whether a dataset has the lengths that ``random_input_len`` asks for: clients print them for any."""
    return dataset is None or str(dataset).startswith(("random", "image"))


def _lengths(arguments: Mapping[str, Any]) -> dict[str, Any]:
    kind = "sonnet" if arguments.get("dataset_name") == "sonnet" else "random"
    return {
        "input_len": cells.whole(arguments.get("input_len") or arguments.get(f"{kind}_input_len")),
        "output_len": cells.whole(arguments.get("output_len") or arguments.get(f"{kind}_output_len")),
    }


def arguments_facts(arguments: Mapping[str, Any]) -> Facts:
    """What a client's arguments say about the server: the model, and the engine where the API is its own."""
    name = arguments.get("model") or arguments.get("model_path") or arguments.get("served_model_name")
    backend = arguments.get("backend") or arguments.get("endpoint_type")
    spoken = [one for one in (name, arguments.get("served_model_name")) if isinstance(one, str)]
    told = next((names.quantization(one) for one in spoken if names.quantization(one)), None)
    return Facts(model=spoken[0] if spoken else None, engine=own_engine(backend), quantization=told)


def block_facts(block: Block) -> Facts:
    """What a table and the arguments before it say about the server; SGLang's tables name the back end."""
    facts = arguments_facts(block.arguments)
    if not block.title.startswith(_IN_PROCESS):
        return replace(facts, engine=own_engine(block.rows.get("Backend")) or facts.engine)
    asked = asked_settings("sglang", None, own_options("sglang", block.arguments))
    return replace(facts, engine="sglang", settings=asked)


def batch_load(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The load of a benchmark of one static batch, by its arguments."""
    known = {key: cells.whole(arguments.get(key)) for key in ("batch_size", "input_len", "output_len")}
    return {key: value for key, value in known.items() if value is not None}


def own_engine(backend: Any) -> str | None:
    """The engine of a client's back end, where only that engine speaks it; OpenAI's protocol proves none."""
    found: str | None = labels("own_protocol").get(str(backend or ""))
    return found


def object_measurement(result: Mapping[str, Any], client: str, line: int | None) -> Measurement:
    """A result object (or row with the same keys) as one point; arrays of single requests are left out."""
    workload: dict[str, Any] = {}
    metrics: dict[str, float | None] = {}
    known: dict[str, str] = {}
    left_out = () if _draws_lengths(result.get("dataset_name")) else _RANDOM_LENGTHS
    for key, value in result.items():
        if key in _OBJECT["workload"] and key not in left_out:
            _object_load(workload, _OBJECT["workload"][key], value)
        elif (
            isinstance(value, int | float | str)
            and not isinstance(value, bool)
            and key not in _OBJECT["ignored"]
            and key not in left_out
        ):
            _object_metric(metrics, known, key, value)
    if "failed" not in metrics and isinstance(result.get("errors"), list):
        metrics["failed"] = float(sum(bool(one) for one in result["errors"]))
    return complete(
        Measurement(workload=workload, metrics=metrics, client=client, line=line, source_names=known)
    )


def _object_load(workload: dict[str, Any], key: str, value: Any) -> None:
    if value is None or value == "" or isinstance(value, dict | list):
        return
    if key == "request_rate":
        workload[key] = rate(value)
    elif key in ("dataset", "test"):
        workload[key] = str(value)
    else:
        workload[key] = cells.whole(value)


def _object_metric(metrics: dict[str, float | None], known: dict[str, str], key: str, value: Any) -> None:
    number = cells.number(value)
    if number is None:
        return
    if key in _OBJECT["metrics"]:
        metrics.setdefault(_OBJECT["metrics"][key], number)
        return
    if key == "spec_decode_acceptance_rate":
        metrics["accept_rate"] = number / 100
        return
    quantity = understand(key)
    if quantity is not None and quantity.name not in metrics:
        metrics[quantity.name] = number * quantity.factor
        if not quantity.unit_stated:
            known[quantity.name] = key


def complete(one: Measurement) -> Measurement:
    """Adds what arithmetic gives (failed requests, mean lengths); drops zeros that tell nothing."""
    metrics, workload, known = dict(one.metrics), dict(one.workload), dict(one.source_names)
    done, asked = metrics.get("completed"), workload.get("prompts")
    if done is not None and "failed" not in metrics and isinstance(asked, int | float) and asked > done:
        metrics["failed"] = float(asked - done)
        known["failed"] = "prompts - completed"
    for length, total in (("input_len", "input_tokens"), ("output_len", "output_tokens")):
        if length not in workload and done and metrics.get(total):
            workload[length] = round((metrics[total] or 0) / done)
            known[length] = f"mean: {total} / completed"
    if (metrics.get("accept_length", 1.0) or 0.0) < 1:
        del metrics["accept_length"]  # each step gives one token at least: the server did not say
    if done == 0:
        metrics = {k: v for k, v in metrics.items() if v or not re.match(r"(?:ttft|tpot|itl|e2e)_ms_", k)}
    return Measurement(
        workload=workload, metrics=metrics, client=one.client, line=one.line, source_names=known
    )


def object_facts(result: Mapping[str, Any]) -> Facts:
    """What a result object says about the server that it measured."""
    model = result.get("model_id") or result.get("model")
    engine = own_engine(result.get("backend") or result.get("endpoint_type"))
    return Facts(
        model=model if isinstance(model, str) else None, engine=engine, started=date_of(result.get("date"))
    )


def date_of(stamp: Any) -> str | None:
    """``YYYYMMDD-HHMMSS`` as ISO 8601 without a zone."""
    found = re.fullmatch(r"(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)", str(stamp or ""))
    return "{}-{}-{}T{}:{}:{}".format(*found.groups()) if found else None
