"""Where a cell goes that names a load, who was measured, or a setting.

Owns what a row says instead of its surroundings, and the row itself. Must not decide what a label measures.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from typing import Any

from ingest.bench import cells, loads, names
from ingest.bench.file_names import is_precision
from ingest.bench.identity import Facts, split_count
from ingest.launches import engine_of_image
from kb.model import Measurement

_TEXTUAL = {"dataset", "test", "model", "gpu", "engine", "engine_version", "quantization", "driver", "cuda"}
_RELEASE = re.compile(r"([A-Za-z][\w.-]{1,20}(?: LLM)?) v?(\d+\.\d+(?:\.\d+)?[\w.+-]{0,30})")
_SERVED = re.compile(
    r"(?P<model>[^,]{3,80}), (?P<engine>[A-Za-z][\w.-]{2,20}) v?(?P<version>\d+\.\d[\w.]*|b\d{4,5})"
)
DEVICES = ("cpu", "gpu", "cuda", "cuda:0", "rocm", "hip", "xpu", "mps", "auto")  # classes, not products
_WIDE = ("concurrency", "batch_size")
_IMAGE = re.compile(r"[\w.-]+(?:/[\w.-]+)+:[\w.-]+")
_STATE = re.compile(r"\d+(?:\.\d+)? ?(?:%|W\b|MiB|C\b)|\[N/A\]")  # of a card, where its name should stand
_LONGEST_ENGINE = 3  # words of a server that nobody knows
_COUNTED = re.compile(
    r"(?:c|conc|bs|b|batch|x)[ =]?(\d{1,6})", re.IGNORECASE
)  # "C4" in a column of that name
_WIDTHS = ("tp", "pp", "ep", "dp")
_BELONGS = {
    "engine": ("engine_version",),
    "model": ("quantization",),
    "gpu": ("gpu_count", "driver", "cuda"),
}


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


def put_version(facts: Facts, engine: str, value: str) -> None:
    """A version that stands under an engine's name ("vllm_version": "0.23.0"); "Not Installed" is none."""
    found = re.match(r"`?(?:\w+ version is )?v?(\d+(?:\.\w+)+[\w.+-]*)", value.strip())
    if found and facts.engine_version is None:
        facts.engine = facts.engine or names.engine(engine.replace(" ", "-"))
        facts.engine_version = found[1]


_LIBRARIES = ("flashinfer",)  # of kernels: they serve nothing


def is_engine(raw: Any) -> bool:
    """Whether a cell is the name of a known server."""
    text = cells.plain(str(raw))
    known = names.known_engine(text)
    return (known is not None and known not in _LIBRARIES) or names.server_in(text) is not None


def fits(key: str, raw: Any) -> bool:
    """Text for what is named, a number for what is counted, so that ``vllm: true`` names no engine."""
    if isinstance(raw, bool):
        return key == "speculation"
    if key in _TEXTUAL or key in (
        "image",
        "kv_dtype",
        "moe_backend",
        "attention_backend",
        "speculation",
        "dtype",
    ):
        return isinstance(raw, str) or key in ("test", "engine_version", "driver", "cuda")
    if key in _WIDE and _COUNTED.fullmatch(cells.plain(str(raw))):
        return True
    if key == "input_output_len" and loads.lengths(str(raw)):
        return True
    return cells.number(raw) is not None or str(raw).strip().lower() in ("inf", "trace")


def put(row: Row, kind: str, key: str, raw: Any) -> None:
    """A cell under the key of its label, as ``place`` tells both."""
    value = cells.plain(raw) if isinstance(raw, str) else raw
    if kind == "workload":
        _put_workload(row, key, value)
    elif kind == "settings":
        _put_setting(row, key, _maybe_number(value))
    elif key == "gpu" and str(value).lower() in DEVICES:
        if str(value).lower() == "cpu":
            row.facts.gpu = row.facts.gpu_count = None
        _put_setting(row, "device", str(value).lower())
    elif key == "gpu" and not re.fullmatch(r"\d{1,3}", str(value)):
        _put_gpu(row, f"RTX {value}" if re.fullmatch(r"\d{4}", str(value)) else str(value))
    elif key in ("gpu", "gpu_count"):
        row.facts.gpu_count = int(cells.number(value) or 0) or row.facts.gpu_count
        row.named.add("gpu_count")
    elif key == "engine":
        _put_engine(row, str(value))
    elif key == "image":
        if (image := engine_of_image(str(value)))[0]:
            _put_server(row, str(image[0]), image[1])
    elif key == "engine_version":
        _put_fact(row, key, names.release(str(value)))
    else:
        _put_named(row, key, str(value))


def _put_named(row: Row, key: str, value: str) -> None:
    """A name; of a model also the release that served it, where the cell tells both: "NAME, Ollama 0.20"."""
    beside = _SERVED.fullmatch(value) if key == "model" else None
    if key == "model" and is_precision(value):  # of one model, whose setups are compared
        _put_fact(row, "quantization", value)
        _put_workload(row, "test", value)
        return
    if key == "model" and names.model(value) is None and (served := names.engine_within(value)):
        _put_fact(row, "engine", served)  # setups by their servers: "vllm_fp8"
        _put_workload(row, "test", value)
        row.facts.quantization = names.quantization(value) or row.facts.quantization
        return
    if beside is None or names.known_engine(beside["engine"]) is None:
        _put_fact(row, key, value)
        return
    _put_fact(row, "model", beside["model"])
    _put_fact(row, "engine", names.engine(beside["engine"]) or beside["engine"])
    _put_fact(row, "engine_version", beside["version"])


def _put_engine(row: Row, value: str) -> None:
    """A server by its name, with the release that stands beside it; a label or a sentence is none."""
    released = _RELEASE.fullmatch(value)
    if not names.engine_within(value) and names.quantization(value):
        _put_workload(row, "test", value)  # a label of the setup, not a server
    elif released and names.known_engine(released[1]):
        _put_server(row, names.engine(released[1]) or released[1], released[2])
    elif _IMAGE.fullmatch(value) and (image := engine_of_image(value))[0]:
        _put_server(row, str(image[0]), image[1])
    elif (served := names.server_in(value)) and _says_more(value, served):
        _put_server(row, *served)
        if not served[1]:
            _put_workload(row, "test", value)  # what else it says of the setup
    elif names.engine_within(value) or len(value.split()) <= _LONGEST_ENGINE:
        _put_fact(row, "engine", names.engine_within(value) or value)
    else:
        row.rest["engine"] = value  # a sentence about the setup


def _put_server(row: Row, engine: str, version: str | None) -> None:
    _put_fact(row, "engine", engine)
    if version:
        _put_fact(row, "engine_version", version)


def _says_more(value: Any, served: tuple[str, str | None]) -> bool:
    """Whether a server's name stands with its release, or with other words that name none."""
    return served[1] is not None or names.known_engine(str(value)) is None


def _put_setting(row: Row, key: str, value: Any) -> None:
    """The first of a row's settings by one name, in place of what its surroundings say."""
    if key not in row.named:
        row.facts.settings[key] = value
        row.named.add(key)


def _put_gpu(row: Row, printed: str) -> None:
    """A card, apart from the count that stands in its own name or in the one around it."""
    facts = row.facts
    if _STATE.match(printed):
        return
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
    return key == "engine" and not is_engine(row.facts.engine) and is_engine(value)


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
        both: dict[str, Any] = dict(loads.lengths(str(value)))
        row.workload |= both or dict.fromkeys(loads.LENGTHS, cells.whole(value))
    elif key in _TEXTUAL:
        before = row.workload.get(key)
        row.workload[key] = str(value) if before is None else f"{before} / {value}"
    elif key == "request_rate":
        if (number := rate(value)) is not None:
            row.workload.setdefault(key, number)
    elif key in (*loads.LENGTHS, "depth") and (length := loads.count(str(value))) is not None:
        row.workload.setdefault(key, length)
    else:
        counted = _COUNTED.fullmatch(str(value)) if key in _WIDE else None
        row.workload.setdefault(key, int(counted[1]) if counted else cells.whole(value))


def rate(value: Any) -> float | int | str | None:
    """A request rate: a number per second, ``"inf"``, or a word such as ``trace``."""
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    cell, number = cells.read_cell(value), cells.whole(value)
    if cell is not None and re.match(r"(?:ms|s|sec|%)(?!\w)", cell.rest):
        return None  # a time or a share, whatever its label says
    return number if number is not None else (str(value).strip() or None if value is not None else None)


def _maybe_number(value: Any) -> Any:
    number = cells.whole(value) if isinstance(value, str) and re.fullmatch(r"[\d.]+", value) else None
    return value if number is None else number


def copied(base: Facts | None) -> Facts:
    """Facts whose own parts may change without changing the ones given."""
    if base is None:
        return Facts()
    return replace(
        base,
        settings=dict(base.settings),
        environment=dict(base.environment),
        dependencies=dict(base.dependencies),
        warnings=list(base.warnings),
        load=dict(base.load),
    )
