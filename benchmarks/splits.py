"""The contexts of the replay, made from the committed tables.

Owns what is given, what is chosen and what is left out together in each task. Needs neither scikit-learn nor
any peer, so that a peer's own environment can play the same contexts.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import math
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kb.measurements import folder
from recommend.replay import Context, Key, playable
from recommend.samples import shape_of
from recommend.table import Columns, contexts, model_of

HERE = Path(__file__).parent / "replay"
CHOICE = ("engine", "precision", "tp", "pp", "dp", "ep")
WHERE = ("hw", "model", "isl", "osl", "concurrency", "gpus")


def serving_rows() -> list[dict[str, Any]]:
    """Aggregated serving points with a known GPU count, with throughput and the checkpoint's shape."""
    with (folder() / "serving.tsv").open(encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines, delimiter="\t") if row["gpus"] and row["mode"] == "agg"]
    for row in rows:
        ms = float(row["ttft_ms"]) + (int(row["osl"]) - 1) * float(row["tpot_ms"])
        row["tok_s"] = 1000 * int(row["concurrency"]) * int(row["osl"]) / ms
        entry = model_of(row)
        row["shape"] = shape_of(entry) if entry else row["model"]
    return rows


def serving_contexts(*, fixed_precision: bool) -> list[Context]:
    """Equal hardware, model, lengths, concurrency and number of GPUs; precision chosen or given."""
    where = (*WHERE, "precision") if fixed_precision else WHERE
    choice = tuple(name for name in CHOICE if name not in where)
    columns = Columns(context=where, choice=choice, outcome="tok_s", group=("hw", "shape"), date="date")
    # The release is what comes with the engine: it is known of a row, and not a choice of its own.
    return contexts(serving_rows(), columns)


MOE_WHERE = ("hw", "hidden", "intermediate", "topk", "experts", "dtype", "moe_tp", "moe_ep", "tokens")


def moe_rows(hold: str, share_here: float, share_else: float) -> Iterator[dict[str, Any]]:
    """MoE kernel times, one row per token count; a share of the contexts by a hash of their keys."""
    with (folder() / "moe_kernels.tsv").open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            row["moe_tp"], row["moe_ep"] = row.pop("tp"), row.pop("ep")
            share = share_here if row["hw"] == hold else share_else
            for name in [one for one in row if one[0] == "t" and one[1:].isdigit() and row[one]]:
                one = {**row, "tokens": name[1:], "latency": row[name]}
                if _drawn("|".join(one[column] for column in MOE_WHERE)) < share:
                    yield one


ATTENTION_WHERE = ("hw", "phase", "heads", "kv_heads", "head_dim", "kv_dtype", "batch", "length")
GENERATION = {
    "a100_sxm": "sm80",
    "l40s": "sm89",
    "h100_sxm": "sm90",
    "h200_sxm": "sm90",
    "b200_sxm": "sm100, sm103",
    "gb200": "sm100, sm103",
    "b300_sxm": "sm100, sm103",
    "gb300": "sm100, sm103",
    "rtx_pro_6000_server": "sm120",
}


def attention_rows(share: float) -> Iterator[dict[str, Any]]:
    """Attention kernel times, one row per batch and length; a share of the contexts by a hash."""
    with (folder() / "attention_kernels.tsv").open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            row["generation"] = GENERATION[row["hw"]]
            for name in [one for one in row if "x" in one[1:] and one[1].isdigit() and row[one]]:
                batch, _, length = name[1:].partition("x")
                one = {**row, "batch": batch, "length": length, "latency": row[name]}
                if _drawn("|".join(one[column] for column in ATTENTION_WHERE)) < share:
                    yield one


def _drawn(key: str) -> float:
    return hashlib.blake2b(key.encode(), digest_size=2).digest()[0] / 256


def tuner_contexts(kernel: str) -> list[Context]:
    """One context per GPU: every configuration of a tuning space, with its failures."""
    columns = Columns(
        context=("gpu",),
        choice=("config_json",),
        outcome="time_ms",
        group=("gpu",),
        minimize=True,
        failed=("outcome", frozenset({"failed_compile", "failed_runtime"})),
    )
    return contexts(tuner_rows(kernel), columns)


def tuner_rows(kernel: str) -> list[dict[str, Any]]:
    path = HERE / "kernel_tuner.tsv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [row for row in csv.DictReader(lines, delimiter="\t") if row["kernel"] == kernel]


def frozen(name: str, found: Sequence[Context], rule: str, *, freeze: bool) -> list[Context]:
    """The contexts of a committed split, or an exit that says how they moved."""
    path = HERE / f"{name}.json"
    asked = playable(found)
    now = {
        "rule": rule,
        "contexts": len(asked),
        "groups": len({one.group for one in asked}),
        "choices_per_context": round(statistics.mean(len(one.trials) for one in asked), 3),
        "keys": hashlib.blake2b(
            "\n".join("|".join(one.key) for one in asked).encode(), digest_size=16
        ).hexdigest(),
    }
    if freeze:
        path.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
    kept = json.loads(path.read_text("utf-8"))
    if kept != now:
        sys.exit(f"{path}: the split moved.\n  committed {kept}\n  now       {now}")
    return asked


PEER_KEY = ("hw", "gpus", "model", "isl", "osl", "concurrency", "engine", "precision", "tp", "pp", "dp", "ep")


def peer_answers(path: Path) -> dict[tuple[str, ...], float]:
    """Choice in its context -> mean log throughput that a peer predicts."""
    logs: dict[tuple[str, ...], list[float]] = {}
    with path.open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            if row["status"] == "ok" and float(row["output_tok_s"] or 0) > 0:
                key = tuple(row[name] for name in PEER_KEY)
                logs.setdefault(key, []).append(math.log(float(row["output_tok_s"])))
    return {key: statistics.fmean(values) for key, values in logs.items()}


def peers_on(task: str, half_of: Mapping[Key, str]) -> dict[str, dict[str, dict[str, float]]]:
    """Half (``choose``, ``report``, ``all``) -> policy of a peer -> mean valid and failed tries."""
    found: dict[str, dict[str, list[tuple[int, int]]]] = {"choose": {}, "report": {}, "all": {}}
    for row in (row for name in TUNER_PEERS for row in peer_plays(name) if row["task"] == task):
        for half in (half_of[tuple(row["context"].split("|"))], "all"):
            found[half].setdefault(row["policy"], []).append((int(row["tries"]), int(row["valid"])))
    return {half: {name: _means(plays) for name, plays in told.items()} for half, told in found.items()}


def _means(plays: Sequence[tuple[int, int]]) -> dict[str, float]:
    return {
        "valid": round(statistics.fmean(valid for _, valid in plays), 2),
        "failed": round(statistics.fmean(tries - valid for tries, valid in plays), 2),
    }


GIVEN = (0, 1, 2)
PEERS = ("optuna", "smac", "baybe")
TUNER_PEERS = ("optuna", "optuna-categories")


def peer_plays(name: str) -> Iterator[dict[str, str]]:
    """The rows that ``ask_peers.py`` wrote of a peer."""
    with (HERE / f"{name}.csv").open(encoding="utf-8") as lines:
        yield from csv.DictReader(lines)


def warm_peers() -> dict[str, dict[tuple[str, int], float]]:
    """Policy of a peer -> (context, given) -> tries until within 5 % on the serving contexts."""
    told: dict[str, dict[tuple[str, int], float]] = {}
    for row in (row for name in PEERS for row in peer_plays(name) if row["task"] == "e2e"):
        told.setdefault(row["policy"], {})[row["context"], int(row["given"])] = float(row["tries"])
    return told
