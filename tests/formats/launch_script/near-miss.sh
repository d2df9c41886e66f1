#!/bin/bash
set -e
pip install vllm
echo done
