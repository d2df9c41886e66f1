"""What the figures of a row say of one another: whose time a latency is, and in which unit it stands.

Owns settling both by arithmetic, and which tokens a rate counts, where a label says otherwise or too little.
Must not read cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.bench.quantities import words_of

if TYPE_CHECKING:
    from ingest.bench.placing import Row

_NEAR = 0.02
_LATENCIES = ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms")
_SECONDS = {"s", "sec", "secs", "second", "seconds"}
_LONGEST = {"ttft": 100.0, "tpot": 5.0, "itl": 5.0, "e2e": 1000.0}  # seconds
_RUN = ("duration_s", "output_tok_s")
_SPEED = "output_tok_s_per_user"
_DIRECTIONS = {"output", "gen", "generation", "generated", "decode", "completion"}


def settle_times(row: Row) -> None:
    """Latencies that are those of a whole run become its duration; seconds under "(ms)" milliseconds."""
    _settle_unit(row)
    _settle_whole_unit(row)
    _settle_whole(row)
    _settle_totals(row)
    _settle_run(row)
    _settle_single(row)


def _settle_unit(row: Row) -> None:
    """The time per token and the speed of one request are each other's inverse: that tells the unit."""
    told = [
        step * speed
        for stat in ("mean", "p50")
        if (step := row.metrics.get(f"tpot_ms_{stat}"))
        and (speed := row.metrics.get(_SPEED if stat == "mean" else f"{_SPEED}_{stat}"))
    ]
    if not told or any(abs(one - 1) > 5 * _NEAR for one in told):
        return
    for name, value in row.metrics.items():
        said = set(words_of(row.labels.get(name, "")).split())
        if (
            name.startswith(_LATENCIES)
            and value is not None
            and not said & _SECONDS
            and _is_short(name, value)
        ):
            row.metrics[name] = value * 1e3
            row.source_names[name] = f"{row.labels.get(name, name)}: in seconds, by the speed beside it"


def _settle_whole_unit(row: Row) -> None:
    """An answer that takes less than its first token is in seconds, where those make up for the rest."""
    first, whole = row.metrics.get("ttft_ms_mean"), row.metrics.get("e2e_ms_mean")
    step = row.metrics.get("tpot_ms_mean") or row.metrics.get("itl_ms_mean")
    made = row.workload.get("output_len")
    if not (first and whole and step and made) or whole >= first:
        return
    if abs(first + step * made - whole * 1e3) > 10 * _NEAR * whole * 1e3:
        return
    for name, value in row.metrics.items():
        if name.startswith("e2e_ms") and value is not None:
            row.metrics[name] = value * 1e3
            row.source_names[name] = f"{row.labels.get(name, name)}: in seconds, by the times beside it"


def _is_short(name: str, value: float) -> bool:
    """Whether a latency may be in seconds at all: what were longer than any server takes is not."""
    return value < next(most for start, most in _LONGEST.items() if name.startswith(start))


def _settle_whole(row: Row) -> None:
    """A rate that names no direction is that of all tokens where both counts over the time give it."""
    read, made = row.metrics.get("input_tokens"), row.metrics.get("output_tokens")
    name = next((one for one in ("output_tok_s", "tok_s") if row.metrics.get(one)), "")
    time = next((one for one in ("duration_s", "e2e_ms_mean") if row.metrics.get(one)), "")
    rate, took = row.metrics.get(name), row.metrics.get(time)
    said = set(words_of(row.labels.get(name, "")).split())
    if not (read and made and rate and took) or said & _DIRECTIONS or "total_tok_s" in row.metrics:
        return
    seconds = took / 1e3 if time == "e2e_ms_mean" else took
    if abs((read + made) / seconds - rate) > _NEAR * rate:
        return
    for old, new, value in ((name, "total_tok_s", rate), (time, "duration_s", seconds)):
        del row.metrics[old]
        row.source_names.pop(old, None)
        row.metrics[new], row.source_names[new] = value, row.labels.get(old, old)


def _settle_run(row: Row) -> None:
    """What all requests of a run take at the measured rate is no latency of one of them."""
    asked, made = row.workload.get("prompts"), row.workload.get("output_len")
    rate, took = row.metrics.get("output_tok_s"), row.metrics.get("e2e_ms_mean")
    width = row.workload.get("concurrency") or row.workload.get("batch_size") or 1
    if not (asked and made and rate and took) or asked <= width or "duration_s" in row.metrics:
        return
    if abs(asked * made / rate - took / 1e3) < _NEAR * took / 1e3:
        row.metrics["duration_s"] = took / 1e3
        row.source_names["duration_s"] = row.labels.get("e2e_ms_mean", "latency")
        del row.metrics["e2e_ms_mean"]
        row.source_names.pop("e2e_ms_mean", None)


def _settle_totals(row: Row) -> None:
    """Tokens of a run that are all of answers, by its width, its rate and its time."""
    made, took, rate = (row.workload.get("output_len"), *(row.metrics.get(name) for name in _RUN))
    crowd = max(row.workload.get("prompts") or 1, row.metrics.get("completed") or 1)
    whole = row.metrics.get("total_tokens")
    if rate and took and whole and "output_tokens" not in row.metrics and "input_tokens" not in row.metrics:
        width = max(crowd, row.workload.get("concurrency") or 1)
        if made and abs(whole - width * made) < _NEAR * whole and abs(whole / took - rate) < _NEAR * rate:
            row.metrics["output_tokens"] = row.metrics.pop("total_tokens")


def _settle_single(row: Row) -> None:
    """What takes as long as its one answer, first token and the rest, is that request."""
    first, made = row.metrics.get("ttft_ms_mean"), row.workload.get("output_len")
    rate, took = row.metrics.get("output_tok_s"), row.metrics.get("duration_s")
    crowd = max(row.workload.get(name) or 1 for name in ("concurrency", "prompts", "batch_size"))
    if not (made and rate and took) or crowd > 1 or "e2e_ms_mean" in row.metrics:
        return
    if abs((first or 0.0) / 1e3 + made / rate - took) < _NEAR * took:
        row.metrics["e2e_ms_mean"] = took * 1e3
        row.source_names["e2e_ms_mean"] = row.labels.get("duration_s", "duration")
