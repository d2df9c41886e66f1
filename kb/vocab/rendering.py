"""Settings to command lines, in the spelling of one release.

Owns the writing of launch commands; what ``kb.vocab.commands`` reads from them must be what was written. Must
not drop a setting silently: one that the release has no flag for is written under its own name, and keys that
an engine takes only from a file go into that file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kb.vocab import options
from kb.vocab.dialects import canonical_dest, dialect
from kb.vocab.options import Catalog, Option

CONFIG_FILE = "llm-api.yaml"
_NUMBER = re.compile(r"-?(?:\d++(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?\Z")


def render_command(  # noqa: PLR0913, PLR0917 - one command has as many parts
    engine: str,
    version: str | None,
    model: str | None,
    settings: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
    gpu_count: int | None = None,
) -> list[str]:
    """The command as words, in the spelling of a release: assignments first, then the program and its flags.

    ``gpu_count`` becomes the tensor-parallel width where the settings give no width at all. Settings that the
    release has no flag for are written as their own name, so that nothing is lost silently; keys of a
    configuration file are left to ``render_config``, whose file the command names.
    """
    table = dialect(engine)
    known = options.reference(engine, version)
    given = _with_width(
        table, {canonical_dest(engine, key): value for key, value in settings.items()}, gpu_count
    )
    words = [f"{name}={value}" for name, value in (environment or {}).items()]
    words += table.get("launch", [engine])
    if model is not None:
        words += [table["model_flag"], model] if table.get("model_flag") else [model]
    in_file = set(_file_keys(engine, known, given))
    for dest, value in given.items():
        if dest not in in_file and (dest not in table.get("model_keys", ()) or model is None):
            words += _written(engine, known, dest, value)
    return words + (["--extra_llm_api_options", CONFIG_FILE] if in_file else [])


def render_config(engine: str, version: str | None, settings: Mapping[str, Any]) -> str | None:
    """The text of ``CONFIG_FILE`` (YAML) that a rendered command names, or ``None`` where it names none."""
    given = {canonical_dest(engine, key): value for key, value in settings.items()}
    keys = _file_keys(engine, options.reference(engine, version), given)
    tree: dict[str, Any] = {}
    for key in keys:
        *heads, last = key.split(".")
        inner = tree
        for head in heads:
            inner = inner.setdefault(head, {})
        inner[last] = given[key]
    return "".join(_yaml(tree)) if keys else None


def _yaml(tree: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield f"{'  ' * depth}{key}:\n"
            yield from _yaml(value, depth + 1)
        else:
            yield f"{'  ' * depth}{key}: {json.dumps(value)}\n"


def _file_keys(engine: str, known: Catalog | None, settings: Mapping[str, Any]) -> list[str]:
    """Settings that the engine takes only from its configuration file."""
    if engine != "tensorrt-llm" or known is None:
        return []
    options_of = {key: known.by_dest.get(key) for key in settings}
    return [key for key, one in options_of.items() if (one.yaml if one else "." in key)]


def _with_width(table: Mapping[str, Any], settings: dict[str, Any], gpu_count: int | None) -> dict[str, Any]:
    """Settings with the tensor-parallel width first, where the engine has one and nothing sets a width."""
    widths = [table["short"][word] for word in ("tp", "pp", "dp") if word in table["short"]]
    if not gpu_count or gpu_count < 2 or not widths or any(width in settings for width in widths):
        return settings
    return {widths[0]: gpu_count, **settings}


def _written(engine: str, known: Catalog | None, dest: str, value: Any) -> list[str]:
    """One setting as words; a switch that is off is left out unless the release can say so."""
    option = _option_for(engine, known, dest)
    flag = option.flag if option else "--" + dest.replace("_", "-")
    if option is None and engine == "tensorrt-llm":
        flag = "--" + dest
    if value is None:
        return []
    if isinstance(value, bool) and (option is None or option.is_switch or option.type == "bool"):
        return _written_switch(engine, option, flag, value)
    if isinstance(value, Mapping):
        return [flag, json.dumps(value, separators=(",", ":"))]
    if isinstance(value, list | tuple):
        return _written_list(option, flag, value)
    return (
        [flag, str(value)]
        if not str(value).startswith("-") or _NUMBER.match(str(value))
        else [f"{flag}={value}"]
    )


def _written_switch(engine: str, option: Option | None, flag: str, value: bool) -> list[str]:
    off = option is not None and option.action == "store_false"
    if value != off:
        return [flag]
    if option and option.negations:
        return [option.negations[0]]
    says_no = engine == "vllm" or (option is not None and "BooleanOptional" in (option.action or ""))
    return ["--no-" + flag.lstrip("-")] if says_no else []


def _written_list(option: Option | None, flag: str, value: Sequence[Any]) -> list[str]:
    if (
        option
        and (option.nargs in ("+", "*") or option.is_list)
        and not any(isinstance(one, Mapping) for one in value)
    ):
        return [flag, *map(str, value)]
    return [flag, json.dumps(value, separators=(",", ":"))]


def _option_for(engine: str, known: Catalog | None, dest: str) -> Option | None:
    """The release's flag for a canonical dest, under its older name where it still has that."""
    if known is None:
        return None
    renamed = dialect(engine)["renamed"]
    for name in (dest, *(old for old, new in renamed.items() if new == dest)):
        option = known.by_dest.get(name)
        if option and not option.yaml:
            return option
    return None
