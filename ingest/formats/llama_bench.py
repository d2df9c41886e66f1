"""llama.cpp's ``llama-bench``: Markdown, CSV, JSON, JSON lines, SQL.

Owns its columns. Must not read llama.cpp server logs.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from ingest.bench import batched, cells, devices, front, jsontext, names, note_tables, placeholders, tables
from ingest.bench.identity import Facts, benchmark, grouped
from ingest.bench.pages import LARGEST, read_page
from ingest.bench.sniffing import is_page, needing
from ingest.formats import Format, Unreadable
from ingest.sources import Source
from kb.model import LineCount, Measurement, Problem, Reading

_TOOL = "llama-bench"
_MD_HEAD = re.compile(
    r"^\|\s*model\s*\|\s*size\s*\|\s*params\s*\|\s*backend\s*\|.*\btest\s*\|\s*t/s\s*\|", re.MULTILINE
)
_MD_ROW = re.compile(r"^\| [^|]+\|.*\| *(?:pp|tg)\d+[^|]*\|[^|]+\|\s*$", re.MULTILINE)
_BUILD = re.compile(r"^build: (?P<commit>[0-9a-f]{6,}) \((?P<number>\d+)\)")
_TEST = re.compile(r"^(?P<kind>pp|tg) ?(?P<n>\d+)(?: ?\+ ?tg ?(?P<m>\d+))?(?: @ d ?(?P<depth>\d+))?")
_TITLE = re.compile(r"\s*#{1,3} (?P<text>\S.*)")
_NAMES = {
    "ngl": "n_gpu_layers",
    "fa": "flash_attn",
    "n_batch": "batch_size",
    "n_ubatch": "ubatch_size",
    "sm": "split_mode",
    "type_k": "cache_type_k",
    "type_v": "cache_type_v",
    "n_threads": "threads",
    "mmap": "mmap",
    "ts": "tensor_split",
    "ot": "override_tensor",
    "ncmoe": "n_cpu_moe",
    "nkvo": "no_kv_offload",
    "mg": "main_gpu",
    "dev": "device",
    "devices": "device",
    "backends": "backend",
    "n_threads_batch": "threads_batch",
}
_NOT_SETTINGS = {"model", "size", "params", "test", "t/s"}
_OPTIONS = (
    "n_batch",
    "n_ubatch",
    "n_threads",
    "type_k",
    "type_v",
    "n_gpu_layers",
    "n_cpu_moe",
    "split_mode",
    "flash_attn",
    "no_kv_offload",
    "tensor_split",
    "devices",
    "backends",
    "use_mmap",
    "load_mode",
)


@needing("t/s")
def _sniff_md(source: Source) -> float:
    head = source.head
    if "(ggml_abort+" in head and not _MD_ROW.search(head):
        return 0.0  # it died before its first row: an error log
    return 0.97 if _MD_HEAD.search(head) else 0.0


def _read_md(source: Source) -> Reading:
    lines = list(source.lines())
    machine = devices.machine_in((text for _, text in lines), Facts(engine="llama.cpp"))
    if title := _TITLE.match(source.head):
        machine = replace(front.titled(title["text"], machine), model=None)
    builds = [(number, found) for number, text in lines if (found := _BUILD.match(text.strip()))]
    pairs: list[tuple[Facts, Measurement]] = []
    ended = 0
    for table in tables.pipe_tables(lines):
        facts = replace(machine, engine_version=_build_after(builds, table), settings=dict(machine.settings))
        _relist(facts, (text for _, text in lines[ended : table.line - 1]))
        ended = table.rows[-1][0] if table.rows else table.line
        if _is_bench(table):
            pairs += [_md_row(line, row, facts) for line, row in table.records()]
        elif batched.is_batched(table):
            facts.model = _headed(table.heading)
            pairs += [(facts, point) for point in batched.rows(table)]
    pairs += _others(source, machine) if is_page(source) else []
    named = {"builds": [f"{found['commit']} ({found['number']})" for _, found in builds]}
    return benchmark(
        source,
        "llama_bench_md",
        grouped([pair for pair in pairs if pair[1].metrics]),
        tool=_TOOL,
        tool_version=_release(builds[0][1]["number"]) if builds else None,
        problems=_odd_rows(pairs),
        lines=count_of(lines, len(pairs) + len(builds)),
        extra=named if builds else {},
    )


def _others(source: Source, machine: Facts) -> list[tuple[Facts, Measurement]]:
    """The results of a report in tables of its own, beside those that llama-bench printed."""
    found: list[tuple[Facts, Measurement]] = []
    for table in read_page(source.start(4 * LARGEST)).tables:
        printed = _is_bench(table) or batched.is_batched(table)
        if not printed and placeholders.reason(cell for _, row in table.rows for cell in row) is None:
            found += note_tables.points(table, front.headed(table.heading, machine), "write-up")
    return found


def _relist(facts: Facts, above: Iterable[str]) -> None:
    """Of several runs in one log each lists the devices that it uses."""
    listed = devices.machine_in(above, Facts())
    if listed.gpu is not None:
        facts.gpu, facts.gpu_count = listed.gpu, listed.gpu_count


def _headed(heading: str) -> str | None:
    """The model that a heading names, if it names one."""
    named = re.fullmatch(r"\S+/\S+|\S+\.gguf", heading) or names.model(heading)
    return heading if named else None


def _is_bench(table: tables.Table) -> bool:
    return {"model", "test", "t/s"} <= set(table.header)


def _build_after(builds: list[tuple[int, re.Match[str]]], table: tables.Table) -> str | None:
    return next((_release(found["number"]) for line, found in builds if line > table.line), None)


def _release(number: Any) -> str | None:
    """A release by its build number, which a checkout without its history counts as 0 or 1."""
    return f"b{number}" if str(number).isdecimal() and int(number) > 1 else None


def _odd_rows(pairs: Iterable[tuple[Facts, Measurement]]) -> list[Problem]:
    return [Problem(line=one.line, what="no speed in this row") for _, one in pairs if not one.metrics]


def count_of(lines: list[tuple[int, str]], used: int) -> LineCount:
    """Lines of which ``used`` told something."""
    return LineCount(total=len(lines), understood=used, unknown=max(len(lines) - used, 0))


def _md_row(line: int, row: Mapping[str, str], machine: Facts) -> tuple[Facts, Measurement]:
    given = {key: cells.plain(raw) for key, raw in row.items() if key not in _NOT_SETTINGS}
    facts = replace(machine, model=cells.plain(row.get("model", "")) or None, settings=settings_of(given))
    speed = cells.read_cell(row.get("t/s"))
    return facts, _speed(
        row.get("test", ""), speed.value if speed else None, speed.spread if speed else None, line
    )


def settings_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options as llama.cpp's tools shorten them, under their own names."""
    found = {}
    for key, raw in given.items():
        if raw not in ("", None, "none", "0x0"):
            number = cells.whole(raw) if re.fullmatch(r"-?\d+", str(raw)) else None
            found[_NAMES.get(key, key)] = raw if number is None else number
    if "no_kv_offload" in found:
        found["kv_offload"] = str(found.pop("no_kv_offload")).lower() in ("0", "false")
    return found


def _speed(test: str, value: float | None, spread: float | None, line: int | None) -> Measurement:
    """A speed under the name that its test gives: prompt, generated, or both kinds of tokens."""
    found = _TEST.match(cells.plain(test))
    load: dict[str, Any] = {"test": cells.plain(test)}
    name = "tok_s"
    if found:
        first = int(found["n"])
        name = "total_tok_s" if found["m"] else "input_tok_s" if found["kind"] == "pp" else "output_tok_s"
        load |= {"input_len" if found["kind"] == "pp" else "output_len": first, "batch_size": 1}
        load |= {"output_len": int(found["m"])} if found["m"] else {}
        load |= {"depth": int(found["depth"])} if found["depth"] else {}
    metrics: dict[str, float | None] = {} if value is None else {name: value}
    if spread is not None:
        metrics[f"{name}_std"] = spread
    return Measurement(workload=load, metrics=metrics, client=_TOOL, line=line)


def _sniff_json(source: Source) -> float:
    if not jsontext.looks_like_json(source.head):
        return 0.0
    keys = jsontext.keys_in(source.head)
    return 0.97 if {"build_commit", "n_prompt", "n_gen"} <= keys else 0.0


_NO_COMMA = re.compile(r'\](\s*)"(?=samples_)')  # between two arrays, as one fork's printer leaves it


def _read_json(source: Source) -> Reading:
    whole = _NO_COMMA.sub(r'],\1"', source.text)
    documents = jsontext.load(Source(source.path, raw=whole.encode(), name=source.name))
    rows = [(line, row) for line, one in documents.objects() if (row := _row_in(one)) is not None]
    return _read_rows(source, "llama_bench_json", rows, documents.problems)


def _row_in(one: Mapping[str, Any]) -> dict[str, Any] | None:
    """A result row: the object itself, or the one that a harness keeps whole under a key of its own."""
    for row in (one, *(inner for inner in one.values() if isinstance(inner, dict))):
        if "n_prompt" in row and ("avg_ts" in row or "avg_gen_ts" in row):
            return dict(row)
    return None


def _sniff_csv(source: Source) -> float:
    return 0.97 if re.match(r'^\ufeff?"?build_commit"?,"?build_number"?,', source.head) else 0.0


def _read_csv(source: Source) -> Reading:
    table = tables.delimited(source.text) or [[]]
    header = table[0]
    full = [(line, row) for line, row in enumerate(table[1:], 2) if len(row) > 1]
    rows = [(line, _aligned(header, row)) for line, row in full]
    cut = [line for line, row in rows if not _is_whole(row)]
    odd = [line for line, row in full if len(row) != len(header) and line not in cut]
    what = f"{len(odd)} rows have not the header's {len(header)} values; they were read from both ends"
    problems = [Problem(line=odd[0], what=what)] if odd else []
    problems += [Problem(line=line, what="the row breaks off") for line in cut[:20]]
    return _read_rows(source, "llama_bench_csv", [one for one in rows if _is_whole(one[1])], problems)


def _is_whole(row: Mapping[str, Any]) -> bool:
    """Whether the columns at the row's end hold what they are named for."""
    dated = re.match(r"\d{4}-\d\d-\d\dT", str(row.get("test_time", "")))
    return bool(dated) and cells.number(row.get("avg_ts", row.get("avg_gen_ts"))) is not None


def _aligned(header: list[str], row: list[str]) -> dict[str, Any]:
    """Columns were added in the middle over time: a row of another release agrees at both ends."""
    if len(row) == len(header):
        return dict(zip(header, row, strict=True))
    flags = header.index("cpu_info") if "cpu_info" in header else 0
    if 0 < flags < len(row) and re.fullmatch(r"\d*", row[flags]):  # among the flags of back ends
        return dict(zip(header[:2], row[:2], strict=True)) | dict(
            zip(reversed(header[flags:]), reversed(row), strict=False)
        )
    start = header.index("n_threads") + 1 if "n_threads" in header else 8
    end = len(header) - header.index("n_prompt") if "n_prompt" in header else 8
    return dict(zip(header[:start], row[:start], strict=False)) | dict(
        zip(header[-end:], row[-end:], strict=False)
    )


_INSERT = re.compile(r"^INSERT INTO \w+ \((?P<names>[^)]*)\) VALUES \((?P<values>.*)\);\s*$", re.IGNORECASE)


@needing("llama_bench (", "INSERT INTO")
def _sniff_sql(source: Source) -> float:
    return (
        0.97
        if re.search(
            r"^(?:CREATE TABLE IF NOT EXISTS|INSERT INTO) (?:llama_bench \(|\w+ \(\s*build_commit\b)",
            source.head,
            re.MULTILINE,
        )
        else 0.0
    )


def _read_sql(source: Source) -> Reading:
    rows = []
    for line, text in source.lines():
        found = _INSERT.match(text)
        if found:
            values = next(csv.reader([found["values"]], quotechar="'", skipinitialspace=True))
            rows.append((line, _aligned(re.split(r",\s*", found["names"]), values)))
    return _read_rows(source, "llama_bench_sql", rows, [])


def _read_rows(
    source: Source, form: str, rows: list[tuple[int, dict[str, Any]]], problems: list[Problem]
) -> Reading:
    if not rows:
        raise Unreadable("no result row with n_prompt, n_gen and avg_ts")
    first = rows[0][1]
    known = {
        "build": f"{first.get('build_commit')} ({first.get('build_number')})",
        "cpu": first.get("cpu_info"),
        "gpu_info": first.get("gpu_info"),
    }
    known["model_types"] = sorted({str(row.get("model_type")) for _, row in rows if row.get("model_type")})
    return benchmark(
        source,
        form,
        grouped([(_row_facts(row), _row_point(row, line)) for line, row in rows]),
        tool=_TOOL,
        tool_version=_release(first.get("build_number")),
        problems=problems,
        extra={key: value for key, value in known.items() if value},
    )


def _row_facts(row: Mapping[str, Any]) -> Facts:
    name = str(row.get("model_filename") or "")
    gpu = str(row.get("gpu_info") or "").strip() or None
    return Facts(
        model=PurePath(name).name.removesuffix(".gguf") or str(row.get("model_type") or "") or None,
        gpu=gpu,
        gpu_count=len(gpu.split(",")) if gpu else None,
        engine="llama.cpp",
        engine_version=_release(row.get("build_number")),
        settings=settings_of({key: row.get(key) for key in _OPTIONS if key in row}),
        started=str(row["test_time"]) if row.get("test_time") else None,
    )


def _row_point(row: Mapping[str, Any], line: int | None) -> Measurement:
    prompt, made, depth = (int(cells.number(row.get(key)) or 0) for key in ("n_prompt", "n_gen", "n_depth"))
    test = "+".join(name for name, n in ((f"pp{prompt}", prompt), (f"tg{made}", made)) if n)
    point = _speed(
        test + (f" @ d{depth}" if depth else ""),
        cells.number(row.get("avg_ts")),
        cells.number(row.get("stddev_ts")),
        line,
    )
    elapsed = cells.number(row.get("avg_ns"))
    if elapsed is None:
        return replace(point, metrics={**point.metrics, **_phases(row, prompt, made)})
    return replace(point, metrics={**point.metrics, "e2e_ms_mean": elapsed / 1e6})


def _phases(row: Mapping[str, Any], prompt: int, made: int) -> dict[str, float | None]:
    """Speeds of a fork that times the two phases of a test apart; a phase without tokens has none."""
    found: dict[str, float | None] = {}
    for phase, tokens, name in (("prompt", prompt, "input_tok_s"), ("gen", made, "output_tok_s")):
        if tokens and f"avg_{phase}_ts" in row:
            found[name] = cells.number(row[f"avg_{phase}_ts"])
            found[f"{name}_std"] = cells.number(row.get(f"stddev_{phase}_ts"))
    return {key: value for key, value in found.items() if value is not None}


FORMATS = [
    Format(
        name="llama_bench_md",
        kind="benchmark",
        sniff=_sniff_md,
        read=_read_md,
        version=4,
        docs=(
            "The Markdown tables of `llama-bench`, alone or in a report: every other column is "
            "a setting. `pp` rows become `input_tok_s`, `tg` rows "
            "`output_tok_s`, `pp+tg` rows `total_tok_s`; `± x` becomes `_std`; `@ d` is the depth. The "
            "build line after a table gives the version. Tables of `llama-batched-bench` in the same "
            "report are read too, as are the report's own tables of results, and an nvidia-smi block gives "
            "GPU and driver."
        ),
    ),
    Format(
        name="llama_bench_json",
        kind="benchmark",
        sniff=_sniff_json,
        version=2,
        read=_read_json,
        docs=(
            "`llama-bench -o json` or `-o jsonl`, old and new field lists: one point per object, with "
            "GPU, build and settings. Unknown fields are ignored."
        ),
    ),
    Format(
        name="llama_bench_csv",
        kind="benchmark",
        sniff=_sniff_csv,
        read=_read_csv,
        version=4,
        docs=("`llama-bench -o csv`: the same fields, every value quoted."),
    ),
    Format(
        name="llama_bench_sql",
        kind="benchmark",
        sniff=_sniff_sql,
        read=_read_sql,
        version=3,
        docs=("`llama-bench -o sql`: its INSERT statements, by the column names that each of them lists."),
    ),
]
