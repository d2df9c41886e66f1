"""Read the public measurements that ship with the package.

Owns the files in ``records/measurements``: where they are and what their columns mean. Standard library only,
because ``recommend`` reads them at start-up. Must not judge what bears on a question.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kb.knowledge import shipped_folder
from kb.vocab.gpus import Gpu, arch_of, find_gpu, sibling_of
from kb.vocab.models import ModelEntry

ENGINES = {"trtllm": "tensorrt-llm"}
GPUS = {
    # the table's label -> product name of the catalog
    "a100_sxm": "NVIDIA A100-SXM4-80GB",
    "b200_sxm": "NVIDIA B200",
    "b300_sxm": "NVIDIA B300 SXM6 AC",
    "gb200": "NVIDIA GB200",
    "gb300": "NVIDIA GB300",
    "h100_sxm": "NVIDIA H100 80GB HBM3",
    "h200_sxm": "NVIDIA H200",
    "l40s": "NVIDIA L40S",
    "rtx_pro_6000_server": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
}


PHASES = ("prefill", "decode")


class ServingPoint(NamedTuple):
    """One published configuration at one load; latencies in ms, ``gpus`` 0 where the source is unclear.

    ``precision`` is the source's word (``fp8``, ``fp4``, ``int4``, ``bf16`` or empty); ``low``/``high`` are
    output tokens per second over ``n`` repeated measurements.
    """

    gpu: str
    gpus: int
    model: str
    engine: str
    version: str | None
    precision: str
    mode: str
    tp: int
    pp: int
    dp: int
    moe_tp: int
    ep: int
    split: str
    input_len: int
    output_len: int
    concurrency: int
    ttft_ms: float
    tpot_ms: float
    n: int
    low: float
    high: float
    date: str | None

    @property
    def output_tok_s(self) -> float:
        """Output tokens per second of all requests together, derived from the latencies."""
        return (
            1000 * self.concurrency * self.output_len / (self.ttft_ms + (self.output_len - 1) * self.tpot_ms)
        )

    @property
    def id(self) -> str:
        """A stable name: ``serving:`` and a hash of what was measured (not of the result)."""
        key = (self.gpu, self.gpus, self.model, self.engine, self.version, self.precision, self.mode, self.tp)
        more = (
            self.pp,
            self.dp,
            self.moe_tp,
            self.ep,
            self.split,
            self.input_len,
            self.output_len,
            self.concurrency,
        )
        import hashlib  # noqa: PLC0415 - only where a point is shown

        return "serving:" + hashlib.blake2b(repr(key + more).encode(), digest_size=4).hexdigest()


def folder() -> Path:
    """The folder of measurement files, in a wheel or in a checkout."""
    return shipped_folder() / "measurements"


def serving(
    models: Iterable[str] | None = None, gpus: Container[str] | None = None
) -> Iterator[ServingPoint]:
    """Published serving points; with ``models``, only of checkpoints whose lower-case name contains one, and
    with ``gpus`` only of these products."""
    path = folder() / "serving.tsv"
    if not path.is_file():
        return
    header, _, body = path.read_text(encoding="utf-8").partition("\n")
    place = {name: index for index, name in enumerate(header.split("\t"))}
    wanted = None if models is None else tuple(name.lower() for name in models)
    for line in body.splitlines() if wanted is None else _lines_with(wanted, body):
        cells = line.split("\t")
        if gpus is not None and GPUS.get(cells[place["hw"]], cells[place["hw"]]) not in gpus:
            continue
        if wanted is None or any(name in cells[place["model"]].lower() for name in wanted):
            yield _point({name: cells[index] for name, index in place.items()})


def _lines_with(words: Iterable[str], text: str) -> Iterator[str]:
    """The lines that hold one of the words, found by scanning the text instead of taking each line apart."""
    lower = text.lower()
    begins = set()
    for word in words:
        at = lower.find(word)
        while at >= 0:
            begins.add(lower.rfind("\n", 0, at) + 1)
            end = lower.find("\n", at)
            at = lower.find(word, end) if end >= 0 else -1
    for begin in sorted(begins):
        end = text.find("\n", begin)
        yield text[begin:end] if end >= 0 else text[begin:]


def _point(row: Mapping[str, str]) -> ServingPoint:
    sizes = {name: int(row[name] or 0) or 1 for name in ("tp", "pp", "dp", "ep")}
    return ServingPoint(
        gpu=GPUS.get(row["hw"], row["hw"]),
        gpus=int(row["gpus"] or 0),
        model=row["model"],
        engine=ENGINES.get(row["engine"], row["engine"]),
        version=row["version"] or None,
        precision=row["precision"],
        mode=row["mode"],
        moe_tp=int(row["moe_tp"] or 0),
        split=row["split"],
        input_len=int(row["isl"]),
        output_len=int(row["osl"]),
        concurrency=int(row["concurrency"]),
        ttft_ms=float(row["ttft_ms"]),
        tpot_ms=float(row["tpot_ms"]),
        n=int(row["n"]),
        low=float(row["low_tok_s"]),
        high=float(row["high_tok_s"]),
        date=row["date"] or None,
        **sizes,
    )


class KernelTimes(NamedTuple):
    """One kernel on one GPU for one layer shape: latency in ms by load (tokens, or batch x length)."""

    gpu: str
    role: str
    engine: str
    kernel: str
    source: str
    version: str | None
    dtype: str
    shape: Mapping[str, str]
    times: Mapping[str, float]


def kernel_times(gpu: Gpu | None, entry: ModelEntry | None) -> tuple[KernelTimes, ...]:
    """Measured times of the kernels that a model has work for, on this product or the nearest of its kind.

    Experts: those of its shape. Attention: the head layouts of one rank of 1 to 8; none if it is latent.
    """
    label = measured_product(gpu) if gpu else None
    if label is None or entry is None:
        return ()
    shape = (entry.hidden, entry.expert_intermediate, entry.top_k, entry.experts)
    experts = moe_kernels(label, *shape) if entry.experts else ()
    heads, kv_heads, width = entry.heads, entry.kv_heads, entry.head_dim
    if not heads or not kv_heads or not width or entry.kv_lora_rank:
        return experts
    ranks = [size for size in (1, 2, 4, 8) if heads % size == 0]
    layouts = dict.fromkeys((heads // size, max(kv_heads // size, 1)) for size in ranks)
    found = [attention_kernels(label, phase, *one, width) for phase in PHASES for one in layouts]
    return (*experts, *(times for rows in found for times in rows))


def measured_product(gpu: Gpu) -> str | None:
    """The tables' label of a product: itself, else the nearest of its architecture, else of the sibling."""
    itself = next((label for label, name in GPUS.items() if name == gpu.name), None)
    measured = {} if itself else {label: find_gpu(name) for label, name in GPUS.items()}
    apart = {
        label: (one.arch != gpu.arch, abs((one.bandwidth_gb_s or 0) - (gpu.bandwidth_gb_s or 0)), label)
        for label, one in measured.items()
        if one and one.arch in (gpu.arch, sibling_of(gpu.arch or ""))
    }
    return itself or min(apart, key=apart.__getitem__, default=None)


def moe_kernels(
    label: str, hidden: int | None, intermediate: int | None, top_k: int | None, experts: int | None
) -> tuple[KernelTimes, ...]:
    """MoE kernels of one of the tables' GPUs for one expert shape; empty where none was measured."""
    prefix = f"\n{label}\t{hidden}\t{intermediate}\t{top_k}\t{experts}\t"
    shape = ("hidden", "intermediate", "topk", "experts", "tp", "ep")
    return tuple(_times(row, "moe", row["dtype"], shape) for row in _rows("moe_kernels.tsv", prefix))


def attention_kernels(
    label: str, phase: str, heads: int, kv_heads: int, head_dim: int
) -> tuple[KernelTimes, ...]:
    """Attention kernels of one of the tables' GPUs for one head layout, in ``prefill`` or ``decode``."""
    prefix = f"\n{label}\t{phase}\t{heads}\t{kv_heads}\t{head_dim}\t"
    shape = ("heads", "kv_heads", "head_dim", "kv_dtype")
    rows = _rows("attention_kernels.tsv", prefix)
    return tuple(_times(row, f"attention.{phase}", row["dtype"], shape) for row in rows)


def _rows(name: str, prefix: str) -> Iterator[dict[str, str]]:
    text = _text(name)
    header = text[: text.find("\n")].split("\t")
    start = text.find(prefix)
    while start >= 0:
        end = text.find("\n", start + 1)
        yield dict(zip(header, text[start + 1 : end].split("\t"), strict=True))
        # The file is sorted: the first line that does not fit ends the block.
        start = end if text.startswith(prefix, end) else -1


def _times(row: Mapping[str, str], role: str, dtype: str, shape: Iterable[str]) -> KernelTimes:
    loads = list(row)[list(row).index("version") + 1 :]
    return KernelTimes(
        gpu=GPUS.get(row["hw"], row["hw"]),
        role=role,
        engine=ENGINES.get(row["engine"], row["engine"]),
        kernel=row["kernel"],
        source=row["source"],
        version=row["version"] or None,
        dtype=dtype,
        shape={name: row[name] for name in shape},
        times={load: float(row[load]) for load in loads if row[load]},
    )


@cache
def _text(name: str) -> str:
    path = folder() / name
    return path.read_text(encoding="utf-8") if path.is_file() else "\n"


def writeups() -> tuple[Mapping[str, Any], ...]:
    """Measured points of write-ups, as ``writeups.json`` gives them (unknown versions and dates are null)."""
    path = folder() / "writeups.json"
    if not path.is_file():
        return ()
    content = json.loads(path.read_text(encoding="utf-8"))
    return tuple(content["points"] if isinstance(content, dict) else content)


def fitted_model(store: Path | None = None) -> Mapping[str, Any] | None:
    """The fitted model: the user's own beside the store (``kbctl fit``), else the one that ships.

    An own model from before chances were learned gets the chances that ship.
    """
    shipped = folder() / "model.json"
    own, known = store and own_model_path(store), None
    for path in (own, shipped):
        if path is not None and path.is_file():
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            known = found if known is None else {**known, "chance": found.get("chance")}
            if "chance" in known:
                break
    return known


def own_model_path(store: Path) -> Path:
    """Where ``kbctl fit`` leaves the model of a store."""
    return store.with_name(store.name + ".model.json")


def known_about(
    arch: str | None, gpu: Gpu | None, entry: ModelEntry | None, store: Path | None
) -> dict[str, Any]:
    """What ships about one GPU and model: fitted model, serving points, kernel times, write-ups, steps.

    Serving points are those of GPUs of the architecture and its sibling.
    """
    here = {
        one
        for one in GPUS.values()
        if arch and (found := arch_of(one)) and arch in (found, sibling_of(found))
    }
    names = [] if entry is None else [one.rpartition("/")[2] for one in (entry.id, *entry.hub_ids)]
    return {
        "model": fitted_model(store),
        "serving": tuple(serving(names, here)) if names else (),
        "kernels": kernel_times(gpu, entry),
        "writeups": writeups(),
        "interventions": _vocabulary("interventions.json"),
        "proofs": _vocabulary("proofs.json"),
    }


def _vocabulary(name: str) -> Mapping[str, Any]:
    path = Path(__file__).with_name("vocab") / name
    content: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def sources() -> Mapping[str, Mapping[str, str]]:
    """Licence, attribution, origin and changes by file name."""
    path = folder() / "sources.json"
    content: Mapping[str, Mapping[str, str]] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return content
