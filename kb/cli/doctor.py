"""The command that checks an installation: ``doctor``.

Owns what is checked and how it is told. Must not repair anything.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from kb.cli.options import AsJson, RecordDirs, StorePath, print_json
from kb.errors import EXIT_GOOD, EXIT_NO, EXIT_STORE, KbctlError, StoreError

Check = dict[str, Any]
DEPENDENCIES = (
    "duckdb",
    "markdown-it-py",
    "packaging",
    "platformdirs",
    "pydantic",
    "scikit-learn",
    "typer",
    "zstandard",
)


def register(app: typer.Typer) -> None:
    """Add doctor."""
    app.command("doctor")(doctor)


def doctor(store: StorePath = None, records: RecordDirs = None, as_json: AsJson = False) -> None:
    """Check the installation: versions, formats, records, store, snapshot, GPU tool.

    Example: kbctl doctor --json
    """
    checks = [
        _checked("versions", _versions),
        _checked("formats", _formats),
        _checked("records", lambda: _records(records or [])),
        _checked("store", lambda: _store(store)),
        _checked("gpu", _gpu),
    ]
    if as_json:
        print_json({"schema": "kbctl.doctor/1", "checks": checks})
    else:
        for one in checks:
            typer.echo(f"{'ok  ' if one['ok'] else 'BAD '} {one['check']}: {one['told']}")
            if one.get("next"):
                typer.echo(f"     next: {one['next']}")
    bad = [one["check"] for one in checks if not one["ok"]]
    raise typer.Exit(EXIT_STORE if "store" in bad else EXIT_NO if bad else EXIT_GOOD)


def _checked(name: str, check: Callable[[], str]) -> Check:
    try:
        return {"check": name, "ok": True, "told": check(), "next": None}
    except KbctlError as error:
        where = f" ({error.where})" if error.where else ""
        return {"check": name, "ok": False, "told": f"{error.what}{where}", "next": error.tip}
    except Exception as error:  # a broken installation fails in ways that no one listed
        return {
            "check": name,
            "ok": False,
            "told": f"{type(error).__name__}: {error}",
            "next": "reinstall kbctl",
        }


def _versions() -> str:
    from importlib.metadata import PackageNotFoundError, version

    missing, found = [], []
    for name in DEPENDENCIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        raise KbctlError(f"not installed: {', '.join(missing)}", tip="pip install --upgrade kbctl")
    python = ".".join(str(part) for part in sys.version_info[:3])
    return f"kbctl {version('kbctl')}, Python {python}, {', '.join(found)}"


def _formats() -> str:
    from ingest.formats import all_formats

    return f"{len(all_formats())} formats can be read"


def _records(folders: list[Path]) -> str:
    from kb import knowledge

    known = knowledge.load(folders)
    if not known.records:
        raise KbctlError(
            "no records found: nothing is known to fail", tip="pip install --force-reinstall kbctl"
        )
    if known.problems:
        raise KbctlError(f"{len(known.problems)} problems: {known.problems[0]}", tip="kbctl records lint")
    return f"{len(known.records)} records found"


def _store(path: Path | None) -> str:
    from kb import snapshot
    from kb.store import default_path, open_store
    from kb.store.publish import state_of
    from kb.store.sources import pending_folders

    place = path or default_path()
    if not place.exists():
        return f"none yet at {place} (kbctl ingest FOLDER makes it)"
    with open_store(place, wait_s=5) as store:
        runs, sources = (store.rows(f"SELECT count(*) FROM {name}")[0][0] for name in ("run", "source"))  # noqa: S608
        waiting, state = pending_folders(store), state_of(store)
    told = f"{runs} runs from {sources} sources in {place}"
    if waiting:
        raise StoreError(f"{told}; {len(waiting)} folders wait for assembly", tip="kbctl rebuild")
    known = snapshot.stamp(place)
    if known is None or known["made_from"] != state:
        raise StoreError(f"{told}; the snapshot of it is missing or stale", tip="kbctl rebuild")
    return f"{told}; the snapshot is current"


def _gpu() -> str:
    import shutil

    return (
        "nvidia-smi found: --gpu auto works"
        if shutil.which("nvidia-smi")
        else "no nvidia-smi here: name --gpu"
    )
