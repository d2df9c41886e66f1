"""Code that a release lacks for a GPU, as its own sources say: an answer where nobody has tried.

Owns how a question is compared with ``kb.vocab.requirements``, and the findings from it. Weaker than any
record: where a record speaks of the same role, this keeps silent. A finding of this kind is never more than
*suspect*.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kb import versions
from kb.vocab import engines, models, requirements
from kb.vocab.dialects import SERVERS
from kb.vocab.repositories import url_of
from recommend import remedy
from recommend.findings import Finding, how
from recommend.question import Query, Version

Json = Mapping[str, Any]
_CONDITIONS = frozenset(("quantization", "but", "kv", "engines", "attention", "settings", "unless", "where"))
_OWN_BUILDS = ("source", "git", "main", "nightly")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")  # one state of the sources that nobody can date


class Gap(NamedTuple):
    """Code that is not there: the row that says so, the version asked about, and its dates.

    ``missing`` names what would decide it where that is not certain.
    """

    row: Json
    version: Version | None = None
    dates: requirements.Absence = requirements.Absence()
    missing: tuple[str, ...] = ()

    @property
    def component(self) -> str | None:
        """What lacks the code; None for a kernel in whatever release."""
        name: str | None = self.row.get("component")
        return name


def unmet(query: Query, spoken: Collection[str], others: Sequence[Finding] = ()) -> Iterator[Finding]:
    """A finding for each chosen kernel, and for each release as a whole, without code for the GPU.

    Nothing is said of the roles in ``spoken``, of which records speak, nor of what ``others`` know to work.
    """
    if query.arch is None:
        return
    for role, resolution in query.resolved.items():
        if role in spoken or resolution.by == "auto":
            continue
        if gap := _of_role(role, resolution.kernel, query):
            yield _finding(gap, query, role)
    works = any(found.verdict == "known-good" for found in others)
    named = dict.fromkeys((*query.dependencies, query.engine or ""))
    for number in (number for name in named for number in requirements.of_component(name)):
        if not _concerns(number, query, works=works):
            continue
        if (gap := _gap(number, query)) and not _may_be_older(number, query):
            yield _finding(gap, query)
            return


def _of_role(role: str, kernel: str, query: Query) -> Gap | None:
    """What a kernel lacks in a role; an engine's own rows are said instead of those of no release."""
    numbers = requirements.of_kernel(role, kernel)
    rows = {number: row for number in numbers if _same(row := requirements.rows()[number], query)}
    own = bool(query.engine) and any(row.get("component") == query.engine for row in rows.values())
    some = [number for number, row in rows.items() if not own or "component" in row]
    gaps = [gap for number in some if (gap := _gap(number, query))]
    return min(gaps, key=_vagueness) if gaps else None


def _vagueness(gap: Gap) -> tuple[bool, bool]:
    return bool(gap.missing), gap.dates.since is None and gap.dates.dropped is None


def _same(row: Json, query: Query) -> bool:
    """Whether a row is about the question's engine, model, weights, cache and settings."""
    if not _CONDITIONS & row.keys():
        return True
    return (
        _of_weights(row, query.quantization or "")
        and ("kv" not in row or _cache(query).startswith(tuple(row["kv"])))
        and ("engines" not in row or query.engine is None or query.engine in row["engines"])
        and ("attention" not in row or _attends(query, row["attention"]))
        and row.get("settings", {}).items() <= query.settings.items()
        and ("unless" not in row or not any(query.environment.get(name) for name in row["unless"]))
        and ("where" not in row or all(_is(query, *one) for one in row["where"].items()))
    )


def _of_weights(row: Json, quantization: str) -> bool:
    if "quantization" not in row and "but" not in row:
        return True
    kinds = models.quantization_groups(quantization)
    wanted = row.get("quantization", kinds)
    return not set(kinds).isdisjoint(wanted) and set(kinds).isdisjoint(row.get("but", ()))


def _cache(query: Query) -> str:
    """The cache's type: as set, else that of weights that were left in 16 bits."""
    return query.kv_dtype or (query.quantization if query.quantization in ("bf16", "fp16") else None) or ""


def _attends(query: Query, kinds: Iterable[str]) -> bool:
    return query.entry is not None and not set(kinds).isdisjoint(query.entry.attention)


def _is(query: Query, component: str, specifier: str) -> bool:
    version = query.components.get(component)
    return isinstance(version, str) and versions.satisfies(version, specifier, component) is True


def _concerns(number: int, query: Query, *, works: bool) -> bool:
    """Whether a row about a whole component, or about weights or a cache, is about the question.

    An engine as a whole is spoken of only where nothing is known to work; a kind of weights only where no
    kernel was chosen for them.
    """
    row = requirements.rows()[number]
    if (works and row.get("built") and row["component"] == query.engine) or not _same(row, query):
        return False
    roles = () if row.get("whole") else requirements.roles_of(number)
    return all(query.resolved[role].by == "auto" for role in roles if role in query.resolved)


def _may_be_older(number: int, query: Query) -> bool:
    """Whether no release of the engine was named, and an older one than the newest has the code."""
    if "engine_version" not in query.assumed or requirements.rows()[number]["component"] != query.engine:
        return False
    return requirements.absence(number, query.arch or "", "0") is None


def _gap(number: int, query: Query) -> Gap | None:
    """What a row says that the question lacks, or None where there is code or nobody knows."""
    row = requirements.rows()[number]
    arch = query.arch or ""
    vendor = "amd" if arch.startswith("gfx") else "nvidia"
    if row.get("vendor", vendor) != vendor:
        return Gap(row)
    if "since" not in row or not requirements.about_vendor(row, vendor):
        return None
    component = row.get("component")
    if component in SERVERS and component != query.engine:
        return None
    if query.build in _OWN_BUILDS and row.get("built"):
        return None if _built_for(query) else Gap(row, missing=("the architectures it was built for",))
    version = query.engine_version if component == query.engine else query.components.get(component or "")
    dates = requirements.absence(number, arch, version)
    if dates is None or dates.sure:
        return dates and Gap(row, version, dates)
    vague = component not in query.dependencies or _COMMIT.fullmatch(str(version))
    return None if vague else Gap(row, version, dates, (f"{component} version",))


def _built_for(query: Query) -> bool:
    """Whether the question says that what it built itself was built for its GPU."""
    wanted = query.environment.get("TORCH_CUDA_ARCH_LIST", "").replace(".", "")
    return bool(wanted) and (query.arch or "").removeprefix("sm") in wanted


def _finding(gap: Gap, query: Query, role: str | None = None) -> Finding:
    row = gap.row
    subject = row.get("kernel") or gap.component or row.get("component") or "?"
    what = row.get("what", "code") + ("" if "where" in row else f" for {query.arch}")
    where = "" if subject == gap.component else _in(gap)
    name = f"{subject} {_said(gap.version)}".strip() if subject == gap.component else subject
    resolution = query.resolved.get(role) if role else None
    return Finding(
        record=f"requirement:{subject}",
        kind="requirement",
        title=f"{name} has no {what}{where}",
        verdict="suspect",
        effect=row.get("effect", "refused"),
        stage=row.get("stage", "init"),
        cause=" ".join(filter(None, (row["cause"], _bounds(gap, query)))),
        signature="no-kernels-for-arch",
        applies_to={
            "arch": query.arch,
            "inherited": False,
            "because": [f"roles.{role}" if role else subject],
            "roles": {role: f"{resolution.kernel} ({how(resolution)})"} if role and resolution else {},
        },
        fixed_in={gap.component: gap.dates.since}
        if gap.component and gap.dates.since and not gap.dates.dropped
        else {},
        instead=_instead(gap, query, role),
        evidence=(_evidence(row),),
        trust="inferred",
        missing=gap.missing,
        weight=(1, 1),
    )


def _in(gap: Gap) -> str:
    return f" in {gap.component} {_said(gap.version)}".rstrip() if gap.component else ""


def _said(version: Version | None) -> str:
    return version if isinstance(version, str) else "–".join(one or "…" for one in version) if version else ""


def _bounds(gap: Gap, query: Query) -> str:
    if gap.component is None:
        return ""
    if gap.dates.dropped and "where" in gap.row:
        return ""
    if gap.dates.dropped:
        return f"{gap.component} dropped {query.arch} in {gap.dates.dropped}."
    if gap.dates.since:
        return f"{gap.component} has it for {query.arch} from {gap.dates.since} on."
    return f"No release of {gap.component} that was read has it for {query.arch}."


def _instead(gap: Gap, query: Query, role: str | None) -> Json:
    """Another kernel that has code here, the first release that has it, else what the row says."""
    options: list[dict[str, Any]] = []
    if role:
        plain = role.rpartition(":")[2]
        free = (
            kernel
            for kernel in gap.row.get("instead", ())
            if engines.is_known(plain, kernel) and not _of_role(role, kernel, query)
        )
        options = [remedy.rendered({"roles": {role: kernel}}, query) for kernel in free][:1]
    if gap.component and gap.dates.since and not gap.dates.dropped:
        options.append(remedy.upgrade({gap.component: gap.dates.since}))
    if gap.dates.dropped:
        options.append({"text": f"stay below {gap.component} {gap.dates.dropped}"})
    if text := gap.row.get("text"):
        options.append({"text": text})
    return remedy.instead(option for option in options if option)


def _evidence(row: Json) -> dict[str, str | None]:
    return {
        "ref": row["ref"],
        "kind": "source",
        "side": "against",
        "date": None,
        "url": url_of(row["ref"]),
    }
