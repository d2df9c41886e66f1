#!/bin/sh
# Ingest the demo runs into a store of their own, list them, and ask what to run next.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
kbctl="${BIN:-.venv/bin}/kbctl"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export KBCTL_STORE="$work/kb.duckdb"

say() { printf '\n$ kbctl %s\n' "$*"; }

say "ingest tests/data/demo/runs"
"$kbctl" ingest "$here/runs"

say "runs"
"$kbctl" runs

say "recommend --gpu h200 --model qwen3-1p4b"
"$kbctl" recommend --gpu h200 --model qwen3-1p4b
