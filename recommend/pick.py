"""A judged candidate as a pick: the command to paste, what to expect of it, why, and what a try of it costs.

Owns the making of one ``Pick``. Must not rank. Pure.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kb.vocab import engines
from kb.vocab.dialects import picked_by_memory
from recommend import candidates, why
from recommend.advice import Kept, Pick
from recommend.expect import Known, Outlook, apart
from recommend.explore import Explored, kernels_named
from recommend.physics import weight_bytes_per_gpu
from recommend.question import Query
from recommend.weigh import Judged

BENCHMARK_MIN = 5.0
START_MIN = 3.0
LOAD_GIB_PER_MIN = 60.0
ASSIGNMENT = r"[A-Za-z_][A-Za-z0-9_]*="


class Prospect(NamedTuple):
    """A judged candidate with its outlook and its worth (log units, larger is better)."""

    judged: Judged
    outlook: Outlook
    worth: float
    limits: tuple[Kept, ...] = ()

    @property
    def query(self) -> Query:
        """The configuration."""
        return self.judged.candidate.query


def pick(one: Prospect, explored: Explored, question: Query, known: Known, best: float | None) -> Pick:
    """The pick of a prospect; ``best`` is the log of the best own throughput so far, if there is any."""
    query, judged = said_aloud(one.query, question), one.judged
    name = model_name(question)
    argv = engines.render_command(
        query.engine or "",
        query.engine_version,
        name,
        query.settings,
        query.environment,
        query.hardware.count,
    )
    seen = one.outlook.shown if question.gpu_facts or judged.runs else {}
    shown = {metric: apart(told, one.outlook, known.model) for metric, told in seen.items()}
    return Pick(
        engine=query.engine or "",
        engine_version=query.engine_version,
        roles=kernels_of(query),
        resolved_by={role: found.by for role, found in query.resolved.items()},
        settings=query.settings,
        environment=query.environment,
        argv=argv,
        command=command(argv),
        file=config_file(query),
        status=judged.status,
        p_works=judged.p_works,
        chance=_chance(judged, explored),
        predicted=shown.get("output_tok_s"),
        measured=tuple(shown[metric] for metric in ("ttft_ms", "tpot_ms") if metric in shown),
        why=why.reasons(judged, _against(explored), explored.roles, one.outlook.kernels),
        verify=why.verify(query, known.proofs, explored.roles),
        cost_min=cost_min(query),
        gain=gain(one, best),
        limits=one.limits,
        kind="exploit" if judged.status.startswith("proven") else "explore",
        teaches=teaches(one, explored),
    )


def _chance(judged: Judged, explored: Explored) -> Callable[[], dict[str, Any]] | None:
    model = explored.ground.model

    def naming(role: str, kernel: str) -> Iterator[Mapping[str, Any]]:
        option = next((one for one in explored.options if (one.role, one.kernel) == (role, kernel)), None)
        return (
            (one for one in option.evidence.records if kernel in kernels_named(one, role))
            if option
            else iter(())
        )

    return (lambda: why.chance_of(judged, model, naming)) if model else None


def said_aloud(query: Query, question: Query) -> Query:
    """The configuration without what its engine picks by itself on this GPU, unless the question says it."""
    memory = query.gpu_facts.memory_gib if query.gpu_facts else None
    itself = picked_by_memory(query.engine, memory) if memory else {}
    quiet = {
        key
        for key, value in itself.items()
        if key not in question.settings and str(query.settings.get(key)) == str(value)
    }
    return query._replace(settings={key: one for key, one in query.settings.items() if key not in quiet})


def kernels_of(query: Query) -> dict[str, str]:
    """Role to kernel, where known."""
    return {role: found.kernel for role, found in query.resolved.items()}


def _against(explored: Explored) -> why.Against:
    return {
        role: [(one.kernel, found) for one in explored.options if one.role == role for found in one.findings]
        for role in explored.roles
    }


def gain(one: Prospect, best: float | None) -> float | None:
    """Expected improvement over the best measured so far, as a fraction, times the chance of working."""
    value = one.outlook.log_values.get("output_tok_s")
    if best is None or value is None:
        return None
    return one.judged.p_works * max(math.exp(value - best) - 1, 0.0)


def teaches(one: Prospect, explored: Explored) -> str | None:
    """What a try of something unproven would settle."""
    if one.judged.status.startswith("proven"):
        return None
    composed = explored.composed.query
    other = [
        f"{role} = {kernel}"
        for role, kernel in kernels_of(one.query).items()
        if composed.kernel(role) != kernel
    ]
    subject = ", ".join(other) or f"what {explored.engine} picks by itself"
    return f"whether {subject} works here, and what it is worth against the proven choice."


def command(argv: Sequence[str]) -> str:
    """Words as one shell line; assignments before the program stay unquoted on their left side."""
    program = next((place for place, word in enumerate(argv) if not re.match(ASSIGNMENT, word)), len(argv))
    pairs = (word.partition("=") for word in argv[:program])
    assigned = [f"{name}={shlex.quote(value)}" for name, _, value in pairs]
    return " ".join([*assigned, *map(shlex.quote, argv[program:])])


def config_file(query: Query) -> tuple[str, str] | None:
    """(name, content) of the configuration file that the command names, for engines that need one."""
    content = engines.render_config(query.engine or "", query.engine_version, query.settings)
    return (engines.CONFIG_FILE, content) if content else None


def model_name(question: Query) -> str:
    """The checkpoint to name in a command: as asked where it is a path or id, else a hub id of the entry."""
    name, entry = question.model.name or "MODEL", question.entry
    if "/" in name or entry is None:
        return name
    if entry.hub_ids and question.quantization == entry.base_precision:
        return entry.hub_ids[0]
    return next(
        (hub_id for hub_id, method in entry.quantized.items() if method == question.quantization), name
    )


def cost_min(query: Query) -> float:
    """Minutes for one try: start, weights at the usual rate of local disks, warm-up, one benchmark."""
    if query.entry is None or not query.entry.params_total_b:
        return START_MIN + BENCHMARK_MIN
    layout = candidates.layout_for(query, query.entry)
    total = weight_bytes_per_gpu(query.entry, layout) * layout.gpus / 2**30
    return START_MIN + total / LOAD_GIB_PER_MIN + BENCHMARK_MIN
