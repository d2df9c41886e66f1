"""Golden pairs of the formats: where they lie, and what a reading lacks beside what must come out.

A pair is ``tests/formats/<format>/<case>.<ext>`` and ``<case>.expected.json``, the part of the reading that
matters (a subset of what ``kbctl parse --json`` prints); where a format knows its file by name, the file lies
in a folder ``<case>``. ``near-miss*.<ext>`` beside them looks like the
format and is none of it. Must not know any format.
"""

from __future__ import annotations

import math
from collections.abc import Container
from pathlib import Path
from typing import Any

from ingest.formats import Format, all_formats

SAMPLES = Path(__file__).parent / "formats"
ENDING = ".expected.json"


def formats_of(modules: Container[str]) -> list[Format]:
    """The formats that these modules of ingest/formats own."""
    return [one for one in all_formats() if one.sniff.__module__.rsplit(".", 1)[-1] in modules]


def cases(names: Container[str] | None = None) -> list[Path]:
    """The expectations of these formats, or of all."""
    found = sorted(SAMPLES.glob(f"*/*{ENDING}"))
    return [path for path in found if names is None or path.parent.name in names]


def sample_of(case: Path) -> Path:
    """The input that an expectation is about."""
    stem = case.name.removesuffix(ENDING)
    mine = (path for path in case.parent.iterdir() if not path.name.endswith(ENDING))
    found = next(path for path in mine if stem in (path.stem, path.name))
    return next(found.iterdir()) if found.is_dir() else found


def near_misses() -> list[Path]:
    """What looks like the format in whose folder it lies."""
    return sorted(SAMPLES.glob("*/near-miss*"))


def name_of(path: Path) -> str:
    """A case in the words of a test's name."""
    return f"{path.parent.name}/{path.name.split('.')[0][:40]}"


def differences(want: Any, got: Any, where: str = "") -> list[str]:
    """What of ``want`` is not in ``got``; empty when all of it is."""
    if isinstance(want, dict):
        if not isinstance(got, dict):
            return [f"{where}: expected an object, got {got!r}"[:300]]
        return [d for key, value in want.items() for d in differences(value, got.get(key), f"{where}.{key}")]
    if isinstance(want, list):
        return _list_differences(want, got, where)
    if isinstance(want, float) and isinstance(got, int | float):
        same = math.isclose(want, got, rel_tol=1e-6, abs_tol=1e-9)
        return [] if same else [f"{where}: {want} is {got}"]
    return [] if want == got else [f"{where}: expected {want!r}, got {got!r}"[:600]]


def _list_differences(want: list[Any], got: Any, where: str) -> list[str]:
    """A list must agree item by item; ``"..."`` in it stands for any number of items."""
    if not isinstance(got, list):
        return [f"{where}: expected a list, got {got!r}"[:300]]
    gap = want.index("...") if "..." in want else len(want)
    after = want[gap + 1 :]
    if (gap == len(want) and len(want) != len(got)) or gap + len(after) > len(got):
        return [f"{where}: expected {len(want)} items, got {len(got)}"]
    pairs = [*zip(want[:gap], got, strict=False), *zip(after, got[len(got) - len(after) :], strict=True)]
    return [d for i, (one, other) in enumerate(pairs) for d in differences(one, other, f"{where}[{i}]")]
