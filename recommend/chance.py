"""The chance that a configuration works: a hazard for each step of a try, scored from stored coefficients.

Owns the steps, what of a case they look at (only what is known before the try), and how the terms of a chance
add up. The coefficients come from ``fit``. Must not import numpy or scikit-learn: this runs in every
``recommend``. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from kb.model import Tried
from kb.vocab import gpus, options
from recommend import alike, own
from recommend.findings import Finding
from recommend.question import Query

Json = Mapping[str, Any]
Features = dict[str, float]
# A step is named by the last stage in it; each is passed or not, given that it was reached.
STEPS = ("init", "load", "ready", "serve", "quality")
_STEP_OF = {
    "install": "init",
    "args": "init",
    "init": "init",
    "load": "load",
    "kv_cache": "load",
    "jit": "ready",
    "warmup": "ready",
    "capture": "ready",
    "ready": "ready",
    "serve": "serve",
    "load_test": "serve",
    "quality": "quality",
}
# What of evidence counts at all: from there on more of the same says no more.
MOST = 6.0
# How many reports an own configuration counts as.
OWN = 2.0
LEAST, EVEN = 0.03, 0.5
LEAST_TERM = 1e-9
_NEW = ("sm100", "sm103", "sm110")
_WORKSTATION = ("sm120", "sm121")
_PLAIN_KV = (None, "auto", "bf16", "bfloat16", "fp16", "float16")


def step_of(stage: str | None, effect: str) -> str:
    """The step at which a try ended: wrong answers are of ``quality``, wherever they were seen."""
    return "quality" if effect in ("wrong_output", "accuracy_loss") else _STEP_OF[stage or "serve"]


def doubt_of(found: Finding) -> str:
    """The feature that a finding counts in: what kind of doubt, at which step."""
    word = "no-code" if found.kind == "requirement" else found.verdict
    return f"{word}:{step_of(found.stage, found.effect)}"


def features(
    query: Query,
    proof: Mapping[str, float],
    doubts: Iterable[Finding],
    near: Near,
    surroundings: Mapping[str, float],
) -> Features:
    """What the chance of one candidate looks at, by name; 0 is left out.

    ``proof`` are the features that tell how far it is proven (``weigh``), ``doubts`` what speaks against it
    unanswered, ``surroundings`` what its whole engine shares here.
    """
    found: Features = {**surroundings, **proof}
    for doubt in doubts:
        name = doubt_of(doubt)
        found[name] = min(found.get(name, 0.0) + 1.0, 2.0)
    switches = [name for name in query.environment if alike.chooses(name, query.engine)]
    found["environment"] = capped(len(switches), 3)
    spelled = alike.kernel_keys(query.engine or "")
    others = {key: value for key, value in query.settings.items() if key not in spelled}
    found["settings"] = capped(own.chosen(others), 8)
    found |= _of_near(query, near)
    found |= _of_layout(query)
    return {name: value for name, value in found.items() if value}


def capped(count: float, most: float = MOST) -> float:
    """The logarithm of one more than a count, which says no more from ``most`` on."""
    return math.log1p(min(count, most))


def _of_near(query: Query, near: Near) -> Features:
    """What is known of its kernels in other configurations, here and on any architecture.

    Of each the worst and the best among its roles: more failures never speak for it, more successes never
    against it.
    """
    pairs = [(role, one.kernel) for role, one in query.resolved.items() if role != "sampling"]
    rows = [near[pair] for pair in pairs] or [[0.0] * 4]
    here = [math.log((1 + row[1]) / (1 + row[0])) for row in rows]
    anywhere = [math.log((1 + row[3]) / (1 + row[2])) for row in rows]
    return {
        "near-doubt": max(-min(here), 0.0),
        "near-trust": max(0.0, *here),
        "far-doubt": max(-min(anywhere), 0.0),
        "far-trust": max(0.0, *anywhere),
    }


def _of_layout(query: Query) -> Features:
    common = query.common
    found = {key: 1.0 for key in ("ep", "dp", "pp") if isinstance(common.get(key), int) and common[key] > 1}
    found["speculation"] = float(bool(common.get("speculation")))
    found["kv-quantized"] = float(query.kv_dtype not in _PLAIN_KV)
    found["gpus"] = math.log2(min(query.hardware.count or 1, 16)) / 3
    return found


def surroundings(base: Query) -> Features:
    """Features that all candidates of one engine share: the hardware, the weights, the model, the release."""
    arch, entry = base.arch or "", base.entry
    found = {
        "amd": arch.startswith("gfx"),
        "workstation": arch in _WORKSTATION,
        "datacenter-new": arch in _NEW,
        "older": arch.startswith("sm") and arch not in (*_WORKSTATION, *_NEW, "sm90"),
        "model-unknown": entry is None,
        "moe": bool(entry and entry.has_experts),
        "latent": bool(entry and {"mla", "dsa"} & set(entry.attention)),
        "hybrid": bool(entry and any("linear" in kind for kind in entry.attention)),
    }
    named = {name: 1.0 for name, true in found.items() if true}
    return named | _of_weights(base) | {"age": _age(base)}


def _of_weights(base: Query) -> Features:
    weights, facts = base.quantization or "", base.gpu_facts
    if weights in ("", "bf16", "fp16"):
        return {}
    kind = "fp4" if "fp4" in weights else "fp8" if weights.startswith("fp8") else "int"
    has = facts.capabilities if facts else _of_arch(base.arch or "")
    lacks = has.get({"fp4": "fp4_tensor", "fp8": "fp8"}.get(kind, "")) is False
    return {kind: 1.0, "emulated": float(lacks)}


_of_arch = cache(gpus.arch_facts)


def _age(base: Query) -> float:
    """0 for the newest catalogued release of the engine (or an unknown one), 1 for the oldest."""
    known = options.releases(base.engine or "")
    if base.engine_version not in known or len(known) < 2:
        return 0.0
    place = known.index(base.engine_version) / (len(known) - 1)
    return 1 - place if known[-1] == options.newest(base.engine or "") else place


class Near(dict[tuple[str, str], list[float]]):
    """(role, kernel) -> failures and successes on an architecture, and those on any; own runs among them.

    A model holds its reports as one text for each architecture: what is asked for is looked up in it.
    """

    def __init__(
        self, part: Json | None = None, arch: str | None = None, tried: Iterable[Tried] = ()
    ) -> None:
        texts = (part or {}).get("near", {})
        self._texts = [f"\n{texts.get(where, '')}\n" for where in (arch, "*")]
        for one in tried:
            self._count(one, (0, 2) if one.hardware.arch == arch else (2,))

    def __missing__(self, pair: tuple[str, str]) -> list[float]:
        found = self[pair] = [count for text in self._texts for count in _counts(text, *pair)]
        return found

    def _count(self, one: Tried, places: Iterable[int]) -> None:
        """Add own runs: a success speaks for all kernels that ran, a failure against those asked for."""
        asked = one.backend.requested
        worked = any(own.successes(one))
        if not worked and all(ending.blame != "backend" for ending in own.failures(one)):
            return
        told = {**asked, **one.backend.resolved} if worked else asked
        for pair in told.items():
            for place in places:
                self[pair][place + worked] += OWN if worked else OWN / len(asked)


def _counts(text: str, role: str, kernel: str) -> tuple[float, float]:
    start = text.find(f"\n{role} {kernel} ")
    if start < 0:
        return 0.0, 0.0
    failed, worked = text[start + 1 : text.find("\n", start + 1)].split(" ")[2:]
    return float(failed), float(worked)


def steps(part: Json, found: Mapping[str, float]) -> dict[str, float]:
    """The chance to pass each step, given that it is reached."""
    return {step: _odds(_score(part["steps"][step], found)) for step in STEPS}


def _score(row: Json, found: Mapping[str, float]) -> float:
    coef, score = row["coef"].get, float(row["intercept"])
    for name, value in found.items():
        score += coef(name, 0.0) * value
    return score


def works(part: Json | None, found: Mapping[str, float]) -> float:
    """The chance to pass every step; even odds where nothing was learned."""
    return max(math.prod(steps(part, found).values()), LEAST) if part else EVEN


NODES = 8


def terms(part: Json, found: Mapping[str, float]) -> tuple[float, dict[str, float]]:
    """(base, what each feature adds): the log-odds of working, taken apart.

    Along the straight way from nothing known to all of it a step counts by how much of the failures it holds;
    the terms are scaled to add up exactly.
    """
    begin = {step: _score(part["steps"][step], {}) for step in STEPS}
    rise = {step: _score(part["steps"][step], found) - begin[step] for step in STEPS}
    weight = dict.fromkeys(STEPS, 0.0)
    for node in range(NODES):
        passed = {step: _odds(begin[step] + (node + 0.5) / NODES * rise[step]) for step in STEPS}
        lost = max(1 - math.prod(passed.values()), 1e-12)
        weight = {step: weight[step] + (1 - passed[step]) / lost for step in STEPS}
    rows = {
        name: value * sum(weight[step] * part["steps"][step]["coef"].get(name, 0.0) for step in STEPS)
        for name, value in found.items()
    }
    base, total = log_odds(works(part, {})), sum(rows.values())
    scale = (log_odds(works(part, found)) - base) / total if abs(total) > 1e-9 else 1.0
    told = {name: value * scale for name, value in rows.items() if abs(value * scale) > LEAST_TERM}
    return base, dict(sorted(told.items(), key=lambda row: -abs(row[1])))


def _odds(score: float) -> float:
    return 1 / (1 + math.exp(-score))


def log_odds(chance: float) -> float:
    """The logarithm of the odds."""
    return math.log(chance / (1 - chance))
