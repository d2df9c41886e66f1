"""Lists of installed packages: ``pip freeze``, ``pip list``, ``uv pip list``, ``conda list``.

Owns these listings. A requirements file with ranges says what was wanted, not what runs: it is read, and only
exact pins count.
"""

from __future__ import annotations

import json
import re
from urllib.parse import unquote

from ingest.formats import Format, Unreadable
from ingest.machine import supplies
from ingest.packages import component, engine_package, split_packages
from ingest.sources import Source
from ingest.traces import line_count
from kb.model import Backend, Hardware, Reading

_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*(?:\[[\w,-]+\])?)\s*===?\s*([\w.!+-]+)\s*(?:;.*|\\?|--hash.*)?$")
_AT = re.compile(r"^([A-Za-z0-9][\w.-]*) @ (\S+)$")
_COLUMNS = re.compile(r"^([A-Za-z0-9][\w.-]*)\s{1,80}(\d[\w.!+-]*)(?:\s+\S.*)?$")
_EDITABLE = re.compile(r"^-e\s+\S+#egg=([\w.-]+)")
_OPTION = re.compile(r"^(?:-|#|$)|^(?:Package\s+Version|-{3,})|^\w+ list")
_NOISE = re.compile(r"#(?! packages in environment)|WARNING:|\[notice\]|DEPRECATION:")
_NAMED = re.compile(r"requirements?|constraints?|freeze")
_LOCKED = re.compile(
    r'^\[\[package\]\]\s*\nname = "([^"]+)"\s*\nversion = "([^"]+)"', re.MULTILINE
)  # of uv, of Poetry
_WANTED = re.compile(r"^[A-Za-z0-9][\w.-]*(?:\[[\w,-]+\])?\s*(?:[<>=!~]=?.*)?(?:[#;].*)?$")
_WHEEL_VERSION = re.compile(r"-(\d[\w.+!]*)(?:-\d\w*)?-(?:cp|py)\d")


def sniff(source: Source) -> float:
    """Mostly lines of ``name==version`` or the two columns of ``pip list``."""
    if len(_LOCKED.findall(source.head)) > 1:
        return 0.95
    lines = [line.strip() for line in source.head.split("\n")[:400]]
    lines = [line for line in lines if line and not _NOISE.match(line)]
    if len(lines) < 3:
        return 0.93 if lines and _is_requirements(source.name, lines) else 0.0
    if _NAMED.search(source.name.lower()) and _mostly_wanted(lines):
        return 0.8
    pins = sum(1 for line in lines if _PIN.match(line) or _AT.match(line) or _EDITABLE.match(line))
    if pins >= 0.7 * len(lines):
        return 0.93 if len(lines) >= 5 else 0.8
    headed = bool(re.match(r"^(?:Package\s+Version|# packages in environment)", lines[0]))
    rows = sum(1 for line in lines if _COLUMNS.match(line))
    if headed and rows >= 0.5 * len(lines):
        return 0.93
    return _sniff_unheaded(lines, rows)


def _sniff_unheaded(lines: list[str], rows: int) -> float:
    if rows >= 0.6 * len(lines) and sum(_matters(line.split()[0]) for line in lines) > 1:
        return 0.82
    return 0.6 if lines[0].startswith('[{"name"') and '"version"' in lines[0] else 0.0


def _mostly_wanted(lines: list[str]) -> bool:
    """Whether lines are names of packages, one of them pinned that matters to a server."""
    wanted = [line for line in lines if _WANTED.match(line) or line.startswith("-")]
    pinned = [pin[1] for line in lines if (pin := _PIN.match(line))]
    return len(wanted) >= 0.9 * len(lines) and any(_matters(re.sub(r"\[.*\]", "", one)) for one in pinned)


def _is_requirements(name: str, lines: list[str]) -> bool:
    """Whether a few lines are pins of packages in a file that is called so."""
    return bool(_NAMED.search(name.lower())) and all(_PIN.match(line) for line in lines)


def read(source: Source) -> Reading:
    """Versions of the components that matter to a server, and of the engine."""
    packages, lines, odd = _locked(source) or _json_list(source) or _listed(source)
    if not packages:
        raise Unreadable("no package with a version was found")
    found, engine, version = split_packages(packages)
    backend = Backend(engine=engine, engine_version=version, dependencies=found)
    return Reading(
        path=str(source.path),
        format="pip_freeze",
        kind="config",
        tool="pip",
        experiments=supplies(Hardware(), backend),
        lines=line_count(lines, odd),
        extra={"packages": len(packages), "kept": sorted(name for name in packages if _matters(name))},
    )


def _locked(source: Source) -> tuple[dict[str, str], int, int] | None:
    """The packages of a lock file."""
    found = dict(_LOCKED.findall(source.text)) if _LOCKED.search(source.head) else {}
    return (found, source.text.count("\n") + 1, 0) if found else None


def _listed(source: Source) -> tuple[dict[str, str], int, int]:
    packages, lines, odd = dict[str, str](), 0, 0
    for _, raw in source.lines():
        line = raw.strip()
        if not line:
            continue
        lines += 1
        pair = _pair(line)
        if pair:
            packages[pair[0]] = pair[1]
        elif not _OPTION.match(line):
            odd += 1
    return packages, lines, odd


def _pair(line: str) -> tuple[str, str] | None:
    pin = _PIN.match(line)
    if pin:
        return re.sub(r"\[.*\]", "", pin[1]), pin[2]
    at = _AT.match(line)
    if at:
        place = unquote(at[2])
        version = _WHEEL_VERSION.search(place) or re.search(r"@v?([\w.+-]+?)(?:#|$)", place)
        return (at[1], version[1]) if version else None
    columns = _COLUMNS.match(line)
    return (columns[1], columns[2]) if columns else None


def _json_list(source: Source) -> tuple[dict[str, str], int, int] | None:
    if not source.head.lstrip().startswith("["):
        return None
    try:
        rows = json.loads(source.text)
    except (ValueError, RecursionError):
        return None
    rows = [row for row in rows if isinstance(row, dict) and isinstance(row.get("name"), str)]
    return {row["name"]: str(row.get("version")) for row in rows}, len(rows), 0


def _matters(name: str) -> bool:
    return component(name) is not None or engine_package(name) is not None


FORMAT = Format(
    name="pip_freeze",
    kind="config",
    sniff=sniff,
    read=read,
    docs="Installed packages as `pip freeze`, `pip list` (columns or JSON), `uv pip list` or `conda list` "
    "print them, a requirements file's pins, and the lock files of uv and Poetry: the engine's version and "
    "those of the libraries that kernels come from.",
)
