"""The reviewed knowledge in compiled form: every record as plain JSON, cached per user.

Owns where records ship, how they are compiled, and the cache. Reading the cache needs the standard library
only; pydantic and markdown-it are loaded when something changed. A stale or broken cache is rebuilt, an
unwritable one is done without. Must not judge records: one that cannot be read is left out and told as a
problem.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kb.errors import KbctlError

if TYPE_CHECKING:
    from collections.abc import Callable

    Cached = bytes | mmap.mmap
    Row = list[bytes]  # a line of the cache (see ``_written``)
    Choice = Callable[[list[Row], Callable[[Row], bytes]], list[Row]]

Json = dict[str, Any]
_KEPT = 12
FORM = 8  # raised when the compiled form changes
# What only an answer tells of a record; whether it speaks at all is decided without.
_TOLD = ("path", "shipped", "title", "checked", "cause", "aliases", "instead", "evidence")

_HERE = Path(__file__).resolve().parent
_ANY = b" "


class Knowledge(NamedTuple):
    """Compiled records in order of id, private ones after (and instead of) shipped ones of the same id.

    ``problems`` are sentences about records that could not be read; ``stamp`` changes with any source.
    """

    records: tuple[Json, ...]
    stamp: str
    problems: tuple[str, ...] = ()


def shipped_folder() -> Path:
    """The records that ship: beside the package in a checkout, inside it in a wheel."""
    beside = _HERE.parent / "records"
    return beside if (beside / "symptoms.toml").exists() or any(beside.glob("*.md")) else _HERE / "_records"


def cache_folder() -> Path:
    """The per-user cache folder of this program (``KBCTL_CACHE`` moves it); it need not exist."""
    if named := os.environ.get("KBCTL_CACHE"):
        return Path(named)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "kbctl"
    base = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kbctl"


def load(
    private: Iterable[Path] = (),
    arch: str | None = None,
    family: str | None = None,
    engine: str | None = None,
) -> Knowledge:
    """The shipped records, overlaid by private folders in the order given (the later one wins an id).

    With ``arch`` only those that could speak about it, and about ``family`` and ``engine`` where these are
    known, and in brief: ``whole`` adds the rest of a record. Raises KbctlError for a private folder that does
    not exist.
    """
    return _overlaid(private, _all if arch is None else _about(arch, family, engine), brief=arch is not None)


def naming(name: str, private: Iterable[Path] = ()) -> Knowledge:
    """The records in whose text a name stands (an id, an alias, a reference, a signature), each whole."""
    return _overlaid(private, _holding(name), brief=False)


def _overlaid(private: Iterable[Path], choice: Choice, *, brief: bool) -> Knowledge:
    parts = [_folder(shipped_folder(), choice, brief=brief, shipped=True)]
    for folder in private:
        if not folder.is_dir():
            raise KbctlError(
                "no such folder of records", where=str(folder), tip="--records takes a folder of *.md files"
            )
        parts.append(_folder(folder, choice, brief=brief, shipped=False))
    merged: dict[str, Json] = {}
    for part in parts:
        merged = {name: record for name, record in merged.items() if name not in part["ids"]}
        merged |= {record["id"]: record for record in part["records"]}
    stamp = _short("".join(part["stamp"] for part in parts))
    problems = tuple(problem for part in parts for problem in part["problems"])
    return Knowledge(tuple(merged.values()), stamp, problems)


def ids(private: Iterable[Path] = ()) -> list[str]:
    """The ids of all records, which are the names of their files."""
    folders = (shipped_folder(), *private)
    return sorted({path.stem for folder in folders for path in folder.glob("*.md")})


def whole(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """A record with all that it tells; only its conditions may have been read so far."""
    rest = record.get("rest")
    return record if rest is None else {**_told(rest), **record}


@cache
def _told(rest: tuple[Cached, int, int]) -> Json:
    told: Json = json.loads(_bytes(*rest))
    return told


def _folder(folder: Path, choice: Choice, *, brief: bool, shipped: bool) -> Json:
    """One folder's compiled records: from the cache when its stamp still fits, else compiled and cached."""
    stamp = _stamp(folder)
    cached = cache_folder() / f"records-{_short(str(folder.resolve()))}.jsonl"
    with suppress(OSError, ValueError, KeyError, TypeError), cached.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        head, rows = _rows(data)
        if (head["stamp"], head["form"], head["size"]) == (stamp, FORM, len(data) - head["rest"]):
            return head | _read(data, head["rest"], rows, choice, brief=brief)
    part = compile_folder(folder, shipped=shipped)
    written = _written(part.pop("records"), part | {"stamp": stamp, "form": FORM})
    with suppress(OSError):
        _replace(cached, written)
        _prune(cached.parent)
    head, rows = _rows(written)
    return head | _read(written, head["rest"], rows, choice, brief=brief)


def _written(records: Iterable[Json], head: Json) -> bytes:
    """The cache: a head, a line a record, and then the rest of each record, read only where it is told.

    A line holds id, what the record could speak about (architectures, families, engines), where its rest
    stands among the others, and its conditions; tabs between.
    """
    lines, rest, place = [], [], 0
    for record in records:
        conditions = {key: value for key, value in record.items() if key not in _TOLD}
        rest.append(_json({key: record[key] for key in _TOLD}))
        servers = _ANY if record["engines"] is None else b"".join(map(_word, record["engines"]))
        about = (_named(record, "arch", None), _named(record, "model", "family"), servers)
        where = b"%d %d" % (place, place + len(rest[-1]))
        lines.append(b"\t".join((record["id"].encode(), *about, where, _json(conditions))))
        place += len(rest[-1])
    index = b"\n".join(lines)
    return b"\n".join((_json(head | {"index": len(index), "size": place}), index, b"".join(rest)))


def _json(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _rows(data: Cached) -> tuple[Json, list[Row]]:
    """The head, with the place where the rest begins, and the lines of records taken apart."""
    first = data.find(b"\n") + 1
    head: Json = json.loads(data[:first])
    head["rest"] = first + head["index"] + 1
    lines = data[first : first + head["index"]].split(b"\n") if head["index"] else []
    return head, [line.split(b"\t", 5) for line in lines]


def _read(data: Cached, base: int, rows: list[Row], choice: Choice, *, brief: bool) -> Json:
    """``ids`` of all lines, and the ``records`` that were chosen: in brief, or with the rest as well."""

    def rest(row: Row) -> tuple[Cached, int, int]:
        start, end = row[4].split()
        return data, base + int(start), base + int(end)

    told = choice(rows, lambda row: _bytes(*rest(row)))
    records = json.loads(b"[" + b",".join([row[5] for row in told]) + b"]")
    for record, row in zip(records, told, strict=True):
        record.update({"rest": rest(row)} if brief else json.loads(_bytes(*rest(row))))
    return {"ids": [row[0].decode() for row in rows], "records": records}


def _bytes(data: Cached, start: int, end: int) -> bytes:
    return data[start:end]


def _all(rows: list[Row], _: Callable[[Row], bytes]) -> list[Row]:
    return rows


def _about(arch: str, family: str | None, engine: str | None) -> Choice:
    """Those that could speak about an architecture and, where these are known, a model family, an engine."""
    one, two, three = _word(arch), _word(family), _word(engine)
    return lambda rows, _: [
        row
        for row in rows
        if (row[1] == _ANY or one in row[1])
        and (row[2] == _ANY or two in row[2])
        and (row[3] == _ANY or three in row[3])
    ]


def _holding(name: str) -> Choice:
    """Those in whose JSON a name stands, whatever its case."""
    text = json.dumps(name.strip(), ensure_ascii=False)[1:-1].encode().lower()
    return lambda rows, rest: [
        row for row in rows if text in row[0] or text in row[5].lower() or text in rest(row).lower()
    ]


def _word(name: str | None) -> bytes:
    """A name as it stands among others: between blanks, in one spelling."""
    return _ANY if name is None else f" {name.lower().replace('_', '-').replace(' ', '-')} ".encode()


def _named(record: Json, dimension: str, key: str | None) -> bytes:
    """What a record names in a dimension, or is inherited by; ``_ANY`` where an alternative names nothing."""
    found: set[bytes] = set()
    for alternative in record["matches"]:
        named = [row[2].get("any") for row in alternative["when"] if row[:2] == [dimension, key]]
        if not named or not named[0]:
            return _ANY
        further = alternative["mirror"] if dimension == "arch" else _families(named[0])
        found |= {_word(str(one)) for one in (*named[0], *further)}
    return b"".join(sorted(found))


def _families(names: Iterable[str]) -> list[str]:
    """The catalog's families that names belong to: a question gives the family, not the narrower name."""
    from kb.vocab import models  # noqa: PLC0415 - only where something changed

    return [family for name in names if (family := models.family_of(str(name)))]


def _stamp(folder: Path) -> str:
    """Where a folder is, the names, sizes and times of its records, and the times of what compiles them.

    As text and not as a hash: loading ``hashlib`` would cost every answer more than the comparison.
    """
    rows = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".md"):
                status = entry.stat()
                rows.append(f"{entry.name} {status.st_size} {status.st_mtime_ns}")
    code = [str((_HERE / name).stat().st_mtime_ns) for name in _COMPILERS]
    return "\n".join([str(folder.resolve()), *code, *sorted(rows)])


_COMPILERS = ("records.py", "compiled.py", "vocab/models.json", "vocab/kernels.json")


def _short(text: str) -> str:
    """A short name for a text, for file names and stamps: whoever uses it compares the text itself."""
    data = text.encode()
    return f"{zlib.crc32(data):08x}{zlib.adler32(data):08x}"


def compile_folder(folder: Path, *, shipped: bool) -> Json:
    """Read and compile every record of a folder: ``{"records": [...], "problems": [...]}``."""
    from kb.compiled import compiled  # noqa: PLC0415 - pydantic and markdown-it only when something changed
    from kb.records import RecordError, read_folder  # noqa: PLC0415

    records, problems = [], []
    for record in read_folder(folder, whole=False):
        if isinstance(record, RecordError):
            problems.append(f"{record.where}: {record.what}")
        else:
            records.append(compiled(record, shipped=shipped))
    return {"records": records, "problems": problems}


def _prune(folder: Path) -> None:
    """Keep the newest compiled folders only: private ones come and go."""
    files = sorted(folder.glob("records-*.json*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in files[_KEPT:]:
        path.unlink(missing_ok=True)


def _replace(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old or the new one, never a part."""
    import tempfile  # noqa: PLC0415 - only when something changed

    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


def prose_of(record: Mapping[str, Any]) -> str:
    """The text for people below a compiled record's TOML block; empty when the file is gone."""
    with suppress(OSError, UnicodeDecodeError):
        text = Path(record["path"]).read_text(encoding="utf-8")
        _, _, rest = text.partition("```toml")
        return rest.partition("\n```")[2].strip()
    return ""
