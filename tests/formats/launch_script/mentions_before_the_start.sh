#!/usr/bin/env bash
LLAMA_SERVER="/opt/llama.cpp/build/bin/llama-server"
stop_server() {
    pkill -f 'sglang.launch_server' 2>/dev/null || true
}
command -v "${LLAMA_SERVER}" || exit 1
stop_server
python3 -m sglang.launch_server --model-path amd/GLM-5.2-MXFP4 --tp 8 \
    --dist-init-addr ${NODE_IP[0]}:5000 --mem-fraction-static 0.85
