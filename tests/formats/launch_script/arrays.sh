#!/usr/bin/env bash
ARGS=(
  --model-path meta-llama/Llama-3.1-8B-Instruct
  --tp-size 4
  --mem-fraction-static 0.85
)
ARGS+=(--chunked-prefill-size 8192)
python3 -m sglang.launch_server "${ARGS[@]}"
