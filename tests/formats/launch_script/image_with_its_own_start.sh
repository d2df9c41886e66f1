#!/usr/bin/env bash
set -euo pipefail
IMAGE=${IMAGE:-ghcr.io/acme/sglang-granit:v0.8.1}
TP_SIZE=${TP_SIZE:-2}
docker run --rm --entrypoint sglang --gpus all \
  --env SGLANG_ENABLE_SPEC_V2=1 \
  "$IMAGE" \
  serve \
  --model-path /models/acme/Granit-8B \
  --tensor-parallel-size "$TP_SIZE" \
  --mem-fraction-static 0.93 \
  --port 31000
