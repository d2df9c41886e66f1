#!/usr/bin/env bash
vllm serve "$MODEL" --tensor-parallel-size "$TP" --max-model-len 8192
