"""What stands around results in people's files: bold fields, list items, machine listings.

Owns turning "Model: X", "GPU: 2x Y" and the like into facts. Must not read results.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ingest.bench import cells, file_names, loads, names, variants
from ingest.bench.identity import Facts, split_count
from ingest.bench.places import ENGINE_VERSION, VAGUE_ENGINE, place
from ingest.bench.placing import put_version
from ingest.bench.quantities import words_of

_PAIR = re.compile(
    r"^\s*(?:[-*+]\s+)?(?:\*\*|__)?(?P<key>[A-Za-z\u3040-\u9fff][\w /.()#-]{0,40}?)(?:\*\*|__)?\s*(?:[:=]"
    r"(?:\*\*|__)?\s|：(?:\*\*|__)?)\s*(?P<value>\S.*?)\s*$"
)
_BESIDE = re.compile(
    r"\s+[|·•]\s+(?=(?:\*\*|__)[A-Za-z][^*_|:]{0,40}(?:(?:\*\*|__)\s*:|:)|[A-Z][\w ()/-]{0,24}:\s)"
)  # fields on one line


def facts_of(pairs: Iterable[tuple[str, str]], base: Facts | None = None) -> Facts:
    """Facts from (key, value) pairs; the first mention of a fact counts."""
    facts, told = base or Facts(), list(pairs)
    several = len(_engines_named(told)) > 1  # which of them was measured is not said here
    for key, raw in told:
        if several and _engine_named(key):
            continue
        value = cells.plain(raw).translate(_WIDE).strip("\"'")
        _mentions(facts, key, value)
        prose = len(value) > 120 or _REMARK.sub("", value).count(" ") > 9
        if cells.is_nothing(value) or value.lower() in _UNSET or prose:
            continue
        _take(facts, key, value)
    return facts


_UNSET = ("not installed", "not set", "not configured", "not specified", "unset")


def _engines_named(pairs: Iterable[tuple[str, str]]) -> set[str]:
    released = [key for key, raw in pairs if re.match(r"`?v?\d+\.\d|`?b\d{4}|commit", cells.plain(raw))]
    return {named for key in released if (named := _engine_named(key))}


def _engine_named(key: str) -> str | None:
    """The server that a field is named after: "vLLM version", "llama.cpp"."""
    found = ENGINE_VERSION.fullmatch(words_of(key))
    return names.engine(found["engine"].replace(" ", "-")) if found else None


def without_components(pairs: Iterable[tuple[str, str]], headings: Iterable[str]) -> list[tuple[str, str]]:
    """The fields without a server's release where headings name other servers: it is one of several there."""
    headed = {found for heading in headings for found in _servers_in(heading)}
    return [(key, raw) for key, raw in pairs if not headed - {named := _engine_named(key)} or named is None]


_WIDE = str.maketrans("（）：，", "():,")
_REMARK = re.compile(r"\s*\([^()]*\)|\s[—–]\s.*")
_RELEASE = re.compile(
    r"\b(?P<engine>vLLM|SGLang|TensorRT-LLM|TRT-LLM|llama\.cpp|LMDeploy|TGI|Ollama)"
    r"[ :=]+v?(?P<version>\d+(?:\.\w+)+|b\d{4,5}\b)",
    re.IGNORECASE,
)
_FLAG = re.compile(r"(?<!\S)--(?P<key>[a-z][a-z0-9-]+)(?:[ =](?P<value>(?!-)[^\s,;`)]+))?")
_LONGEST_LIST = 400  # what is longer is prose
_ABOUT = re.compile(
    r"\b(?:environment|setup|stack|software|versions?|engine|serving|server|hardware|gpus?|backend|framework"
    r"|launch|flags|knobs|config(?:uration)?|settings|parameters|args|arguments|options|image|runtime)\b"
)


def _mentions(facts: Facts, key: str, value: str) -> None:
    """An engine's release and options that a field about the server lists among other things."""
    if len(value) > _LONGEST_LIST or not _ABOUT.search(words_of(key)):
        return
    released = {(names.engine(one["engine"]), one["version"]) for one in _RELEASE.finditer(value)}
    if len(released) == 1:
        engine, version = released.pop()
        if facts.engine in (None, engine):
            facts.engine, facts.engine_version = engine, facts.engine_version or version
    if facts.engine is None and len(told := _servers_in(value)) == 1:
        facts.engine = told.pop()
    _listed(facts, value)
    for one in _FLAG.finditer(value):
        name = one["key"].replace("-", "_")
        if names.is_option(name):
            number = cells.whole(one["value"]) if re.fullmatch(r"[\d.]+", one["value"] or "") else None
            facts.settings.setdefault(name, one["value"] or True if number is None else number)


def _listed(facts: Facts, value: str) -> None:
    """A model, widths and the load among the items of a list: "NAME | TP=8, EP=1 | Concurrency=4"."""
    items = [one.strip() for one in re.split(r"\s*[|;,·]\s+", value)]
    models = {one for one in items if len(items) > 1 and _is_model(one)}
    if facts.model is None and len(models) == 1:
        facts.model = models.pop()
    if len(items) > 1:
        _take_counts(facts, value)
        facts.load = (
            load_of((key, told) for key, sep, told in (one.partition("=") for one in items) if sep)
            | facts.load
        )


def _take(facts: Facts, key: str, value: str) -> None:
    key = re.sub(r"\s*\([^()]*\)$", "", key)  # "Model (self-host)"
    named, where = ENGINE_VERSION.fullmatch(words_of(key)), place(key)
    if named:
        put_version(facts, named["engine"], value)
        if facts.engine is None and "version" not in words_of(key):
            facts.engine = _engine_named(key)  # "llama.cpp: a fork, 53f1515"
    elif words_of(key) in _DRIVER_AND_CUDA:
        driver, _, cuda = value.partition("/")
        facts.driver, facts.cuda = facts.driver or _version(driver), facts.cuda or _version(cuda)
    elif where is None:
        if key.islower() and names.is_option(key.strip("`")) and value.count(" ") < 2:
            facts.settings.setdefault(key.strip("`"), _typed(value))
    elif where[0] == "settings" and value.count(" ") < 3 and not _measured_size(value):
        value = re.sub(r"^[A-Z]{2}=(?=\d+$)", "", value)  # "Tensor parallelism: TP=1"
        number = cells.whole(value) if re.fullmatch(r"\d+", value) else None
        facts.settings.setdefault(where[1], value if number is None else number)
    elif where == ("identity", "engine") and VAGUE_ENGINE.search(key) and not names.engine_within(value):
        return  # a protocol, as clients name it
    elif where == ("identity", "engine_version"):
        if not VAGUE_ENGINE.search(key) and re.match(r"v?\d+\.\d+", value):
            facts.engine_version = facts.engine_version or value.split(maxsplit=1)[0].removeprefix("v")
    elif where[0] == "identity" and where[1] != "image":
        _identity(facts, where[1], _AT_ADDRESS.sub("", value))


def _measured_size(value: str) -> bool:
    """Whether a value under the name of a setting tells how much there is of it ("KV cache: 58 GiB")."""
    return re.match(r"[~≈]?\d[\d.,]*\s?(?:[GMK]i?B|tok)", value) is not None


_AT_ADDRESS = re.compile(r"\s@\s\S+:\d+$")  # "GLM-5 @ localhost:5264"
_DRIVER_AND_CUDA = ("driver cuda", "nvidia driver cuda", "gpu driver cuda")


def _version(text: str) -> str | None:
    found = re.search(r"\d+(?:\.\d+)+", text)
    return found[0] if found else None


_ANSWERS = ("generated tokens", "tokens generated")  # of one answer, where fields tell the load
_WINDOWS = ("context size", "context length", "context len", "ctx size")  # of the server
_VAGUE_LOADS = (
    *_WINDOWS,
    "in",
    "out",
    "input",
    "output",
    "c",
    "n",
    "b",
    "prompt",
    "context",
    "ctx",
    "rate",
    "depth",
)
_PLAIN_LOAD = re.compile(
    r"~?\d[\d,]*\s?k?(?: (?:tok(?:en)?s?|req(?:uest)?s?|users?|clients?|streams?|prompts))?"
)


def load_of(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The load that fields tell, each part of it once: "Concurrency: 8", "Prompt tokens: 1024"."""
    told: dict[str, set[Any]] = {}
    for key, raw in pairs:
        value, where = cells.plain(raw).strip("\"'"), place(key)
        where = ("workload", "output_len") if words_of(key) in _ANSWERS else where
        if where is None or where[0] != "workload" or words_of(key) in _VAGUE_LOADS:
            continue
        if where[1] == "input_output_len":
            for name, one in loads.lengths(value).items():
                told.setdefault(name, set()).add(one)
        elif where[1] not in ("test", "dataset") and _PLAIN_LOAD.fullmatch(value):
            told.setdefault(where[1], set()).add(cells.whole(value))
    return {key: one.pop() for key, one in told.items() if len(one) == 1}


def _typed(value: str) -> Any:
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    number = cells.whole(value) if re.fullmatch(r"\d+(?:\.\d+)?", value) else None
    return value if number is None else number


def _identity(facts: Facts, key: str, value: str) -> None:
    if key == "gpu_count":
        facts.gpu_count = facts.gpu_count or (int(cells.number(value) or 0) or None)
    elif key == "engine":
        if value.count(" ") > _LONGEST_NAME:
            facts.engine = facts.engine or names.engine_within(value)  # a sentence
            return
        if _PROTOCOL.fullmatch(value):
            return
        found = re.match(r"^(.+?)[\s=]+v?(\d+\.[\w.+-]*)$", value)
        facts.engine = facts.engine or names.engine(found[1].rstrip("=: ") if found else value)
        facts.engine_version = facts.engine_version or (found[2] if found else None)
    else:
        if key == "model" and file_names.is_precision(value):  # of one of the setups that are compared
            return
        if key == "model" and facts.model is None:
            facts.quantization = facts.quantization or _told_aside(value)
        setattr(facts, key, getattr(facts, key) or _short(facts, key, value))


_PROTOCOL = re.compile(r"(?i)openai(?:[- ](?:compatible|compat|api|chat|http))*")  # no server's name
_LONGEST_NAME = 3  # blanks in the name of a server that nobody knows, or of a quantization


def _told_aside(value: str) -> str | None:
    """The quantization in a remark beside a model's name: "Llama-3.3-70B-Instruct (FP8)"."""
    aside = re.search(r"\(([^()]*)\)\s*$", value)
    return names.quantization(aside[1]) if aside else None


def _short(facts: Facts, key: str, value: str) -> str | None:
    """A value without remarks: "NAME (96 GB)" is NAME, "595.45.04, CUDA 13.2 (container)" two versions."""
    if key in ("driver", "cuda"):
        cuda = re.search(r"CUDA\s+(\d+\.\d+)", value)
        facts.cuda = facts.cuda or (cuda[1] if cuda and key == "driver" else None)
        return _version(value)
    if key == "quantization" and value.count(" ") > _LONGEST_NAME:
        return None  # a sentence
    if key == "quantization" and "/" in value and names.quantization(value):
        return names.quantization(value)  # of the checkpoint that it names
    if key in ("gpu", "model"):
        bare = re.sub(r"\s*\((?![x×]\d)[^()]*\)\s*$", "", value)
        bare = re.sub(r"^(?:[Tt]he )?[Ss]ame (.*?)(?: checkpoint| weights)?$", r"\1", bare)
        bare = re.split(r"\s/\s+-", bare)[0] if key == "model" else bare  # "NAME-NVFP4 / -FP8"
        first = re.sub(r"\s*\(.*$", "", re.split(r"\s+[·+|—–@]\s+|,\s|;\s|\s+on\s+(?=\d)", bare)[0])
        if key == "gpu" and first != bare and split_count(first)[1] and _remarks(bare[len(first) :]):
            driver = re.search(r"\bdriver (\d+\.\d+(?:\.\d+)*)", bare)
            facts.driver = facts.driver or (driver[1] if driver else None)
            return first
        return first if key == "model" and ("/" in first or names.model(first)) else bare
    return value


def _remarks(text: str) -> bool:
    """Whether what follows a card's name tells its memory, its power or its software, and no other card."""
    told = re.search(r"\d\s?(?:GB|GiB|MiB|W)\b|driver|compute capability|sm_?\d", text)
    return told is not None and not _cards_in(text)


def pairs_in(lines: Iterable[str]) -> list[tuple[str, str]]:
    """(key, value) of bold fields, list items and plain "key: value" lines."""
    parts = (part for line in lines for part in _BESIDE.split(line))
    found = (_PAIR.match(part) for part in parts if len(part) < 240)
    return [(one["key"], one["value"]) for one in found if one]


def scalars(value: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(key, text) of an object's scalar members."""
    return [
        (k, str(v)) for k, v in value.items() if isinstance(v, str | int | float) and not isinstance(v, bool)
    ]


_COUNTED = re.compile(r"(?<![\w.])(?P<count>\d{1,3})\s?[x×]\s?(?P<name>[A-Za-z\d][\w .-]{1,50})")
_TP = re.compile(r"\b(?P<key>TP|PP|EP|DP)\s?[=:]?\s?(?P<n>\d{1,3})\b")


_ONLY_A_NAME = re.compile(r"[A-Za-z][\w./-]*(?: [\w./()-]+){0,4}", re.ASCII)
_MORE_THAN_A_NAME = re.compile(
    r"(?i)\b(?:on|vs?|with|for|of|and|the|results?|report|baseline|analysis|performance|benchmarks?|bench|row|summary"
    r"|test(?:s|ing)?|experiments?|findings|study|guide|recipe|deployment|tuning|check|status|sweep|local|scaling|setup|config\w*|serving|throughput|latency|context|runs?|notes?|vllm|sglang|details|comparison)\b"
)


def _is_model(heading: str) -> bool:
    alone = _ONLY_A_NAME.fullmatch(heading) and not _MORE_THAN_A_NAME.search(heading)
    return bool(alone) and names.model(heading) is not None


def _name_model(facts: Facts, heading: str) -> None:
    """A heading that is nothing but a model's name says whose results follow."""
    named, before = names.model(heading) if _is_model(heading) else None, names.model(facts.model)
    if named is None or (before is not None and before.id == named.id):
        return
    facts.model, facts.quantization, facts.environment = heading, None, {}
    facts.settings = _widths(facts.settings)


def _widths(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: one for key, one in settings.items() if key in ("tp", "pp", "ep", "dp")}


_LONGEST_TITLE = 1000  # of one, or of those above a table: the innermost stands last
_COMPARES = re.compile(r"(?i)\b(?:vs|versus|compar\w*|against|than|and|or)\b")
_PARTS = re.compile(r"\s+[—–|·/-]\s+|[:,]\s+|\s+on\s+|[()]")


def _servers_in(heading: str) -> set[str]:
    return {found for word in re.split(r"[\s,:()]+", heading) if (found := variants.engine_in(word))}


def _server_in(heading: str) -> str | None:
    """The one server that a heading names, where it compares none."""
    named = _servers_in(heading)
    return named.pop() if len(named) == 1 and not _COMPARES.search(heading) else None


def _parts(heading: str) -> list[str]:
    return [part.strip() for part in _PARTS.split(heading) if part.strip()]


def _cards_in(heading: str) -> list[tuple[int | None, str]]:
    told = map(split_count, _parts(heading))
    return [(count, card) for count, name in told if (card := _product(name))]


def _name_card(facts: Facts, heading: str) -> None:
    """A heading with the name of one card says whose results follow, unless that is known already."""
    cards = _cards_in(heading)
    known = names.gpu(facts.gpu or "")
    if len(cards) != 1 or _COMPARES.search(heading) or known == names.gpu(cards[0][1]):
        return
    facts.gpu_count, facts.gpu = cards[0]
    facts.driver = facts.cuda = None


def titled(title: str, base: Facts) -> Facts:
    """Facts that lack them with what parts of a title name: "llama.cpp — RTX 3050 — Llama 3.2 3B"."""
    title = title[:_LONGEST_TITLE]
    facts = replace(base, engine=base.engine or _server_in(title), settings=dict(base.settings))
    _take_counts(facts, title)
    cards, parts = _cards_in(title), _parts(title)
    if len(cards) == 1 and facts.gpu is None and not _COMPARES.search(title):
        facts.gpu_count, facts.gpu = cards[0]
    for part in parts if facts.model is None else ():
        _name_model(facts, part)
    return facts


def headed(heading: str, base: Facts) -> Facts:
    """Facts with what a heading adds: "4x RTX PRO 6000", "TP=2", the model or the server that it names."""
    heading = heading[-_LONGEST_TITLE:]
    facts = replace(base, settings=dict(base.settings))
    _take_counts(facts, heading)
    parts = [part.strip() for part in reversed(heading.split(" / "))]
    _name_model(facts, next((one for part in parts if (one := _model_in(part))), ""))
    _name_card(facts, next((part for part in parts if _cards_in(part)), ""))
    telling = next((part for part in parts if _servers_in(part)), "")
    engine, named = _server_in(telling), _servers_in(telling)
    if names.engine(facts.engine) not in named and (engine or len(named) > 1):
        facts.engine, facts.engine_version, facts.environment = engine, None, {}
        facts.settings = _widths(facts.settings)
    if released := _released(telling, facts.engine):
        facts.engine_version = released
    return facts


_MEASURED_ON = re.compile(r"\b(?:for|of) ([\w./-]{4,80}) on\b")  # "Sweep for NAME on 8x H100"


def _model_in(heading: str) -> str:
    """The model that a heading is, or that alone is one of its parts: "NAME Q4_K_M, llama.cpp b9010"."""
    if _is_model(heading):
        return heading
    named = [part for part in _parts(heading) if _is_model(part)]
    named = named or [one for one in _MEASURED_ON.findall(heading) if _is_model(one)]
    return named[0] if len(named) == 1 and not _COMPARES.search(heading) else ""


def _released(heading: str, engine: str | None) -> str | None:
    """The one release of the engine that a heading names with it."""
    told = {one["version"] for one in _RELEASE.finditer(heading) if names.engine(one["engine"]) == engine}
    return told.pop() if len(told) == 1 else None


def _take_counts(facts: Facts, heading: str) -> None:
    counted = _COUNTED.search(heading)
    if counted and facts.gpu is None:
        name = _product(counted["name"])
        facts.gpu, facts.gpu_count = (name, int(counted["count"])) if name else (None, facts.gpu_count)
    for found in _TP.finditer(heading):
        facts.settings.setdefault(found["key"].lower(), int(found["n"]))


def _product(text: str) -> str | None:
    """The longest start of a text that names a product."""
    words = text.split()
    starts = (" ".join(words[:length]).rstrip(",.") for length in range(len(words), 0, -1))
    return next((start for start in starts if names.gpu(start)), None)
