"""Ask AIConfigurator what it predicts for the shipped serving points: a baseline of the replay.

Owns the questions and the table of answers. Must not judge them, nor import anything of this project: it
runs in AIConfigurator's own environment, because kbctl does not depend on it:

    python -m venv aic && aic/bin/pip install aiconfigurator==0.12.0
    aic/bin/python benchmarks/ask_aiconfigurator.py records/measurements/serving.tsv OUT.csv [--cpu-seconds N]

Asked are aggregated configurations in contexts (GPU, number of GPUs, model, lengths, concurrency) that offer
at least two choices. Contexts are asked in an order shuffled by a fixed seed, until the budget is spent; a
row that got no answer says why.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import logging
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

SEED = 20261130
CONTEXT = ("hw", "gpus", "model", "isl", "osl", "concurrency")
CHOICE = ("engine", "precision", "gemm", "moe", "tp", "pp", "dp", "moe_tp", "ep")
KEY = (*CONTEXT, "version", *CHOICE)
ANSWER = ("status", "asked_version", "database", "ttft_ms", "tpot_ms", "output_tok_s", "kv_warning", "note")
# Names of the table under which AIConfigurator carries no configuration: the same checkpoint, by precision.
NAMES = {
    ("meta-llama/Llama-3.1-70B", "fp4"): "meta-llama/Meta-Llama-3.1-70B",
    ("meta-llama/Llama-3.1-70B", "fp8"): "meta-llama/Meta-Llama-3.1-70B",
    ("zhipuai/GLM-5", "fp4"): "nvidia/GLM-5-NVFP4",
    ("zhipuai/GLM-5", "fp8"): "zai-org/GLM-5-FP8",
}

Row = dict[str, str]
Question = dict[str, Any]


def main() -> int:
    """Ask, and write one line per configuration; progress and totals go to stderr."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("serving", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--cpu-seconds", type=float, default=600.0)
    arguments = parser.parse_args()
    with arguments.serving.open(encoding="utf-8", newline="") as file:
        contexts = contexts_of(list(csv.DictReader(file, delimiter="\t")))
    answers = ask_all(contexts, estimator(), arguments.cpu_seconds)
    with arguments.out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, (*KEY, *ANSWER), lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(sorted(answers, key=lambda row: [row[name] for name in KEY]))
    return 0


def contexts_of(rows: list[Row]) -> list[list[Row]]:
    """Rows by context, those with two choices or more, in the order in which they are asked."""
    found: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if row["mode"] == "agg" and row["gpus"]:
            found[tuple(row[name] for name in CONTEXT)].append(row)
    several = [rows for _, rows in sorted(found.items()) if len({_choice(row) for row in rows}) > 1]
    random.Random(SEED).shuffle(several)
    return several


def _choice(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in CHOICE)


def ask_all(contexts: list[list[Row]], estimate: Callable[[Question], Row], budget_s: float) -> list[Row]:
    """Each row with its answer. A context is asked as a whole or, once the budget is spent, not at all."""
    answers: list[Row] = []
    for number, rows in enumerate(contexts, 1):
        spent = time.process_time() > budget_s
        answers += [{**row, **({"status": "not asked"} if spent else ask(row, estimate))} for row in rows]
        if number % 50 == 0:
            sys.stderr.write(f"{number}/{len(contexts)} contexts, {time.process_time():.0f} CPU-s\n")
    return answers


def ask(row: Row, estimate: Callable[[Question], Row]) -> Row:
    """The first answer among the forms of the question, or the reasons why there is none."""
    reasons: list[str] = []
    for question, note in questions(row):
        try:
            return {"status": "ok", "note": note, "database": question["database_mode"], **estimate(question)}
        # Whatever its library raises is its answer: it has none.
        except Exception as error:
            reasons.append(f"{question['database_mode']}: {type(error).__name__}: {_short(str(error))}")
    return {"status": "no answer", "note": " | ".join(dict.fromkeys(reasons))}


def _short(text: str) -> str:
    """The beginning of a message, without the paths of the machine on which it was asked."""
    return " ".join(word for word in text.split() if not word.startswith("/"))[:140]


def questions(row: Row) -> Iterator[tuple[Question, str]]:
    """The question as it is put, in order: from measured kernels only, then with estimates for the gaps."""
    sizes, note = parallel_sizes(row)
    plain = {
        "model_path": NAMES.get((row["model"], row["precision"]), row["model"]),
        "system_name": row["hw"],
        "backend_name": row["engine"],
        **{name: int(row[name]) for name in ("isl", "osl")},
        "batch_size": -(-int(row["concurrency"]) // sizes["attention_dp_size"]),
        **sizes,
        "gemm_quant_mode": row["gemm"] or None,
        "moe_quant_mode": row["moe"] or None,
    }
    for database in ("SILICON", "HYBRID"):
        yield {**plain, "database_mode": database}, note


def parallel_sizes(row: Row) -> tuple[dict[str, int], str]:
    """Parallel sizes as AIConfigurator takes them (expert ranks span its GPUs), and what was put right."""
    tp, pp, dp, moe_tp, ep = (int(row[name] or 1) or 1 for name in ("tp", "pp", "dp", "moe_tp", "ep"))
    note = ""
    if moe_tp * ep != tp * dp:
        moe_tp, ep = (tp * dp // ep, ep) if tp * dp % ep == 0 else (tp * dp, 1)
        note = f"expert ranks read as tp {moe_tp} x ep {ep}"
    names = ("tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
    return dict(zip(names, (tp, pp, dp, moe_tp, ep), strict=True)), note


def estimator() -> Callable[[Question], Row]:
    """``aiconfigurator cli estimate`` as a function: question → milliseconds and tokens/s of all GPUs."""
    os.environ.setdefault("AICONFIGURATOR_LOG_LEVEL", "ERROR")
    logging.disable(logging.CRITICAL)
    import yaml  # noqa: PLC0415

    # It reads hundreds of small YAML files per question: libyaml gives the same values far sooner.
    yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    from aiconfigurator.cli.api import cli_estimate  # noqa: PLC0415
    from aiconfigurator.sdk.perf_database import get_latest_database_version  # noqa: PLC0415

    newest = cache(get_latest_database_version)

    def estimate(question: Question) -> Row:
        version = newest(system=question["system_name"], backend=question["backend_name"])
        with contextlib.redirect_stdout(sys.stderr):
            found = cli_estimate(**question, backend_version=version)
        return {
            "asked_version": found.backend_version,
            "ttft_ms": f"{found.ttft:.6g}",
            "tpot_ms": f"{found.tpot:.6g}",
            "output_tok_s": f"{found.raw['tokens/s']:.6g}",
            "kv_warning": "yes" if found.kv_cache_warning else "",
        }

    return estimate


if __name__ == "__main__":
    sys.exit(main())
