"""Result rows inside JSON of any shape: objects that hold figures, with what the objects around them say.

Owns the walk. What a label means is ``quantities`` and ``rows``; which file it is, the format's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations, pairwise, permutations
from typing import Any

from ingest.bench import cells, members, moments, names, requests, spread_tables
from ingest.bench.places import ENGINE_VERSION, place
from ingest.bench.placing import DEVICES
from ingest.bench.quantities import RESULTS, serves_tokens, understand, words_of
from ingest.bench.relabel import is_measured, is_plain_rate
from ingest.bench.units import Units

_QUALITY = ("accuracy",)
_TESTS = {("workload", "test"), ("workload", "dataset")}
_PLAIN_NAMES = re.compile(
    r"results?|cases|runs?|benchmarks?|metrics|data|rows|cells|steps|phases|bench|items|entries|measurements|laeufe"
    r"|ergebnisse|values|stats|summary|tasks|tests|points|sweep|serving|throughput_runs|overall|performance|raw"
    r"|models|levels|engines|configs|arms|methods|setups|variants"
)
_ABOUT = re.compile(
    r"meta(?:data)?|config(?:uration)?|env(?:ironment)?|system(?:_info)?|server(?:_info)?|hardware|info|setup|model"
    r"|(?:host|system|machine|hardware|gpu)_details|args|arguments|params|parameters|settings|run|fingerprint|machine|software|artifacts|runtime|context|host|platform|backend"
    r"|workload|load|traffic|request|serve|serving|launch|(?:server?|serve|engine|vllm|sglang|launch)_(?:args|config|params)|(?:test|bench(?:mark)?|load|run|server)_config(?:uration)?"
)
_NAMERS = (  # objects whose "name" is that of what they describe
    (re.compile(r"model(?:_info|_config)?"), "model", ""),
    (re.compile(r"hardware|gpus?|accelerators?|devices?|gpu_info|hardware_info"), "gpu", "gpu_count"),
    (re.compile(r"engine|framework|server|runtime|inference_engine"), "engine", ""),
    (re.compile(r"backend"), "engine", ""),
)
_NAME = re.compile(
    r"(?:canonical_|repo_|model_|hf_|chip_|gpu_|display_|short_)?(?P<kind>name|id|path|dir|filename|model|type)"
)
_TYPES: dict[str, Callable[[str], Any]] = {"gpu": names.gpu, "engine": names.known_engine}
_COUNT = re.compile(r"(?:chip_|gpu_|device_|num_)?(?:count|gpus|number|n)")
_BEFORE = ("warmup", "warm_up", "warmup_config")  # the load before the measured one
_MACHINE = ("host", "machine", "hardware", "platform")
_FOLDED = ("median", "mean", "average", "avg", "best", "aggregate", "summary", "averages", "medians")
_DETAILS = re.compile(r"metrics|timings?|stats|usage|result|response")
_ASKED = re.compile(
    r"(?:latency_|target_)?(?:slos?|slas?)(?:_targets?)?|(?:slo_)?objectives|(?:\w+_)?thresholds(?:_m?s)?"
    r"|theoretical(?:_\w+)?|(?:\w+_)?gates?|limits|acceptance(?:_criteria)?|(?:selection|acceptance)_policy"
    r"|warm_?up(?:_\w+)?"
)  # no results, but wishes, or what went before
_OF_EACH = re.compile(
    r"(?:per_)?(?:streams?|lanes?|requests?|responses|completions|clients|users?)(?:_details|_results)?"
)
_CARDS = re.compile(r"(?:gpus?|accelerators?|devices|cards)(?:_info|_list)?")
_NUMBERED = (
    (re.compile(r"prefill|context|input|prompt(?!s)|isl|ctx|length"), "input_len"),
    (re.compile(r"conc|users?|parallel|clients"), "concurrency"),
    (re.compile(r"batch|bs"), "batch_size"),
    (re.compile(r"rate|rps|qps"), "request_rate"),
)
_MOST_ROWS = 5000
_MOST_AXES = 3  # levels of objects that lists of loads explain


@dataclass(slots=True)
class Found:
    """Rows with what was said around them, objects marked as failed, and whether rows were left out.

    ``notes`` say how units of single requests were decided, ``axes`` are lists of loads ("batch_sizes": …),
    ``moments`` counts samples over time.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    failed: list[dict[str, Any]] = field(default_factory=list)
    cut: bool = False
    notes: list[str] = field(default_factory=list)
    axes: dict[str, set[str]] = field(default_factory=dict)
    moments: int = 0


def find_rows(document: Any) -> Found:
    """Every result row of a document, outermost first."""
    found = Found()
    _walk(document, {}, (), found)
    return found


_DEEPEST = 12  # levels of objects
_DEEPEST_LISTS = 40  # lists directly in lists name nothing


def _walk(value: Any, around: dict[str, Any], path: tuple[str, ...], found: Found, lists: int = 0) -> None:
    if len(path) > _DEEPEST or lists > _DEEPEST_LISTS or len(found.rows) >= _MOST_ROWS:
        found.cut = found.cut or len(found.rows) >= _MOST_ROWS
    elif isinstance(value, Mapping):
        _object(value, around, path, found)
    elif isinstance(value, list) and requests.are_requests(
        rows := _scalar_rows(value), path[-1] if path else ""
    ):
        units = Units.of(rows)
        found.notes += units.notes
        found.rows += [dict(around) | one | _named(path, found.axes) for one in requests.fold(rows, units)]
    elif isinstance(value, list) and moments.are_moments(value):
        found.moments += len(rows)
    elif isinstance(value, list) and (joined := spread_tables.joined_rows(rows)):
        found.rows.append(dict(around) | joined | _named(path, found.axes))
    elif isinstance(value, list):
        for one in value:
            if isinstance(one, Mapping | list):
                _walk(one, around, path, found, lists + 1)


def _scalar_rows(value: list[Any]) -> list[dict[str, Any]]:
    """The members of a list of objects without what is nested in them; none where other things are listed."""
    if not all(isinstance(one, Mapping) for one in value):
        return []
    return [_own(one) | _own(next(iter(_details(one)), {})) for one in value]


def _details(request: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Objects that hold the figures of the request that they stand in."""
    return (
        one
        for key, one in request.items()
        if isinstance(one, Mapping) and _DETAILS.fullmatch(str(key).lower())
    )


def _own(value: Mapping[str, Any]) -> dict[str, Any]:
    plain = {str(key): one for key, one in value.items() if not isinstance(one, Mapping | list)}
    return plain | members.spread(value)


def _object(value: Mapping[str, Any], around: dict[str, Any], path: tuple[str, ...], found: Found) -> None:
    own = _offered(_with_model(_own(value), path), value)
    _note_axes(value, found.axes)
    said = _merged(around, _said(own) | _commands(value))
    for key, one in value.items():
        if isinstance(one, Mapping):
            said = _merged(said, _said(_about(str(key).lower().strip("_"), one)))
    if _is_result(own, said):
        made = members.made_by_each(value)
        found.rows.append(said | _qualified(own, path) | made | _named(path, found.axes))
    elif own.get("ok") is False or own.get("success") is False or own.get("status") in ("failed", "error"):
        found.failed.append(said | own)
    found.rows += [said | one | _named(path, found.axes) for one in members.by_cases(value)]
    for key in _below(value, _is_result(own, said)):
        _walk(value[key], said, (*path, str(key)), found)


def _with_model(own: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Members of an object whose name is a model's: it stands among "models", or says who serves it."""
    told = {place(key) for key in own} - {None}
    served = ("identity", "engine") in told and (
        ("identity", "quantization") in told or "architecture" in own
    )
    listed = len(path) > 1 and path[-2].lower() == "models"
    if not isinstance(own.get("name"), str) or ("identity", "model") in told or not (served or listed):
        return own
    return {"model" if key == "name" else key: one for key, one in own.items()}


def _below(value: Mapping[str, Any], is_result: bool) -> Iterable[str]:
    """Members to look into. Rows beat a summary beside them, unless they are single requests."""
    listed = {
        key for key, one in value.items() if isinstance(one, list) and one and isinstance(one[0], Mapping)
    }
    single = {key for key in listed if requests.are_requests(_scalar_rows(value[key]), key)}
    folded = {
        key
        for key, one in value.items()
        if str(key).lower().removesuffix("_metrics") in _FOLDED and isinstance(one, Mapping | list)
    }
    if is_result:
        single |= {key for key in listed if _OF_EACH.fullmatch(str(key).lower())}
    known = is_result or any(_tells(value[key]) for key in folded)
    rows = [key for key in listed - single if not moments.are_moments(value[key])]
    left = folded if rows else set()
    left |= single if known else set()
    left |= {key for key, one in value.items() if isinstance(one, Mapping) and members.is_spread(key, one)}
    left |= {key for key in value if _ASKED.fullmatch(str(key).lower())}
    return [key for key, one in value.items() if isinstance(one, Mapping | list) and key not in left]


def _tells(value: Any) -> bool:
    return isinstance(value, Mapping) and _is_result(_own(value), {})


def _about(key: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """What an object says of the server or the load around it, its name as that of what it describes."""
    if thing := _named_thing(key, value):
        return thing
    if key in ("backends", "kernels"):  # by what they compute
        return {f"{part}_backend": one for part, one in value.items() if isinstance(one, str)}
    if not _ABOUT.fullmatch(key):
        return {}
    about = _flat(value)
    if key.startswith(_MACHINE):
        about.pop("model", None)  # the model of a computer
    return about


def _named_thing(key: str, value: Mapping[str, Any]) -> dict[str, Any]:
    for namer, named, counted in _NAMERS:
        if namer.fullmatch(key) and (thing := _thing(key, value, named, counted)):
            return thing
    return {}


def _thing(key: str, value: Mapping[str, Any], named: str, counted: str) -> dict[str, Any]:
    name = _name_in(value, named)
    if key == "backend" and not names.known_engine(name or ""):
        return {}
    if name is None or _is_result(_own(value), {}):
        return {}
    rest = {
        key: one
        for key, one in _flat(value).items()
        if not _NAME.fullmatch(key.lower()) and place(key) != ("identity", named)
    }
    count = next((one for key, one in rest.items() if _COUNT.fullmatch(key.lower())), None)
    version = rest.get("version") if named == "engine" else None
    told = {named: name, counted: count, "engine_version": version}
    return rest | {key: one for key, one in told.items() if key and one is not None}


def _name_in(value: Mapping[str, Any], named: str) -> str | None:
    """What tells a thing best; a type, often a class of things, only where the vocabulary knows it."""
    told: dict[str, str] = {}
    for key, one in value.items():
        found = _NAME.fullmatch(str(key).lower())
        if found and isinstance(one, str) and one:
            told[found["kind"]] = one if found[0] == found["kind"] else told.get(found["kind"], one)
    if named == "model" and told.get("filename", "").endswith(".gguf"):
        return told["filename"].removesuffix(".gguf")
    last = told.get("path", told.get("dir")) if named == "model" else told.get("type", "")
    known = _TYPES.get(named, bool)
    best = next((told[kind] for kind in ("name", "id", "model") if kind in told), None)
    return best or (last if last and known(last) else None)


def _note_axes(value: Mapping[str, Any], axes: dict[str, set[str]]) -> None:
    for key, one in value.items():
        if isinstance(one, list) and one and all(isinstance(step, int) for step in one[:100]):
            single = re.sub(r"(?:_?levels?|_?values|s)$", "", re.sub(r"ies$", "y", str(key).lower()))
            where = place(single)
            if where is not None and where[0] == "workload":
                axes.setdefault(where[1], set()).update(map(str, one[:100]))


def _is_result(own: Mapping[str, Any], said: Mapping[str, Any]) -> bool:
    told = {
        one.name
        for key, raw in own.items()
        if cells.number(raw) is not None and (one := understand(key)) and not _is_load(key)
    }
    if any(name.startswith(RESULTS) for name in told):
        return serves_tokens(own)
    around = {place(key) for key in {**own, **said}}
    scored = any(
        words_of(key) != "score" and (one := understand(key)) and one.name in _QUALITY for key in own
    )
    asked = scored or ("identity", "model") in around  # anything may have a score
    return asked and bool(around & _TESTS) and any(name in _QUALITY for name in told)


def _offered(own: dict[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    """A round rate ("qps": 4) of an object that holds others is what was asked, unless it tells results."""
    told = {one.name for key in own if (one := understand(key)) and not _is_load(key)}
    held = any(isinstance(one, Mapping | list) for one in value.values())
    if not held or sum(name.startswith(RESULTS) for name in told) != 1:
        return own
    return {
        "offered rps" if is_plain_rate(key) and not is_measured(one) else key: one for key, one in own.items()
    }


def _is_load(key: str) -> bool:
    return (place(key) or ("",))[0] == "workload"


def _said(own: Mapping[str, Any]) -> dict[str, Any]:
    """Members that name the server or the load: these hold for everything below."""
    return {
        key: one
        for key, one in own.items()
        if one not in (None, "")
        and key.lower() != "n"
        and (place(key) is not None or ENGINE_VERSION.fullmatch(words_of(key)) or names.is_option(key))
    }


def _flat(value: Mapping[str, Any], depth: int = 2) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, one in value.items():
        if str(key).lower() in _BEFORE:
            continue
        if isinstance(one, Mapping) and depth:
            flat |= _named_thing(str(key).lower(), one) or _flat(one, depth - 1)
            flat |= {"engine": key} if names.known_engine(key) in names.SERVERS and "model" in one else {}
        elif (
            _CARDS.fullmatch(key)
            and isinstance(one, list)
            and one
            and all(isinstance(x, Mapping) for x in one)
        ):
            cards = {str(card.get("name") or card.get("Name") or "") for card in one}
            flat |= {"gpu": cards.pop(), "gpu_count": len(one)} if len(cards) == 1 else {}
        elif not isinstance(one, list):
            flat.setdefault(str(key), one)
    return flat


def _merged(outer: Mapping[str, Any], inner: Mapping[str, Any]) -> dict[str, Any]:
    """Inner members replace outer ones that mean the same thing, except labels of tests, which add up."""
    told = (key for key, one in inner.items() if str(one).lower() not in DEVICES)
    places = {place(key) for key in told} - {("workload", "test"), None}
    return {key: one for key, one in outer.items() if key in inner or place(key) not in places} | dict(inner)


def _qualified(own: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Labels that leave the kind of tokens open take it from the object's name ("prefill": {…}).

    Rows of a list named after a load count it as "N".
    """
    if path and place(path[-1]) == ("workload", "concurrency") and "N" in own and path[-1] not in own:
        own = {path[-1] if key == "N" else key: one for key, one in own.items()}
    name = next((one for one in reversed(path) if not one.isdecimal()), "")
    kind = understand(f"{name} tok/s")
    if kind is None or kind.loose or kind.name not in ("input_tok_s", "output_tok_s"):
        return dict(own)
    spoken = {}
    for key, one in own.items():
        told = understand(key)
        spoken[f"{name} {key}" if told and told.name.startswith("tok_s") else key] = one
    return spoken


def _named(path: tuple[str, ...], axes: Mapping[str, set[str]]) -> dict[str, Any]:
    """What the keys on the way say: a number under "prefill" is a length, a word names a test."""
    told: dict[str, Any] = {}
    words = [one for one in path if not _PLAIN_NAMES.fullmatch(one.lower()) and not one.isdecimal()]
    words = [one for one in words if place(one) != ("workload", "concurrency")]
    steps: list[str] = []
    for above, key in pairwise(path):
        if key.isdecimal():
            name = next((name for pattern, name in _NUMBERED if pattern.search(above.lower())), None)
            told |= {name: int(key)} if name else {}
            steps += [] if name else [key]
    told |= _by_axes(steps, {axis: listed for axis, listed in axes.items() if axis not in told})
    if words:
        told["test name"] = " / ".join(words[-2:])
    return told


def _by_axes(steps: list[str], axes: Mapping[str, set[str]]) -> dict[str, Any]:
    """Each step on one of the listed loads, in their order where steps stand on several; none if unsure."""
    steps = [step for step in steps if any(step in listed for listed in axes.values())]
    if not steps or len(steps) > _MOST_AXES:
        return {}

    def fitting(choices: Iterable[tuple[str, ...]]) -> list[dict[str, int]]:
        pairs = [list(zip(some, steps, strict=True)) for some in choices]
        return [
            {axis: int(step) for axis, step in one}
            for one in pairs
            if all(step in axes[axis] for axis, step in one)
        ]

    fits = fitting(permutations(axes, len(steps)))
    only = fits if len(fits) == 1 else fitting(combinations(axes, len(steps)))
    return only[0] if len(only) == 1 else {}


def _commands(value: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the client's command line, where a list of words stands beside the figures."""
    words = value.get("command") or value.get("cmd") or value.get("argv")
    if isinstance(words, str):
        words = words.split()
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        return {}
    pairs = pairwise(words)
    given = {
        a.lstrip("-").replace("-", "_"): b for a, b in pairs if a.startswith("--") and not b.startswith("--")
    }
    wanted = (
        "model",
        "max_concurrency",
        "num_prompts",
        "dataset_name",
        "request_rate",
        "random_input_len",
        "random_output_len",
    )
    told = re.search(r"(?:^|,)(?:model|pretrained)=([^,]+)", given.get("model_args", ""))
    if told:  # lm-eval: --model names the client's class
        given["model"] = told[1]
    return {key: given[key] for key in wanted if key in given}
