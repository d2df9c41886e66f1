"""Distil the public measurement tables into the small form that ships in ``records/measurements/``.

Owns what is kept, what is repaired and what is dropped (each counted on stderr). Usage:

    python benchmarks/distill.py TABLES_DIR [OUT_DIR]

TABLES_DIR holds ``e2e_serving_silicon.parquet``, ``moe_kernel_choice.parquet`` and
``attention_kernel_choice.parquet``. The output is sorted tab-separated text, so that a change of one number
is one changed line and that the reading path needs nothing but the standard library.
"""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb

SERVING = """
with cleaned as (
  select *,
    -- The version of a Dynamo image is Dynamo's own, not the engine's.
    case when container_image like '%ai-dynamo%' then null else engine_version end as version,
    -- The dump names one checkpoint after its base model; the numbers are identical to DeepSeek-R1's rows.
    case when source_batch = 'db-dump/2026-04-27' and model = 'deepseek-ai/DeepSeek-V3'
         then 'deepseek-ai/DeepSeek-R1' else model end as checkpoint,
    -- Some batches multiplied the expert-parallel size in twice (tp 64 = 8 x 8 on an 8-GPU node).
    serving_mode = 'agg' and moe_tp_size = moe_ep_size and moe_ep_size > 1
      and coalesce(tp_size, 1) * coalesce(attention_dp_size, 1) = moe_tp_size * moe_ep_size as squared
  from read_parquet('{tables}/e2e_serving_silicon.parquet')
  where concurrency is not null and ttft_ms > 0 and tpot_ms > 0
), repaired as (
  select *,
    case when squared and tp_size > 1 then moe_ep_size else tp_size end as tp,
    case when squared and attention_dp_size > 1 then moe_ep_size else attention_dp_size end as dp,
    case when squared then 1 else moe_tp_size end as moe_tp,
    moe_ep_size as ep,
    case when squared then moe_ep_size
         -- tensor ranks and attention replicas given as equal numbers: one of them, or their product?
         when serving_mode = 'agg' and attention_dp_size = tp_size and tp_size > 1 then null
         when serving_mode = 'agg' and n_gpus_est > 8 then null
         else n_gpus_est end as gpus,
    case when serving_mode = 'agg' then '' else concat_ws(' ',
      concat('p', coalesce(prefill_num_workers::varchar, '?'), 'x', coalesce(prefill_tp_size::varchar, '?'),
             '/', coalesce(prefill_attention_dp_size::varchar, '?'),
             '/', coalesce(prefill_moe_ep_size::varchar, '?')),
      concat('d', coalesce(decode_num_workers::varchar, '?'), 'x', coalesce(decode_tp_size::varchar, '?'),
             '/', coalesce(decode_attention_dp_size::varchar, '?'),
             '/', coalesce(decode_moe_ep_size::varchar, '?'))
    ) end as split
  from cleaned
), once as (
  -- The batches overlap: equal numbers at one load are one measurement, whatever else a batch says of it.
  select hw, isl, osl, concurrency, round(ttft_ms, 5) as ttft, round(tpot_ms, 7) as tpot,
    min(checkpoint) as model, min(engine) as engine, min(version) as version, min(precision) as precision,
    min(gemm_quant_mode) as gemm, min(moe_quant_mode) as moe, min(serving_mode) as mode, min(tp) as tp,
    min(pp_size) as pp, min(dp) as dp, min(moe_tp) as moe_tp, min(ep) as ep, min(gpus) as gpus,
    min(split) as split,
    min(measured_date) as date, count(*) as copies
  from repaired group by 1, 2, 3, 4, 5, 6
)
select coalesce(max(date)::varchar, '') as date, hw, coalesce(gpus::varchar, '') as gpus, model, engine,
  coalesce(version, '') as version, coalesce(precision, '') as precision, coalesce(gemm, '') as gemm,
  coalesce(moe, '') as moe, mode, coalesce(tp::varchar, '') as tp, coalesce(pp::varchar, '') as pp,
  coalesce(dp::varchar, '') as dp, coalesce(moe_tp::varchar, '') as moe_tp,
  coalesce(ep::varchar, '') as ep, split,
  isl, osl, concurrency, printf('%.6g', median(ttft)) as ttft_ms, printf('%.6g', median(tpot)) as tpot_ms,
  count(*) as n, printf('%.4g', min(concurrency * osl / ((ttft + (osl - 1) * tpot) / 1000))) as low_tok_s,
  printf('%.4g', max(concurrency * osl / ((ttft + (osl - 1) * tpot) / 1000))) as high_tok_s
from once
group by hw, gpus, model, engine, version, precision, gemm, moe, mode, tp, pp, dp, moe_tp, ep, split,
  isl, osl, concurrency
order by all
"""

MOE_KERNEL = """
case when kernel_source in ('moe_torch_flow', 'vllm_mxfp4_moe', 'vllm_xpu_moe') then '?'
     when kernel_source like '%marlin%' then 'marlin'
     when kernel_source like '%deepgemm%' then 'deepgemm'
     when kernel_source like '%oaitriton%' then 'triton-kernels'
     when kernel_source like '%min_latency%' or kernel_source like '%trtllm_%'
       or kernel_source like '%trtllm' then 'trtllm-gen'
     when kernel_source like '%cutlass%' then 'cutlass'
     when kernel_source like '%triton%' or kernel_source = 'vllm_fused_moe' then 'triton'
     else '?' end
"""

MOE = """
select hw, hidden_size as hidden, inter_size as intermediate, topk, num_experts as experts, dtype,
  moe_tp_size as tp,
  moe_ep_size as ep, engine, {kernel} as kernel, kernel_source as source, max(engine_version) as version,
  {cells}
from read_parquet('{tables}/moe_kernel_choice.parquet')
-- The "nongated" rows time half of the work of the gated ones beside them.
where kernel_source not like '%nongated%' and num_tokens in ({tokens})
group by all order by all
"""

ATTENTION_KERNEL = """
case when kernel_source like '%fa3%' then 'fa3' when kernel_source like '%fa2%' then 'fa2'
     when kernel_source like '%trtllm%' then 'trtllm-gen' when kernel_source = 'triton' then 'triton'
     when kernel_source like '%fiprefill%' or kernel_source like '%fidecode%' then 'fi-fa2'
     when kernel_source like '%flash_attn%' or kernel_source = 'flash_attention' then 'fa2'
     when kernel_source = 'flashinfer' then 'fi-fa2' else '?' end
"""

ATTENTION = """
select hw, case phase when 'context' then 'prefill' else 'decode' end as phase, num_heads as heads,
  kv_heads, head_dim,
  attn_dtype as dtype, kv_cache_dtype as kv_dtype, engine, {kernel} as kernel, kernel_source as source,
  max(engine_version) as version, {cells}
from read_parquet('{tables}/attention_kernel_choice.parquet')
where (phase = 'context' and batch_size || 'x' || isl in ({prefill}))
   or (phase = 'generation' and batch_size || 'x' || (step + 1) in ({decode}))
group by all having count(*) > 3 order by all
"""

TUNER = """
copy (
  select kernel, gpu, config_json, outcome, printf('%.6g', time_ms) as time_ms
  from read_parquet('{tables}/kernel_tuner_hub.parquet')
  where kernel in ('convolution', 'dedispersion') order by all
) to '{out}' (format csv, delimiter '\t', header, compression gzip, quote '', escape '')
"""

TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384)
PREFILL = ("1x512", "1x2048", "1x8192", "8x512", "8x2048")
DECODE = ("1x1024", "1x8192", "16x1024", "16x8192", "64x1024", "64x8192", "256x1024")


def main(tables: Path, out: Path) -> None:
    """Write the three tables into ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    duckdb.sql("set threads = 1")
    write(out / "serving.tsv", SERVING.format(tables=tables))
    write(out / "moe_kernels.tsv", moe_query(tables))
    write(out / "attention_kernels.tsv", attention_query(tables))
    # Not about serving and not in the wheel: a check of the search policy only.
    duckdb.sql(TUNER.format(tables=tables, out=Path("benchmarks/replay/kernel_tuner.tsv.gz")))


def moe_query(tables: Path) -> str:
    """One row per series, one column per token count."""
    cells = ", ".join(cell(f"num_tokens = {tokens}", f"t{tokens}") for tokens in TOKENS)
    return MOE.format(tables=tables, kernel=MOE_KERNEL, cells=cells, tokens=", ".join(map(str, TOKENS)))


def attention_query(tables: Path) -> str:
    """One row per series, one column per batch x length (a series fills only its own phase's)."""
    prefill = [
        cell(f"phase = 'context' and batch_size || 'x' || isl = '{point}'", f"p{point}") for point in PREFILL
    ]
    decode = [
        cell(f"phase <> 'context' and batch_size || 'x' || (step + 1) = '{point}'", f"d{point}")
        for point in DECODE
    ]
    return ATTENTION.format(
        tables=tables,
        kernel=ATTENTION_KERNEL,
        cells=", ".join(prefill + decode),
        prefill=quoted(PREFILL),
        decode=quoted(DECODE),
    )


def cell(condition: str, name: str) -> str:
    """The latency in milliseconds where ``condition`` holds, with four digits; empty where not measured."""
    return f"coalesce(printf('%.4g', min(latency_ms) filter ({condition})), '') as {name}"


def quoted(points: tuple[str, ...]) -> str:
    return ", ".join(f"'{point}'" for point in points)


def write(path: Path, query: str) -> None:
    """The query's rows as tab-separated text with a header line."""
    rows = duckdb.sql(query)
    with path.open("w", encoding="utf-8", newline="\n") as sink:
        sink.write("\t".join(rows.columns) + "\n")
        count = 0
        for row in rows.fetchall():
            sink.write("\t".join("" if value is None else str(value) for value in row) + "\n")
            count += 1
    print(f"{path.name}: {count} rows, {path.stat().st_size / 1e6:.2f} MB", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) == 3 else Path("records/measurements"))
