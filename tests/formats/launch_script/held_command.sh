#!/usr/bin/env bash
# The command is put together in a variable.
MODEL="Qwen/Qwen3-32B"
TP=2
CMD="vllm serve ${MODEL} --tensor-parallel-size ${TP} --gpu-memory-utilization 0.92"
echo "starting: $CMD"
eval "$CMD"
