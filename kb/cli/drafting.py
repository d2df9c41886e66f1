"""A first draft of a record, written from a failed run in the store or from a log.

Owns the page's shape: what the run proves is filled in, what only a person can know is marked TODO. Redaction
happened when the run was stored; a log is read through the same intake.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb.errors import KbctlError

if TYPE_CHECKING:
    import datetime

Json = Mapping[str, Any]


def draft(source: str, store: Path | None, today: datetime.date) -> str:
    """The Markdown text of a record for a run's id or a log file.

    Raises KbctlError where there is no such run or file, or where nothing failed in it.
    """
    run = _of_file(Path(source)) if Path(source).exists() else _of_store(source, store)
    if run.get("effect") in (None, "ok"):
        raise KbctlError("nothing failed in it", where=source, tip="kbctl runs lists how each run ended")
    return page(run, today)


def _of_store(prefix: str, store: Path | None) -> Json:
    from kb import snapshot
    from kb.evidence import default_store

    found = snapshot.run_detail(store or default_store(), prefix)
    if found is None:
        raise KbctlError("no such run or file", where=prefix, tip="kbctl runs lists the recorded runs")
    return found


def _of_file(path: Path) -> Json:
    from ingest.pipeline import read_paths
    from kb.wire import experiment_to_wire

    experiments = [one for reading in read_paths([path]) for one in reading.experiments]
    failed = [one for one in experiments if one.outcome.effect not in ("ok", "unknown")] or experiments
    if not failed:
        raise KbctlError(
            "no server run was recognised in it", where=str(path), tip="kbctl parse FILE shows what it tells"
        )
    return experiment_to_wire(failed[-1])


def page(run: Json, today: datetime.date) -> str:
    """The record's text for one run in its wire form."""
    blocks = [
        _head(run, today),
        _match(run),
        _outcome(run),
        _range(run),
        _instead(),
        _evidence(run, today),
        _examples(run),
    ]
    failure = run.get("failure") or {}
    prose = "TODO: what happens, how it was found, what cures it."
    text = str(failure.get("text") or "").replace("```", "'''")
    sample = f"\n\n```log\n{text}\n```" if text else ""
    return "```toml\n" + "\n\n".join(block for block in blocks if block) + f"\n```\n\n{prose}{sample}\n"


def quoted(value: Any) -> str:
    """A value as TOML: a basic string, a number, a truth value, or a list of these."""
    if isinstance(value, list | tuple):
        return "[" + ", ".join(quoted(one) for one in value) + "]"
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _table(name: str, rows: Sequence[tuple[str, Any]]) -> str:
    lines = [
        f"{key} = {_inline(value) if isinstance(value, Mapping) else quoted(value)}"
        for key, value in rows
        if value
    ]
    return "\n".join([f"[[{name}]]", *lines])


def _inline(values: Json) -> str:
    return "{ " + ", ".join(f"{_key(key)} = {quoted(value)}" for key, value in values.items()) + " }"


def _key(key: str) -> str:
    return key if re.fullmatch(r"[\w-]+", key) else quoted(key)


def _head(run: Json, today: datetime.date) -> str:
    failure = run.get("failure") or {}
    where = " on ".join(filter(None, [", ".join(_roles(run).values()) or run.get("engine"), run.get("arch")]))
    cause = failure.get("cause") or "TODO: why, in one or two sentences that stand alone"
    title = f"TODO: {where}: {failure.get('class') or run.get('effect')}"
    return f"title = {quoted(title[:110])}\nchecked = {quoted(today.isoformat())}\ncause = {quoted(cause)}"


def _roles(run: Json) -> dict[str, str]:
    return dict(run.get("requested") or run.get("resolved") or {})


def _match(run: Json) -> str:
    roles = {role: [kernel] for role, kernel in _roles(run).items()}
    rows = [
        ("arch", [run["arch"]] if run.get("arch") else None),
        ("engine", [run["engine"]] if run.get("engine") and not roles else None),
        ("roles", roles or None),
        ("weight_quantization", [run["quantization"]] if run.get("quantization") else None),
    ]
    return "# TODO: drop what does not matter\n" + _table("match", rows)


def _outcome(run: Json) -> str:
    signature = (run.get("failure") or {}).get("class")
    rows = [("effect", run.get("effect")), ("stage", run.get("stage")), ("signature", signature)]
    return _table("outcome", rows)


def _range(run: Json) -> str:
    if not run.get("engine_version"):
        return ""
    rows = [("component", run["engine"]), ("introduced", "0"), ("last_seen", run["engine_version"])]
    return "# TODO: the component that matters is often a library\n" + _table("range", rows)


def _instead() -> str:
    return '[[instead]]\ntext = "TODO: what works instead; better as roles or settings"'


def _evidence(run: Json, today: datetime.date) -> str:
    conditions = ", ".join(
        str(one)
        for one in (
            f"{run['gpu_count']}x {run.get('gpu') or run.get('arch')}"
            if run.get("gpu_count")
            else run.get("gpu"),
            run.get("model_id") or run.get("family"),
            f"{run['engine']} {run.get('engine_version') or ''}".strip() if run.get("engine") else None,
        )
        if one
    )
    date = str(run.get("started") or today.isoformat())[:10]
    rows = [("ref", run.get("run") or "own-run"), ("kind", "measured"), ("side", "against"), ("date", date)]
    return _table("evidence", [*rows, ("conditions", conditions)])


def _examples(run: Json) -> str:
    words = ["--gpu", run.get("arch") or "TODO"]
    for flag, value in (("--model", run.get("model_id")), ("--quantization", run.get("quantization"))):
        words += [flag, str(value)] if value else []
    if run.get("engine"):
        version = f"=={run['engine_version']}" if run.get("engine_version") else ""
        words += ["--engine", f"{run['engine']}{version}"]
    words += [word for role, kernel in _roles(run).items() for word in ("--role", f"{role}={kernel}")]
    other = " ".join(["--gpu", "TODO", *words[2:]])
    matching = _table("example", [("expect", "match"), ("check", " ".join(words))])
    return matching + "\n\n" + _table("example", [("expect", "no-match"), ("check", other)])
