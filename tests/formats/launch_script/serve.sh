#!/usr/bin/env bash
set -euo pipefail
export VLLM_USE_FLASHINFER_MOE_FP4=1
MODEL=nvidia/GLM-5-NVFP4
# start
vllm serve "$MODEL" \
  --tensor-parallel-size ${TP:-8} \
  --kv-cache-dtype fp8 \
  --port 30000 2>&1 | tee log.txt
