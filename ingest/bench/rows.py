"""A row of named cells to a measurement: which cell names the server, which the load, which a result.

Owns the reading of people's own tables, whether they stand in CSV, Markdown or JSON, and of tools whose
labels follow the common grammar. Must not know any file format.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from ingest.bench import cells, names
from ingest.bench.consistency import settle_times
from ingest.bench.directions import of_one_request, settle_direction
from ingest.bench.file_names import fill_by_test
from ingest.bench.identity import Facts, split_count
from ingest.bench.quantities import Quantity, is_plain, labels, understand, words_of
from ingest.bench.relabel import relabelled
from ingest.bench.units import Units
from kb.model import Measurement

_TABLES = tuple(
    (kind, tuple((key, re.compile("|".join(any_of))) for key, any_of in labels(kind).items()))
    for kind in ("workload", "identity", "settings")
)
_TEXTUAL = {"dataset", "test", "model", "gpu", "engine", "engine_version", "quantization", "driver", "cuda"}
ENGINE_VERSION = re.compile(
    r"(?P<engine>vllm|sglang|tensorrt llm|trt llm|trtllm|llama cpp|tgi|lmdeploy|ollama)(?: git)?(?: version)?"
)
VAGUE_ENGINE = re.compile(r"(?i)backend|stack|tool")
_PLAIN_RATE = re.compile(r"qps|rps")

_RELEASE = re.compile(r"([A-Za-z][\w.-]{1,20}(?: LLM)?) v?(\d+\.\d+(?:\.\d+)?[\w.+-]{0,30})")


@lru_cache(maxsize=4096)
def place(label: str) -> tuple[str, str] | None:
    """("workload" | "identity" | "settings", key) of a label, or ``None``."""
    words = re.sub(r"^[#%] ", "", words_of(label))
    words = re.sub(r"(?<=\w )in tokens?$", "tokens", words)
    for kind, patterns in _TABLES:
        for key, pattern in patterns:
            if pattern.fullmatch(words):
                return kind, key
    if words in ("input output len", "input output length"):
        return "workload", "input_output_len"
    return None


@dataclass(slots=True)
class Row:
    """What one row says; ``rest``: cells that no rule placed, ``named``: facts that it names itself."""

    facts: Facts = field(default_factory=Facts)
    workload: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, float | None] = field(default_factory=dict)
    source_names: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    rest: dict[str, Any] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)

    def measurement(self, client: str | None = None, line: int | None = None) -> Measurement:
        """The row's point."""
        return Measurement(
            workload=self.workload,
            metrics=self.metrics,
            client=client,
            line=line,
            source_names=self.source_names,
        )


def read_row(record: Mapping[str, Any], units: Units | None = None, base: Facts | None = None) -> Row:
    """A record's cells, each put in its place. ``units`` decides labels that state no unit."""
    row, record = Row(facts=_copy(base)), relabelled(record)
    stated = {label for label in record if understand(label) and not _plain_rate(label)}
    stated = set() if _is_closed_loop(record, stated) else stated
    for label, raw in sorted(record.items(), key=lambda cell: not _names_server(cell[0])):
        if isinstance(raw, dict | list) or not isinstance(label, str):
            continue
        _place_cell(row, label, raw, units or Units(), bool(stated - {label}))
    _take_bare_percentiles(row)
    settle_direction(row)
    settle_times(row)
    _settle_score(row)
    _take_labelled_load(row, record)
    row.facts = fill_by_test(row.facts, row.workload.get("test"))
    _take_model_file(row)
    return row


def _take_model_file(row: Row) -> None:
    """A model that stands under no label of one, told by its file ("arquivo": "….gguf")."""
    files = {str(raw) for raw in row.rest.values() if str(raw).lower().endswith((".gguf", ".safetensors"))}
    if row.facts.model is None and len(files) == 1:
        row.facts.model = re.split(r"[/\\]", files.pop())[-1].rpartition(".")[0]


def _names_server(label: Any) -> bool:
    """Whether a label names whose settings the others may tell."""
    return isinstance(label, str) and (place(label) or ("",))[0] == "identity"


_BARE = re.compile(r"(?P<stat>p\d+|mean|avg|average|median) (?P<unit>ms|s|sec|seconds)")


def _take_bare_percentiles(row: Row) -> None:
    """Percentiles of nothing ("p50_s", "p99_s") beside other results are those of whole requests."""
    bare = {label: told for label in row.rest if (told := _BARE.fullmatch(words_of(label)))}
    if len(bare) < 2 or not row.metrics or any(name.startswith("e2e") for name in row.metrics):
        return
    for label, told in bare.items():
        quantity, value = understand(f"{told[0]} latency"), cells.number(row.rest[label])
        if quantity is not None and value is not None:
            row.metrics[quantity.name] = value * quantity.factor
            row.source_names[quantity.name] = label
            row.rest.pop(label)


_LABELLED_LOAD = re.compile(
    r"[(@]\s*(?:c|conc(?:urrency)?)\s?[= ]?\s?(?P<n>\d{1,5})\s*(?:\)|$)", re.IGNORECASE
)


def _take_labelled_load(row: Row, record: Mapping[str, Any]) -> None:
    """The load that a result's label names, where one alone is named: "Output tok/s (c32)"."""
    named = {int(found["n"]) for label in record if (found := _LABELLED_LOAD.search(str(label)))}
    if len(named) == 1:
        row.workload.setdefault("concurrency", named.pop())


def _is_closed_loop(record: Mapping[str, Any], stated: Iterable[str]) -> bool:
    """Whether a bare "qps" is a result: clients wait for answers, and no other label tells that rate."""
    told = (understand(label) for label in stated)
    rates = any(one and one.name.startswith("request_s") for one in told)
    return not rates and any(place(label) == ("workload", "concurrency") for label in record)


def _place_cell(row: Row, label: str, raw: Any, units: Units, has_other_rates: bool) -> None:
    named = ENGINE_VERSION.fullmatch(words_of(label))
    if named:
        put_version(row.facts, named["engine"], str(raw))
        return
    if (part := _PART.fullmatch(cells.plain(str(raw)))) and words_of(label) in _SUCCESSES:
        row.metrics |= {"completed": float(part[1]), "failed": float(part[2]) - float(part[1])}
        return
    where = place(label)
    if where == ("identity", "engine") and VAGUE_ENGINE.search(label) and not _is_engine(raw):
        where = None  # a back end may as well be a protocol or a kernel
    if where is None and _plain_rate(label) and has_other_rates:
        where = ("workload", "request_rate")
    if where is not None and not cells.is_nothing(raw) and _fits(where[1], raw):
        _put(row, *where, raw)
        return
    quantity = understand(label)
    cell = cells.read_cell(raw) if quantity else None
    if has_other_rates and words_of(label) == "toks" and cell is not None:
        row.metrics.setdefault("output_tokens", cell.value)
        return
    if quantity is not None and cell is not None and _is_tally(quantity, label, cell):
        row.rest[label] = cell.value
        return
    if quantity is None or cell is None:
        if where is None and not cells.is_nothing(raw):
            row.rest[label] = raw
        return
    _add_metric(row, label, quantity, cell, units)


_PART = re.compile(r"(\d{1,7}) ?/ ?(\d{1,7})")  # of how many requests
_SUCCESSES = ("success", "successes", "successful", "completed", "ok", "succeeded", "successful requests")
_TALLIES = ("correct", "pass", "passed", "num correct", "num passed", "n correct")
_ASKED = ("total", "n", "count", "questions", "num questions", "num samples", "samples", "num total", "of")


def _is_tally(quantity: Quantity, label: str, cell: cells.Cell) -> bool:
    """Whether a score's label counts right answers ("correct": 52) instead of stating their share."""
    words = words_of(label)
    return quantity.name == "accuracy" and words in _TALLIES and (cell.value > 1 or words.startswith("n"))


def _settle_score(row: Row) -> None:
    """Right answers of how many: the share, where the row states none."""
    if "accuracy" in row.metrics:
        return
    counted = {words_of(label): cells.number(raw) for label, raw in row.rest.items()}
    right = next((counted[name] for name in _TALLIES if counted.get(name) is not None), None)
    asked = next((counted[name] for name in _ASKED if counted.get(name)), row.workload.get("prompts"))
    if right is not None and isinstance(asked, int | float) and asked >= right > 0:
        row.metrics["accuracy"] = right / asked
        row.source_names["accuracy"] = "right answers / questions"


def put_version(facts: Facts, engine: str, value: str) -> None:
    """A version that stands under an engine's name ("vllm_version": "0.23.0"); "Not Installed" is none."""
    found = re.match(r"`?(?:\w+ version is )?v?(\d+(?:\.\w+)+[\w.+-]*)", value.strip())
    if found and facts.engine_version is None:
        facts.engine = facts.engine or names.engine(engine.replace(" ", "-"))
        facts.engine_version = found[1]


def _is_engine(raw: Any) -> bool:
    return names.known_engine(cells.plain(str(raw))) is not None


def _plain_rate(label: str) -> bool:
    return bool(_PLAIN_RATE.fullmatch(words_of(label)))


def _fits(key: str, raw: Any) -> bool:
    """Text for what is named, a number for what is counted, so that ``vllm: true`` names no engine."""
    if isinstance(raw, bool):
        return key == "speculation"
    if key in _TEXTUAL or key in ("kv_dtype", "moe_backend", "attention_backend", "speculation", "dtype"):
        return isinstance(raw, str) or key in ("test", "engine_version", "driver", "cuda")
    return cells.number(raw) is not None or str(raw).strip().lower() in ("inf", "trace")


def _put(row: Row, kind: str, key: str, raw: Any) -> None:
    value = cells.plain(raw) if isinstance(raw, str) else raw
    if kind == "workload":
        _put_workload(row, key, value)
    elif kind == "settings":
        _put_setting(row, key, _maybe_number(value))
    elif key == "gpu" and str(value).lower() in DEVICES:
        if str(value).lower() == "cpu":
            row.facts.gpu = row.facts.gpu_count = None
        _put_setting(row, "device", str(value).lower())
    elif key == "gpu":
        _put_gpu(row, str(value))
    elif key == "gpu_count":
        row.facts.gpu_count = int(cells.number(value) or 0) or row.facts.gpu_count
        row.named.add(key)
    elif key == "engine" and not names.known_engine(str(value)) and names.quantization(str(value)):
        _put_workload(row, "test", value)  # a label of the setup, not a server
    elif key == "engine" and (released := _RELEASE.fullmatch(str(value))) and names.known_engine(released[1]):
        _put_fact(row, "engine", names.engine(released[1]) or released[1])
        _put_fact(row, "engine_version", released[2])
    else:
        _put_fact(row, key, (names.engine_within(str(value)) if key == "engine" else None) or str(value))


DEVICES = ("cpu", "gpu", "cuda", "cuda:0", "rocm", "hip", "xpu", "mps", "auto")  # classes, not products


def _put_setting(row: Row, key: str, value: Any) -> None:
    """The first of a row's settings by one name, in place of what its surroundings say."""
    if key not in row.named:
        row.facts.settings[key] = value
        row.named.add(key)


def _put_gpu(row: Row, printed: str) -> None:
    """A card, apart from the count that stands in its own name or in the one around it."""
    facts = row.facts
    if facts.gpu is not None and facts.gpu_count is None:
        facts.gpu_count, facts.gpu = split_count(facts.gpu)
    count, name = split_count(printed)
    _put_fact(row, "gpu", name)
    if count is not None and "gpu_count" not in row.named:
        facts.gpu_count = count


def _put_fact(row: Row, key: str, value: str) -> None:
    """What a row names replaces what its surroundings say, and what those say of the thing replaced."""
    if key in row.named and not _is_better(row, key, value):
        return
    row.named.add(key)
    before = getattr(row.facts, key)
    same = before is not None and _is_same(key, before, value)
    setattr(row.facts, key, before if same and str(before).endswith(f"/{value}") else value)
    if before is None or same:
        return
    for other in _BELONGS.get(key, ()):
        if other not in row.named:
            setattr(row.facts, other, None)
    if key in ("engine", "model"):
        widths = {name: one for name, one in row.facts.settings.items() if name in _WIDTHS}
        row.facts.settings, row.facts.environment = widths if key == "model" else {}, {}


def _is_better(row: Row, key: str, value: str) -> bool:
    """Whether a server's name replaces one that nobody knows: a host, a provider."""
    return key == "engine" and not _is_engine(row.facts.engine) and _is_engine(value)


_WIDTHS = ("tp", "pp", "ep", "dp")
_BELONGS = {
    "engine": ("engine_version",),
    "model": ("quantization",),
    "gpu": ("gpu_count", "driver", "cuda"),
}


def _is_same(key: str, one: str, other: str) -> bool:
    if key == "engine":
        return names.engine(one) == names.engine(other)
    if key == "model":
        known, same = names.model(one), names.model(other)
        return one.rpartition("/")[2] == other.rpartition("/")[2] or (
            known is not None and same is not None and known.id == same.id
        )
    known_gpu, same_gpu = names.gpu(one), names.gpu(other)
    return one == other or (known_gpu is not None and known_gpu == same_gpu)


def _put_workload(row: Row, key: str, value: Any) -> None:
    if key == "input_output_len":
        row.workload |= {"input_len": cells.whole(value), "output_len": cells.whole(value)}
    elif key in _TEXTUAL:
        before = row.workload.get(key)
        row.workload[key] = str(value) if before is None else f"{before} / {value}"
    elif key == "request_rate":
        row.workload.setdefault(key, rate(value))
    else:
        row.workload.setdefault(key, cells.whole(value))


def rate(value: Any) -> float | int | str | None:
    """A request rate: a number per second, ``"inf"``, or a word such as ``trace``."""
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    number = cells.whole(value)
    return number if number is not None else (str(value).strip() or None if value is not None else None)


def _maybe_number(value: Any) -> Any:
    number = cells.whole(value) if isinstance(value, str) and re.fullmatch(r"[\d.]+", value) else None
    return value if number is None else number


_ACCEPTED = re.compile(r"(?i)accept(?:ance)?$")
_MOST_SHARE = 1.5  # what is larger is no fraction, whatever was rounded


def _add_metric(row: Row, label: str, quantity: Quantity, cell: cells.Cell, units: Units) -> None:
    factor, name = units.factor(label, quantity, cell), quantity.name
    if cell.rest.startswith("%") and re.search(r"tok_s|request_s|_ms_", name):
        row.rest[label] = cell.value  # a share of another figure
        return
    if (
        name == "accuracy"
        and cell.value > _MOST_SHARE
        and "score" in words_of(label)
        and "%" not in label + cell.rest
    ):
        row.rest[label] = cell.value  # points of a scale that nobody names
        return
    if name == "accept_rate" and _ACCEPTED.search(label) and cell.value > 1 and "%" not in cell.rest:
        row.rest[label] = cell.value  # a rate or a length: nobody says
        return
    if (
        name in ("accept_rate", "accuracy", "cache_hit_rate")
        and factor == 1.0
        and _MOST_SHARE < cell.value <= 100
    ):
        factor = 0.01  # a percentage without its sign
    if name == "power_w" and cell.value > 10_000:
        factor, quantity = 1e-3, replace(quantity, loose=True)  # milliwatts, as NVML counts them
    if name in row.metrics and of_one_request(row.labels.get(name, ""), label) and name == "tok_s":
        row.metrics["tok_s_per_user"] = row.metrics.pop(name) or 0.0
        row.labels["tok_s_per_user"] = row.source_names["tok_s_per_user"] = row.labels[name]
    if name in row.metrics and is_plain(label) and not is_plain(row.labels.get(name, label)):
        row.rest[row.labels[name]] = row.metrics.pop(name)  # of a part, by a word that is no measure's
    if name in row.metrics:
        if not quantity.loose:
            row.rest[label] = cell.value
        return
    row.metrics[name], row.labels[name] = cell.value * factor, label
    if cell.spread is not None:
        row.metrics[_spread_name(name)] = cell.spread * factor
    if quantity.loose or not quantity.unit_stated:
        row.source_names[name] = label


def _spread_name(name: str) -> str:
    return re.sub(r"_(?:mean|p50)$", "", name) + "_std"


def _copy(base: Facts | None) -> Facts:
    if base is None:
        return Facts()
    return replace(
        base,
        settings=dict(base.settings),
        environment=dict(base.environment),
        dependencies=dict(base.dependencies),
        warnings=list(base.warnings),
    )
