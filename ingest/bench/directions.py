"""Which tokens a rate counts that does not say it: those read, those made, both, or those of one request.

Owns settling it for a row by its test, its load and its other figures. Must not read cells.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ingest.bench.quantities import words_of

if TYPE_CHECKING:
    from ingest.bench.placing import Row


_STATISTICS = r"(?:_(?:p\d+|min|max|std))?"


def settle_direction(row: Row) -> None:
    """A bare "tok/s" becomes output or total tokens: by arithmetic where the row allows it, else by the load.

    People who sweep concurrency and write "tok/s" count generated tokens; the source's own name is kept.
    """
    _split_decode(row)
    _settle_whole(row)
    _settle_by_test(row)
    for scope in ("", "_per_gpu", "_per_user"):
        name = f"tok_s{scope}"
        if not any(re.fullmatch(rf"{name}{_STATISTICS}", one) for one in row.metrics):
            continue
        if _is_sum(row, scope):
            _rename(row, name, f"total_{name}")
        elif scope == "":
            _rename(row, name, _counted(row) or "output_tok_s")
        else:
            _rename(row, name, f"output_{name}")


_SAID_SO = re.compile(r"\b(?:token throughput|input|prompt)\b")


def _settle_whole(row: Row) -> None:
    """A "total" rate that is the rate of one request times their number counts what was generated."""
    whole, crowd = row.metrics.get("total_tok_s"), row.workload.get("concurrency")
    parts = ("output_tok_s_per_user", "tok_s_per_user", "output_tok_s")
    name = next((one for one in parts if row.metrics.get(one)), None)
    if not whole or not crowd or name is None:
        return
    given = "input_tok_s" in row.metrics or row.workload.get("input_len")
    one, both = row.metrics[name] or 0, "output_tok_s" in row.metrics and name != "output_tok_s"
    said = _SAID_SO.search(words_of(row.labels.get("total_tok_s", "")))
    named = name == "output_tok_s" and "output" in words_of(row.labels.get(name, "")).split()
    if given or both or said or named or not 0.5 * one * crowd < whole < 1.1 * one * crowd:
        return  # said so, or perhaps of both
    row.metrics["output_tok_s_per_user"] = row.metrics.pop(name)
    row.metrics["output_tok_s"] = row.metrics.pop("total_tok_s")
    row.source_names["output_tok_s"] = row.labels.get("total_tok_s", "total")


def _is_sum(row: Row, scope: str) -> bool:
    """Whether a bare rate is that of the tokens read and of those made together, which stand beside it."""
    given, made = (row.metrics.get(f"{way}_tok_s{scope}") for way in ("input", "output"))
    measured = row.metrics.get(f"tok_s{scope}")
    if made and measured and not given and (lengths := _lengths(row)):
        given = made * lengths[0] / lengths[1]
    if not given or not made or not measured:
        return False
    return abs(given + made - measured) < 0.05 * measured


def _lengths(row: Row) -> tuple[float, float] | None:
    """Lengths of prompt and answer, where both are known."""
    read, made = (row.workload.get(name) for name in ("input_len", "output_len"))
    return (read, made) if read and made else None


_READS = re.compile(r"\b(?:pp ?\d{2,}|prefill|prompt (?:processing|eval))\b|^prompt$", re.IGNORECASE)
_MAKES = re.compile(r"\b(?:tg ?\d+|decode|generation|token generation)\b", re.IGNORECASE)


def _settle_by_test(row: Row) -> None:
    """Of a test that only reads ("pp512") or only writes ("tg128") a bare rate counts those tokens."""
    test = str(row.workload.get("test") or "")
    reads, makes = bool(_READS.search(test)), bool(_MAKES.search(test))
    if row.workload.get("output_len") == 0 and row.workload.get("input_len"):
        reads, makes = True, False
    if "tok_s" in row.metrics and reads != makes:
        _rename(row, "tok_s", "input_tok_s" if reads else "output_tok_s")


_WHOLE = re.compile(r"\b(?:gesamt|aggregate|system|server|overall|total|combined|agg)\b")
_ONE = re.compile(r"\b(?:decode|decoding|generation|gen|tg)\b")


def _split_decode(row: Row) -> None:
    """Beside an aggregate rate, a "decode" rate is that of one request."""
    whole, one = (words_of(row.labels.get(name, "")) for name in ("tok_s", "output_tok_s"))
    is_one = _ONE.search(one) and _is_part(one.replace("server", ""))  # which only says who timed it
    part, all_ = (row.metrics.get(name) or 0.0 for name in ("output_tok_s", "tok_s"))
    if abs(part - all_) <= 0.02 * all_:
        return  # the whole, by another clock
    if _WHOLE.search(whole) and is_one and "output_tok_s_per_user" not in row.metrics:
        row.metrics["output_tok_s_per_user"] = row.metrics.pop("output_tok_s")
        row.source_names["output_tok_s_per_user"] = row.labels["output_tok_s"]


def _is_part(words: str) -> bool:
    """Whether a rate does not name the whole, or is a mean over its parts."""
    return not _WHOLE.search(words) or "mean" in words.split()


def of_one_request(before: str, label: str) -> bool:
    """Whether of two rates the first is that of one request, since the second names the whole."""
    return bool(_WHOLE.search(words_of(label))) and _is_part(words_of(before))


def _rename(row: Row, old: str, new: str) -> None:
    if new in row.metrics or (new == "output_tok_s" and not row.workload):
        return
    parts = {
        name: new + name.removeprefix(old)
        for name in row.metrics
        if re.fullmatch(rf"{old}{_STATISTICS}", name)
    }
    row.metrics = {parts.get(name, name): value for name, value in row.metrics.items()}
    row.source_names = {parts.get(name, name): said for name, said in row.source_names.items()}


def _counted(row: Row) -> str | None:
    """Which tokens a bare throughput counts, where lengths, width and time decide it."""
    made = row.workload.get("output_len")
    given = row.workload.get("input_len")
    width = row.workload.get("batch_size") or row.workload.get("concurrency") or row.workload.get("prompts")
    seconds = (row.metrics.get("e2e_ms_mean") or 0) / 1e3
    measured = row.metrics.get("tok_s", row.metrics.get("tok_s_p50"))
    if one := _of_one(row, measured) or _of_answer(row, measured):
        return one
    totals = row.metrics.get("total_tokens")
    if totals and row.metrics.get("duration_s") and measured:
        return _of_total(row, totals, measured)
    if not (made is not None and given and width and seconds and measured):
        return None
    for name, count in (("output_tok_s", made), ("total_tok_s", made + given)):
        if abs(width * count / seconds - measured) < 0.05 * measured:
            return name
    return None


def _of_one(row: Row, measured: float | None) -> str | None:
    """Whether a rate is that of the whole run, or far below what its tokens and time give: of one request."""
    made, seconds = row.metrics.get("output_tokens"), row.metrics.get("duration_s")
    if not made or not seconds or not measured or (row.workload.get("concurrency") or 1) == 1:
        return None
    if abs(made / seconds - measured) < 0.05 * measured:
        return "output_tok_s"
    return "output_tok_s_per_user" if measured < 0.7 * made / seconds else None


def _of_answer(row: Row, measured: float | None) -> str | None:
    """Whether a rate is that of one answer over its time, where so many answers a second make another."""
    made, answers = row.workload.get("output_len"), row.metrics.get("request_s")
    seconds = (row.metrics.get("e2e_ms_mean") or 0) / 1e3
    if not (made and answers and seconds and measured):
        return None
    single, whole = (abs(one - measured) < 0.05 * measured for one in (made / seconds, made * answers))
    if single == whole:
        return None
    return "output_tok_s_per_user" if single else "output_tok_s"


def _of_total(row: Row, totals: float, measured: float) -> str | None:
    """Whether a total that gives the measured rate counts answers only (answers x length) or prompts too."""
    if abs(totals / (row.metrics.get("duration_s") or 1) - measured) > 0.05 * measured:
        return None
    answers = row.metrics.get("completed") or row.workload.get("concurrency") or 0
    made = answers * (row.workload.get("output_len") or 0)
    if abs(made - totals) < 0.05 * totals:
        return "output_tok_s"
    return "total_tok_s" if row.workload.get("input_len") else None
