# make demo: set up and run the main job on the bundled runs. make test: set up and pass the tests.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test bench bench-replay peers docs lint check

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

demo: $(VENV)/.ready
	@BIN=$(BIN) sh tests/data/demo/demo.sh

test: $(VENV)/.ready
	$(BIN)/python -m pytest -n 2

# BENCH_ARGS: --mb 1000, --drain-python PATH, or the inputs to run (sglang vllm trace json small).
bench: $(VENV)/.ready
	$(BIN)/python benchmarks/speed.py $(BENCH_ARGS)

# Every figure of docs/recommender.md again, from committed data.
bench-replay: $(VENV)/.ready
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/bench_replay.py
	$(BIN)/python benchmarks/recommender_page.py

# Ask the other optimisers anew (some 40 minutes of CPU, packages of several GB): make peers PEERS=smac
PEERS ?= optuna smac baybe
peers:
	@set -e; for peer in $(PEERS); do \
	  test -x .peers/$$peer/bin/python || $(PYTHON) -m venv .peers/$$peer; \
	  pins=$$(PYTHONPATH=.:benchmarks $(BIN)/python benchmarks/ask_peers.py $$peer --pins); \
	  .peers/$$peer/bin/python -m pip install --quiet $$pins; \
	  OMP_NUM_THREADS=1 PYTHONPATH=. .peers/$$peer/bin/python benchmarks/ask_peers.py $$peer; \
	done

docs: $(VENV)/.ready
	$(BIN)/python -m ingest.formats_page > docs/.formats.md && mv docs/.formats.md docs/formats.md

lint: $(VENV)/.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test
