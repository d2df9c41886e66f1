"""The schema of one record and the reader of ``records/*.md``.

Owns what a record may say and where in its file each word stands. Loaded by ``records`` commands and when
knowledge is compiled, never on the start-up path of ``check`` or ``recommend`` (those read the compiled form,
see ``kb.knowledge``). Must not judge a record's content: that is ``kb.lint``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from markdown_it import MarkdownIt
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from kb.errors import KbctlError
from kb.model import Effect, Stage

Scalar = bool | int | float | str
EvidenceKind = Literal["report", "maintainer", "source", "measured"]
Side = Literal["for", "against"]

# Blocks alone: what stands inside a paragraph does not matter here.
_MARKDOWN = MarkdownIt("commonmark").disable("inline")
_SCALAR = re.compile(r"^(title|checked|cause|aliases|tags)\s*=", re.MULTILINE)
_END = re.compile(r"^```[ \t]*$", re.MULTILINE)
_OTHER_TABLE = re.compile(r"^\[(?!\[example\]\])", re.MULTILINE)
_SPEC = re.compile(r"^\s*(<=|>=|==|!=|<|>|~=)")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True, frozen=True)


class Condition(_Strict):
    """One dimension's condition: any of, none of, a range (both ends included), a version set, or is-set."""

    any: tuple[Scalar, ...] | None = None
    none: tuple[Scalar, ...] | None = Field(default=None, alias="not")
    min: int | float | str | None = None
    max: int | float | str | None = None
    spec: str | None = None
    set: bool | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Condition:
        if not self.model_fields_set or self.any == () or self.none == ():
            raise ValueError("an empty condition matches nothing; leave the dimension out instead")
        return self


def _condition(value: Any) -> Any:
    if isinstance(value, Mapping | Condition):
        return value
    if isinstance(value, str) and _SPEC.match(value):
        return {"spec": value}
    return {"any": value if isinstance(value, list | tuple) else [value]}


When = Annotated[Condition, BeforeValidator(_condition)]
WhenEach = dict[str, When]


class ModelMatch(_Strict):
    """What must hold of the model. ``features``: mtp, vision, sinks, dsa, sliding_window, shared_experts …"""

    id: When | None = None
    family: When | None = None
    architecture: When | None = None
    attention: When | None = None
    features: When | None = None
    head_dim: When | None = None


class Divides(_Strict):
    """Holds where ``dim / by`` is *not* a whole multiple of ``align`` (with ``holds = true``: where it is).

    ``dim`` is a size of the model (moe_intermediate, hidden, heads, kv_heads, experts …), ``by`` a count or a
    common setting's name (tp, ep …).
    """

    dim: str
    by: int | str = 1
    align: int = 1
    holds: bool = False


class Match(_Strict):
    """A conjunction. Every dimension is optional; what is left out does not matter."""

    arch: When | None = None
    mirror: tuple[str, ...] = ()
    gpu: When | None = None
    count: When | None = None
    engine: When | None = None
    settings: WhenEach = Field(default_factory=dict)
    env: WhenEach = Field(default_factory=dict)
    weight_quantization: When | None = None
    kv_dtype: When | None = None
    model: ModelMatch | None = None
    roles: WhenEach = Field(default_factory=dict)
    divides: Divides | None = None
    topology: When | None = None
    build: When | None = None
    driver: When | None = None
    cuda: When | None = None
    workload: WhenEach = Field(default_factory=dict)
    dependencies: WhenEach = Field(default_factory=dict)


class OutcomeOf(_Strict):
    """One way in which the matter shows. ``signature`` is a class of the symptom table."""

    effect: Effect
    stage: Stage | None = None
    signature: str | None = None
    text: str | None = None


class Range(_Strict):
    """Affected versions of one component as OSV events; several of one component are a union.

    ``introduced`` "0" means from the beginning. After ``last_affected`` it is gone; after ``last_seen``
    nobody looked, so the answer is unknown. ``fixed_between`` (a, b): still at a, gone at b. ``inferred``:
    the releases were taken from dates, not read in a tag, a wheel or a release note.
    """

    component: str
    introduced: str | None = None
    introduced_between: tuple[str, str] | None = None
    fixed: str | None = None
    fixed_between: tuple[str, str] | None = None
    last_affected: str | None = None
    limit: str | None = None
    reintroduced: str | None = None
    last_seen: str | None = None
    inferred: bool = False


class Instead(_Strict):
    """A remedy: roles (rendered per engine), settings, environment, versions; ``text`` where none fits."""

    roles: dict[str, str] = Field(default_factory=dict)
    settings: dict[str, Scalar] = Field(default_factory=dict)
    env: dict[str, str] = Field(default_factory=dict)
    requires: dict[str, str] = Field(default_factory=dict)
    engine: str | None = None
    text: str | None = None
    cites: tuple[str, ...] = ()


class EvidenceOf(_Strict):
    """One source. ``side``: does it speak for or against the backend that ``[[match]]`` describes?

    ``versions`` (component -> version) tells under which versions it was seen; ``settled`` says why a source
    on the other side is no conflict (other conditions, superseded).
    """

    ref: str
    kind: EvidenceKind = "report"
    side: Side = "against"
    date: str | None = None
    conditions: str | None = None
    versions: dict[str, str] = Field(default_factory=dict)
    url: str | None = None
    settled: str | None = None


class Example(_Strict):
    """A question and what this record must answer to it, in the words of ``kbctl check``."""

    expect: Literal["match", "no-match", "suspect"]
    check: str


class Content(_Strict):
    """The TOML block of a record."""

    title: str
    checked: str
    cause: str
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    match: tuple[Match, ...] = Field(min_length=1)
    outcome: tuple[OutcomeOf, ...] = Field(min_length=1)
    range: tuple[Range, ...] = ()
    instead: tuple[Instead, ...] = ()
    evidence: tuple[EvidenceOf, ...] = ()
    example: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """A fenced ``log`` block of a record: 1-based line of its first line, and its text."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Record:
    """One file, read: its id (the file's stem), content, prose, log samples, and where its words stand."""

    id: str
    path: Path
    content: Content
    prose: str
    samples: tuple[Sample, ...]
    toml: str
    toml_line: int

    @property
    def good(self) -> bool:
        """Whether the record says that something works."""
        return all(outcome.effect == "ok" for outcome in self.content.outcome)

    def line_of(self, *place: str | int) -> int:
        """The 1-based line in the file of a place such as ``("match", 0, "arch")``."""
        return self.toml_line + locate(self.toml, place)


class RecordError(KbctlError):
    """A record that cannot be read: what is wrong, at file:line, and how to put it right."""


def read_record(path: Path, *, whole: bool = True) -> Record:
    """Read one record. Raises RecordError naming file and line.

    Not ``whole``: without its prose, samples and examples, which only tests and people need.
    """
    text = _text(path) if whole else _knowledge(_text(path))
    fences = list(_fences(text))
    block = next((fence for fence in fences if fence[0] == "toml"), None)
    if block is None:
        raise RecordError(
            "no TOML block",
            where=f"{path}:1",
            tip="begin the file with ```toml … ``` (see docs/records-format.md)",
        )
    _, line, toml = block
    samples = tuple(Sample(start, body) for info, start, body in fences if info == "log")
    prose = "\n".join(text.splitlines()[line + toml.count("\n") :]).strip()
    return Record(path.stem, path, _content(path, line, toml), prose, samples, toml, line)


def _knowledge(text: str) -> str:
    """A record's text up to its examples, or to the end of its first block where other tables follow them."""
    block = _END.search(text, text.find("```toml") + 1)
    kept = text[: block.end()] if block else text
    head, found, examples = kept.partition("\n[[example]]")
    return f"{head}\n```\n" if found and not _OTHER_TABLE.search(examples) else kept


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"cannot read the record: {error}", where=str(path)) from error


def _fences(text: str) -> Iterator[tuple[str, int, str]]:
    """(first word of the info string, 1-based line of the first content line, content)."""
    for token in _MARKDOWN.parse(text):
        if token.type == "fence" and token.map:
            info = token.info.split()
            yield (info[0] if info else ""), token.map[0] + 2, token.content


def _content(path: Path, line: int, toml: str) -> Content:
    try:
        values = tomllib.loads(toml)
    except ValueError as error:  # no TOML, or a number beyond all bounds
        found = re.search(r"\(at line (\d+)", str(error))
        at = line + int(found[1]) - 1 if found else line
        raise RecordError(f"not TOML: {error}", where=f"{path}:{at}", tip=_toml_tip(toml)) from error
    try:
        return Content.model_validate(_plain(values))
    except ValidationError as error:
        raise _schema_error(path, line, toml, error) from error


def _plain(value: Any) -> Any:
    """Dates as text: TOML has a date type, records use ISO text either way."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value.isoformat() if hasattr(value, "isoformat") else value


def _toml_tip(toml: str) -> str:
    table = re.search(r"^\[\[", toml, re.MULTILINE)
    late = table and _SCALAR.search(toml, table.start())
    return (
        "scalars (title, checked, cause …) stand before the first [[table]]"
        if late
        else "compare with docs/records-format.md"
    )


def _schema_error(path: Path, line: int, toml: str, error: ValidationError) -> RecordError:
    first = error.errors()[0]
    place = tuple(part for part in first["loc"] if part not in ("any", "not", "none"))
    name = ".".join(str(part) for part in place)
    tip = "no such key here; see docs/records-format.md" if first["type"] == "extra_forbidden" else None
    tip = _toml_tip(toml) if first["type"] == "missing" and len(place) == 1 else tip
    return RecordError(f"{name}: {first['msg']}", where=f"{path}:{line + locate(toml, place)}", tip=tip)


def locate(toml: str, place: tuple[str | int, ...]) -> int:
    """0-based line of a place within TOML text, as near as a scan by line can tell."""
    lines = toml.splitlines()
    at, names = 0, [part for part in place if isinstance(part, str)]
    if len(place) > 1 and isinstance(place[1], int):
        header = f"[[{place[0]}]]"
        heads = [number for number, text in enumerate(lines) if text.strip().startswith(header)]
        at = heads[min(place[1], len(heads) - 1)] if heads else 0
        names = names[1:]
    for name in names:
        at = next(
            (
                n
                for n in range(at, len(lines))
                if re.search(rf'(^|[\s{{,."]){re.escape(name)}"?\s*=', lines[n])
            ),
            at,
        )
    return at


def read_folder(folder: Path, *, whole: bool = True) -> Iterator[Record | RecordError]:
    """Every ``*.md`` of a folder in name order; files that cannot be read come as their error."""
    for path in sorted(folder.glob("*.md")):
        if path.name.upper() == "README.MD":
            continue
        try:
            yield read_record(path, whole=whole)
        except RecordError as error:
            yield error
