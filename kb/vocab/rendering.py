"""Settings to command lines, in the spelling of one release.

Owns the writing of launch commands; what ``kb.vocab.commands`` reads from them must be what was written.
Must not
drop a setting silently: one that the release has no flag for is written under its own name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kb.vocab import options
from kb.vocab.dialects import dialect
from kb.vocab.options import Catalog, Option

_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\Z")


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
    release has no flag for are written as their own name, so that nothing is lost silently.
    """
    table = dialect(engine)
    known = options.reference(engine, version)
    given = dict(settings)
    if (
        gpu_count
        and gpu_count > 1
        and not any(table["short"].get(word) in given for word in ("tp", "pp", "dp"))
    ):
        given = {table["short"].get("tp", "tp"): gpu_count, **given}
    words = [f"{name}={value}" for name, value in (environment or {}).items()]
    words += table.get("launch", [engine])
    if model is not None:
        words += [table["model_flag"], model] if table.get("model_flag") else [model]
    for dest, value in given.items():
        if dest not in table.get("model_keys", ()) or model is None:
            words += _written(engine, known, dest, value)
    return words


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
