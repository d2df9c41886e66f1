#!/usr/bin/env bash
docker run --rm --gpus all --ipc=host \
  --entrypoint vllm \
  vllm/vllm-openai:v0.11.0 \
  serve openai/gpt-oss-20b --max-model-len 32768 --port 8000
