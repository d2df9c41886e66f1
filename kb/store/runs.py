"""Assembled runs: written site by site, read back whole.

Owns the tables derived from readings; all of them can be made again. Must not decide what belongs to a run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kb.errors import KbctlError
from kb.model import Experiment
from kb.store.claims import claims_by_target
from kb.store.database import Store
from kb.store.quality import quality_by_run, with_quality
from kb.wire import compact, experiment_from_wire, experiment_to_wire, finite_number

DERIVED = ("run", "run_source", "measurement", "trace", "evidence_line", "probe")
ID_CHARACTERS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """A run as assembly hands it over.

    ``anchor`` is the identity of what it starts from and ``ordinal`` which start in it; ``site`` the folder
    it was assembled in; ``attached`` every source of it: (identity, path, how it was joined, 0..1);
    ``probes`` what its correctness probes answered, as JSON values.
    """

    anchor: str
    ordinal: int
    site: str
    experiment: Experiment
    imported: bool = False
    attached: tuple[tuple[str, str, str, float], ...] = ()
    probes: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A run as the store tells it: the experiment, and what the user said of it since.

    ``answers`` is what comparing its probes with those of other runs says: (verdict, sentence).
    """

    experiment: Experiment
    invalid: str | None = None
    notes: tuple[str, ...] = ()
    answers: tuple[str, str] | None = None


def put_runs(store: Store, folders: Iterable[str], runs: Sequence[Assembled]) -> None:
    """Put these runs in place of all that were assembled in the folders, in one transaction."""
    places = list(dict.fromkeys(folders))
    with store.transaction():
        old = [run for (run,) in store.rows("SELECT run FROM run WHERE site IN (SELECT unnest(?))", [places])]
        drop_runs(store, [*old, *(one.experiment.run for one in runs)])
        for table, rows in _tables(runs).items():
            store.load(table, rows)


def drop_runs(store: Store, runs: Sequence[str]) -> None:
    """Delete everything derived about the runs, inside the caller's transaction."""
    for table in DERIVED:
        store.delete(table, "run", runs)


def runs_joined_from(store: Store, folders: Iterable[str]) -> dict[str, set[str]]:
    """site -> the given folders whose sources its stored runs hold."""
    sql = (
        "SELECT DISTINCT run.site, source.folder FROM run_source JOIN run USING (run) "
        "JOIN source USING (identity) WHERE source.folder IN (SELECT unnest(?))"
    )
    found: dict[str, set[str]] = {}
    for site, folder in store.rows(sql, [list(folders)]):
        found.setdefault(site, set()).add(folder)
    return found


def kept_runs(store: Store, where: str = "true", parameters: Sequence[Any] = ()) -> Iterator[Kept]:
    """Runs that satisfy a condition on the table ``run`` (trusted SQL), oldest first."""
    remarks, quality = remarks_by_run(store), quality_by_run(store)
    sql = f"SELECT run, experiment FROM run WHERE {where} ORDER BY started NULLS LAST, site, run"  # noqa: S608
    for run, text in store.rows(sql, parameters):
        experiment = experiment_from_wire(json.loads(text))
        if run in quality:
            experiment = with_quality(experiment, *quality[run])
        invalid, notes = remarks.get(run, (None, ()))
        answers = quality[run][:2] if run in quality else None
        yield Kept(experiment=experiment, invalid=invalid, notes=notes, answers=answers)


def remarks_by_run(store: Store) -> dict[str, tuple[str | None, tuple[str, ...]]]:
    """run -> (why it does not count, or None; the notes on it)."""
    found = {}
    for run, said in claims_by_target(store, ("invalidate", "restore", "note")).items():
        standing = [one for one in said if one.kind != "note"][-1:]
        invalid = next(
            (one.reason or "no reason given" for one in standing if one.kind == "invalidate"), None
        )
        found[run] = invalid, tuple(one.value for one in said if one.kind == "note")
    return found


def digests(store: Store) -> dict[str, str]:
    """run -> what changes whenever anything about it does: the run, the user's word, the judged answers."""
    remarks, quality = remarks_by_run(store), quality_by_run(store)
    found: dict[str, str] = dict(store.rows("SELECT run, digest FROM run"))
    for run in (remarks.keys() | quality.keys()) & found.keys():
        told = f"{found[run]} {remarks.get(run)} {quality.get(run)}"
        found[run] = hashlib.blake2b(told.encode("utf-8", "replace"), digest_size=12).hexdigest()
    return found


def effects(store: Store) -> dict[str, int]:
    """effect -> number of runs, the most frequent first."""
    return dict(store.rows("SELECT effect, count(*) FROM run GROUP BY effect ORDER BY count(*) DESC, effect"))


def find_run(store: Store, text: str) -> str:
    """The id of the one run that ``text`` (an id, or the start of one) names; an error otherwise."""
    prefix = text if text.startswith("run:") else f"run:{text}"
    found = [
        run for (run,) in store.rows("SELECT run FROM run WHERE starts_with(run, ?) ORDER BY run", [prefix])
    ]
    if not found:
        raise KbctlError("no run of this id", where=text, tip="kbctl runs lists them")
    if len(found) > 1:
        raise KbctlError(f"{len(found)} runs start so", where=text, tip=f"for example {', '.join(found[:3])}")
    return str(found[0])


def lines_of(store: Store, run: str) -> list[dict[str, Any]]:
    """The kept evidence lines of a run: role, path, line, text, meaning."""
    sql = "SELECT role, path, line, text, meaning FROM evidence_line WHERE run = ? ORDER BY ordinal"
    return store.records(sql, [run])


def line_index(store: Store, runs: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """run -> its kept evidence lines."""
    found: dict[str, list[dict[str, Any]]] = {}
    sql = "SELECT run, role, path, line, text, meaning FROM evidence_line WHERE run IN (SELECT unnest(?))"
    for row in store.records(f"{sql} ORDER BY run, ordinal", [list(runs)]):
        found.setdefault(row.pop("run"), []).append(row)
    return found


def _tables(runs: Sequence[Assembled]) -> dict[str, list[dict[str, Any]]]:
    tables: dict[str, list[dict[str, Any]]] = {name: [] for name in DERIVED}
    for one in runs:
        tables["run"].append(_run_row(one))
        tables["run_source"] += _source_rows(one)
        tables["measurement"] += _measurement_rows(one.experiment)
        tables["trace"] += _trace_rows(one.experiment)
        tables["evidence_line"] += _line_rows(one.experiment)
        tables["probe"] += _probe_rows(one)
    return tables


def _run_row(one: Assembled) -> dict[str, Any]:
    wire = experiment_to_wire(one.experiment)
    plain = ("run", "engine", "engine_version", "model", "model_id", "family", "quantization", "gpu", "arch")
    ending = ("gpu_count", "stage", "effect", "blame", "started", "ended")
    text = compact(wire)
    return {
        **{name: wire[name] for name in plain + ending},
        "anchor": one.anchor,
        "ordinal": one.ordinal,
        "site": one.site,
        "signature": (wire["failure"] or {}).get("class"),
        "experiment": text,
        "digest": hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest(),
    }


def _source_rows(one: Assembled) -> list[dict[str, Any]]:
    names = ("identity", "path", "how", "confidence")
    return [{"run": one.experiment.run, **dict(zip(names, row, strict=True))} for row in one.attached]


def _measurement_rows(experiment: Experiment) -> list[dict[str, Any]]:
    return [
        {
            "run": experiment.run,
            "ordinal": ordinal,
            "client": one.client,
            "path": one.path,
            "line": one.line,
            "workload": compact(dict(one.workload)),
            "metrics": compact(dict(one.metrics)),
            **_numbers(one.workload, "input_len", "output_len", "concurrency", "request_rate"),
            **_numbers(one.metrics, "output_tok_s", "total_tok_s", "completed", "failed"),
            "ttft_ms": finite_number(one.metrics.get("ttft_ms_mean")),
            "tpot_ms": finite_number(one.metrics.get("tpot_ms_mean")),
        }
        for ordinal, one in enumerate(experiment.measurements)
    ]


def _trace_rows(experiment: Experiment) -> list[dict[str, Any]]:
    telemetry = experiment.telemetry
    if telemetry is None:
        return []
    return [
        {
            "run": experiment.run,
            "gpu": gpu.index,
            "name": gpu.name,
            "samples": gpu.samples,
            **{
                name: finite_number(gpu.metrics.get(name, {}).get("mean"))
                for name in ("utilization_pct", "power_w", "sm_clock_mhz")
            },
            "memory_used_mib": finite_number(gpu.metrics.get("memory_used_mib", {}).get("max")),
            "conditions": " ".join(c.name for c in telemetry.conditions if c.gpu in (None, gpu.index)),
            "figures": compact({name: dict(figures) for name, figures in gpu.metrics.items()}),
        }
        for gpu in telemetry.gpus
    ]


def _line_rows(experiment: Experiment) -> list[dict[str, Any]]:
    failure = experiment.outcome.failure
    found: list[tuple[str, str | None, int | None, str, str]] = []
    if failure is not None:
        found.append(("cause", failure.path, failure.line, failure.text, failure.cause))
    found += [("warning", one.path, one.line, one.text, one.meaning) for one in experiment.outcome.warnings]
    names = ("role", "path", "line", "text", "meaning")
    return [
        {"run": experiment.run, "ordinal": ordinal, **dict(zip(names, row, strict=True))}
        for ordinal, row in enumerate(found)
    ]


def _probe_rows(one: Assembled) -> list[dict[str, Any]]:
    return [
        {"run": one.experiment.run, "ordinal": ordinal, "probe": compact(dict(probe))}
        for ordinal, probe in enumerate(one.probes)
    ]


def _numbers(values: Mapping[str, Any], *names: str) -> dict[str, float | None]:
    return {name: finite_number(values.get(name)) for name in names}
